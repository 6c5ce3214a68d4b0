//! A small HTTP client for the hot paths: it pools connections, writes requests as prepared, and returns responses in
//! the pieces that arrive.
//!
//! It does not follow redirects, because a redirect would carry keys and prompts to an address that is not configured.
//! It does not decompress. It does not retry, except for a request that met a closed pooled connection before its
//! first byte was written. Certificates are verified with the system's root certificates. If [`Settings::proxied`] is
//! set, `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` work as in curl. Only HTTP proxies are supported; each
//! connection through another kind, such as SOCKS, fails.
//!
//! Establishing a connection has a timeout. The caller bounds the time of an exchange and the size of a response.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_LENGTH, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper::body::Body;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

mod body;

mod connect;

mod events;

mod failure;

mod form;

pub use body::Outgoing;
pub use connect::Duplex;
pub use events::{Events, LineTooLong};
pub use failure::{Failure, FailureKind};
pub use form::Form;

use connect::{Connector, Dialer};

/// Settings of a client.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The value of the header `user-agent`.
    pub user_agent: &'static str,
    /// The timeout of establishing a connection, name resolution and TLS included.
    pub connect_timeout: Duration,
    /// The time after which an unused connection is closed.
    pub idle_timeout: Duration,
    /// True if the proxies of the environment are used.
    pub proxied: bool,
    /// True if TLS is available. Without it the client skips reading the system's certificates, which is slow.
    pub encrypted: bool,
}

/// A client. Clones share their connections.
#[derive(Clone, Debug)]
pub struct HttpClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: legacy::Client<Connector, Outgoing>,
    connector: Connector,
    user_agent: HeaderValue,
    proxies: Option<Arc<Matcher>>,
}

impl HttpClient {
    /// Creates a client. Blocks while it reads the certificates of the system.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let proxies = settings.proxied.then(Matcher::from_system);
        Ok(Self::with(settings, connect::tls(settings.encrypted)?, proxies))
    }

    /// Creates a client with this TLS configuration and these proxies.
    fn with(settings: Settings, tls: ClientConfig, proxies: Option<Matcher>) -> Self {
        let (tls, proxies) = (Arc::new(tls), proxies.map(Arc::new));
        let user_agent = HeaderValue::from_static(settings.user_agent);
        let dialer = Dialer::new(Arc::clone(&tls), proxies.clone(), user_agent.clone(), settings.connect_timeout);
        let connector = Connector { dialer: HttpsConnector::from((dialer, tls)), within: settings.connect_timeout };
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(settings.idle_timeout)
            .build(connector.clone());
        Self(Arc::new(Inner { client, connector, user_agent, proxies }))
    }

    /// Opens a connection for another protocol, such as a WebSocket, outside of the pool: within the connect timeout,
    /// and with TLS for `https` and `wss`.
    ///
    /// # Errors
    /// There is no connection.
    pub async fn dial(&self, to: &Uri) -> Result<Box<dyn Duplex>, Failure> {
        connect::dial(self.0.connector.clone(), to).await
    }

    /// Sends a request and returns the response as soon as its head has arrived.
    ///
    /// # Errors
    /// There is no response.
    pub async fn send(&self, mut request: Request<Outgoing>) -> Result<Response, Failure> {
        if request.uri().scheme() == Some(&Scheme::HTTP)
            && let Some(proxy) = self.0.proxies.as_ref().and_then(|proxies| proxies.intercept(request.uri()))
            && let Some(authorization) = proxy.basic_auth()
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        // Some proxies refuse a post without a declared length.
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

/// A response whose body is still to be read. Dropping it before the end closes its connection.
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
