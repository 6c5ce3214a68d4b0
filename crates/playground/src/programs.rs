//! Access to the playground's services: for programs on this machine, never for web pages.
//!
//! A browser connects to loopback for any page that asks it to. It sends the page's `Origin` (for a WebSocket always)
//! and `Sec-Fetch-Site`, and for a rebound DNS name its `Host`.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The header with the relation of the requesting page's origin to the target.
pub const FETCH_SITE: &str = "sec-fetch-site";

/// Accepts a request if a program sent it and it names this machine.
pub async fn only(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let browser = headers.contains_key(header::ORIGIN) || headers.contains_key(FETCH_SITE);
    if browser || !names_this_machine(headers) {
        return (StatusCode::FORBIDDEN, "programs on this machine have access, web pages have not").into_response();
    }
    next.run(request).await
}

/// True if the only `Host` is this machine, with or without a port.
pub fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    host.is_some_and(is_here) && hosts.next().is_none()
}

fn is_here(host: &str) -> bool {
    let Ok(uri) = format!("http://{host}/").parse::<Uri>() else {
        return false;
    };
    let Some(authority) = uri.authority() else {
        return false;
    };
    domain::host::is_loopback(authority.host()) && !authority.as_str().contains('@')
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio_tungstenite::tungstenite::client::IntoClientRequest;

    use super::*;
    use crate::demo_model::DemoModel;
    use crate::service::{Options, Service};

    /// Headers that a browser adds for a page, or sends for a rebound name.
    const OF_PAGES: [(&str, &str); 5] = [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:9"),
        ("sec-fetch-site", "cross-site"),
        ("host", "evil.example"),
    ];

    async fn service() -> Service {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Service::start(Options::new(Arc::new(|| 1_760_000_000_000))).await.unwrap()
    }

    #[tokio::test]
    async fn no_web_page_reaches_the_gateway() {
        let service = service().await;
        let gateway = format!("{}/gateway?v=10&encoding=json", service.api_url().replace("http", "ws"));
        for (name, value) in OF_PAGES {
            let mut request = gateway.as_str().into_client_request().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
            assert!(tokio_tungstenite::connect_async(request).await.is_err(), "{name}: {value}");
        }
        assert!(tokio_tungstenite::connect_async(gateway.as_str()).await.is_ok());
    }

    #[tokio::test]
    async fn no_web_page_reaches_requests_files_or_the_demo_model() {
        let (service, model) = (service().await, DemoModel::start(Duration::ZERO).await.unwrap());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let addresses = [
            format!("{}/api/v10/gateway", service.api_url()),
            format!("{}/attachments/1/2/a.png", service.api_url()),
            format!("{}/models", model.base_url()),
        ];
        for address in addresses {
            assert_ne!(client.get(&address).send().await.unwrap().status(), 403, "{address}");
            for (name, value) in OF_PAGES {
                let response = client.get(&address).header(name, value).send().await.unwrap();
                assert_eq!(response.status(), 403, "{address}, {name}: {value}");
            }
        }
    }

    #[test]
    fn names_of_this_machine() {
        let named = |hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().unwrap());
            }
            names_this_machine(&headers)
        };
        for host in ["127.0.0.1", "127.0.0.1:8420", "localhost:1", "LOCALHOST", "[::1]:2"] {
            assert!(named(&[host]), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example", "127.0.0.1@evil.example", "10.0.0.1", "a b"] {
            assert!(!named(&[host]), "{host}");
        }
        assert!(!named(&["localhost", "evil.example"]) && !named(&[]));
    }
}
