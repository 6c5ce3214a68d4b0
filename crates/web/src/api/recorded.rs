//! `GET /api/v1/recorded`: the questions recorded for a replay, one JSON object per line.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use ports::RecordedQuestions;

/// Returns the route. The caller that mounts it authorizes requests.
pub fn router(recorded: Arc<dyn RecordedQuestions>) -> Router {
    Router::new().route("/api/v1/recorded", get(lines)).with_state(recorded)
}

async fn lines(State(recorded): State<Arc<dyn RecordedQuestions>>) -> Response {
    let line = |question: String| format!("{}\n", json!({"question": question}));
    let text: String = recorded.questions().await.into_iter().map(line).collect();
    ([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response()
}
