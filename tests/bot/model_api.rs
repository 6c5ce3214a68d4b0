//! Programs that use the bot as a model: the official clients of OpenAI and Ollama.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use ports::{Fault, Faults, Input};
use serde_json::{Value, json};

use crate::api_keys::with_embedder;
use crate::model::{Act, Ask, End, Streamed};
use crate::support::{Setup, World, story};

/// A key with all rights.
pub const KEY: &str = "sk-of-the-house";
pub const WORDS: &str = "The tide comes in twice a day.";

#[expect(clippy::disallowed_methods, reason = "only the test runner knows which interpreter to use")]
pub fn python() -> std::path::PathBuf {
    let root = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("STAFFAI_TEST_PYTHON").map_or_else(|| root.join(".venv-tests/bin/python"), Into::into)
}

/// Runs a program of clients; returns its checks that passed, separated by spaces. All must pass.
pub async fn steps_of(world: &World, interpreter: &Path, program: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut clients = tokio::process::Command::new(interpreter);
    clients.arg(program).current_dir(root).env("STAFFAI_NODE", root.join(".node-tests"));
    clients.env("STAFFAI_BASE", world.http()).env("STAFFAI_KEY", KEY).kill_on_drop(true);
    let done = tokio::time::timeout(Duration::from_secs(100), clients.output()).await.expect("in time").unwrap();
    let (told, wrong) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{program} after {told}:\n{wrong}");
    told.lines().collect::<Vec<_>>().join(" ")
}

fn streams(content: &str, pause: u64, end: End) -> Act {
    Act::Streams(Streamed { content: content.to_owned(), piece: 4, pause: Duration::from_millis(pause), end })
}

/// The model's script, by the last word of the question.
pub fn script(ask: &Ask) -> Act {
    let talk = ask.talk();
    let said = ask.messages.iter().rev().find(|(role, _)| role == "user").map_or("", |(_, text)| text.as_str());
    match said {
        "stream" => streams(WORDS, 60, End::Well),
        "cut" => streams(WORDS, 60, End::CutAfter(4)),
        "break" => Act::Status(500),
        "structured" => Act::content(r#"{"hours": 12}"#),
        "tools" if talk.contains("tool: a boat") => Act::content("I see a boat"),
        "tools" => Act::calls(&[("c1", "look", json!({"at": "sea"}))]),
        _ => Act::content(WORDS),
    }
}

pub fn body(text: &str, stream: bool) -> Value {
    json!({"model": "scripted", "messages": [{"role": "user", "content": text}], "stream": stream})
}

/// A world whose bot is running and ready.
pub async fn begin(setup: Setup) -> World {
    let world = World::with(setup).await;
    world.becomes("ready").await;
    world
}

pub async fn post(world: &World, path: &str, body: &Value) -> reqwest::Response {
    let request = reqwest::Client::new().post(format!("{}{path}", world.http())).json(body);
    request.send().await.unwrap()
}

#[test]
fn official_clients_need_no_more_than_another_address_and_key() {
    story(async {
        let (setup, _folder) = with_embedder(&json!({}));
        let world = begin(setup.set("STAFFAI_API_KEYS", KEY)).await;
        world.model.does(script);
        let python = python();
        let official = steps_of(&world, &python, "tests/independent/model_clients.py");
        let above = steps_of(&world, &python, "tests/independent/more_clients.py");
        let from_npm = steps_of(&world, Path::new("node"), "tests/independent/model_clients.cjs");
        let (steps, above, from_npm) = tokio::join!(official, above, from_npm);
        assert_eq!((above, from_npm), ("langchain llm".to_owned(), "npm openai ai sdk".to_owned()));
        let held = ["models", "chat", "stream", "tools", "structured", "errors", "responses", "responses with tools"];
        assert_eq!(steps, [&held[..], &["responses over a socket", "embeddings", "ollama"]].concat().join(" "));
        // The model got exactly what the client sent.
        let asks = world.model.asks();
        let talk = |ask: &&Ask| ask.talk().starts_with("user: My cat is called Tom.\nassistant: Noted.\nuser: tide?");
        let first = asks.iter().find(talk).expect("the conversation as it was given");
        assert!(first.messages[0].1.starts_with("Be brief."), "{:?}", first.messages[0]);
        assert_eq!(first.body["stop"], json!(["END"]));
        assert_eq!((&first.body["temperature"], &first.body["max_tokens"]), (&json!(0.2), &json!(50)));
        let structured = asks.iter().find(|ask| ask.question() == "structured").unwrap();
        assert_eq!(structured.body["response_format"]["json_schema"]["name"], "Tide");
    });
}

#[test]
fn nothing_is_remembered_between_requests_and_requests_of_one_key_run_side_by_side() {
    story(async {
        let world = begin(Setup::new().set("STAFFAI_LLM__TIMEOUT", "10s")).await;
        world.model.does(|ask| match ask.question() {
            "slow" => Act::SaysAfter(Duration::from_secs(4), "late".to_owned()),
            _ => Act::content(WORDS),
        });
        let (slow, begun) = (body("slow", false), tokio::time::Instant::now());
        let slow = post(&world, "/v1/chat/completions", &slow);
        let quick = async {
            for text in ["my cat is called Tom", "what is she called?"] {
                let answer = post(&world, "/v1/chat/completions", &body(text, false)).await;
                assert_eq!(answer.status(), 200);
            }
            begun.elapsed()
        };
        let (slow, quick) = tokio::join!(slow, quick);
        assert!(quick < Duration::from_millis(3_900), "they did not wait for the slow one: {quick:?}");
        assert_eq!(slow.status(), 200);
        assert!(world.model.asks().iter().all(|ask| !ask.question().contains("what") || !ask.talk().contains("Tom")));
    });
}

#[test]
fn an_answer_in_one_piece_outlives_a_stream_that_breaks() {
    story(async {
        let world = begin(Setup::new()).await;
        let asked = AtomicUsize::new(0);
        world.model.does(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => streams(WORDS, 1, End::CutAfter(3)),
            _ => Act::content(WORDS),
        });
        let answer = post(&world, "/v1/chat/completions", &body("tide?", false)).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.json::<Value>().await.unwrap()["choices"][0]["message"]["content"], WORDS);
        assert_eq!(world.model.calls(), 2);
    });
}

#[test]
fn a_client_that_goes_away_cancels_its_turn() {
    story(async {
        let setup = Setup::new().set("STAFFAI_TURN__DEADLINE", "60s").set("STAFFAI_LLM__TIMEOUT", "60s");
        let world = begin(setup.set("STAFFAI_TURN__OPEN", "1")).await;
        world.model.always(streams(WORDS, 200, End::SilenceAfter(3)));
        let answer = post(&world, "/v1/chat/completions", &body("hello", true)).await;
        let mut stream = answer.bytes_stream();
        let first = stream.next().await.unwrap().unwrap();
        assert!(first.starts_with(b"data:"), "{first:?}");
        let whole = tokio::spawn({
            let (url, body) = (format!("{}/v1/chat/completions", world.http()), body("hello", true));
            async move { reqwest::Client::new().post(url).json(&body).send().await.unwrap().status() }
        });
        assert_eq!(whole.await.unwrap(), 503, "there is room for one turn");
        drop(stream);
        world.model.always(Act::content(WORDS));
        let until = tokio::time::Instant::now() + Duration::from_secs(20);
        while post(&world, "/v1/chat/completions", &body("hello", false)).await.status() != 200 {
            assert!(tokio::time::Instant::now() < until, "the turn was not cancelled");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn a_response_is_gone_on_from_also_after_a_kill_and_by_its_holder_alone() {
    story(async {
        let world = World::without_bot(Setup::new().set("STAFFAI_API_KEYS", KEY)).await;
        world.model.always(streams(WORDS, 1, End::Well));
        let ask = async |body: Value| {
            let request = reqwest::Client::new().post(format!("{}/v1/responses", world.http())).bearer_auth(KEY);
            request.json(&body).send().await.unwrap()
        };
        let process = world.process("first").await;
        world.becomes("ready").await;
        let told = ask(json!({"input": "My cat is called Tom.", "instructions": "Be brief.", "stream": true})).await;
        let told = told.text().await.unwrap();
        let last = told.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let last: Value = serde_json::from_str(last).unwrap();
        assert_eq!(last["type"], "response.completed", "{told}");
        process.kill();
        let _process = world.process("second").await;
        world.becomes("ready").await;
        let previous = &last["response"]["id"];
        let answer = ask(json!({"input": "What is my cat called?", "previous_response_id": previous})).await;
        assert_eq!(answer.status(), 200);
        let talk = world.model.last().talk();
        let said = format!("user: My cat is called Tom.\nassistant: {WORDS}\nuser: What is my cat called?");
        assert!(talk.starts_with(&said), "{talk}");
        assert!(!world.model.last().messages[0].1.starts_with("Be brief."), "instructions hold for one request");
        let other = ask(json!({"input": "x", "previous_response_id": "resp_1-1"})).await;
        assert_eq!(other.status(), 400);
        assert_eq!(other.json::<Value>().await.unwrap()["error"]["code"], "previous_response_not_found");
    });
}

#[test]
fn what_is_not_there_is_told_in_the_words_of_the_wire() {
    story(async {
        let world = begin(Setup::new()).await;
        let ask = async |method: reqwest::Method, path: &str| {
            let answer =
                reqwest::Client::new().request(method, format!("{}{path}", world.http())).send().await.unwrap();
            let allow = answer.headers().get("allow").map(|allow| allow.to_str().unwrap().to_owned());
            (answer.status().as_u16(), allow, answer.json::<Value>().await.unwrap())
        };
        let (status, _, told) = ask(reqwest::Method::POST, "/v1/audio/speech").await;
        assert_eq!((status, &told["error"]["type"]), (404, &json!("invalid_request_error")));
        let (status, allow, told) = ask(reqwest::Method::GET, "/v1/chat/completions").await;
        assert_eq!((status, allow.as_deref()), (405, Some("POST")), "{told}");
        assert!(told["error"]["message"].is_string());
        for path in ["/api/pull", "/v1/api/pull"] {
            let (status, _, told) = ask(reqwest::Method::POST, path).await;
            assert!(status == 404 && told["error"].is_string(), "{path}: {told}");
        }
        let (status, _, told) = ask(reqwest::Method::GET, "/v1/models/meta-llama/Llama-3").await;
        assert_eq!((status, &told["error"]["code"]), (404, &json!("model_not_found")));
        assert_eq!(ask(reqwest::Method::GET, "/api/v1/tree").await.0, 200);
    });
}

#[test]
fn a_row_without_tools_says_so_to_a_client_that_brings_some() {
    story(async {
        let folder = tempfile::tempdir().unwrap();
        let rows = folder.path().join("models.json");
        let text = json!({"models": {"scripted": {"enabled": true, "tools": "off"}}}).to_string();
        std::fs::write(&rows, text).unwrap();
        let world = begin(Setup::new().set("STAFFAI_MODELS", rows.display())).await;
        let mut ask = body("hello", false);
        ask["tools"] = json!([{"type": "function", "function": {"name": "look"}}]);
        let answer = post(&world, "/v1/chat/completions", &ask).await;
        assert_eq!(answer.status(), 400);
        assert_eq!(answer.json::<Value>().await.unwrap()["error"]["param"], "tools");
        assert_eq!(world.model.calls(), 0);
    });
}

#[test]
fn what_a_killed_process_owed_to_a_connection_is_dropped_and_the_next_one_serves() {
    story(async {
        let setup = Setup::new().set("STAFFAI_TURN__DEADLINE", "30s").set("STAFFAI_LLM__TIMEOUT", "30s");
        let world = World::without_bot(setup).await;
        let process = world.process("first").await;
        world.becomes("ready").await;
        world.model.always(streams(WORDS, 1_000, End::Well));
        let answer = post(&world, "/v1/chat/completions", &body("hello", true)).await;
        let mut stream = answer.bytes_stream();
        assert!(stream.next().await.unwrap().is_ok());
        process.kill();
        let mut rest = String::new();
        while let Some(Ok(more)) = stream.next().await {
            rest.push_str(&String::from_utf8_lossy(&more));
        }
        assert!(!rest.contains("[DONE]"), "a stream that broke does not look whole: {rest}");
        world.model.always(Act::content(WORDS));
        let asked = world.model.calls();
        let _process = world.process("second").await;
        world.becomes("ready").await;
        let answer = post(&world, "/v1/chat/completions", &body("again", false)).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(world.model.calls(), asked + 1, "a disconnected client is not answered");
    });
}

/// Fails one actor at one of its messages.
struct Breaks {
    path: &'static str,
    at: AtomicUsize,
    seen: AtomicUsize,
}

impl Faults for Breaks {
    fn before(&self, path: &str, input: Input) -> Option<Fault> {
        let counts = path == self.path && input.is_outside();
        (counts && self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.at.load(Ordering::SeqCst))
            .then_some(Fault::Panic)
    }
}

/// Returns the text of an answer or of a stream's piece.
fn words_of(data: &str, stream: bool) -> String {
    let data: Value = serde_json::from_str(data).unwrap();
    let choice = &data["choices"][0];
    let words = if stream { &choice["delta"]["content"] } else { &choice["message"]["content"] };
    words.as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_answer_whose_conversation_breaks_after_its_first_words_is_given_whole_and_once() {
    story(async {
        let faults =
            Arc::new(Breaks { path: "staffai/conversations", at: usize::MAX.into(), seen: AtomicUsize::new(0) });
        let world = begin(Setup::new().faults(Arc::clone(&faults) as _)).await;
        world.model.always(streams(WORDS, 30, End::Well));
        let url = format!("{}/v1/chat/completions", world.http());
        let ask = |stream| reqwest::Client::new().post(url.clone()).json(&body("tide?", stream)).send();
        let mut pieces = ask(true).await.unwrap().bytes_stream();
        let mut told = String::new();
        while !told.contains("The") {
            told.push_str(&String::from_utf8_lossy(&pieces.next().await.unwrap().unwrap()));
        }
        faults.at.store(faults.seen.load(Ordering::SeqCst) + 1, Ordering::SeqCst);
        let other = ask(false).await.unwrap().text().await.unwrap();
        while let Some(piece) = pieces.next().await {
            told.push_str(&String::from_utf8_lossy(&piece.unwrap()));
        }
        let lines = told.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        assert_eq!(lines.map(|data| words_of(data, true)).collect::<String>(), WORDS);
        assert_eq!(words_of(&other, false), WORDS);
        assert!(world.model.calls() > 2, "the conversation broke and the question was asked again");
        world.stop().await;
    });
}

#[test]
fn whichever_actor_breaks_each_request_is_answered_whole_and_once() {
    story(async {
        for path in ["gateway", "journal", "rate_limiter", "conversations", "outbox:api", "llm_dispatcher"] {
            let path: &'static str = format!("staffai/{path}").leak();
            let faults = Arc::new(Breaks { path, at: 5.into(), seen: 0.into() });
            let world = begin(Setup::new().faults(Arc::clone(&faults) as _)).await;
            world.model.always(streams(WORDS, 30, End::Well));
            let asked = (0..12).map(|number| {
                let (url, body) = (format!("{}/v1/chat/completions", world.http()), body("tide?", number % 2 == 0));
                async move {
                    let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
                    (number % 2 == 0, answer.status().as_u16(), answer.text().await.unwrap())
                }
            });
            for (stream, status, told) in futures_util::future::join_all(asked).await {
                assert_eq!(status, 200, "{path}: {told}");
                let lines =
                    told.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
                let words: String =
                    if stream { lines.map(|data| words_of(data, true)).collect() } else { words_of(&told, false) };
                assert_eq!(words, WORDS, "{path}");
            }
            assert!(faults.seen.load(Ordering::SeqCst) >= 5, "{path} was not broken");
            world.stop().await;
        }
    });
}

#[test]
fn what_follows_on_a_call_of_ours_comes_as_it_grows() {
    story(async {
        let setup = Setup::new().set("STAFFAI_API_KEYS", KEY).set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true");
        let setup = setup.set("STAFFAI_TURN__DEADLINE", "60s").set("STAFFAI_LLM__TIMEOUT", "60s");
        let world = World::without_bot(setup).await;
        let models =
            r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
        std::fs::write(world.dir.path().join("scripted-models.json"), models).unwrap();
        world.start().await;
        world.becomes("ready").await;
        // Nothing follows the call after a few words, so reading them shows that they were not held back.
        world.model.does(|ask| {
            let form = |words: &str| {
                if ask.has_form() {
                    json!({"type": "text", "response": words, "data": ""}).to_string()
                } else {
                    words.to_owned()
                }
            };
            match ask.results() {
                results if results.is_empty() => Act::StreamsACall(form("One moment."), "get_time", json!({})),
                _ => streams(&form(WORDS), 5, End::SilenceAfter(10)),
            }
        });
        let until = async |mut answer: reqwest::Response, wanted: fn(&str) -> bool| {
            assert_eq!(answer.status(), 200);
            let mut told = String::new();
            let reading = async {
                while !wanted(&told) {
                    let bytes = answer.chunk().await.unwrap().expect("more is to come");
                    told.push_str(std::str::from_utf8(&bytes).unwrap());
                }
            };
            tokio::time::timeout(Duration::from_secs(30), reading).await.unwrap_or_else(|_| panic!("{told}"));
            told
        };
        let client = reqwest::Client::new();
        let post = |path: &str, body: &Value| {
            client.post(format!("{}{path}", world.http())).bearer_auth(KEY).json(body).send()
        };
        let asked = post("/v1/chat/completions", &body("what time is it?", true)).await.unwrap();
        let told = until(asked, |told| told.contains("tide")).await;
        assert!(told.contains("One moment.") && told.contains(r#""\n\nThe"#), "{told}");
        let asked = post("/api/chat", &body("what time is it?", true)).await.unwrap();
        until(asked, |told| told.contains("tide")).await;
        let said = json!({"session": "one", "text": "what time is it?"});
        assert_eq!(post("/api/v1/submit", &said).await.unwrap().status(), 202);
        let url = format!("{}/api/v1/stream/one", world.http());
        // The second draft replaces the first.
        let anew = |told: &str| told.matches(r#""anew":true"#).count() == 2;
        let told = until(client.get(url).bearer_auth(KEY).send().await.unwrap(), anew).await;
        assert!(told.contains(r#""name":"get_time","state":"succeeded""#), "{told}");
    });
}
