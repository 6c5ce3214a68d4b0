//! A scripted model on a local port, including faults.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{Response, StatusCode};
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use futures_util::StreamExt;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The model's reaction to a question.
#[derive(Clone, Debug)]
pub enum Act {
    /// A well-formed reply with this text.
    Says(String),
    /// The same after a delay.
    SaysAfter(Duration, String),
    /// The same once the gate is open.
    SaysWhen(watch::Receiver<bool>, String),
    /// A streamed reply, if a stream was requested.
    Streams(Streamed),
    /// The same with these pauses before its pieces, in order; further pieces have its own pause.
    StreamsUnevenly(Streamed, Vec<Duration>),
    /// The content of the answer, unchanged.
    Content(String),
    /// Content that the token limit cut off.
    CutOff(String),
    /// A reply without usage.
    WithoutUsage(String),
    /// The provider's own refusal.
    Refuses(String),
    /// Stopped by the provider's filter.
    Filtered,
    /// The whole body, unchanged.
    Body(String),
    /// These output items; only over the Responses API.
    Output(Value),
    /// Streamed text, then a tool call: its name and arguments.
    StreamsACall(String, &'static str, Value),
    /// An error status.
    Status(u16),
    /// An error status with this body.
    Error(u16, String),
    /// 429 with this `Retry-After`, in seconds.
    RetryAfter(&'static str),
    /// No answer.
    Hangs,
    /// A body without an end.
    Endless,
    /// A body beyond all bounds.
    Giant,
}

/// A content in pieces, and its end.
#[derive(Clone, Debug)]
pub struct Streamed {
    pub content: String,
    /// Characters per piece.
    pub piece: usize,
    /// The pause before each piece.
    pub pause: Duration,
    pub end: End,
}

/// The end of a stream.
#[derive(Clone, Debug)]
pub enum End {
    /// The regular end.
    Well,
    /// An error of the provider after this many pieces.
    ErrorAfter(usize),
    /// The connection breaks after this many pieces.
    CutAfter(usize),
    /// Silence after this many pieces.
    SilenceAfter(usize),
}

impl Act {
    /// A well-formed reply with this text, streamed.
    pub fn streams(words: &str, piece: usize, pause: Duration, end: End) -> Self {
        Self::Streams(Streamed { content: typed(words), piece, pause, end })
    }

    /// The same, with these pauses before its pieces.
    pub fn streams_unevenly(words: &str, piece: usize, pauses: Vec<Duration>) -> Self {
        Self::StreamsUnevenly(Streamed { content: typed(words), piece, pause: Duration::ZERO, end: End::Well }, pauses)
    }

    pub fn says(words: impl Into<String>) -> Self {
        Self::Says(words.into())
    }

    pub fn content(text: impl Into<String>) -> Self {
        Self::Content(text.into())
    }

    /// Tool calls: the id, name and arguments of each.
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

/// One request as received.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its index among all requests.
    pub number: usize,
    /// Role and text of each message.
    pub messages: Vec<(String, String)>,
    /// The whole body.
    pub body: Value,
}

impl Ask {
    /// Returns the last message.
    pub fn question(&self) -> &str {
        self.messages.last().map_or("", |(_, text)| text)
    }

    /// Returns everything but the instructions, one line per message.
    pub fn talk(&self) -> String {
        let lines = self.messages.iter().filter(|(role, _)| role != "system");
        lines.map(|(role, text)| format!("{role}: {text}")).collect::<Vec<_>>().join("\n")
    }

    /// Returns the pictures of the last message as data URLs.
    pub fn pictures(&self) -> Vec<String> {
        let last = self.body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
        let parts = last["content"].as_array().cloned().unwrap_or_default();
        parts.iter().filter_map(|part| part["image_url"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// Returns the names of the offered tools.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
    }

    /// True if a response format was requested.
    pub fn has_form(&self) -> bool {
        self.body.get("response_format").is_some()
    }

    /// Returns the tool results in order: the id of the call, and the text without its marks.
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

    /// Returns the requested model.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// True if a text occurs anywhere in the prompt.
    pub fn shows(&self, text: &str) -> bool {
        self.messages.iter().any(|(_, shown)| shown.contains(text))
    }
}

type Script = Box<dyn Fn(&Ask) -> Act + Send + Sync>;

pub struct Inner {
    script: RwLock<Script>,
    asks: Mutex<Vec<Ask>>,
    calls: AtomicUsize,
    /// The streams that their reader closed before their end.
    cut: Arc<AtomicUsize>,
}

#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
    url: String,
}

impl Model {
    /// Starts a model that repeats the question.
    pub async fn start() -> Self {
        let script: Script = Box::new(|ask| Act::Says(format!("You said: {}", ask.question())));
        let inner = Arc::new(Inner {
            script: RwLock::new(script),
            asks: Mutex::default(),
            calls: AtomicUsize::default(),
            cut: Arc::default(),
        });
        let app = Router::new().route("/v1/chat/completions", post(complete));
        let app = app.route("/v1/responses", post(crate::model_responses::respond));
        let app = app.route("/v1/embeddings", post(embed)).with_state(Arc::clone(&inner));
        let app = app.layer(DefaultBodyLimit::disable());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        // As services do: a piece of a stream does not wait for the acknowledgement of the one before.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { inner, url }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sets the script for further questions.
    pub fn does(&self, script: impl Fn(&Ask) -> Act + Send + Sync + 'static) {
        *self.inner.script.write() = Box::new(script);
    }

    /// Gives the same reaction to all further questions.
    pub fn always(&self, act: Act) {
        self.does(move |_| act.clone());
    }

    /// Returns the number of requests.
    pub fn calls(&self) -> usize {
        self.inner.calls.load(Ordering::SeqCst)
    }

    /// Returns the number of streams that their reader closed before their end.
    pub fn cut(&self) -> usize {
        self.inner.cut.load(Ordering::SeqCst)
    }

    /// Returns all requests, in order.
    pub fn asks(&self) -> Vec<Ask> {
        self.inner.asks.lock().clone()
    }

    /// Returns the last request.
    pub fn last(&self) -> Ask {
        self.inner.asks.lock().last().cloned().expect("the model was never asked")
    }
}

/// Answers with a vector for each text: its length, and the number of texts.
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
    let wanted = body["stream"] == true;
    match ask(&inner, body) {
        Act::Streams(streamed) if wanted => stream(&streamed, Vec::new(), &inner.cut),
        Act::StreamsUnevenly(streamed, pauses) if wanted => stream(&streamed, pauses, &inner.cut),
        act => answer(act).await,
    }
}

/// Records a request and returns the script's reaction.
pub fn ask(inner: &Inner, body: Value) -> Act {
    let number = inner.calls.fetch_add(1, Ordering::SeqCst);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    // Text parts are joined; pictures are found in the body.
    let content = |value: &Value| match value.as_array() {
        Some(parts) => parts.iter().map(|part| text(&part["text"])).collect(),
        None => text(value),
    };
    let messages = messages.iter().map(|message| (text(&message["role"]), content(&message["content"]))).collect();
    let ask = Ask { number, messages, body };
    let act = (inner.script.read())(&ask);
    inner.asks.lock().push(ask);
    act
}

pub async fn answer(act: Act) -> Response<Body> {
    match act {
        Act::StreamsACall(words, tool, arguments) => stream_call(&words, tool, &arguments),
        Act::Says(words) => completion(&typed(&words), "stop"),
        Act::SaysAfter(delay, words) => {
            tokio::time::sleep(delay).await;
            completion(&typed(&words), "stop")
        }
        Act::SaysWhen(mut gate, words) => {
            // A gate whose sender is gone counts as open.
            let _ = gate.wait_for(|open| *open).await;
            completion(&typed(&words), "stop")
        }
        Act::Content(content)
        | Act::Streams(Streamed { content, .. })
        | Act::StreamsUnevenly(Streamed { content, .. }, _) => completion(&content, "stop"),
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
        Act::Output(_) => whole(StatusCode::INTERNAL_SERVER_ERROR, "{}".to_owned()),
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

/// Counts a stream whose reader closed it before its end.
struct Reading {
    cut: Arc<AtomicUsize>,
    is_over: bool,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.cut.fetch_add(usize::from(!self.is_over), Ordering::SeqCst);
    }
}

fn stream(streamed: &Streamed, pauses: Vec<Duration>, cut: &Arc<AtomicUsize>) -> Response<Body> {
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
    let pauses = pauses.into_iter().chain(std::iter::repeat(streamed.pause));
    let frames = futures_util::stream::iter(frames.into_iter().zip(pauses)).then(move |(frame, pause)| async move {
        tokio::time::sleep(pause).await;
        frame
    });
    let frames = if silent { frames.chain(futures_util::stream::pending()).boxed() } else { frames.boxed() };
    let reading = Reading { cut: Arc::clone(cut), is_over: false };
    let body = futures_util::stream::unfold((frames, reading), |(mut frames, mut reading)| async {
        let frame = frames.next().await;
        reading.is_over = frame.is_none();
        Some((frame?, (frames, reading)))
    });
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

pub fn whole(status: StatusCode, body: String) -> Response<Body> {
    Response::builder().status(status).header("content-type", "application/json").body(Body::from(body)).unwrap()
}
