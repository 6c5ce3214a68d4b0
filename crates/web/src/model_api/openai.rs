//! The endpoints of OpenAI.

pub(super) mod embeddings;
pub(super) mod reading;
mod responses;
mod writing;

#[cfg(test)]
mod fuzz;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures_util::stream::{self, Stream};
use serde_json::Value;

use self::reading::{ChatRequest, OpenAiRequest};
use self::writing::Writer;
use super::asking::{Asking, Progress};
use super::failure::Failure;
use super::{ModelApi, OWN_MODEL, body};
use domain::api_key::Caller;

/// Interval of keep-alive comments in a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) fn routes() -> Router<Arc<ModelApi>> {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{*id}", get(model))
        .route("/v1/chat/completions", post(chat))
        .merge(responses::routes())
        .merge(embeddings::routes())
}

/// True if OpenAI's clients use this path.
pub(super) fn speaks(path: &str) -> bool {
    (path == "/v1" || path.starts_with("/v1/")) && !path.starts_with("/v1/api/")
}

/// A failure in OpenAI's format.
pub(super) struct OpenAiFailure(pub Failure);

impl From<Failure> for OpenAiFailure {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for OpenAiFailure {
    fn into_response(self) -> Response {
        (self.0.status(), self.0.headers(), Json(writing::error(&self.0))).into_response()
    }
}

async fn models(State(api): State<Arc<ModelApi>>, Extension(caller): Extension<Caller>) -> Response {
    let rows = api.rows(&caller);
    let keys = rows.iter().map(|row| row.key.as_str());
    let own = (!rows.is_empty()).then_some(OWN_MODEL);
    Json(writing::models(own.into_iter().chain(keys.filter(|key| *key != OWN_MODEL)))).into_response()
}

async fn model(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiFailure> {
    api.row(&caller, Some(&id))?;
    Ok(Json(writing::model(&id)))
}

async fn chat(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, OpenAiFailure> {
    let (request, mut room) = body::read_conversation::<ChatRequest>(&api.room, &caller, &headers, body).await?;
    let OpenAiRequest { mut conversation, files, stream, usage, mut ignored } = request.read()?;
    let row = api.settle(&caller, &mut conversation, stream, &mut ignored)?;
    api.enclose(&caller, &mut conversation.messages, files, &mut room).await?;
    let created = api.parts.clock.now().0 / 1_000;
    let mut asking = api.ask(&caller, conversation, room).await?;
    let writer = Writer { id: format!("chatcmpl-{}", asking.id()), created, model: row.key, usage };
    let response = if stream {
        asking.begin().await?;
        Sse::new(streamed(asking, writer)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
    } else {
        Json(writer.whole(&asking.whole().await?)).into_response()
    };
    Ok(ignored.warn(response))
}

struct Streamed {
    asking: Asking,
    writer: Writer,
    begun: bool,
    over: bool,
}

/// Returns the chunks of the answer as they arrive.
fn streamed(asking: Asking, writer: Writer) -> impl Stream<Item = Result<Event, axum::Error>> + Send {
    let begin = Streamed { asking, writer, begun: false, over: false };
    let batches = stream::unfold(begin, |mut at| async {
        if at.over {
            return None;
        }
        let mut chunks = Vec::new();
        if at.begun {
            let progress = at.asking.next().await;
            at.over = !matches!(progress, Progress::Text(_));
            chunks.extend(at.writer.chunks(&progress));
        } else {
            at.begun = true;
            chunks.push(at.writer.role());
        }
        let last = at.over && chunks.last().is_some_and(|chunk| chunk.get("error").is_none());
        let data = chunks.into_iter().map(|chunk| Event::default().json_data(chunk));
        let done = last.then(|| Ok(Event::default().data("[DONE]")));
        Some((stream::iter(data.chain(done).collect::<Vec<_>>()), at))
    });
    futures_util::StreamExt::flatten(batches)
}
