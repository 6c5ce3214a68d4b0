//! Refusals as problem details (RFC 9457).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::terminal::sessions::NotTaken;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A refusal with this status. Its sentence stands in `error` as well, where older clients look for it.
pub(super) fn refused(status: StatusCode, why: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("Refused");
    let body = json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": why, "error": why});
    (status, [(header::CONTENT_TYPE, PROBLEM)], Json(body)).into_response()
}

/// The status for a message or a name that was not taken.
pub(super) const fn status_of(why: NotTaken) -> StatusCode {
    match why {
        NotTaken::BadName | NotTaken::Empty | NotTaken::NotTheirs => StatusCode::BAD_REQUEST,
        NotTaken::NameTaken => StatusCode::CONFLICT,
        NotTaken::Crowded => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The answer to a request that was not let in.
pub fn not_let_in(status: StatusCode, why: &'static str) -> Response {
    refused(status, why)
}
