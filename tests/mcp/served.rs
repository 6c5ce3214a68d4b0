//! Widely used servers, over each of their transports.

use std::sync::Arc;
use std::time::Duration;

use domain::tool::{CallErrorKind, Effect, Part, ToolRequest};
use parking_lot::Mutex;
use ports::tools::{Endpoint, HttpProtocol, Progress, ServerEntry};
use ports::{ProgressSink, ToolServer};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::support::{
    Mark, Served, call, connect, endpoint, http, names, node, python, request, root, stdio, text, try_connect_within,
};

/// Collects progress notifications.
fn told() -> (Arc<Mutex<Vec<Progress>>>, ProgressSink) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let told = Arc::clone(&told);
        Arc::new(move |progress| told.lock().push(progress))
    };
    (told, sink)
}

fn with(url: &str, protocol: HttpProtocol) -> ServerEntry {
    http(Endpoint { protocol, ..endpoint(url) })
}

/// Tests all features of the server `everything`, over any transport.
async fn shows_everything(server: &Arc<dyn ToolServer>) {
    let names = names(server).await;
    for name in ["echo", "get-sum", "list_resources", "read_resource", "list_prompts", "get_prompt"] {
        assert!(names.iter().any(|own| own == name), "{name}: {names:?}");
    }
    assert!(text(server, "echo", json!({"message": "hi"})).await.contains("hi"));
    assert!(text(server, "get-sum", json!({"a": 2, "b": 40})).await.contains("42"));
    assert_eq!(call(server, "get-tiny-image", json!({})).await.unwrap().images().count(), 1);
    let weather = text(server, "get-structured-content", json!({"location": "Chicago"})).await;
    assert!(weather.contains("drizzle"), "{weather}");
    let links = call(server, "get-resource-links", json!({"count": 3})).await.unwrap();
    assert_eq!(links.parts.iter().filter(|part| matches!(part, Part::Link(_))).count(), 3, "{links:?}");
    let resource = call(server, "get-resource-reference", json!({"resourceType": "Text", "resourceId": 1})).await;
    let resource = resource.unwrap();
    assert!(resource.parts.iter().any(|part| matches!(part, Part::Resource { .. })), "{resource:?}");
    let wrong = call(server, "get-sum", json!({"a": "two"})).await;
    assert!(
        wrong.as_ref().is_err_and(|error| error.kind == CallErrorKind::InvalidArguments)
            || wrong.as_ref().is_ok_and(|result| result.is_error),
        "{wrong:?}"
    );
    let refused = call(server, "no_such_tool", json!({})).await;
    assert!(refused.is_err() || refused.unwrap().is_error);
    assert!(text(server, "list_resources", json!({})).await.contains("demo://"));
    let read = text(server, "read_resource", json!({"uri": "demo://resource/dynamic/text/1"})).await;
    assert!(read.contains("demo://resource/dynamic/text/1"), "{read}");
    assert!(text(server, "list_prompts", json!({})).await.contains("args-prompt"));
    let prompt = text(server, "get_prompt", json!({"name": "args-prompt", "arguments": {"city": "Berlin"}})).await;
    assert!(prompt.contains("weather in Berlin"), "{prompt}");
    let (told, sink) = told();
    let long = request("trigger-long-running-operation", json!({"duration": 0.3, "steps": 3}));
    let done = server.call(&long, Some(sink)).await.unwrap().to_text();
    assert!(done.contains("completed"), "{done}");
    let told: Vec<(f64, Option<f64>)> = told.lock().iter().map(|progress| (progress.done, progress.total)).collect();
    assert_eq!(told, [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))]);
    server.ping().await.unwrap();
}

#[tokio::test]
async fn everything_as_a_child() {
    let module = node("@modelcontextprotocol/server-everything/dist/index.js");
    let mut entry = stdio("node", &[&module, "stdio"]);
    let mark = Mark::on(&mut entry);
    let server = connect(&entry).await;
    shows_everything(&server).await;
    println!("everything over stdio: {:?}", server.info());
    server.close().await;
    mark.gone().await;
}

#[tokio::test]
async fn everything_over_streamable_http() {
    let served = Served::everything("streamableHttp").await;
    for protocol in [HttpProtocol::Either, HttpProtocol::Streamable] {
        let server = connect(&with(&served.url("/mcp"), protocol)).await;
        shows_everything(&server).await;
        println!("everything over streamable HTTP: {:?}", server.info());
        server.close().await;
    }
}

#[tokio::test]
async fn everything_over_sse() {
    let served = Served::everything("sse").await;
    for protocol in [HttpProtocol::Either, HttpProtocol::Sse] {
        let server = connect(&with(&served.url("/sse"), protocol)).await;
        shows_everything(&server).await;
        println!("everything over SSE: {:?}", server.info());
        server.close().await;
        assert!(server.ping().await.is_err(), "a closed connection stays closed");
    }
}

#[tokio::test]
async fn fast_mcp_over_http_and_sse() {
    for (transport, path) in [("http", "/mcp"), ("sse", "/sse")] {
        let served = Served::fast(transport).await;
        shows_what_is_fast(transport, with(&served.url(path), HttpProtocol::Either)).await;
    }
}

#[tokio::test]
async fn fast_mcp_as_a_child() {
    let script = root().join("tests/mcp/servers/fast.py");
    let mut entry = stdio(&python("python"), &[script.to_str().unwrap(), "stdio"]);
    let mark = Mark::on(&mut entry);
    shows_what_is_fast("stdio", entry).await;
    mark.gone().await;
}

#[tokio::test]
async fn a_server_without_resources_and_prompts_has_its_own_tools_alone() {
    let script = root().join("tests/mcp/servers/fast.py");
    let entry = stdio(&python("python"), &[script.to_str().unwrap(), "bare"]);
    // It takes seconds to load its libraries.
    let server = try_connect_within(&entry, Duration::from_secs(60)).await.unwrap();
    assert_eq!(names(&server).await, ["add", "slow", "cancellations", "dot", "broken"]);
}

async fn shows_what_is_fast(transport: &str, entry: ServerEntry) {
    let server = connect(&entry).await;
    println!("fastmcp over {transport}: {:?}", server.info());
    let names = names(&server).await;
    assert!(names.starts_with(&["add".to_owned()]) && names.contains(&"get_prompt".to_owned()), "{names:?}");
    assert_eq!(text(&server, "add", json!({"a": 1, "b": 2})).await, "3");
    assert_eq!(call(&server, "dot", json!({})).await.unwrap().images().next().unwrap().mime, "image/png");
    let broken = call(&server, "broken", json!({})).await.unwrap();
    assert!(broken.is_error && broken.to_text().contains("it went wrong"), "{broken:?}");
    assert_eq!(
        text(&server, "read_resource", json!({"uri": "note://fixed"})).await,
        "[resource: note://fixed]\nthe fixed note"
    );
    let prompt = text(&server, "get_prompt", json!({"name": "greet", "arguments": {"name": "Ada"}})).await;
    assert_eq!(prompt, "user:\nGreet Ada.");
    let (told, sink) = told();
    assert_eq!(server.call(&request("slow", json!({"seconds": 0})), Some(sink)).await.unwrap().to_text(), "done");
    let messages: Vec<Option<String>> = told.lock().iter().map(|progress| progress.message.clone()).collect();
    assert_eq!(messages, ["step 0", "step 1", "step 2"].map(|step| Some(step.to_owned())));

    // Both ways to cancel a call reach the server.
    let slow = request("slow", json!({"seconds": 30}));
    assert!(timeout(Duration::from_millis(300), server.call(&slow, None)).await.is_err());
    let late = ToolRequest { deadline: Duration::from_millis(300), ..slow };
    assert_eq!(server.call(&late, None).await.unwrap_err().kind, CallErrorKind::Timeout);
    let begun = Instant::now();
    let mut cancelled = String::new();
    while cancelled != "2" && begun.elapsed() < Duration::from_secs(5) {
        cancelled = text(&server, "cancellations", json!({})).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(cancelled, "2", "over {transport}");
    server.close().await;
}

#[tokio::test]
async fn a_server_that_is_killed_is_noticed_and_used_again_when_it_is_back() {
    let served = Served::everything("streamableHttp").await;
    let (port, url) = (served.port, served.url("/mcp"));
    let server = connect(&with(&url, HttpProtocol::Either)).await;
    let reading = ToolRequest { effect: Effect::Reads, ..request("echo", json!({"message": "back"})) };
    assert!(server.call(&reading, None).await.unwrap().to_text().contains("back"));
    served.kill().await;
    let begun = Instant::now();
    let error = server.call(&reading, None).await.unwrap_err();
    println!("row 27: a call to a killed HTTP server fails after {:?}: {error}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_millis(250), "{error}");
    let _again = Served::start_on(port, |port| Served::everything_on(port, "streamableHttp")).await;
    let begun = Instant::now();
    assert!(server.call(&reading, None).await.unwrap().to_text().contains("back"));
    println!("row 28: the first call after its return took {:?}, with a new session", begun.elapsed());
}

#[tokio::test]
async fn a_killed_server_over_sse_ends_the_connection() {
    let served = Served::everything("sse").await;
    let server = connect(&with(&served.url("/sse"), HttpProtocol::Sse)).await;
    served.kill().await;
    let begun = Instant::now();
    let why = timeout(Duration::from_secs(2), server.closed()).await.unwrap();
    println!("row 27: the end of a killed SSE server is told after {:?}: {why}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(call(&server, "echo", json!({"message": "x"})).await.unwrap_err().kind, CallErrorKind::Lost);
    assert!(begun.elapsed() < Duration::from_millis(250));
}
