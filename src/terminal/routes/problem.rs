//! Refusals as problem details (RFC 9457).

use axum::Json;
use axum::body::to_bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::terminal::sessions::NotTaken;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
/// The most bytes of a refusal that was not written here.
const SENTENCE_MAX: usize = 1_024;

/// A refusal with this status. Its sentence stands in `error` as well, where older clients look for it.
pub(super) fn refused(status: StatusCode, why: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("Refused");
    let body = json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": why, "error": why});
    (status, [(header::CONTENT_TYPE, PROBLEM)], Json(body)).into_response()
}

/// Makes a problem of a refusal that was not written here, such as that of a method or of an id that is no text.
pub(super) async fn as_problem(response: Response) -> Response {
    let status = response.status();
    let refuses = status.is_client_error() || status.is_server_error();
    if !refuses || response.headers().get(header::CONTENT_TYPE) == Some(&PROBLEM) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let text = to_bytes(body, SENTENCE_MAX).await.unwrap_or_default();
    let why = match std::str::from_utf8(&text) {
        _ if status == StatusCode::METHOD_NOT_ALLOWED => "this endpoint has no such method; Allow names those it has",
        Ok(text) if !text.is_empty() => text,
        Ok(_) | Err(_) => "the request was refused",
    };
    let mut problem = refused(status, why);
    if let Some(allow) = parts.headers.get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allow.clone());
    }
    problem
}

/// Nothing is at this path.
pub(super) async fn no_endpoint() -> Response {
    refused(StatusCode::NOT_FOUND, "there is no such endpoint; GET /api/v1/openapi.json describes those there are")
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
