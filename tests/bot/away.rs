//! Messages from the bot's downtime are answered, even if Discord's hints about the newest messages are stale.

use std::time::Duration;

use playground::guild::ids::ChannelId;

use crate::support::{SOON, Said, Setup, World, story};

/// Threads opened during the downtime: more than the places without news that a session reads back.
const NEW_THREADS: usize = 12;

/// The places where members talk to the bot before its downtime.
struct Known {
    thread: ChannelId,
    direct: ChannelId,
}

impl Known {
    fn open(world: &World) -> Self {
        let direct = world.service.direct(world.member("Ada")).unwrap().id;
        Self { thread: opens_thread(world, "boats"), direct }
    }

    fn greeted(&self, world: &World) -> Vec<Said> {
        vec![
            world.says("Ada", "general", "@staffai hello"),
            world.writes("Ben", self.thread, "@staffai hello", None),
            world.writes("Ada", self.direct, "psst", None),
        ]
    }

    /// Sends mentions in channels and threads, old and new, and a direct message during the downtime, on a platform
    /// with stale hints.
    async fn missed(&self, world: &World) -> Vec<Said> {
        world.service.disconnected(0).await;
        world.service.faults().forget_sessions();
        world.service.faults().stale_hints(true);
        let mut said = vec![
            world.says("Ada", "general", "@staffai anybody?"),
            // A channel without earlier questions.
            world.says("Ben", "random", "@staffai are you away?"),
            world.writes("Ada", self.thread, "@staffai and here?", None),
            world.writes("Ada", self.direct, "psst, are you there?", None),
        ];
        let new = (0..NEW_THREADS).map(|number| opens_thread(world, &format!("aside {number}")));
        said.extend(new.map(|thread| world.writes("Ben", thread, "@staffai what do you think?", None)));
        said
    }
}

/// Waits until a line of the stored data has all these parts.
async fn is_stored(world: &World, parts: &[String]) {
    let has_all = |line: &str| parts.iter().all(|part| line.contains(part.as_str()));
    world.until_page("/api/v1/backup", |page| page.lines().any(has_all).then_some(())).await;
}

/// Waits until each of these places is stored as one in which members spoke to the bot.
async fn are_stored(world: &World, places: &[ChannelId]) {
    for place in places {
        is_stored(world, &["staffai:active:".to_owned(), format!(":{place}\"")]).await;
    }
}

fn opens_thread(world: &World, name: &str) -> ChannelId {
    world.service.opens_thread(world.member("Ben"), world.channel("help"), None, name).unwrap().id
}

fn answers_directly() -> Setup {
    Setup::new().set("STAFFAI_DISCORD__DIRECT_MESSAGES", "answer")
}

#[test]
fn mentions_are_read_back_although_the_hints_of_discord_lag_behind() {
    story(async {
        let world = World::without_bot(answers_directly()).await;
        let known = Known::open(&world);
        let process = world.process("one").await;
        world.all_answered(&known.greeted(&world), SOON).await;
        are_stored(&world, &[world.channel("general"), known.thread, known.direct]).await;
        process.kill();
        let said = known.missed(&world).await;
        let _second = world.process("two").await;
        world.all_answered(&said, Duration::from_secs(20)).await;
        assert_eq!(world.service.stats().identifies, 2, "the session was lost");
    });
}

#[test]
fn a_session_that_is_lost_while_the_bot_runs_loses_no_mention_either() {
    story(async {
        let world = World::with(answers_directly()).await;
        let known = Known::open(&world);
        world.all_answered(&known.greeted(&world), SOON).await;
        are_stored(&world, &[world.channel("general"), known.thread, known.direct]).await;
        world.service.faults().refuse_connects(2);
        world.service.faults().cut_gateways();
        let said = known.missed(&world).await;
        world.all_answered(&said, Duration::from_secs(20)).await;
    });
}

#[test]
fn threads_and_direct_conversations_that_begin_during_a_session_are_answered() {
    story(async {
        let world = World::with(answers_directly()).await;
        let announced = opens_thread(&world, "announced");
        world.service.faults().quiet_threads(true);
        // No gateway event names this thread before its first message.
        let quiet = opens_thread(&world, "quiet");
        let question = world.says("Ada", "general", "how deep is the harbour?");
        let below =
            world.service.opens_thread(world.member("Ben"), question.channel, Some(question.id), "depth").unwrap().id;
        let direct = world.service.direct(world.member("Chloe")).unwrap().id;
        let said = [announced, quiet, below].map(|thread| world.writes("Ben", thread, "@staffai hello", None));
        let written = world.writes("Chloe", direct, "hello", None);
        world.all_answered(&[&said[..], &[written]].concat(), SOON).await;
    });
}

#[test]
fn a_rule_of_a_channel_holds_in_a_thread_that_no_event_named() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let rules = format!(r#"[{{tools = "*", channels = [{}], verdict = "deny"}}]"#, world.channel("random"));
        drop(world);
        let always = ("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true");
        let world = World::with(Setup::new().set(always.0, always.1).set("STAFFAI_TOOLS__RULES", &rules)).await;
        world.service.faults().quiet_threads(true);
        let thread = |channel: &str, name: &str| {
            world.service.opens_thread(world.member("Ada"), world.channel(channel), None, name).unwrap().id
        };
        let (denied, free) = (thread("random", "denied"), thread("general", "free"));
        world.answer_to(world.writes("Ada", denied, "@staffai hello", None)).await;
        assert!(world.model.last().tools().is_empty(), "the channel of the thread denies all tools");
        world.answer_to(world.writes("Ada", free, "@staffai hello", None)).await;
        assert!(!world.model.last().tools().is_empty());
        world.answer_to(world.writes("Ada", free, "@staffai hello", None)).await;
        let requests = world.service.stats().by_route;
        assert_eq!(requests.get("GET /channels/{channel}"), Some(&2), "each thread is requested once: {requests:?}");
    });
}

#[test]
fn a_channel_that_cannot_be_read_back_is_answered_after_the_outage_also_by_the_next_process() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let process = world.process("one").await;
        let greeted = [world.says("Ada", "general", "@staffai hello"), world.says("Ben", "help", "@staffai hello")];
        world.all_answered(&greeted, SOON).await;
        let channels = ["general", "help"].map(|name| world.channel(name));
        are_stored(&world, &channels).await;
        process.kill();
        world.service.disconnected(0).await;
        world.service.faults().forget_sessions();
        let missed =
            [world.says("Ada", "general", "@staffai anybody?"), world.says("Ben", "help", "@staffai and here?")];
        world.service.faults().answer_next("GET /channels/{channel}/messages", 1_000, 503, None);
        let process = world.process("two").await;
        let refused = || world.service.stats().by_status.get(&503).copied().unwrap_or_default();
        world.until("the failed reads of the channels", || (refused() >= 9).then_some(())).await;
        let live = world.says("Chloe", "random", "@staffai hello");
        world.all_answered(&[live], SOON).await;
        let unread = channels.map(|channel| format!("\\\"{channel}\\\":["));
        is_stored(&world, &[&["unread:0".to_owned()], &unread[..]].concat()).await;
        process.kill();
        world.service.disconnected(0).await;
        world.service.faults().clear();
        let _third = world.process("three").await;
        world.all_answered(&missed, Duration::from_secs(20)).await;
        assert_eq!(world.service.stats().identifies, 2, "the third process resumed, and no event announced the gap");
    });
}
