//! Despite all faults between the bot and Discord, each mention is answered exactly once.

use std::time::Duration;

use playground::limits::Budgets;
use tokio::time::Instant;

use crate::model::Act;
use crate::support::{SOON, Said, Setup, World, story};

const CREATE: &str = "POST /channels/{channel}/messages";

/// Each member of a crowd asks once in each of the three channels, with short pauses.
async fn burst(world: &World, members: u64, pause: Duration) -> Vec<Said> {
    world.crowd(members);
    let mut said = Vec::new();
    for number in 0..members {
        for channel in ["general", "help", "random"] {
            said.push(world.says(&format!("member-{number}"), channel, "@staffai hello"));
            tokio::time::sleep(pause).await;
        }
    }
    said
}

async fn cuts_at_random(seed: u64) {
    let world = World::begin().await;
    println!("seed {seed}");
    world.service.faults().cut_randomly(seed, 25);
    let said = burst(&world, 67, Duration::from_millis(10)).await;
    world.service.faults().cut_randomly(seed, 0);
    world.all_answered(&said, Duration::from_secs(40)).await;
    assert!(world.service.stats().resumes > 0, "it was cut: {:?}", world.service.stats());
}

#[test]
fn a_connection_cut_at_random_loses_nothing() {
    story(cuts_at_random(1));
}

#[test]
fn a_connection_cut_at_other_moments_loses_nothing() {
    story(cuts_at_random(2));
}

/// Injects a fault; messages after it, also during the outage, are answered once.
async fn comes_back_from(fault: impl FnOnce(&World)) -> World {
    let world = World::begin().await;
    let before = world.says("Ada", "general", "@staffai before");
    world.answer_to(before).await;
    fault(&world);
    let during = world.says("Ben", "general", "@staffai during");
    world.says("Ben", "general", "nothing for the bot");
    world.all_answered(&[before, during], Duration::from_secs(20)).await;
    let after = world.says("Chloe", "help", "@staffai after");
    world.all_answered(&[before, during, after], Duration::from_secs(20)).await;
    world
}

#[test]
fn a_request_to_reconnect_is_followed() {
    story(async {
        let world = comes_back_from(|world| world.service.faults().reconnect()).await;
        assert_eq!(world.service.stats().identifies, 1, "it resumed");
    });
}

#[test]
fn a_session_that_may_be_resumed_is_resumed() {
    story(async {
        let world = comes_back_from(|world| world.service.faults().invalidate_sessions(true)).await;
        assert_eq!(world.service.stats().identifies, 1);
    });
}

#[test]
fn what_was_missed_with_an_invalid_session_is_read_back() {
    story(async {
        let world = comes_back_from(|world| world.service.faults().invalidate_sessions(false)).await;
        assert_eq!(world.service.stats().identifies, 2);
    });
}

#[test]
fn what_was_missed_with_a_session_that_timed_out_is_read_back() {
    story(async {
        let world = comes_back_from(|world| world.service.faults().close_gateways(4009)).await;
        assert_eq!(world.service.stats().identifies, 2);
    });
}

#[test]
fn what_was_missed_with_a_refused_resume_is_read_back() {
    story(async {
        let world = comes_back_from(|world| {
            world.service.faults().refuse_resumes(1);
            world.service.faults().cut_gateways();
        })
        .await;
        assert_eq!(world.service.stats().identifies, 2);
    });
}

#[test]
fn every_other_close_code_is_survived() {
    story(async {
        let world = World::begin().await;
        for code in [1000, 4000, 4999] {
            world.service.faults().close_gateways(code);
            let said = world.says("Ada", "general", "@staffai hello");
            world.all_answered(&[said], Duration::from_secs(20)).await;
        }
        assert_eq!(world.service.stats().identifies, 1, "each was resumed");
    });
}

#[test]
fn a_peer_that_fell_silent_is_left() {
    story(async {
        let mut setup = Setup::new();
        setup.service.heartbeat = Duration::from_millis(500);
        let world = World::with(setup).await;
        world.service.faults().freeze(true);
        let said = world.says("Ada", "general", "@staffai are you there?");
        world.until("a new connection", || (world.service.stats().connections > 1).then_some(())).await;
        world.service.faults().freeze(false);
        world.all_answered(&[said], Duration::from_secs(30)).await;
    });
}

#[test]
fn events_that_come_three_times_are_answered_once() {
    story(async {
        let world = World::begin().await;
        world.service.faults().duplicate_events(2);
        let said = burst(&world, 20, Duration::from_millis(1)).await;
        world.all_answered(&said, SOON).await;
        assert_eq!(world.model.calls(), said.len());
    });
}

#[test]
fn posts_whose_answer_is_lost_are_not_doubled() {
    story(async {
        let world = World::begin().await;
        world.service.faults().drop_answers(20);
        let said = burst(&world, 10, Duration::from_millis(1)).await;
        world.all_answered(&said, Duration::from_secs(30)).await;
    });
}

#[test]
fn everything_at_once_loses_nothing_and_doubles_nothing() {
    story(async {
        let world = World::begin().await;
        let faults = world.service.faults();
        faults.cut_randomly(3, 20);
        faults.duplicate_events(1);
        faults.drop_answers(10);
        faults.answer_next(CREATE, 5, 500, None);
        faults.answer_next(CREATE, 2, 429, Some(Duration::from_millis(300)));
        faults.delay_channel(world.channel("help"), Duration::from_millis(50));
        let said = burst(&world, 25, Duration::from_millis(8)).await;
        faults.cut_randomly(3, 0);
        world.all_answered(&said, Duration::from_secs(40)).await;
    });
}

#[test]
fn posts_that_fail_are_tried_again() {
    story(async {
        let world = World::begin().await;
        for status in [500, 502, 503, 504] {
            world.service.faults().answer_next(CREATE, 3, status, None);
        }
        let said = burst(&world, 5, Duration::from_millis(1)).await;
        world.all_answered(&said, Duration::from_secs(30)).await;
    });
}

#[test]
fn a_pause_that_discord_asks_for_is_kept() {
    story(async {
        let world = World::begin().await;
        world.service.faults().answer_next(CREATE, 2, 429, Some(Duration::from_secs(1)));
        let begun = Instant::now();
        let said = burst(&world, 4, Duration::from_millis(1)).await;
        world.all_answered(&said, Duration::from_secs(20)).await;
        assert!(begun.elapsed() >= Duration::from_secs(1));
    });
}

#[test]
fn the_budget_of_a_channel_is_kept_without_being_refused() {
    story(async {
        let world = World::with(Setup::new().real_budgets()).await;
        let said = burst(&world, 7, Duration::from_millis(1)).await;
        world.all_answered(&said, Duration::from_secs(40)).await;
        let stats = world.service.stats();
        let refused = stats.by_status.get(&429).copied().unwrap_or_default();
        assert!(refused <= 3, "{refused} of {:?}", stats.by_status);
        assert!(stats.busiest_second <= 50, "{}", stats.busiest_second);
    });
}

#[test]
fn the_budget_of_the_whole_bot_is_obeyed() {
    story(async {
        let mut setup = Setup::new();
        setup.service.budgets = Budgets { global: (10, Duration::from_secs(1)), ..setup.service.budgets };
        let world = World::with(setup).await;
        let said = burst(&world, 8, Duration::from_millis(1)).await;
        world.all_answered(&said, Duration::from_secs(40)).await;
        assert!(world.service.stats().invalid_requests < 100, "{:?}", world.service.stats().by_status);
    });
}

#[test]
fn a_forbidden_channel_is_not_tried_for_ever_and_harms_no_other() {
    story(async {
        let world = World::begin().await;
        world.service.faults().forbid_channel(world.channel("general"), true);
        let said = burst(&world, 20, Duration::from_millis(1)).await;
        let general = world.channel("general");
        let (lost, rest): (Vec<_>, Vec<_>) = said.into_iter().partition(|said| said.channel == general);
        world.all_answered(&rest, SOON).await;
        assert!(lost.iter().all(|said| world.answers(*said).is_empty()));
        let refused = world.service.stats().by_status.get(&403).copied().unwrap_or_default();
        assert!((1..10).contains(&refused), "{refused} requests were refused");
    });
}

#[test]
fn one_post_that_is_refused_once_silences_nothing() {
    story(async {
        for (status, code) in [(401, 0), (403, 0), (404, 0), (403, 50_001), (403, 50_013)] {
            let world = World::begin().await;
            world.service.faults().refuse_next(CREATE, 1, status, code);
            let said = burst(&world, 12, Duration::from_millis(1)).await;
            world.all_answered(&said, Duration::from_secs(20)).await;
            // No model is asked for a place that is known to be forbidden.
            let asked = if code == 0 { said.len() } else { 1 };
            assert!(world.model.calls() >= asked, "{status}, code {code}");
        }
    });
}

#[test]
fn while_a_channel_is_closed_no_model_is_asked_and_one_line_waits_for_each_member() {
    story(async {
        let world = World::begin().await;
        world.service.faults().forbid_channel(world.channel("general"), true);
        let refused = || world.service.stats().by_status.get(&403).copied().unwrap_or_default();
        let first = world.says("Ada", "general", "@staffai hello");
        world.until("a refusal of the answer", || (world.model.calls() == 1 && refused() > 1).then_some(())).await;
        let second = world.says("Ada", "general", "@staffai hello?");
        let third = world.says("Ada", "general", "@staffai are you there?");
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.service.faults().forbid_channel(world.channel("general"), false);
        world.all_answered(&[first, second], SOON).await;
        assert!(world.words_to(second).await.contains("not allowed"));
        assert_eq!((world.answers(third), world.model.calls()), (Vec::new(), 1));
        let later = world.says("Ada", "general", "@staffai and now?");
        world.all_answered(&[later], SOON).await;
        assert_eq!(world.model.calls(), 2);
    });
}

#[test]
fn a_deleted_channel_harms_no_other() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::SaysAfter(Duration::from_millis(300), "hello".into()));
        let gone = world.says("Ada", "general", "@staffai hello");
        let other = world.says("Ada", "help", "@staffai hello");
        world.until("both are asked", || (world.model.calls() == 2).then_some(())).await;
        world.service.faults().delete_channel(gone.channel);
        world.all_answered(&[other], SOON).await;
    });
}

#[test]
fn a_slow_channel_delays_no_other() {
    story(async {
        let world = World::begin().await;
        world.service.faults().delay_channel(world.channel("general"), Duration::from_secs(3));
        let slow = world.says("Ada", "general", "@staffai hello");
        let begun = Instant::now();
        for _ in 0..5 {
            let quick = world.says("Ben", "help", "@staffai hello");
            world.answer_to(quick).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        world.all_answered(&[slow], SOON).await;
    });
}

#[test]
fn frames_that_make_no_sense_are_passed_over() {
    story(async {
        let world = World::begin().await;
        let giant = format!(r#"{{"t":"WHATEVER","s":null,"op":0,"d":{{"text":"{}"}}}}"#, "x".repeat(900_000));
        let deep =
            format!(r#"{{"t":"MESSAGE_CREATE","s":null,"op":0,"d":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
        let texts = [
            "",
            "{",
            "null",
            "[]",
            r#"{"op":0}"#,
            r#"{"op":99,"d":{}}"#,
            r#"{"op":"zero"}"#,
            r#"{"t":"MESSAGE_CREATE","s":null,"op":0,"d":null}"#,
            r#"{"t":"MESSAGE_CREATE","s":null,"op":0,"d":{"id":"x","content":900000000000000001}}"#,
            r#"{"t":"GUILD_CREATE","s":null,"op":0,"d":{}}"#,
            r#"{"t":"TYPING_START","s":null,"op":0,"d":7}"#,
            &giant,
            &deep,
        ];
        for text in texts {
            world.service.faults().send_text(text);
            let said = world.says("Ada", "general", "@staffai hello");
            world.all_answered(&[said], Duration::from_secs(20)).await;
        }
        world.service.faults().send_binary(&[0, 159, 146, 150]);
        let said = world.says("Ada", "general", "@staffai still there?");
        world.all_answered(&[said], Duration::from_secs(20)).await;
    });
}

#[test]
fn a_first_session_that_broke_before_it_was_heard_of_is_read_back() {
    story(async {
        let world = World::begin().await;
        world.service.faults().forget_sessions();
        world.service.faults().cut_gateways();
        let said = world.says("Ada", "general", "@staffai hello");
        world.all_answered(&[said], Duration::from_secs(20)).await;
    });
}

#[test]
fn a_gateway_that_is_away_for_a_while_is_waited_for() {
    story(async {
        comes_back_from(|world| {
            world.service.faults().refuse_connects(3);
            world.service.faults().cut_gateways();
        })
        .await;
    });
}
