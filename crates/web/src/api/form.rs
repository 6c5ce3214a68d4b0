//! Gives every refusal the form that the client of its path expects, whichever layer refused. Layers write plain text.

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

/// Formats a refusal for the clients of a path.
pub type Refuse = fn(&str, StatusCode, &str) -> Response;

/// Maximum size of a plain-text refusal, in bytes.
const SENTENCE_MAX: usize = 1_024;
const READ_MAX: usize = 64 * 1_024;

/// Converts plain-text and empty refusals with `refuse`. Others already have their form.
pub async fn in_form(State(refuse): State<Refuse>, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let response = next.run(request).await;
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || !is_plain(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, READ_MAX).await.unwrap_or_default();
    let why = std::str::from_utf8(&text).ok().filter(|text| !text.is_empty()).unwrap_or_else(|| sentence(status));
    let mut formed = refuse(uri.path(), status, &why[..why.floor_char_boundary(SENTENCE_MAX)]);
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    formed.headers_mut().extend(parts.headers);
    formed
}

fn is_plain(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"))
}

fn sentence(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "there is nothing at this path",
        StatusCode::METHOD_NOT_ALLOWED => {
            "this path is not for this method; the header Allow names those that it is for"
        }
        _ => "the request was refused",
    }
}
