//! The Responses wire over local sockets.

use super::*;

/// A row of this wire at an address.
fn client_of(address: SocketAddr) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let rows =
        json!({"models": {"m": {"host": format!("http://{address}"), "wire": "responses", "llm_call_timeout": 20}}});
    let text = rows.to_string();
    let default = DefaultRow { model: "m".into(), base_url: format!("http://{address}"), key: None, timeout: LONG };
    Client::new(registry::build(Some(registry::File { path: "m.json", text: &text }), &default, &|_| None).unwrap())
        .unwrap()
}

fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

fn delta(text: &str) -> String {
    event(&json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text}))
}

fn completed() -> String {
    let usage = json!({"input_tokens": 9, "output_tokens": 1});
    event(&json!({"type": "response.completed", "response": {"status": "completed", "output": [], "usage": usage}}))
}

async fn streamed(address: SocketAddr) -> (String, Result<Completion, ModelError>) {
    let (sink, heard) = sink();
    let result = client_of(address).stream("m", &request(), sink).await;
    let heard = heard.lock().clone();
    (heard, result)
}

#[tokio::test]
async fn a_whole_answer_comes_from_the_address_of_this_wire() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |body: Bytes| async move {
        tell.send(body).unwrap();
        let content = json!([{"type": "output_text", "text": "hello", "annotations": []}]);
        let message = json!({"type": "message", "id": "msg", "role": "assistant", "content": content});
        json!({"object": "response", "status": "completed", "error": null, "output": [message]}).to_string()
    };
    let address = serve(Router::new().route("/v1/responses", post(handler))).await;
    let completion = client_of(address).complete("m", &request()).await.unwrap();
    assert_eq!((completion.content.as_str(), completion.finish), ("hello", Finish::Stop));
    let body: Value = serde_json::from_slice(&told.recv().await.unwrap()).unwrap();
    let input = json!([{"type": "message", "role": "user", "content": "hi"}]);
    assert_eq!(body, json!({"model": "m", "instructions": "be brief", "input": input, "store": false}));
}

#[tokio::test]
async fn a_stream_ends_with_its_last_event_although_the_connection_stays_open() {
    let pieces = [delta("hel"), delta("lo"), completed()].map(|piece| (Duration::ZERO, piece)).to_vec();
    let begun = Instant::now();
    let (heard, result) = streamed(streaming(pieces).await).await;
    let completion = result.unwrap();
    assert_eq!((heard.as_str(), completion.content.as_str(), completion.usage.prompt), ("hello", "hello", 9));
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stream_that_breaks_or_fails_is_an_error_of_its_kind() {
    let failed = |code: &str| {
        let error = json!({"code": code, "message": "it said no"});
        event(&json!({"type": "response.failed", "response": {"status": "failed", "error": error, "output": []}}))
    };
    for (end, kind) in [
        (String::new(), ModelErrorKind::Connection),
        (failed("server_error"), ModelErrorKind::Provider),
        (failed("rate_limit_exceeded"), ModelErrorKind::RateLimited),
        (failed("context_length_exceeded"), ModelErrorKind::ContextOverflow),
        (event(&json!({"type": "error", "code": "insufficient_quota", "message": "pay"})), ModelErrorKind::OutOfQuota),
    ] {
        let body = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{}{end}", delta("hel"));
        let (address, _) = socket(move |mut stream| {
            let body = body.clone();
            async move { stream.write_all(body.as_bytes()).await.unwrap() }
        })
        .await;
        let (heard, result) = streamed(address).await;
        assert_eq!((heard.as_str(), result.unwrap_err().kind), ("hel", kind), "{end}");
    }
}

#[tokio::test]
async fn reasoning_that_a_model_does_not_encrypt_is_no_longer_requested() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |body: Bytes| async move {
        let body: Value = serde_json::from_slice(&body).unwrap();
        let refuses = body.get("include").is_some();
        tell.send(refuses).unwrap();
        if refuses {
            let error = json!({"message": "Encrypted content is not supported with this model.", "param": "include"});
            return (StatusCode::BAD_REQUEST, json!({"error": error}).to_string());
        }
        (StatusCode::OK, json!({"status": "completed", "output": []}).to_string())
    };
    let address = serve(Router::new().route("/v1/responses", post(handler))).await;
    let client = client_of(address);
    let parameters = WrittenJson::new(&json!({"type": "object"}));
    let tool = ToolSpec { name: "roll".into(), description: "Rolls.".into(), parameters };
    let request = Request { tools: vec![Arc::new(tool)], ..request() };
    for _ in 0..2 {
        client.complete("m", &request).await.unwrap();
    }
    let mut requested = Vec::new();
    while let Ok(refused) = told.try_recv() {
        requested.push(refused);
    }
    assert_eq!(requested, [true, false, false]);
    assert!(client.takes_tools("m"), "tools were not refused");
}
