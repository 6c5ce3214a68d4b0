//! One member's load does not affect others: each story prints what the greedy member did and what the other one got.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::model::Act;
use crate::support::{Said, Setup, World, story};

/// Number of questions of the quiet member in each story.
const QUIET: usize = 5;

/// An answer with these token counts.
fn takes(prompt: u64, completion: u64) -> Act {
    let content = json!({"type": "text", "response": "done", "data": ""}).to_string();
    let message = json!({"role": "assistant", "content": content});
    let body = json!({
        "id": "c", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {
            "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        },
    });
    Act::Body(body.to_string())
}

/// Asks in sequence; returns the number of answers by the model, and the duration of each.
async fn asks(world: &World, who: &str, channel: &str, many: usize) -> (usize, Vec<Duration>) {
    let (mut served, mut took) = (0, Vec::new());
    for _ in 0..many {
        let (calls, begun) = (world.model.calls(), Instant::now());
        world.answer_to(world.says(who, channel, &format!("@staffai {who} asks"))).await;
        took.push(begun.elapsed());
        served += usize::from(world.model.calls() > calls);
    }
    (served, took)
}

fn longest(took: &[Duration]) -> u128 {
    took.iter().max().map_or(0, Duration::as_millis)
}

#[test]
fn long_answers_of_one_cost_another_neither_tokens_nor_a_restriction() {
    story(async {
        let setup = Setup::new().set("TOKEN_RATE_LIMIT_COUNT", 20_000);
        let world = World::with(setup).await;
        world.model.does(|ask| if ask.shows("Ada asks") { takes(500, 9_000) } else { takes(700, 20) });
        let (greedy, _) = asks(&world, "Ada", "general", 4).await;
        let (quiet, took) = asks(&world, "Ben", "general", QUIET).await;
        println!(
            "estimates: Ada had {greedy} of 4 long answers; Ben {quiet} of {QUIET}, the slowest in {} ms",
            longest(&took)
        );
        assert_eq!(quiet, QUIET);
        assert!((2..4).contains(&greedy), "and Ada met the limit of her own: {greedy}");
    });
}

#[test]
fn a_flood_of_one_takes_no_place_of_another() {
    story(async {
        let world = World::with(Setup::new().set("RATE_LIMIT_COUNT", 20)).await;
        world.model.does(|_| takes(30, 20));
        let alone = longest(&asks(&world, "Ben", "help", QUIET).await.1);
        let flood: Vec<Said> = (0..200).map(|_| world.says("Ada", "general", "@staffai Ada asks")).collect();
        let (quiet, took) = asks(&world, "Ben", "help", QUIET).await;
        let answered = flood.iter().filter(|said| !world.answers(**said).is_empty()).count();
        println!(
            "flood: 200 questions of Ada, {answered} of them met with a word by then; Ben {quiet} of {QUIET}, the slowest in {} ms, \
             {alone} ms alone",
            longest(&took)
        );
        assert_eq!(quiet, QUIET);
        assert!(longest(&took) < alone + 3_000, "Ben is not delayed");
    });
}

#[test]
fn failed_answers_are_charged_to_their_member_only() {
    story(async {
        let world = World::with(Setup::new().set("RATE_LIMIT_COUNT", 2 * QUIET as u64)).await;
        world.model.does(|ask| if ask.shows("Ada asks") { Act::Body("nonsense".into()) } else { takes(30, 20) });
        let said = world.says("Ada", "general", "@staffai Ada asks");
        world.answer_to(said).await;
        let (quiet, took) = asks(&world, "Ben", "general", QUIET).await;
        println!("failures: Ada's answer failed; Ben {quiet} of {QUIET}, the slowest in {} ms", longest(&took));
        assert_eq!(quiet, QUIET);
    });
}

#[test]
fn failing_questions_of_one_member_leave_the_model_available_for_others() {
    story(async {
        let world = World::begin().await;
        world.model.does(|ask| if ask.shows("Ada asks") { Act::Status(500) } else { takes(30, 20) });
        let (_, failing) = asks(&world, "Ada", "general", 4).await;
        let (quiet, took) = asks(&world, "Ben", "general", QUIET).await;
        println!(
            "breakers: {} questions of Ada failed at the provider; Ben {quiet} of {QUIET}, the slowest in {} ms",
            failing.len(),
            longest(&took)
        );
        assert_eq!(quiet, QUIET);
    });
}

#[test]
fn a_place_that_is_closed_to_us_costs_other_places_nothing() {
    story(async {
        let world = World::begin().await;
        world.model.does(|_| takes(30, 20));
        let alone = longest(&asks(&world, "Ben", "help", QUIET).await.1);
        world.service.faults().forbid_channel(world.channel("general"), true);
        let calls = world.model.calls();
        for _ in 0..30 {
            world.says("Ada", "general", "@staffai Ada asks");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (quiet, took) = asks(&world, "Ben", "help", QUIET).await;
        let refused = world.service.stats().by_status.get(&403).copied().unwrap_or_default();
        println!(
            "closed places: 30 questions of Ada where we may not post, {} model calls and {refused} refusals; \
             Ben {quiet} of {QUIET}, the slowest in {} ms, {alone} ms alone",
            world.model.calls() - calls - QUIET,
            longest(&took)
        );
        assert_eq!(quiet, QUIET);
        assert!(longest(&took) < alone + 3_000, "Ben is not delayed");
        assert!(world.model.calls() - calls - QUIET < 15, "a place that is known to be closed asks no model");
    });
}

#[test]
fn connections_of_one_leave_room_on_the_page_for_others() {
    story(async {
        let world = World::begin().await;
        let alone = Instant::now();
        assert_eq!(world.get("/healthz").await.0, 200);
        let alone = alone.elapsed().as_millis();
        let mut held = Vec::new();
        for number in 0..400 {
            let Ok(mut connection) = tokio::net::TcpStream::connect(world.http).await else { continue };
            // Half of them are silent, half begin a request and never end it.
            if number % 2 == 0 {
                let _ = connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: staffai\r\nX-Slow: ").await;
            }
            held.push(connection);
        }
        let begun = Instant::now();
        let (mut health, mut metrics) = (0, 0);
        for _ in 0..QUIET {
            health += usize::from(world.get("/healthz").await.0 == 200);
            metrics += usize::from(world.get("/metrics").await.0 == 200);
        }
        let took = begun.elapsed().as_millis() / (2 * QUIET as u128);
        println!(
            "connections: {} held open by one; health answered {health} of {QUIET}, metrics {metrics} of {QUIET}, in {took} ms each, \
             {alone} ms alone",
            held.len()
        );
        assert_eq!((health, metrics), (QUIET, QUIET));
        let said = world.says("Ben", "general", "@staffai still there?");
        world.answer_to(said).await;
    });
}
