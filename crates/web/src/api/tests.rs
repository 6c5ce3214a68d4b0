use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;

use axum::body::Bytes;
use axum::extract::ws::WebSocketUpgrade;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{SinkExt, StreamExt};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::guard::tests::Ring;
use super::*;
use domain::api_key::{ApiKey, Caller, KeyHash, KeyRing, Right};
use domain::ids::Timestamp;
use ports::samples::{Figures, Sample, Samples};
use ports::turn_detail::TurnDetail;
use ports::vitals::{ActorDetail, Configuration, Moments, Part, Readiness, Status, TreeNode, TurnTimes, Turns};

mod forwarding;
mod open_streams;

/// A timeout longer than any step here; only a failure reaches it.
const PATIENCE: Duration = Duration::from_secs(10);

struct Known {
    status: Mutex<Status>,
    alive: Mutex<bool>,
}

impl Vitals for Known {
    fn alive(&self) -> bool {
        *self.alive.lock()
    }

    fn readiness(&self) -> Readiness {
        let part = Part {
            kind: "door".to_owned(),
            name: "discord".to_owned(),
            status: Status::Ready,
            since: Timestamp(1_500),
            restarts: 1,
            last_error: Some("closed".to_owned()),
            last_event: None,
            optional: false,
        };
        Readiness {
            status: *self.status.lock(),
            version: "0.1.0".to_owned(),
            range: None,
            configuration: Configuration { version: "1".to_owned(), rejected: None },
            parts: vec![part],
            actors: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn tree(&self, of_a_kind: usize) -> TreeNode {
        let node = |name: &str, path: &str, children| TreeNode {
            name: name.to_owned(),
            path: path.to_owned(),
            state: "running".to_owned(),
            restarts: 0,
            mailbox: 2,
            refused: 1,
            handled: 3,
            uptime_s: 4,
            backoff_ms: None,
            outage_ms: None,
            last_error: None,
            last_event: None,
            many: (of_a_kind < usize::MAX).then_some(of_a_kind as u64),
            children,
        };
        node("staffai", "staffai", vec![node("ops", "staffai/ops", vec![])])
    }

    fn actor(&self, path: &str) -> Option<ActorDetail> {
        (path == "staffai/journal").then(|| ActorDetail {
            path: path.to_owned(),
            state: "running".to_owned(),
            for_s: 1,
            mailbox: 0,
            handled: 2,
            restarts: 0,
            busy_us: 7,
            last: Vec::new(),
            handling_ms: None,
            row: None,
            failures: Vec::new(),
        })
    }

    fn turn(&self, number: u64) -> Option<TurnDetail> {
        (number == 2).then(|| TurnDetail { log: vec!["a line".to_owned()], ..TurnDetail::default() })
    }

    fn samples(&self, after: Timestamp) -> Samples {
        let figures = Figures { turns: 3, ..Figures::default() };
        let samples = vec![Sample { at: Timestamp(after.0 + 1), figures, rows: Vec::new() }];
        Samples { every_ms: 2_000, kept: 300, more: false, actors: Vec::new(), samples, breaks: Vec::new() }
    }

    fn turns(&self) -> Turns {
        let turn = |number| TurnTimes {
            number,
            door: "discord".to_owned(),
            message: Some(format!("10{number}")),
            place: Some("discord:42".to_owned()),
            member: Some(format!("discord:7{number}")),
            trigger: "mention".to_owned(),
            at: Timestamp(1_500),
            age_ms: 70,
            outcome: if number == 1 { "apologised" } else { "open" }.to_owned(),
            reason: None,
            counted: None,
            started_ms: Some(1),
            answered_ms: None,
            visible_ms: None,
            ended_ms: None,
            lane_ms: None,
            permit_ms: None,
            model_ms: None,
            tools_ms: None,
            post_ms: None,
            model: None,
            trial: None,
            dollars: None,
            steps: Vec::new(),
            us: Moments::default(),
            earlier: false,
        };
        Turns { accepted: 2, newest: vec![turn(2), turn(1)], spent: Vec::new(), today: None, limits: Vec::new() }
    }
}

/// Routes that return the caller.
fn programs() -> Router {
    let who = async |caller: axum::Extension<Caller>| caller.name().to_owned();
    let read = async |body: Bytes| body.len().to_string();
    Router::new().route("/v1/who", get(who)).route("/v1/read", post(read)).merge(open_streams::routes())
}

/// A route that authenticates its requests itself, as webhooks do: it reads the body of known ones only.
fn signed() -> Router {
    let read = async |body: Bytes| body.len().to_string();
    Router::new().route("/hooks/known", post(read)).route("/hooks/unknown", post(async || StatusCode::UNAUTHORIZED))
}

/// A text with the path in it, to distinguish it from a route's own.
fn refuse(path: &str, status: StatusCode, why: &str) -> Response {
    (status, [("content-type", "form/words")], format!("{path}: {why}")).into_response()
}

/// A running API and a client.
struct Served {
    url: String,
    address: SocketAddr,
    client: reqwest::Client,
    known: Arc<Known>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), String>>,
}

fn listener(known: &Arc<Known>, keys: Arc<dyn Keys>, page: Option<Router>, limits: Limits) -> Api {
    Api::new(ApiOptions {
        elsewhere: None,
        signed: signed(),
        routes: Router::new(),
        exposure: Exposure { address: "127.0.0.1:0".to_owned(), ..Exposure::default() },
        keys,
        programs: programs(),
        refuse,
        vitals: known.clone(),
        metrics: Arc::new(|| "staffai_turns_lost_total 0\n".to_owned()),
        page,
        limits,
    })
}

impl Served {
    async fn new(keys: &[&str], page: Option<Router>, limits: Limits) -> Self {
        Self::over(Arc::new(Ring(KeyRing::of_secrets(keys.iter().copied()))), page, limits).await
    }

    async fn over(keys: Arc<dyn Keys>, page: Option<Router>, limits: Limits) -> Self {
        Self::behind(Senders::default(), (keys, page, limits)).await
    }

    /// The same behind these senders.
    async fn behind(senders: Senders, (keys, page, limits): (Arc<dyn Keys>, Option<Router>, Limits)) -> Self {
        let known = Arc::new(Known { status: Mutex::new(Status::Ready), alive: Mutex::new(true) });
        let mut api = listener(&known, keys, page, limits);
        api.whole.senders = senders;
        Self::serve(api, known).await
    }

    async fn serve(api: Api, known: Arc<Known>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut bound = api.bound();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { api.serve(stopped).await });
        let address = bound.wait_for(Option::is_some).await.unwrap().unwrap();
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { url: format!("http://{address}"), address, client, known, stop, task }
    }

    async fn plain() -> Self {
        Self::new(&[], None, Limits::default()).await
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, String) {
        let mut request = self.client.get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }
}

#[tokio::test]
async fn readiness_has_a_status_for_every_state_and_names_the_parts() {
    let served = Served::plain().await;
    for (status, name, code) in [
        (Status::Ready, "ready", 200),
        (Status::Degraded, "degraded", 200),
        (Status::Standby, "standby", 200),
        (Status::Starting, "starting", 503),
        (Status::Draining, "draining", 503),
        (Status::Down, "down", 503),
    ] {
        *served.known.status.lock() = status;
        let (found, body) = served.get("/readyz", &[]).await;
        assert_eq!(found.as_u16(), code);
        let part = json!({"kind": "door", "name": "discord", "status": "ready", "since": "1970-01-01T00:00:01.500Z",
            "restarts": 1, "last_error": "closed"});
        assert_eq!(
            serde_json::from_str::<Value>(&body).unwrap(),
            json!({"status": name, "version": "0.1.0", "configuration": {"version": "1", "rejected": null}, "parts": [part]})
        );
    }
}

#[tokio::test]
async fn health_is_that_of_the_root_supervisor() {
    let served = Served::plain().await;
    assert_eq!(served.get("/healthz", &[]).await, (StatusCode::OK, "{\"status\":\"ok\"}".to_owned()));
    *served.known.alive.lock() = false;
    assert_eq!(served.get("/healthz", &[]).await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn metrics_and_the_tree_are_served() {
    let served = Served::plain().await;
    assert_eq!(served.get("/metrics", &[]).await, (StatusCode::OK, "staffai_turns_lost_total 0\n".to_owned()));
    let (status, body) = served.get("/api/v1/tree", &[]).await;
    assert_eq!(status, StatusCode::OK);
    let node = |name: &str, path: &str, children: Value| {
        json!({"name": name, "path": path, "state": "running", "restarts": 0, "mailbox": 2, "refused": 1, "handled": 3,
            "uptime_s": 4, "last_error": null, "children": children})
    };
    let wanted = node("staffai", "staffai", json!([node("ops", "staffai/ops", json!([]))]));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), wanted);
    let (status, body) = served.get("/api/v1/tree?children=7", &[]).await;
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()["many"].as_u64()), (StatusCode::OK, Some(7)));
    assert_eq!(served.get("/api/v1/tree?children=few", &[]).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn pages_at_a_free_port_are_there_again_after_a_restart() {
    let known = Arc::new(Known { status: Mutex::new(Status::Ready), alive: Mutex::new(true) });
    let listener = Arc::new(listener(&known, Arc::new(Ring(KeyRing::default())), None, Limits::default()));
    let mut places = Vec::new();
    for _ in 0..2 {
        let (serving, stop) = (Arc::clone(&listener), CancellationToken::new());
        let stopped = stop.clone();
        let served = tokio::spawn(async move { serving.serve(stopped).await });
        let mut bound = listener.bound();
        places.push(bound.wait_for(Option::is_some).await.unwrap().unwrap());
        stop.cancel();
        served.await.unwrap().unwrap();
    }
    assert_eq!(places[0], places[1]);
}

#[tokio::test]
async fn strangers_are_refused_and_keys_let_them_in() {
    let served = Served::new(&["long-enough-key"], None, Limits::default()).await;
    let proxied = ("x-forwarded-for", "203.0.113.7");
    let wrong = ("authorization", "Bearer long-enough-kex");
    let right = ("authorization", "Bearer long-enough-key");
    let status = async |path, headers: &[_]| served.get(path, headers).await.0.as_u16();
    for path in ["/api/v1/tree", "/", "/dashboard", "/anything"] {
        assert_eq!(status(path, &[proxied]).await, 401, "{path}");
        assert_eq!(status(path, &[proxied, wrong]).await, 401, "{path}");
        assert_eq!(status(path, &[("host", "evil.example")]).await, 421, "{path}");
        assert_eq!(status(path, &[("origin", "https://evil.example")]).await, 403, "{path}");
    }
    assert_eq!(status("/healthz", &[proxied]).await, 200);
    assert_eq!(status("/healthz", &[("host", "evil.example")]).await, 421);
    assert_eq!(status("/api/v1/tree", &[proxied, right]).await, 200);
    assert_eq!(status("/api/v1/tree", &[("host", "staffai.example"), right]).await, 200);
}

#[tokio::test]
async fn every_file_that_the_dashboard_wants_is_served_and_none_from_elsewhere() {
    let served = Served::plain().await;
    let mut wanted = 0;
    for (path, kind, text) in dashboard::FILES {
        let response = served.client.get(format!("{}{path}", served.url)).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], kind);
        assert!(response.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'self';"));
        assert_eq!(response.text().await.unwrap(), text);
        for outside in ["//cdn", "https://", "@import", "innerHTML", "insertAdjacentHTML", "eval("] {
            assert!(!text.contains(outside), "{path} has {outside}");
        }
        for part in text.split('"').skip(1).step_by(2) {
            let file = part.strip_prefix("./").map(|name| format!("/dashboard/{name}"));
            if let Some(file) = file.or_else(|| part.starts_with("/dashboard/").then(|| part.to_owned())) {
                assert!(dashboard::FILES.iter().any(|(served, ..)| *served == file), "{path} wants {part}");
                wanted += 1;
            }
        }
    }
    assert!(wanted > 9, "the search for imports finds them");
}

#[tokio::test]
async fn the_time_lines_are_told_the_newest_first_and_as_many_as_wanted() {
    let served = Served::plain().await;
    for (path, wanted) in [
        ("/api/v1/turns", vec![2, 1]),
        ("/api/v1/turns?limit=1", vec![2]),
        ("/api/v1/turns?place=42", vec![2, 1]),
        ("/api/v1/turns?place=discord:42&limit=1", vec![2]),
        ("/api/v1/turns?place=4", vec![]),
        ("/api/v1/turns?member=71", vec![1]),
        ("/api/v1/turns?member=discord:72", vec![2]),
        ("/api/v1/turns?message=101", vec![1]),
        ("/api/v1/turns?outcome=apologised&limit=1", vec![1]),
        ("/api/v1/turns?id=42", vec![2, 1]),
        ("/api/v1/turns?id=72", vec![2]),
        ("/api/v1/turns?id=101", vec![1]),
        ("/api/v1/turns?id=7", vec![]),
        ("/api/v1/turns?outcome=apologised&member=72", vec![]),
        ("/api/v1/turns?member=&outcome=open", vec![2]),
    ] {
        let (status, body) = served.get(path, &[]).await;
        assert_eq!(status, StatusCode::OK);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["accepted"], 2);
        let numbers: Vec<u64> =
            body["turns"].as_array().unwrap().iter().map(|turn| turn["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, wanted, "{path}");
        assert!(numbers.is_empty() || body["turns"][0]["at"] == "1970-01-01T00:00:01.500Z");
    }
    assert_eq!(served.get("/api/v1/turns?limit=x", &[]).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(served.get("/api/v1/turns", &[("via", "1.1 proxy")]).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_turn_is_told_in_detail_by_its_number() {
    let served = Served::plain().await;
    let (status, told) = served.get("/api/v1/turns/2", &[]).await;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (status, &told["texts"], &told["log"][0]),
        (StatusCode::OK, &Value::from("withheld"), &Value::from("a line"))
    );
    assert_eq!(served.get("/api/v1/turns/3", &[]).await.0, StatusCode::NOT_FOUND);
    assert_eq!(served.get("/api/v1/turns/last", &[]).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(served.get("/api/v1/turns/2", &[("via", "1.1 proxy")]).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn samples_and_actors_are_told_to_those_who_may_see_the_tree() {
    let served = Served::plain().await;
    let of = async |path: &str| {
        let (status, body) = served.get(path, &[]).await;
        (status.as_u16(), serde_json::from_str::<Value>(&body).unwrap_or_default())
    };
    let (status, told) = of("/api/v1/samples?after=5").await;
    assert_eq!((status, &told["samples"][0]["at"], &told["samples"][0]["lost"]), (200, &Value::from(6), &Value::Null));
    assert_eq!(told["samples"][0]["figures"]["turns"], 3);
    assert_eq!(of("/api/v1/samples").await.1["samples"][0]["at"], 1);
    assert_eq!(of("/api/v1/samples?after=now").await.0, 400);
    assert_eq!(of("/api/v1/actor?path=staffai/journal").await.1["state"], "running");
    assert_eq!(of("/api/v1/actor?path=staffai/nobody").await.0, 404);
    assert_eq!(of("/api/v1/actor").await.0, 400);
    for path in ["/api/v1/samples", "/api/v1/actor?path=staffai"] {
        assert_eq!(served.get(path, &[("via", "1.1 proxy")]).await.0, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn the_dashboard_is_shown_unless_another_page_is_given() {
    let served = Served::plain().await;
    let (status, body) = served.get("/", &[]).await;
    assert!(status == StatusCode::OK && body.contains("/dashboard/main.js"), "{body}");

    let page = Router::new().route("/", get(async || "chat")).route("/healthz", get(async || "forged"));
    let served = Served::new(&[], Some(page), Limits::default()).await;
    assert_eq!(served.get("/", &[]).await.1, "chat");
    assert_eq!(served.get("/healthz", &[]).await.1, "{\"status\":\"ok\"}");
    assert!(served.get("/dashboard", &[]).await.1.contains("/dashboard/main.js"));
    assert_eq!(served.get("/nothing", &[]).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_page_can_talk_over_a_web_socket() {
    let echo = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket| {
            while let Some(Ok(frame)) = socket.next().await {
                if socket.send(frame).await.is_err() {
                    return;
                }
            }
        })
    };
    let served = Served::new(&[], Some(Router::new().route("/socket", get(echo))), Limits::default()).await;
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{}/socket", served.address)).await.unwrap();
    socket.send("hello".into()).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap().into_text().unwrap(), "hello");
}

#[tokio::test]
async fn a_port_in_use_is_named_with_its_setting() {
    let served = Served::plain().await;
    let site = Site::new(served.address.to_string(), "STAFFAI_HTTP_ADDR", Router::new());
    let api = Api { limits: Limits::default(), whole: site, health: None };
    let error = api.serve(CancellationToken::new()).await.unwrap_err();
    let wanted = "the port is in use; stop the other program, or set STAFFAI_HTTP_ADDR to a free address";
    assert_eq!(error, format!("cannot listen on {}: {wanted}", served.address));
}

#[tokio::test]
async fn stopping_lets_an_answer_finish_and_takes_no_more() {
    let (entered, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (inside, go) = (entered.clone(), finish.clone());
    let slow = async move || {
        inside.notify_one();
        go.notified().await;
        "done"
    };
    let page = Router::new().route("/slow", get(slow));
    let served = Arc::new(Served::new(&[], Some(page), Limits { grace: PATIENCE, ..Limits::default() }).await);
    let asking = served.clone();
    let answer = tokio::spawn(async move { asking.get("/slow", &[]).await });
    entered.notified().await;
    served.stop.cancel();
    // A refused connection shows that the listener is gone; the response is still in progress.
    tokio::time::timeout(PATIENCE, async { while TcpStream::connect(served.address).await.is_ok() {} }).await.unwrap();
    assert!(!answer.is_finished() && !served.task.is_finished());
    finish.notify_one();
    assert_eq!(answer.await.unwrap(), (StatusCode::OK, "done".to_owned()));
    let served = Arc::into_inner(served).unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, served.task).await.unwrap().unwrap(), Ok(()));
}

#[tokio::test]
async fn an_answer_without_end_is_told_of_the_stop() {
    let entered = Arc::new(Notify::new());
    let inside = entered.clone();
    let endless = async move |stopping: axum::Extension<CancellationToken>| {
        inside.notify_one();
        stopping.cancelled().await;
        "told"
    };
    let page = Router::new().route("/endless", get(endless));
    let served = Arc::new(Served::new(&[], Some(page), Limits { grace: PATIENCE * 2, ..Limits::default() }).await);
    let asking = served.clone();
    let answer = tokio::spawn(async move { asking.get("/endless", &[]).await });
    entered.notified().await;
    served.stop.cancel();
    assert_eq!(answer.await.unwrap(), (StatusCode::OK, "told".to_owned()));
    let served = Arc::into_inner(served).unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, served.task).await.unwrap().unwrap(), Ok(()));
}

#[tokio::test]
async fn stopping_does_not_wait_longer_than_the_grace() {
    let entered = Arc::new(Notify::new());
    let inside = entered.clone();
    let never = async move || {
        inside.notify_one();
        std::future::pending::<()>().await;
    };
    let limits = Limits { grace: Duration::from_millis(50), ..Limits::default() };
    let served = Served::new(&[], Some(Router::new().route("/never", get(never))), limits).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    entered.notified().await;
    served.stop.cancel();
    assert_eq!(tokio::time::timeout(PATIENCE, served.task).await.unwrap().unwrap(), Ok(()));
}

#[tokio::test]
async fn an_answer_under_way_outlives_its_connection() {
    let slow = async || {
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        "whole"
    };
    let (life, grace) = (Duration::from_millis(300), Duration::from_millis(1));
    let limits = Limits { life, grace, ..Limits::default() };
    let served = Served::new(&[], Some(Router::new().route("/slow", get(slow))), limits).await;
    assert_eq!(served.get("/slow", &[]).await, (StatusCode::OK, "whole".to_owned()));
}

#[tokio::test]
async fn a_client_that_sends_no_head_is_let_go() {
    let limits = Limits { header: Duration::from_millis(50), ..Limits::default() };
    let served = Served::new(&[], None, limits).await;
    for sent in ["", "GET /healthz HTTP/1.1\r\nHost: loc", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .expect("the connection stays open")
            .unwrap();
    }
}

const CHECK: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Sends a request on a new connection and reads the beginning of the response.
async fn asked(served: &Served, request: &[u8]) -> (TcpStream, [u8; 12]) {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let mut answer = [0; 12];
    stream.write_all(request).await.unwrap();
    let answered = tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("there is an answer");
    answered.unwrap();
    (stream, answer)
}

/// True if the other side closed this connection.
async fn closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.is_ok()
}

#[tokio::test]
async fn idle_connections_give_way_to_new_ones() {
    let capacity = Capacity { connections: 2, per_peer: 2, reserved: 0 };
    let served = Served::new(&[], None, Limits { capacity, ..Limits::default() }).await;
    let (mut first, _) = asked(&served, CHECK).await;
    // It sends nothing at all, as an attacker would.
    let _silent = TcpStream::connect(served.address).await.unwrap();
    for _ in 0..20 {
        let (_, answer) = asked(&served, CHECK).await;
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
    assert!(closed(&mut first).await);
}

#[tokio::test]
async fn a_client_behind_a_trusted_proxy_is_counted_by_its_own_address() {
    for (trusted, others) in [(vec!["127.0.0.1".parse().unwrap()], "HTTP/1.1 200"), (Vec::new(), "HTTP/1.1 503")] {
        let (page, _release) = busy_page();
        let page = page.route("/quick", get(async || "done"));
        let capacity = Capacity { connections: 8, per_peer: 2, reserved: 8 };
        let keys: Arc<dyn Keys> = Arc::new(Ring(KeyRing::of_secrets(["long-enough-key"])));
        let limits = Limits { capacity, ..Limits::default() };
        let senders = Senders { proxies: Arc::new(Proxies::new(trusted)), membership: None };
        let served = Served::behind(senders, (keys, Some(page), limits)).await;
        let request = |path: &str, client: &str| {
            format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer long-enough-key\r\n\
                 X-Forwarded-For: 203.0.113.1, {client}\r\n\r\n"
            )
        };
        let mut held = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(request("/slow", "203.0.113.7").as_bytes()).await.unwrap();
            held.push(stream);
        }
        let refused = async {
            loop {
                let (_, answer) = asked(&served, request("/quick", "203.0.113.7").as_bytes()).await;
                if &answer == b"HTTP/1.1 503" {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, refused).await.expect("two are under way");
        let (_, answer) = asked(&served, request("/quick", "203.0.113.8").as_bytes()).await;
        assert_eq!(String::from_utf8_lossy(&answer), others, "without trust all are one address");
    }
}

/// A page whose responses are held until they are released.
fn busy_page() -> (Router, Arc<Notify>) {
    let release = Arc::new(Notify::new());
    let waiting = release.clone();
    let slow = async move || {
        waiting.notified().await;
        "done"
    };
    (Router::new().route("/slow", get(slow)), release)
}

#[tokio::test]
async fn health_and_metrics_are_answered_while_every_connection_is_busy() {
    let (page, _release) = busy_page();
    let capacity = Capacity { connections: 8, per_peer: 8, reserved: 2 };
    let served = Served::new(&[], Some(page), Limits { capacity, ..Limits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        held.push(stream);
    }
    // Once all of them are busy, further connections get the reserved places.
    let refused = async {
        loop {
            let (_, answer) = asked(&served, b"GET /api/v1/tree HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
            if &answer == b"HTTP/1.1 503" {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("only health is answered");
    // Silent connections in the reserved places do not block others.
    let _silent =
        [TcpStream::connect(served.address).await.unwrap(), TcpStream::connect(served.address).await.unwrap()];
    for _ in 0..20 {
        let (_, answer) = asked(&served, CHECK).await;
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
}

#[tokio::test]
async fn a_listener_of_its_own_answers_health_and_metrics_alone() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let known = Arc::new(Known { status: Mutex::new(Status::Ready), alive: Mutex::new(true) });
    let api = Api::new(ApiOptions {
        elsewhere: None,
        signed: Router::new(),
        routes: Router::new(),
        exposure: Exposure {
            address: "127.0.0.1:0".to_owned(),
            health_address: Some("127.0.0.1:0".to_owned()),
            ..Exposure::default()
        },
        keys: Arc::new(Ring(KeyRing::of_secrets(["long-enough-key"]))),
        programs: programs(),
        refuse,
        vitals: known,
        metrics: Arc::new(|| "staffai_turns_lost_total 0\n".to_owned()),
        page: None,
        limits: Limits::default(),
    });
    let mut bound = api.health_bound().unwrap();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = tokio::spawn(async move { api.serve(stopped).await });
    let address = bound.wait_for(Option::is_some).await.unwrap().unwrap();
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/api/v1/tree", 404), ("/", 404)] {
        let request = client.get(format!("http://{address}{path}")).bearer_auth("long-enough-key");
        assert_eq!(request.send().await.unwrap().status().as_u16(), status, "{path}");
    }
    stop.cancel();
    assert_eq!(tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap(), Ok(()));
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_not_waited_for() {
    let page = Router::new().route("/", axum::routing::post(async |body: String| body));
    let limits = Limits { body_within: Duration::from_millis(50), ..Limits::default() };
    let served = Served::new(&[], Some(page), limits).await;
    let head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf";
    let (mut stream, answer) = asked(&served, head).await;
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!(closed(&mut stream).await);
}

#[tokio::test]
async fn slow_bodies_of_one_address_block_no_other_requests_of_it_for_longer_than_a_moment() {
    let capacity = Capacity { connections: 16, per_peer: 8, reserved: 4 };
    let page = Router::new().route("/", post(async |body: String| body));
    let served = Served::new(&[], Some(page), Limits { capacity, ..Limits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let _ = stream.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf").await;
        held.push(stream);
    }
    let begun = tokio::time::Instant::now();
    let tree = b"GET /api/v1/tree HTTP/1.1\r\nHost: localhost\r\n\r\n";
    while &asked(&served, tree).await.1 != b"HTTP/1.1 200" {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the deadline of bodies is {:?}",
            Limits::default().body_within
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A body that arrives in time is read, even under load.
    let sent = served.client.post(&served.url).body("whole").send().await.unwrap();
    assert_eq!(sent.text().await.unwrap(), "whole");
}

#[tokio::test]
async fn every_refusal_has_the_form_of_its_path() {
    let limits = Limits { body_within: Duration::from_millis(50), body: 10, ..Limits::default() };
    let served = Served::new(&["long-enough-key"], None, limits).await;
    let late = "POST /v1/read HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer long-enough-key\r\nContent-Length: 9\r\n\r\nhalf";
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(late.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let answer = answer.to_lowercase();
    for part in ["http/1.1 408", "connection: close", "form/words", "/v1/read: the body took too long"] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    let long = "x".repeat(11);
    for (method, path, body, key, status, why) in [
        ("POST", "/v1/read", long.as_str(), "long-enough-key", 413, "length limit"),
        ("POST", "/v1/read", "", "wrong", 401, "this key is wrong"),
        ("PUT", "/v1/read", "", "long-enough-key", 405, "not for this method"),
        ("POST", "/api/v1/tree", "", "long-enough-key", 405, "not for this method"),
        ("GET", "/api/v1/tree?children=few", "", "long-enough-key", 400, "children is a number"),
        ("GET", "/api/v1/turns/9", "", "long-enough-key", 404, "no turn of that number"),
        ("GET", "/nothing", "", "long-enough-key", 404, "nothing at this path"),
        ("DELETE", "/healthz", "", "wrong", 405, "not for this method"),
    ] {
        let request = served.client.request(method.parse().unwrap(), format!("{}{path}", served.url));
        let answer = request.bearer_auth(key).body(body.to_owned()).send().await.unwrap();
        let (found, headers) = (answer.status().as_u16(), answer.headers().clone());
        let words = answer.text().await.unwrap();
        assert_eq!((found, &headers["content-type"]), (status, &"form/words".parse().unwrap()), "{method} {path}");
        assert!(words.contains(why) && words.starts_with(path.split('?').next().unwrap()), "{words}");
        assert_eq!(headers.contains_key("allow"), status == 405, "{method} {path}");
        assert_eq!(headers.contains_key("www-authenticate"), status == 401, "{method} {path}");
    }
}

#[tokio::test]
async fn heads_and_bodies_that_are_too_large_are_refused() {
    let page = Router::new().route("/", axum::routing::post(async |body: String| body));
    let served = Served::new(&[], Some(page), Limits { body: 10, ..Limits::default() }).await;
    let post = |size| served.client.post(&served.url).body("x".repeat(size)).send();
    assert_eq!(post(10).await.unwrap().status(), StatusCode::OK);
    assert_eq!(post(11).await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(served.get("/healthz", &[("x-filler", &"y".repeat(20_000))]).await.0.as_u16(), 431);
}

#[tokio::test]
async fn a_key_opens_what_it_has_rights_for_and_no_more() {
    let chat = ApiKey {
        name: "laptop".to_owned(),
        sha256: KeyHash::of("sk-of-the-laptop"),
        rights: vec![Right::Chat],
        models: Vec::new(),
        doors: Vec::new(),
        profiles: Vec::new(),
        limits: None,
        made_at: 0,
        expires_at: None,
    };
    let over = ApiKey { name: "old".to_owned(), sha256: KeyHash::of("sk-old"), expires_at: Some(900), ..chat.clone() };
    let keys = KeyRing::of_secrets(["sk-of-the-house"]).with([chat, over]);
    let served = Served::over(Arc::new(Ring(keys)), None, Limits::default()).await;
    let bearer = |key: &str| format!("Bearer {key}");
    for (path, key, status, text) in [
        ("/v1/who", "sk-of-the-laptop", 200, "laptop"),
        ("/v1/who", "sk-of-the-house", 200, "operator"),
        ("/v1/who", "sk-old", 401, "/v1/who: this key is wrong"),
        ("/v1/who", "sk-guessed", 401, "/v1/who: this key is wrong"),
        ("/api/v1/tree", "sk-of-the-house", 200, "staffai"),
        ("/api/v1/tree", "sk-of-the-laptop", 403, "has not the right"),
        ("/healthz", "sk-guessed", 200, "ok"),
    ] {
        let (found, body) = served.get(path, &[("authorization", &bearer(key))]).await;
        assert_eq!(found.as_u16(), status, "{path} {key}: {body}");
        assert!(body.contains(text), "{path} {key}: {body}");
    }
}

/// The headers that a browser sends for an image on a page of another site, and on a page of another port.
const IMAGES: [[(&str, &str); 3]; 2] = [
    [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
    [("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
];

#[tokio::test]
async fn a_page_of_another_site_is_refused_at_every_door_and_programs_are_not() {
    let served = Served::plain().await;
    for path in ["/v1/who", "/metrics", "/healthz", "/readyz", "/api/v1/tree", "/api/v1/turns", "/dashboard", "/"] {
        assert_eq!(served.get(path, &[]).await.0.as_u16(), 200, "{path}");
        for image in &IMAGES {
            assert_eq!(served.get(path, image).await.0.as_u16(), 403, "{path}");
        }
    }
    for (path, status) in [("/v1/read", 200), ("/hooks/known", 200)] {
        let form = served.client.post(format!("{}{path}", served.url)).body("a=1");
        assert_eq!(form.try_clone().unwrap().send().await.unwrap().status().as_u16(), status, "{path}");
        for site in ["cross-site", "same-site"] {
            let form = form.try_clone().unwrap().header("sec-fetch-site", site);
            assert_eq!(form.send().await.unwrap().status().as_u16(), 403, "{path}");
        }
        let form = form.header("origin", "https://evil.example").send().await.unwrap();
        assert_eq!(form.status().as_u16(), 403, "{path}");
    }
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    for (path, status) in [("/", 200), ("/dashboard", 200), ("/metrics", 200), ("/api/v1/tree", 403), ("/v1/who", 403)]
    {
        assert_eq!(served.get(path, &link).await.0.as_u16(), status, "{path}");
    }
}

#[tokio::test]
async fn bodies_of_unproven_requests_have_places_of_their_own() {
    let served = Served::plain().await;
    let slow = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf");
    let mut held = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(slow("/hooks/known").as_bytes()).await.unwrap();
        held.push(stream);
    }
    // Requests beyond the address's maximum are refused at once.
    let mut refused = 0;
    for stream in &mut held {
        let mut answer = [0; 12];
        let answered = tokio::time::timeout(Duration::from_millis(300), stream.read_exact(&mut answer)).await;
        refused += usize::from(answered.is_ok() && &answer == b"HTTP/1.1 503");
    }
    assert_eq!(refused, 40 - 16);
    assert_eq!(served.get("/v1/who", &[]).await.0.as_u16(), 200, "other doors have theirs");
    held.clear();
    let until = tokio::time::Instant::now() + PATIENCE;
    while served.client.post(format!("{}/hooks/known", served.url)).body("x").send().await.unwrap().status() != 200 {
        assert!(tokio::time::Instant::now() < until, "the places are not given back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (_, answer) = asked(&served, slow("/hooks/unknown").as_bytes()).await;
    assert_eq!(&answer, b"HTTP/1.1 401", "nothing of its body is waited for");
}

#[tokio::test]
async fn requests_behind_each_other_in_one_connection_leave_the_thread_to_others() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let known = Arc::new(Known { status: Mutex::new(Status::Ready), alive: Mutex::new(true) });
    let api = Api::new(ApiOptions {
        signed: Router::new(),
        routes: Router::new(),
        exposure: Exposure { address: "127.0.0.1:0".to_owned(), ..Exposure::default() },
        keys: Arc::new(Ring(KeyRing::of_secrets([]))),
        programs: Router::new().route("/v1/count", get(async move || counted.fetch_add(1, Relaxed).to_string())),
        refuse,
        vitals: known.clone(),
        metrics: Arc::new(String::new),
        page: None,
        limits: Limits::default(),
        elsewhere: None,
    });
    let served = Served::serve(api, known).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let requests = format!("GET /v1/count HTTP/1.1\r\nhost: {}\r\n\r\n", served.address).repeat(200);
    stream.write_all(requests.as_bytes()).await.unwrap();
    let (mut seen, mut most) = (0, 0);
    while seen < 200 {
        tokio::task::yield_now().await;
        let now = count.load(Relaxed);
        most = most.max(now - seen);
        seen = now;
    }
    assert!(most <= 2, "{most} requests in one turn");
}
