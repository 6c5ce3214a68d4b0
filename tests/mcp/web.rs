//! Servers over HTTP: hostile ones in this process, and the requests that they see.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use domain::tool::{CallErrorKind, Effect, ToolRequest};
use futures_util::StreamExt;
use futures_util::future::join_all;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use ports::tools::{ConnectErrorKind, Endpoint, HttpProtocol};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::{
    GROWN_MAX, call, connect, cpu, cpu_since, endpoint, eventually, http, names, request, resident, text, try_connect,
    try_connect_within,
};

/// A server whose behaviour is a function of the request.
pub struct Web {
    address: SocketAddr,
    pub seen: Arc<Mutex<Vec<HeaderMap>>>,
}

type Behaviour = Arc<dyn Fn(&Value, &HeaderMap) -> Response + Send + Sync>;

impl Web {
    pub async fn start(behave: impl Fn(&Value, &HeaderMap) -> Response + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let state: (Behaviour, _) = (Arc::new(behave), Arc::clone(&seen));
        let app = Router::new().fallback(routing::any(answer)).with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    fn with_key(&self) -> Endpoint {
        let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer sesame-open".into())]);
        Endpoint { headers, ..endpoint(&self.url()) }
    }
}

async fn answer(
    State((behave, seen)): State<(Behaviour, Arc<Mutex<Vec<HeaderMap>>>)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    seen.lock().push(headers.clone());
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let response = behave(&message, &headers);
    if response.status() == HANGS {
        std::future::pending::<()>().await;
    }
    response
}

/// Stands for a response that never comes.
const HANGS: u16 = 599;

fn hang() -> Response {
    StatusCode::from_u16(HANGS).unwrap().into_response()
}

/// An event stream that stays open.
pub fn events(events: impl futures_util::Stream<Item = String> + Send + 'static) -> Response {
    let open = events.chain(futures_util::stream::pending()).map(|event| Ok::<_, Infallible>(Bytes::from(event)));
    ([("content-type", "text/event-stream")], Body::from_stream(open)).into_response()
}

/// The answers of a well-behaved server of the older generation.
pub fn well(message: &Value, session: &str) -> Response {
    let id = &message["id"];
    let result = match message["method"].as_str() {
        Some("initialize") => {
            let about = json!({"name": "web", "version": "1"});
            let version = &message["params"]["protocolVersion"];
            json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
        }
        Some("tools/list") => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        Some("tools/call") => {
            json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]})
        }
        Some("ping") => json!({}),
        Some(method) if method.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
        Some(_) => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return axum::Json(json!({"jsonrpc": "2.0", "id": id, "error": error})).into_response();
        }
        None => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    let body = axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    ([("mcp-session-id", session.to_owned())], body).into_response()
}

#[tokio::test]
async fn statuses_are_told_apart_when_connecting_and_when_calling() {
    let cases = [
        (401, ConnectErrorKind::Unauthorized, CallErrorKind::Unauthorized),
        (403, ConnectErrorKind::Forbidden, CallErrorKind::Forbidden),
        (404, ConnectErrorKind::NotFound, CallErrorKind::Lost),
        (429, ConnectErrorKind::RateLimited, CallErrorKind::RateLimited),
        (500, ConnectErrorKind::Failed, CallErrorKind::Failed),
        (503, ConnectErrorKind::Failed, CallErrorKind::Failed),
    ];
    for (status, connecting, calling) in cases {
        let refusal = move || {
            let status = StatusCode::from_u16(status).unwrap();
            (status, [("retry-after", "7")], "wrong key sesame-open").into_response()
        };
        let closed = Web::start(move |_, _| refusal()).await;
        let error = try_connect(&http(closed.with_key())).await.err().unwrap();
        println!("{status}: {error}");
        assert_eq!(error.kind, connecting, "{error}");
        assert!(!error.to_string().contains("sesame"), "{error}");
        let picky = Web::start(move |message, _| match message["method"].as_str() {
            Some("tools/call") => refusal(),
            _ => well(message, "one"),
        });
        let server = connect(&http(picky.await.with_key())).await;
        let error = call(&server, "echo", json!({})).await.unwrap_err();
        assert_eq!(error.kind, calling, "{status}: {error}");
        if status == 429 {
            assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        }
    }
}

#[tokio::test]
async fn credentials_never_cross_to_another_origin() {
    let other = Web::start(|message, _| well(message, "one")).await;
    let target = other.url();
    for status in [301, 302, 307, 308] {
        let target = target.clone();
        let redirecting = Web::start(move |_, _| {
            (StatusCode::from_u16(status).unwrap(), [("location", target.clone())]).into_response()
        });
        let error = try_connect(&http(redirecting.await.with_key())).await.err().unwrap();
        assert_eq!(error.kind, ConnectErrorKind::Redirected, "{error}");
    }
    let elsewhere = other.url();
    let naming = Web::start(move |_, _| {
        let event = format!("event: endpoint\ndata: {elsewhere}\n\n");
        ([("content-type", "text/event-stream")], event).into_response()
    });
    let endpoint = Endpoint { protocol: HttpProtocol::Sse, ..naming.await.with_key() };
    let error = try_connect(&http(endpoint)).await.err().unwrap();
    assert_eq!(error.kind, ConnectErrorKind::Redirected, "{error}");
    println!("row 37: requests that reached the other origin: {}", other.seen.lock().len());
    assert!(other.seen.lock().is_empty());
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_with_the_method() {
    let server = Web::start(|message, headers| {
        let moved = headers.get("x-moved").is_none() && message["method"] == "never";
        if moved { StatusCode::NOT_FOUND.into_response() } else { well(message, "one") }
    })
    .await;
    let url = server.url();
    let front = Router::new()
        .route("/mcp", routing::any(|| async { (StatusCode::TEMPORARY_REDIRECT, [("location", "/v2")]) }))
        .route("/v2", routing::any(move |body: Bytes| async move { forward(&url, body).await }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, front).await });
    let server = connect(&http(endpoint(&format!("http://{address}/mcp")))).await;
    assert_eq!(text(&server, "echo", json!({"text": "moved"})).await, "moved");
}

async fn forward(url: &str, body: Bytes) -> Response {
    let client = reqwest::Client::builder().tls_certs_only([]).build().unwrap();
    let answer = client.post(url).header("content-type", "application/json").body(body).send().await.unwrap();
    let status = answer.status();
    let kind = answer.headers().get("content-type").cloned();
    let mut response = (status, answer.bytes().await.unwrap()).into_response();
    if let Some(kind) = kind {
        response.headers_mut().insert("content-type", kind);
    }
    response
}

#[tokio::test]
async fn each_server_gets_its_own_credentials_alone() {
    let (one, other) =
        (Web::start(|message, _| well(message, "a")).await, Web::start(|message, _| well(message, "b")).await);
    let (first, second) = (connect(&http(one.with_key())).await, connect(&http(endpoint(&other.url()))).await);
    text(&first, "echo", json!({"text": "x"})).await;
    text(&second, "echo", json!({"text": "x"})).await;
    assert!(one.seen.lock().iter().all(|headers| headers["authorization"] == "Bearer sesame-open"));
    let leaked = other.seen.lock().iter().filter(|headers| headers.contains_key("authorization")).count();
    println!("row 38: credentials of another server seen: {leaked}");
    assert_eq!(leaked, 0);
}

#[tokio::test]
async fn a_lost_session_is_begun_again_and_no_change_is_made_twice() {
    for lost in [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST] {
        let (sessions, executed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begun, ran) = (Arc::clone(&sessions), Arc::clone(&executed));
        let web = Web::start(move |message, headers| {
            if message["method"] == "initialize" {
                return well(message, &format!("s{}", begun.fetch_add(1, Ordering::SeqCst)));
            }
            let session = headers.get("mcp-session-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
            if message["method"] == "tools/call" {
                ran.fetch_add(1, Ordering::SeqCst);
                // The server forgets each session with its first call, after it ran.
                if session == "s0" || session == "s2" {
                    return (lost, "Bad Request: No valid session ID provided").into_response();
                }
            }
            well(message, &session)
        })
        .await;
        let server = connect(&http(endpoint(&web.url()))).await;
        let mut changes = server.changes();
        let changing = call(&server, "echo", json!({"text": "x"})).await.unwrap_err();
        assert_eq!(changing.kind, CallErrorKind::Lost);
        assert!(changing.message.contains("not repeated"), "{changing}");
        assert_eq!(executed.load(Ordering::SeqCst), 1);
        assert!(changes.has_changed().unwrap(), "the list is read again");
        changes.mark_unchanged();
        assert_eq!(text(&server, "echo", json!({"text": "again"})).await, "again");

        let server = connect(&http(endpoint(&web.url()))).await;
        let reading = ToolRequest { effect: Effect::Reads, ..request("echo", json!({"text": "read"})) };
        let before = executed.load(Ordering::SeqCst);
        assert_eq!(server.call(&reading, None).await.unwrap().to_text(), "read");
        assert_eq!(executed.load(Ordering::SeqCst), before + 2);
        println!("row 28: after {lost} 1 change sent once, 1 read sent twice and answered");
    }
}

#[tokio::test]
async fn streams_that_drip_break_off_or_never_end_are_bounded() {
    let web = Web::start(|message, _| {
        if message["method"] != "tools/call" {
            return well(message, "one");
        }
        let chunk = |text: &'static str| Ok::<_, Infallible>(Bytes::from(text));
        let stream = match message["params"]["name"].as_str().unwrap() {
            "broken" => futures_util::stream::iter([chunk("data: {\"jsonrpc\"")]).boxed(),
            "drip" => futures_util::stream::unfold((), move |()| async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                Some((chunk(":"), ()))
            })
            .boxed(),
            _ => {
                let id = message["id"].clone();
                let head =
                    format!(r#"data: {{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"begin"#);
                let head = futures_util::stream::iter([Ok(Bytes::from(head))]);
                let middle = Bytes::from("x".repeat(1024 * 1024));
                let middle = futures_util::stream::iter(std::iter::repeat_n(middle, 500).map(Ok));
                head.chain(middle).chain(futures_util::stream::iter([chunk("end\"}]}}\n\n")])).boxed()
            }
        };
        ([("content-type", "text/event-stream")], Body::from_stream(stream)).into_response()
    })
    .await;
    let server = connect(&http(endpoint(&web.url()))).await;
    let error = call(&server, "broken", json!({})).await.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Lost, "{error}");
    let deadline = Duration::from_millis(500);
    let begun = Instant::now();
    let dripping = ToolRequest { deadline, ..request("drip", json!({})) };
    assert_eq!(server.call(&dripping, None).await.unwrap_err().kind, CallErrorKind::Timeout);
    println!(
        "row 26: a stream that drips is given up {:?} after the deadline",
        begun.elapsed().saturating_sub(deadline)
    );
    let before = resident();
    let result = call(&server, "giant", json!({})).await.unwrap();
    let grown = resident().saturating_sub(before);
    println!("row 29: a stream of 500 MB leaves {} KiB more in memory", grown / 1024);
    assert!(grown < GROWN_MAX, "{grown}");
    let shown = result.to_text();
    assert!(shown.starts_with("begin") && shown.contains("xend") && shown.len() <= 65_536);
    assert!(text(&server, "giant", json!({})).await.len() <= 65_536, "the connection goes on");
}

#[tokio::test]
async fn what_is_no_server_is_told_in_one_line() {
    let page = Web::start(|_, _| ([("content-type", "text/html")], "<html>Welcome</html>").into_response()).await;
    let error = try_connect(&http(endpoint(&page.url()))).await.err().unwrap();
    assert_eq!(error.kind, ConnectErrorKind::NotMcp, "{error}");
    let begun = Instant::now();
    let nothing = try_connect(&http(endpoint("http://127.0.0.1:1/mcp"))).await.err().unwrap();
    assert_eq!(nothing.kind, ConnectErrorKind::Unreachable, "{nothing}");
    println!("a server that is not there is told after {:?}: {nothing}", begun.elapsed());
    for url in
        ["http://tools.example/mcp", "ftp://tools.example", "tools.example/mcp", "https://user:key@tools.example/"]
    {
        let error = try_connect(&http(endpoint(url))).await.err().unwrap();
        assert_eq!(error.kind, ConnectErrorKind::InvalidAddress, "{error}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_at_any_step_costs_no_more_than_the_deadline() {
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let within = Duration::from_secs(1);
    let slack = Duration::from_millis(250);
    let connecting = |url: String| async move {
        let begun = Instant::now();
        let error = try_connect_within(&http(endpoint(&url)), within).await.err().unwrap();
        assert_eq!(error.kind, ConnectErrorKind::Timeout, "{error}");
        assert!(begun.elapsed() < within + slack, "{:?}", begun.elapsed());
    };
    connecting(format!("http://{}/mcp", deaf.local_addr().unwrap())).await;
    let silent = |method: &'static str| {
        Web::start(move |message, _| if message["method"] == method { hang() } else { well(message, "one") })
    };
    connecting(silent("initialize").await.url()).await;
    let drip = futures_util::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Some((Ok::<_, Infallible>(Bytes::from(" ")), ()))
    });
    let drip = Mutex::new(Some(drip.boxed()));
    let dripping =
        Web::start(move |message, _| match drip.lock().take().filter(|_| message["method"] == "initialize") {
            Some(drip) => ([("content-type", "application/json")], Body::from_stream(drip)).into_response(),
            None => hang(),
        });
    connecting(dripping.await.url()).await;
    let server = connect(&http(endpoint(&silent("tools/list").await.url()))).await;
    let begun = Instant::now();
    assert_eq!(server.list().await.unwrap_err().kind, CallErrorKind::Timeout);
    println!("row 26: a list over HTTP that hangs is given up after {:?}", begun.elapsed());
    let server = connect(&http(endpoint(&silent("ping").await.url()))).await;
    assert_eq!(server.ping().await.unwrap_err().kind, CallErrorKind::Timeout);
    let begun = Instant::now();
    server.close().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn calls_that_hang_are_cancelled_and_take_no_place_of_others() {
    let (cancelled, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (told, sessions) = (Arc::clone(&cancelled), Arc::clone(&begun));
    let web = Web::start(move |message, _| {
        match message["method"].as_str() {
            Some("notifications/cancelled") => drop(told.fetch_add(1, Ordering::SeqCst)),
            Some("initialize") => drop(sessions.fetch_add(1, Ordering::SeqCst)),
            Some("tools/call") if message["params"]["name"] == "hangs" => return hang(),
            _ => {}
        }
        well(message, "one")
    })
    .await;
    let server = connect(&http(endpoint(&web.url()))).await;
    let deadline = Duration::from_millis(500);
    let at = Instant::now();
    let calls = (0..200).map(|_| {
        let hangs = ToolRequest { deadline, ..request("hangs", json!({})) };
        let server = Arc::clone(&server);
        async move { server.call(&hangs, None).await.unwrap_err().kind }
    });
    assert!(join_all(calls).await.iter().all(|kind| *kind == CallErrorKind::Timeout));
    println!("row 26: 200 calls that hang were given up after {:?}", at.elapsed());
    assert!(at.elapsed() < deadline + Duration::from_secs(1));
    let at = Instant::now();
    assert_eq!(text(&server, "echo", json!({"text": "next"})).await, "next");
    println!("row 26: the next call took {:?}", at.elapsed());
    assert!(at.elapsed() < Duration::from_secs(1));
    assert!(timeout(Duration::from_millis(200), call(&server, "hangs", json!({}))).await.is_err());
    let sent = || cancelled.load(Ordering::SeqCst);
    eventually("the server is told of a call that was dropped", || sent() > 0).await;
    for _ in 0..50 {
        text(&server, "echo", json!({"text": "x"})).await;
    }
    println!("{} sessions for 252 calls, {} notices of cancellation", begun.load(Ordering::SeqCst), sent());
    assert_eq!(begun.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn two_hundred_large_calls_at_once_are_all_answered() {
    let web = Web::start(|message, _| well(message, "one")).await;
    let server = connect(&http(endpoint(&web.url()))).await;
    let begun = Instant::now();
    let calls = (0..200).map(|index| {
        let server = Arc::clone(&server);
        async move {
            let words = format!("{index}:{}", "x".repeat(64 * 1024 - 10));
            text(&server, "echo", json!({"text": words})).await == words
        }
    });
    let right = join_all(calls).await.into_iter().filter(|right| *right).count();
    println!("row 33: {right} of 200 calls of 64 KB over HTTP answered in {:?}", begun.elapsed());
    assert_eq!(right, 200);
}

#[tokio::test]
async fn noise_wrong_ids_and_storms_of_events_are_ignored() {
    let storm = r#"data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let web = Web::start(move |message, _| {
        let id = message["id"].as_i64().unwrap_or_default();
        match message["method"].as_str() {
            None => events(futures_util::stream::unfold((), move |()| async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Some((format!("{storm}\n\n").repeat(10), ()))
            })),
            Some("tools/call") => {
                let answer = |id: Value, words: &str| {
                    let result = json!({"content": [{"type": "text", "text": words}]});
                    format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": result}))
                };
                let noise = ["event: ping\ndata: 1\n\n".to_owned(), "data: no json\n\n: comment\n\n".to_owned()];
                let others = [answer(json!(id + 1_000), "of another"), answer(json!("x"), "unrelated")];
                let own = [answer(json!(id), "right"), answer(json!(id), "once more")];
                let all: Vec<String> = noise.into_iter().chain(others).chain(own).collect();
                events(futures_util::stream::iter(all))
            }
            _ => well(message, "one"),
        }
    })
    .await;
    let server = connect(&http(endpoint(&web.url()))).await;
    let mut changes = server.changes();
    let cpu = cpu();
    let begun = Instant::now();
    for _ in 0..40 {
        assert_eq!(text(&server, "echo", json!({})).await, "right");
    }
    tokio::time::sleep(Duration::from_secs(2).saturating_sub(begun.elapsed())).await;
    changes.changed().await.unwrap();
    let count = *changes.borrow_and_update();
    println!("row 30, 31: 40 calls among noise, answers of others 0, {count} changes in 2 s were one wake-up");
    println!("row 30: {:?} of processor time, other tests and the server included", cpu_since(cpu));
    assert!(count > 200, "{count}");
}

#[tokio::test]
async fn a_body_of_500_mb_is_cut_at_the_source() {
    let web = Web::start(|message, _| {
        if message["method"] != "tools/call" {
            return well(message, "one");
        }
        let id = &message["id"];
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"begin"#);
        let head = futures_util::stream::iter([Bytes::from(head)]);
        let middle = futures_util::stream::iter(std::iter::repeat_n(Bytes::from("x".repeat(1024 * 1024)), 500));
        let all = head.chain(middle).chain(futures_util::stream::iter([Bytes::from(r#"end"}]}}"#)]));
        ([("content-type", "application/json")], Body::from_stream(all.map(Ok::<_, Infallible>))).into_response()
    })
    .await;
    let server = connect(&http(endpoint(&web.url()))).await;
    let (before, begun) = (resident(), Instant::now());
    let result = call(&server, "giant", json!({})).await.unwrap();
    let (shown, grown) = (result.to_text(), resident().saturating_sub(before));
    println!(
        "row 29: of a body of 500 MB {} bytes are kept after {:?}, {} KiB more in memory",
        shown.len(),
        begun.elapsed(),
        grown / 1024
    );
    assert!(shown.starts_with("begin") && shown.contains("xend") && shown.len() <= 65_536 && grown < GROWN_MAX);
    assert!(result.cut.unwrap().bytes > 500 * 1024 * 1024);
}

#[tokio::test]
async fn a_dead_server_is_noticed_by_a_ping() {
    let web = Web::start(|message, _| well(message, "one")).await;
    let server = connect(&http(endpoint(&web.url()))).await;
    server.ping().await.unwrap();
    assert_eq!(names(&server).await, ["echo"]);
    server.close().await;
    assert!(server.ping().await.is_err());
}

#[tokio::test]
async fn any_server_can_be_tried_from_the_command_line() {
    let web = Web::start(|message, _| well(message, "one")).await;
    let run = |args: &[&str]| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_staffai"));
        command.arg("tools").args(args).args(["--server", &web.url()]).output()
    };
    let listed = run(&["list"]).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "echo: \n");
    let called = run(&["call", "echo", r#"{"text": "by hand"}"#]).await.unwrap();
    assert_eq!((String::from_utf8_lossy(&called.stdout).as_ref(), called.status.code()), ("by hand\n", Some(0)));
    assert_eq!(run(&["call", "echo", "no json"]).await.unwrap().status.code(), Some(64));
}
