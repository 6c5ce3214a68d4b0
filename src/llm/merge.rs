//! Makes one assistant message of the deltas of a stream. Fields that nobody here knows are kept, so that the message can be
//! echoed to its provider as if it had come in one piece.

use serde_json::{Map, Value, json};

use crate::llm::wire;

#[cfg(test)]
mod tests;

/// Texts that come whole and may be repeated; all others grow.
const WHOLE: [&str; 8] = ["role", "id", "type", "name", "object", "format", "signature", "thought_signature"];

/// What the deltas of a stream have become so far.
#[derive(Debug, Default)]
pub struct Merged {
    message: Map<String, Value>,
    finish: Option<Value>,
    usage: Option<Value>,
    /// The chunk with the finish reason had no text: nothing of the answer follows.
    quiet: bool,
}

impl Merged {
    /// Takes in one chunk, and gives the text in it that people may read.
    pub fn take(&mut self, mut chunk: Value) -> String {
        if let Some(usage) = chunk.get_mut("usage").map(Value::take).filter(Value::is_object) {
            self.usage = Some(usage);
        }
        let Some(mut choice) = first(&mut chunk) else { return String::new() };
        if let Some(usage) = choice.remove("usage").filter(Value::is_object) {
            self.usage = Some(usage);
        }
        // The whole message instead of a delta is what some servers send in one only chunk.
        let whole = || if self.message.is_empty() { Some("message") } else { None };
        let delta = choice.remove("delta").filter(|delta| !delta.is_null()).or_else(|| choice.remove(whole()?));
        let mut text = String::new();
        if let Some(Value::Object(delta)) = delta {
            text = wire::text_of(delta.get("content")).0;
            merge(&mut self.message, delta);
        }
        let finish =
            choice.remove("finish_reason").filter(|reason| reason.as_str().is_some_and(|text| !text.is_empty()));
        if let Some(finish) = finish {
            self.finish = Some(finish);
            self.quiet = text.is_empty();
        }
        text
    }

    /// There is more of a message than who speaks.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.message.keys().any(|name| name != "role")
    }

    /// The model has said why it stopped.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// It has, and nothing of the answer is to follow.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The body of the same answer in one piece.
    #[must_use]
    pub fn into_body(mut self) -> Value {
        if let Some(Value::Array(calls)) = self.message.get_mut("tool_calls") {
            for call in calls.iter_mut().filter_map(Value::as_object_mut) {
                // Numbers belong to deltas; strict servers refuse them in an echo.
                call.remove("index");
            }
        }
        self.message.entry("role").or_insert_with(|| json!("assistant"));
        let choice = json!({"index": 0, "message": self.message, "finish_reason": self.finish});
        json!({"choices": [choice], "usage": self.usage})
    }
}

/// The choice that we asked for; a chunk without choices brings usage or nothing.
fn first(chunk: &mut Value) -> Option<Map<String, Value>> {
    let choices = chunk.get_mut("choices")?.as_array_mut()?;
    let ours = |choice: &&mut Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
    match choices.iter_mut().find(ours)?.take() {
        Value::Object(choice) => Some(choice),
        _ => None,
    }
}

fn merge(into: &mut Map<String, Value>, delta: Map<String, Value>) {
    for (name, more) in delta {
        if more.is_null() {
            // A name that was told once stays, even without a value.
            into.entry(name).or_insert(Value::Null);
            continue;
        }
        match into.get_mut(&name) {
            None | Some(Value::Null) => {
                let fresh = if more.is_array() { grown(&name, Value::Array(Vec::new()), more) } else { more };
                into.insert(name, fresh);
            }
            Some(there) => *there = grown(&name, there.take(), more),
        }
    }
}

/// One value after what came next of it.
fn grown(name: &str, there: Value, more: Value) -> Value {
    match (there, more) {
        (Value::String(there), Value::String(more)) => Value::String(match WHOLE.contains(&name) {
            true if more.is_empty() => there,
            true => more,
            false => there + &more,
        }),
        (Value::Object(mut there), Value::Object(more)) => {
            merge(&mut there, more);
            Value::Object(there)
        }
        (Value::Array(mut there), Value::Array(more)) => {
            for item in more {
                add(&mut there, item);
            }
            Value::Array(there)
        }
        // Content that changes its form in the middle.
        (Value::String(there), Value::Array(more)) => {
            let mut parts = vec![json!({"type": "text", "text": there})];
            for item in more {
                add(&mut parts, item);
            }
            Value::Array(parts)
        }
        (Value::Array(mut there), Value::String(more)) => {
            add(&mut there, json!({"type": "text", "text": more}));
            Value::Array(there)
        }
        (_, more) => more,
    }
}

/// Adds an item to a list, or to the item of the list that it goes on with.
fn add(list: &mut Vec<Value>, item: Value) {
    let Value::Object(item) = item else { return list.push(item) };
    let same = list.iter_mut().rev().filter_map(Value::as_object_mut).find(|known| continues(known, &item));
    match same {
        Some(known) => merge(known, item),
        None => {
            // Merged into nothing, so that lists inside it are treated alike.
            let mut fresh = Map::new();
            merge(&mut fresh, item);
            list.push(Value::Object(fresh));
        }
    }
}

/// Whether an item goes on with one that is known: by number and id where they are told, else by kind.
fn continues(known: &Map<String, Value>, item: &Map<String, Value>) -> bool {
    let text = |map: &Map<String, Value>, name: &str| {
        map.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let differ = |name: &str| matches!((text(known, name), text(item, name)), (Some(a), Some(b)) if a != b);
    // Some servers give every call the same number.
    if differ("id") || differ("type") {
        return false;
    }
    // A signature closes its block, and a call without a number that names its function anew is another one.
    let named = |map: &Map<String, Value>| {
        map.get("function").is_some_and(|function| function.get("name").is_some_and(Value::is_string))
    };
    let closed = text(known, "signature").is_some() && text(item, "signature").is_none();
    match (known.get("index"), item.get("index")) {
        (Some(known), Some(item)) if !known.is_null() && !item.is_null() => known == item,
        _ => !(closed || named(known) && named(item) && text(item, "id").is_none()),
    }
}
