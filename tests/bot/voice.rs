//! Speech over a WebSocket: sentences and audio, interruptions, and connections that are lost.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::model::{Act, End};
use crate::support::{Setup, World, story};

/// A voice that repeats the text behind the head of its audio. It takes longer for a slow text, and fails for a bad one.
pub const ECHO: &str = r#"[{kind = "command", command = ["sh", "-c", '''
t=$(cat)
case "$t" in *bad*) exit 1;; *slow*) sleep 0.3;; esac
printf 'RIFF....WAVE%s' "$t"''']}]"#;

/// A client's end of a socket.
pub struct Speaker(pub WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Speaker {
    pub async fn opens(world: &World, query: &str, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let url = format!("{}/api/v1/voice?{query}", world.http().replace("http://", "ws://"));
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => {
                let mut speaker = Self(socket);
                let ready = speaker.hears().await.expect("an event");
                assert_eq!(ready["event"], "ready", "{ready}");
                Ok(speaker)
            }
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn open(world: &World, query: &str) -> Self {
        Self::opens(world, query, &[]).await.unwrap_or_else(|status| panic!("status {status}"))
    }

    pub async fn sends(&mut self, event: Value) {
        self.0.send(Message::text(event.to_string())).await.unwrap();
    }

    /// Returns the next event; `None` if the socket is closed.
    pub async fn hears(&mut self) -> Option<Value> {
        loop {
            match tokio::time::timeout(Duration::from_secs(30), self.0.next()).await.expect("in time")? {
                Ok(Message::Text(text)) => return serde_json::from_str(&text).ok(),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Returns the events up to the first one that matches.
    pub async fn until(&mut self, matches: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.hears().await.unwrap_or_else(|| panic!("the socket is closed: {events:?}"));
            events.push(event);
            if matches(&events[events.len() - 1]) {
                return events;
            }
        }
    }

    /// Returns the events of an answer.
    pub async fn answer(&mut self) -> Vec<Value> {
        self.until(|event| event["event"] == "done").await
    }
}

pub fn of<'a>(events: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["event"] == name)
}

pub fn texts(events: &[Value]) -> String {
    of(events, "sentence").map(|event| event["text"].as_str().unwrap()).collect()
}

/// Returns the audio of each sentence as text, in order of its end, and "-" for a sentence that failed.
pub fn heard(events: &[Value]) -> Vec<(u64, String)> {
    let (mut all, mut audio) = (Vec::new(), String::new());
    for event in events {
        let Some(sentence) = event["sentence"].as_u64() else { continue };
        match event["event"].as_str().unwrap() {
            "audio" => {
                let bytes = STANDARD.decode(event["data"].as_str().unwrap()).unwrap();
                audio.push_str(&String::from_utf8(bytes).unwrap());
                if event["end"] == true {
                    all.push((sentence, std::mem::take(&mut audio)));
                }
            }
            "error" => all.push((sentence, "-".to_owned())),
            _ => {}
        }
    }
    all
}

pub fn asks(text: &str) -> Value {
    json!({"event": "text", "text": text})
}

#[test]
fn an_answer_is_spoken_in_order_although_voices_are_slow_or_fail() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_VOICES", ECHO)).await;
        let words = "Slow start, it is slow. A `b` bad one. <think>Hm. No.</think> The slow last one. Fast!";
        world.model.always(Act::streams(words, 5, Duration::from_millis(5), End::Well));
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(json!({"event": "text", "text": "speak", "id": "first"})).await;
        let events = speaker.answer().await;
        assert_eq!(texts(&events), words);
        let wav = |text: &str| format!("RIFF....WAVE{text}");
        let expected = ["Slow start,", "it is slow.", "-", "The slow last one.", "Fast!"];
        let spoken: Vec<String> = heard(&events).into_iter().map(|(_, text)| text).collect();
        assert_eq!(spoken, expected.map(|text| if text == "-" { text.to_owned() } else { wav(text) }));
        let order: Vec<u64> = heard(&events).iter().map(|(sentence, _)| *sentence).collect();
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(of(&events, "audio").next().unwrap()["format"], "audio/wav");
        let submitted = of(&events, "submitted").next().unwrap();
        assert_eq!(submitted["message"], events[events.len() - 1]["turn"]);
        // The same text is answered once.
        speaker.sends(json!({"event": "text", "text": "speak", "id": "first"})).await;
        let again = speaker.until(|event| event["event"] == "submitted").await;
        assert_eq!((&again[0]["message"], world.model.calls()), (&submitted["message"], 1));
        speaker.sends(json!({"event": "mute", "on": true})).await;
        speaker.sends(asks("in silence")).await;
        let muted = speaker.answer().await;
        assert!(of(&muted, "audio").next().is_none() && texts(&muted) == words, "{muted:?}");
    });
}

#[test]
fn an_interrupted_answer_is_remembered_as_it_was_heard_and_the_model_is_told() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_VOICES", ECHO)).await;
        let words = "One is first. Two is second. Three is slow. Four is fourth.";
        world.model.always(Act::streams(words, 4, Duration::from_millis(100), End::Well));
        let mut speaker = Speaker::open(&world, "session=one").await;
        // The model is still writing.
        speaker.sends(asks("count")).await;
        let told = speaker.until(|event| event["event"] == "audio" && event["sentence"] == 1 && event["end"] == true);
        let count = told.await[0]["message"].as_str().unwrap_or_default().to_owned();
        speaker.sends(json!({"event": "interrupt", "spoken_to": 1})).await;
        let events = speaker.answer().await;
        assert_eq!(of(&events, "interrupted").next().unwrap()["spoken_to"], 1);
        assert_eq!(events[events.len() - 1]["unanswered"], "stopped", "{events:?}");
        world.until("the model's stream is closed", || (world.model.cut() == 1).then_some(())).await;
        // The answer is complete, and its audio is not.
        world.model.always(Act::says("One is slow. Two is second."));
        speaker.sends(asks("again")).await;
        let told = speaker.until(|event| event["event"] == "sentence" && event["sentence"] == 1).await;
        let turn = told[told.len() - 1]["turn"].clone();
        world
            .until_told("/api/v1/sessions/one", |session| {
                session["messages"].as_array()?.iter().any(|line| line["answers"] == turn).then_some(())
            })
            .await;
        speaker.sends(json!({"event": "interrupt", "turn": turn})).await;
        let events = speaker.answer().await;
        assert!(of(&events, "interrupted").next().is_some(), "{events:?}");
        world.model.always(Act::says("Sure."));
        speaker.sends(asks("what did you say?")).await;
        speaker.answer().await;
        assert_eq!(
            world.model.last().talk(),
            "user: count\nassistant: One is first. Two is second. [interrupted here: the rest was not heard]\n\
             user: again\nassistant: [interrupted here: the rest was not heard]\nuser: what did you say?"
        );
        // A deleted question takes what was heard along.
        let url = format!("{}/api/v1/messages/{count}", world.http());
        assert_eq!(reqwest::Client::new().delete(url).send().await.unwrap().status(), 204);
        let mut asked = 0;
        while asked == 0 || world.model.last().shows("One is first.") {
            asked += 1;
            assert!(asked < 50, "it is still remembered: {}", world.model.last().talk());
            speaker.sends(asks("and now?")).await;
            speaker.answer().await;
        }
    });
}

#[test]
fn an_interruption_while_an_approval_waits_ends_the_call_and_the_conversation_goes_on() {
    story(async {
        let setup = Setup::new().set("STAFFAI_VOICES", ECHO).set("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "roll_dice");
        let world = World::with(setup).await;
        world.model.does(|ask| match ask.question() {
            question if question.contains("roll") => Act::calls(&[("c1", "roll_dice", json!({"notation": "2d6"}))]),
            _ => Act::says("Never mind."),
        });
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("roll")).await;
        let events = speaker.until(|event| event["event"] == "approval").await;
        let gate = events[events.len() - 1]["id"].clone();
        speaker.sends(json!({"event": "interrupt"})).await;
        let events = speaker.answer().await;
        assert!(of(&events, "interrupted").next().is_some(), "{events:?}");
        assert_eq!(events[events.len() - 1]["unanswered"], "stopped", "{events:?}");
        assert!(of(&events, "tool_status").next().is_none(), "the tool did not run: {events:?}");
        speaker.sends(json!({"event": "answer", "id": gate, "approve": true})).await;
        speaker.until(|event| event["event"] == "error").await;
        speaker.sends(asks("what happened?")).await;
        assert_eq!(texts(&speaker.answer().await), "Never mind.");
        let talk = world.model.last().talk();
        assert!(talk.contains("[interrupted here: the rest was not heard]"), "{talk}");
    });
}

#[test]
fn an_answer_that_was_heard_to_its_end_is_not_interrupted() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_VOICES", ECHO)).await;
        world.model.always(Act::says("One is first. Two is last. `f(x)`"));
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("count")).await;
        let turn = speaker.answer().await.pop().unwrap()["turn"].clone();
        speaker.sends(json!({"event": "interrupt", "turn": turn, "spoken_to": 1})).await;
        speaker.until(|event| event["event"] == "interrupted").await;
        speaker.sends(asks("again")).await;
        speaker.answer().await;
        let talk = world.model.last().talk();
        assert_eq!(talk, "user: count\nassistant: One is first. Two is last. `f(x)`\nuser: again");
    });
}

#[test]
fn an_approval_that_waits_is_told_to_a_client_that_opens_later() {
    story(async {
        let setup = Setup::new().set("STAFFAI_VOICES", ECHO).set("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "roll_dice");
        let world = World::with(setup).await;
        world.model.does(|ask| match ask.results().len() {
            0 => Act::calls(&[("c1", "roll_dice", json!({"notation": "2d6"}))]),
            _ => Act::says("You rolled it."),
        });
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("roll")).await;
        let told = speaker.until(|event| event["event"] == "approval").await.pop().unwrap();
        drop(speaker);
        let mut speaker = Speaker::open(&world, "session=one").await;
        let again = speaker.hears().await.unwrap();
        assert_eq!((&again["event"], &again["id"], &again["turn"]), (&json!("approval"), &told["id"], &told["turn"]));
        speaker.sends(json!({"event": "answer", "id": again["id"], "approve": true})).await;
        assert_eq!(texts(&speaker.answer().await), "You rolled it.");
        // A decided one does not wait.
        let mut late = Speaker::open(&world, "session=one").await;
        late.sends(json!({"event": "ping"})).await;
        assert_eq!(late.hears().await.unwrap()["event"], "pong");
    });
}

#[test]
fn a_client_that_lost_its_connection_gets_the_rest_of_the_answer() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_VOICES", ECHO)).await;
        let words = "One is first. Two is second. Three is third. Four is fourth. Five.";
        world.model.always(Act::streams(words, 4, Duration::from_millis(40), End::Well));
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("count")).await;
        let before = speaker.until(|event| event["event"] == "sentence" && event["sentence"] == 2).await;
        drop(speaker);
        let last = before[before.len() - 1]["number"].as_u64().unwrap();
        let mut speaker = Speaker::open(&world, &format!("session=one&after={last}&sentence=1")).await;
        let after = speaker.answer().await;
        assert_eq!(texts(&after), " Three is third. Four is fourth. Five.");
        let spoken: Vec<u64> = heard(&after).into_iter().map(|(sentence, _)| sentence).collect();
        assert_eq!(spoken, [2, 3, 4]);
        assert!(after.iter().all(|event| event["number"].as_u64() >= Some(last)), "{after:?}");
        // Without a number, a client hears what is new.
        let mut other = Speaker::open(&world, "session=one").await;
        other.sends(json!({"event": "ping"})).await;
        assert_eq!(other.hears().await.unwrap()["event"], "pong");
        // Numbers of another process are unknown.
        let mut late = Speaker::open(&world, "session=one&after=1").await;
        let events = late.answer().await;
        assert_eq!((events[0]["event"].as_str(), texts(&events).as_str()), (Some("missed"), words));
    });
}

#[test]
fn tools_and_approvals_are_told_in_the_order_of_the_stream() {
    story(async {
        let setup = Setup::new().set("STAFFAI_VOICES", ECHO).set("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "roll_dice");
        let world = World::with(setup).await;
        let arguments = json!({"notation": "2d6"});
        world.model.does(move |ask| {
            if ask.results().is_empty() {
                Act::calls(&[("c1", "roll_dice", arguments.clone())])
            } else {
                Act::says("You rolled it.")
            }
        });
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(asks("roll")).await;
        let events = speaker.until(|event| event["event"] == "approval").await;
        let gate = events[events.len() - 1]["id"].clone();
        speaker.sends(json!({"event": "answer", "id": gate, "approve": true})).await;
        let events = speaker.answer().await;
        let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
        let at = |name: &str| names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("{events:?}"));
        // The announcement of the tool has no text.
        let answer = events.iter().position(|event| event["text"] == "You rolled it.").unwrap();
        assert!(at("approval") < at("tool_status") && at("tool_status") < answer, "{names:?}");
        assert_eq!(of(&events, "approval").next().unwrap()["decision"], "approved", "{events:?}");
        let status = of(&events, "tool_status").next().unwrap();
        assert!(status["name"] == "roll_dice" && status.get("text").is_none(), "{status}");
        speaker.sends(json!({"event": "answer", "id": gate, "approve": true})).await;
        assert_eq!(speaker.hears().await.unwrap()["event"], "error");
    });
}

#[test]
fn keys_origins_and_names_are_checked_before_a_socket_opens() {
    story(async {
        let world = World::with(Setup::new()).await;
        let refused =
            async |query: &str, headers: &[(&'static str, &str)]| Speaker::opens(&world, query, headers).await.err();
        assert_eq!(refused("", &[]).await, Some(400));
        assert_eq!(refused("session=no%20name", &[]).await, Some(400));
        assert_eq!(refused("session=one", &[("origin", "https://evil.example")]).await, Some(403));
        assert_eq!(world.get("/api/v1/voice?session=one").await.0, 426);
        let mut speaker = Speaker::open(&world, "session=one").await;
        for (event, why) in [
            (json!({"event": "sing"}), "not understood"),
            (asks(" "), "empty"),
            (json!({"event": "interrupt"}), "no answer to interrupt"),
            (json!({"event": "answer", "id": "x", "approve": true}), "no pending call"),
        ] {
            speaker.sends(event).await;
            let event = speaker.hears().await.unwrap();
            assert!(event["event"] == "error" && event["why"].as_str().unwrap().contains(why), "{event}");
        }
    });
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_API_KEYS", "sk-one")).await;
        assert_eq!(Speaker::opens(&world, "session=one", &[]).await.err(), Some(401));
        let key = [("authorization", "Bearer sk-one")];
        assert!(Speaker::opens(&world, "session=one", &key).await.is_ok());
    });
}

#[test]
fn one_key_has_half_of_the_sockets() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_HTTP__CONNECTIONS", 512)).await;
        let mut open = Vec::new();
        let refused = loop {
            match Speaker::opens(&world, "session=one", &[]).await {
                Ok(speaker) => open.push(speaker),
                Err(status) => break status,
            }
        };
        assert_eq!((open.len(), refused), (64, 429));
        // A closed socket leaves its place to the next one.
        open.pop();
        while Speaker::opens(&world, "session=one", &[]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn speech_is_heard_and_hostile_audio_is_refused() {
    let hearing = r#"[{kind = "command", command = ["sh", "-c", "cat > /dev/null; echo what is two plus two"]}]"#;
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_HEARING", hearing)).await;
        world.model.always(Act::says("Four."));
        let mut speaker = Speaker::open(&world, "session=one").await;
        let sound = |bytes: Vec<u8>| Message::binary(bytes);
        for (begins, bytes, why) in [
            (false, vec![0; 640], "listen"),
            (true, b"RIFF\xff\xff\xff\x7fWAVE".to_vec(), "without a header"),
            (true, vec![0; 641], "whole samples"),
        ] {
            if begins {
                speaker.sends(json!({"event": "listen", "hands_free": true})).await;
            }
            speaker.0.send(sound(bytes)).await.unwrap();
            let event = speaker.hears().await.unwrap();
            assert!(event["event"] == "error" && event["why"].as_str().unwrap().contains(why), "{event}");
        }
        // More than may come at once.
        speaker.sends(json!({"event": "listen"})).await;
        for _ in 0..24 {
            speaker.0.send(sound(vec![0; 32_000])).await.unwrap();
        }
        let events = speaker.until(|event| event["event"] == "error").await;
        assert!(events[events.len() - 1]["why"].as_str().unwrap().contains("faster"), "{events:?}");
        // Speech is a message of the session.
        let words =
            std::process::Command::new("espeak-ng").args(["--stdout", "what is two plus two"]).output().unwrap();
        let mut speaker = Speaker::open(&world, "session=two").await;
        speaker.sends(json!({"event": "listen"})).await;
        for piece in words.stdout[44..].chunks(640) {
            speaker.0.send(sound(piece[..piece.len() & !1].to_vec())).await.unwrap();
        }
        speaker.sends(json!({"event": "listen_end"})).await;
        let events = speaker.answer().await;
        let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
        assert_eq!(names[..4], ["speech", "speech", "heard", "heard"], "{events:?}");
        assert_eq!(
            (of(&events, "heard").last().unwrap()["final"].as_bool(), texts(&events).as_str()),
            (Some(true), "Four.")
        );
        assert_eq!(world.model.last().talk(), "user: what is two plus two");
    });
    story(async {
        let world = World::with(Setup::new()).await;
        let mut speaker = Speaker::open(&world, "session=one").await;
        speaker.sends(json!({"event": "listen"})).await;
        assert!(speaker.hears().await.unwrap()["why"].as_str().unwrap().contains("hearing is disabled"));
    });
}
