//! The rig's tool server: minimal MCP over HTTP, in a process of its own, so that only the client is measured.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::http;
use crate::process::Helper;

/// The argument that makes this program the server.
pub const WORD: &str = "--tool-server";
/// Duration of a call of the tool `holds`.
pub const HOLD: Duration = Duration::from_millis(50);

pub fn start(on_core: bool) -> Result<Helper, String> {
    Helper::start(on_core, &[WORD])
}

/// Serves until it is killed.
pub async fn run() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        // A disconnect is not an error here.
        tokio::spawn(async move { drop(serve(stream).await) });
    }
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(32 * 1024);
    while let Some((head, body)) = http::read(&mut stream, &mut buffer).await? {
        let tools = crate::wire::number_behind(&buffer[..head], "/tools/").unwrap_or(0);
        let answer = answer(&buffer[head..head + body], tools);
        if has(&buffer[head..head + body], "\"holds\"") {
            tokio::time::sleep(HOLD).await;
        }
        stream.write_all(answer.as_bytes()).await?;
        buffer.drain(..head + body);
    }
    Ok(())
}

fn has(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

fn answer(message: &[u8], tools: u64) -> String {
    let id = crate::wire::number_behind(message, "\"id\":").unwrap_or(0);
    let result = if has(message, "\"tools/call\"") {
        r#"{"content":[{"type":"text","text":"the tide turns at noon"}]}"#.to_owned()
    } else if has(message, "\"tools/list\"") {
        json!({"tools": (0..tools).map(tool).collect::<Vec<_>>()}).to_string()
    } else if has(message, "\"initialize\"") {
        let about = json!({"name": "rig", "version": "1"});
        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}).to_string()
    } else if has(message, "\"notifications/") {
        return "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned();
    } else if message.is_empty() {
        return "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned();
    } else {
        return ok(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#));
    };
    ok(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A tool of usual size.
fn tool(number: u64) -> serde_json::Value {
    let subject =
        ["weather", "tide", "train", "ticket", "invoice", "recipe", "song"][usize::try_from(number % 7).unwrap_or(0)];
    let text = |about: &str| json!({"type": "string", "description": about});
    json!({
        "name": format!("find_{subject}_{number}"),
        "description": format!("Finds the {subject} number {number} of a place, with its times and what it costs."),
        "inputSchema": {
            "type": "object", "required": ["place"],
            "properties": {"place": text("Where to look."), "day": text("A date."), "count": {"type": "integer", "minimum": 1}},
        },
    })
}
