//! Rows whose provider has the Responses API: members notice no difference.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::asking_servers::PIXEL;
use crate::hosted_tools::{documents, file_of};
use crate::model::{Act, Ask, End, Streamed};
use crate::model_api::python;
use crate::support::{SOON, Setup, World, story};

const ROW: &str = r#""wire": "responses", "schema_with_tools": true"#;
const WORDS: &str = "High tide is at nine o'clock, and low tide follows about six hours later.";

/// A bot whose only row has this wire and these fields.
async fn world_of(row: &str) -> World {
    World::of_row(Setup::new().set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true"), row).await
}

/// The request as the provider received it.
fn received(ask: &Ask) -> &Value {
    &ask.body["responses"]
}

fn kinds(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[test]
fn a_plain_message_is_one_call_that_the_provider_does_not_keep() {
    story(async {
        for stream in [true, false] {
            let world = world_of(&format!(r#"{ROW}, "stream": {stream}"#)).await;
            world.model.does(|ask| Act::says(format!("You said: {}", ask.question())));
            let said = world.says("Ada", "general", "@staffai hello");
            assert_eq!(world.words_to(said).await, "You said: hello");
            let again = world.says("Ada", "general", "@staffai again");
            assert_eq!(world.words_to(again).await, "You said: again");
            let asks = world.model.asks();
            assert_eq!(asks.len(), 2, "each message is one call");
            let body = received(&asks[1]);
            assert_eq!((&body["store"], &body["include"]), (&json!(false), &json!(["reasoning.encrypted_content"])));
            assert_eq!(body.get("stream").is_some(), stream);
            assert_eq!(body["text"]["format"]["type"], "json_schema");
            assert!(body["instructions"].as_str().is_some_and(|text| text.contains("30 words")), "{body}");
            assert!(asks[1].talk().contains("user: hello"), "the history is ours: {}", asks[1].talk());
            let metrics = world.get("/metrics").await.1;
            assert!(metrics.contains(r#"gen_ai_token_type="input""#), "{metrics}");
        }
    });
}

#[test]
fn a_round_of_tools_is_two_calls_and_the_items_of_the_first_answer_go_back_as_they_came() {
    story(async {
        for row in [ROW, r#""wire": "responses", "reply_by": "tool""#] {
            let world = world_of(row).await;
            world.model.does(|ask| match ask.results() {
                results if results.is_empty() => Act::calls(&[
                    ("call-1", "calculator", json!({"expression": "6*7"})),
                    ("call-2", "calculator", json!({"expression": "1+1"})),
                ]),
                results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
            });
            let said = world.says("Ada", "general", "@staffai calculate");
            let words = world.words_to(said).await;
            assert!(words.contains("42"), "{row}: {words}");
            let asks = world.model.asks();
            assert_eq!(asks.len(), 2, "{row}");
            let input = &received(&asks[1])["input"];
            let from_answer =
                ["reasoning", "function_call", "function_call", "function_call_output", "function_call_output"];
            let after: Vec<_> = kinds(input).into_iter().skip_while(|kind| *kind == "message").collect();
            assert_eq!(after, from_answer, "{row}");
            let reasoning = input.as_array().unwrap().iter().find(|item| item["type"] == "reasoning").unwrap();
            assert_eq!(reasoning["encrypted_content"], "as it came");
            let ids: Vec<_> = asks[1].results().into_iter().map(|(id, _)| id).collect();
            assert_eq!(ids, ["call-1", "call-2"]);
        }
    });
}

#[test]
fn the_arguments_of_the_answer_are_read_along() {
    story(async {
        let world = world_of(r#""wire": "responses", "reply_by": "tool""#).await;
        let answer = json!({"type": "text", "response": WORDS, "data": ""});
        world.model.does(move |_| Act::calls(&[("call-1", "give_answer", answer.clone())]));
        let said = world.says("Ada", "general", "@staffai when?");
        assert_eq!(world.words_to(said).await, WORDS);
        assert_eq!(world.model.calls(), 1);
        let body = world.model.last();
        let offered = received(&body)["tools"].as_array().unwrap().clone();
        assert!(offered.iter().any(|tool| tool["name"] == "give_answer" && tool["strict"] == false), "{offered:?}");
    });
}

#[test]
fn refusals_filters_and_failures_are_apologised_for_once() {
    story(async {
        let sorry = |words: &str| words.starts_with("Sorry, ");
        for (act, expected) in [
            (Act::Refuses("I cannot help with that.".to_owned()), "I cannot help with that."),
            (Act::Filtered, "Sorry, I may not answer that"),
            (Act::Status(500), "Sorry, "),
            (Act::Body("{\"object\": \"response\"}".to_owned()), "Sorry, "),
            (Act::content(""), "Sorry, "),
        ] {
            let world = world_of(ROW).await;
            let what = format!("{act:?}");
            world.model.always(act);
            let said = world.says("Ada", "general", "@staffai hello");
            let words = world.words_to(said).await;
            assert!(words.contains(expected) || sorry(&words), "{what}: {words}");
            world.all_answered(&[said], SOON).await;
        }
    });
}

#[test]
fn a_stream_that_breaks_is_continued_by_a_row_of_the_other_wire() {
    story(async {
        for (first, second) in [("responses", "chat"), ("chat", "responses"), ("responses", "responses")] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("models.json");
            let row = |wire: &str, fallback: Value| json!({"enabled": true, "wire": wire, "schema_with_tools": true, "fallback": fallback});
            let rows = json!({"models": {"first": row(first, json!(["second"])), "second": row(second, json!([]))}});
            std::fs::write(&file, rows.to_string()).unwrap();
            let setup = Setup::new().set("STAFFAI_MODELS", file.display()).set("LITELLM_MODEL", "first");
            let world = World::with(setup.set("STAFFAI_TURN__DEADLINE", "20s")).await;
            world.model.does(move |ask| {
                if ask.model() == "first" {
                    return Act::streams(WORDS, 5, Duration::from_millis(40), End::ErrorAfter(16));
                }
                let shown = &ask.messages[ask.messages.len() - 2];
                let rest = WORDS.strip_prefix(shown.1.as_str()).unwrap_or_else(|| panic!("{shown:?}"));
                Act::streams(rest.trim_start(), 5, Duration::ZERO, End::Well)
            });
            let said = world.says("Ada", "general", "@staffai when?");
            let whole = || world.answers(said).first().is_some_and(|answer| answer.content == WORDS).then_some(());
            world.until("the whole answer", whole).await;
            assert_eq!(world.model.calls(), 2, "{first}, {second}: the row that broke off is not asked again");
            world.all_answered(&[said], SOON).await;
        }
    });
}

#[test]
fn silence_in_the_middle_of_a_stream_ends_with_one_apology_below_the_words() {
    story(async {
        let world = world_of(ROW).await;
        let content = json!({"type": "text", "response": WORDS, "data": ""}).to_string();
        let silent = Streamed { content, piece: 5, pause: Duration::from_millis(40), end: End::SilenceAfter(14) };
        world.model.always(Act::Streams(silent));
        let said = world.says("Ada", "general", "@staffai when?");
        let apology = || Some(world.answers(said).first()?.content.clone()).filter(|text| text.contains("Sorry"));
        let text = world.until("an apology", apology).await;
        assert!(text.starts_with("High tide"), "{text}");
        world.all_answered(&[said], SOON).await;
    });
}

/// A provider of another project, until dropped.
struct Provider {
    _process: tokio::process::Child,
    url: String,
}

impl Provider {
    /// Starts a program whose first line is its port.
    async fn start(interpreter: &Path, program: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = tokio::process::Command::new(interpreter);
        command.arg(program).current_dir(root).env("STAFFAI_NODE", root.join(".node-tests"));
        let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.expect("in time").unwrap();
        Self { _process: process, url: format!("http://127.0.0.1:{}", port.expect("a port")) }
    }

    /// Returns what the provider noted about requests.
    async fn report(&self) -> Value {
        reqwest::get(format!("{}/report", self.url)).await.unwrap().json().await.unwrap()
    }

    /// Asks a bot that has this provider, one question after the other, and compares the beginnings of the answers.
    async fn answers(&self, exchanges: &[(&str, &str)]) {
        answers(&self.url, exchanges).await;
    }
}

async fn answers(host: &str, exchanges: &[(&str, &str)]) {
    let world = world_of(&format!(r#"{ROW}, "host": "{host}", "llm_call_timeout": "20s""#)).await;
    for (question, answer) in exchanges {
        let said = world.says("Ada", "general", &format!("@staffai {question}"));
        let words = world.words_to(said).await;
        assert!(words.starts_with(answer), "{question}: {words}");
    }
}

/// Serves recorded streams: that of the question's last word, or the one that follows the result of a call. Returns the
/// address.
async fn recorded(streams: Value) -> String {
    let respond = move |Json(body): Json<Value>| {
        let input = body["input"].as_array().unwrap();
        let last = input.last().unwrap();
        let question = last["content"].as_str().unwrap_or_default().rsplit(' ').next().unwrap_or_default();
        let stream = if last["type"] == "function_call_output" { "result" } else { question };
        let text = streams[stream].as_str().unwrap_or_else(|| panic!("no stream for {last}")).to_owned();
        std::future::ready(([("content-type", "text/event-stream; charset=utf-8")], text))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(respond))).await });
    format!("http://{address}")
}

#[test]
fn recorded_streams_of_the_litellm_proxy_are_read_for_either_kind_of_provider() {
    story(async {
        let file: Value = serde_json::from_str(include_str!("../independent/litellm_responses.json")).unwrap();
        for provider in ["openai", "anthropic"] {
            let host = recorded(file["streams"][provider].clone()).await;
            answers(&host, &[("hello", "Hi there!"), ("think", "I thought."), ("calculate", "It is 42.")]).await;
        }
    });
}

/// The proxy is large, so it is not among the packages of the tests.
#[test]
#[ignore = "run by a person who has the proxy: LITELLM_PROXY names its program"]
#[expect(clippy::disallowed_methods, reason = "a person who has the proxy names it")]
fn the_litellm_proxy_itself_is_asked_about_either_kind_of_provider() {
    let program = std::env::var_os("LITELLM_PROXY").expect("LITELLM_PROXY names the program");
    story(async move {
        let provider = Provider::start(Path::new("node"), "tests/independent/mock_provider.cjs").await;
        let folder = tempfile::tempdir().unwrap();
        let row = |name: &str, model: &str, base: &str| json!({"model_name": name, "litellm_params": {"model": model, "api_base": base, "api_key": "sk-test"}});
        let native = row("native", "openai/gpt-5-mini", &format!("{}/v1", provider.url));
        let translated = row("translated", "anthropic/claude-sonnet-4-5", &provider.url);
        let file = folder.path().join("proxy.yaml");
        std::fs::write(&file, json!({"model_list": [native, translated]}).to_string()).unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = tokio::process::Command::new(program);
        command.arg("--config").arg(&file).args(["--host", "127.0.0.1", "--port", &free.to_string()]);
        let _proxy = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let host = format!("http://127.0.0.1:{free}");
        let alive = async {
            while reqwest::get(format!("{host}/health/liveliness")).await.is_err() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(180), alive).await.expect("the proxy starts");
        for model in ["native", "translated"] {
            let row = format!(r#"{ROW}, "host": "{host}", "model_id": "{model}", "llm_call_timeout": "20s""#);
            let world = world_of(&row).await;
            for (question, answer) in [("hello", "Hi there!"), ("think", "I thought."), ("calculate", "It is 42.")] {
                let said = world.says("Ada", "general", &format!("@staffai {question}"));
                let words = world.words_to(said).await;
                assert!(words.starts_with(answer), "{model}, {question}: {words}");
            }
        }
    });
}

#[test]
fn the_types_of_the_official_package_read_each_request_and_each_of_its_events_is_read() {
    story(async {
        let provider = Provider::start(&python(), "tests/independent/responses_provider.py").await;
        let exchanges = [
            ("hello", "High tide is at nine."),
            ("calculate", "High tide is at nine."),
            ("refuse", "I cannot help with that."),
            ("stop", "High tide is at nine."),
            ("break", "Sorry, "),
            ("fail", "Sorry, "),
        ];
        provider.answers(&exchanges).await;
        let report = provider.report().await;
        assert_eq!((&report["problems"], &report["missing"]), (&json!([]), &json!([])), "{report}");
        assert!(report["events"].as_u64() > Some(50) && report["items"].as_u64() > Some(20), "{report}");
        assert_eq!(report["received"], json!(["function"]));
    });
}

#[test]
fn the_types_of_the_official_package_read_tools_of_the_provider_pictures_and_pdf_files() {
    story(async {
        let provider = Provider::start(&python(), "tests/independent/responses_provider.py").await;
        let folder = tempfile::tempdir().unwrap();
        let (url, _) = documents().await;
        let setup = Setup::new()
            .set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true")
            .set("STAFFAI_MCP_CONFIG", file_of(&folder, &url).display());
        let host = &provider.url;
        let fields = r#""native_web_search": true, "native_mcp": true, "vision": true, "pdf": true"#;
        let world = World::of_row(setup, &format!(r#"{ROW}, "host": "{host}", {fields}"#)).await;
        let pixel = STANDARD.decode(PIXEL).unwrap();
        let report = &include_bytes!("../../crates/documents/fixtures/report.pdf")[..];
        let files = [("pixel.png", "image/png", &*pixel), ("report.pdf", "application/pdf", report)];
        let said = world.sends("Ada", "general", "@staffai hello", &files);
        assert!(world.words_to(said).await.starts_with("High tide is at nine."));
        // The list of the server arrives after the start.
        let report = loop {
            let said = world.says("Ada", "general", "@staffai hello");
            assert!(world.words_to(said).await.starts_with("High tide is at nine."));
            let report = provider.report().await;
            if report["received"].to_string().contains("mcp") {
                break report;
            }
        };
        assert_eq!(report["problems"], json!([]), "{report}");
        let kinds = ["function", "input_file", "input_image", "input_text", "mcp", "web_search"];
        assert_eq!(report["received"], json!(kinds));
    });
}

#[test]
fn the_mock_provider_from_npm_answers_thinks_searches_calls_and_fails() {
    story(async {
        let provider = Provider::start(Path::new("node"), "tests/independent/mock_provider.cjs").await;
        let exchanges = [
            ("hello", "Hi there!"),
            ("calculate", "It is 42."),
            ("think", "I thought."),
            ("search", "I searched."),
            ("cut", "Sorry, "),
            ("limit", "Sorry, "),
        ];
        provider.answers(&exchanges).await;
    });
}
