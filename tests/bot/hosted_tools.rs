//! Tools that the provider of a row runs itself: its web search, and tool servers that it connects to.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::model::{Act, Ask};
use crate::support::{Setup, World, story};

const WORDS: &str = "High tide is at nine.";

/// A tool server over HTTP that counts its calls, with the tools `search` and `secret`.
pub async fn documents() -> (String, Arc<AtomicUsize>) {
    let tool = |name: &str| json!({"name": name, "description": "Reads documents.", "inputSchema": {"type": "object"}});
    tool_server(json!([tool("search"), tool("secret")]), "nine o'clock").await
}

/// A tool server over HTTP that counts its calls, with these tools and this result.
pub async fn tool_server(tools: Value, text: &'static str) -> (String, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let handler = move |Json(asked): Json<Value>| async move {
        let result = match asked["method"].as_str().unwrap_or_default() {
            "initialize" => {
                json!({"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "docs", "version": "1"}})
            }
            "tools/list" => json!({ "tools": tools }),
            "tools/call" => {
                counted.fetch_add(1, Ordering::SeqCst);
                json!({"content": [{"type": "text", "text": text}]})
            }
            _ if asked.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
            _ => {
                let error = json!({"code": -32601, "message": "unknown"});
                return Json(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})).into_response();
            }
        };
        Json(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/mcp", post(handler))).await });
    (url, calls)
}

/// A file of tool servers with this one.
pub fn file_of(folder: &tempfile::TempDir, url: &str) -> PathBuf {
    let file = folder.path().join("mcp.json");
    let headers = json!({"Authorization": "Bearer token-7", "X-Team": "tides"});
    let docs = json!({"url": url, "headers": headers, "side_effects": false, "server_description": "Documents"});
    std::fs::write(&file, json!({"mcpServers": {"docs": docs}}).to_string()).unwrap();
    file
}

fn tools_of(ask: &Ask) -> Vec<Value> {
    ask.body["responses"]["tools"].as_array().cloned().unwrap_or_default()
}

fn hosted<'a>(tools: &'a [Value], kind: &str) -> Option<&'a Value> {
    tools.iter().find(|tool| tool["type"] == kind)
}

fn has_function(tools: &[Value], name: &str) -> bool {
    tools.iter().any(|tool| tool["type"] == "function" && tool["name"] == name)
}

/// The message of an answer, with these annotations.
fn message(annotations: &Value) -> Value {
    let text = json!({"type": "text", "response": WORDS, "data": ""}).to_string();
    let part = json!({"type": "output_text", "text": text, "annotations": annotations});
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
}

fn searched() -> Act {
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tides"}});
    let cited = json!({"type": "url_citation", "url": "https://tides.example/today", "title": "Tides", "start_index": 0, "end_index": 4});
    Act::Output(json!([search, message(&json!([cited, cited]))]))
}

const SEARCHES: &str = r#""wire": "responses", "schema_with_tools": true, "native_web_search": true"#;

fn setup() -> Setup {
    Setup::new().set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true")
}

#[test]
fn the_search_of_the_provider_is_used_and_its_sources_are_links_below_the_answer() {
    story(async {
        let world = World::of_row(setup(), SEARCHES).await;
        world.model.always(searched());
        let said = world.says("Ada", "general", "@staffai when is high tide?");
        let words = world.words_to(said).await;
        assert_eq!(words, format!("{WORDS}\n\n-# `web_search` · [Tides](<https://tides.example/today>)"));
        assert!(hosted(&tools_of(&world.model.last()), "web_search").is_some());
        let metrics = world.get("/metrics").await.1;
        assert!(metrics.contains(r#"staffai_hosted_tool_calls_total{tool="web_search",outcome="ok"} 1"#), "{metrics}");
    });
}

#[test]
fn a_member_without_the_right_to_search_gets_none_and_a_refusing_provider_is_not_asked_again() {
    story(async {
        let rule = r#"[{tools = "web_search", verdict = "deny"}]"#;
        let world = World::of_row(setup().set("STAFFAI_TOOLS__RULES", rule), SEARCHES).await;
        world.model.always(Act::says(WORDS));
        world.words_to(world.says("Ada", "general", "@staffai when?")).await;
        assert!(hosted(&tools_of(&world.model.last()), "web_search").is_none());

        let world = World::of_row(setup(), SEARCHES).await;
        world.model.does(|ask| match hosted(&tools_of(ask), "web_search") {
            Some(_) => Act::Error(
                400,
                json!({"error": {"message": "Hosted tool 'web_search' is not supported with m."}}).to_string(),
            ),
            None => Act::says(WORDS),
        });
        for calls in [2, 3] {
            let said = world.says("Ada", "general", "@staffai when?");
            assert_eq!(world.words_to(said).await, WORDS);
            assert_eq!(world.model.calls(), calls, "the refusal is remembered, and tools are offered on");
            assert!(has_function(&tools_of(&world.model.last()), "calculator"));
        }
    });
}

#[test]
fn a_server_is_passed_to_the_provider_with_the_tools_that_need_no_approval() {
    story(async {
        let folder = tempfile::tempdir().unwrap();
        let (url, calls) = documents().await;
        let setup = setup()
            .set("STAFFAI_MCP_CONFIG", file_of(&folder, &url).display())
            .set("STAFFAI_TOOLS__RULES", r#"[{tools = "docs__secret", verdict = "ask"}]"#);
        let row = r#""wire": "responses", "schema_with_tools": true, "native_mcp": true"#;
        let world = World::of_row(setup, row).await;
        world.model.does(|ask| {
            let tools = tools_of(ask);
            if hosted(&tools, "mcp").is_none() {
                return Act::says("the server is not offered yet");
            }
            let list = json!({"type": "mcp_list_tools", "id": "l", "server_label": "docs", "tools": []});
            let call = json!({"type": "mcp_call", "id": "c", "server_label": "docs", "name": "search", "arguments": "{}", "output": "nine"});
            Act::Output(json!([list, call, message(&json!([]))]))
        });
        let words = loop {
            let words = world.words_to(world.says("Ada", "general", "@staffai when?")).await;
            if words != "the server is not offered yet" {
                break words;
            }
        };
        assert_eq!(words, format!("{WORDS}\n\n-# `docs__search`"));
        let tools = tools_of(&world.model.last());
        let passed = json!({"type": "mcp", "server_label": "docs", "server_url": url, "server_description": "Documents",
            "authorization": "token-7", "headers": {"X-Team": "tides"}, "allowed_tools": ["search"], "require_approval": "never"});
        assert_eq!(hosted(&tools, "mcp"), Some(&passed));
        assert!(has_function(&tools, "docs__secret") && !has_function(&tools, "docs__search"), "{tools:?}");
        assert_eq!(calls.load(Ordering::SeqCst), 0, "the provider called the server");
        let metrics = world.get("/metrics").await.1;
        for tool in ["docs__search", "docs__tools/list"] {
            let line = format!(r#"staffai_hosted_tool_calls_total{{tool="{tool}",outcome="ok"}} 1"#);
            assert!(metrics.contains(&line), "{metrics}");
        }
        let audit = world.get("/api/v1/audit?tool=docs__search").await.1;
        assert!(audit.contains("docs__search") && audit.contains("called"), "{audit}");
    });
}

#[test]
fn servers_are_off_by_default_while_the_web_is_searched_and_a_member_enables_them() {
    story(async {
        let folder = tempfile::tempdir().unwrap();
        let (url, _) = documents().await;
        let setup =
            setup().set("STAFFAI_MCP_CONFIG", file_of(&folder, &url).display()).set("MCP_ENABLED_DEFAULT", "false");
        let world = World::of_row(setup, SEARCHES).await;
        world.model.always(Act::says(WORDS));
        let offered = async |who: &str| {
            world.words_to(world.says(who, "general", "@staffai when?")).await;
            let tools = tools_of(&world.model.last());
            let search = hosted(&tools, "web_search").is_some();
            (search, has_function(&tools, "docs__search"), has_function(&tools, "calculator"))
        };
        assert!(world.sets("Ben", "tools on").await.contains("`tools` is `on`"));
        while offered("Ben").await != (true, true, true) {}
        assert_eq!(offered("Ada").await, (true, false, true));
        world.sets("Ben", "tools off").await;
        assert_eq!(offered("Ben").await, (false, false, false));
        world.sets("Ben", "tools default").await;
        assert_eq!(offered("Ben").await, (true, false, true));
    });
}

#[test]
fn results_of_a_server_are_reused_for_the_time_that_its_entry_says() {
    story(async {
        let folder = tempfile::tempdir().unwrap();
        let (url, calls) = documents().await;
        let docs = json!({"url": url, "side_effects": false, "reuse_results": {"search": "10m"}});
        let file = folder.path().join("mcp.json");
        std::fs::write(&file, json!({"mcpServers": {"docs": docs}}).to_string()).unwrap();
        let world =
            World::of_row(setup().set("STAFFAI_MCP_CONFIG", file.display()), r#""schema_with_tools": true"#).await;
        let asks = |tool: &'static str, arguments: Value| {
            move |ask: &Ask| match ask.results().first() {
                Some((_, result)) => Act::says(result.clone()),
                None if ask.tools().contains(&tool) => Act::calls(&[("call-1", tool, arguments.clone())]),
                None => Act::says("the server is not offered yet"),
            }
        };
        world.model.does(asks("docs__search", json!({"q": "tide"})));
        while world.words_to(world.says("Ada", "general", "@staffai when?")).await != "nine o'clock" {}
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(world.words_to(world.says("Ben", "random", "@staffai when?")).await, "nine o'clock");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "the result is reused");
        world.model.does(asks("docs__search", json!({"q": "moon"})));
        world.words_to(world.says("Ben", "random", "@staffai when?")).await;
        assert_eq!(calls.load(Ordering::SeqCst), 2, "other arguments are another call");
        world.model.does(asks("docs__secret", json!({})));
        for _ in 0..2 {
            world.words_to(world.says("Ben", "random", "@staffai when?")).await;
        }
        assert_eq!(calls.load(Ordering::SeqCst), 4, "a tool without a time is called each time");
    });
}

#[test]
fn a_server_that_the_provider_cannot_reach_is_called_by_the_bot() {
    story(async {
        for (status, words) in [(424, "Failed Dependency"), (404, "Http status code: 404"), (504, "It timed out.")] {
            is_called_by_the_bot(status, words).await;
        }
    });
}

async fn is_called_by_the_bot(status: u16, words: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let (url, calls) = documents().await;
    let setup = setup().set("STAFFAI_MCP_CONFIG", file_of(&folder, &url).display());
    let row = r#""wire": "responses", "schema_with_tools": true, "native_mcp": true"#;
    let world = World::of_row(setup, row).await;
    world.model.does(move |ask| {
        let tools = tools_of(ask);
        if hosted(&tools, "mcp").is_some() {
            let error = format!("Error retrieving tool list from MCP server: 'docs'. {words}");
            return Act::Error(status, json!({"error": {"message": error}}).to_string());
        }
        match ask.results().first() {
            Some((_, result)) => Act::says(result.clone()),
            None if has_function(&tools, "docs__search") => Act::calls(&[("call-1", "docs__search", json!({}))]),
            None => Act::says("the server is not offered yet"),
        }
    });
    let words = loop {
        let words = world.words_to(world.says("Ada", "general", "@staffai when?")).await;
        if words != "the server is not offered yet" {
            break words;
        }
    };
    assert_eq!((words.as_str(), calls.load(Ordering::SeqCst)), ("nine o'clock", 1));
    let failed = |asks: Vec<Ask>| asks.iter().filter(|ask| hosted(&tools_of(ask), "mcp").is_some()).count();
    assert_eq!(failed(world.model.asks()), 1, "it is left out from then on");
}
