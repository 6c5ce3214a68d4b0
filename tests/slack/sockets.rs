//! The connections of Socket Mode.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::world::{SOON, World, story};

#[test]
fn an_event_is_acknowledged_on_its_connection_once_it_is_recorded() {
    story(async {
        let world = World::begin().await;
        let said = world.service.says("U1", "D1", "hello");
        world.only_answer_to(&said).await;
        let acks = world.service.acks();
        assert!(!acks.is_empty() && acks.iter().all(|on_its_socket| *on_its_socket), "{acks:?}");
    });
}

#[test]
fn an_event_without_an_acknowledgement_comes_again_and_is_answered_once() {
    story(async {
        let world = World::without_bot().await;
        // Sent while no connection is open: a later delivery is the first one that arrives.
        let said = world.service.says("U1", "C1", "@bot hello");
        world.start().await;
        world.only_answer_to(&said).await;
        world.service.repeats(&said);
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        world.only_answer_to(&said).await;
        assert_eq!(world.model.calls(), 1);
    });
}

#[test]
fn a_repetition_after_a_restart_is_answered_once() {
    story(async {
        let world = World::begin().await;
        let said = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&said).await;
        world.stop().await;
        world.until("the end of the connections", || (world.service.connections().0 == 0).then_some(())).await;
        world.service.repeats(&said);
        world.start().await;
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        world.only_answer_to(&said).await;
        assert_eq!(world.model.calls(), 1);
    });
}

#[test]
fn what_cannot_be_read_is_acknowledged_and_counted() {
    story(async {
        let world = World::without_bot().await;
        let mut process = world.process("bot").await;
        world.service.deliver(json!({"type": "message", "channel": {"odd": 1}, "ts": "x"}));
        world.service.deliver(json!([1, 2]));
        world.service.deliver(json!({"type": "channel_rename"}));
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        assert!(world.service.sends_frame("{not json"));
        assert!(world.service.sends_frame(r#"{"type": "something_new"}"#));
        let said = world.service.says("U1", "D1", "hello");
        world.only_answer_to(&said).await;
        assert_eq!(world.service.connections().1, 2, "no connection was lost");
        let page = reqwest::get(world.url("/metrics")).await.unwrap().text().await.unwrap();
        let counted = |kind: &str| {
            let line = page.lines().find(|line| line.contains(&format!("kind=\"{kind}\"")));
            line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
        };
        let counts = ["slack_unreadable", "slack_odd"].map(|kind| counted(kind).unwrap_or_default());
        assert_eq!(counts, ["2", "2"], "{page}");
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
    });
}

#[test]
fn a_connection_that_slack_refreshes_is_replaced_before_it_closes() {
    story(async {
        let world = World::begin().await;
        for (reason, opened) in [("refresh_requested", 4), ("warning", 6)] {
            world.service.disconnects(reason);
            let said = world.service.says("U1", "D1", "hello");
            world.only_answer_to(&said).await;
            world.until("new connections", || (world.service.connections().1 == opened).then_some(())).await;
            world.until("the end of the old ones", || (world.service.connections().0 == 2).then_some(())).await;
        }
        assert!(world.service.connections().2 >= 3, "the new ones opened first");
        assert_eq!(world.json("/readyz").await["status"], "ready");
    });
}

#[test]
fn connections_that_are_too_many_for_slack_are_opened_again() {
    story(async {
        let world = World::begin().await;
        world.connected().await;
        world.service.disconnects("too_many_websockets");
        world.until("new connections", || (world.service.connections().1 == 4).then_some(())).await;
        world.connected().await;
        let said = world.service.says("U1", "D1", "hello");
        world.only_answer_to(&said).await;
        assert_eq!(world.service.connections().2, 2, "none is opened beside those that Slack refuses");
    });
}

#[test]
fn connections_are_replaced_before_their_life_ends_at_different_times() {
    story(async {
        let world = World::without_bot().await;
        world.service.life(8);
        world.start().await;
        world.until("replaced connections", || (world.service.connections().1 >= 4).then_some(())).await;
        let said = world.service.says("U1", "D1", "hello");
        world.only_answer_to(&said).await;
        // Both at once would be four.
        assert!(world.service.connections().2 == 3, "{:?}", world.service.connections());
    });
}

#[test]
fn a_silent_connection_is_dead_within_fifteen_seconds() {
    story(async {
        let world = World::begin().await;
        world.connected().await;
        world.service.goes_silent();
        let begun = Instant::now();
        let said = world.service.says("U1", "D1", "hello");
        world.only_answer_to(&said).await;
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        world.until("new connections", || (world.service.connections().1 == 4).then_some(())).await;
    });
}

#[test]
fn a_lost_connection_is_opened_again_and_the_pages_say_when_the_last_event_came() {
    story(async {
        let world = World::begin().await;
        world.service.hangs_up();
        world.until("new connections", || (world.service.connections().1 >= 4).then_some(())).await;
        let said = world.service.says("U1", "D1", "hello");
        world.only_answer_to(&said).await;
        world.connected().await;
        let deadline = Instant::now() + SOON;
        loop {
            let ready = world.json("/readyz").await;
            let part =
                |name: &str| ready["parts"].as_array().unwrap().iter().find(|part| part["name"] == name).cloned();
            let (door, sockets) = (part("slack").unwrap(), [part("slack:0"), part("slack:1")]);
            if ready["status"] == "ready" {
                assert!(door["last_event"].as_str().is_some_and(|at| at.ends_with('Z')), "{ready}");
                assert!(sockets.iter().flatten().all(|socket| socket["kind"] == "socket"), "{ready}");
                break;
            }
            assert!(Instant::now() < deadline, "{ready}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let tree = world.json("/api/v1/tree").await;
        let branch = tree["children"].as_array().unwrap().iter().find(|child| child["name"] == "slack").unwrap();
        let names: Vec<&str> =
            branch["children"].as_array().unwrap().iter().map(|child| child["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["slack_socket:0", "slack_socket:1"]);
    });
}

#[test]
fn each_connection_shows_the_time_of_its_last_event_also_of_one_for_others() {
    story(async {
        let world = World::begin().await;
        let deadline = Instant::now() + SOON;
        loop {
            world.service.says("U1", "C1", "nothing for the bot");
            let tree = world.json("/api/v1/tree").await;
            let branch = tree["children"].as_array().unwrap().iter().find(|child| child["name"] == "slack").unwrap();
            let ready = world.json("/readyz").await;
            let is_socket = |part: &&serde_json::Value| part["kind"] == "socket";
            let parts: Vec<_> = ready["parts"].as_array().unwrap().iter().filter(is_socket).collect();
            let rows = branch["children"].as_array().unwrap().iter().chain(parts);
            if rows.clone().count() == 4 && rows.into_iter().all(|row| row["last_event"].is_string()) {
                break;
            }
            assert!(Instant::now() < deadline, "{tree} {ready}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

#[test]
fn a_revoked_token_ends_the_program_with_its_reason() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.insert("SLACK_APP_TOKEN".to_owned(), "xapp-of-another".to_owned());
        let mut process = crate::process::Process::start(world.dir(), "refused", &world.env);
        assert_eq!(process.exit(SOON).await, 69, "{}", process.output());
        assert!(process.output().contains("SLACK_APP_TOKEN"), "{}", process.output());
    });
}

#[test]
fn a_refused_token_beside_another_door_closes_slack_alone() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.insert("SLACK_APP_TOKEN".to_owned(), "xapp-of-another".to_owned());
        // Discord is the home door; it is not reached.
        world.env.insert("DISCORD_BOT_TOKEN".to_owned(), "token".to_owned());
        world.env.insert("DISCORD_API_URL".to_owned(), "http://127.0.0.1:9".to_owned());
        let mut process = crate::process::Process::start(world.dir(), "refused", &world.env);
        let deadline = Instant::now() + SOON;
        loop {
            let page = world.page("/readyz").await;
            let parts = page.as_ref().and_then(|ready| ready["parts"].as_array()).cloned().unwrap_or_default();
            let refused = |part: &serde_json::Value| {
                part["kind"] == "socket"
                    && part["status"] == "down"
                    && part["last_error"].as_str().is_some_and(|error| error.contains("SLACK_APP_TOKEN"))
            };
            if parts.iter().filter(|part| refused(part)).count() == 2 {
                break;
            }
            assert!(Instant::now() < deadline, "{page:?} {}", process.output());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(process.output().contains("source.refused"), "{}", process.output());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(world.page("/readyz").await.is_some(), "the other doors continue: {}", process.output());
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
    });
}
