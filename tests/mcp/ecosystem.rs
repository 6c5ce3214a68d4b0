//! Widely used servers as child processes: each connects, lists, answers one call, and leaves no process behind.

use std::sync::Arc;

use axum::response::IntoResponse;
use domain::tool::CallErrorKind;
use http::StatusCode;
use ports::ToolServer;
use ports::tools::ServerEntry;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Mark, call, connect, names, node, older, python, stdio, stdio_with, text};
use crate::web::{Web, well};

/// A tested server.
struct Tried {
    server: Arc<dyn ToolServer>,
    mark: Mark,
}

impl Tried {
    async fn begin(name: &str, mut entry: ServerEntry) -> Self {
        let mark = Mark::on(&mut entry);
        let begun = Instant::now();
        let server = connect(&entry).await;
        let connected = begun.elapsed();
        let listing = server.list().await.unwrap();
        assert_eq!(listing.warnings, Vec::<String>::new(), "{name}");
        assert!(!mark.running().is_empty());
        let (info, tools) = (server.info(), listing.tools.len());
        println!("{name} {} speaks {}: {tools} tools, connected in {connected:?}", info.version, info.protocol);
        Self { server, mark }
    }

    async fn answers(&self, tool: &str, arguments: Value, expected: &str) {
        let begun = Instant::now();
        let answer = text(&self.server, tool, arguments).await;
        println!("  {tool} answered in {:?}", begun.elapsed());
        assert!(answer.contains(expected), "{tool}: {answer}");
    }

    async fn end(self) {
        self.server.ping().await.unwrap();
        let begun = Instant::now();
        self.server.close().await;
        self.mark.gone().await;
        println!("  closed in {:?}, processes left: {}", begun.elapsed(), self.mark.running().len());
    }
}

#[tokio::test]
async fn the_clock_from_pypi() {
    let tried = Tried::begin("mcp-server-time", stdio(&python("mcp-server-time"), &[])).await;
    assert_eq!(names(&tried.server).await[..2], ["get_current_time", "convert_time"]);
    tried.answers("get_current_time", json!({"timezone": "Asia/Tokyo"}), "+09:00").await;
    let wrong = call(&tried.server, "get_current_time", json!({"timezone": "Nowhere/Land"})).await;
    assert!(
        wrong.as_ref().is_ok_and(|result| result.is_error)
            || matches!(&wrong, Err(error) if error.kind == CallErrorKind::InvalidArguments),
        "{wrong:?}"
    );
    tried.end().await;
}

#[tokio::test]
async fn the_file_system_stays_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "inside").unwrap();
    let module = node("@modelcontextprotocol/server-filesystem/dist/index.js");
    let entry = stdio("node", &[&module, folder.path().to_str().unwrap()]);
    let tried = Tried::begin("server-filesystem", entry).await;
    tried.answers("read_text_file", json!({"path": folder.path().join("note.txt")}), "inside").await;
    let outside = call(&tried.server, "read_text_file", json!({"path": "/etc/hostname"})).await.unwrap();
    assert!(outside.is_error, "{outside:?}");
    tried.end().await;
}

#[tokio::test]
async fn the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let module = node("@modelcontextprotocol/server-memory/dist/index.js");
    let file = folder.path().join("memory.jsonl");
    let entry = stdio_with("node", &[&module], &[("MEMORY_FILE_PATH", file.to_str().unwrap())]);
    let tried = Tried::begin("server-memory", entry).await;
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["writes programs"]});
    tried.answers("create_entities", json!({"entities": [ada]}), "Ada").await;
    tried.answers("search_nodes", json!({"query": "programs"}), "writes programs").await;
    tried.end().await;
}

#[tokio::test]
async fn sequential_thinking() {
    let module = node("@modelcontextprotocol/server-sequential-thinking/dist/index.js");
    let tried = Tried::begin("server-sequential-thinking", stdio("node", &[&module])).await;
    let thought = json!({"thought": "first", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    tried.answers("sequentialthinking", thought, "thoughtHistoryLength").await;
    tried.end().await;
}

#[tokio::test]
async fn git() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let run = |args: &[&str]| {
        let own = ["-C", path, "-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        assert!(std::process::Command::new("git").args(own).args(args).status().unwrap().success());
    };
    run(&["init", "--quiet"]);
    run(&["commit", "--quiet", "--allow-empty", "-m", "the first one"]);
    let tried = Tried::begin("mcp-server-git", stdio(&python("mcp-server-git"), &["--repository", path])).await;
    tried.answers("git_log", json!({"repo_path": path}), "the first one").await;
    tried.end().await;
}

#[tokio::test]
async fn fetch() {
    let page = Web::start(|_, _| ([("content-type", "text/plain")], "User-agent: *\nAllow: /").into_response()).await;
    let tried = Tried::begin("mcp-server-fetch", stdio(&python("mcp-server-fetch"), &["--allow-private-ips"])).await;
    tried.answers("fetch", json!({"url": page.url()}), "User-agent").await;
    tried.end().await;
}

#[tokio::test]
async fn a_database_of_the_older_generation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let entry = stdio(&older("mcp-server-sqlite"), &["--db-path", file.to_str().unwrap()]);
    let tried = Tried::begin("mcp-server-sqlite", entry).await;
    tried.answers("create_table", json!({"query": "CREATE TABLE people (name TEXT)"}), "successfully").await;
    tried.answers("write_query", json!({"query": "INSERT INTO people VALUES ('Ada')"}), "1").await;
    tried.answers("read_query", json!({"query": "SELECT name FROM people"}), "Ada").await;
    tried.end().await;
}

#[tokio::test]
async fn a_bridge_to_a_server_over_http() {
    let web = Web::start(|message, headers| {
        let known = headers.get("x-key").is_some_and(|key| key == "sesame");
        // The bridge probes for login methods without its headers.
        if message["method"].is_string() && !known {
            StatusCode::UNAUTHORIZED.into_response()
        } else {
            well(message, "one")
        }
    })
    .await;
    let home = tempfile::tempdir().unwrap();
    let args = [&node("mcp-remote/dist/proxy.js"), &web.url(), "--transport", "http-only", "--header", "X-Key: sesame"];
    let entry = stdio_with("node", &args.map(|arg: &str| arg), &[("HOME", home.path().to_str().unwrap())]);
    let tried = Tried::begin("mcp-remote", entry).await;
    assert_eq!(names(&tried.server).await, ["echo"]);
    tried.answers("echo", json!({"text": "through the bridge"}), "through the bridge").await;
    tried.end().await;
}
