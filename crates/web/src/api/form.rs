//! Refusals in the form that the clients of a path know, whoever refused: what is refused on the way to a route says why in plain text.

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

/// Tells why a request for a path is refused, in the form that the clients of the path know.
pub type Refuse = fn(&str, StatusCode, &str) -> Response;

/// The most bytes of a refusal in plain text that are handed on, and that are read for it.
const SENTENCE_MAX: usize = 1_024;
const READ_MAX: usize = 64 * 1_024;

/// Gives the refusals in plain text, and those without a word, the form that `refuse` knows. Others have one already.
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

/// Of a refusal without a word.
fn sentence(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "there is nothing at this path",
        StatusCode::METHOD_NOT_ALLOWED => {
            "this path is not for this method; the header Allow names those that it is for"
        }
        _ => "the request was refused",
    }
}
