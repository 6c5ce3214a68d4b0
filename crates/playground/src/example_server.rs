//! A small MCP server with harmless tools, for trying tools without an account. This program runs itself as a child
//! process that speaks JSON-RPC, one message per line, on standard input and output. Notes are lost at its end.

mod picture;

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The hidden command that runs this server.
pub const COMMAND: &str = "example-server";
/// The name of the server.
pub const NAME: &str = "example";

/// Maximum length of a message, in bytes.
const LINE_BYTES: u64 = 64 * 1024;
/// Maximum number of notes; the oldest is evicted.
const NOTES: usize = 50;
/// Maximum length of a note, in Unicode scalar values.
const NOTE_CHARS: usize = 300;
const WAIT_SECONDS: u64 = 10;
/// Maximum concurrent waits; more are refused.
const WAITS: usize = 8;

/// The revision in which tools ask members.
const ASKING_PROTOCOL: &str = "2026-07-28";
/// The default protocol revision of a client that sends `initialize`.
const PROTOCOL: &str = "2025-06-18";
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;
const PARSE_ERROR: i64 = -32_700;

/// Serves until its input ends.
///
/// # Errors
/// The input or output failed.
pub fn serve() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let server = Arc::new(Server::new(|message| {
        let mut out = io::stdout().lock();
        // A client that disconnects closes the input as well.
        let _ = writeln!(out, "{message}").and_then(|()| out.flush());
    }));
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        server.take(&line);
    }
}

/// The output to the client.
type Sink = Box<dyn Fn(Value) + Send + Sync>;

struct Server {
    notes: Mutex<Vec<String>>,
    waits: AtomicUsize,
    send: Sink,
}

impl Server {
    fn new(send: impl Fn(Value) + Send + Sync + 'static) -> Self {
        Self { notes: Mutex::default(), waits: AtomicUsize::new(0), send: Box::new(send) }
    }

    /// Handles one message.
    fn take(self: &Arc<Self>, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return self.refuse(&Value::Null, PARSE_ERROR, "this is not JSON");
        };
        // A message without an id is a notification.
        let Some(id) = message.get("id").filter(|id| !id.is_null()) else { return };
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => self.give(id, &greeting(params)),
            "server/discover" => self.give(id, &about()),
            "ping" => self.give(id, &json!({})),
            "tools/list" => self.give(id, &json!({"tools": tools()})),
            "tools/call" => self.call(id, params),
            other => self.refuse(id, METHOD_NOT_FOUND, &format!("there is no method {other:?} here")),
        }
    }

    fn call(self: &Arc<Self>, id: &Value, params: &Value) {
        let arguments = &params["arguments"];
        let text = |key: &str| arguments[key].as_str().unwrap_or_default();
        match params["name"].as_str().unwrap_or_default() {
            "list_notes" => self.give(id, &said(&self.list())),
            "add_note" => self.give(id, &self.add(text("text"))),
            "clear_notes" => self.give(id, &said(&self.clear())),
            "draw_picture" => self.give(id, &drawn(text("words"))),
            "plan_trip" => self.give(id, &planned(params)),
            "wait" => self.wait(id, arguments["seconds"].as_u64().unwrap_or(1), &params["_meta"]["progressToken"]),
            other => self.refuse(id, INVALID_PARAMS, &format!("there is no tool {other:?} here")),
        }
    }

    fn list(&self) -> String {
        let notes = self.notes.lock();
        let lines: Vec<String> = (1..).zip(notes.iter()).map(|(number, note)| format!("{number}. {note}")).collect();
        if lines.is_empty() { "There are no notes yet.".to_owned() } else { lines.join("\n") }
    }

    fn add(&self, text: &str) -> Value {
        let note: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(NOTE_CHARS).collect();
        if note.is_empty() {
            return json!({"content": [{"type": "text", "text": "a note needs some text"}], "isError": true});
        }
        let mut notes = self.notes.lock();
        if notes.len() == NOTES {
            notes.remove(0);
        }
        notes.push(note);
        said(&format!("Noted as number {}: {}", notes.len(), notes.last().map_or("", String::as_str)))
    }

    fn clear(&self) -> String {
        let gone = std::mem::take(&mut *self.notes.lock()).len();
        format!("All notes are gone; there were {gone}.")
    }

    fn wait(self: &Arc<Self>, id: &Value, seconds: u64, progress: &Value) {
        if self.waits.fetch_add(1, Ordering::SeqCst) >= WAITS {
            self.waits.fetch_sub(1, Ordering::SeqCst);
            return self.refuse(id, INVALID_PARAMS, "too many wait already");
        }
        let (server, id, progress) = (Arc::clone(self), id.clone(), progress.clone());
        let seconds = seconds.clamp(1, WAIT_SECONDS);
        let waiting = move || {
            for second in 0..seconds {
                if !progress.is_null() {
                    let message = format!("{second} of {seconds} seconds");
                    let params =
                        json!({"progressToken": progress, "progress": second, "total": seconds, "message": message});
                    (server.send)(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
                }
                std::thread::sleep(Duration::from_secs(1));
            }
            server.waits.fetch_sub(1, Ordering::SeqCst);
            server.give(&id, &said(&format!("Waited for {seconds} s.")));
        };
        std::thread::spawn(waiting);
    }

    fn give(&self, id: &Value, result: &Value) {
        let mut result = result.clone();
        // The newer revision requires the kind of a result; older ones ignore it.
        result.as_object_mut().map(|result| result.entry("resultType").or_insert_with(|| "complete".into()));
        (self.send)(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn refuse(&self, id: &Value, code: i64, message: &str) {
        (self.send)(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
    }
}

fn greeting(params: &Value) -> Value {
    let protocol = params["protocolVersion"].as_str().unwrap_or(PROTOCOL);
    json!({
        "protocolVersion": protocol,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "staffai-example", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Describes the server to a client of the revision in which tools ask members.
fn about() -> Value {
    json!({
        "supportedVersions": [ASKING_PROTOCOL], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
        "serverInfo": {"name": "staffai-example", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Asks the member for a trip, or tells the answer.
fn planned(params: &Value) -> Value {
    let answer = &params["inputResponses"]["trip"];
    let content = &answer["content"];
    match answer["action"].as_str() {
        Some("accept") => said(&format!(
            "A trip to {} for {} days, {}.",
            content["harbour"].as_str().unwrap_or("a harbour"),
            content["days"].as_i64().unwrap_or(1),
            if content["boat"] == true { "by boat" } else { "on foot" },
        )),
        Some(_) => said("The form was not filled in, so no trip is planned."),
        None => {
            let schema = json!({"type": "object", "required": ["harbour", "days"], "properties": {
                "harbour": {"type": "string", "enum": ["North Harbour", "South Harbour"], "title": "Harbour"},
                "days": {"type": "integer", "title": "Days", "description": "one to nine", "minimum": 1, "maximum": 9},
                "boat": {"type": "boolean", "title": "By boat"},
            }});
            let form = json!({"mode": "form", "message": "Where shall the trip lead?", "requestedSchema": schema});
            json!({
                "resultType": "input_required",
                "inputRequests": {"trip": {"method": "elicitation/create", "params": form}},
            })
        }
    }
}

fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn drawn(words: &str) -> Value {
    let data = STANDARD.encode(picture::harbour(words));
    json!({"content": [
        {"type": "text", "text": "A picture of the harbour, in colours that the words chose."},
        {"type": "image", "mimeType": "image/png", "data": data},
    ]})
}

fn tools() -> Value {
    let tool = |name: &str, description: &str, reads: bool, required: &[&str], properties: Value| {
        // The removal is irreversible, so it requires approval.
        let destroys = name == "clear_notes";
        json!({
            "name": name,
            "description": description,
            "inputSchema": {"type": "object", "properties": properties, "required": required, "additionalProperties": false},
            "annotations": {"readOnlyHint": reads, "destructiveHint": destroys, "openWorldHint": false},
        })
    };
    let text =
        |description: &str, most: usize| json!({"type": "string", "description": description, "maxLength": most});
    json!([
        tool("list_notes", "Lists the notes that members left here.", true, &[], json!({})),
        tool("add_note", "Adds a note to the list.", false, &["text"], json!({"text": text("what to note", 2_000)})),
        tool("clear_notes", "Removes all notes for good.", false, &[], json!({})),
        tool("plan_trip", "Plans a trip; asks the member where and for how long.", true, &[], json!({})),
        tool(
            "draw_picture",
            "Draws a small picture of the harbour.",
            true,
            &[],
            json!({
                "words": text("words that choose its colours, such as 'a stormy evening'", 500),
            })
        ),
        tool(
            "wait",
            "Waits for some seconds and tells how far it is, to see what a slow tool looks like.",
            true,
            &["seconds"],
            json!({
                "seconds": {"type": "integer", "minimum": 1, "maximum": WAIT_SECONDS},
            })
        ),
    ])
}

#[cfg(test)]
mod tests;
