//! A client with the message names of Open-LLM-VTuber's front end, over a real socket.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::model::{Act, End};
use crate::support::{Setup, World, story};
use crate::voice::ECHO;

/// A client's end of a socket.
struct Client(tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>);

impl Client {
    async fn connects(world: &World) -> Self {
        let url = format!("{}/api/v1/voice/vtuber", world.http().replace("http://", "ws://"));
        Self(connect_async(url).await.unwrap().0)
    }

    async fn sends(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Returns the messages up to the first one of this type and text.
    async fn until(&mut self, kind: &str, text: &str) -> Vec<Value> {
        let mut messages: Vec<Value> = Vec::new();
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), self.0.next()).await;
            let next = next.unwrap_or_else(|_| panic!("no {kind} {text}: {messages:?}"));
            let Some(Ok(Message::Text(message))) = next else { continue };
            messages.push(serde_json::from_str(&message).unwrap());
            let last = &messages[messages.len() - 1];
            if last["type"] == kind && (text.is_empty() || last["text"] == text) {
                return messages;
            }
        }
    }
}

/// Returns the displayed text and the audio as text of each `audio` message.
fn spoken(messages: &[Value]) -> Vec<(String, Option<String>)> {
    let of = |message: &Value| {
        let audio = message["audio"].as_str().map(|audio| String::from_utf8(STANDARD.decode(audio).unwrap()).unwrap());
        (message["display_text"]["text"].as_str().unwrap().to_owned(), audio)
    };
    messages.iter().filter(|message| message["type"] == "audio").map(of).collect()
}

/// Returns an utterance as samples of the front end.
fn utterance() -> Vec<f32> {
    let speech = std::process::Command::new("espeak-ng").args(["--stdout", "what is two plus two"]).output().unwrap();
    let pairs = speech.stdout[44..].chunks_exact(2);
    pairs.map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0).collect()
}

#[test]
fn audio_that_comes_too_fast_is_one_error_and_the_connection_goes_on() {
    let hearing = r#"[{kind = "command", command = ["sh", "-c", "cat > /dev/null; echo what is two plus two"]}]"#;
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_HEARING", hearing)).await;
        world.model.always(Act::says("Four."));
        let mut client = Client::connects(&world).await;
        client.until("control", "start-mic").await;
        // 4,096 samples are a quarter of a second; more than ten seconds may not come at once.
        let silence = vec![0.0_f32; 4_096];
        for _ in 0..80 {
            client.sends(json!({"type": "raw-audio-data", "audio": silence})).await;
        }
        client.sends(json!({"type": "heartbeat"})).await;
        let told = client.until("heartbeat-ack", "").await;
        let errors: Vec<&str> = told.iter().filter_map(|message| message["message"].as_str()).collect();
        assert_eq!(errors, ["audio arrives faster than it is spoken"], "{told:?}");
        client.sends(json!({"type": "text-input", "text": "still there?"})).await;
        client.until("control", "conversation-chain-end").await;
        // Speech at its own speed is heard on the same connection.
        client.sends(json!({"type": "mic-audio-end"})).await;
        for piece in utterance().chunks(4_096) {
            tokio::time::sleep(Duration::from_millis(256)).await;
            client.sends(json!({"type": "mic-audio-data", "audio": piece})).await;
        }
        client.sends(json!({"type": "mic-audio-end"})).await;
        client.until("user-input-transcription", "what is two plus two").await;
        client.until("control", "conversation-chain-end").await;
    });
}

#[test]
fn the_client_of_open_llm_vtuber_writes_speaks_and_interrupts() {
    let hearing = r#"[{kind = "command", command = ["sh", "-c", "cat > /dev/null; echo what is two plus two"]}]"#;
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_VOICES", ECHO).set("STAFFAI_HEARING", hearing)).await;
        let words = "Slow start, it is slow. A `b` bad one. Fast!";
        world.model.always(Act::streams(words, 5, Duration::from_millis(5), End::Well));
        let mut client = Client::connects(&world).await;
        let begun = client.until("control", "start-mic").await;
        let kinds: Vec<&str> = begun.iter().filter_map(|message| message["type"].as_str()).collect();
        assert_eq!(kinds, ["full-text", "set-model-and-conf", "group-update", "control"]);
        // The front end asks for its lists as it starts.
        for (asked, told) in [
            ("fetch-backgrounds", "background-files"),
            ("fetch-configs", "config-files"),
            ("fetch-history-list", "history-list"),
            ("create-new-history", "new-history-created"),
            ("heartbeat", "heartbeat-ack"),
        ] {
            client.sends(json!({"type": asked})).await;
            client.until(told, "").await;
        }
        client.sends(json!({"type": "text-input", "text": "speak", "images": []})).await;
        let told = client.until("control", "conversation-chain-end").await;
        let wav = |text: &str| Some(format!("RIFF....WAVE{text}"));
        let told_words: String = spoken(&told).iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(told_words, words);
        let audio: Vec<_> = spoken(&told).into_iter().map(|(_, audio)| audio).collect();
        assert_eq!(audio, [wav("Slow start,"), wav("it is slow."), None, wav("Fast!")]);
        for kind in ["backend-synth-complete", "force-new-message"] {
            assert_eq!(told.iter().filter(|message| message["type"] == kind).count(), 1, "{told:?}");
        }
        // An utterance, as the front end sends it.
        let samples = utterance();
        for piece in samples.chunks(4_096) {
            client.sends(json!({"type": "mic-audio-data", "audio": piece})).await;
        }
        client.sends(json!({"type": "mic-audio-end"})).await;
        client.until("user-input-transcription", "what is two plus two").await;
        client.until("control", "conversation-chain-end").await;
        // An interruption: the history has what was heard.
        world.model.always(Act::streams("One is first. Two is second.", 3, Duration::from_millis(400), End::Well));
        client.sends(json!({"type": "text-input", "text": "count"})).await;
        client.until("audio", "").await;
        client.sends(json!({"type": "interrupt-signal", "text": "One is first."})).await;
        client.until("control", "conversation-chain-end").await;
        world.model.always(Act::says("Yes."));
        client.sends(json!({"type": "text-input", "text": "and?"})).await;
        client.until("control", "conversation-chain-end").await;
        assert!(
            world.model.last().talk().contains("assistant: One is first. [interrupted here: the rest was not heard]")
        );
        client.sends(json!({"type": "switch-config", "file": "x"})).await;
        client.until("error", "").await;
    });
}
