//! The Web API.

use std::collections::HashMap;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{APP_TOKEN, BOT, BOT_TOKEN, Fault, Message, Service, TEAM};

pub(super) type Arguments = HashMap<String, String>;

/// Performs a call.
pub async fn call(
    State(service): State<Service>,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if method == "response_url" {
        service.state.lock().whispers.push(serde_json::from_slice(&body).expect("JSON"));
        service.change();
        return "ok".into_response();
    }
    let arguments = read(&headers, &body);
    service.state.lock().calls.push((method.clone(), arguments.clone()));
    let token = if method == "apps.connections.open" { APP_TOKEN } else { BOT_TOKEN };
    if headers.get("authorization").is_none_or(|told| told != &format!("Bearer {token}")) {
        return error("invalid_auth");
    }
    if let Some(wait) = service.over(&method) {
        return limited(wait);
    }
    let fault = service.state.lock().faults.get_mut(&method).and_then(std::collections::VecDeque::pop_front);
    match fault {
        None => service.perform(&method, &arguments),
        Some(Fault::LostAnswer) => {
            let _ = service.perform(&method, &arguments);
            service.change();
            let broken = stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
            Response::new(Body::from_stream(broken))
        }
        Some(Fault::NoAnswer) => {
            let _ = service.perform(&method, &arguments);
            service.change();
            std::future::pending().await
        }
        Some(Fault::Limited(seconds)) => limited(seconds),
        Some(Fault::Named(name)) => error(name),
        Some(Fault::Status(status)) => StatusCode::from_u16(status).unwrap().into_response(),
    }
}

/// Returns a file to the bot alone.
pub async fn file(State(service): State<Service>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    if headers.get("authorization").is_none_or(|told| told != &format!("Bearer {BOT_TOKEN}")) {
        return StatusCode::FOUND.into_response();
    }
    let found = service.state.lock().files.get(&format!("/files/{name}")).cloned();
    found.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response)
}

/// Takes a file.
pub async fn upload(State(service): State<Service>, Path(name): Path<String>, body: Bytes) -> Response {
    service.state.lock().files.insert(format!("/upload/{name}"), body.to_vec());
    "OK".into_response()
}

/// Reads a form, or JSON.
fn read(headers: &HeaderMap, body: &[u8]) -> Arguments {
    let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/json") {
        let told: HashMap<String, Value> = serde_json::from_slice(body).expect("JSON");
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return told.into_iter().map(|(name, value)| (name, text(value))).collect();
    }
    let text = String::from_utf8_lossy(body);
    let decoded = |part: &str| {
        let spaced = part.replace('+', " ");
        percent_decoded(&spaced)
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn percent_decoded(text: &str) -> String {
    let (mut out, bytes, mut at) = (Vec::new(), text.as_bytes(), 0);
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).expect("UTF-8")
}

pub(super) fn error(name: &str) -> Response {
    Json(json!({"ok": false, "error": name})).into_response()
}

fn limited(seconds: u64) -> Response {
    let headers = [("retry-after", seconds.to_string())];
    (StatusCode::TOO_MANY_REQUESTS, headers, Json(json!({"ok": false, "error": "ratelimited"}))).into_response()
}

pub(super) fn fine(mut value: Value) -> Response {
    value["ok"] = true.into();
    Json(value).into_response()
}

impl Service {
    /// Counts a call against its tier; returns the delay in seconds if it exceeds the tier.
    fn over(&self, method: &str) -> Option<u64> {
        let mut state = self.state.lock();
        let (many, within) = state.tiers.get(method).copied()?;
        let (now, times) = (Instant::now(), state.times.entry(method.to_owned()).or_default());
        times.retain(|at| now.duration_since(*at) < within);
        if times.len() >= many {
            return Some(1);
        }
        times.push_back(now);
        None
    }

    fn perform(&self, method: &str, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned().unwrap_or_default();
        let answer = match method {
            "auth.test" => {
                let mut answer = fine(json!({
                    "user_id": BOT, "user": "staffai", "team_id": TEAM, "team": "Work", "bot_id": "BBOT",
                }));
                let scopes = self.state.lock().scopes.clone();
                answer.headers_mut().insert("x-oauth-scopes", scopes.parse().unwrap());
                answer
            }
            "apps.connections.open" => {
                let mut state = self.state.lock();
                let ticket = state.opened + u64::try_from(state.tickets.len()).unwrap() + 1_000;
                state.tickets.insert(ticket);
                fine(json!({"url": format!("{}/link?ticket={ticket}", self.url.replace("http", "ws"))}))
            }
            "users.info" => fine(json!({"user": {
                "id": of("user"), "name": of("user").to_lowercase(), "locale": "en-US",
                "is_admin": of("user") == "UADMIN",
                "profile": {"display_name": format!("name of {}", of("user"))},
            }})),
            "chat.postMessage" => self.post(arguments),
            "chat.update" => self.update(arguments),
            "chat.delete" => {
                self.state.lock().messages.retain(|message| message.ts != of("ts"));
                fine(json!({}))
            }
            "conversations.replies" => self.replies_of(&of("ts"), arguments),
            "users.conversations" => {
                let state = self.state.lock();
                let known: std::collections::BTreeSet<_> =
                    state.messages.iter().map(|message| message.channel.clone()).collect();
                let channels: Vec<Value> = known.into_iter().map(|id| json!({"id": id})).collect();
                fine(json!({"channels": channels, "response_metadata": {"next_cursor": ""}}))
            }
            "conversations.history" => self.history_of(arguments),
            "conversations.open" => fine(json!({"channel": {"id": format!("D{}", of("users"))}})),
            "files.getUploadURLExternal" => fine(json!({
                "upload_url": format!("{}/upload/{}", self.url, of("filename")), "file_id": of("filename"),
            })),
            "files.completeUploadExternal" => self.share(arguments),
            "chat.postEphemeral" => self.whisper(arguments),
            "views.open" => self.open_view(arguments),
            "usergroups.list" => {
                let state = self.state.lock();
                let group = |(id, users): (&String, &Vec<String>)| json!({"id": id, "users": users});
                fine(json!({"usergroups": state.groups.iter().map(group).collect::<Vec<_>>()}))
            }
            "assistant.threads.setStatus" | "assistant.threads.setSuggestedPrompts" | "reactions.add" => {
                fine(json!({}))
            }
            "chat.startStream" => self.start_stream(arguments),
            "chat.appendStream" => self.append_stream(arguments),
            "chat.stopStream" => self.stop_stream(arguments),
            _ => error("unknown_method"),
        };
        self.change();
        answer
    }

    fn post(&self, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned();
        let parsed = |name| of(name).map_or(Value::Null, |text| serde_json::from_str(&text).expect("JSON"));
        let text = of("text").unwrap_or_default();
        if text.is_empty() {
            return error("no_text");
        }
        let mut state = self.state.lock();
        let message = Message {
            channel: of("channel").unwrap_or_default(),
            ts: state.next_ts(),
            thread: of("thread_ts"),
            user: BOT.to_owned(),
            text,
            blocks: parsed("blocks"),
            metadata: parsed("metadata"),
            edits: 0,
            file: Value::Null,
            streams: None,
        };
        state.messages.push(message.clone());
        fine(json!({"channel": message.channel, "ts": message.ts, "message": message.wire()}))
    }

    /// Shares uploaded files: a message with files and without text.
    fn share(&self, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned();
        let files: Vec<Value> = serde_json::from_str(&of("files").unwrap_or_default()).expect("JSON");
        let mut state = self.state.lock();
        let message = Message {
            channel: of("channel_id").unwrap_or_default(),
            ts: state.next_ts(),
            thread: of("thread_ts"),
            user: BOT.to_owned(),
            text: String::new(),
            blocks: Value::Null,
            metadata: Value::Null,
            edits: 0,
            file: json!({"name": files[0]["title"], "url_private": "https://files.slack.com/1"}),
            streams: None,
        };
        state.messages.push(message);
        fine(json!({"files": files}))
    }

    /// Shows a message to one member.
    fn whisper(&self, arguments: &Arguments) -> Response {
        let mut state = self.state.lock();
        let ts = state.next_ts();
        state.notices.push(arguments.clone());
        fine(json!({"message_ts": ts}))
    }

    /// Opens a dialogue for a trigger that is three seconds old at most.
    fn open_view(&self, arguments: &Arguments) -> Response {
        let mut state = self.state.lock();
        let known = arguments.get("trigger_id").and_then(|trigger| state.triggers.remove(trigger));
        match known {
            None => error("invalid_trigger_id"),
            Some((at, _)) if at.elapsed() > std::time::Duration::from_secs(3) => error("expired_trigger_id"),
            Some((_, user)) => {
                let mut view: Value = serde_json::from_str(&arguments["view"]).expect("JSON");
                let data = view["private_metadata"].as_str().unwrap_or_default();
                assert!(data.chars().count() <= 3_000, "the data of a dialogue is too long");
                view["id"] = format!("V{}", state.views.len() + 1).into();
                state.views.push((user, view.clone()));
                fine(json!({"view": view}))
            }
        }
    }

    fn update(&self, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned();
        let text = of("text").unwrap_or_default();
        if text.chars().count() > 4_000 {
            return error("msg_too_long");
        }
        let mut state = self.state.lock();
        let found = state.messages.iter_mut().find(|message| Some(&message.ts) == of("ts").as_ref());
        let Some(message) = found else { return error("message_not_found") };
        if message.user != BOT {
            return error("cant_update_message");
        }
        if message.streams.is_some() {
            return error("streaming_state_conflict");
        }
        message.text = text;
        // Slack keeps the blocks of an edit that names none.
        if let Some(blocks) = of("blocks") {
            let blocks: Value = serde_json::from_str(&blocks).expect("JSON");
            message.blocks = if blocks.as_array().is_some_and(Vec::is_empty) { Value::Null } else { blocks };
        }
        message.edits += 1;
        // Slack keeps the metadata of an edit that names none.
        if let Some(metadata) = of("metadata") {
            message.metadata = serde_json::from_str(&metadata).expect("JSON");
        }
        fine(json!({"channel": message.channel, "ts": message.ts, "text": message.text}))
    }

    fn replies_of(&self, root: &str, arguments: &Arguments) -> Response {
        let state = self.state.lock();
        let channel = arguments.get("channel").cloned().unwrap_or_default();
        let in_thread = |message: &&Message| {
            message.channel == channel && (message.ts == root || message.thread.as_deref() == Some(root))
        };
        let thread: Vec<Message> = state.messages.iter().filter(in_thread).cloned().collect();
        if thread.is_empty() {
            return error("thread_not_found");
        }
        // The first message of a thread comes in any case.
        let wanted = thread.into_iter().filter(|message| message.ts == root || within(&message.ts, arguments));
        fine(page(&wanted.collect::<Vec<_>>(), arguments))
    }

    fn history_of(&self, arguments: &Arguments) -> Response {
        let state = self.state.lock();
        let channel = arguments.get("channel").cloned().unwrap_or_default();
        let wanted =
            state.messages.iter().rev().filter(|message| {
                message.channel == channel && message.thread.is_none() && within(&message.ts, arguments)
            });
        let mut page = page(&wanted.cloned().collect::<Vec<_>>(), arguments);
        for shown in page["messages"].as_array_mut().into_iter().flatten() {
            let root = shown["ts"].as_str().unwrap_or_default().to_owned();
            let in_thread = state.messages.iter().filter(|message| message.thread.as_deref() == Some(&root));
            if let Some(newest) = in_thread.map(|message| message.ts.clone()).max() {
                shown["latest_reply"] = newest.into();
            }
        }
        fine(page)
    }
}

fn within(ts: &str, arguments: &Arguments) -> bool {
    let inclusive = arguments.get("inclusive").is_some_and(|told| is_true(told));
    let after = |bound: &String| ts > bound.as_str() || (inclusive && ts == bound);
    let before = |bound: &String| ts < bound.as_str() || (inclusive && ts == bound);
    arguments.get("oldest").is_none_or(after) && arguments.get("latest").is_none_or(before)
}

/// Returns a page; without `include_all_metadata`, the content of metadata is missing.
fn page(messages: &[Message], arguments: &Arguments) -> Value {
    let number = |name: &str| arguments.get(name).and_then(|text| text.parse::<usize>().ok());
    let (start, limit) = (number("cursor").unwrap_or_default(), number("limit").unwrap_or(100));
    let whole = arguments.get("include_all_metadata").is_some_and(|told| is_true(told));
    let shown = messages.iter().skip(start).take(limit).map(|message| {
        let mut wire = message.wire();
        if !whole && let Some(metadata) = wire.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("event_payload");
        }
        wire
    });
    let shown: Vec<Value> = shown.collect();
    let next = start + shown.len();
    let cursor = if next < messages.len() { next.to_string() } else { String::new() };
    json!({"messages": shown, "has_more": !cursor.is_empty(), "response_metadata": {"next_cursor": cursor}})
}

/// True for the forms in which clients write it.
fn is_true(value: &str) -> bool {
    matches!(value, "true" | "True" | "1")
}
