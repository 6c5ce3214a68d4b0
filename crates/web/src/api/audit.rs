//! `GET /api/v1/audit`: the audit of tools, one JSON object a line, the oldest first.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;

use domain::audit::Wanted;
use domain::ids::Timestamp;
use ports::AuditLog;

/// Which lines are asked for; absent takes all.
#[derive(Debug, Deserialize)]
struct Asked {
    /// Milliseconds since 1970 from which on lines are wanted.
    since: Option<u64>,
    /// A pattern of names of tools.
    tool: Option<String>,
    /// Somebody's id, with or without a door before it.
    member: Option<String>,
}

/// The route. The caller that mounts it authorises requests.
pub fn router(audit: Arc<dyn AuditLog>) -> Router {
    Router::new().route("/api/v1/audit", get(lines)).with_state(audit)
}

async fn lines(State(audit): State<Arc<dyn AuditLog>>, asked: Result<Query<Asked>, QueryRejection>) -> Response {
    let Ok(Query(Asked { since, tool, member })) = asked else {
        return (StatusCode::BAD_REQUEST, "since is a number of milliseconds since 1970").into_response();
    };
    let mut text = audit.lines(&Wanted { since: since.map(Timestamp), tool, member }).await.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    ([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response()
}
