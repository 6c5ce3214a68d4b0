//! A page in front of the program (a reverse proxy): serves its own files and API, and forwards all else to the
//! program, which listens at another local address and may be restarting.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::api::connection_slots::Reach;
use crate::api::form::{Refuse, in_form};
use crate::api::guard::{Access, Link, Rejection};
use crate::api::hop::{asks_for_socket, end_to_end, join, of_a_socket};
use crate::api::ops::{Gate, guard, refused, with_safe_headers};
use crate::api::{Api, Limits, Site, bodies, dashboard};
use domain::api_key::Right;
use ports::Keys;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that the program may continue a response after the proxy closed the client's connection: longer than a turn
/// takes.
const REST_TIMEOUT: Duration = Duration::from_secs(45 * 60);
/// Maximum age of a WebSocket: longer than the program's own.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(2 * 60 * 60);
/// Paths that are served while all other places are busy.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// The header that marks the program as unavailable.
const AWAY: HeaderName = HeaderName::from_static("x-staffai-away");

/// The program behind the page.
#[derive(Debug, Clone)]
pub struct Behind {
    address: watch::Receiver<Option<SocketAddr>>,
    client: reqwest::Client,
}

impl Behind {
    /// Creates the client; `address` is the program's current one.
    ///
    /// # Errors
    /// The reason why the client cannot be built.
    pub fn new(address: watch::Receiver<Option<SocketAddr>>) -> Result<Self, String> {
        // Connections are not reused: one to a restarted program would fail late.
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        // Connections are local and never encrypted, and reading the system's certificates delays the start.
        let client = client.tls_certs_only([]);
        let client = client.pool_max_idle_per_host(0).connect_timeout(CONNECT_TIMEOUT).build();
        Ok(Self { address, client: client.map_err(|error| error.to_string())? })
    }

    async fn pass(
        &self,
        address: SocketAddr,
        link: Link,
        ended: CancellationToken,
        mut request: Request,
    ) -> Result<Response, reqwest::Error> {
        let client = asks_for_socket(request.headers()).then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut headers = end_to_end(&parts.headers);
        if !link.peer.is_loopback() || !link.own.is_loopback() {
            of_another_machine(&mut headers, link);
        }
        let asked = self.client.request(parts.method, format!("http://{address}{path}"));
        let asked = if client.is_some() {
            of_a_socket(&mut headers);
            asked.headers(headers)
        } else {
            asked.headers(headers).body(reqwest::Body::wrap_stream(body.into_data_stream()))
        };
        let answer = asked.send().await?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = answer.status();
        *response.headers_mut() = end_to_end(answer.headers());
        if let (Some(client), StatusCode::SWITCHING_PROTOCOLS) = (client, answer.status()) {
            of_a_socket(response.headers_mut());
            tokio::spawn(ended.run_until_cancelled_owned(upgraded(client, answer)));
            return Ok(response);
        }
        *response.body_mut() = Body::from_stream(Rest { left: Some(answer.bytes_stream().boxed()), ended });
        Ok(response)
    }
}

/// Joins a client and the program once both are upgraded.
async fn upgraded(client: OnUpgrade, program: reqwest::Response) {
    let passed = timeout(SOCKET_TIMEOUT, async {
        if let (Ok(client), Ok(program)) = tokio::join!(client, program.upgrade()) {
            join(TokioIo::new(client), program).await;
        }
    });
    let _ = passed.await;
}

/// A request to the program. It is cancelled when the client disconnects, but continues when this proxy closes the
/// client's connection.
struct ForwardedRequest {
    task: JoinHandle<Result<Result<Response, reqwest::Error>, Elapsed>>,
    /// Cancelled when this proxy closes the connection.
    ended: CancellationToken,
}

impl Drop for ForwardedRequest {
    fn drop(&mut self) {
        if !self.ended.is_cancelled() {
            self.task.abort();
        }
    }
}

/// The rest of a response, which ends by the same rules as [`ForwardedRequest`].
struct Rest {
    /// `None` after the end.
    left: Option<BoxStream<'static, reqwest::Result<Bytes>>>,
    ended: CancellationToken,
}

impl Stream for Rest {
    type Item = reqwest::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(left) = self.left.as_mut() else { return Poll::Ready(None) };
        let next = left.poll_next_unpin(context);
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.left = None;
        }
        next
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        if let Some(left) = self.left.take().filter(|_| self.ended.is_cancelled()) {
            let read = left.for_each(|_| std::future::ready(()));
            // During the shutdown of the runtime there is nothing to spawn on.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(async { timeout(REST_TIMEOUT, read).await });
            }
        }
    }
}

impl Api {
    /// Returns a listener for a page in front of the program, to which all other requests are forwarded.
    #[must_use]
    pub fn in_front(address: String, page: Router, refuse: Refuse, keys: Arc<dyn Keys>, behind: Behind) -> Self {
        let limits = Limits { answer: REST_TIMEOUT, ..Limits::default() };
        let whole = Site::new(address, "STAFFAI_HTTP_ADDR", router(page, refuse, keys, behind, limits));
        Self { limits, whole, health: None }
    }
}

/// Returns the routes: the page and the dashboard's files, for operators; all else is forwarded to the program, which
/// authorizes it.
fn router(page: Router, refuse: Refuse, keys: Arc<dyn Keys>, behind: Behind, limits: Limits) -> Router {
    let gate = Gate::for_staff(keys, Access::Needs(Right::Operate));
    page.merge(dashboard::router())
        .layer(from_fn_with_state(limits.body_within, bodies::within))
        .layer(DefaultBodyLimit::max(limits.body))
        .layer(from_fn_with_state(gate, guard))
        .layer(map_response(with_safe_headers))
        .fallback_service(any(answer).with_state(behind))
        .layer(from_fn_with_state(refuse, in_form))
}

async fn answer(
    State(behind): State<Behind>,
    axum::Extension(link): axum::Extension<Link>,
    ended: Option<axum::Extension<CancellationToken>>,
    request: Request,
) -> Response {
    if link.share == Reach::HealthOnly && !HEALTH.contains(&request.uri().path()) {
        return refused(Rejection::Busy, request.headers());
    }
    let address = *behind.address.borrow();
    let Some(address) = address else { return away("the bot is away; it is being started again") };
    let ended = ended.map(|axum::Extension(ended)| ended).unwrap_or_default();
    let lost = ended.clone();
    let mut asked = ForwardedRequest {
        task: tokio::spawn(async move { timeout(REST_TIMEOUT, behind.pass(address, link, lost, request)).await }),
        ended,
    };
    match (&mut asked.task).await {
        Ok(Ok(Ok(response))) => response,
        Ok(Ok(Err(_)) | Err(_)) | Err(_) => away("the bot does not answer; it may be on its way up again"),
    }
}

/// Responds that the program is unavailable; the header distinguishes this from the program's own responses.
fn away(why: &str) -> Response {
    (StatusCode::BAD_GATEWAY, [(AWAY, "yes")], why.to_owned()).into_response()
}

/// Marks requests from the network. To the program, every connection comes from this machine; the forwarded address
/// makes it require a key. `Host` was checked here if that matters.
fn of_another_machine(headers: &mut HeaderMap, link: Link) {
    let peer = HeaderValue::from_str(&link.peer.to_string()).unwrap_or(HeaderValue::from_static("unknown"));
    headers.insert(HeaderName::from_static("x-forwarded-for"), peer);
    if link.own.is_loopback() {
        return;
    }
    let host = headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    let own = host.map(|host| [b"http://", host.as_bytes()].concat());
    if own.is_some_and(|own| headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes() == own)) {
        headers.insert(header::ORIGIN, HeaderValue::from_static("http://localhost"));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::routing::{get, post};
    use tokio::sync::{Notify, mpsc};
    use tower::Service;

    use super::*;
    use crate::api::guard::tests::Ring;
    use domain::api_key::KeyRing;
    use ports::Listener;

    fn plain(_path: &str, status: StatusCode, why: &str) -> Response {
        (status, why.to_owned()).into_response()
    }

    async fn in_front(behind: watch::Receiver<Option<SocketAddr>>, keys: Ring) -> (String, CancellationToken) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let page = Router::new().route("/", get(async || "the page"));
        let api = Api::in_front("127.0.0.1:0".to_owned(), page, plain, Arc::new(keys), Behind::new(behind).unwrap());
        let (mut bound, stop) = (api.bound(), CancellationToken::new());
        let stopped = stop.clone();
        tokio::spawn(async move { api.serve(stopped).await });
        let address = bound.wait_for(Option::is_some).await.unwrap().unwrap();
        (format!("http://{address}"), stop)
    }

    #[test]
    fn who_asks_over_the_network_is_named_and_meant_for_this_machine() {
        let link = Link { peer: [10, 0, 0, 9].into(), own: [10, 0, 0, 1].into(), share: Reach::Whole };
        for (origin, passed) in
            [("http://10.0.0.1:8420", "http://localhost"), ("http://evil.example", "http://evil.example")]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("10.0.0.1:8420"));
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            of_another_machine(&mut headers, link);
            let of = |name: &str| headers[name].to_str().unwrap().to_owned();
            assert_eq!(
                (of("host"), of("origin"), of("x-forwarded-for")),
                ("localhost".to_owned(), passed.to_owned(), "10.0.0.9".to_owned())
            );
        }
    }

    /// Reports whether a response was completed or dropped.
    struct Made(bool, mpsc::UnboundedSender<bool>);

    impl Made {
        const fn is_whole(&mut self) {
            self.0 = true;
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    #[tokio::test]
    async fn a_client_that_goes_ends_its_request_and_a_connection_that_we_end_does_not() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (told, mut made) = mpsc::unbounded_channel();
        let (came, mut arrived) = mpsc::unbounded_channel();
        let go = Arc::new(Notify::new());
        let begun = {
            let go = Arc::clone(&go);
            move || {
                came.send(()).unwrap();
                (Made(false, told.clone()), Arc::clone(&go))
            }
        };
        let also = begun.clone();
        let waiting = async move || {
            let (mut made, go) = begun();
            go.notified().await;
            made.is_whole();
            "late"
        };
        let streaming = async move || {
            Body::from_stream(futures_util::stream::unfold((0, also()), |(step, (mut made, go))| async move {
                if step == 0 {
                    return Some((Ok::<_, Infallible>("begun"), (1, (made, go))));
                }
                go.notified().await;
                made.is_whole();
                None
            }))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_address, known) = watch::channel(Some(listener.local_addr().unwrap()));
        let program = Router::new().route("/waits", get(waiting)).route("/streams", get(streaming));
        tokio::spawn(async move { axum::serve(listener, program).await });
        let behind = Behind::new(known).unwrap();
        let routes = router(Router::new(), plain, Arc::new(Ring(KeyRing::default())), behind, Limits::default());
        let here = [127, 0, 0, 1].into();
        for (ours, path) in [(true, "/waits"), (true, "/streams"), (false, "/waits"), (false, "/streams")] {
            let ended = CancellationToken::new();
            let mut request = Request::get(path).body(Body::empty()).unwrap();
            request.extensions_mut().insert(Link { peer: here, own: here, share: Reach::Whole });
            request.extensions_mut().insert(ended.clone());
            let mut routes = routes.clone();
            let asking = tokio::spawn(async move {
                let answered: Result<Response, Infallible> = routes.call(request).await;
                let _held = answered;
                std::future::pending::<()>().await;
            });
            arrived.recv().await.unwrap();
            if ours {
                ended.cancel();
            }
            asking.abort();
            let _ = asking.await;
            if ours {
                go.notify_one();
            }
            let end = timeout(Duration::from_secs(20), made.recv()).await.expect("in time");
            assert_eq!(end, Some(ours), "{path}");
        }
    }

    #[tokio::test]
    async fn a_websocket_is_passed_on_until_the_program_or_the_page_ends() {
        use axum::extract::ws::{Message as Frame, WebSocketUpgrade};
        use futures_util::SinkExt;
        use tokio_tungstenite::tungstenite::{Error, Message};

        let program = async |headers: HeaderMap, upgrade: WebSocketUpgrade| {
            if headers.get("authorization").is_none() {
                return StatusCode::UNAUTHORIZED.into_response();
            }
            upgrade.on_upgrade(async |mut socket| {
                while let Some(Ok(frame)) = socket.next().await {
                    if matches!(frame, Frame::Text(_)) && socket.send(frame).await.is_err() {
                        return;
                    }
                }
            })
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_address, known) = watch::channel(Some(listener.local_addr().unwrap()));
        let program = Router::new().route("/v1/responses", get(program));
        tokio::spawn(async move { axum::serve(listener, program).await });
        let (url, stop) = in_front(known, Ring(KeyRing::default())).await;
        let url = format!("{}/v1/responses", url.replace("http://", "ws://"));
        let open = async |key: Option<&str>| {
            let mut request =
                tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(&url).unwrap();
            if let Some(key) = key {
                request.headers_mut().insert("authorization", key.parse().unwrap());
            }
            tokio_tungstenite::connect_async(request).await
        };
        let Err(Error::Http(refused)) = open(None).await else { panic!("the program's refusal arrives") };
        assert_eq!(refused.status(), 401);
        let within = Duration::from_secs(20);
        let (mut socket, _) = open(Some("Bearer a")).await.unwrap();
        for text in ["one", "two"] {
            socket.send(Message::text(text)).await.unwrap();
            assert_eq!(timeout(within, socket.next()).await.unwrap().unwrap().unwrap(), Message::text(text));
        }
        // The program answers the client's close.
        socket.close(None).await.unwrap();
        assert!(matches!(timeout(within, socket.next()).await.unwrap(), Some(Ok(Message::Close(_)))));
        let (mut socket, _) = open(Some("Bearer a")).await.unwrap();
        stop.cancel();
        let end = timeout(within, socket.next()).await.expect("the page ends its sockets");
        assert!(matches!(end, None | Some(Err(_))), "{end:?}");
    }

    #[tokio::test]
    async fn what_is_not_the_pages_is_asked_of_the_program_while_it_is_there() {
        let echo = async |headers: HeaderMap, body: String| {
            let told = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned();
            (StatusCode::CREATED, [("x-seen", told("x-sent"))], format!("{body} {}", told("x-forwarded-for")))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, known) = watch::channel(Some(listener.local_addr().unwrap()));
        let program = Router::new().route("/v1/echo", post(echo));
        let serving = tokio::spawn(async move { axum::serve(listener, program).await });
        let (url, stop) = in_front(known, Ring(KeyRing::default())).await;
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let ask = || client.post(format!("{url}/v1/echo?x=1")).header("x-sent", "a").body("word").send();

        assert_eq!(client.get(format!("{url}/")).send().await.unwrap().text().await.unwrap(), "the page");
        let answer = ask().await.unwrap();
        assert_eq!(
            (answer.status(), &answer.headers()["x-seen"]),
            (StatusCode::CREATED, &HeaderValue::from_static("a"))
        );
        assert_eq!(answer.text().await.unwrap(), "word -", "who asks on this machine is not forwarded");
        serving.abort();
        let _ = serving.await;
        assert_eq!(ask().await.unwrap().status(), StatusCode::BAD_GATEWAY);
        address.send_replace(None);
        let away = ask().await.unwrap();
        assert_eq!(away.status(), StatusCode::BAD_GATEWAY);
        assert!(away.text().await.unwrap().contains("started again"));
        assert_eq!(client.get(format!("{url}/")).send().await.unwrap().status(), StatusCode::OK, "the page stays");
        stop.cancel();
    }
}
