//! `GET /api/v1/backup`: a copy of everything that is kept, made while the program runs. `src/app/backup.rs` writes its form.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::StreamExt as _;
use futures_util::stream::{once, poll_fn};
use serde_json::json;

use ports::Backups;

/// The route. The caller that mounts it authorises requests.
pub fn router(backups: Arc<dyn Backups>) -> Router {
    Router::new().route("/api/v1/backup", get(copy)).with_state(backups)
}

/// Sends the copy as it is made. A client that stops reading ends it. A copy that fails before its first chunk is a 503; one that
/// fails later lacks its last line.
async fn copy(State(backups): State<Arc<dyn Backups>>) -> Response {
    let mut chunks = backups.begin();
    let Some(first) = chunks.recv().await else {
        let why = "the store cannot be copied now; the log names the reason (backup.failed)";
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": why }))).into_response();
    };
    let first = once(ready(Ok(Bytes::from(first))));
    let rest = poll_fn(move |context| chunks.poll_recv(context)).map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk)));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(first.chain(rest))).into_response()
}
