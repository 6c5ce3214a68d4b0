//! Makes one assistant message of the deltas of a stream. Unknown fields are kept, so that the message can be
//! echoed to its provider as if it had come in one piece.
//!
//! Lists are bounded, and an item finds the one that it goes on with by its number, so that no delta costs more than its length.

use serde_json::{Map, Value, json};

use super::read::{CALLS_MAX, text_of};
use crate::llm::wire::{Assembly, Piece};
use crate::ports::{ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// Texts that come whole and may be repeated; all others grow.
const WHOLE: [&str; 8] = ["role", "id", "type", "name", "object", "format", "signature", "thought_signature"];

/// The most objects in one list of a streamed message: calls, blocks of thoughts, parts of the text.
const ITEMS_MAX: usize = CALLS_MAX;

/// What the deltas of a stream have become so far.
#[derive(Debug, Default)]
pub(super) struct Merged {
    message: Map<String, Value>,
    finish: Option<Value>,
    usage: Option<Value>,
    /// A frame had an empty list of choices and usage, as it does where a filter blocked the prompt.
    blocked: bool,
    /// The chunk with the finish reason had no text: nothing of the answer follows.
    quiet: bool,
}

/// A list of the answer is longer than anything that a turn can use.
struct TooMany;

impl Assembly for Merged {
    fn take(&mut self, mut chunk: Value) -> Result<Piece, ModelError> {
        let usage = chunk.get_mut("usage").map(Value::take).filter(Value::is_object);
        let without_choices = chunk.get("choices").and_then(Value::as_array).is_some_and(Vec::is_empty);
        self.blocked |= without_choices && usage.is_some();
        self.usage = usage.or(self.usage.take());
        let Some(mut choice) = first(&mut chunk) else { return Ok(Piece::default()) };
        if let Some(usage) = choice.remove("usage").filter(Value::is_object) {
            self.usage = Some(usage);
        }
        // The whole message instead of a delta is what some servers send in one only chunk.
        let whole = || if self.message.is_empty() { Some("message") } else { None };
        let delta = choice.remove("delta").filter(|delta| !delta.is_null()).or_else(|| choice.remove(whole()?));
        let mut piece = Piece::default();
        if let Some(Value::Object(delta)) = delta {
            piece.text = text_of(delta.get("content")).0;
            piece.hidden =
                delta.iter().filter(|(name, _)| !SAID.contains(&name.as_str())).map(|(_, value)| chars(value)).sum();
            merge(&mut self.message, delta).map_err(|TooMany| too_many())?;
        }
        let finish =
            choice.remove("finish_reason").filter(|reason| reason.as_str().is_some_and(|text| !text.is_empty()));
        if let Some(finish) = finish {
            self.finish = Some(finish);
            self.quiet = piece.text.is_empty();
        }
        Ok(piece)
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn is_quiet(&self) -> bool {
        self.quiet
    }

    fn into_answer(mut self: Box<Self>) -> Option<Value> {
        // There is more of a message than who speaks.
        let begun = self.message.keys().any(|name| name != "role");
        if !begun && self.finish.is_none() {
            return self.blocked.then(|| json!({"choices": [], "usage": self.usage}));
        }
        if let Some(Value::Array(calls)) = self.message.get_mut("tool_calls") {
            for call in calls.iter_mut().filter_map(Value::as_object_mut) {
                // Numbers belong to deltas; strict servers refuse them in an echo.
                call.remove("index");
            }
        }
        self.message.entry("role").or_insert_with(|| json!("assistant"));
        let choice = Map::from_iter([
            ("index".to_owned(), json!(0)),
            ("message".to_owned(), Value::Object(self.message)),
            ("finish_reason".to_owned(), self.finish.unwrap_or_default()),
        ]);
        let answer = Map::from_iter([
            ("choices".to_owned(), Value::Array(vec![Value::Object(choice)])),
            ("usage".to_owned(), self.usage.unwrap_or_default()),
        ]);
        Some(Value::Object(answer))
    }
}

/// Fields of a delta that are not written by the model unseen: what it says, and who it is.
const SAID: [&str; 2] = ["content", "role"];

/// The characters of all texts in a value.
fn chars(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.iter().map(chars).sum(),
        Value::Object(fields) => fields.values().map(chars).sum(),
        _ => 0,
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

fn merge(into: &mut Map<String, Value>, delta: Map<String, Value>) -> Result<(), TooMany> {
    for (name, more) in delta {
        if more.is_null() {
            // A name that was told once stays, even without a value.
            into.entry(name).or_insert(Value::Null);
            continue;
        }
        match into.get_mut(&name) {
            None | Some(Value::Null) => {
                let fresh = if more.is_array() { grown(&name, Value::Array(Vec::new()), more)? } else { more };
                into.insert(name, fresh);
            }
            Some(there) => *there = grown(&name, there.take(), more)?,
        }
    }
    Ok(())
}

/// One value after what came next of it.
fn grown(name: &str, there: Value, more: Value) -> Result<Value, TooMany> {
    Ok(match (there, more) {
        (Value::String(there), Value::String(more)) => Value::String(match WHOLE.contains(&name) {
            true if more.is_empty() => there,
            true => more,
            false => there + &more,
        }),
        (Value::Object(mut there), Value::Object(more)) => {
            merge(&mut there, more)?;
            Value::Object(there)
        }
        (Value::Array(mut there), Value::Array(more)) => {
            for item in more {
                add(&mut there, item)?;
            }
            Value::Array(there)
        }
        // Content that changes its form in the middle.
        (Value::String(there), Value::Array(more)) => {
            let mut parts = vec![json!({"type": "text", "text": there})];
            for item in more {
                add(&mut parts, item)?;
            }
            Value::Array(parts)
        }
        (Value::Array(mut there), Value::String(more)) => {
            add(&mut there, json!({"type": "text", "text": more}))?;
            Value::Array(there)
        }
        (_, more) => more,
    })
}

/// Adds an item to a list, or to the item of the list that it goes on with.
fn add(list: &mut Vec<Value>, item: Value) -> Result<(), TooMany> {
    let Value::Object(item) = item else {
        list.push(item);
        return Ok(());
    };
    let place = known(list, &item);
    if let Some(known) = place.and_then(|place| list[place].as_object_mut()) {
        return merge(known, item);
    }
    if list.len() >= ITEMS_MAX {
        return Err(TooMany);
    }
    // Merged into nothing, so that lists inside it are treated alike.
    let mut fresh = Map::new();
    merge(&mut fresh, item)?;
    list.push(Value::Object(fresh));
    Ok(())
}

/// Where the item of a list is that another one goes on with: at its number, where numbers count items as they should; else the
/// last that fits, in a list that is bounded.
fn known(list: &[Value], item: &Map<String, Value>) -> Option<usize> {
    let fits = |place: &usize| list.get(*place).and_then(Value::as_object).is_some_and(|known| continues(known, item));
    let number = item.get("index").and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    // Two calls may have the same number, and the later one is meant.
    let numbered = number.filter(|place| fits(place) && !fits(&(place + 1)));
    numbered.or_else(|| list.len().checked_sub(1).filter(fits)).or_else(|| (0..list.len()).rev().find(fits))
}

/// Whether an item goes on with one that is known: by number and id where they are present, else by kind.
fn continues(known: &Map<String, Value>, item: &Map<String, Value>) -> bool {
    // Some servers give every call the same number.
    let differ = |name: &str| matches!((text(known, name), text(item, name)), (Some(a), Some(b)) if a != b);
    if differ("id") || differ("type") {
        return false;
    }
    match (known.get("index"), item.get("index")) {
        (Some(known), Some(item)) if !known.is_null() && !item.is_null() => known == item,
        _ => {
            // A signature closes its block, and a call without a number that names its function anew is another one.
            let closed = text(known, "signature").is_some() && text(item, "signature").is_none();
            !(closed || is_named(known) && is_named(item) && text(item, "id").is_none())
        }
    }
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    map.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn is_named(map: &Map<String, Value>) -> bool {
    map.get("function").is_some_and(|function| function.get("name").is_some_and(Value::is_string))
}

fn too_many() -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, format!("a list of the answer has more than {ITEMS_MAX} items"))
}
