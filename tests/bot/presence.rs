//! The bot's presence.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::clock::{HOUR, MovedClock};
use crate::model::{Act, Ask};
use crate::support::{Setup, World, story};

const INTERVAL: &str = "ACTIVITY_UPDATE_INTERVAL_SECONDS";

fn is_status(ask: &Ask) -> bool {
    ask.question().starts_with("Kind of status")
}

/// Awaits this presence.
async fn shown(world: &World, what: &str, like: impl Fn(&Value) -> bool) -> Value {
    world.until(what, || world.service.presence(0).filter(|presence| like(presence))).await
}

#[test]
fn the_model_writes_its_status_line_in_changing_kinds() {
    story(async {
        let world = World::without_bot(Setup::new().set(INTERVAL, "1")).await;
        world.model.does(|ask| match ask.question().lines().next() {
            Some(line) if line.contains("Playing") => Act::says("\"Playing hide\nand <@5> seek\""),
            Some(line) if line.contains("Listening") => Act::says("rain"),
            Some(line) if line.contains("Watching") => Act::content(""),
            _ => Act::says("on my third coffee"),
        });
        world.start().await;
        let first = shown(&world, "a first line", |presence| presence["activities"][0]["type"] == 0).await;
        assert_eq!(first["status"], "online");
        assert_eq!(first["activities"][0]["name"], "hide and seek");
        let second = shown(&world, "a second", |presence| presence["activities"][0]["type"] == 2).await;
        assert_eq!(second["activities"][0]["name"], "rain");
        let fourth = shown(&world, "a fourth", |presence| presence["activities"][0]["type"] == 4).await;
        assert_eq!(fourth["activities"][0]["state"], "on my third coffee");
        let ask = world.model.asks().into_iter().find(|ask| ask.shows("Listening to. Write")).unwrap();
        assert_eq!(ask.body["response_format"]["type"], "json_schema");
        assert!(ask.shows("- hide and seek"), "it is told what it wrote before");
        assert_eq!(world.service.stats().closes.get(&4008), None);
    });
}

#[test]
fn outside_its_hours_it_is_shown_idle() {
    story(async {
        let clock = MovedClock::new();
        clock.to_time(12 * HOUR + HOUR / 10);
        let setup = Setup::new().set(INTERVAL, "300").set("ACTIVITY_SCHEDULE_ENABLED", "true");
        // Overnight.
        let setup = setup.set("ACTIVITY_ACTIVE_START_HOUR_UTC", "22").set("ACTIVITY_ACTIVE_END_HOUR_UTC", "6");
        let world = World::with(setup.clock(Arc::clone(&clock) as _)).await;
        shown(&world, "idle", |presence| presence["status"] == "idle").await;
        assert_eq!(world.model.calls(), 0, "nothing is written meanwhile");
        clock.to_time(2 * HOUR + HOUR / 10);
        let active = shown(&world, "the night", |presence| presence["status"] == "online").await;
        assert!(!active.is_null());
        shown(&world, "a line", |presence| presence["activities"][0]["type"] == 0).await;
        clock.to_time(7 * HOUR + HOUR / 10);
        shown(&world, "idle again", |presence| presence["status"] == "idle").await;
        assert_eq!(world.model.asks().iter().filter(|ask| is_status(ask)).count(), 1);
    });
}

#[test]
fn while_no_model_answers_it_says_so() {
    story(async {
        let world = World::with(Setup::new().set(INTERVAL, "300")).await;
        shown(&world, "a line", |presence| presence["status"] == "online").await;
        world.model.always(Act::Status(500));
        for (who, question) in [("Ada", "one"), ("Ben", "two"), ("Ada", "three")] {
            let said = world.says(who, "general", &format!("@staffai {question}"));
            world.answer_to(said).await;
        }
        let unwell = shown(&world, "a warning", |presence| presence["status"] == "dnd").await;
        assert_eq!(unwell["activities"][0]["state"], "I have a problem right now: answers may be slow or missing.");
    });
}

#[test]
fn a_fresh_session_shows_it_again_and_a_resumed_one_keeps_it() {
    story(async {
        let world = World::with(Setup::new().set(INTERVAL, "300")).await;
        let line = shown(&world, "a line", |presence| presence["activities"][0]["type"] == 0).await;
        let (resumes, updates) = (world.service.stats().resumes, world.service.stats().presence_updates);
        world.service.faults().cut_gateways();
        world.until("a resumed session", || (world.service.stats().resumes > resumes).then_some(())).await;
        let identifies = world.service.stats().identifies;
        world.service.faults().invalidate_sessions(false);
        world.until("a fresh session", || (world.service.stats().identifies > identifies).then_some(())).await;
        let said = world.says("Ada", "general", "@staffai hello");
        world.answer_to(said).await;
        let again = world.service.presence(0).expect("it came with the request for the session");
        assert_eq!(again["activities"][0]["name"], line["activities"][0]["name"]);
        assert_eq!(world.service.stats().presence_updates, updates, "no update was needed");
    });
}

#[test]
fn without_an_interval_it_writes_nothing() {
    story(async {
        let world = World::begin().await;
        let said = world.says("Ada", "general", "@staffai hello");
        world.answer_to(said).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!((world.service.presence(0), world.model.calls()), (None, 1));
    });
}
