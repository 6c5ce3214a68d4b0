//! Passes the requests of a process that stands by on to the active one (a reverse proxy), so that clients may use any
//! process.
//!
//! - Bodies and sockets pass in pieces: each side is read only as fast as the other one reads, and a request holds at
//!   most [`BUFFER`] bytes in each direction.
//! - The active process treats the request as one of the client: see [`super::membership`].
//! - A request is passed on once: a process that stands by refuses one that another process passed on.
//! - A request opens its own connection, so none fails because an idle connection belonged to an earlier process.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::response::Response;
use axum::routing::any;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use metrics::counter;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower::Service;

use crate::api::Limits;
use crate::api::connection_slots::{Reach, network};
use crate::api::form::Refuse;
use crate::api::guard::Link;
use crate::api::hop::{asks_for_socket, end_to_end, join, of_a_socket};
use crate::api::membership::{Marked, Membership, Origin, PASSED_ON};
use crate::api::read_to_the_end::ReadToTheEnd;
use crate::client_socket::LIFE;
use telemetry::metrics::FORWARDED_REQUESTS_TOTAL;

/// Timeout of resolving the address of the active process and connecting to it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time without a sign of life after which the machine of the active process is probed, and the interval of the probes.
const PROBE_AFTER: Duration = Duration::from_secs(10);
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// The number of unanswered probes after which the connection is broken.
const PROBES: u32 = 3;
/// Maximum buffered bytes of a request, and of its response.
const BUFFER: usize = 64 * 1024;
/// Maximum age of a WebSocket: longer than that of the active process.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(LIFE.as_secs() + 60);
/// `Retry-After` of a request that was not passed on, in seconds.
const AGAIN: HeaderValue = HeaderValue::from_static("1");
/// The header that names the client of a forwarded request. A request with it is never one of the active machine.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Passes requests on to the active process.
#[derive(Clone)]
pub struct Forwarder {
    /// The address of the active process, as `host:port`; `None` while none is known.
    active: watch::Receiver<Option<String>>,
    membership: Arc<Membership>,
    slots: Arc<Semaphore>,
    clients: Clients,
    connector: HttpConnector,
    /// Timeout of the head of a response, and of each silence of the active process afterwards.
    silence: Duration,
    refuse: Refuse,
}

/// The reason why a request has no response from the active process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// All slots are taken.
    Busy,
    /// Another process passed the request on.
    Loop,
    /// The request asks for a tunnel.
    Tunnel,
    /// No process is known to be active.
    NoneActive,
    /// The active process cannot be reached. It has not received the request.
    Unreachable,
    /// The connection broke after the request was sent.
    Broken,
    /// The active process did not answer within the timeout.
    Late,
}

impl Failure {
    /// Returns the status, and the action to take.
    const fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "all connections are busy; try again in a moment"),
            Self::Loop => (
                StatusCode::SERVICE_UNAVAILABLE,
                "another process passed this request on, and this one does not answer it; try again in a moment",
            ),
            Self::Tunnel => (StatusCode::METHOD_NOT_ALLOWED, "this service opens no tunnels"),
            Self::NoneActive => (
                StatusCode::SERVICE_UNAVAILABLE,
                "another process answers requests, and none is known; try again in a moment",
            ),
            Self::Unreachable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "another process answers requests, and it cannot be reached; try again in a moment",
            ),
            Self::Broken => (StatusCode::BAD_GATEWAY, "the active process ended before it answered"),
            Self::Late => (StatusCode::GATEWAY_TIMEOUT, "the active process did not answer in time"),
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Busy | Self::Loop | Self::Tunnel => "refused",
            Self::NoneActive | Self::Unreachable => "unreachable",
            Self::Broken | Self::Late => "broken",
        }
    }
}

impl Forwarder {
    /// Creates the proxy. `active` holds the address of the active process as `host:port`. As many requests and sockets
    /// pass at once as a listener has connections, and of one client as it has of one peer.
    #[must_use]
    pub fn new(
        active: watch::Receiver<Option<String>>,
        membership: Arc<Membership>,
        limits: Limits,
        refuse: Refuse,
    ) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(PROBE_AFTER));
        connector.set_keepalive_interval(Some(PROBE_EVERY));
        connector.set_keepalive_retries(Some(PROBES));
        let slots = Arc::new(Semaphore::new(limits.capacity.connections));
        let clients = Clients { most: limits.capacity.per_peer, passing: Arc::default() };
        Self { active, membership, slots, clients, connector, silence: limits.answer, refuse }
    }

    /// Returns the route for all paths.
    pub(super) fn router(self) -> Router {
        Router::new().fallback_service(any(forward).with_state(self))
    }

    /// Passes a request on. Returns the response of the active process, or a refusal.
    pub(super) async fn answer(&self, link: Link, ended: CancellationToken, request: Request) -> Response {
        let path = request.uri().path().to_owned();
        let passed = self.pass(link, ended, request).await;
        let label = passed.as_ref().map_or_else(|failure| failure.label(), |_| "answered");
        counter!(FORWARDED_REQUESTS_TOTAL, "outcome" => label).increment(1);
        passed.unwrap_or_else(|failure| {
            let (status, why) = failure.answer();
            let mut response = (self.refuse)(&path, status, why);
            if status == StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().insert(header::RETRY_AFTER, AGAIN);
            }
            response
        })
    }

    /// Sends a request to the active process. Returns its response, whose body or socket passes later.
    async fn pass(&self, link: Link, ended: CancellationToken, mut request: Request) -> Result<Response, Failure> {
        if request.extensions().get::<Marked>().is_some() {
            return Err(Failure::Loop);
        }
        if link.share == Reach::HealthOnly {
            return Err(Failure::Busy);
        }
        if request.method() == Method::CONNECT {
            return Err(Failure::Tunnel);
        }
        let client = self.clients.enter(link.peer).ok_or(Failure::Busy)?;
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| Failure::Busy)?;
        let address = self.active.borrow().clone().ok_or(Failure::NoneActive)?;
        let origin = Origin { client: link.peer, own: link.own };
        let mark = self.membership.mark(origin, request.method(), request.uri()).ok_or(Failure::NoneActive)?;
        let (mut sender, connection) = self.connect(&address).await?;
        let upgrade = asks_for_socket(request.headers()).then(|| hyper::upgrade::on(&mut request));
        let request = onward(request, link, mark, upgrade.is_some());
        let response = timeout(self.silence, sender.send_request(request)).await;
        let response = response.map_err(|_| Failure::Late)?.map_err(|_| Failure::Broken)?;
        let held = Held { _connection: connection, _slot: slot, _client: client };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let silence = self.silence;
            return Ok(back(response).map(|body| Body::new(PassedBody { body, silence, timer: None, _held: held })));
        }
        upgrade.map(|upgrade| upgraded(response, upgrade, held, ended)).ok_or(Failure::Broken)
    }

    /// Opens a connection, which ends when its handle is dropped.
    async fn connect(&self, address: &str) -> Result<(SendRequest<Body>, AbortOnDropHandle<()>), Failure> {
        let target = format!("http://{address}/").parse::<Uri>().map_err(|_| Failure::Unreachable)?;
        let socket = timeout(CONNECT_TIMEOUT, self.connector.clone().call(target)).await;
        let socket = socket.map_err(|_| Failure::Unreachable)?.map_err(|_| Failure::Unreachable)?;
        let opened = http1::Builder::new()
            .max_buf_size(BUFFER)
            .handshake(TokioIo::new(ReadToTheEnd::new(socket.into_inner())))
            .await;
        let (sender, connection) = opened.map_err(|_| Failure::Unreachable)?;
        let running = tokio::spawn(async move {
            // The request or the body reports a failure.
            let _ = connection.with_upgrades().await;
        });
        Ok((sender, AbortOnDropHandle::new(running)))
    }
}

async fn forward(
    State(forwarder): State<Forwarder>,
    axum::Extension(link): axum::Extension<Link>,
    ended: Option<axum::Extension<CancellationToken>>,
    request: Request,
) -> Response {
    forwarder.answer(link, ended.map(|axum::Extension(ended)| ended).unwrap_or_default(), request).await
}

/// Returns the request for the active process.
fn onward(request: Request, link: Link, mark: HeaderValue, is_socket: bool) -> Request {
    let (mut parts, body) = request.into_parts();
    let mut headers = end_to_end(&parts.headers);
    // The earlier entries were read here: the client is the one behind the trusted proxies of this process.
    headers.remove(header::FORWARDED);
    let client = HeaderValue::from_str(&link.peer.to_string()).unwrap_or(HeaderValue::from_static("unknown"));
    headers.insert(FORWARDED_FOR, client);
    headers.insert(PASSED_ON, mark);
    if is_socket {
        of_a_socket(&mut headers);
    }
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    parts.uri = target.parse().unwrap_or_default();
    (parts.version, parts.headers) = (Version::HTTP_11, headers);
    // Extensions belong to the connection of the client.
    parts.extensions = Extensions::new();
    Request::from_parts(parts, if is_socket { Body::empty() } else { body })
}

/// Returns the response for the client.
fn back(response: axum::http::Response<Incoming>) -> axum::http::Response<Incoming> {
    let (mut parts, body) = response.into_parts();
    (parts.version, parts.headers) = (Version::HTTP_11, end_to_end(&parts.headers));
    parts.extensions = Extensions::new();
    axum::http::Response::from_parts(parts, body)
}

/// Returns the response to a WebSocket handshake, and joins the two connections once it is sent.
fn upgraded(
    mut response: axum::http::Response<Incoming>,
    client: OnUpgrade,
    held: Held,
    ended: CancellationToken,
) -> Response {
    let active = hyper::upgrade::on(&mut response);
    let joined = async move {
        if let Ok((Ok(client), Ok(active))) = timeout(CONNECT_TIMEOUT, async { tokio::join!(client, active) }).await {
            let _ = timeout(SOCKET_TIMEOUT, join(TokioIo::new(client), TokioIo::new(active))).await;
        }
        drop(held);
    };
    tokio::spawn(ended.run_until_cancelled_owned(joined));
    let mut response = back(response).map(|_| Body::empty());
    of_a_socket(response.headers_mut());
    response
}

/// The resources of a request that passes.
struct Held {
    _connection: AbortOnDropHandle<()>,
    _slot: OwnedSemaphorePermit,
    _client: Passing,
}

/// The numbers of requests and sockets that pass, by client. Their sum is bounded by the slots.
#[derive(Clone)]
struct Clients {
    /// The most of one client, as at a listener.
    most: usize,
    passing: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Clients {
    /// Counts a request of this client. Returns `None` if it has as many as one client may have.
    fn enter(&self, client: IpAddr) -> Option<Passing> {
        let client = network(client);
        let mut passing = self.passing.lock();
        let count = passing.entry(client).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Passing { client, of: Arc::clone(&self.passing) })
    }
}

/// A counted request or socket. It no longer counts when dropped.
struct Passing {
    client: IpAddr,
    of: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for Passing {
    fn drop(&mut self) {
        let mut passing = self.of.lock();
        let count = passing.get_mut(&self.client).map(|count| {
            *count -= 1;
            *count
        });
        if count == Some(0) {
            passing.remove(&self.client);
        }
    }
}

/// The body of a response. It fails if the connection breaks, or if the active process is silent for too long.
struct PassedBody {
    body: Incoming,
    silence: Duration,
    /// The end of the present silence.
    timer: Option<Pin<Box<Sleep>>>,
    _held: Held,
}

impl HttpBody for PassedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        let silence = self.silence;
        ready!(self.timer.get_or_insert_with(|| Box::pin(sleep(silence))).as_mut().poll(cx));
        Poll::Ready(Some(Err(axum::Error::new("the active process is silent"))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
