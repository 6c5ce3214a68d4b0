//! Accepts connections, bounded in number and age, and drains them at shutdown.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::HeaderName;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::api::Limits;
use crate::api::bodies::{CameBody, SentBody};
use crate::api::connection_slots::{ConnectionSlot, ConnectionSlots, Reach};
use crate::api::cuttable::Cuttable;
use crate::api::grants::Cut;
use crate::api::guard::Link;
use crate::api::membership::{self, Membership, Origin};
use domain::proxies::Proxies;
use telemetry::events::API_REFUSED;

/// The header in which proxies name the client's address.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Maximum size of a request's head, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Timeout of a request's head in a reserved place.
const RESERVED_HEADER: Duration = Duration::from_secs(2);

/// Pause after a failed accept: the usual cause is exhausted file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The senders whose word about the client of a request is believed.
#[derive(Debug, Clone, Default)]
pub struct Senders {
    /// Reverse proxies.
    pub proxies: Arc<Proxies>,
    /// The processes of the cluster.
    pub membership: Option<Arc<Membership>>,
}

/// Serves until stopped, then until responses in progress have finished, within the grace period. `closed` receives the
/// socket when the service stops.
pub async fn serve(
    listener: TcpListener,
    router: &Router,
    limits: Limits,
    senders: &Senders,
    stop: &CancellationToken,
    closed: impl FnOnce(TcpListener),
) {
    let mut open = JoinSet::new();
    let places = ConnectionSlots::new(limits.capacity, Arc::clone(&senders.proxies));
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            // A panic in a connection was logged when it happened.
            Some(_) = open.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Without a place the socket is closed at once, so that its client gets an error.
                    if let Some(place) = places.take(peer.ip()) {
                        let membership = senders.membership.clone();
                        open.spawn(connection(stream, (place, membership), router.clone(), limits, stop.clone()));
                    }
                }
                Err(error) => {
                    tracing::warn!(event = API_REFUSED, %error, "cannot take a connection");
                    stop.run_until_cancelled(sleep(ACCEPT_PAUSE)).await;
                }
            },
        }
    }
    closed(listener);
    // Each connection ends by itself within the grace period; the factor covers scheduling delays.
    let _ = timeout(limits.grace * 2, async { while open.join_next().await.is_some() {} }).await;
}

async fn connection(
    stream: TcpStream,
    (place, membership): (ConnectionSlot, Option<Arc<Membership>>),
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let (Ok(peer), Ok(own)) = (stream.peer_addr(), stream.local_addr()) else { return };
    let link = Link { peer: peer.ip().to_canonical(), own: own.ip().to_canonical(), share: place.share };
    // A failure is reported by the next write; this option only lowers the latency of small responses.
    let _ = stream.set_nodelay(true);
    let (gives_way, reserved) = (place.gives_way.clone(), place.share == Reach::HealthOnly);
    // Cancelled when this side ends the connection for any reason, but not when the client does.
    let ended = stop.child_token();
    let ending = ended.clone();
    let place = Arc::new(place);
    let stream = Cuttable::new(stream);
    let cut = Cut(stream.cut());
    let service = service_fn(move |mut request: Request<Incoming>| {
        let origin = membership::take(membership.as_deref(), &mut request);
        request.extensions_mut().insert(link);
        request.extensions_mut().insert(cut.clone());
        // Endless responses end when this token is cancelled, so that they do not delay the shutdown.
        request.extensions_mut().insert(ending.clone());
        answer(request, origin, router.clone(), Arc::clone(&place))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(if reserved { limits.header.min(RESERVED_HEADER) } else { limits.header })
        .keep_alive(!reserved)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut served = pin!(served);
    // A request in progress when the connection reaches its maximum age may finish.
    for wait in [limits.life, limits.answer] {
        tokio::select! {
            // Clients may close at any time; that is not an error.
            _ = served.as_mut() => return,
            () = gives_way.cancelled() => {
                ended.cancel();
                return;
            }
            () = stop.cancelled() => break,
            () = sleep(wait) => served.as_mut().graceful_shutdown(),
        }
    }
    ended.cancel();
    served.as_mut().graceful_shutdown();
    let _ = timeout(limits.grace, served).await;
}

/// Serves one request, for its origin if another process passed it on; the connection is busy until the response is
/// sent.
async fn answer(
    mut request: Request<Incoming>,
    origin: Option<Origin>,
    mut router: Router,
    place: Arc<ConnectionSlot>,
) -> Result<Response, Infallible> {
    let link = request.extensions().get::<Link>().copied();
    let lines = request.headers().get_all(FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok());
    let client = match origin {
        Some(origin) => {
            place.mark_member();
            Some(origin.client)
        }
        None => link.map(|link| place.client(link.peer, lines)),
    };
    let busy = client.and_then(|client| place.begin(client));
    if let (Some(link), Some(client)) = (request.extensions_mut().get_mut::<Link>(), client) {
        link.peer = client;
        link.own = origin.map_or(link.own, |origin| origin.own);
        // A connection that has just lost its place is refused like one without a place.
        if busy.is_none() {
            link.share = Reach::HealthOnly;
        }
    }
    request.extensions_mut().insert(place);
    let request = request.map(|body| CameBody::new(body, busy.as_ref()));
    let response = router.call(request).await?;
    Ok(response.map(|body| Body::new(SentBody::new(body, busy))))
}

#[cfg(test)]
mod tests {
    use std::future;

    use axum::Extension;
    use axum::routing::get;
    use futures_util::{StreamExt, stream};
    use tokio::sync::mpsc;

    use super::*;

    /// Reports, when a response is dropped, whether the service ended it.
    struct Ended(CancellationToken, mpsc::UnboundedSender<bool>);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.is_cancelled());
        }
    }

    #[tokio::test]
    async fn a_connection_that_we_end_says_so_and_one_that_its_client_ends_does_not() {
        let long = Duration::from_secs(600);
        for (life, we_end) in [(Duration::from_millis(20), true), (long, false)] {
            let (tell, mut told) = mpsc::unbounded_channel();
            let held = async move |Extension(ended): Extension<CancellationToken>| {
                let ended = Ended(ended, tell);
                let first = stream::once(future::ready(Ok::<_, Infallible>("x")));
                Body::from_stream(first.chain(stream::pending()).inspect(move |_| assert!(!ended.0.is_cancelled())))
            };
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let limits = Limits { life, answer: life, grace: Duration::from_millis(20), ..Limits::default() };
            let (stop, router) = (CancellationToken::new(), Router::new().route("/", get(held)));
            let stopped = stop.clone();
            let serving =
                tokio::spawn(
                    async move { serve(listener, &router, limits, &Senders::default(), &stopped, drop).await },
                );
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let mut answer = client.get(format!("http://{address}/")).send().await.unwrap();
            assert_eq!(answer.chunk().await.unwrap().as_deref(), Some(&b"x"[..]));
            if we_end {
                while let Ok(Some(_)) = answer.chunk().await {}
            } else {
                drop(answer);
            }
            let told = timeout(Duration::from_secs(10), told.recv()).await.expect("the answer ends");
            assert_eq!(told, Some(we_end));
            stop.cancel();
            serving.await.unwrap();
        }
    }
}
