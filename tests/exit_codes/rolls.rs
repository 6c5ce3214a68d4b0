//! Rolls between two versions under load: each version follows the other on the same data while members go on asking.
//!
//! Guarantee: each mention gets exactly one answer, whether its process drains or is killed, in both directions of the roll.
//!
//! Without `STAFFAI_EARLIER` both versions are this build. With it, the other one is the program at that path:
//! `STAFFAI_EARLIER=path/to/staffai STAFFAI_ROLLS=100 cargo test --all-features --test exit_codes rolls -- --nocapture`.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::guild::ids::MessageId;
use playground::service::{Options, Service};
use ports::Clock as _;
use staffai::app::exit;
use staffai::app::system::SystemClock;
use tokio::time::Instant;

use super::{Running, TIMEOUT, run};

/// The pause between two mentions.
const EVERY: Duration = Duration::from_millis(50);
/// The time that one process serves before the next one follows.
const SERVES: Duration = Duration::from_secs(1);
/// The bound on the wait for the last answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// The most mentions without an answer at a time, so that a slow machine is asked no faster than it answers.
const OPEN_MAX: usize = 40;
/// One roll of this many kills its process in place of a drain.
const KILLED_EACH: usize = 3;

/// The programs that take turns, and the number of rolls.
#[expect(clippy::disallowed_methods, reason = "the other version is named on demand")]
fn versions() -> ([String; 2], usize) {
    let this = env!("CARGO_BIN_EXE_staffai").to_owned();
    let earlier = std::env::var("STAFFAI_EARLIER").unwrap_or_else(|_| this.clone());
    let rolls = std::env::var("STAFFAI_ROLLS").ok().and_then(|rolls| rolls.parse().ok()).unwrap_or(4);
    ([earlier, this], rolls)
}

/// The command of `run` with another program.
fn by(version: &str, folder: &Path, service: &Service, model: &DemoModel) -> Command {
    let like = run(folder, service);
    let mut command = Command::new(version);
    command.args(like.get_args()).env_clear().current_dir(folder);
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("LITELLM_API_URL", model.base_url());
    for (name, value) in [
        ("RATE_LIMIT_COUNT", "1000"),
        ("TOKEN_RATE_LIMIT_COUNT", "100000000"),
        ("RATE_LIMIT_WINDOW_SECONDS", "1"),
        ("DISCORD_REQUESTS_PER_SECOND", "0"),
        ("STAFFAI_TURN__LANE", "1000"),
        ("STAFFAI_CATCH_UP__PER_CHANNEL", "1000"),
    ] {
        command.env(name, value);
    }
    command
}

/// The number of answers to each message of a member that mentions the bot.
fn answers(service: &Service) -> HashMap<MessageId, usize> {
    let bot = service.bot();
    let mut answers: HashMap<MessageId, usize> = HashMap::new();
    for message in service.channels().iter().flat_map(|channel| service.messages(channel.id)) {
        if message.author != bot && message.content.starts_with("<@") {
            answers.entry(message.id).or_default();
        } else if let Some(question) = message.reply_to.filter(|_| message.author == bot) {
            *answers.entry(question).or_default() += 1;
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn each_version_follows_the_other_under_load_and_each_mention_is_answered_once() {
    let mut options = Options::new(Arc::new(|| SystemClock.now().0));
    let plenty = (100_000, Duration::from_secs(1));
    options.budgets.writes = plenty;
    options.budgets.reads = plenty;
    options.budgets.global = plenty;
    let (service, folder) = (Service::start(options).await.unwrap(), tempfile::tempdir().unwrap());
    let model = DemoModel::start(Duration::ZERO).await.unwrap();
    let (versions, rolls) = versions();

    let over = Arc::new(AtomicBool::new(false));
    let ask = {
        let (service, over) = (service.clone(), Arc::clone(&over));
        async move {
            let members: Vec<_> =
                service.members().into_iter().filter(|member| !member.bot).map(|one| one.id).collect();
            let channels: Vec<_> = service.channels().iter().map(|channel| channel.id).collect();
            let (mut asked, mut answered) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                if asked - answered >= OPEN_MAX {
                    answered = answers(&service).values().filter(|times| **times > 0).count();
                    tokio::time::sleep(EVERY).await;
                    continue;
                }
                let channel = channels[asked % channels.len()];
                let text = format!("<@{}> what is {asked} + 1", service.bot());
                let _ = service.says(members[asked % members.len()], channel, &text, None);
                asked += 1;
                tokio::time::sleep(EVERY).await;
            }
            asked
        }
    };
    // Mentions from before the first connection are none of this bot's.
    let mut bot = Running::start(by(&versions[1], folder.path(), &service, &model), folder.path());
    bot.says("gateway.ready", 1).await;
    let asking = tokio::spawn(ask);

    let mut longest = Duration::ZERO;
    for roll in 0..rolls {
        tokio::time::sleep(SERVES).await;
        let left = Instant::now();
        if roll % KILLED_EACH == KILLED_EACH - 1 {
            bot.signal("-KILL");
            let _ = bot.code(TIMEOUT).await;
        } else {
            bot.signal("-TERM");
            assert_eq!(bot.code(TIMEOUT).await, Some(i32::from(exit::FINE)));
        }
        bot = Running::start(by(&versions[roll % 2], folder.path(), &service, &model), folder.path());
        bot.says("gateway.re", 1).await;
        longest = longest.max(left.elapsed());
    }
    tokio::time::sleep(SERVES).await;
    over.store(true, Ordering::Relaxed);
    let asked = tokio::time::timeout(TIMEOUT, asking).await.unwrap().unwrap();
    let until = Instant::now() + ANSWER_TIMEOUT;
    while answers(&service).values().filter(|times| **times > 0).count() < asked && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answers = answers(&service);
    let lost = answers.values().filter(|times| **times == 0).count();
    let doubled = answers.values().filter(|times| **times > 1).count();
    println!("{rolls} rolls, {asked} mentions: lost {lost}, doubled {doubled}, longest gap {longest:?}");
    let log = std::fs::read_to_string(&bot.log).unwrap();
    assert_eq!((answers.len(), lost, doubled), (asked, 0, 0), "{log}");
    assert!(!log.contains("store.corrupt"), "{log}");
    bot.signal("-TERM");
    assert_eq!(bot.code(TIMEOUT).await, Some(i32::from(exit::FINE)));
}
