//! For every fault of a model, the member gets one sentence, in time, and no technical text.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::model::Act;
use crate::support::{Setup, World, story};

const DOWN: &str =
    "Sorry, a problem on my side keeps me from answering right now; please ask me again in a few minutes.";
const LATE: &str = "Sorry, that took me too long; please ask me again, perhaps in simpler words.";
const FILTERED: &str = "Sorry, I may not answer that; please ask me something else.";
const WORDLESS: &str = "Sorry, I could not find a good answer to that; please try to ask it differently.";

/// Returns the member's answer if the model reacts like this to every question.
async fn member_reads(act: Act) -> String {
    let world = World::with(Setup::new().set("STAFFAI_LLM__TIMEOUT", "1s").set("STAFFAI_TURN__DEADLINE", "4s")).await;
    let what = format!("{act:?}");
    world.model.always(act);
    let begun = Instant::now();
    let said = world.says("Ada", "general", "@staffai hello");
    let words = world.words_to(said).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{what} took {:?}", begun.elapsed());
    assert!(!words.contains("\"response\"") && !words.contains("choices"), "{what}: {words}");
    words
}

#[test]
fn plain_text_is_taken_as_the_answer() {
    story(async {
        insta::assert_snapshot!(member_reads(Act::content("High tide is at nine.")).await, @"High tide is at nine.");
    });
}

#[test]
fn a_fenced_answer_is_unpacked() {
    story(async {
        let fenced = "Sure!\n```json\n{\"type\": \"text\", \"response\": \"At nine.\", \"data\": \"\"}\n```";
        insta::assert_snapshot!(member_reads(Act::content(fenced)).await, @"At nine.");
    });
}

#[test]
fn an_answer_that_was_cut_off_shows_its_words_only() {
    story(async {
        let cut = r#"{"type": "text", "response": "High tide is at nine and low"#;
        let words = member_reads(Act::CutOff(cut.to_owned())).await;
        assert!(words.starts_with("High tide is at nine") || words == WORDLESS, "{words}");
    });
}

#[test]
fn an_answer_of_another_shape_never_shows_its_json() {
    story(async {
        for content in
            [r#"{"answer": 42}"#, "[1, 2]", "null", r#"{"type": "text"}"#, r#"{"type":7,"response":8,"data":9}"#]
        {
            let words = member_reads(Act::content(content)).await;
            assert!(!words.contains('{') && !words.contains('['), "{content}: {words}");
        }
    });
}

#[test]
fn an_empty_answer_becomes_an_apology() {
    story(async {
        for content in ["", "   ", "{}", r#"{"type": "text", "response": "", "data": ""}"#] {
            assert_eq!(member_reads(Act::content(content)).await, WORDLESS, "{content}");
        }
    });
}

#[test]
fn a_bad_answer_is_repaired_by_asking_again() {
    story(async {
        let world = World::begin().await;
        world.model.does(|ask| if ask.number == 0 { Act::content("{}") } else { Act::says("better") });
        let said = world.says("Ada", "general", "@staffai hello");
        assert_eq!(world.words_to(said).await, "better");
        assert_eq!(world.model.calls(), 2);
    });
}

#[test]
fn a_refusal_is_told_in_its_own_words() {
    story(async {
        insta::assert_snapshot!(member_reads(Act::Refuses("I will not do that.".into())).await, @"I will not do that.");
    });
}

#[test]
fn a_filtered_answer_becomes_an_apology() {
    story(async {
        assert_eq!(member_reads(Act::Filtered).await, FILTERED);
    });
}

#[test]
fn a_model_that_is_down_is_apologised_for() {
    story(async {
        let told = [500, 503, 401, 400].map(|status| member_reads(Act::Status(status)));
        assert_eq!(join_all(told).await, [DOWN; 4]);
    });
}

#[test]
fn a_model_that_never_answers_takes_no_longer_than_a_turn_may() {
    story(async {
        assert_eq!(member_reads(Act::Hangs).await, LATE);
    });
}

#[test]
fn a_body_that_never_ends_takes_no_longer_than_a_turn_may() {
    story(async {
        assert_eq!(member_reads(Act::Endless).await, LATE);
    });
}

#[test]
fn bodies_that_are_no_completion_are_apologised_for() {
    story(async {
        let error = json!({"error": {"message": "inside a success"}}).to_string();
        let bodies = ["", "<html>", "[]", "{}", r#"{"choices": []}"#, r#"{"choices": [{}]}"#, &error];
        for words in join_all(bodies.map(|body| member_reads(Act::Body(body.to_owned())))).await {
            assert!(words.starts_with("Sorry, "), "{words}");
        }
        assert!(member_reads(Act::Giant).await.starts_with("Sorry, "));
    });
}

#[test]
fn a_model_that_wants_a_pause_gets_it() {
    story(async {
        let world = World::begin().await;
        world.model.does(|ask| if ask.number == 0 { Act::RetryAfter("1") } else { Act::says("rested") });
        let begun = Instant::now();
        let said = world.says("Ada", "general", "@staffai hello");
        assert_eq!(world.words_to(said).await, "rested");
        assert!(begun.elapsed() >= Duration::from_secs(1));
        assert_eq!(world.model.calls(), 2);
    });
}

#[test]
fn an_answer_without_usage_is_an_answer() {
    story(async {
        insta::assert_snapshot!(member_reads(Act::WithoutUsage("fine".into())).await, @"fine");
    });
}

#[test]
fn a_model_that_keeps_failing_is_left_alone_for_a_while_and_then_tried_again() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::Status(500));
        for who in ["Ada", "Ben", "Ada"] {
            let said = world.says(who, "general", "@staffai hello");
            world.answer_to(said).await;
        }
        let body = world.becomes("degraded").await;
        assert!(
            body["parts"].as_array().unwrap().iter().any(|part| part["kind"] == "model" && part["status"] == "down")
        );
        let calls = world.model.calls();
        let said = world.says("Ada", "general", "@staffai anybody?");
        assert!(world.words_to(said).await.starts_with("Sorry, "));
        assert_eq!(world.model.calls(), calls, "it is left alone");

        world.model.always(Act::says("I am back"));
        tokio::time::sleep(domain::breaker::OPEN_FOR).await;
        let said = world.says("Ada", "general", "@staffai and now?");
        assert_eq!(world.words_to(said).await, "I am back");
        world.becomes("ready").await;
    });
}
