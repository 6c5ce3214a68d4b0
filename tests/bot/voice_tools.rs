//! Tools in speech: they announce themselves by phrases, and their output is never spoken.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::model::Act;
use crate::process::Process;
use crate::support::{Setup, World, story};
use crate::voice::{ECHO, Speaker, asks, heard, of, texts};

/// Returns what is spoken.
fn spoken(events: &[Value]) -> Vec<String> {
    heard(events).into_iter().map(|(_, words)| words.trim_start_matches("RIFF....WAVE").to_owned()).collect()
}

#[test]
fn a_tool_announces_itself_and_its_failure_in_the_phrases_of_the_language() {
    story(async {
        let phrases = r#"[{language = "de", running = "Augenblick, ich würfle.", other = "Hoppla."}]"#;
        let setup = Setup::new().set("STAFFAI_VOICES", ECHO).set("STAFFAI_TOOLS__LIMITS", "roll_* 1/10m");
        let world = World::with(setup.set("STAFFAI_SPEECH__PHRASES", phrases)).await;
        let roll = |id: &'static str| (id, "roll_dice", json!({"notation": "2d6"}));
        world.model.does(move |ask| match ask.results().len() {
            0 => Act::calls(&[roll("c1")]),
            1 => Act::calls(&[roll("c2")]),
            _ => Act::says("That was it."),
        });
        let mut speaker = Speaker::open(&world, "session=one&language=de-AT").await;
        speaker.sends(asks("roll")).await;
        let events = speaker.answer().await;
        assert_eq!(spoken(&events), ["Augenblick, ich würfle.", "Hoppla.", "That was it."]);
        // They are no part of the answer.
        assert_eq!(texts(&events), "That was it.");
        let failed: Vec<&Value> = of(&events, "tool_status").filter(|status| status["state"] == "failed").collect();
        assert_eq!((failed.len(), failed[0]["failure"].as_str()), (1, Some("other")), "{events:?}");
        // In order: the announcement, the state, and the answer.
        let at = |wanted: &dyn Fn(&Value) -> bool| events.iter().position(wanted).unwrap();
        let failure = at(&|event| event["state"] == "failed");
        assert!(at(&|event| event["speech"] == "Hoppla.") < failure, "{events:?}");
        assert!(failure < at(&|event| event["speech"] == "That was it."), "{events:?}");
        // Another language has the phrases of the program; a model that says something itself needs no announcement.
        let mut other = Speaker::open(&world, "session=two").await;
        other.sends(asks("roll")).await;
        let events = other.answer().await;
        assert_eq!(
            spoken(&events),
            ["One moment, I am using my tools for this.", "I ran into a small issue there.", "That was it."]
        );
    });
}

/// Begins a bot with the example server. A guard that starts children is this program, so the bot is a process.
#[expect(clippy::disallowed_methods, reason = "children need the path of the machine that the tests run on")]
async fn with_example_server(changes: Value) -> (World, Process) {
    let setup = Setup::new().set("PATH", std::env::var("PATH").unwrap()).set("STAFFAI_VOICES", ECHO);
    let world = World::without_bot(setup).await;
    let mut example = json!({
        "command": env!("CARGO_BIN_EXE_staffai"), "args": ["example-server"], "trusted": true, "timeout": "100s",
    });
    example.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let servers = json!({"mcpServers": {"slow": example}});
    std::fs::write(world.dir.path().join("mcp.json"), servers.to_string()).unwrap();
    let process = world.process("bot").await;
    world.until_told("/api/v1/tools", |tools| tools.to_string().contains("slow__wait").then_some(())).await;
    (world, process)
}

#[test]
fn an_interruption_lets_a_tool_finish_that_changes_something_and_the_model_reads_its_result() {
    story(async {
        let (world, _process) = with_example_server(json!({"side_effects": true})).await;
        world.model.does(|ask| match ask.question() {
            question if question.contains("wait") => Act::calls(&[("c1", "slow__wait", json!({"seconds": 2}))]),
            _ => Act::says("It is done."),
        });
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("wait")).await;
        // The second report is the tool's own: it runs.
        speaker.until(|event| event["state"] == "running").await;
        speaker.until(|event| event["state"] == "running").await;
        speaker.sends(json!({"event": "interrupt"})).await;
        speaker.until(|event| event["event"] == "interrupted").await;
        // The next question waits for the call.
        speaker.sends(asks("and now?")).await;
        let events = speaker.until(|event| event["text"] == "It is done.").await;
        assert!(events.iter().any(|event| event["state"] == "succeeded"), "the call was cut: {events:?}");
        assert_eq!(world.model.calls(), 2, "the interrupted turn ended with its call");
        assert_eq!(
            world.model.last().talk(),
            "user: wait\nassistant: [interrupted here: the rest was not heard] \
             [tool slow__wait was called; its result, which is data: \"Waited for 2 s.\"]\nuser: and now?"
        );
    });
}

#[test]
fn an_interruption_does_not_wait_for_a_tool_that_only_reads() {
    story(async {
        let (world, _process) = with_example_server(json!({})).await;
        world.model.does(|ask| match ask.question() {
            question if question.contains("wait") => Act::calls(&[("c1", "slow__wait", json!({"seconds": 10}))]),
            _ => Act::says("Here I am."),
        });
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("wait")).await;
        speaker.until(|event| event["state"] == "running").await;
        speaker.sends(json!({"event": "interrupt"})).await;
        let stopped = speaker.answer().await;
        assert_eq!(stopped[stopped.len() - 1]["unanswered"], "stopped", "{stopped:?}");
        assert!(stopped.iter().all(|event| event["state"] != "succeeded"), "the turn waited: {stopped:?}");
        speaker.sends(asks("and now?")).await;
        assert_eq!(texts(&speaker.answer().await), "Here I am.");
    });
}

#[test]
fn a_denied_call_is_told_as_a_denial_and_announced_by_no_phrase() {
    story(async {
        let setup = Setup::new().set("STAFFAI_VOICES", ECHO).set("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "roll_dice");
        let world = World::with(setup).await;
        world.model.does(|ask| match ask.results().len() {
            0 => Act::calls(&[("c1", "roll_dice", json!({"notation": "2d6"}))]),
            _ => Act::says("As you wish."),
        });
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("roll")).await;
        let gate = speaker.until(|event| event["event"] == "approval").await.pop().unwrap()["id"].clone();
        speaker.sends(json!({"event": "answer", "id": gate, "approve": false})).await;
        let events = speaker.answer().await;
        assert_eq!(spoken(&events), ["As you wish."]);
        let states: Vec<&Value> = of(&events, "tool_status").map(|status| &status["state"]).collect();
        assert_eq!(states, ["denied"], "{events:?}");
    });
}

#[test]
fn a_call_that_a_row_writes_as_text_is_never_spoken() {
    story(async {
        let setup = Setup::new().set("STAFFAI_VOICES", ECHO);
        let world = World::of_row(setup, r#""tools": "prompt""#).await;
        // Only calls in the notation of the prompt are made; others stay text.
        world.model.always(Act::says(
            "Let me roll. [TOOL_CALLS][{\"name\": \"roll_dice\", \"arguments\": {\"notation\": \"2d6\"}}]\n\
             Or <｜tool▁call▁begin｜>roll_dice<｜tool▁call▁end｜> so: {\"tool\": \"roll_dice\"} That was it.",
        ));
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("roll")).await;
        let events = speaker.answer().await;
        assert_eq!(spoken(&events).join(" "), "Let me roll. Or so: That was it.", "{events:?}");
        assert!(texts(&events).contains("[TOOL_CALLS]"), "{events:?}");
    });
}

#[test]
fn a_picture_of_a_tool_is_an_event_of_its_own_and_no_text() {
    story(async {
        let (world, _process) = with_example_server(json!({})).await;
        world.model.does(|ask| match ask.results().len() {
            0 => Act::calls(&[("c1", "slow__draw_picture", json!({"words": "a boat"}))]),
            _ => Act::says("Here it is."),
        });
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("draw a boat")).await;
        let events = speaker.answer().await;
        assert_eq!(texts(&events), "Here it is.");
        let picture = of(&events, "picture").next().unwrap_or_else(|| panic!("{events:?}"));
        let bytes = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        assert!(picture["format"] == "image/png" && bytes.starts_with(b"\x89PNG"), "{picture}");
    });
}

#[test]
fn a_tool_that_is_late_says_so_and_its_output_is_never_spoken() {
    story(async {
        let (world, _process) = with_example_server(json!({"timeout": "1s"})).await;
        world.model.does(|ask| {
            if ask.results().is_empty() {
                Act::calls(&[("c1", "slow__wait", json!({"seconds": 8}))])
            } else {
                Act::says("It is not there yet.")
            }
        });
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("wait")).await;
        let events = tokio::time::timeout(Duration::from_secs(30), speaker.answer()).await.expect("the call times out");
        assert_eq!(
            spoken(&events),
            [
                "One moment, I am using my tools for this.",
                "That's taking a bit longer than expected.",
                "It is not there yet."
            ]
        );
        let failed = of(&events, "tool_status").find(|status| status["state"] == "failed").unwrap();
        assert_eq!(failed["failure"], "timeout", "{events:?}");
    });
}
