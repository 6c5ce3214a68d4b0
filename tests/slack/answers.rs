//! Members ask, and the bot answers each of them once, where they asked.

use std::time::Duration;

use crate::model::{Act, End};
use crate::world::{World, story};

/// Documents that common programs made.
const REPORT: &[u8] = include_bytes!("../../crates/documents/fixtures/report.pdf");
const STOCK: &[u8] = include_bytes!("../../crates/documents/fixtures/stock.xlsx");
const LOCKED: &[u8] = include_bytes!("../../crates/documents/fixtures/password.pdf");
/// A picture of one pixel.
const DOT: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xf7\x03AC\x00\x00\x00\x00IEND\xaeB`\x82";

#[test]
fn a_mention_is_answered_once_in_its_thread() {
    story(async {
        let world = World::begin().await;
        // Slack sends two events: a message, and beside it a mention.
        let said = world.service.says("U1", "C1", "@bot hello");
        let answer = world.only_answer_to(&said).await;
        assert_eq!((answer.thread.as_deref(), answer.text.as_str()), (Some(said.ts.as_str()), "You said: hello"));
        assert_eq!(world.model.calls(), 1);
    });
}

#[test]
fn a_direct_message_is_answered_and_other_talk_is_not() {
    story(async {
        let world = World::begin().await;
        let among_others = world.service.says("U1", "C1", "nothing for the bot");
        let direct = world.service.says("U1", "D1", "are you there?");
        assert_eq!(world.only_answer_to(&direct).await.text, "You said: are you there?");
        assert!(world.service.answers(&among_others).is_empty());
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
    });
}

#[test]
fn a_thread_is_one_conversation_and_another_thread_is_another() {
    story(async {
        let world = World::begin().await;
        let first = world.service.says("U1", "C1", "@bot my colour is blue");
        world.only_answer_to(&first).await;
        let second = world.service.replies("U1", &first, "@bot which is it?");
        world.only_answer_to(&second).await;
        assert!(world.model.last().shows("my colour is blue"));
        let elsewhere = world.service.says("U1", "C1", "@bot and here?");
        world.only_answer_to(&elsewhere).await;
        assert!(!world.model.last().shows("my colour is blue"));
    });
}

#[test]
fn an_answer_mentions_nothing_and_uses_the_markup_of_slack() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::says("**Hi** <!channel> @here <@U1> & [a page](https://a.example)"));
        let said = world.service.says("U1", "C1", "@bot shout");
        let text = world.only_answer_to(&said).await.text;
        assert_eq!(text, "*Hi* &lt;!channel&gt; @\u{2060}here @name of U1 &amp; <https://a.example|a page>");
        let call = &world.service.calls("chat.postMessage")[0];
        assert_eq!((call["parse"].as_str(), call["link_names"].as_str()), ("none", "false"));
    });
}

#[test]
fn a_long_answer_comes_in_parts_within_the_limits_of_slack() {
    story(async {
        let world = World::begin().await;
        let line = "Tides & waves come in, and go out again. ".repeat(10);
        let long: String = (0..18).map(|number| format!("{number}. {line}\n\n")).collect();
        world.model.always(Act::says(long.clone()));
        let said = world.service.says("U1", "C1", "@bot explain");
        let parts =
            world.until("all parts", || Some(world.service.answers(&said)).filter(|parts| parts.len() > 2)).await;
        assert!(parts[0].text.contains("0. Tides &amp; waves"));
        world
            .until("the last part", || {
                world.service.answers(&said).iter().any(|part| part.text.contains("17. Tides")).then_some(())
            })
            .await;
        for part in world.service.answers(&said) {
            assert!(part.text.chars().count() <= 4_000 && part.blocks.to_string().chars().count() <= 13_200);
        }
    });
}

#[test]
fn a_growing_answer_is_edited_and_ends_complete() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.insert("STAFFAI_STREAMING__HOLD".to_owned(), "0".to_owned());
        world.start().await;
        let words = "The tide comes in slowly, and it goes out again when the moon has passed over the bay. ".repeat(4);
        world.model.always(Act::streams(&words, 12, Duration::from_millis(120), End::Well));
        let said = world.service.says("U1", "C1", "@bot tell me");
        world
            .until("the whole answer", || {
                world.service.answers(&said).first().filter(|answer| answer.text == words.trim()).cloned()
            })
            .await;
        let answers = world.service.answers(&said);
        assert!(answers.len() == 1 && answers[0].edits > 1, "{answers:?}");
        assert!(answers[0].metadata["event_payload"]["nonce"].is_string());
    });
}

#[test]
fn a_question_that_is_deleted_gets_no_answer() {
    story(async {
        let world = World::begin().await;
        let (open, gate) = tokio::sync::watch::channel(false);
        world.model.always(Act::SaysWhen(gate, "too late".to_owned()));
        let said = world.service.says("U1", "C1", "@bot hello");
        world.until("the question", || (world.model.calls() == 1).then_some(())).await;
        world.service.deletes(&said);
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        // The deletion takes effect before the next question is answered.
        open.send_replace(true);
        let later = world.service.says("U1", "C1", "@bot still there?");
        world.only_answer_to(&later).await;
        assert!(world.service.answers(&said).is_empty());
    });
}

#[test]
fn an_edited_question_is_not_answered_again() {
    story(async {
        let world = World::begin().await;
        let said = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&said).await;
        world.service.edits(&said, "@bot hello, all");
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        let later = world.service.says("U1", "C1", "@bot still there?");
        world.only_answer_to(&later).await;
        assert_eq!((world.service.answers(&said).len(), world.model.calls()), (1, 2));
    });
}

#[test]
fn documents_are_read_and_pictures_are_shown_to_models_that_see() {
    story(async {
        let mut world = World::without_bot().await;
        let rows = r#"{"models": {"seer": {"model_id": "seer", "enabled": true, "vision": true}}}"#;
        std::fs::write(&world.env["STAFFAI_MODELS"], rows).unwrap();
        world.env.insert("LITELLM_MODEL".to_owned(), "seer".to_owned());
        world.start().await;
        let files = [
            ("report.pdf", "application/pdf", REPORT, "> The ledger names 42 quinces."),
            ("stock.xlsx", "application/octet-stream", STOCK, "> | Quince | 42 | 2026-10-03 |"),
            ("password.pdf", "application/pdf", LOCKED, "password"),
        ];
        for (name, mime, content, words) in files {
            let said = world.service.attaches("U1", "D1", "what does it say?", (name, mime), content);
            world.only_answer_to(&said).await;
            assert!(world.model.last().shows(words), "{name}: {:?}", world.model.last().messages);
        }
        let said = world.service.attaches("U1", "C1", "@bot what is this?", ("dot.png", "image/png"), DOT);
        world.only_answer_to(&said).await;
        let pictures = world.model.last().pictures();
        assert!(pictures.len() == 1 && pictures[0].starts_with("data:image/png;base64,"), "{pictures:?}");
    });
}

#[test]
fn a_text_file_of_a_question_is_read() {
    story(async {
        let world = World::begin().await;
        world.service.puts("/files/notes.txt", b"the tide is at noon");
        let said = world.service.sends("U1", "D1", "what does it say?", "notes.txt", "/files/notes.txt");
        world.only_answer_to(&said).await;
        assert!(world.model.last().shows("the tide is at noon"), "{:?}", world.model.last().messages);
        let elsewhere = world.service.sends("U1", "D1", "and this?", "n.txt", "http://127.0.0.1:9/n.txt");
        world.only_answer_to(&elsewhere).await;
        assert!(world.model.last().shows("n.txt"), "it is named");
    });
}
