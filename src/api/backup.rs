//! `GET /api/v1/backup`: a copy of everything that is kept, made while the program runs. See [`crate::app`] for its form.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::StreamExt as _;
use futures_util::stream::poll_fn;

use crate::ports::Backups;

/// The route. The caller that mounts it authorises requests.
pub fn router(backups: Arc<dyn Backups>) -> Router {
    Router::new().route("/api/v1/backup", get(copy)).with_state(backups)
}

/// Sends the copy as it is made. A client that stops reading ends it.
async fn copy(State(backups): State<Arc<dyn Backups>>) -> Response {
    let mut chunks = backups.begin();
    let chunks = poll_fn(move |context| chunks.poll_recv(context)).map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk)));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(chunks)).into_response()
}
