//! A local service with the interface of `OpenAI`'s chat completions and no model behind it.
//!
//! It makes the playground usable without a configured model. Answers come from a short table of keywords
//! (`answers.rs`) and from the request itself. It claims no understanding, is stateless, and never leaves this machine.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

mod answers;
mod wire;

#[cfg(test)]
mod tests;

use super::programs;
use wire::{CompletionRequest, Reply};

/// The name of the primary model.
pub const MODEL: &str = "staffai-demo";
/// The name of the fallback model: the same at another address, without injected failures.
pub const SPARE: &str = "staffai-demo-spare";

const BODY_BYTES: usize = 4 * 1024 * 1024;
/// Maximum concurrent requests; more are answered with 429.
const REQUESTS: usize = 256;
/// Maximum pause between two words of a streamed answer.
const WORD_PAUSE: Duration = Duration::from_millis(45);
/// The longest time that stopping awaits answers in progress.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// The running service. Dropping it stops the service.
#[derive(Debug)]
pub struct DemoModel {
    addr: SocketAddr,
    closing: DropGuard,
    serving: JoinHandle<()>,
}

impl DemoModel {
    /// Listens on a free loopback port. `thinking` is the approximate delay before an answer; zero for none.
    ///
    /// # Errors
    /// No loopback port can be opened.
    pub async fn start(thinking: Duration) -> io::Result<Self> {
        Self::start_with(thinking, Arc::new(|| ModelFault::None)).await
    }

    /// Like [`start`](Self::start); `fault` is checked at each request and before each word.
    ///
    /// # Errors
    /// No loopback port can be opened.
    pub async fn start_with(thinking: Duration, fault: Arc<dyn Fn() -> ModelFault + Send + Sync>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let closing = CancellationToken::new();
        let closed = closing.clone();
        let app = router(thinking, fault);
        let serving = tokio::spawn(async move {
            let served = axum::serve(listener, app).with_graceful_shutdown(closed.cancelled_owned()).await;
            if let Err(error) = served {
                tracing::warn!(%error, "the demo model stopped listening");
            }
        });
        Ok(Self { addr, closing: closing.drop_guard(), serving })
    }

    /// Returns the base address for clients, including the version: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// Closes the listener and awaits answers in progress for a bounded time, then cuts them.
    pub async fn stop(self) {
        let Self { addr: _, closing, mut serving } = self;
        closing.disarm().cancel();
        if tokio::time::timeout(STOP_WAIT, &mut serving).await.is_err() {
            serving.abort();
        }
    }
}

/// An injected failure of the demo model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFault {
    /// None.
    None,
    /// Requests are refused, and answers break off.
    Down,
    /// Everything takes [`SLOWER`] times as long.
    Slow,
}

/// The factor of [`ModelFault::Slow`].
pub const SLOWER: u32 = 6;

impl ModelFault {
    fn stretch(self, time: Duration) -> Duration {
        match self {
            Self::None | Self::Down => time,
            Self::Slow => time * SLOWER,
        }
    }
}

/// The state shared by all requests.
#[derive(Clone)]
struct Desk {
    thinking: Duration,
    permits: Arc<Semaphore>,
    fault: Arc<dyn Fn() -> ModelFault + Send + Sync>,
}

fn router(thinking: Duration, fault: Arc<dyn Fn() -> ModelFault + Send + Sync>) -> Router {
    let desk = Desk { thinking, permits: Arc::new(Semaphore::new(REQUESTS)), fault };
    // Some clients add the version to the base address themselves.
    Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/chat/completions", post(complete))
        .route("/v1/models", get(models))
        .route("/models", get(models))
        .fallback(async || refuse(StatusCode::NOT_FOUND, "there is no such address here"))
        .method_not_allowed_fallback(async || refuse(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed here"))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(middleware::from_fn(programs::only))
        .with_state(desk)
}

async fn models() -> Json<Value> {
    let model = json!({"id": MODEL, "object": "model", "created": wire::CREATED, "owned_by": "staffai-playground"});
    Json(json!({"object": "list", "data": [model]}))
}

async fn complete(State(desk): State<Desk>, body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            return refuse(rejection.status(), &format!("cannot read the body: {}", rejection.body_text()));
        }
    };
    let asked = match CompletionRequest::read(&body) {
        Ok(asked) => asked,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error),
    };
    if (desk.fault)() == ModelFault::Down {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the demo model was told to be down");
    }
    let Ok(permit) = desk.permits.try_acquire_owned() else {
        let busy = refuse(StatusCode::TOO_MANY_REQUESTS, "too many requests at the same time");
        return ([(header::RETRY_AFTER, "1")], busy).into_response();
    };
    let reply = Reply::to(&asked);
    tokio::time::sleep((desk.fault)().stretch(desk.thinking.mul_f64(pace(&asked)))).await;
    if asked.stream {
        let pause = WORD_PAUSE.min(desk.thinking / 10);
        return words(reply.chunks(asked.stream_usage), pause, desk.fault, permit);
    }
    Json(reply.whole()).into_response()
}

/// Returns a factor of 0.6 to 1.25 for the delay, derived from the text: varied, but reproducible.
fn pace(asked: &CompletionRequest) -> f64 {
    let letters = asked.said.iter().map(|said| said.text.len()).sum::<usize>();
    0.75 + f64::from(u8::try_from(letters % 51).unwrap_or(0)) / 100.0
}

/// Streams the chunks. The permit is held until the end of the stream.
fn words(
    chunks: Vec<Value>,
    pause: Duration,
    fault: Arc<dyn Fn() -> ModelFault + Send + Sync>,
    permit: OwnedSemaphorePermit,
) -> Response {
    let frames = chunks.into_iter().map(|chunk| chunk.to_string()).chain(["[DONE]".to_owned()]);
    let frames = stream::iter(frames).then(move |frame| {
        let _held = &permit;
        let fault = Arc::clone(&fault);
        async move {
            tokio::time::sleep(fault().stretch(pause)).await;
            if fault() == ModelFault::Down {
                return Err(io::Error::other("the demo model was told to be down"));
            }
            Ok(Event::default().data(frame))
        }
    });
    Sse::new(frames).into_response()
}

fn refuse(status: StatusCode, message: &str) -> Response {
    let kind = if status == StatusCode::TOO_MANY_REQUESTS { "rate_limit_error" } else { "invalid_request_error" };
    (status, Json(json!({"error": {"message": message, "type": kind, "param": null, "code": null}}))).into_response()
}
