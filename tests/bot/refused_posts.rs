//! Discord refuses some answers repeatedly: no other answer is delayed, and their members get a timely notice.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::Act;
use crate::support::{SOON, Said, Setup, World, story};

const REACT: &str = "PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me";
/// The deadline of a turn here.
const DEADLINE: Duration = Duration::from_secs(20);

/// A model that repeats the question, and a Discord that refuses the word "poison".
async fn poisoned() -> World {
    let setup = Setup::new().set("STAFFAI_TURN__DEADLINE", "20s");
    let world = World::without_bot(setup).await;
    world.model.does(|ask| Act::says(format!("You said: {}", ask.question())));
    world.service.faults().refuse_text(Some(("poison", 503)));
    world
}

/// Three mentions in one channel; Discord refuses the answer to the first.
fn asks(world: &World) -> (Said, Vec<Said>) {
    let poison = world.says("Ada", "general", "@staffai poison");
    let others = ["Ben", "Chloe"].map(|who| world.says(who, "general", "@staffai hello"));
    (poison, others.to_vec())
}

/// Waits until these parts, and no others, are not ready, while the process is ready. It is degraded until it has read that
/// another answer was accepted.
async fn down_is(world: &World, expected: &[&str]) {
    let mut seen = Vec::new();
    let wait = async {
        loop {
            let body = world.json("/readyz").await.1;
            let parts = body["parts"].as_array().cloned().unwrap_or_default();
            let down = parts.iter().filter(|part| part["status"] != "ready");
            seen = down.map(|part| part["kind"].as_str().unwrap_or_default().to_owned()).collect();
            if seen == expected && body["status"] == "ready" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(8), wait).await.is_ok(), "{seen:?} and not {expected:?}");
}

#[test]
fn an_answer_that_discord_always_refuses_delays_no_other_and_ends_in_an_apology() {
    story(async {
        let world = poisoned().await;
        let process = world.process("bot").await;
        let begun = Instant::now();
        let (poison, others) = asks(&world);
        world.all_answered(&others, Duration::from_secs(10)).await;
        assert_eq!(world.answers(poison), []);
        // The place is named before the notice.
        down_is(&world, &["place"]).await;
        world.all_answered(&[poison], DEADLINE.saturating_sub(begun.elapsed())).await;
        assert!(world.words_to(poison).await.starts_with("Sorry, "));
        down_is(&world, &[]).await;
        let lines = process.output();
        let line = |event: &str| lines.lines().filter(|line| line.contains(event)).collect::<Vec<_>>();
        let delayed = line("\"outbox.delayed\"");
        assert_eq!(delayed.len(), 1, "{delayed:?}");
        assert!(delayed[0].contains("WARN") && delayed[0].contains("discord answered 503"), "{delayed:?}");
        assert!(delayed[0].contains(&poison.id.to_string()), "{delayed:?}");
    });
}

#[test]
fn where_discord_takes_no_text_the_question_gets_a_reaction() {
    story(async {
        let world = poisoned().await;
        // Matches every message.
        world.service.faults().refuse_text(Some(("", 500)));
        world.start().await;
        let begun = Instant::now();
        world.says("Ada", "general", "@staffai hello");
        let reacted = || world.service.stats().by_route.get(REACT).copied().unwrap_or_default();
        tokio::time::timeout(DEADLINE, async {
            while reacted() == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
        .unwrap();
        println!("a reaction after {:?}", begun.elapsed());
        world.service.faults().refuse_text(None);
        let next = world.says("Ada", "general", "@staffai and now?");
        world.all_answered(&[next], Duration::from_secs(10)).await;
    });
}

#[test]
fn refusals_outlive_the_process_and_a_drain_does_not_wait_for_them() {
    story(async {
        let world = poisoned().await;
        let mut process = world.process("one").await;
        let begun = Instant::now();
        let (poison, others) = asks(&world);
        world.all_answered(&others, Duration::from_secs(10)).await;
        process.terminate();
        assert_eq!(process.exit(Duration::from_secs(5)).await, 0);
        let _second = world.process("two").await;
        let next = world.says("Ben", "general", "@staffai hello again");
        world.all_answered(&[next], SOON).await;
        world.all_answered(&[poison], DEADLINE.saturating_sub(begun.elapsed())).await;
        assert!(world.words_to(poison).await.starts_with("Sorry, "), "the time goes on where it was");
    });
}
