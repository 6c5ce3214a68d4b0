//! The endpoints of Ollama, also below `/v1` for clients that add it to every path.

mod embedding;
mod reading;
mod writing;

#[cfg(test)]
mod fuzz;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures_util::stream::{self, Stream};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::reading::{ChatRequest, GenerateRequest, OllamaRequest, ShowRequest, Style};
use self::writing::Writer;
use super::asking::{Asking, Progress};
use super::failure::Failure;
use super::{LATEST, ModelApi, OWN_MODEL, body};
use domain::api_key::Caller;
use domain::model::Row;

/// The supported version of Ollama's protocol; clients reject servers with an older one.
const PROTOCOL: &str = "0.12.0";
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

pub(super) fn routes() -> Router<Arc<ModelApi>> {
    let below = |prefix: &str| {
        let at = |path: &str| format!("{prefix}/api/{path}");
        Router::new()
            .route(&at("chat"), post(answer::<ChatRequest>))
            .route(&at("generate"), post(answer::<GenerateRequest>))
            .route(&at("embed"), post(embedding::embed))
            .route(&at("embeddings"), post(embedding::embed_one))
            .route(&at("tags"), get(tags))
            .route(&at("ps"), get(running))
            .route(&at("show"), post(show))
            .route(&at("version"), get(version))
    };
    below("").merge(below("/v1"))
}

pub(super) struct OllamaFailure(pub Failure);

impl From<Failure> for OllamaFailure {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for OllamaFailure {
    fn into_response(self) -> Response {
        (self.0.status(), self.0.headers(), Json(writing::error(&self.0))).into_response()
    }
}

async fn version() -> Json<Value> {
    Json(json!({"version": PROTOCOL}))
}

async fn tags(State(api): State<Arc<ModelApi>>, Extension(caller): Extension<Caller>) -> Json<Value> {
    Json(writing::models(&names(&api, &caller), api.parts.clock.now(), false))
}

/// Lists all models: none needs loading.
async fn running(State(api): State<Arc<ModelApi>>, Extension(caller): Extension<Caller>) -> Json<Value> {
    Json(writing::models(&names(&api, &caller), api.parts.clock.now(), true))
}

fn names(api: &ModelApi, caller: &Caller) -> Vec<String> {
    let rows = api.rows(caller);
    let own = (!rows.is_empty()).then(|| OWN_MODEL.to_owned());
    own.into_iter().chain(rows.into_iter().map(|row| row.key).filter(|key| key != OWN_MODEL)).collect()
}

async fn show(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, OllamaFailure> {
    let (request, _room) = body::read::<ShowRequest>(&api.room, &caller, &headers, body).await?;
    let row = api.row(&caller, request.name())?;
    Ok(Json(writing::shown(&row, api.parts.clock.now())))
}

/// A request for an answer.
trait Question: DeserializeOwned + Send + 'static {
    /// Returns the conversation, if the request contains one.
    fn read(self) -> Result<OllamaRequest, Failure>;
}

impl Question for ChatRequest {
    fn read(self) -> Result<OllamaRequest, Failure> {
        Self::read(self)
    }
}

impl Question for GenerateRequest {
    fn read(self) -> Result<OllamaRequest, Failure> {
        Self::read(self)
    }
}

async fn answer<Q: Question>(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, OllamaFailure> {
    let (request, room) = body::read_conversation::<Q>(&api.room, &caller, &headers, body).await?;
    let OllamaRequest { conversation, style, model, stream, mut ignored } = request.read()?;
    let named =
        |row: Row| model.as_deref().map_or(row.key, |name| name.strip_suffix(LATEST).unwrap_or(name).to_owned());
    let writer = |row: Row| Writer { style, model: named(row), begun: Instant::now() };
    let Some(mut conversation) = conversation else {
        let writer = writer(api.row(&caller, model.as_deref())?);
        return Ok(Json(writer.loaded(api.parts.clock.now())).into_response());
    };
    conversation.model.clone_from(&model);
    let writer = writer(api.settle(&caller, &mut conversation, stream, &mut ignored)?);
    let mut asking = api.ask(&caller, conversation, room).await?;
    if !stream {
        let whole = asking.whole().await?;
        return Ok(ignored.warn(Json(writer.whole(&whole, api.parts.clock.now())).into_response()));
    }
    asking.begin().await?;
    let body = Body::from_stream(lines(Streamed { api: Arc::clone(&api), asking, writer, over: false }));
    Ok(ignored.warn(([(header::CONTENT_TYPE, LINES)], body).into_response()))
}

struct Streamed {
    api: Arc<ModelApi>,
    asking: Asking,
    writer: Writer,
    over: bool,
}

/// Returns the lines of the answer as they arrive.
fn lines(begin: Streamed) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    stream::unfold(begin, |mut at| async {
        if at.over {
            return None;
        }
        let progress = at.asking.next().await;
        at.over = !matches!(progress, Progress::Text(_));
        let lines = at.writer.lines(&progress, at.api.parts.clock.now());
        let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
        Some((Ok(Bytes::from(text)), at))
    })
}

impl Writer {
    /// The answer to a request without a question: the model is available.
    fn loaded(&self, now: domain::ids::Timestamp) -> Value {
        let mut line = self.line("", now, true);
        line["done_reason"] = "load".into();
        line
    }
}

impl Style {
    /// Adds the text and the fields around it.
    fn put(self, line: &mut Value, text: &str) {
        match self {
            Self::Chat => line["message"] = json!({"role": "assistant", "content": text}),
            Self::Generate => line["response"] = text.into(),
        }
    }
}
