//! Connections to a service, directly or through a proxy, in plain text or with TLS.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::header::{HeaderMap, HeaderValue, USER_AGENT};
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::Service;

use super::failure::{ConnectTimeout, Failure, FailureKind};

/// The interval of TCP keep-alive probes on an idle connection, and the delay before the first.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The number of unanswered probes after which a connection is closed.
const KEEP_ALIVE_RETRIES: u32 = 3;
/// The time that written data may stay unacknowledged before the connection is closed.
const SILENCE: Duration = Duration::from_secs(30);

type BoxError = Box<dyn Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// An open connection in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Opens a connection that no pool keeps. A WebSocket's scheme stands for that of HTTP.
pub(super) async fn dial(mut connector: Connector, to: &Uri) -> Result<Box<dyn Duplex>, Failure> {
    let failed = |cause: String| Failure { kind: FailureKind::Connect, cause };
    let mut parts = to.clone().into_parts();
    parts.scheme = match to.scheme_str() {
        Some("wss") => Some(Scheme::HTTPS),
        Some("ws") => Some(Scheme::HTTP),
        _ => parts.scheme,
    };
    let to = Uri::from_parts(parts).map_err(|error| failed(error.to_string()))?;
    poll_fn(|context| connector.poll_ready(context)).await.map_err(|error| failed(error.to_string()))?;
    let stream = connector.call(to).await.map_err(|error| failed(Failure::of(&*error).cause))?;
    Ok(Box::new(TokioIo::new(stream)))
}

/// The TLS configuration.
///
/// # Errors
/// No provider is installed, or the system has no root certificates.
pub(super) fn tls(encrypted: bool) -> Result<ClientConfig, String> {
    let provider = CryptoProvider::get_default().ok_or("no TLS provider is installed in this process")?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = if encrypted {
        let verifier = Verifier::new(Arc::clone(provider)).map_err(|error| error.to_string())?;
        builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Opens connections within a timeout.
#[derive(Clone)]
pub(super) struct Connector {
    pub dialer: HttpsConnector<Dialer>,
    pub within: Duration,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<Transport>;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.dialer.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (connecting, within) = (self.dialer.call(to), self.within);
        Box::pin(async move { timeout(within, connecting).await.map_err(|_| ConnectTimeout)? })
    }
}

/// Opens the transport of a connection: a socket to the service or to its proxy, with a tunnel through the proxy if
/// the connection is encrypted.
#[derive(Clone)]
pub(super) struct Dialer {
    tcp: HttpConnector,
    proxies: Option<Arc<Matcher>>,
    /// The TLS configuration for proxies.
    tls: Arc<ClientConfig>,
    user_agent: HeaderValue,
}

impl Dialer {
    /// `within` is divided among the addresses of a name, so that an unresponsive address leaves time for the next.
    pub fn new(
        tls: Arc<ClientConfig>,
        proxies: Option<Arc<Matcher>>,
        user_agent: HeaderValue,
        within: Duration,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(within));
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        tcp.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(SILENCE));
        Self { tcp, proxies, tls, user_agent }
    }

    fn through(&self, proxy: &Intercept, to: Uri) -> Connecting<Transport> {
        let mut dial = HttpsConnector::from((self.tcp.clone(), Arc::clone(&self.tls)));
        if to.scheme() != Some(&Scheme::HTTPS) {
            let dialling = dial.call(proxy.uri().clone());
            return Box::pin(async move { Ok(Transport { io: dialling.await?, proxied: true }) });
        }
        let headers = HeaderMap::from_iter([(USER_AGENT, self.user_agent.clone())]);
        let mut tunnel = Tunnel::new(proxy.uri().clone(), dial).with_headers(headers);
        if let Some(authorization) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let dialling = tunnel.call(to);
        Box::pin(async move { Ok(Transport { io: dialling.await?, proxied: false }) })
    }
}

impl Service<Uri> for Dialer {
    type Response = Transport;
    type Error = BoxError;
    type Future = Connecting<Transport>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        if let Some(proxy) = self.proxies.as_ref().and_then(|proxies| proxies.intercept(&to)) {
            return self.through(&proxy, to);
        }
        let dialling = self.tcp.call(to);
        Box::pin(async move { Ok(Transport { io: MaybeHttpsStream::Http(dialling.await?), proxied: false }) })
    }
}

/// The transport of a connection.
pub(super) struct Transport {
    io: MaybeHttpsStream<TokioIo<TcpStream>>,
    /// True if a proxy reads the requests; they then name the service.
    proxied: bool,
}

impl Connection for Transport {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.proxied)
    }
}

impl Read for Transport {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, into)
    }
}

impl Write for Transport {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }
}
