//! Two processes: one stands by and passes requests on to the other one.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::HeaderMap;
use futures_util::stream;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::*;
use crate::api::forwarding::Forwarder;
use crate::api::membership::Origin;

const KEY: &str = "long-enough-key";
/// The header of the mark.
const MARK: &str = "x-staffai-passed-on";

/// The processes of one cluster. The client is that of the process that stands by.
struct Cluster {
    standby: Served,
    active: Served,
    address: watch::Sender<Option<String>>,
}

fn member(secret: &str) -> Arc<Membership> {
    let membership = Arc::new(Membership::default());
    membership.learn(secret);
    membership
}

/// Starts a process that stands by, and believes proxies at this address.
async fn standing_by(
    secret: &str,
    active: watch::Receiver<Option<String>>,
    limits: Limits,
    proxy: Option<&str>,
) -> Served {
    let known = Arc::new(Known { status: Mutex::new(Status::Standby), alive: Mutex::new(true) });
    let membership = member(secret);
    let options = ApiOptions {
        elsewhere: None,
        signed: Router::new(),
        routes: Router::new(),
        exposure: Exposure {
            address: "127.0.0.1:0".to_owned(),
            trusted_proxies: proxy.into_iter().map(|proxy| proxy.parse().unwrap()).collect(),
            membership: Some(Arc::clone(&membership)),
            ..Exposure::default()
        },
        keys: Arc::new(Ring(KeyRing::default())),
        programs: Router::new(),
        refuse,
        vitals: known.clone(),
        metrics: Arc::new(|| "staffai_active 0\n".to_owned()),
        page: None,
        limits,
    };
    let forwarder = Forwarder::new(active, membership, limits, refuse);
    Served::serve(Api::health_alone(&options, "it stands by", Some(forwarder)), known).await
}

impl Cluster {
    async fn new(keys: &[&str], page: Router) -> Self {
        Self::with(keys, page, Limits::default(), Limits::default(), None).await
    }

    async fn with(keys: &[&str], page: Router, active: Limits, standby: Limits, proxy: Option<&str>) -> Self {
        let keys: Arc<dyn Keys> = Arc::new(Ring(KeyRing::of_secrets(keys.iter().copied())));
        let senders = Senders { membership: Some(member("of the cluster")), ..Senders::default() };
        let active = Served::behind(senders, (keys, Some(page), active)).await;
        let (address, known) = watch::channel(Some(active.address.to_string()));
        let standby = standing_by("of the cluster", known, standby, proxy).await;
        Self { standby, active, address }
    }

    async fn status(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.standby.get(path, headers).await.0.as_u16()
    }
}

fn bearer() -> (&'static str, &'static str) {
    ("authorization", "Bearer long-enough-key")
}

/// A page that returns the client, the address that the client connected to, and headers.
fn page() -> Router {
    let told = async |link: axum::Extension<super::super::guard::Link>, headers: HeaderMap| {
        let of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned();
        let names = ["host", "x-sent", "x-forwarded-for", "forwarded", MARK, "connection", "x-hop"];
        json!({"peer": link.peer, "own": link.own, "headers": names.map(of)}).to_string()
    };
    let echo = async |body: Bytes| (StatusCode::CREATED, [("x-answer", "a")], body);
    Router::new().route("/told", get(told)).route("/echo", post(echo))
}

#[tokio::test]
async fn requests_are_passed_on_and_health_is_that_of_the_process_itself() {
    let cluster = Cluster::new(&[KEY], page()).await;
    let standby = &cluster.standby;
    let body = "x".repeat(60_000);
    let request = standby.client.post(format!("{}/echo?a=%20b", standby.url)).bearer_auth(KEY).body(body.clone());
    let answer = request.send().await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["x-answer"]), (201, &"a".parse().unwrap()));
    assert_eq!(answer.headers()["server"], SERVER_NAME);
    assert_eq!(answer.text().await.unwrap(), body);
    let (status, text) = standby.get("/v1/nothing", &[bearer()]).await;
    assert_eq!((status.as_u16(), text.starts_with("/v1/nothing: ")), (404, true), "{text}");
    assert_eq!(
        standby.client.head(format!("{}/told", standby.url)).bearer_auth(KEY).send().await.unwrap().status(),
        200
    );

    assert!(standby.get("/readyz", &[]).await.1.contains("\"standby\""));
    assert_eq!(standby.get("/metrics", &[]).await.1, "staffai_active 0\n");
    assert_eq!(cluster.status("/healthz", &[]).await, 200);
    // Each refusal for want of an active process says when to ask again.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for address in [None, Some(gone.to_string()), Some("no address".to_owned())] {
        cluster.address.send_replace(address.clone());
        let answer = standby.client.get(format!("{}/told", standby.url)).bearer_auth(KEY).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        assert!(answer.text().await.unwrap().starts_with("/told: another process answers requests"), "{address:?}");
        assert_eq!(cluster.status("/healthz", &[]).await, 200);
    }
    cluster.address.send_replace(Some(cluster.active.address.to_string()));
    assert_eq!(cluster.status("/told", &[bearer()]).await, 200);
}

#[tokio::test]
async fn the_active_process_sees_the_client_and_no_header_of_the_passage() {
    let cluster = Cluster::with(&[KEY], page(), Limits::default(), Limits::default(), Some("127.0.0.1")).await;
    let headers = [
        bearer(),
        ("host", "staffai.example"),
        ("x-sent", "a"),
        ("forwarded", "for=10.9.9.9"),
        ("x-forwarded-for", "198.51.100.1, 203.0.113.7"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
    ];
    let (status, told) = cluster.standby.get("/told", &headers).await;
    assert_eq!(status.as_u16(), 200, "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["peer"], &told["own"]), (&json!("203.0.113.7"), &json!("127.0.0.1")));
    assert_eq!(told["headers"], json!(["staffai.example", "a", "203.0.113.7", "-", "-", "-", "-"]));
}

#[tokio::test]
async fn the_rules_of_access_hold_for_a_client_of_a_process_that_stands_by() {
    let cluster = Cluster::new(&[KEY], page()).await;
    assert_eq!(cluster.status("/told", &[]).await, 401);
    assert_eq!(cluster.status("/told", &[("authorization", "Bearer long-enough-kex")]).await, 401);
    assert_eq!(cluster.status("/told", &[("host", "evil.example")]).await, 421, "the client connects to loopback");
    assert_eq!(cluster.status("/told", &[("host", "localhost"), ("origin", "https://evil.example")]).await, 403);
    for image in &IMAGES {
        assert_eq!(cluster.status("/v1/who", image).await, 403);
    }
    assert_eq!(cluster.status("/api/v1/tree", &[bearer()]).await, 200);

    // Without keys, only direct clients of the active process's machine have access.
    let open = Cluster::new(&[], page()).await;
    assert_eq!(open.active.get("/told", &[]).await.0.as_u16(), 200);
    assert_eq!(open.status("/told", &[]).await, 403);
}

#[tokio::test]
async fn a_mark_of_a_stranger_changes_nothing_and_no_request_is_passed_on_twice() {
    let cluster = Cluster::new(&[KEY], page()).await;
    let mark = |secret: &str, client: [u8; 4]| {
        let origin = Origin { client: client.into(), own: [10, 0, 0, 2].into() };
        let mark = member(secret).mark(origin, &axum::http::Method::GET, &"/told".parse().unwrap()).unwrap();
        mark.to_str().unwrap().to_owned()
    };
    let passed = async |mark: &str| {
        let (status, told) = cluster.active.get("/told", &[bearer(), (MARK, mark)]).await;
        assert_eq!(status.as_u16(), 200, "{told}");
        serde_json::from_str::<Value>(&told).unwrap()["peer"].clone()
    };
    assert_eq!(passed(&mark("of the cluster", [203, 0, 113, 7])).await, "203.0.113.7");
    assert_eq!(passed(&mark("guessed", [203, 0, 113, 7])).await, "127.0.0.1");
    assert_eq!(passed("203.0.113.7 127.0.0.1 v1=00").await, "127.0.0.1");
    // A mark opens nothing: the key is required as ever.
    let marked = (MARK, &*mark("of the cluster", [127, 0, 0, 1]));
    assert_eq!(cluster.active.get("/told", &[marked]).await.0.as_u16(), 401);

    // Two processes that stand by, each with the other one as the active one.
    let (to_second, second) = watch::channel(None);
    let (to_first, first) = watch::channel(None);
    let one = standing_by("of the cluster", second, Limits::default(), None).await;
    let two = standing_by("another", first, Limits::default(), None).await;
    to_second.send_replace(Some(two.address.to_string()));
    to_first.send_replace(Some(one.address.to_string()));
    let (status, text) = one.get("/told", &[bearer()]).await;
    assert_eq!((status.as_u16(), text.contains("another process passed this request on")), (503, true), "{text}");
    assert_eq!(cluster.status("/told", &[bearer(), (MARK, "forged")]).await, 503);
}

#[tokio::test]
async fn each_client_behind_a_process_has_its_own_share_of_the_active_one() {
    let (page, _release) = busy_page();
    let page = page.route("/quick", get(async || "done"));
    let few = Limits { capacity: Capacity { connections: 8, per_peer: 2, reserved: 8 }, ..Limits::default() };
    let cluster = Cluster::with(&[KEY], page, few, Limits::default(), Some("127.0.0.1")).await;
    let request = |path: &str, client: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nX-Forwarded-For: {client}\r\n\r\n"
        )
    };
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(cluster.standby.address).await.unwrap();
        stream.write_all(request("/slow", "203.0.113.7").as_bytes()).await.unwrap();
        held.push(stream);
    }
    let refused = async {
        while &asked(&cluster.standby, request("/quick", "203.0.113.7").as_bytes()).await.1 != b"HTTP/1.1 503" {}
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("two are under way");
    let (_, answer) = asked(&cluster.standby, request("/quick", "203.0.113.8").as_bytes()).await;
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test]
async fn clients_that_connect_between_two_pages_of_a_process_wait_for_the_next_ones() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sockets = Sockets::default();
    let exposure = || Exposure { address: "127.0.0.1:0".to_owned(), sockets: sockets.clone(), ..Exposure::default() };
    let options = || ApiOptions {
        elsewhere: None,
        signed: Router::new(),
        routes: Router::new(),
        exposure: exposure(),
        keys: Arc::new(Ring(KeyRing::of_secrets([KEY]))),
        programs: Router::new(),
        refuse,
        vitals: Arc::new(Known { status: Mutex::new(Status::Ready), alive: Mutex::new(true) }),
        metrics: Arc::new(String::new),
        page: Some(page()),
        limits: Limits::default(),
    };
    let first = Api::health_alone(&options(), "it stands by", None);
    let (mut bound, stop) = (first.bound(), CancellationToken::new());
    let stopped = stop.clone();
    let serving = tokio::spawn(async move { first.serve(stopped).await });
    let address = bound.wait_for(Option::is_some).await.unwrap().unwrap();
    stop.cancel();
    serving.await.unwrap().unwrap();
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let asking = tokio::spawn(client.get(format!("http://{address}/told")).bearer_auth(KEY).send());
    sockets.keep_only(&["127.0.0.1:0".to_owned()]);
    let next = Served::serve(
        Api::new(options()),
        Arc::new(Known { status: Mutex::new(Status::Ready), alive: Mutex::new(true) }),
    );
    let next = next.await;
    assert_eq!(next.address, address, "the next pages have the socket");
    assert_eq!(asking.await.unwrap().unwrap().status(), 200);
    // The sockets of the active pages close at their end.
    next.stop.cancel();
    next.task.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

/// Reports the end of a response.
struct Ended(mpsc::UnboundedSender<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn streams_arrive_in_pieces_and_end_with_either_side() {
    let next = Arc::new(Notify::new());
    let (ended, mut ends) = mpsc::unbounded_channel();
    let waiting = Arc::clone(&next);
    let pieces = async move || {
        let state = (0, waiting, Ended(ended));
        Body::from_stream(stream::unfold(state, |(step, next, ended)| async move {
            if step > 0 {
                next.notified().await;
            }
            Some((Ok::<_, Infallible>(format!("piece {step}")), (step + 1, next, ended)))
        }))
    };
    let cluster = Cluster::new(&[KEY], Router::new().route("/pieces", get(pieces))).await;
    let open = async || {
        let request = cluster.standby.client.get(format!("{}/pieces", cluster.standby.url)).bearer_auth(KEY);
        request.send().await.unwrap()
    };
    let mut answer = open().await;
    assert_eq!(answer.chunk().await.unwrap().as_deref(), Some(&b"piece 0"[..]), "before the second is made");
    next.notify_one();
    assert_eq!(answer.chunk().await.unwrap().as_deref(), Some(&b"piece 1"[..]));
    drop(answer);
    tokio::time::timeout(PATIENCE, ends.recv()).await.expect("the active process learns that the client has gone");

    let mut answer = open().await;
    assert!(answer.chunk().await.unwrap().is_some());
    cluster.active.stop.cancel();
    cluster.active.task.await.unwrap().unwrap();
    let end = tokio::time::timeout(PATIENCE, answer.chunk()).await.unwrap();
    assert!(end.is_err(), "a broken stream is no complete one: {end:?}");
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_little_memory() {
    const PIECE: usize = 16 * 1024;
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let endless = async move || {
        Body::from_stream(stream::repeat_with(move || {
            counted.fetch_add(PIECE, Ordering::Relaxed);
            Ok::<_, Infallible>(vec![b'x'; PIECE])
        }))
    };
    let cluster = Cluster::new(&[KEY], Router::new().route("/endless", get(endless))).await;
    let mut stream = TcpStream::connect(cluster.standby.address).await.unwrap();
    let head = format!("GET /endless HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // Reading the beginning shows that it flows.
    stream.read_exact(&mut [0; 64]).await.unwrap();
    let mut before = usize::MAX;
    let stopped = async {
        while before != made.load(Ordering::Relaxed) {
            before = made.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::time::timeout(PATIENCE * 3, stopped).await.expect("the active process stops sending");
    // Three buffers of the system, of the program and of the client's own socket.
    assert!(made.load(Ordering::Relaxed) < 16 * 1024 * 1024, "{made:?}");
}

#[tokio::test]
async fn sockets_are_passed_on_and_bounded() {
    let few = Limits { capacity: Capacity { connections: 2, per_peer: 2, reserved: 2 }, ..Limits::default() };
    let cluster = Cluster::with(&[KEY], page(), Limits::default(), few, None).await;
    let open = async |key: &str| {
        let mut request = format!("ws://{}/v1/socket", cluster.standby.address).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        tokio_tungstenite::connect_async(request).await
    };
    let Err(Error::Http(refused)) = open("guessed").await else { panic!("the refusal of the active process arrives") };
    assert_eq!(refused.status(), 401);
    let mut sockets = Vec::new();
    for number in 0..2 {
        let (mut socket, _) = open(KEY).await.unwrap();
        let text = Message::text(format!("hello {number}").repeat(20_000));
        socket.send(text.clone()).await.unwrap();
        assert_eq!(tokio::time::timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap(), text);
        sockets.push(socket);
    }
    let (status, text) = cluster.standby.get("/told", &[bearer()]).await;
    assert_eq!((status.as_u16(), text.contains("all connections are busy")), (503, true), "{text}");
    sockets.pop().unwrap().close(None).await.unwrap();
    let until = tokio::time::Instant::now() + PATIENCE;
    while cluster.status("/told", &[bearer()]).await != 200 {
        assert!(tokio::time::Instant::now() < until, "the slot of a closed socket is not given back");
    }
    let mut last = sockets.pop().unwrap();
    cluster.standby.stop.cancel();
    let end = tokio::time::timeout(PATIENCE, async { while let Some(Ok(_)) = last.next().await {} }).await;
    assert!(end.is_ok(), "the sockets of a process end with it");
}

#[tokio::test]
async fn sockets_of_one_client_leave_slots_to_others() {
    let few = Limits { capacity: Capacity { connections: 4, per_peer: 1, reserved: 4 }, ..Limits::default() };
    let cluster = Cluster::with(&[KEY], page(), Limits::default(), few, None).await;
    let mut request = format!("ws://{}/v1/socket", cluster.standby.address).into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {KEY}").parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let (status, text) = cluster.standby.get("/told", &[bearer()]).await;
    assert_eq!((status.as_u16(), text.contains("all connections are busy")), (503, true), "{text}");
    socket.close(None).await.unwrap();
    let until = tokio::time::Instant::now() + PATIENCE;
    while cluster.status("/told", &[bearer()]).await != 200 {
        assert!(tokio::time::Instant::now() < until, "a closed socket counts no longer");
    }
}

#[tokio::test]
async fn a_socket_that_is_no_web_socket_is_not_opened() {
    let cluster = Cluster::new(&[KEY], page()).await;
    for (request, wanted) in [
        (
            format!(
                "GET /told HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
            ),
            "HTTP/1.1 200",
        ),
        ("CONNECT db.internal:5432 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "HTTP/1.1 405"),
        (
            format!("GET http://other.example/told HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n"),
            "HTTP/1.1 200",
        ),
        (format!("GET /told HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n"), "HTTP/1.0 200"),
    ] {
        let (_, answer) = asked(&cluster.standby, request.as_bytes()).await;
        assert_eq!(String::from_utf8_lossy(&answer), wanted, "{request}");
    }
}

#[tokio::test]
async fn large_and_slow_requests_are_refused_as_by_the_active_process() {
    let limits = Limits { body_within: Duration::from_millis(200), ..Limits::default() };
    let cluster = Cluster::with(&[KEY], page(), limits, Limits::default(), None).await;
    let standby = &cluster.standby;
    let large = vec![b'x'; 10 * 1024 * 1024];
    let head = format!(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {}\r\n\r\n",
        large.len()
    );
    let (mut reader, mut writer) = TcpStream::connect(standby.address).await.unwrap().into_split();
    tokio::spawn(async move {
        let _ = writer.write_all(head.as_bytes()).await;
        let _ = writer.write_all(&large).await;
    });
    let mut answer = [0; 12];
    tokio::time::timeout(PATIENCE, reader.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    let head = format!(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 9\r\n\r\nhalf"
    );
    let (mut stream, answer) = asked(standby, head.as_bytes()).await;
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!(closed(&mut stream).await);
    let many: String = (0..5_000).map(|number| format!("X-{number}: a\r\n")).collect();
    for count in [90, 2_000, 60_000] {
        let head = format!(
            "GET /told HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n{}\r\n",
            &many[..many[..count.min(many.len())].rfind("X-").unwrap()]
        );
        let mut stream = TcpStream::connect(standby.address).await.unwrap();
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = [0; 12];
        let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("there is an answer");
        let wanted = if count == 90 { "HTTP/1.1 200" } else { "HTTP/1.1 431" };
        assert!(
            read.is_err() || String::from_utf8_lossy(&answer) == wanted,
            "{count}: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(cluster.status("/told", &[bearer()]).await, 200, "it serves on");
}

#[tokio::test]
async fn an_active_process_that_ends_before_its_answer_or_is_silent_is_told_apart() {
    let limits = Limits { answer: Duration::from_millis(300), ..Limits::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_address, known) = watch::channel(Some(listener.local_addr().unwrap().to_string()));
    let standby = standing_by("of the cluster", known, limits, None).await;
    let (mut held, answers) =
        (Vec::new(), [("", 504), ("end", 502), ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", 200)]);
    for (sent, wanted) in answers {
        let asking = tokio::spawn(standby.client.get(format!("{}/told", standby.url)).send());
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 64]).await.unwrap();
        if sent == "end" {
            drop(stream);
        } else {
            stream.write_all(sent.as_bytes()).await.unwrap();
            held.push(stream);
        }
        let answer = asking.await.unwrap().unwrap();
        assert_eq!(answer.status().as_u16(), wanted, "{sent}");
        let body = tokio::time::timeout(PATIENCE, answer.text()).await.unwrap();
        assert_eq!(body.is_err(), wanted == 200, "a silent stream ends with an error: {body:?}");
    }
}
