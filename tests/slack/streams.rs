//! Answers that grow by Slack's streaming calls.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::{Act, End};
use crate::world::{SOON, World, story, story_within};
use playground::workspace::{Fault, Said};

/// The time for which Slack keeps a stream open.
const FIVE_MINUTES: Duration = Duration::from_secs(300);
/// The time between two pieces of an answer.
const PIECE: Duration = Duration::from_millis(120);

/// A bot that shows drafts at once, in a workspace with streams.
async fn streaming(lasts: Duration) -> World {
    let mut world = World::without_bot().await;
    world.env.insert("STAFFAI_STREAMING__HOLD".to_owned(), "0".to_owned());
    world.env.insert("STAFFAI_TURN__DEADLINE".to_owned(), "40s".to_owned());
    world.service.streams(lasts);
    world
}

fn words(sentences: usize) -> String {
    (0..sentences).map(|number| format!("Sentence {number} is about the tide, which comes and goes. ")).collect()
}

/// Awaits exactly one answer with this text, whose stream ended.
async fn complete(world: &World, said: &Said, text: &str) {
    world
        .until("the whole answer", || {
            let answers = world.service.answers(said);
            answers.first().filter(|answer| answer.text == text.trim() && answer.streams.is_none()).cloned()
        })
        .await;
    let answer = world.only_answer_to(said).await;
    assert!(answer.metadata["event_payload"]["nonce"].is_string(), "it has its mark: {answer:?}");
}

#[test]
fn an_answer_is_streamed_in_one_message_and_a_short_one_is_posted_at_once() {
    story(async {
        let world = streaming(FIVE_MINUTES).await;
        world.start().await;
        let text = words(8);
        world.model.always(Act::streams(&text, 12, PIECE, End::Well));
        for channel in ["C1", "D1"] {
            let said = world.service.says("U1", channel, "@bot tell me");
            complete(&world, &said, &text).await;
        }
        let starts = world.service.calls("chat.startStream");
        assert_eq!(starts.len(), 2);
        assert_eq!(
            (starts[0]["recipient_user_id"].as_str(), starts[0]["recipient_team_id"].as_str()),
            ("U1", "T0WORK")
        );
        assert!(world.service.calls("chat.appendStream").len() > 2);
        assert_eq!(world.service.calls("chat.stopStream").len(), 2);
        assert!(world.service.calls("chat.update").is_empty() && world.service.calls("chat.postMessage").is_empty());
        world.model.always(Act::says("short"));
        let said = world.service.says("U1", "C1", "@bot and in short?");
        complete(&world, &said, "short").await;
        assert_eq!(world.service.calls("chat.startStream").len(), 2);
    });
}

#[test]
fn a_stream_that_slack_closes_goes_on_without_a_lost_or_repeated_character() {
    story(async {
        let world = streaming(Duration::from_millis(1_500)).await;
        world.start().await;
        let text = words(20);
        world.model.always(Act::streams(&text, 40, PIECE, End::Well));
        let said = world.service.says("U1", "C1", "@bot tell me");
        complete(&world, &said, &text).await;
        assert_eq!(world.service.calls("chat.startStream").len(), 1);
        assert!(!world.service.calls("chat.update").is_empty(), "the same message is edited");
    });
}

/// The duration of the long answer: 30 minutes at full scale, where Slack closes a stream after a sixth of it.
/// `SLACK_ANSWER_SECONDS=1800` runs it at full scale.
#[expect(clippy::disallowed_methods, reason = "a person who wants the full scale sets it")]
fn long_answer() -> Duration {
    let seconds = std::env::var("SLACK_ANSWER_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(18))
}

#[test]
fn an_answer_of_half_an_hour_with_pauses_shows_each_byte_once_and_in_order() {
    let takes = long_answer();
    story_within(takes * 2 + Duration::from_secs(60), async move {
        let mut world = streaming(takes / 6).await;
        // No pause of the model reaches these timeouts.
        for (name, share) in [("STAFFAI_LLM__TIMEOUT", 4), ("STAFFAI_TURN__DEADLINE", 2)] {
            world.env.insert(name.to_owned(), format!("{}s", (takes / share).as_secs() + 2));
        }
        world.env.insert("STAFFAI_TURN__LONGEST".to_owned(), format!("{}s", takes.as_secs() * 2 + 30));
        world.start().await;
        // Half of the time passes in ten pauses, the other half between the pieces.
        let text: String =
            (0..400).map(|number| format!("Sentence {number} is about the tide, which comes and goes. ")).collect();
        let pauses = (0..110).map(|piece| if piece % 11 == 10 { takes / 20 } else { takes / 200 }).collect();
        world.model.always(Act::streams_unevenly(&text, text.chars().count().div_ceil(110), pauses));
        let said = world.service.says("U1", "C1", "@bot tell me all of it");
        let wanted = text.trim_end();
        // Messages are cut at a space, which is not shown.
        let shown = || world.service.answers(&said).into_iter().map(|answer| answer.text).collect::<Vec<_>>().join(" ");
        let deadline = Instant::now() + takes * 2 + SOON;
        loop {
            let shown = shown();
            let shown = shown.trim_end();
            let is_open = world.service.answers(&said).iter().any(|answer| answer.streams.is_some());
            if shown == wanted && !is_open {
                break;
            }
            assert!(wanted.starts_with(shown), "the shown text is a beginning of the answer: {shown:?}");
            assert!(Instant::now() < deadline, "{} of {} bytes", shown.len(), wanted.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(shown().trim_end(), wanted, "nothing follows");
        let answers = world.service.answers(&said);
        println!(
            "{takes:?}: {} messages, {} streams, {} edits",
            answers.len(),
            world.service.calls("chat.startStream").len(),
            world.service.calls("chat.update").len()
        );
        assert!(answers.len() > 1 && !world.service.calls("chat.update").is_empty(), "Slack closed the stream");
    });
}

#[test]
fn lost_answers_of_streaming_calls_double_and_lose_nothing() {
    for method in ["chat.startStream", "chat.appendStream", "chat.stopStream"] {
        story(async {
            let world = streaming(FIVE_MINUTES).await;
            world.start().await;
            world.service.breaks(method, Fault::LostAnswer);
            let text = words(10);
            world.model.always(Act::streams(&text, 15, PIECE, End::Well));
            let said = world.service.says("U1", "C1", "@bot tell me");
            complete(&world, &said, &text).await;
        });
    }
}

#[test]
fn a_kill_in_the_middle_of_a_stream_leaves_one_answer() {
    story(async {
        let world = streaming(FIVE_MINUTES).await;
        let process = world.process("first").await;
        let text = words(40);
        world.model.always(Act::streams(&text, 8, PIECE, End::Well));
        let said = world.service.says("U1", "C1", "@bot tell me");
        world.until("a stream", || (world.service.calls("chat.appendStream").len() > 1).then_some(())).await;
        process.kill();
        world.until("the end of the connections", || (world.service.connections().0 == 0).then_some(())).await;
        let text = words(6);
        world.model.always(Act::streams(&text, 20, PIECE, End::Well));
        let _second = world.process("second").await;
        complete(&world, &said, &text).await;
    });
}

#[test]
fn streams_beyond_their_tier_are_edited_messages() {
    story(async {
        let world = streaming(FIVE_MINUTES).await;
        world.service.limits("chat.startStream", 2, Duration::from_secs(60));
        world.start().await;
        let text = words(8);
        world.model.always(Act::streams(&text, 20, PIECE, End::Well));
        let said: Vec<Said> = (1..=4).map(|n| world.service.says("U1", &format!("C{n}"), "@bot tell me")).collect();
        for said in &said {
            complete(&world, said, &text).await;
        }
        assert_eq!(world.service.calls("chat.stopStream").len(), 2);
        assert_eq!(world.service.calls("chat.postMessage").len(), 2);
    });
}

#[test]
fn a_workspace_without_streams_is_asked_once() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.insert("STAFFAI_STREAMING__HOLD".to_owned(), "0".to_owned());
        world.start().await;
        let text = words(8);
        world.model.always(Act::streams(&text, 20, PIECE, End::Well));
        for channel in ["C1", "C2"] {
            let said = world.service.says("U1", channel, "@bot tell me");
            complete(&world, &said, &text).await;
        }
        assert_eq!(world.service.calls("chat.startStream").len(), 1);
    });
}

#[test]
fn a_streamed_answer_notifies_no_member_and_shows_its_code_exactly() {
    story(async {
        let world = streaming(FIVE_MINUTES).await;
        world.start().await;
        let text = "Hello <@U1> and <!channel>, look:\n```html\n<!DOCTYPE html>\n<p>tide</p>\n```\nThat is all of it.";
        world.model.always(Act::streams(text, 4, PIECE, End::Well));
        let said = world.service.says("U1", "C1", "@bot tell me");
        let whole =
            || world.service.answers(&said).first().filter(|answer| answer.text.ends_with("all of it.")).cloned();
        let answer = world.until("the whole answer", whole).await;
        assert!(answer.text.contains("&lt;!DOCTYPE html&gt;"), "{}", answer.text);
        for (name, calls) in [("chat.startStream", 1), ("chat.appendStream", 1), ("chat.stopStream", 0)] {
            let sent = world.service.calls(name);
            assert!(sent.len() >= calls, "{name}");
            let texts: String = sent.iter().filter_map(|call| call.get("markdown_text")).cloned().collect();
            assert!(!texts.contains("<@U1>") && !texts.contains("<!"), "{texts}");
        }
    });
}
