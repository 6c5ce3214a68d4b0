//! The endpoints of OpenAI's chat completions.

pub(super) mod reading;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures_util::stream::{self, Stream};
use tokio::time::timeout;

use self::reading::{Asked, ChatRequest};
use self::writing::Writer;
use super::asking::{Asking, Progress};
use super::failure::Failure;
use super::{ModelApi, OWN_MODEL, body};
use crate::domain::api_key::Caller;

/// How long the head of a stream waits for the first of it, so that a failure before that has a status of its own.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What of a request was left out.
const WARNING: HeaderName = HeaderName::from_static("warning");

/// The routes.
pub(super) fn routes() -> Router<Arc<ModelApi>> {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{id}", get(model))
        .route("/v1/chat/completions", post(chat))
}

/// Whether clients of these endpoints ask there.
pub(super) fn speaks(path: &str) -> bool {
    path.starts_with("/v1/") && !path.starts_with("/v1/api/")
}

/// A failure in the form that clients know.
pub(super) fn failed(failure: &Failure) -> Response {
    (failure.status(), Json(writing::error(failure))).into_response()
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
) -> Response {
    match api.row(&caller, Some(&id)) {
        Ok(_) => Json(writing::model(&id)).into_response(),
        Err(failure) => failed(&failure),
    }
}

async fn chat(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match answer(&api, &caller, &headers, body).await {
        Ok(response) => response,
        Err(failure) => failed(&failure),
    }
}

async fn answer(api: &Arc<ModelApi>, caller: &Caller, headers: &HeaderMap, body: Body) -> Result<Response, Failure> {
    let (request, room) = body::read::<ChatRequest>(&api.room, caller, headers, body).await?;
    let Asked { mut conversation, stream, usage, ignored } = request.read()?;
    let row = api.row(caller, conversation.model.as_deref())?;
    (conversation.model, conversation.whole) = (Some(row.key.clone()), !stream);
    let created = api.parts.clock.now().0 / 1_000;
    let mut asking = api.ask(caller, conversation, room).await?;
    let writer = Writer { id: format!("chatcmpl-{}", asking.id()), created, model: row.key, usage };
    let mut response = if stream {
        let first = match timeout(HEAD_WITHIN, asking.next()).await {
            Ok(Progress::Failed(failure)) => return Err(failure),
            Ok(progress) => Some(progress),
            Err(_) => None,
        };
        let events = streamed(asking, writer, first);
        Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
    } else {
        Json(writer.whole(&asking.whole().await?)).into_response()
    };
    if let Ok(warning) = HeaderValue::from_str(&format!("299 staffai \"ignored: {}\"", ignored.join(", ")))
        && !ignored.is_empty()
    {
        response.headers_mut().insert(WARNING, warning);
    }
    Ok(response)
}

/// Where a stream is.
struct Streamed {
    asking: Asking,
    writer: Writer,
    first: Option<Progress>,
    begun: bool,
    over: bool,
}

/// The chunks as they come.
fn streamed(
    asking: Asking,
    writer: Writer,
    first: Option<Progress>,
) -> impl Stream<Item = Result<Event, axum::Error>> + Send {
    let begin = Streamed { asking, writer, first, begun: false, over: false };
    let batches = stream::unfold(begin, |mut at| async {
        if at.over {
            return None;
        }
        let mut chunks = Vec::new();
        if at.begun {
            let progress = match at.first.take() {
                Some(progress) => progress,
                None => at.asking.next().await,
            };
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
