//! `GET /api/v1/audit`: the audit log of tools, one JSON object per line, oldest first.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;

use domain::audit::AuditFilter;
use domain::ids::Timestamp;
use ports::AuditLog;

/// The filters of a request; an absent one matches all.
#[derive(Debug, Deserialize)]
struct AuditQuery {
    /// The earliest time, in milliseconds since 1970.
    since: Option<u64>,
    /// A pattern for tool names.
    tool: Option<String>,
    /// A member's id, optionally prefixed by a door.
    member: Option<String>,
}

/// Returns the route. The caller that mounts it authorizes requests.
pub fn router(audit: Arc<dyn AuditLog>) -> Router {
    Router::new().route("/api/v1/audit", get(lines)).with_state(audit)
}

async fn lines(State(audit): State<Arc<dyn AuditLog>>, asked: Result<Query<AuditQuery>, QueryRejection>) -> Response {
    let Ok(Query(AuditQuery { since, tool, member })) = asked else {
        return (StatusCode::BAD_REQUEST, "since must be a number of milliseconds since 1970").into_response();
    };
    let mut text = audit.lines(&AuditFilter { since: since.map(Timestamp), tool, member }).await.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    ([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response()
}
