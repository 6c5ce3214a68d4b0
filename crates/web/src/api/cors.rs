//! CORS: allows pages of listed origins to send requests and to read the responses.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Matches every origin.
const ANY: &str = "*";
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// The response headers a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static("retry-after, warning, x-should-retry");
/// The time that a browser may cache a preflight response, in seconds.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");
/// The request headers allowed if a preflight request names none.
const HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type");
/// The header of a request to an address in a private network.
const PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The allowed origins.
#[derive(Debug, Clone, Default)]
pub struct Origins(Arc<[String]>);

impl Origins {
    /// Creates the list of origins such as `https://chat.example`; `*` matches every origin.
    pub fn new(origins: impl IntoIterator<Item = String>) -> Self {
        Self(origins.into_iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect())
    }

    /// True if the request's origin is allowed.
    pub fn list(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next().map(HeaderValue::to_str), origins.next()) {
            (Some(Ok(origin)), None) => {
                self.0.iter().any(|listed| listed == ANY || listed.eq_ignore_ascii_case(origin))
            }
            _ => false,
        }
    }
}

/// Answers preflight requests, which carry no key, and adds the CORS headers to responses for allowed origins.
pub async fn told(State(origins): State<Origins>, request: Request, next: Next) -> Response {
    if !origins.list(request.headers()) {
        return next.run(request).await;
    }
    let headers = request.headers();
    let origin = headers.get(header::ORIGIN).cloned();
    let is_preflight =
        request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_preflight {
        let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned().unwrap_or(HEADERS);
        let private = headers.contains_key(PRIVATE);
        let mut response = StatusCode::NO_CONTENT.into_response();
        let told = response.headers_mut();
        told.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        told.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
        told.insert(header::ACCESS_CONTROL_MAX_AGE, REMEMBERED);
        if private {
            told.insert(PRIVATE_ALLOWED, HeaderValue::from_static("true"));
        }
        response
    } else {
        next.run(request).await
    };
    let told = response.headers_mut();
    told.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    told.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        told.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_listed_by_its_whole_name() {
        let chat = Origins::new(["https://Chat.example/".to_owned()]);
        let of = |origins: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(header::ORIGIN, HeaderValue::from_static(origin));
            }
            headers
        };
        assert!(chat.list(&of(&["https://chat.example"])) && chat.list(&of(&["https://CHAT.example"])));
        for others in [
            &["http://chat.example"][..],
            &["https://chat.example.org"],
            &["null"],
            &[],
            &["https://chat.example", "x"],
        ] {
            assert!(!chat.list(&of(others)), "{others:?}");
        }
        let any = Origins::new(["*".to_owned()]);
        assert!(any.list(&of(&["https://chat.example"])) && !any.list(&of(&[])));
    }
}
