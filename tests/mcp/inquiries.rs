//! Servers over HTTP that send requests to the client.

use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use domain::tool::CallErrorKind;
use futures_util::StreamExt;
use http::StatusCode;
use parking_lot::Mutex;
use ports::tools::{Endpoint, HttpProtocol};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{GROWN_MAX, call, connect, endpoint, eventually, http, resident, text, try_connect};
use crate::web::{Web, events, well};

/// Requests to the client, without end.
fn requests() -> impl futures_util::Stream<Item = String> {
    let ask = |n: u32| {
        let method = ["ping", "sampling/createMessage", "roots/list", "elicitation/create"][n as usize % 4];
        format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": format!("q{n}"), "method": method, "params": {}}))
    };
    let piece: String = (0..200).map(ask).collect();
    futures_util::stream::repeat(piece)
}

#[tokio::test]
async fn a_server_that_floods_us_with_requests_over_http_is_disconnected_and_fills_no_memory() {
    // On the notification stream, and in the response to a call.
    for within_call in [false, true] {
        let web = Web::start(move |message, _| match message["method"].as_str() {
            None if message.is_null() && !within_call => events(requests()),
            None if message["result"].is_object() || message["error"].is_object() => {
                StatusCode::ACCEPTED.into_response()
            }
            Some("tools/call") if within_call => events(requests()),
            _ => well(message, "one"),
        })
        .await;
        let before = resident();
        let server = connect(&http(endpoint(&web.url()))).await;
        if within_call {
            let error = call(&server, "echo", json!({})).await.unwrap_err();
            assert_eq!(error.kind, CallErrorKind::Lost, "{error}");
        }
        let why = timeout(Duration::from_secs(10), server.closed()).await.expect("it is disconnected");
        let (grown, replies) = (resident().saturating_sub(before), web.seen.lock().len());
        println!("a flood over HTTP: {replies} requests reached the server, {} KiB more: {why}", grown / 1024);
        assert!(why.contains("requests") && why.contains("was disconnected"), "{why}");
        assert!(replies < 200 && grown < GROWN_MAX, "{replies} {grown}");
    }
}

#[tokio::test]
async fn a_server_that_floods_us_over_http_with_what_was_not_asked_for_is_disconnected() {
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
    let notice = format!("data: {notice}\n\n");
    for flood in [&*notice, ": x\n", "\n", "id: 7\n\n", "retry: 1\n\n", "event: other\ndata: x\n\n", "data: x\n"] {
        let piece = flood.repeat(32 * 1024 / flood.len());
        // On the notification stream, and in the response to a call.
        for within_call in [false, true] {
            // Data in the response to a call is bounded by its deadline.
            if within_call && flood == "data: x\n" {
                continue;
            }
            let piece = piece.clone();
            let endless = move || events(futures_util::stream::repeat(piece.clone()));
            let web = Web::start(move |message, _| match message["method"].as_str() {
                None if message.is_null() && !within_call => endless(),
                Some("tools/call") if within_call => endless(),
                _ => well(message, "one"),
            })
            .await;
            let before = resident();
            let server = connect(&http(endpoint(&web.url()))).await;
            if within_call {
                let error = call(&server, "echo", json!({})).await.unwrap_err();
                assert_eq!(error.kind, CallErrorKind::Lost, "{error}");
            }
            let why = timeout(Duration::from_secs(30), server.closed()).await.expect("it is disconnected");
            assert!(why.contains("without being asked and was disconnected"), "{flood:?} {within_call}: {why}");
            let grown = resident().saturating_sub(before);
            assert!(grown < GROWN_MAX, "{flood:?}: {grown}");
        }
    }
}

#[tokio::test]
async fn a_server_that_floods_us_with_requests_over_sse_is_disconnected() {
    let (say, hear) = tokio::sync::mpsc::unbounded_channel::<Value>();
    let hear = Mutex::new(Some(hear));
    let web = Web::start(move |message, _| {
        if message.is_null() {
            let Some(mut hear) = hear.lock().take() else { return StatusCode::CONFLICT.into_response() };
            let first = futures_util::stream::iter(["event: endpoint\ndata: /say\n\n".to_owned()]);
            let answers = one_event(async move { hear.recv().await });
            return events(first.chain(answers).chain(requests()));
        }
        if message["method"] == "initialize" {
            let about = json!({"name": "sse", "version": "1"});
            let result = json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": about});
            say.send(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).unwrap();
        }
        StatusCode::ACCEPTED.into_response()
    })
    .await;
    let entry = http(Endpoint { protocol: HttpProtocol::Sse, ..endpoint(&web.url()) });
    let why = match try_connect(&entry).await {
        Ok(server) => timeout(Duration::from_secs(10), server.closed()).await.expect("it is disconnected"),
        Err(error) => error.to_string(),
    };
    assert!(why.contains("requests") && why.contains("was disconnected"), "{why}");
    assert!(web.seen.lock().len() < 200);
}

fn one_event(
    answer: impl Future<Output = Option<Value>> + Send + 'static,
) -> impl futures_util::Stream<Item = String> + Send {
    futures_util::stream::once(answer).map(|answer| format!("data: {}\n\n", answer.unwrap_or_default()))
}

#[tokio::test]
async fn a_request_of_a_server_over_http_is_answered_within_its_session() {
    let answered = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&answered);
    let web = Web::start(move |message, headers| {
        if message.is_null() {
            let ask = |id: &str, method: &str| format!("data: {}\n\n", json!({"id": id, "method": method}));
            return events(futures_util::stream::iter([ask("p", "ping"), ask("r", "roots/list")]));
        }
        if message["method"].is_null() {
            let session = headers.get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
            heard.lock().push((message["id"].clone(), message["error"]["code"].clone(), session));
            return StatusCode::ACCEPTED.into_response();
        }
        well(message, "one")
    })
    .await;
    let server = connect(&http(endpoint(&web.url()))).await;
    eventually("both requests are answered", || answered.lock().len() == 2).await;
    let session = Some("one".to_owned());
    let expected = [(json!("p"), Value::Null, session.clone()), (json!("r"), json!(-32_601), session)];
    let mut answers = answered.lock().clone();
    answers.sort_by_key(|(id, ..)| id.to_string());
    assert_eq!(answers, expected);
    assert_eq!(text(&server, "echo", json!({"text": "next"})).await, "next");
}

#[tokio::test]
async fn a_server_over_http_whose_account_of_revisions_is_none_gets_the_older_handshake() {
    for (status, stream) in [(200, false), (200, true), (400, false)] {
        let web = Web::start(move |message, _| {
            let id = &message["id"];
            let refuses = status == 400 && message["method"] == "initialize";
            let refuses = refuses && message["params"]["protocolVersion"] != "2025-06-18";
            match message["method"].as_str() {
                Some("server/discover") if status == 200 && stream => {
                    events(futures_util::stream::iter([format!("data: {}\n\n", json!({"id": id, "result": {}}))]))
                }
                Some("server/discover") if status == 200 => axum::Json(json!({"id": id, "result": {}})).into_response(),
                Some("server/discover" | "initialize")
                    if status == 400 && (refuses || message["method"] != "initialize") =>
                {
                    let error = json!({"code": -32_022, "message": "no", "data": {"supported": ["2025-06-18"]}});
                    (StatusCode::BAD_REQUEST, axum::Json(json!({"jsonrpc": "2.0", "id": id, "error": error})))
                        .into_response()
                }
                _ => well(message, "one"),
            }
        })
        .await;
        let server = connect(&http(endpoint(&web.url()))).await;
        assert_eq!(text(&server, "echo", json!({"text": "older"})).await, "older");
        assert_eq!(server.info().protocol, if status == 400 { "2025-06-18" } else { "2025-11-25" });
    }
}
