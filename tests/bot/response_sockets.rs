//! The WebSocket mode of the Responses API: many requests over one socket, one response at a time.

use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::model::{Act, End, Streamed};
use crate::model_api::{KEY, WORDS, begin, post};
use crate::support::{Setup, World, story};

/// A client's end of a socket.
struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn open(world: &World, key: &str, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let url = format!("{}/v1/responses", world.http().replace("http://", "ws://"));
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    async fn sends(&mut self, text: impl Into<String>) {
        self.0.send(Message::text(text.into())).await.unwrap();
    }

    /// Requests a response.
    async fn asks(&mut self, more: Value) {
        let mut event = json!({"type": "response.create", "model": "scripted"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.sends(event.to_string()).await;
    }

    /// Returns the next event; `None` if the socket is closed.
    async fn hears(&mut self) -> Option<Value> {
        loop {
            match tokio::time::timeout(Duration::from_secs(30), self.0.next()).await.expect("in time")? {
                Ok(Message::Text(text)) => return serde_json::from_str(&text).ok(),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Returns the events of a response up to its end, or the error in its place.
    async fn answer(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.hears().await.expect("more events");
            let kind = event["type"].as_str().unwrap().to_owned();
            events.push(event);
            if ["response.completed", "response.failed", "response.incomplete", "error"].contains(&kind.as_str()) {
                return events;
            }
        }
    }

    /// Returns the id of a completed response.
    async fn completed(&mut self) -> String {
        let events = self.answer().await;
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.completed", "{last}");
        assert_eq!(events[0]["type"], "response.created");
        let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
        last["response"]["id"].as_str().unwrap().to_owned()
    }

    /// Returns the status and code of an error in place of a response.
    async fn refused(&mut self) -> (u64, String) {
        let events = self.answer().await;
        let last = events.last().unwrap();
        assert!(events.len() == 1 && last["type"] == "error", "{events:?}");
        assert!(last["error"]["message"].is_string(), "{last}");
        (last["status"].as_u64().unwrap(), last["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

fn streams(pause: Duration, end: End) -> Act {
    Act::Streams(Streamed { content: WORDS.to_owned(), piece: 8, pause, end })
}

fn lost() -> (u64, String) {
    (400, "previous_response_not_found".to_owned())
}

#[test]
fn a_socket_answers_one_response_after_another_and_goes_on_from_the_last_one_in_memory() {
    story(async {
        let world = begin(Setup::new().set("STAFFAI_API_KEYS", KEY)).await;
        world.model.always(Act::content(WORDS));
        let mut socket = Socket::open(&world, KEY, &[]).await.ok().unwrap();
        // None of these are stored.
        socket.asks(json!({"input": "My cat is called Tom.", "store": false, "instructions": "Be brief."})).await;
        let first = socket.completed().await;
        socket.asks(json!({"input": "Who is it?", "store": false, "previous_response_id": first})).await;
        let second = socket.completed().await;
        let talk = world.model.last().talk();
        assert_eq!(talk, format!("user: My cat is called Tom.\nassistant: {WORDS}\nuser: Who is it?"));
        assert!(!world.model.last().shows("Be brief."), "instructions are of one request");
        // Only the last response is in memory.
        socket.asks(json!({"input": "?", "store": false, "previous_response_id": first})).await;
        assert_eq!(socket.refused().await, lost());
        // A failed request that continues from it evicts it.
        socket.asks(json!({"input": "?", "previous_response_id": second, "temperature": 9})).await;
        assert_eq!(socket.refused().await.0, 400);
        socket.asks(json!({"input": "?", "store": false, "previous_response_id": second})).await;
        assert_eq!(socket.refused().await, lost());
        // A stored response can be continued over other sockets, and over this one after a failure.
        socket.asks(json!({"input": "My dog is called Rex."})).await;
        let kept = socket.completed().await;
        let mut other = Socket::open(&world, KEY, &[]).await.ok().unwrap();
        other.asks(json!({"input": "Who is it?", "previous_response_id": kept})).await;
        other.completed().await;
        assert!(world.model.last().talk().starts_with("user: My dog is called Rex."));
        // Preparing a conversation asks no model.
        let calls = world.model.calls();
        socket.asks(json!({"input": [], "generate": false, "store": false, "instructions": "Be brief."})).await;
        let warm = socket.completed().await;
        assert_eq!(world.model.calls(), calls);
        socket.asks(json!({"input": "hello", "store": false, "previous_response_id": warm, "stream_id": "a"})).await;
        let events = socket.answer().await;
        assert!(events.iter().all(|event| event["stream_id"] == "a"), "{events:?}");
        assert_eq!(world.model.last().talk(), "user: hello");
    });
}

#[test]
fn requests_that_come_at_once_are_answered_in_turn_and_their_number_has_a_bound() {
    story(async {
        let world = begin(Setup::new().set("STAFFAI_API_KEYS", KEY)).await;
        world.model.always(streams(Duration::from_millis(100), End::Well));
        let mut socket = Socket::open(&world, KEY, &[]).await.ok().unwrap();
        for number in 0..12 {
            socket.asks(json!({"input": format!("number {number}"), "store": false})).await;
        }
        let (mut refused, mut open, mut whole) = (0, None, 0);
        while whole + refused < 12 {
            let event = socket.hears().await.unwrap();
            match event["type"].as_str().unwrap() {
                "error" => {
                    assert_eq!(
                        (&event["status"], &event["error"]["code"]),
                        (&json!(429), &json!("rate_limit_exceeded"))
                    );
                    refused += 1;
                }
                "response.created" => {
                    assert_eq!(open, None, "one response at a time");
                    open = event["response"]["id"].as_str().map(str::to_owned);
                }
                "response.completed" => {
                    assert_eq!(event["response"]["id"].as_str(), open.take().as_deref());
                    whole += 1;
                }
                _ => assert!(open.is_some(), "{event}"),
            }
        }
        assert!((8..=9).contains(&whole), "{whole}");
    });
}

#[test]
fn what_a_socket_does_not_take_is_an_error_of_its_own_and_what_is_too_long_closes_it() {
    story(async {
        let world = begin(Setup::new().set("STAFFAI_API_KEYS", KEY)).await;
        world.model.always(Act::content(WORDS));
        assert_eq!(Socket::open(&world, "sk-unknown", &[]).await.err(), Some(401));
        let foreign = [("origin", "https://evil.example")];
        assert_eq!(Socket::open(&world, "sk-unknown", &foreign).await.err(), Some(403), "pages of other sites may not");
        let plain = reqwest::Client::new().get(format!("{}/v1/responses", world.http())).bearer_auth(KEY);
        let plain = plain.send().await.unwrap();
        assert_eq!((plain.status().as_u16(), &plain.headers()["allow"]), (405, &"POST".parse().unwrap()));

        let mut socket = Socket::open(&world, KEY, &[]).await.ok().unwrap();
        for wrong in ["no JSON", "[1]", r#"{"input": "hello"}"#, r#"{"type": "response.steer", "input": "hello"}"#] {
            socket.sends(wrong).await;
            assert_eq!(socket.refused().await.0, 400, "{wrong}");
        }
        socket.asks(json!({"input": "hello", "model": "unknown"})).await;
        assert_eq!(socket.refused().await, (404, "model_not_found".to_owned()));
        world.model.always(Act::Status(400));
        socket.asks(json!({"input": "hello"})).await;
        assert_eq!(socket.refused().await.0, 400, "a failure before the first word has its status");
        world.model.always(Act::content(WORDS));
        socket.asks(json!({"input": "hello"})).await;
        socket.completed().await;
        let long = json!({"type": "response.create", "model": "scripted", "input": "x".repeat(1024 * 1024)});
        socket.sends(long.to_string()).await;
        let code = loop {
            match socket.0.next().await {
                Some(Ok(Message::Close(Some(frame)))) => break Some(frame.code),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break None,
            }
        };
        assert_eq!(code, Some(CloseCode::Size));
        let mut many = Vec::new();
        let refused = loop {
            match Socket::open(&world, KEY, &[]).await {
                Ok(socket) => many.push(socket),
                Err(status) => break status,
            }
            assert!(many.len() <= 64, "sockets of one key have a bound");
        };
        assert_eq!((refused, many.len()), (429, 32));
    });
}

#[test]
fn a_client_that_closes_its_socket_cancels_its_turn() {
    story(async {
        let setup = Setup::new().set("STAFFAI_TURN__DEADLINE", "60s").set("STAFFAI_LLM__TIMEOUT", "60s");
        let world = begin(setup.set("STAFFAI_TURN__OPEN", "1").set("STAFFAI_API_KEYS", KEY)).await;
        world.model.always(streams(Duration::from_millis(100), End::SilenceAfter(3)));
        let mut socket = Socket::open(&world, KEY, &[]).await.ok().unwrap();
        socket.asks(json!({"input": "hello"})).await;
        while socket.hears().await.unwrap()["type"] != "response.output_text.delta" {}
        drop(socket);
        world.model.always(Act::content(WORDS));
        let ask = || {
            let request = reqwest::Client::new().post(format!("{}/v1/responses", world.http())).bearer_auth(KEY);
            request.json(&json!({"model": "scripted", "input": "hello"})).send()
        };
        let until = tokio::time::Instant::now() + Duration::from_secs(20);
        while ask().await.unwrap().status() != 200 {
            assert!(tokio::time::Instant::now() < until, "the turn was not cancelled");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn a_socket_ends_with_the_key_that_opened_it() {
    story(async {
        let patient = Setup::new().set("STAFFAI_LLM__TIMEOUT", "100s").set("STAFFAI_TURN__DEADLINE", "100s");
        let world = World::without_bot(patient).await;
        world.model.always(Act::content(WORDS));
        let _process = world.process("service").await;
        world.becomes("ready").await;
        let staffai = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
            command.args(arguments).env_clear().envs(world.variables(&[])).current_dir(world.dir.path());
            let done = command.stdin(Stdio::null()).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8(done.stdout).unwrap().trim().to_owned()
        };
        let key = staffai(&["key", "add", "laptop"]);
        let until = tokio::time::Instant::now() + Duration::from_secs(25);
        while post(&world, "/v1/responses", &json!({"input": "hello"})).await.status() != 401 {
            assert!(tokio::time::Instant::now() < until, "the key is not in force");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        world.model.always(streams(Duration::from_secs(60), End::Well));
        let mut busy = Socket::open(&world, &key, &[]).await.ok().unwrap();
        let mut idle = Socket::open(&world, &key, &[]).await.ok().unwrap();
        busy.asks(json!({"input": "hello"})).await;
        busy.hears().await.unwrap();
        staffai(&["key", "revoke", "laptop"]);
        let revoked = tokio::time::Instant::now();
        while busy.hears().await.is_some() {}
        assert!(idle.hears().await.is_none());
        assert!(revoked.elapsed() < Duration::from_secs(5), "{:?}", revoked.elapsed());
    });
}

#[test]
fn long_names_of_calls_and_many_references_take_no_more_than_their_bound() {
    story(async {
        let world = begin(Setup::new().set("STAFFAI_API_KEYS", KEY)).await;
        let said = "x".repeat(20_000);
        world.model.always(Act::content(&said));
        let mut socket = Socket::open(&world, KEY, &[]).await.ok().unwrap();
        // Ids of calls count as text: two of them exceed the bound of a conversation.
        let found = json!([{"type": "function_call_output", "call_id": "c".repeat(600_000), "output": ""}]);
        socket.asks(json!({"input": found, "generate": false, "store": false})).await;
        let warm = socket.completed().await;
        socket.asks(json!({"input": found, "generate": false, "store": false, "previous_response_id": warm})).await;
        assert_eq!(socket.refused().await.0, 413);
        // A thousand empty messages are the maximum of a conversation that can be continued.
        let empty = json!(vec![json!({"role": "user", "content": ""}); 600]);
        let mut last = json!(null);
        for _ in 0..2 {
            socket.asks(json!({"input": empty, "generate": false, "store": false, "previous_response_id": last})).await;
            last = socket.completed().await.into();
        }
        socket.asks(json!({"input": empty, "generate": false, "store": false, "previous_response_id": last})).await;
        assert_eq!(socket.refused().await.0, 400);
        // Each reference is short, but stands for a long answer.
        socket.asks(json!({"input": "hello"})).await;
        let kept = socket.completed().await;
        let named = json!({"type": "item_reference", "id": kept.replace("resp_", "msg_")});
        let refer = async |many: usize| {
            let input = json!(vec![named.clone(); many]);
            let ask = json!({"model": "scripted", "input": input, "store": false});
            let request = reqwest::Client::new().post(format!("{}/v1/responses", world.http())).bearer_auth(KEY);
            request.json(&ask).send().await.unwrap().status().as_u16()
        };
        assert_eq!((refer(2).await, refer(60).await, refer(1_001).await), (200, 413, 413));
        socket.asks(json!({"input": vec![named; 60], "store": false})).await;
        assert_eq!(socket.refused().await.0, 413);
    });
}
