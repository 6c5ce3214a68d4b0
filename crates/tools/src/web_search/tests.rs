//! The tool against local services that answer as the providers document it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use domain::tool::Effect;

const KEY: &str = "tvly-very-secret";

/// A request as received.
#[derive(Debug, Default)]
struct Seen {
    line: String,
    headers: HashMap<String, String>,
    body: String,
}

/// A service with one canned answer, and the requests it received.
struct Service {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Service {
    async fn start(answer: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<Seen>>>::default());
        let (answer, told) = (Arc::new(answer.into()), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&answer), Arc::clone(&told)));
            }
        });
        Self { port, seen }
    }

    async fn json(status: &str, body: &str) -> Self {
        Self::start(with(status, "", body)).await
    }

    fn row(&self, provider: &str) -> Row {
        let provider = Provider::find(provider).unwrap();
        Row {
            provider,
            url: format!("http://127.0.0.1:{}", self.port).parse().unwrap(),
            here: true,
            key: provider.needs_key().then(|| KEY.into()),
            engine: provider.engine.map(|_| "engine-1".to_owned()).unwrap_or_default(),
            model: provider.model.unwrap_or_default().to_owned(),
            timeout: Duration::from_secs(2),
        }
    }

    fn asked(&self) -> usize {
        self.seen.lock().len()
    }
}

fn with(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn serve(mut socket: TcpStream, answer: Arc<Vec<u8>>, told: Arc<Mutex<Vec<Seen>>>) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4_096]);
    let seen = loop {
        match socket.read(&mut piece).await {
            Ok(length) if length > 0 => bytes.extend_from_slice(&piece[..length]),
            _ => return,
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let mut lines = head.lines();
        let line = lines.next().unwrap_or_default().to_owned();
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            break Seen { line, headers, body: body.to_owned() };
        }
    };
    told.lock().push(seen);
    if answer.is_empty() {
        std::future::pending::<()>().await;
    }
    // A client that has read enough closes its end.
    let _ = socket.write_all(&answer).await;
    let _ = socket.shutdown().await;
}

async fn call(rows: Vec<Row>, query: &str) -> (String, bool) {
    ask(&WebSearch::new(rows), query).await
}

async fn ask(tool: &WebSearch, query: &str) -> (String, bool) {
    // Another test may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Value::Object(arguments) = json!({"query": query, "count": 2}) else { unreachable!() };
    let request = ToolRequest::new("web_search", arguments, Effect::Reads, Duration::from_secs(5));
    let result = tool.call(&request).await.unwrap();
    (result.to_text(), result.is_error)
}

const SEARXNG: &str = r#"{"query": "rust", "number_of_results": 0, "results": [
    {"url": "https://www.rust-lang.org/", "title": "Rust Programming Language", "content": "A language empowering  everyone.",
     "engine": "brave", "parsed_url": ["https", "www.rust-lang.org", "/", "", "", ""], "template": "default.html",
     "engines": ["brave"], "positions": [1], "score": 1.0, "category": "general"},
    {"url": "javascript:alert(1)", "title": "No page"},
    {"url": "https://www.rust-lang.org/", "title": "The same once more", "content": ""},
    {"url": "https://doc.rust-lang.org/", "title": "Docs"},
    {"url": "https://third.example/", "title": "Third"}],
    "answers": [], "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": [["google", "timeout"]]}"#;
const TAVILY: &str = r#"{"query": "rust", "follow_up_questions": null, "answer": null, "images": [], "results": [
    {"url": "https://www.rust-lang.org/", "title": "Rust Programming Language", "content": "A language empowering everyone.",
     "score": 0.98, "raw_content": null},
    {"url": "https://doc.rust-lang.org/", "title": "Docs", "content": "", "score": 0.9, "raw_content": null}],
    "response_time": 1.09, "request_id": "x"}"#;
const XAI: &str = r#"{"id": "r", "object": "response", "status": "completed", "model": "grok-4-fast", "output": [
    {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "rust"}},
    {"type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text",
     "text": "Rust is a language.[[1]](https://www.rust-lang.org/)", "logprobs": [], "annotations": [
       {"type": "url_citation", "url": "https://www.rust-lang.org/", "start_index": 19, "end_index": 53, "title": "1"},
       {"type": "url_citation", "url": "https://doc.rust-lang.org/", "title": "2"}]}]}],
    "usage": {"input_tokens": 1, "output_tokens": 1}}"#;
const GOOGLE: &str = r#"{"kind": "customsearch#search", "queries": {"request": [{"totalResults": "2"}]},
    "searchInformation": {"totalResults": "2"}, "items": [
    {"kind": "customsearch#result", "title": "Rust Programming Language", "htmlTitle": "<b>Rust</b>", "link": "https://www.rust-lang.org/",
     "displayLink": "www.rust-lang.org", "snippet": "A language empowering everyone."},
    {"kind": "customsearch#result", "title": "Docs", "link": "https://doc.rust-lang.org/"}]}"#;
const DUCKDUCKGO: &str = r#"{"Abstract": "Rust is a language.", "AbstractSource": "Wikipedia", "AbstractText": "Rust is a language.",
    "AbstractURL": "https://en.wikipedia.org/wiki/Rust_(programming_language)", "Answer": "", "AnswerType": "", "Definition": "",
    "Heading": "Rust (programming language)", "Image": "", "Redirect": "", "Results": [
      {"FirstURL": "https://www.rust-lang.org/", "Icon": {}, "Text": "Official site"}],
    "RelatedTopics": [{"Name": "Other", "Topics": [{"FirstURL": "https://duckduckgo.com/Cargo", "Icon": {}, "Text": "Cargo"}]}],
    "Type": "A", "meta": {}}"#;

#[tokio::test]
async fn each_provider_is_asked_and_read_as_it_is_documented() {
    let both = "1. Rust Programming Language\nhttps://www.rust-lang.org/\nA language empowering everyone.\n\n2. Docs\nhttps://doc.rust-lang.org/";
    let xai = "Rust is a language.[[1]](https://www.rust-lang.org/)\n\n1. 1\nhttps://www.rust-lang.org/\n\n2. 2\nhttps://doc.rust-lang.org/";
    let duck =
        "Rust is a language.\n\n1. Official site\nhttps://www.rust-lang.org/\n\n2. Cargo\nhttps://duckduckgo.com/Cargo";
    for (provider, answer, line, header, body, text) in [
        (
            "searxng",
            SEARXNG,
            "GET /search?q=caf%C3%A9+%26x%3D1&format=json&safesearch=1 HTTP/1.1",
            "",
            Value::Null,
            both,
        ),
        (
            "tavily",
            TAVILY,
            "POST /search HTTP/1.1",
            "authorization",
            json!({"query": "caf\u{e9} &x=1", "max_results": 2, "search_depth": "basic"}),
            both,
        ),
        (
            "xai",
            XAI,
            "POST /v1/responses HTTP/1.1",
            "authorization",
            json!({"model": "grok-4-fast", "input": [{"role": "user", "content": "caf\u{e9} &x=1"}],
                "tools": [{"type": "web_search"}], "store": false}),
            xai,
        ),
        (
            "google",
            GOOGLE,
            "GET /customsearch/v1?q=caf%C3%A9+%26x%3D1&cx=engine-1&num=2&safe=active HTTP/1.1",
            "x-goog-api-key",
            Value::Null,
            both,
        ),
        (
            "duckduckgo",
            DUCKDUCKGO,
            "GET /?q=caf%C3%A9+%26x%3D1&format=json&no_html=1&skip_disambig=1 HTTP/1.1",
            "",
            Value::Null,
            duck,
        ),
    ] {
        let service = Service::json("200 OK", answer).await;
        assert_eq!(call(vec![service.row(provider)], " caf\u{e9} &x=1 ").await, (text.to_owned(), false), "{provider}");
        let seen = service.seen.lock();
        assert_eq!((seen.len(), seen[0].line.as_str()), (1, line), "{provider}");
        assert_eq!(serde_json::from_str(&seen[0].body).unwrap_or(Value::Null), body, "{provider}");
        let key = seen[0].headers.get(header).map(|value| value.trim_start_matches("Bearer "));
        assert_eq!(key, (!header.is_empty()).then_some(KEY), "{provider}");
        assert!(!seen[0].line.contains(KEY), "a key is in no address");
    }
}

#[tokio::test]
async fn the_next_provider_is_asked_when_one_fails_or_finds_nothing() {
    let good = || Service::json("200 OK", SEARXNG);
    for (provider, answer) in [
        (
            "tavily",
            with("401 Unauthorized", "", r#"{"detail": {"error": "Unauthorized: missing or invalid API key."}}"#),
        ),
        (
            "tavily",
            with("432 Plan", "", r#"{"detail": {"error": "This request exceeds your plan's set usage limit."}}"#),
        ),
        (
            "google",
            with(
                "429 Too Many Requests",
                "",
                r#"{"error": {"code": 429, "message": "Quota exceeded for quota metric"}}"#,
            ),
        ),
        (
            "google",
            with("200 OK", "", r#"{"kind": "customsearch#search", "searchInformation": {"totalResults": "0"}}"#),
        ),
        ("xai", with("200 OK", "", r#"{"error": {"message": "the model is overloaded"}}"#)),
        ("searxng", with("403 Forbidden", "", "<!doctype html><title>403 Forbidden</title>")),
        ("searxng", with("200 OK", "", "<!doctype html><title>SearXNG</title>")),
        ("searxng", with("200 OK", "", "[]")),
        ("searxng", with("200 OK", "", &"[".repeat(100_000))),
        ("searxng", with("302 Found", "Location: http://127.0.0.1:1/\r\n", "")),
        ("duckduckgo", with("202 Accepted", "", "")),
        ("searxng", "garbage\r\n\r\n".to_owned()),
        ("searxng", with("200 OK", "", &format!("{{\"results\": \"{}\"}}", "x".repeat(2 * ANSWER_BYTES)))),
        ("searxng", String::new()),
    ] {
        let (first, second) = (Service::start(answer.clone()).await, good().await);
        let mut row = first.row(provider);
        row.timeout = Duration::from_millis(600);
        let (text, is_error) = call(vec![row, second.row("searxng")], "rust").await;
        let asked = (first.asked(), second.asked());
        assert!(!is_error && text.starts_with("1. Rust") && asked == (1, 1), "{provider}: {asked:?} {text}");
    }
}

#[tokio::test]
async fn a_failure_is_told_in_words_without_the_key() {
    let echoed = format!(r#"{{"detail": {{"error": "the key {KEY} is not known"}}}}"#);
    let denied = Service::json("401 Unauthorized", &echoed).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut away = denied.row("searxng");
    away.url = format!("http://127.0.0.1:{gone}").parse().unwrap();
    let (text, is_error) = call(vec![denied.row("tavily"), away], "rust").await;
    assert!(is_error, "{text}");
    assert!(
        text.starts_with(
            "the search failed (tavily: status 401: the key *** is not known; searxng: it cannot be reached"
        ),
        "{text}"
    );
    let many = format!(r#"{{"results": [{}0]}}"#, "0,".repeat(20_000));
    for (answer, why) in [(&*many, "has too many values"), ("<html>", "is not JSON"), ("[]", "is not as documented")] {
        let (text, is_error) = call(vec![Service::json("200 OK", answer).await.row("searxng")], "rust").await;
        assert_eq!((text, is_error), (format!("the search failed (searxng: its answer {why})"), true));
    }
    let empty = Service::json("200 OK", r#"{"results": []}"#).await;
    assert_eq!(call(vec![empty.row("searxng")], "rust").await, ("Nothing was found.".to_owned(), false));
    assert!(call(vec![empty.row("searxng")], "  ").await.1);
    let row = format!("{:?}", denied.row("tavily"));
    assert!(!row.contains(KEY), "{row}");
}

#[tokio::test]
async fn a_provider_that_had_enough_is_left_alone_as_long_as_it_asks() {
    let busy = Service::start(with("429 Too Many Requests", "Retry-After: 1\r\n", "{}")).await;
    let tool = WebSearch::new(vec![busy.row("searxng")]);
    for _ in 0..5 {
        let (text, is_error) = ask(&tool, "rust").await;
        assert!(is_error, "{text}");
    }
    assert_eq!(busy.asked(), 1);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let _ = ask(&tool, "rust").await;
    assert_eq!(busy.asked(), 2);
}

#[test]
fn what_is_shown_is_bounded() {
    let provider = Provider::find("searxng").unwrap();
    let item = |number: usize| json!({"url": format!("https://example.org/{number}"), "title": "\u{1}t\n".repeat(50_000), "content": "c ".repeat(50_000)});
    let answer = json!({"answers": [{"answer": "a".repeat(100_000)}], "results": (0..2_000).map(item).take(20).collect::<Vec<_>>()});
    let found = Found::read(provider, &answer, COUNT_MAX);
    assert_eq!(found.hits.len(), COUNT_MAX);
    assert!(found.shown().len() < 20_000, "{}", found.shown().len());
    assert!(!found.shown().contains('\u{1}'));
    let long = json!({"results": [{"url": format!("https://example.org/{}", "x".repeat(5_000)), "title": "t"}]});
    assert!(Found::read(provider, &long, 5).is_empty());
}

#[tokio::test]
async fn a_row_is_tried_by_what_costs_nothing_where_there_is_such_a_thing() {
    let service = Service::json("200 OK", r#"{"results": []}"#).await;
    for (provider, trial, line) in [
        ("tavily", Trial::LetsIn, "GET /usage "),
        ("xai", Trial::LetsIn, "GET /v1/models "),
        ("searxng", Trial::Found(0), "GET /search?"),
    ] {
        assert_eq!(try_out(service.row(provider)).await, Ok(trial), "{provider}");
        let seen = service.seen.lock();
        let asked = seen.last().unwrap();
        assert!(asked.line.starts_with(line), "{provider}: {}", asked.line);
        let bearer = asked.headers.get("authorization").is_some_and(|value| value.ends_with(KEY));
        assert_eq!(bearer, trial == Trial::LetsIn, "{provider}");
    }
    let closed = Service::json("401 Unauthorized", r#"{"detail": {"error": "no such key"}}"#).await;
    assert_eq!(try_out(closed.row("tavily")).await, Err("status 401: no such key".to_owned()));
}
