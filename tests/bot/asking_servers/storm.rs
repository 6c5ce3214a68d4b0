//! Many tasks with questions, while the bot is killed at random.
//!
//! `./test` runs a short form. The figures of the document are those of
//! `TASK_STORM=1000 cargo test --locked --workspace --all-features --test bot -- storm --nocapture`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use playground::guild::Message;
use playground::guild::ids::{MessageId, UserId};
use playground::interactions::Interact;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::time::Instant;

use super::server::Asker;
use super::{buttons, not_begun};
use crate::support::{Said, World, story_within};

/// The tasks without the variable.
const SHORT: usize = 40;
/// The tasks for each kill, and the most kills.
const TASKS_A_KILL: usize = 20;
const KILLS_MAX: usize = 25;
/// The channels of the questions.
const CHANNELS: [&str; 3] = ["general", "help", "random"];
/// The members who wait for an answer at a time, at least; a task takes about five seconds.
const AT_ONCE: usize = 20;

/// The number of tasks; `TASK_STORM` sets another one.
#[expect(clippy::disallowed_methods, reason = "a person who wants the figures sets it")]
fn many() -> usize {
    std::env::var("TASK_STORM").ok().and_then(|many| many.parse().ok()).unwrap_or(SHORT)
}

#[test]
fn tasks_with_questions_survive_kills_and_none_runs_again_or_is_orphaned() {
    let many = many();
    story_within(Duration::from_secs(90 + many as u64), async move {
        let asker = Asker::start().await;
        asker.state().works = Duration::from_secs(2);
        let variables = [("STAFFAI_TURN__DEADLINE", "30s"), ("STAFFAI_LLM__TIMEOUT", "20s")];
        let world = not_begun(&asker, &variables).await;
        world.crowd(many as u64);
        let ids: HashMap<String, UserId> =
            world.service.members().into_iter().map(|member| (member.name, member.id)).collect();
        let members: Vec<UserId> = (0..many).map(|number| ids[&format!("member-{number}")]).collect();
        let numbers: HashMap<String, usize> =
            members.iter().enumerate().map(|(number, id)| (id.to_string(), number)).collect();
        let mut random = rand::rngs::StdRng::seed_from_u64(7);
        let mut process = world.process("life-0").await;
        asker.listed(&world.http()).await;
        let (mut asked, mut lives): (BTreeMap<usize, Said>, usize) = (BTreeMap::new(), 0);
        let mut unanswered: Vec<usize> = Vec::new();
        let mut next_kill = Instant::now() + Duration::from_secs(2);
        loop {
            // One pass over the channels for all members, so that the whole takes no more than quadratic time.
            let spoken = spoken(&world);
            // A notice that tools are in use is no answer.
            let is_answer = |message: &&Message| !message.content.starts_with("One moment");
            let answered: HashSet<MessageId> =
                spoken.iter().filter(is_answer).filter_map(|message| message.reply_to).collect();
            // A few members ask at a time.
            unanswered.retain(|number| !answered.contains(&asked[number].id));
            let waiting = unanswered.len();
            for _ in waiting..AT_ONCE.max(many / 25).min(waiting + 5) {
                let number = asked.len();
                if number < many {
                    unanswered.push(number);
                    let text = format!("@staffai call survey w{number}");
                    asked.insert(
                        number,
                        world.says(&format!("member-{number}"), CHANNELS[number % CHANNELS.len()], &text),
                    );
                }
            }
            // Members answer the questions that stand in the channel, after another member tried.
            for message in spoken {
                let open = buttons(&message).into_iter().find(|(label, _)| label == "Answer");
                let Some((_, name)) = open else { continue };
                let mut mentioned = message.content.split("<@").filter_map(|text| numbers.get(text.split('>').next()?));
                let Some(&number) = mentioned.next() else { continue };
                let fill_in = |who: usize, city: String| {
                    let row = |name: &str, value: &str| json!({"type": 18, "component": {"type": 4, "custom_id": name, "value": value}});
                    let rows = vec![row("city", &city), row("nights", "2")];
                    let form = Interact::Form(name.replace(":open", ":once"), rows);
                    world.service.interacts(members[who], message.channel, form).expect("a known member");
                };
                fill_in((number + 1) % many, "wrong".to_owned());
                fill_in(number, format!("city-{number}"));
            }
            if asked.len() == many && waiting == 0 {
                break;
            }
            if Instant::now() >= next_kill && lives < many.div_ceil(TASKS_A_KILL).min(KILLS_MAX) {
                lives += 1;
                process.kill();
                world.service.disconnected(0).await;
                asker.state().restarts();
                process = world.process(&format!("life-{lives}")).await;
                next_kill = Instant::now() + Duration::from_millis(random.random_range(300..3_000));
            }
            tokio::time::sleep(Duration::from_millis(random.random_range(50..250))).await;
        }
        judge(&world, &asker, &asked, lives);
    });
}

/// Returns the bot's messages in all channels.
fn spoken(world: &World) -> Vec<Message> {
    CHANNELS.into_iter().flat_map(|channel| world.spoken(world.channel(channel))).collect()
}

/// Checks that each task ended once, with the answers of its own member.
fn judge(world: &World, asker: &Asker, asked: &BTreeMap<usize, Said>, lives: usize) {
    let (state, many) = (asker.state(), asked.len());
    let mut replies: HashMap<MessageId, Vec<String>> = HashMap::new();
    for Message { reply_to, content, .. } in spoken(world) {
        if let Some(trigger) = reply_to {
            replies.entry(trigger).or_default().push(content);
        }
    }
    let words: Vec<String> = asked.values().map(|said| replies[&said.id][0].clone()).collect();
    let right = |number: usize, words: &str| words == format!("job w{number} is done with city-{number}");
    let answered = words.iter().enumerate().filter(|(number, words)| right(*number, words)).count();
    let explained = words.iter().filter(|words| words.contains("may have happened")).count();
    let again: usize = (0..many).map(|number| state.created(&format!("w{number}")).saturating_sub(1)).sum();
    let doubled = asked.values().filter(|said| replies[&said.id].len() > 1).count();
    let wrong =
        state.tasks.values().filter(|task| task.answers.iter().any(|answer| answer["content"]["city"] == "wrong"));
    let wrong = wrong.count();
    let told = |word: &str| word[1..].parse().is_ok_and(|number: usize| !words[number].is_empty());
    let orphaned = state.tasks.values().filter(|task| !told(&task.word)).count();
    // A question that comes before the list of the server is read finds no tool, and one of many at that moment no room.
    let causes = ["there is no tool", "takes no more calls"];
    let [unlisted, no_room] = causes.map(|cause| words.iter().filter(|words| words.contains(cause)).count());
    let unknown = |words: &String| causes.iter().any(|cause| words.contains(cause));
    println!(
        "{many} tasks with questions, {lives} kills: {answered} answered, {explained} explained, not begun: {unlisted} unlisted, {no_room} without room; \
             run again {again}, orphaned {orphaned}, answered twice {doubled}, answers of others {wrong}"
    );
    let mut picked_up = state.picked_up.clone();
    picked_up.sort_unstable();
    let part = |percent: usize| picked_up.get((picked_up.len() * percent).div_ceil(100).saturating_sub(1));
    println!(
        "first poll of a working task after the start of the next process, of {}: p50 {:?}, p99 {:?}, worst {:?}",
        picked_up.len(),
        part(50).copied().unwrap_or_default(),
        part(99).copied().unwrap_or_default(),
        part(100).copied().unwrap_or_default(),
    );
    for (number, words) in words.iter().enumerate() {
        let begun = state.created(&format!("w{number}")) > 0;
        let explained = words.contains("may have happened") || (unknown(words) && !begun);
        assert!(right(number, words) || explained, "{number}: {words}");
    }
    assert_eq!((again, orphaned, doubled, wrong), (0, 0, 0, 0));
    let left = state.tasks.values().filter(|task| task.is_left()).count();
    assert_eq!(left, 0, "each task that worked is polled after a restart");
    assert!(lives > 0 && answered > many / 2);
}
