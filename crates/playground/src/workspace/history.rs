//! Reading messages: pages of channels and threads.

use axum::response::Response;
use serde_json::{Value, json};

use super::methods::{error, fine};
use super::{Arguments, Message, Workspace};

impl Workspace {
    pub(super) fn replies_of(&self, root: &str, arguments: &Arguments) -> Response {
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

    pub(super) fn history_of(&self, arguments: &Arguments) -> Response {
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
