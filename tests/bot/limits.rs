//! Limits of members: messages and tokens, by member and place, and the notices about them.

use std::time::Duration;

use playground::guild::Member;
use playground::guild::ids::RoleId;
use ports::Clock;
use serde_json::json;
use staffai::app::system::SystemClock;
use tokio::sync::watch;

use crate::model::Act;
use crate::support::{SOON, Said, Setup, World, story};

/// Longer than any story: nothing leaves the window.
const LONG: u32 = 600;

fn limits(messages: u32, tokens: u64) -> Setup {
    Setup::new()
        .set("RATE_LIMIT_COUNT", messages)
        .set("TOKEN_RATE_LIMIT_COUNT", tokens)
        .set("RATE_LIMIT_WINDOW_SECONDS", LONG)
}

/// A limit of this many messages, and no limit of tokens.
fn messages(many: u32) -> Setup {
    limits(many, 1_000_000_000)
}

/// An answer of this many tokens.
fn takes(tokens: u64) -> Act {
    let content = json!({"type": "text", "response": "done", "data": ""}).to_string();
    let message = json!({"role": "assistant", "content": content});
    let body = json!({
        "id": "c", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": tokens - 5, "completion_tokens": 5, "total_tokens": tokens},
    });
    Act::Body(body.to_string())
}

fn give(world: &World, who: &str, roles: &[RoleId]) {
    let member = world.service.members().into_iter().find(|member| member.name == who).unwrap();
    world.join(world.service.guilds()[0].id, Member { roles: roles.to_vec(), ..member });
}

pub fn role(world: &World, name: &str) -> RoleId {
    world.service.guilds()[0].roles.iter().find(|role| role.name == name).unwrap().id
}

/// Asks as a member, and is answered by the model.
async fn served(world: &World, who: &str, channel: &str) {
    let calls = world.model.calls();
    world.answer_to(world.says(who, channel, "@staffai hello")).await;
    assert_eq!(world.model.calls(), calls + 1, "{who} is answered by the model");
}

/// Asks as a member, and is over the limit; returns the notice.
async fn refused(world: &World, who: &str, channel: &str) -> String {
    let calls = world.model.calls();
    let said = world.words_to(world.says(who, channel, "@staffai hello")).await;
    assert_eq!(world.model.calls(), calls, "{who} is not answered by the model: {said}");
    said
}

/// Returns a counter on the page of metrics, which all stories of this process share.
async fn counted(world: &World, line: &str) -> u64 {
    let page = world.get("/metrics").await.1;
    let found = page.lines().find_map(|candidate| candidate.strip_prefix(line));
    found.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn so_many_messages_are_answered_then_one_notice_says_when_the_next_will_be() {
    story(async {
        let world = World::with(messages(3)).await;
        let counter = "staffai_limit_refused_total{tier=\"messages\"}";
        let before = counted(&world, counter).await;
        for _ in 0..3 {
            served(&world, "Ada", "general").await;
        }
        let now = SystemClock.now().0 / 1_000;
        let said = refused(&world, "Ada", "help").await;
        let at = said.split_once("<t:").and_then(|(_, rest)| rest.split_once(":R>")).expect("a moment").0;
        let left = at.parse::<u64>().unwrap().saturating_sub(now);
        assert!((1..=u64::from(LONG) + 1).contains(&left), "{said}");
        assert!(said.starts_with("You have reached the limit for now"), "{said}");

        let more: Vec<Said> = (0..5).map(|_| world.says("Ada", "general", "@staffai hello")).collect();
        served(&world, "Ben", "general").await;
        world.ignores(more[4]).await;
        assert!(more.iter().all(|said| world.answers(*said).is_empty()), "one notice in the window");
        let route = "PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me";
        let reacted = world.service.stats().by_route.get(route).copied().unwrap_or_default();
        assert!((1..=5).contains(&reacted), "{reacted} of them got a reaction in place of a notice");
        assert!(counted(&world, counter).await >= before + 6);
    });
}

#[test]
fn who_waits_until_the_moment_of_the_notice_is_answered() {
    story(async {
        let world = World::with(messages(1).set("RATE_LIMIT_WINDOW_SECONDS", 15)).await;
        served(&world, "Ada", "general").await;
        let said = refused(&world, "Ada", "general").await;
        let at: u64 = said.split_once("<t:").unwrap().1.split_once(":R>").unwrap().0.parse().unwrap();
        while SystemClock.now().0 < at * 1_000 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        served(&world, "Ada", "general").await;
    });
}

#[test]
fn the_notice_is_the_operators_own() {
    story(async {
        let setup = messages(0).set("RATE_LIMIT_MESSAGE_USER", "Off you go to <#{channel_id}>, {user}.");
        let world = World::with(setup.set("RESTRICTED_CHANNEL_ID", "42")).await;
        assert_eq!(
            refused(&world, "Ada", "general").await,
            "The limits here do not allow me to answer you.",
            "nothing is ever allowed"
        );
        world.stop().await;

        let setup = messages(1).set("RATE_LIMIT_MESSAGE_USER", "Off you go to <#{channel_id}>, {user}.");
        let setup = setup.set("RESTRICTED_USER_ROLE_ID", "43").set("RESTRICTED_CHANNEL_ID", "42");
        let world = World::with(setup).await;
        served(&world, "Ada", "general").await;
        assert_eq!(refused(&world, "Ada", "general").await, "Off you go to <#42>, Ada.");
    });
}

#[test]
fn tokens_add_up_over_messages_and_refuse() {
    story(async {
        // What tools add to a prompt is not the member's use.
        let world = World::of_row(limits(1_000, 10_000), r#""tools": "off""#).await;
        world.model.always(takes(4_000));
        served(&world, "Ada", "general").await;
        served(&world, "Ada", "help").await;
        world.model.always(takes(2_500));
        let said = refused(&world, "Ada", "general").await;
        assert!(said.contains("<t:"), "eight of ten thousand are used, and a prompt alone has four: {said}");
        served(&world, "Ben", "general").await;
        // A short answer is charged with its actual tokens, not with the estimate.
        world.model.always(takes(100));
        for _ in 0..10 {
            served(&world, "Chloe", "general").await;
        }
    });
}

#[test]
fn what_rests_on_estimates_alone_says_to_wait() {
    story(async {
        let patient = limits(1_000, 1_500).set("STAFFAI_LLM__TIMEOUT", "30s").set("STAFFAI_TURN__DEADLINE", "30s");
        let world = World::with(patient).await;
        let (open, gate) = watch::channel(false);
        world.model.does(move |ask| {
            let slow = ask.question().contains("hello");
            if slow { Act::SaysWhen(gate.clone(), "slow".into()) } else { Act::says("quick") }
        });
        let first = world.says("Ada", "general", "@staffai hello");
        world.until("the first is asked", || (world.model.calls() > 0).then_some(())).await;
        let said = world.words_to(world.says("Ada", "help", "@staffai and this?")).await;
        assert!(said.starts_with("One moment please"), "{said}");
        world.ignores(world.says("Ada", "help", "@staffai and that?")).await;
        open.send_replace(true);
        assert_eq!(world.words_to(first).await, "slow");
        world.model.always(Act::says("quick"));
        served(&world, "Ada", "help").await;
    });
}

#[test]
fn roles_and_channels_have_limits_of_their_own() {
    story(async {
        let world = World::without_bot(messages(1)).await;
        let (moderator, help) = (role(&world, "moderator"), world.channel("help"));
        let more = |id: u64, many: u32| format!("[{{id = {id}, messages = {many}, tokens = 1000000}}]");
        drop(world);
        let setup = messages(1)
            .set("STAFFAI_RATE_LIMITER__ROLES", more(moderator.0, 4))
            .set("STAFFAI_RATE_LIMITER__CHANNELS", more(help.0, 2));
        let world = World::with(setup).await;
        served(&world, "Ada", "general").await;
        served(&world, "Ada", "help").await;
        refused(&world, "Ada", "general").await;
        for channel in ["help", "general", "general", "random"] {
            served(&world, "Chloe", channel).await;
        }
        refused(&world, "Chloe", "help").await;
    });
}

#[test]
fn super_roles_are_exempt_and_counted_all_the_same() {
    story(async {
        let world = World::without_bot(messages(2)).await;
        let moderator = role(&world, "moderator");
        drop(world);
        let world = World::with(messages(2).set("SUPER_ROLE_IDS", moderator)).await;
        for _ in 0..4 {
            served(&world, "Chloe", "general").await;
        }
        give(&world, "Chloe", &[]);
        refused(&world, "Chloe", "general").await;
    });
}

#[test]
fn hints_and_apologies_for_faults_of_ours_cost_nothing() {
    story(async {
        let world = World::with(messages(1)).await;
        for _ in 0..3 {
            let said = world.words_to(world.says("Ada", "general", "@staffai")).await;
            assert!(said.starts_with("Hi!"), "{said}");
        }
        world.model.always(Act::Status(400));
        for _ in 0..2 {
            let said = world.words_to(world.says("Ada", "general", "@staffai hello")).await;
            assert!(said.starts_with("Sorry"), "{said}");
        }
        world.model.always(Act::says("hello"));
        served(&world, "Ada", "general").await;
        refused(&world, "Ada", "general").await;
    });
}

#[test]
fn a_flood_is_admitted_exactly_to_the_limit() {
    story(async {
        let world = World::with(messages(7)).await;
        world.crowd(20);
        world.model.does(|_| Act::SaysAfter(Duration::from_millis(5), "hello".into()));
        let channels = ["general", "help", "random"];
        for number in 0..200 {
            world.says(&format!("member-{}", number % 20), channels[number % 3], "@staffai hello");
        }
        world.until("all that may be are answered", || (world.model.calls() == 140).then_some(())).await;
        served(&world, "Ada", "general").await;
        assert_eq!(world.model.calls(), 141, "seven of each ten, from each of twenty");
    });
}

#[test]
fn a_killed_process_forgets_no_limit_and_leaks_none() {
    story(async {
        let world = World::without_bot(messages(3).set("RATE_LIMIT_WINDOW_SECONDS", 20)).await;
        world.model.always(Act::says("hello"));
        // A process that ends well stores its records; one that is killed at its start may have none.
        let mut process = world.process("first").await;
        served(&world, "Ada", "general").await;
        served(&world, "Ada", "general").await;
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
        world.service.disconnected(0).await;
        let process = world.process("second").await;
        world.model.always(Act::SaysAfter(Duration::from_secs(1), "late".into()));
        let calls = world.model.calls();
        let cut_short = world.says("Ada", "general", "@staffai hello");
        world.until("it is asked", || (world.model.calls() > calls).then_some(())).await;
        process.kill();
        world.service.disconnected(0).await;

        let mut process = world.process("third").await;
        assert_eq!(world.words_to(cut_short).await, "late", "its reservation is there already");
        let said = refused(&world, "Ada", "general").await;
        let at: u64 = said.split_once("<t:").unwrap().1.split_once(":R>").unwrap().0.parse().unwrap();
        while SystemClock.now().0 < at * 1_000 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        served(&world, "Ada", "general").await;
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
    });
}
