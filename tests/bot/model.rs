//! A model on a local port that does what a test tells it, also the worst.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{Response, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::StreamExt;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What the model does with one question.
#[derive(Clone, Debug)]
pub enum Act {
    /// A well-formed reply with these words.
    Says(String),
    /// The same after a while.
    SaysAfter(Duration, String),
    /// The same once the gate is open.
    SaysWhen(watch::Receiver<bool>, String),
    /// A reply that is streamed, when a stream was asked for.
    Streams(Streamed),
    /// The content of the answer, as it is.
    Content(String),
    /// A content that was cut off by the token limit.
    CutOff(String),
    /// A reply without any word about tokens.
    WithoutUsage(String),
    /// The provider's own refusal.
    Refuses(String),
    /// The provider's filter stopped it.
    Filtered,
    /// The whole body, as it is.
    Body(String),
    /// Words that are streamed, and then a call of a tool: its name and arguments.
    StreamsACall(String, &'static str, Value),
    /// An error status.
    Status(u16),
    /// An error status with this body.
    Error(u16, String),
    /// Too many requests; come back in so many seconds.
    RetryAfter(&'static str),
    /// Never an answer.
    Hangs,
    /// A body that never ends.
    Endless,
    /// More bytes than anybody reads.
    Giant,
}

/// A content in pieces, and how it ends.
#[derive(Clone, Debug)]
pub struct Streamed {
    pub content: String,
    /// Characters in a piece.
    pub piece: usize,
    /// Before each piece.
    pub pause: Duration,
    pub end: End,
}

/// How a stream ends.
#[derive(Clone, Debug)]
pub enum End {
    /// As it should.
    Well,
    /// With an error of the provider after so many pieces.
    ErrorAfter(usize),
    /// The connection breaks after so many pieces.
    CutAfter(usize),
    /// Nothing more comes after so many pieces.
    SilenceAfter(usize),
}

impl Act {
    /// A well-formed reply with these words, streamed.
    pub fn streams(words: &str, piece: usize, pause: Duration, end: End) -> Self {
        Self::Streams(Streamed { content: typed(words), piece, pause, end })
    }

    pub fn says(words: impl Into<String>) -> Self {
        Self::Says(words.into())
    }

    pub fn content(text: impl Into<String>) -> Self {
        Self::Content(text.into())
    }

    /// Wants tools to be called: the id, name and arguments of each call.
    pub fn calls(calls: &[(&str, &str, Value)]) -> Self {
        let call = |(id, name, arguments): &(&str, &str, Value)| {
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        };
        let calls: Vec<Value> = calls.iter().map(call).collect();
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls, "kept": "as it came"});
        Self::Body(choices(&message, "tool_calls"))
    }
}

/// One request as the model got it.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its place among all requests, from zero.
    pub number: usize,
    /// Role and text of each message.
    pub messages: Vec<(String, String)>,
    /// The whole body.
    pub body: Value,
}

impl Ask {
    /// The last thing the model was asked.
    pub fn question(&self) -> &str {
        self.messages.last().map_or("", |(_, text)| text)
    }

    /// Everything but our instructions, one line a message.
    pub fn talk(&self) -> String {
        let lines = self.messages.iter().filter(|(role, _)| role != "system");
        lines.map(|(role, text)| format!("{role}: {text}")).collect::<Vec<_>>().join("\n")
    }

    /// The pictures that came with the last message, as addresses that hold them.
    pub fn pictures(&self) -> Vec<String> {
        let last = self.body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
        let parts = last["content"].as_array().cloned().unwrap_or_default();
        parts.iter().filter_map(|part| part["image_url"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// Names of the tools that it was offered.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
    }

    /// It was asked for an answer in a form.
    pub fn has_form(&self) -> bool {
        self.body.get("response_format").is_some()
    }

    /// What the tools gave, in order: the id of the call, and the text without its marks.
    pub fn results(&self) -> Vec<(String, String)> {
        let messages = self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        let text = |message: &Value| {
            let text = message["content"].as_str().unwrap_or_default();
            let inside = text.split_once(">\n").and_then(|(_, inside)| inside.split_once("\n</tool_result>"));
            inside.unwrap_or_else(|| panic!("no marks around {text}")).0.to_owned()
        };
        results
            .map(|message| (message["tool_call_id"].as_str().unwrap_or_default().to_owned(), text(message)))
            .collect()
    }

    /// The model that was asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Whether a text stands anywhere in what the model was shown.
    pub fn shows(&self, text: &str) -> bool {
        self.messages.iter().any(|(_, shown)| shown.contains(text))
    }
}

type Script = Box<dyn Fn(&Ask) -> Act + Send + Sync>;

struct Inner {
    script: RwLock<Script>,
    asks: Mutex<Vec<Ask>>,
    calls: AtomicUsize,
}

/// The scripted model.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
    url: String,
}

impl Model {
    /// A model that repeats what it was asked.
    pub async fn start() -> Self {
        let script: Script = Box::new(|ask| Act::Says(format!("You said: {}", ask.question())));
        let inner =
            Arc::new(Inner { script: RwLock::new(script), asks: Mutex::default(), calls: AtomicUsize::default() });
        let app = Router::new().route("/v1/chat/completions", post(complete));
        let app = app.route("/v1/embeddings", post(embed)).with_state(Arc::clone(&inner));
        let app = app.layer(DefaultBodyLimit::disable());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { inner, url }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on the model does this.
    pub fn does(&self, script: impl Fn(&Ask) -> Act + Send + Sync + 'static) {
        *self.inner.script.write() = Box::new(script);
    }

    /// From now on the model does the same with every question.
    pub fn always(&self, act: Act) {
        self.does(move |_| act.clone());
    }

    /// How often it was asked.
    pub fn calls(&self) -> usize {
        self.inner.calls.load(Ordering::SeqCst)
    }

    /// Everything it was asked, in order.
    pub fn asks(&self) -> Vec<Ask> {
        self.inner.asks.lock().clone()
    }

    /// The last thing it was asked.
    pub fn last(&self) -> Ask {
        self.inner.asks.lock().last().cloned().expect("the model was never asked")
    }
}

/// A vector for each text: how long it is, and how many there are.
async fn embed(Json(body): Json<Value>) -> Response<Body> {
    let inputs = body["input"].as_array().cloned().unwrap_or_default();
    if body["model"] != "embedder" || inputs.iter().any(|input| input == "break") {
        return whole(StatusCode::BAD_REQUEST, json!({"error": {"message": "no such model"}}).to_string());
    }
    let vector = |(index, input): (usize, &Value)| {
        let length = input.as_str().map_or(0, str::len);
        json!({"object": "embedding", "index": index, "embedding": [length, 0.5]})
    };
    let data: Vec<Value> = inputs.iter().enumerate().map(vector).rev().collect();
    let tokens = 3 * inputs.len();
    whole(StatusCode::OK, json!({"data": data, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}).to_string())
}

async fn complete(State(inner): State<Arc<Inner>>, Json(body): Json<Value>) -> Response<Body> {
    let number = inner.calls.fetch_add(1, Ordering::SeqCst);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    // Text parts are what a model reads; pictures are looked for in the body.
    let content = |value: &Value| match value.as_array() {
        Some(parts) => parts.iter().map(|part| text(&part["text"])).collect(),
        None => text(value),
    };
    let messages = messages.iter().map(|message| (text(&message["role"]), content(&message["content"]))).collect();
    let ask = Ask { number, messages, body };
    let act = (inner.script.read())(&ask);
    let wanted = ask.body["stream"] == true;
    inner.asks.lock().push(ask);
    match act {
        Act::Streams(streamed) if wanted => stream(&streamed),
        act => answer(act).await,
    }
}

async fn answer(act: Act) -> Response<Body> {
    match act {
        Act::StreamsACall(words, tool, arguments) => stream_call(&words, tool, &arguments),
        Act::Says(words) => completion(&typed(&words), "stop"),
        Act::SaysAfter(delay, words) => {
            tokio::time::sleep(delay).await;
            completion(&typed(&words), "stop")
        }
        Act::SaysWhen(mut gate, words) => {
            // A gate that is gone is open.
            let _ = gate.wait_for(|open| *open).await;
            completion(&typed(&words), "stop")
        }
        Act::Content(content) | Act::Streams(Streamed { content, .. }) => completion(&content, "stop"),
        Act::CutOff(content) => completion(&content, "length"),
        Act::WithoutUsage(words) => {
            let choice = json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": typed(&words)}});
            whole(StatusCode::OK, json!({"choices": [choice]}).to_string())
        }
        Act::Refuses(words) => {
            let message = json!({"role": "assistant", "content": null, "refusal": words});
            whole(StatusCode::OK, choices(&message, "stop"))
        }
        Act::Filtered => {
            let message = json!({"role": "assistant", "content": ""});
            whole(StatusCode::OK, choices(&message, "content_filter"))
        }
        Act::Body(body) => whole(StatusCode::OK, body),
        Act::Status(status) => {
            let status = StatusCode::from_u16(status).unwrap();
            whole(status, json!({"error": {"message": "it is broken"}}).to_string())
        }
        Act::Error(status, body) => whole(StatusCode::from_u16(status).unwrap(), body),
        Act::RetryAfter(seconds) => {
            let builder = Response::builder().status(429).header("retry-after", seconds);
            builder.body(Body::from(json!({"error": {"message": "slow down"}}).to_string())).unwrap()
        }
        Act::Hangs => std::future::pending().await,
        Act::Endless => {
            let drops = futures_util::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Some((Ok::<_, Infallible>(Bytes::from_static(b"{\"choices\": ")), ()))
            });
            Response::new(Body::from_stream(drops.boxed()))
        }
        Act::Giant => whole(StatusCode::OK, choices(&json!({"content": "x".repeat(6 * 1024 * 1024)}), "stop")),
    }
}

fn stream_call(words: &str, tool: &str, arguments: &Value) -> Response<Body> {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let call = json!({"tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": function}]});
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"choices": [choice]}))
    };
    let frames = [chunk(json!({"content": words}), None), chunk(call, None), chunk(json!({}), Some("tool_calls"))];
    let body = Body::from(frames.concat() + "data: [DONE]\n\n");
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}

fn stream(streamed: &Streamed) -> Response<Body> {
    let letters: Vec<char> = streamed.content.chars().collect();
    let chunk = |choices: Value| format!("data: {}\n\n", json!({"choices": choices, "model": "scripted"}));
    let delta =
        |letters: &[char]| chunk(json!([{"index": 0, "delta": {"content": letters.iter().collect::<String>()}}]));
    let mut frames: Vec<Result<String, std::io::Error>> =
        letters.chunks(streamed.piece).map(|piece| Ok(delta(piece))).collect();
    let mut silent = false;
    match streamed.end {
        End::Well => {
            frames.push(Ok(chunk(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]))));
            frames.push(Ok(format!(
                "data: {}\n\n",
                json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
            )));
            frames.push(Ok("data: [DONE]\n\n".to_owned()));
        }
        End::ErrorAfter(many) => {
            frames.truncate(many);
            frames.push(Ok(format!("data: {}\n\n", json!({"error": {"message": "upstream cut", "code": "500"}}))));
        }
        End::CutAfter(many) => {
            frames.truncate(many);
            frames.push(Err(std::io::ErrorKind::ConnectionReset.into()));
        }
        End::SilenceAfter(many) => {
            frames.truncate(many);
            silent = true;
        }
    }
    let pause = streamed.pause;
    let frames = futures_util::stream::iter(frames).then(move |frame| async move {
        tokio::time::sleep(pause).await;
        frame
    });
    let body = if silent { frames.chain(futures_util::stream::pending()).boxed() } else { frames.boxed() };
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(body)).unwrap()
}

fn typed(words: &str) -> String {
    json!({"type": "text", "response": words, "data": ""}).to_string()
}

fn completion(content: &str, finish: &str) -> Response<Body> {
    whole(StatusCode::OK, choices(&json!({"role": "assistant", "content": content}), finish))
}

fn choices(message: &Value, finish: &str) -> String {
    json!({
        "id": "c", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    })
    .to_string()
}

fn whole(status: StatusCode, body: String) -> Response<Body> {
    Response::builder().status(status).header("content-type", "application/json").body(Body::from(body)).unwrap()
}
