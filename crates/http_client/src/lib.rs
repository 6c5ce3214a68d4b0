//! One lean HTTP client for what leaves this process on its hot paths: connections are kept, a request is written as it was
//! prepared, and an answer is handed on in the pieces that came.
//!
//! It knows no service. No redirect is followed, because one would carry keys and prompts to an address that is not configured; nothing is
//! decompressed; nothing is tried twice, but for a request that met a kept connection closed before its first byte was written.
//! Certificates are checked as the system does. Where [`Settings::proxied`] says so, `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and
//! `NO_PROXY` count as they do for curl. A proxy that does not speak HTTP, such as one of SOCKS, cannot be used: each connection through it fails.
//!
//! A connection has a time to stand in. How long an exchange may take, and how much of an answer is read, is the caller's to bound.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_LENGTH, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::Body;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

mod body;

mod connect;

mod failure;

mod form;

pub use body::Outgoing;
pub use failure::{Failure, FailureKind};
pub use form::Form;

use connect::{Connector, Dialer};

/// How services are reached.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How we name ourselves.
    pub user_agent: &'static str,
    /// The longest that a connection may take to stand, name resolution and TLS included.
    pub connect_timeout: Duration,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// The proxies of the environment are used.
    pub proxied: bool,
    /// Connections may be encrypted. Without it none can be, and the certificates of the system, which take a while to read, are not.
    pub encrypted: bool,
}

/// A client. Clones share their connections.
#[derive(Clone, Debug)]
pub struct HttpClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: legacy::Client<Connector, Outgoing>,
    user_agent: HeaderValue,
    proxies: Option<Arc<Matcher>>,
}

impl HttpClient {
    /// A client. It reads the certificates of the system, so it must not be made where nothing may block.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let proxies = settings.proxied.then(Matcher::from_system);
        Ok(Self::with(settings, connect::tls(settings.encrypted)?, proxies))
    }

    /// A client that speaks TLS in this way and uses these proxies.
    fn with(settings: Settings, tls: ClientConfig, proxies: Option<Matcher>) -> Self {
        let (tls, proxies) = (Arc::new(tls), proxies.map(Arc::new));
        let user_agent = HeaderValue::from_static(settings.user_agent);
        let dialer = Dialer::new(Arc::clone(&tls), proxies.clone(), user_agent.clone(), settings.connect_timeout);
        let connector = Connector { dialer: HttpsConnector::from((dialer, tls)), within: settings.connect_timeout };
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(settings.idle_timeout)
            .build(connector);
        Self(Arc::new(Inner { client, user_agent, proxies }))
    }

    /// Sends a request, and gives the answer as soon as its head is there.
    ///
    /// # Errors
    /// There was none.
    pub async fn send(&self, mut request: Request<Outgoing>) -> Result<Response, Failure> {
        if request.uri().scheme() == Some(&Scheme::HTTP)
            && let Some(proxy) = self.0.proxies.as_ref().and_then(|proxies| proxies.intercept(request.uri()))
            && let Some(authorization) = proxy.basic_auth()
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        // Some proxies refuse a post whose length is not told.
        let unsized_post = request.method() != Method::GET && request.body().is_end_stream();
        let headers = request.headers_mut();
        if unsized_post {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        headers.entry(USER_AGENT).or_insert_with(|| self.0.user_agent.clone());
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let (head, body) = self.0.client.request(request).await.map_err(|error| Failure::of(&error))?.into_parts();
        Ok(Response { status: head.status, headers: head.headers, body })
    }
}

/// An answer whose body is still to be read. What is dropped before its end takes its connection along.
#[derive(Debug)]
pub struct Response {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: hyper::body::Incoming,
}

#[cfg(test)]
mod tests;
