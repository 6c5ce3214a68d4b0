//! Problem details for HTTP (RFC 9457): the form of refusals of this program's own paths, in every edge.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Formats a refusal as problem details. The text is also in `error`, where older clients look for it.
#[must_use]
pub fn problem(status: StatusCode, why: &str) -> Response<String> {
    let title = status.canonical_reason().unwrap_or("Refused");
    let body = json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": why, "error": why});
    let mut response = Response::new(body.to_string());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM);
    response
}
