//! Tests of a real client over local sockets.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::*;
use crate::body::BLANK_RUN;
use crate::bounds::ANSWER_BYTES;
use crate::registry::{self, DefaultRow};
use domain::completion::{AnswerForm, Finish, Item, Role, ToolSpec, Usage, WrittenJson};
use ports::Delta;

mod responses;

const KEY: &str = "sk-canary-7f3a9b";
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

const ANSWER: &str = r#"{"choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],
    "usage":{"prompt_tokens":9,"completion_tokens":1}}"#;

fn client(model: &str, base_url: String, timeout: Duration) -> Client {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let default = DefaultRow { model: model.into(), base_url, key: Some(KEY.into()), timeout };
    Client::new(registry::build(None, &default, &|_| None).unwrap()).unwrap()
}

fn form() -> AnswerForm {
    AnswerForm { name: "n".into(), description: None, strict: Some(true), schema: json!({"type": "object"}) }
}

fn request() -> Request {
    let messages = vec![Item::new(Role::System, "be brief"), Item::new(Role::User, "hi")];
    Request { messages, ..Request::default() }
}

async fn ask(address: SocketAddr, timeout: Duration) -> Result<Completion, ModelError> {
    client("m", format!("http://{address}"), timeout).complete("m", &request()).await
}

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// A model that always sends this response.
async fn answering(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> SocketAddr {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap()))
        .collect();
    let reply = (StatusCode::from_u16(status).unwrap(), headers, body.into());
    serve(Router::new().route("/v1/chat/completions", post(move || async move { reply }))).await
}

/// A model that reads a request and then runs `behave` on the connection. Counts the connections.
async fn socket<F, T>(behave: F) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Fn(TcpStream) -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = connections.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
            let mut head = vec![0; 64 * 1024];
            assert!(stream.read(&mut head).await.unwrap() > 0);
            tokio::spawn(behave(stream));
        }
    });
    (address, connections)
}

#[tokio::test]
async fn one_exact_request_and_its_answer() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |headers: axum::http::HeaderMap, body: Bytes| async move {
        tell.send((headers, body)).unwrap();
        ANSWER
    };
    let address = serve(Router::new().route("/v1/chat/completions", post(handler))).await;
    let client = client("m", format!("http://{address}"), LONG);

    // Another order of keys, and numbers and fields without a counterpart in our types.
    let raw: Value = serde_json::from_str(
        r#"{"content":null,"provider":{"sig":"AbC=","n":[1,-2.5,1e-9]},"role":"assistant","tool_calls":[]}"#,
    )
    .unwrap();
    let mut request = request();
    request.messages.push(Item { raw: Some(raw.clone().into()), ..Item::new(Role::Assistant, "the view") });
    request.form = Some(Arc::new(form()));
    let completion = client.complete("m", &request).await.unwrap();

    let whole = Completion {
        content: "hello".into(),
        refusal: None,
        calls: Vec::new(),
        finish: Finish::Stop,
        hosted: domain::hosted::HostedUse::default(),
        usage: Usage { prompt: 9, completion: 1, cached: 0, estimated: false },
        raw: json!({"role": "assistant", "content": "hello"}).into(),
    };
    assert_eq!(completion, whole);
    let (headers, body) = told.recv().await.unwrap();
    let expected = concat!(
        r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},"#,
        r#"{"content":null,"provider":{"n":[1,-2.5,1e-9],"sig":"AbC="},"role":"assistant","tool_calls":[]}],"#,
        r#""temperature":0.7,"response_format":{"json_schema":{"name":"n","strict":true,"schema":{"type":"object"}},"type":"json_schema"}}"#
    );
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), serde_json::from_str::<Value>(expected).unwrap());
    assert!(String::from_utf8_lossy(&body).contains(&raw.to_string()));
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(headers["content-type"], "application/json");
    assert!(!headers.contains_key("openai-beta") && !headers.contains_key("openai-organization"));
}

#[tokio::test]
async fn an_echoed_answer_comes_back_unchanged() {
    let message = r#"{"content":null,"extra":{"google":{"thought_signature":"x+/="}},"role":"assistant","tool_calls":[{"function":{"arguments":"{\"a\": 1}","name":"f"},"id":"c1"}],"zebra":true}"#;
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |body: Bytes| async move {
        tell.send(body).unwrap();
        format!(r#"{{"choices":[{{"message":{message}}}]}}"#)
    };
    let address = serve(Router::new().route("/v1/chat/completions", post(handler))).await;
    let client = client("m", format!("http://{address}"), LONG);
    let answer = client.complete("m", &request()).await.unwrap();
    told.recv().await.unwrap();

    let mut again = request();
    again.messages.push(Item::echo(&answer));
    client.complete("m", &again).await.unwrap();
    let sent = told.recv().await.unwrap();
    assert!(String::from_utf8_lossy(&sent).contains(message));
}

#[tokio::test]
async fn a_row_without_temperature_and_key_sends_neither() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |headers: axum::http::HeaderMap, body: Bytes| async move {
        tell.send((headers, body)).unwrap();
        ANSWER
    };
    let address = serve(Router::new().route("/v1/chat/completions", post(handler))).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let text = format!(r#"{{"models": {{"local": {{"model_id": "qwen", "host": "http://{address}/v1"}}}}}}"#);
    let default = DefaultRow {
        model: "local".into(),
        base_url: "http://127.0.0.1:1".into(),
        key: Some(KEY.into()),
        timeout: LONG,
    };
    let file = registry::File { path: "models.json", text: &text };
    let client = Client::new(registry::build(Some(file), &default, &|_| None).unwrap()).unwrap();
    client.complete("local", &request()).await.unwrap();

    let (headers, body) = told.recv().await.unwrap();
    assert!(!headers.contains_key("authorization"));
    let expected =
        r#"{"model":"qwen","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}"#;
    assert_eq!(String::from_utf8_lossy(&body), expected);
}

#[tokio::test]
async fn each_status_has_its_kind() {
    let plain = r#"{"error": {"message": "no", "type": "t", "code": null}}"#;
    let lite = r#"{"error": {"message": "litellm.BadRequestError: litellm.ContextWindowExceededError: too long", "type": null, "code": "400"}}"#;
    let openai =
        r#"{"error": {"message": "Too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}"#;
    let vllm = r#"{"object": "error", "message": "This model's maximum context length is 4096 tokens", "code": 400}"#;
    for (status, body, kind, message) in [
        (400, plain, ModelErrorKind::BadRequest, "status 400: t: no"),
        (
            400,
            r#"{"error": {"message": "No connected db.", "type": "no_db_connection", "code": "400"}}"#,
            ModelErrorKind::Refused,
            "status 400: 400: No connected db.",
        ),
        (
            400,
            r#"{"error": {"message": "litellm.ContentPolicyViolationError: no", "type": null, "code": "400"}}"#,
            ModelErrorKind::Filtered,
            "status 400: 400: litellm.ContentPolicyViolationError: no",
        ),
        (501, plain, ModelErrorKind::Unsupported, "status 501: t: no"),
        (
            400,
            lite,
            ModelErrorKind::ContextOverflow,
            "status 400: 400: litellm.BadRequestError: litellm.ContextWindowExceededError: too long",
        ),
        (400, openai, ModelErrorKind::ContextOverflow, "status 400: context_length_exceeded: Too long"),
        (
            400,
            vllm,
            ModelErrorKind::ContextOverflow,
            "status 400: 400: This model's maximum context length is 4096 tokens",
        ),
        (401, plain, ModelErrorKind::Refused, "status 401: t: no"),
        (402, plain, ModelErrorKind::OutOfQuota, "status 402: t: no"),
        (
            429,
            r#"{"error": {"message": "no credit", "code": "insufficient_quota"}}"#,
            ModelErrorKind::OutOfQuota,
            "status 429: insufficient_quota: no credit",
        ),
        (
            403,
            "<html>\n<b>forbidden</b>\n</html>",
            ModelErrorKind::Refused,
            "status 403: <html> <b>forbidden</b> </html>",
        ),
        (404, r#"{"error": "model \"m\" not found"}"#, ModelErrorKind::Refused, "status 404: model \"m\" not found"),
        (408, plain, ModelErrorKind::Timeout, "status 408: t: no"),
        (
            422,
            r#"{"detail": [{"msg": "field required", "type": "missing"}]}"#,
            ModelErrorKind::BadRequest,
            "status 422: missing: field required",
        ),
        (429, plain, ModelErrorKind::RateLimited, "status 429: t: no"),
        (500, "", ModelErrorKind::Provider, "status 500:"),
        (
            503,
            r#"[{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}]"#,
            ModelErrorKind::Provider,
            "status 503: 503: overloaded",
        ),
        (529, plain, ModelErrorKind::Provider, "status 529: t: no"),
        (307, "", ModelErrorKind::BadRequest, "status 307: redirects are not followed"),
    ] {
        let address = answering(status, &[("location", "http://127.0.0.1:1/")], body).await;
        let error = ask(address, LONG).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str(), error.retry_after), (kind, message, None));
    }
}

#[tokio::test]
async fn the_wish_to_wait_is_kept() {
    for (status, header, value, seconds) in [
        (429, "retry-after", "7", 7),
        (429, "llm_provider-retry-after", "11", 11),
        (503, "retry-after", "Fri, 20 Nov 2026 10:00:42 GMT", 42),
    ] {
        let address = answering(status, &[(header, value), ("date", "Fri, 20 Nov 2026 10:00:00 GMT")], "{}").await;
        assert_eq!(
            ask(address, LONG).await.unwrap_err().retry_after,
            Some(Duration::from_secs(seconds)),
            "{header}: {value}"
        );
    }
}

#[tokio::test]
async fn an_error_s_body_that_hangs_does_not_hide_its_status() {
    let (address, _) = socket(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 429 X\r\nretry-after: 5\r\ncontent-length: 100\r\n\r\nslow ").await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let error = ask(address, LONG).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ModelErrorKind::RateLimited, "status 429: slow"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(5)));
}

#[tokio::test]
async fn what_goes_to_the_log_quotes_nobody() {
    let quoting = |code: &str| {
        let words = r#"{"error": {"message": "cannot answer 'my diary'", "code": "CODE"}}"#;
        words.replace("CODE", code)
    };
    let streamed = "data: {\"error\": {\"message\": \"my diary\", \"code\": 500}}\n\n";
    let head = [("content-type", "text/event-stream")];
    for (status, body, safe_message) in [
        (401, quoting("invalid_api_key"), "status 401: invalid_api_key"),
        (400, quoting("my diary is long"), "status 400"),
        (500, "my diary".to_owned(), "status 500"),
        (200, quoting("server_error"), "an error inside a successful answer: server_error"),
        (200, "my diary".to_owned(), "the answer is not usable JSON: expected value at line 1 column 1"),
    ] {
        let error = ask(answering(status, &[], body).await, LONG).await.unwrap_err();
        assert_eq!(error.safe_message, safe_message);
        assert!(!error.to_string().contains("diary"), "{error}");
    }
    let client = client("m", format!("http://{}", answering(200, &head, streamed).await), LONG);
    let error = client.stream("m", &request(), sink().0).await.unwrap_err();
    assert_eq!(error.safe_message, "an error inside the stream: 500");
    assert!(error.message.contains("my diary"), "{}", error.message);
}

#[tokio::test]
async fn a_success_that_is_none() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let deep_inside = format!(r#"{{"choices":[{{"message":{{"content":{deep}}}}}]}}"#);
    let number = format!(r#"{{"choices":[{{"message":{{"content":"a"}}}}],"usage":{}}}"#, "9".repeat(1_000_000));
    for (body, kind) in [
        (r#"{"error": {"message": "upstream cut", "code": 500}}"#, ModelErrorKind::Provider),
        (r#"{"choices": [{"error": {"message": "cut"}}]}"#, ModelErrorKind::Provider),
        ("<html>login</html>", ModelErrorKind::Malformed),
        ("", ModelErrorKind::Malformed),
        ("data: {\"choices\": []}\n\ndata: [DONE]\n\n", ModelErrorKind::Malformed),
        (&ANSWER[..ANSWER.len() - 1], ModelErrorKind::Malformed),
        (r#"{"choices": null}"#, ModelErrorKind::Malformed),
        ("[1, 2]", ModelErrorKind::Malformed),
        (&deep_inside, ModelErrorKind::Malformed),
        (&number, ModelErrorKind::Malformed),
    ] {
        let address = answering(200, &[], body.to_owned()).await;
        let error = ask(address, LONG).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.len() < 200, "{error}");
    }
}

#[tokio::test]
async fn odd_but_usable_answers() {
    let parts = r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"finish_reason":"weird"}]}"#;
    let completion = ask(answering(200, &[], parts).await, LONG).await.unwrap();
    assert_eq!((completion.content.as_str(), completion.finish), ("ab", Finish::Other("weird".into())));
    // "be brief" and "hi" are ten characters.
    assert_eq!(completion.usage, Usage { prompt: 3, completion: 1, cached: 0, estimated: true });

    let refusal = r#"{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}],"usage":{"prompt_tokens":-1,"completion_tokens":1000000000000}}"#;
    let completion = ask(answering(200, &[], refusal).await, LONG).await.unwrap();
    assert_eq!((completion.content.as_str(), completion.refusal.as_deref()), ("", Some("no")));
    assert!(completion.usage.estimated && completion.usage.prompt == 3, "{:?}", completion.usage);

    // Proxies send white space before the answer to keep a slow call alive.
    let padded = "\n".repeat(1000) + ANSWER;
    assert_eq!(ask(answering(200, &[], padded).await, LONG).await.unwrap().content, "hello");
}

#[tokio::test]
async fn silence_ends_with_the_row_s_timeout_wherever_it_begins() {
    for beginning in
        ["", "HTTP/1.1 200 OK\r\ncontent-le", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\":"]
    {
        let (address, connections) = socket(move |mut stream| async move {
            stream.write_all(beginning.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        })
        .await;
        let start = Instant::now();
        let error = ask(address, SHORT).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ModelErrorKind::Timeout, "no complete answer within 0.3 s"));
        assert!(start.elapsed() >= SHORT && start.elapsed() < LONG / 2, "{:?}", start.elapsed());
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    }
}

/// A model that streams these pieces, each after a pause, and then sends nothing.
async fn streaming(pieces: Vec<(Duration, String)>) -> SocketAddr {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let (address, _) = socket(move |mut stream| {
        let pieces = pieces.clone();
        async move {
            stream.write_all(head.as_bytes()).await.unwrap();
            for (pause, piece) in pieces {
                tokio::time::sleep(pause).await;
                if stream.write_all(piece.as_bytes()).await.is_err() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        }
    })
    .await;
    address
}

fn said(text: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

/// Returns the streamed text that a client with timeout [`SHORT`] receives, and the result.
async fn hears(address: SocketAddr) -> (String, Result<Completion, ModelError>) {
    let heard = Arc::new(Mutex::new(String::new()));
    let told = Arc::clone(&heard);
    let sink: DeltaSink = Arc::new(move |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            told.lock().push_str(text);
        }
    });
    let result = client("m", format!("http://{address}"), SHORT).stream("m", &request(), sink).await;
    let heard = heard.lock().clone();
    (heard, result)
}

#[tokio::test]
async fn a_stream_is_read_as_long_as_it_writes() {
    let mut pieces = vec![(SHORT / 3, said("tick ")); 12];
    pieces.push((
        SHORT / 3,
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".into(),
    ));
    let begun = Instant::now();
    let (heard, result) = hears(streaming(pieces).await).await;
    assert_eq!((heard, result.unwrap().finish), ("tick ".repeat(12), Finish::Stop));
    assert!(begun.elapsed() > SHORT * 3, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stream_that_stands_still_ends_after_the_row_s_timeout_however_it_is_kept_alive() {
    let alive = vec![(SHORT / 6, ": ping\n\n".to_owned()); 60];
    let empty = vec![(SHORT / 6, said("")); 60];
    for keeps_alive in [Vec::new(), alive, empty] {
        for begins in [vec![], vec![(Duration::ZERO, said("Hel"))]] {
            let text = if begins.is_empty() { "" } else { "Hel" };
            let (begun, pieces) = (Instant::now(), [begins, keeps_alive.clone()].concat());
            let (heard, result) = hears(streaming(pieces).await).await;
            let error = result.unwrap_err();
            assert_eq!((heard.as_str(), error.kind), (text, ModelErrorKind::Timeout), "{error}");
            assert_eq!(error.message, "no data for 0.3 s");
            assert!(begun.elapsed() >= SHORT && begun.elapsed() < SHORT * 5, "{:?}", begun.elapsed());
        }
    }
}

#[tokio::test]
async fn a_trickle_does_not_outlive_the_timeout() {
    let (address, _) = socket(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{").await.unwrap();
        while stream.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(ask(address, SHORT).await.unwrap_err().kind, ModelErrorKind::Timeout);
}

#[tokio::test]
async fn broken_connections_are_not_tried_again() {
    for beginning in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\":",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"cho",
    ] {
        for reset in [false, true] {
            let (address, connections) = socket(move |mut stream| async move {
                stream.write_all(beginning.as_bytes()).await.unwrap();
                if reset {
                    stream.set_zero_linger().unwrap();
                }
            })
            .await;
            let error = ask(address, LONG).await.unwrap_err();
            assert!(error.kind == ModelErrorKind::Connection && !error.unreached, "{error}");
            assert!(!error.message.contains(&address.to_string()), "{error}");
            assert_eq!(connections.load(Ordering::SeqCst), 1);
        }
    }
}

#[tokio::test]
async fn an_address_without_a_server_is_not_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = ask(address, LONG).await.unwrap_err();
    assert!(error.kind == ModelErrorKind::Connection && error.unreached);
    assert!(error.message.starts_with("no connection: "), "{error}");
}

#[tokio::test]
async fn tls_that_is_none() {
    let (address, _) =
        socket(|mut stream| async move { stream.write_all(b"HTTP/1.1 400 no TLS here\r\n\r\n").await.unwrap() }).await;
    let error = client("m", format!("https://{address}"), LONG).complete("m", &request()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Connection, "{error}");
}

/// Sends `head` and then `filler` without end; reports the bytes sent before the client closed the connection.
async fn flood(head: &'static str, filler: &[u8]) -> (SocketAddr, mpsc::UnboundedReceiver<usize>) {
    let filler: Arc<[u8]> = filler.into();
    let (tell, told) = mpsc::unbounded_channel();
    let (address, _) = socket(move |mut stream| {
        let (tell, filler) = (tell.clone(), filler.clone());
        async move {
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut sent = 0;
            while stream.write_all(&filler).await.is_ok() {
                sent += filler.len();
            }
            tell.send(sent).unwrap();
        }
    })
    .await;
    (address, told)
}

#[tokio::test]
async fn giant_answers_are_given_up_early() {
    // The capacity of both socket buffers beyond what was read.
    const BUFFERS: usize = 16 * 1024 * 1024;
    let endless = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"a\":\"";
    let announced = "HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n{\"a\":\"";
    let too_large = format!("the answer is larger than {ANSWER_BYTES} bytes");
    let blanks = format!("more than {BLANK_RUN} blanks in a row in the answer");
    let (large, malformed) = (ModelErrorKind::TooLarge, ModelErrorKind::Malformed);
    for (head, filler, kind, message, most) in [
        (endless, &[b'a'; 1024], large, &too_large, ANSWER_BYTES + BUFFERS),
        (announced, &[b'a'; 1024], large, &too_large, BUFFERS),
        (endless, &[b' '; 1024], malformed, &blanks, BLANK_RUN + BUFFERS),
        (endless, &std::array::from_fn(|place| b"\\n"[place % 2]), malformed, &blanks, BLANK_RUN + BUFFERS),
    ] {
        let (address, mut told) = flood(head, filler).await;
        let error = ask(address, LONG).await.unwrap_err();
        assert_eq!((error.kind, &error.message), (kind, message));
        let sent = told.recv().await.unwrap();
        assert!(sent < most, "{sent} bytes were taken");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_many_small_values_is_refused_before_it_is_parsed() {
    let tree = "[0],".repeat(900_000);
    let whole = format!(
        r#"{{"choices":[{{"message":{{"role":"assistant","content":"hello","extra":[{tree}0]}},"finish_reason":"stop"}}]}}"#
    );
    let address = answering(200, &[], whole).await;
    let client = client("m", format!("http://{address}"), LONG);
    let expected = (ModelErrorKind::TooLarge, "the answer has more than 65536 values");
    let error = client.complete("m", &request()).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), expected);
    let error = client.stream("m", &request(), sink().0).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), expected, "plain JSON where a stream was asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_is_read_and_its_echo_shares_its_text() {
    let thought = "thinking, ".repeat(100_000);
    let whole = format!(
        r#"{{"choices":[{{"message":{{"role":"assistant","content":"hello","thought":"{thought}"}},"finish_reason":"stop"}}]}}"#
    );
    let client = client("m", format!("http://{}", answering(200, &[], whole).await), LONG);
    // More in sum than the memory of all answers, which each gives back.
    for _ in 0..80 {
        let answer = client.complete("m", &request()).await.unwrap();
        assert_eq!(answer.raw.to_value()["thought"], thought);
        let echo = Item::echo(&answer);
        assert!(std::ptr::eq(echo.raw.unwrap().as_str(), answer.raw.as_str()));
    }
}

#[tokio::test]
async fn a_giant_error_is_cut() {
    let (address, _) = flood("HTTP/1.1 500 X\r\nconnection: close\r\n\r\n", &[b'x'; 1024]).await;
    let error = ask(address, LONG).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Provider);
    assert!(error.message.chars().count() < 600, "{}", error.message.len());
}

#[tokio::test]
async fn the_key_shows_nowhere() {
    let echo = |status: StatusCode, wrap: fn(&str) -> String| {
        post(
            move |headers: axum::http::HeaderMap| async move { (status, wrap(headers["authorization"].to_str().unwrap())) },
        )
    };
    for (status, wrap) in [
        (
            StatusCode::UNAUTHORIZED,
            (|key| format!(r#"{{"error": {{"message": "incorrect key: {key}", "code": "{key}"}}}}"#))
                as fn(&str) -> String,
        ),
        (StatusCode::INTERNAL_SERVER_ERROR, |key| format!("headers were {key}")),
        // The truncation point of long messages is inside the key.
        (StatusCode::BAD_REQUEST, |key| format!("{}{key}", "x".repeat(470))),
        (StatusCode::OK, |key| format!(r#"{{"error": "{key}"}}"#)),
        (StatusCode::OK, |key| format!("not JSON: {key}")),
    ] {
        let address = serve(Router::new().route("/v1/chat/completions", echo(status, wrap))).await;
        let client = client("m", format!("http://{address}"), LONG);
        let error = client.complete("m", &request()).await.unwrap_err();
        let shown = format!("{error} {error:?} {client:?}");
        assert!(!shown.contains(&KEY[..9]), "{shown}");
    }
}

#[tokio::test]
async fn a_row_that_does_not_exist() {
    let client = client("m", "http://127.0.0.1:1".into(), LONG);
    assert_eq!(client.complete("ghost", &request()).await.unwrap_err().kind, ModelErrorKind::BadRequest);
}

#[tokio::test]
async fn many_at_once() {
    let client = Arc::new(client("m", format!("http://{}", answering(200, &[], ANSWER).await), LONG));
    let calls = (0..64).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.complete("m", &request()).await })
    });
    for call in futures_util::future::join_all(calls).await {
        assert_eq!(call.unwrap().unwrap().content, "hello");
    }
}

fn sink() -> (DeltaSink, Arc<Mutex<String>>) {
    let heard = Arc::new(Mutex::new(String::new()));
    let told = Arc::clone(&heard);
    let sink = move |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            told.lock().push_str(text);
        }
    };
    (Arc::new(sink), heard)
}

#[tokio::test]
async fn a_stream_is_heard_while_it_grows_over_a_real_socket() {
    let (address, _) = socket(|mut stream| async move {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let text = r#"data: {"choices":[{"index":0,"delta":{"content":"hel"}}]}"#;
        stream.write_all(format!("{head}{text}\n\n").as_bytes()).await.unwrap();
        let rest = r#"data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}"#;
        stream.write_all(format!("{rest}\n\ndata: [DONE]\n\n").as_bytes()).await.unwrap();
    })
    .await;
    let (tell, heard) = sink();
    let answer = client("m", format!("http://{address}"), LONG).stream("m", &request(), tell).await.unwrap();
    assert_eq!((answer.content.as_str(), heard.lock().as_str()), ("hello", "hello"));
}

#[tokio::test]
async fn a_connection_is_kept_whose_end_comes_after_the_closing_mark() {
    let (ends, reused) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (end, used) = (ends.clone(), reused.clone());
    let (address, _) = socket(move |mut stream| {
        let (end, used) = (end.clone(), used.clone());
        async move {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = r#"{"choices":[{"delta":{"content":"hello"},"finish_reason":"stop"}]}"#;
            let text = format!("data: {chunk}\n\ndata: [DONE]\n\n");
            loop {
                stream.write_all(format!("{head}{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.unwrap();
                end.acquire().await.unwrap().forget();
                stream.write_all(b"0\r\n\r\n").await.unwrap();
                if !stream.read(&mut vec![0; 64 * 1024]).await.is_ok_and(|bytes| bytes > 0) {
                    return;
                }
                used.fetch_add(1, Ordering::SeqCst);
            }
        }
    })
    .await;
    let client = client("m", format!("http://{address}"), LONG);
    // A race decides if a connection is pooled before the next request; only never reusing one is a defect.
    for _ in 0..100 {
        let answer = client.stream("m", &request(), sink().0).await.unwrap();
        assert_eq!(answer.content, "hello");
        ends.add_permits(1);
        if reused.load(Ordering::SeqCst) > 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("no connection was used again");
}

#[tokio::test]
async fn a_stream_that_stands_still_or_breaks_is_named() {
    for (stands, kind) in [(true, ModelErrorKind::Timeout), (false, ModelErrorKind::Connection)] {
        let (address, _) = socket(move |mut stream| async move {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            let text = "data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\n";
            stream.write_all(format!("{head}{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.unwrap();
            if stands {
                std::future::pending::<()>().await;
            }
        })
        .await;
        let (tell, heard) = sink();
        let timeout = if stands { SHORT } else { LONG };
        let error = client("m", format!("http://{address}"), timeout).stream("m", &request(), tell).await.unwrap_err();
        assert_eq!((error.kind, heard.lock().as_str()), (kind, "hel"), "{error}");
    }
}

#[tokio::test]
async fn what_a_provider_refuses_and_we_can_do_without_is_left_out_for_a_while() {
    for (status, part, words) in [
        (400, "stream", "Streaming is not supported"),
        (422, "stream", "stream_options: extra fields"),
        (501, "stream", "no stream"),
        (400, "response_format", "This response_format type is unavailable now"),
        (400, "response_format", "json_validate_failed: no json"),
        (400, "temperature", "Unsupported value: 'temperature' does not support 0.5 with this model."),
    ] {
        let (tell, mut told) = mpsc::unbounded_channel();
        let handler = move |body: Bytes| async move {
            let there = serde_json::from_slice::<Value>(&body).unwrap().get(part).is_some();
            tell.send(there).unwrap();
            let refusal = json!({"error": {"message": words}}).to_string();
            let status = StatusCode::from_u16(status).unwrap();
            if there { (status, refusal) } else { (StatusCode::OK, ANSWER.to_owned()) }
        };
        let address = serve(Router::new().route("/v1/chat/completions", post(handler))).await;
        let client = warm(format!("http://{address}"));
        let formed = Request { form: Some(Arc::new(form())), ..request() };
        for _ in 0..2 {
            assert_eq!(client.stream("m", &formed, sink().0).await.unwrap().content, "hello", "{words}");
        }
        assert_eq!(client.complete("m", &formed).await.unwrap().content, "hello", "{words}");
        let asked = std::iter::from_fn(|| told.try_recv().ok()).collect::<Vec<bool>>();
        assert_eq!(asked, [true, false, false, false], "{words}");

        let fresh = warm(format!("http://{address}"));
        assert_eq!(fresh.complete("m", &formed).await.unwrap().content, "hello", "{words}");
        assert_eq!(fresh.exact().complete("m", &formed).await.is_err(), part != "stream", "{words}");
    }
}

#[tokio::test]
async fn that_tools_are_refused_is_told_at_once_and_remembered_for_a_while() {
    for (status, words, refused) in [
        (400, "registry.ollama.ai/library/m does not support tools", true),
        (400, "\"auto\" tool choice requires --enable-auto-tool-choice", true),
        (404, "No endpoints found that support tool use", true),
        (400, "the moon is full", false),
    ] {
        let handler = move || async move {
            (StatusCode::from_u16(status).unwrap(), json!({"error": {"message": words}}).to_string())
        };
        let address = serve(Router::new().route("/v1/chat/completions", post(handler))).await;
        let client = client("m", format!("http://{address}"), LONG);
        assert!(client.takes_tools("m"));
        let tool = ToolSpec {
            name: "roll".into(),
            description: "Rolls.".into(),
            parameters: WrittenJson::new(&json!({"type": "object"})),
        };
        let plain = client.complete("m", &request()).await.unwrap_err();
        assert!(plain.kind != ModelErrorKind::ToolsRefused && client.takes_tools("m"), "none were sent: {words}");
        let offering = Request { tools: vec![Arc::new(tool)], ..request() };
        let error = client.complete("m", &offering).await.unwrap_err();
        assert_eq!(
            (error.kind == ModelErrorKind::ToolsRefused, !client.takes_tools("m")),
            (refused, refused),
            "{words}"
        );
    }
}

/// A client whose model has a temperature.
fn warm(base_url: String) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let text = r#"{"models": {"m": {"temperature": 0.5}}}"#;
    let default = DefaultRow { model: "m".into(), base_url, key: None, timeout: LONG };
    let file = registry::File { path: "models.json", text };
    Client::new(registry::build(Some(file), &default, &|_| None).unwrap()).unwrap()
}

#[tokio::test]
async fn what_is_refused_upstream_is_not_asked_for_in_one_piece() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move || async move {
        tell.send(()).unwrap();
        (StatusCode::BAD_REQUEST, json!({"error": {"message": "Upstream says no"}}).to_string())
    };
    let address = serve(Router::new().route("/v1/chat/completions", post(handler))).await;
    let error = client("m", format!("http://{address}"), LONG).stream("m", &request(), sink().0).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    assert!(told.try_recv().is_ok() && told.try_recv().is_err());
}

#[tokio::test]
async fn a_row_that_says_no_is_never_asked_to_stream() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |body: Bytes| async move {
        tell.send(serde_json::from_slice::<Value>(&body).unwrap()).unwrap();
        ANSWER
    };
    let address = serve(Router::new().route("/v1/chat/completions", post(handler))).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let text = format!(r#"{{"models": {{"local": {{"host": "http://{address}/v1", "stream": false}}}}}}"#);
    let base_url = "http://127.0.0.1:1".into();
    let default = DefaultRow { model: "local".into(), base_url, key: None, timeout: LONG };
    let file = registry::File { path: "models.json", text: &text };
    let client = Client::new(registry::build(Some(file), &default, &|_| None).unwrap()).unwrap();
    client.stream("local", &request(), sink().0).await.unwrap();
    let body = told.recv().await.unwrap();
    assert!(body.get("stream").is_none() && body.get("stream_options").is_none(), "{body}");
}

#[tokio::test]
async fn a_model_that_knows_the_limit_of_tokens_by_its_other_name_gets_that() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |body: Bytes| async move {
        let body = serde_json::from_slice::<Value>(&body).unwrap();
        let refused = body.get("max_tokens").is_some();
        tell.send((body.get("max_tokens").cloned(), body.get("max_completion_tokens").cloned())).unwrap();
        let words = "Unsupported parameter: 'max_tokens' is not supported with this model.";
        let refusal = json!({"error": {"message": words}}).to_string();
        if refused { (StatusCode::BAD_REQUEST, refusal) } else { (StatusCode::OK, ANSWER.to_owned()) }
    };
    let address = serve(Router::new().route("/v1/chat/completions", post(handler))).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let text = r#"{"models": {"m": {"max_tokens": 700}}}"#;
    let default = DefaultRow { model: "m".into(), base_url: format!("http://{address}"), key: None, timeout: LONG };
    let file = registry::File { path: "models.json", text };
    let client = Client::new(registry::build(Some(file), &default, &|_| None).unwrap()).unwrap();
    for _ in 0..2 {
        assert_eq!(client.complete("m", &request()).await.unwrap().content, "hello");
    }
    let asked: Vec<_> = std::iter::from_fn(|| told.try_recv().ok()).collect();
    let most = || Some(json!(700));
    assert_eq!(asked, [(most(), None), (None, most()), (None, most())]);
}
