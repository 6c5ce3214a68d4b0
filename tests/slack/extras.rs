//! More than text: private notices, files, the status of a thread, user groups, and the shortcut on a message.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::model::Act;
use crate::world::{World, story};
use playground::workspace::{Fault, Message, Said};

/// A reply of the model of this kind.
fn reply(kind: &str, response: &str, data: &str) -> Act {
    Act::content(json!({"type": kind, "response": response, "data": data}).to_string())
}

#[test]
fn a_member_over_the_limit_is_told_so_privately() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.insert("RATE_LIMIT_COUNT".to_owned(), "1".to_owned());
        world.start().await;
        let first = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&first).await;
        let second = world.service.says("U1", "C1", "@bot again");
        let notice = world.until("a notice", || world.service.notices().into_iter().next()).await;
        assert_eq!((&notice["user"], &notice["channel"]), (&"U1".into(), &"C1".into()));
        assert!(notice.get("thread_ts").is_none(), "it stands beside the question, which began no thread");
        assert!(world.service.answers(&second).is_empty(), "no other member sees it");
        assert_eq!(world.model.calls(), 1);
        // Later refusals of the window are reactions, which take no room.
        let third = world.service.says("U1", "C1", "@bot please");
        let reaction = world.until("a reaction", || world.service.calls("reactions.add").into_iter().next()).await;
        assert_eq!((&reaction["channel"], &reaction["timestamp"]), (&third.channel, &third.ts));
        assert_eq!(world.service.notices().len(), 1);
        // In a direct conversation it is a message like any other.
        let direct = world.service.says("U2", "D1", "hello");
        world.only_answer_to(&direct).await;
        let again = world.service.says("U2", "D1", "again");
        world.only_answer_to(&again).await;
        assert_eq!(world.service.notices().len(), 1);
    });
}

#[test]
fn a_fact_told_in_one_channel_is_not_used_in_another() {
    story(async {
        let mut world = World::without_bot().await;
        let rows = r#"{"models": {"plain": {"model_id": "plain", "enabled": true, "tools": "off"}}}"#;
        std::fs::write(&world.env["STAFFAI_MODELS"], rows).unwrap();
        world.env.insert("LITELLM_MODEL".to_owned(), "plain".to_owned());
        world.start().await;
        world.service.runs("U1", "GSECRET", "remember the boat is called Heron");
        world.until("a private answer", || world.service.whispers().into_iter().next()).await;
        for (user, channel, known) in [("U1", "GSECRET", true), ("U2", "GSECRET", false), ("U1", "C1", false)] {
            let said = world.service.says(user, channel, "@bot what is my boat called?");
            world.only_answer_to(&said).await;
            assert_eq!(world.model.last().shows("Heron"), known, "{user} in {channel}");
        }
    });
}

#[test]
fn a_formula_is_a_picture_below_its_answer_and_is_shared_once() {
    for fault in [None, Some(Fault::LostAnswer), Some(Fault::Named("internal_error"))] {
        story(async {
            let world = World::begin().await;
            if let Some(fault) = fault {
                world.service.breaks("files.completeUploadExternal", fault);
            }
            world.model.always(reply("latex", "The area:", r"\frac{1}{3}"));
            let said = world.service.says("U1", "C1", "@bot how large?");
            let parts =
                world.until("the picture", || Some(world.service.answers(&said)).filter(|parts| parts.len() > 1)).await;
            assert_eq!((parts[0].text.as_str(), parts[1].file["name"].as_str()), ("The area:", Some("formula.png")));
            // A second try would come after the time in which a lost request takes effect.
            tokio::time::sleep(Duration::from_secs(4)).await;
            assert_eq!(world.service.answers(&said).len(), 2);
            let id = parts[1].file["id"].as_str().unwrap();
            assert!(world.service.stored(id).starts_with(b"\x89PNG"));
        });
    }
}

/// A picture of one pixel.
const DOT: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xf7\x03AC\x00\x00\x00\x00IEND\xaeB`\x82";

/// An images endpoint that keeps the bodies of its requests. What stands behind each picture is the description of it.
async fn image_model() -> (u16, Arc<Mutex<Vec<String>>>) {
    let bodies = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&bodies);
    let draw = move |uri: axum::http::Uri, body: axum::body::Bytes| async move {
        let told: Value = serde_json::from_slice(&body).unwrap_or_default();
        kept.lock().push(format!("{uri} {}", String::from_utf8_lossy(&body)));
        let drawn = [DOT, told["prompt"].as_str().unwrap_or_default().as_bytes()].concat();
        axum::Json(json!({"data": [{"b64_json": base64::engine::general_purpose::STANDARD.encode(drawn)}]}))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(draw)).await });
    (port, bodies)
}

#[test]
fn the_newest_picture_of_a_thread_is_edited() {
    story(async {
        let (port, bodies) = image_model().await;
        let mut world = World::without_bot().await;
        let models =
            r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
        std::fs::write(&world.env["STAFFAI_MODELS"], models).unwrap();
        let images = format!("[{{url = 'http://127.0.0.1:{port}/v1', model = 'painter', edits = true}}]");
        world.env.insert("STAFFAI_IMAGES".to_owned(), images);
        world.model.does(|ask| match ask.results() {
            results if results.is_empty() && ask.question().contains("draw") => {
                Act::calls(&[("call-1", "create_image", json!({"prompt": ask.question()}))])
            }
            results if results.is_empty() => Act::calls(&[("call-1", "edit_image", json!({"prompt": "make it blue"}))]),
            results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
        });
        world.start().await;
        let harbour = world.service.says("U1", "C1", "@bot draw a harbour");
        let forest = world.service.says("U1", "C1", "@bot draw a forest");
        let picture = async |said: &Said| {
            let named = |part: &Message| part.file["name"] == "picture-1.png";
            world.until("a picture", || world.service.answers(said).into_iter().find(named)).await;
        };
        picture(&harbour).await;
        picture(&forest).await;
        picture(&world.service.replies("U1", &harbour, "@bot make it blue")).await;
        let asked = bodies.lock().last().cloned().unwrap();
        assert!(asked.starts_with("/v1/images/edits ") && asked.contains("draw a harbour"), "{asked}");
    });
}

#[test]
fn a_thread_shows_that_the_bot_works() {
    story(async {
        let world = World::begin().await;
        let (open, gate) = tokio::sync::watch::channel(false);
        world.model.always(Act::SaysWhen(gate, "done".to_owned()));
        let said = world.service.says("U1", "C1", "@bot hello");
        let status =
            world.until("a status", || world.service.calls("assistant.threads.setStatus").into_iter().next()).await;
        assert_eq!((status["channel_id"].as_str(), status["thread_ts"].as_str()), ("C1", said.ts.as_str()));
        open.send_replace(true);
        world.only_answer_to(&said).await;
    });
}

#[test]
fn a_member_who_opens_the_direct_conversation_gets_prompts() {
    story(async {
        let world = World::begin().await;
        let (_, manifest, _) = crate::setup::run(&world, &["init", "slack"]);
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        let events = manifest["settings"]["event_subscriptions"]["bot_events"].as_array().unwrap();
        assert!(manifest["features"]["agent_view"].is_object() && events.contains(&"app_home_opened".into()));
        world.service.opens_conversation("U1");
        let calls = || world.service.calls("assistant.threads.setSuggestedPrompts").into_iter().next();
        let call = world.until("prompts", calls).await;
        assert!(call["channel_id"] == "DU1" && call["prompts"].contains("What can you do?"), "{call:?}");
        assert!(!call.contains_key("thread_ts"), "Slack ignores such a call of an app with the agent view: {call:?}");
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        assert!(world.service.home("U1").is_none(), "the other tab was not opened");
        world.service.opens_conversation("U1");
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        assert_eq!(world.service.calls("assistant.threads.setSuggestedPrompts").len(), 1, "not twice in a minute");
    });
}

#[test]
fn while_the_user_groups_are_unknown_no_tools_are_used_and_they_are_read_again_soon() {
    story(async {
        let mut world = World::without_bot().await;
        world.service.groups("S0IGNORED", &["U1"]);
        world.env.insert("IGNORED_ROLE_IDS".to_owned(), "S0IGNORED".to_owned());
        world.service.breaks("usergroups.list", Fault::Status(503));
        world.start().await;
        let has_tools = || world.model.asks().last().unwrap().body["tools"].is_array();
        let unknown = world.service.says("U2", "C1", "@bot hello");
        world.only_answer_to(&unknown).await;
        assert!(!has_tools());
        tokio::time::sleep(Duration::from_secs(6)).await;
        let ignored = world.service.says("U1", "C1", "@bot hello");
        let known = world.service.says("U2", "C1", "@bot hello");
        world.only_answer_to(&known).await;
        assert!(has_tools() && world.service.answers(&ignored).is_empty());
        assert_eq!(world.service.calls("usergroups.list").len(), 2);
    });
}

#[test]
fn user_groups_and_administrators_have_the_rights_of_roles() {
    story(async {
        let mut world = World::without_bot().await;
        world.service.groups("S0IGNORED", &["U1"]);
        world.service.groups("S0SUPER", &["U2"]);
        world.env.insert("IGNORED_ROLE_IDS".to_owned(), "S0IGNORED".to_owned());
        world.env.insert("SUPER_ROLE_IDS".to_owned(), "S0SUPER,admin".to_owned());
        world.env.insert("RATE_LIMIT_COUNT".to_owned(), "1".to_owned());
        world.start().await;
        let ignored = world.service.says("U1", "C1", "@bot hello");
        // UADMIN is an administrator of the workspace.
        for user in ["U2", "UADMIN"] {
            for _ in 0..3 {
                let said = world.service.says(user, "C1", "@bot hello");
                assert_eq!(world.only_answer_to(&said).await.text, "You said: hello", "{user} has no limit");
            }
        }
        // UFOREIGN is one of another workspace, in a shared channel.
        let foreign = world.service.says("UFOREIGN", "C1", "@bot hello");
        assert_eq!(world.only_answer_to(&foreign).await.text, "You said: hello");
        let limited = world.service.says("UFOREIGN", "C1", "@bot hello");
        world.until("a notice", || world.service.notices().into_iter().find(|told| told["user"] == "UFOREIGN")).await;
        assert!(world.service.answers(&ignored).is_empty() && world.service.answers(&limited).is_empty());
        world.service.runs("U2", "C1", "status");
        world.service.runs("U4", "C1", "status");
        let told = world.until("both answers", || Some(world.service.whispers()).filter(|told| told.len() > 1)).await;
        let refusals = told.iter().filter(|told| told.to_string().contains("operator")).count();
        assert_eq!(refusals, 1, "{told:?}");
    });
}

fn first(world: &World, channel: &str, text: &str) -> Message {
    let said = world.service.says("U2", channel, text);
    world.service.message(&said).expect("it was written")
}

#[test]
fn a_member_asks_about_a_message_by_its_shortcut() {
    story(async {
        let world = World::begin().await;
        let about = first(&world, "C1", "The tide is at noon.");
        world.service.uses_shortcut("U1", "ask", &about);
        world.until("the dialogue", || (world.service.dialogues() == 1).then_some(())).await;
        assert!(world.service.submits("is that certain?"));
        let posts = || {
            let spoken = world.service.spoken();
            (spoken.len() == 2).then_some(spoken)
        };
        let spoken = world.until("the question and its answer", posts).await;
        assert!(spoken.iter().all(|post| post.thread.as_deref() == Some(about.ts.as_str())));
        assert!(spoken[0].text.contains("@name of U1 asks:") && spoken[0].text.contains("is that certain?"));
        assert!(spoken[1].text.ends_with("is that certain?"), "{}", spoken[1].text);
        assert!(world.model.last().shows("The tide is at noon."), "{:?}", world.model.last().messages);
        // The same question, because its acknowledgement was lost.
        assert!(world.service.submits("is that certain?"));
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.service.spoken().len(), 2);
    });
}

#[test]
fn a_member_is_told_in_the_dialogue_that_the_bot_may_not_post() {
    story(async {
        let world = World::begin().await;
        let about = first(&world, "C1", "The tide is at noon.");
        // Slack may deliver the dialogue again.
        (0..5).for_each(|_| world.service.breaks("chat.postMessage", Fault::Named("not_in_channel")));
        world.service.uses_shortcut("U1", "ask", &about);
        world.until("the dialogue", || (world.service.dialogues() == 1).then_some(())).await;
        assert!(world.service.submits("is that certain?"));
        let answer = world.until("the reason", || world.service.payloads().into_iter().next()).await;
        assert_eq!(answer["response_action"], "errors");
        assert!(answer["errors"]["ask"].as_str().is_some_and(|reason| reason.contains("invite me")), "{answer}");
        assert!(world.service.spoken().is_empty() && world.model.calls() == 0);
    });
}

#[test]
fn a_member_who_breaks_a_limit_is_restricted_by_record_until_the_end_and_told_so_once() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.insert("RATE_LIMIT_COUNT".to_owned(), "1".to_owned());
        world.env.insert("RATE_LIMIT_WINDOW_SECONDS".to_owned(), "1".to_owned());
        world.env.insert("RESTRICTED_USER_ROLE_ID".to_owned(), "S0RESTRICTED".to_owned());
        world.env.insert("RESTRICTION_DURATION_SECONDS".to_owned(), "8".to_owned());
        world.start().await;
        for _ in 0..3 {
            world.service.says("U1", "C1", "@bot hello");
        }
        world.until("a notice", || (!world.service.notices().is_empty()).then_some(())).await;
        // The limit would allow another message; the restriction does not.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let calls = world.model.calls();
        for _ in 0..2 {
            world.service.says("U1", "C1", "@bot hello");
            tokio::time::sleep(Duration::from_millis(1_200)).await;
        }
        assert_eq!(world.model.calls(), calls);
        let notices = world.service.notices();
        assert_eq!(notices.len(), 2, "one is about the limit, one about the restriction: {notices:?}");
        let other = world.service.says("U2", "C1", "@bot hello");
        world.only_answer_to(&other).await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        let later = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&later).await;
    });
}

#[test]
fn the_bot_joins_in_where_chance_decides_in_the_channel_or_the_thread() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.insert("RESPONSE_CHANCE".to_owned(), "1".to_owned());
        world.env.insert("RANDOM_RESPONSE_DELIVERY_CHANCE".to_owned(), "1".to_owned());
        world.env.insert("STAFFAI_INTERJECTION__MUTED_CHANNELS".to_owned(), "C2".to_owned());
        world.start().await;
        world.model.always(Act::says("Indeed."));
        world.service.says("U1", "C2", "a quiet channel");
        world.service.says("U1", "C1", "the tide is late today");
        let joined = world.until("an interjection", || world.service.spoken().into_iter().next()).await;
        assert_eq!((joined.channel.as_str(), joined.thread.as_deref(), joined.text.as_str()), ("C1", None, "Indeed."));
        assert!(world.model.last().shows("the tide is late today"), "{:?}", world.model.last().messages);
        // A thread has the interjections to its messages.
        let root = world.service.says("U2", "C1", "@bot hello");
        world.answer_to(&root).await;
        world.service.replies("U2", &root, "thank you all");
        world.until("one in the thread", || (world.service.answers(&root).len() == 2).then_some(())).await;
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(world.service.spoken().len(), 3, "none in the muted channel, and none to itself");
    });
}
