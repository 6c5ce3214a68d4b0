//! `GET /api/v1/backup`: a backup of all stored data, made while the program runs. Its format is documented in
//! `src/app/backup.rs`.

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

/// Returns the route. The caller that mounts it authorizes requests.
pub fn router(backups: Arc<dyn Backups>) -> Router {
    Router::new().route("/api/v1/backup", get(copy)).with_state(backups)
}

/// Streams the backup; it is cancelled if the client stops reading. A failure before the first chunk is a 503; a later
/// one leaves out the last line.
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
