//! Overload: many members, one member too often, bots that answer bots, edits without end.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use playground::change::Change;
use playground::guild::Member;
use playground::guild::ids::{ChannelId, UserId};
use tokio::sync::watch;

use crate::model::Act;
use crate::support::{SOON, Said, Setup, World, story};

/// Number of members who ask at once.
const CROWD: u64 = 1_000;
/// Maximum number of the model's answers ahead of those posted.
const AHEAD: usize = 50;
/// Above any limit: these stories are not about limits of members.
const PLENTY: u32 = 100_000;

/// A model that answers only this many questions more than are visibly answered.
struct Pace {
    spare: usize,
    gates: Vec<watch::Sender<bool>>,
}

impl Pace {
    fn act(&mut self) -> Act {
        if self.spare > 0 {
            self.spare -= 1;
            return Act::says("done");
        }
        let (keeper, gate) = watch::channel(false);
        self.gates.push(keeper);
        Act::SaysWhen(gate, "done".into())
    }

    fn go_on(&mut self) {
        // A gate whose sender is gone counts as open.
        if self.gates.pop().is_none() {
            self.spare += 1;
        }
    }
}

/// A bot whose timeouts are longer than these stories.
fn patient() -> Setup {
    setup().set("STAFFAI_LLM__TIMEOUT", "100s").set("STAFFAI_TURN__DEADLINE", "100s")
}

fn setup() -> Setup {
    Setup::new().set("RATE_LIMIT_COUNT", PLENTY).set("TOKEN_RATE_LIMIT_COUNT", 100 * PLENTY)
}

/// Each member of a crowd asks once, spread over all channels.
fn all_members_ask(world: &World, many: u64) -> Vec<Said> {
    world.crowd(many);
    let channels: Vec<ChannelId> = world.service.channels().iter().map(|channel| channel.id).collect();
    let text = format!("<@{}> what is the time?", world.service.bot());
    let ask = |number: u64| {
        let channel = channels[usize::try_from(number).unwrap() % channels.len()];
        let id = world.service.says(UserId(800_000_000_000_000_000 + number), channel, &text, None);
        Said { id, channel }
    };
    (0..many).map(ask).collect()
}

#[test]
fn a_thousand_members_at_once_are_each_answered_once_and_none_waits_for_all_others() {
    story(async {
        let world = World::with(patient().set("STAFFAI_LLM__CONCURRENT", 4)).await;
        // The model stays at most this far ahead of the posts: if one member had to wait for all others, none would
        // ever be answered.
        let pace = Arc::new(Mutex::new(Pace { spare: AHEAD, gates: Vec::new() }));
        let kept = Arc::clone(&pace);
        world.model.does(move |_| kept.lock().act());
        let mut changes = world.service.subscribe();
        let said = all_members_ask(&world, CROWD);
        let (bot, mut answered) = (world.service.bot(), 0);
        while answered < said.len() {
            match tokio::time::timeout(SOON, changes.recv()).await.expect("answers go on coming") {
                Ok(Change::MessageCreated(message)) if message.author == bot => {
                    answered += 1;
                    pace.lock().go_on();
                }
                Ok(_) => {}
                Err(lagged) => panic!("the test was too slow to count: {lagged}"),
            }
        }
        world.all_answered(&said, SOON).await;
        assert_eq!(world.model.calls(), said.len());
    });
}

#[test]
fn more_than_can_be_open_are_told_so_once_each_and_nothing_is_lost() {
    story(async {
        let world = World::with(setup().set("STAFFAI_TURN__OPEN", 20)).await;
        world.model.does(|_| Act::SaysAfter(Duration::from_millis(200), "late".into()));
        let said = all_members_ask(&world, 200);
        world.all_answered(&said, SOON).await;
        let busy = said.iter().filter(|said| world.answers(**said)[0].content.contains("too many people")).count();
        assert_eq!(world.model.calls() + busy, said.len());
        assert!(busy >= 100, "only so many may be open at once: {busy}");
        let later = world.says("Ada", "general", "@staffai and now?");
        assert_eq!(world.words_to(later).await, "late");
    });
}

#[test]
fn one_member_who_asks_without_end_gets_one_notice_and_delays_no_other() {
    story(async {
        let world = World::with(patient().set("STAFFAI_TURN__LANE", 2)).await;
        let (keeper, gate) = watch::channel(false);
        world.model.does(move |ask| match ask.question() {
            asked if asked.starts_with("number") => Act::SaysWhen(gate.clone(), "done".into()),
            _ => Act::says("done"),
        });
        let mut flood = Vec::new();
        for channel in ["general", "help"] {
            flood.extend((0..15).map(|number| world.says("Ada", channel, &format!("@staffai number {number}"))));
        }
        let ben = world.says("Ben", "general", "@staffai and me?");
        assert_eq!(world.words_to(ben).await, "done");
        let replies = || flood.iter().flat_map(|said| world.answers(*said)).map(|reply| reply.content);
        world.until("the notice", || (replies().count() == 1).then_some(())).await;
        // A later message was processed, so all of them were.
        let last = world.says("Ben", "help", "@staffai and here?");
        assert_eq!(world.words_to(last).await, "done");
        drop(keeper);
        // In each channel one runs and two are queued; of all further ones, one gets a notice.
        world.until("all that is due", || (replies().count() == 7).then_some(())).await;
        let later = world.says("Ada", "help", "@staffai are you there?");
        assert_eq!(world.words_to(later).await, "done");
        assert_eq!(replies().filter(|words| words == "done").count(), 6);
        assert_eq!(replies().filter(|words| words.contains("still working")).count(), 1);
    });
}

#[test]
fn two_bots_that_answer_each_other_come_to_an_end() {
    story(async {
        let world = World::with(setup().set("STAFFAI_BOTS__ALLOWED", "77").set("STAFFAI_BOTS__MAX_TURNS", 4)).await;
        let beeper = UserId(77);
        let guild = world.service.guilds()[0].id;
        world.join(guild, Member { id: beeper, name: "Beeper".into(), roles: Vec::new(), bot: true });
        let (bot, general) = (world.service.bot(), world.channel("general"));
        let (mut changes, service) = (world.service.subscribe(), world.service.clone());
        let answering = tokio::spawn(async move {
            while let Ok(change) = changes.recv().await {
                if let Change::MessageCreated(message) = change
                    && message.author == bot
                    && message.channel == general
                {
                    service.says(beeper, general, &format!("<@{bot}> beep"), Some(message.id));
                }
            }
        });
        world.says("Beeper", "general", "@staffai beep");
        world.until("the end of it", || (world.spoken(general).len() == 4).then_some(())).await;
        let last = world.until("the last beep", || {
            let beeps = world.service.messages(general).into_iter().filter(|message| message.author == beeper);
            beeps.skip(4).last()
        });
        let last = Said::from(&last.await);
        world.ignores(last).await;
        assert_eq!(world.spoken(general).len(), 4);
        let ada = world.says("Ada", "help", "@staffai hello");
        world.answer_to(ada).await;
        answering.abort();
    });
}

#[test]
fn edits_without_end_are_no_questions() {
    story(async {
        let world = World::begin().await;
        world.model.does(|ask| Act::SaysAfter(Duration::from_secs(1), format!("You said: {}", ask.question())));
        let said = world.says("Ada", "general", "@staffai hello");
        world.until("it is asked", || (world.model.calls() == 1).then_some(())).await;
        let edit = |number: u32| {
            let text = format!("<@{}> hello {number}", world.service.bot());
            world.service.edits(said.id, said.channel, &text);
        };
        (0..50).for_each(edit);
        insta::assert_snapshot!(world.words_to(said).await, @"You said: hello");
        (50..100).for_each(edit);
        let other = world.says("Ben", "general", "good morning");
        (0..50).for_each(|number| {
            world.service.edits(other.id, other.channel, &format!("<@{}> hello {number}", world.service.bot()));
        });
        world.ignores(other).await;
        assert_eq!(world.answers(said).len(), 1);
        assert_eq!(world.model.calls(), 2, "the question, and one afterwards");
    });
}
