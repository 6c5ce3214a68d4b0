//! Merges the deltas of a stream into one assistant message. Unknown fields are kept, so that the message can be echoed
//! to its provider like an unstreamed one.
//!
//! Lists are bounded, and an item is found by its index, so that the cost of a delta is linear in its length.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::chunk::{Chunk, Delta, Fields};
use super::read::{self, text_of};
use crate::bounds::{CALLS_MAX, Room, Size, TooMany, chars, too_many};
use crate::lenient::{Loose, Read};
use crate::provider_error;
use crate::usage::Reported;
use crate::wire::{Assembly, Piece, Unusable};
use domain::completion::{ANSWER_FUNCTION, Completion};

#[cfg(test)]
mod tests;

/// Text fields that arrive whole and may be repeated; all others are concatenated.
const WHOLE: [&str; 8] = ["role", "id", "type", "name", "object", "format", "signature", "thought_signature"];

/// The most objects in one list of a streamed message: thinking blocks, content parts. Of the tool calls, as many are
/// kept and further ones are dropped, as in an answer that arrives whole.
const ITEMS_MAX: usize = CALLS_MAX;

/// The name of the list of tool calls.
const CALLS: &str = "tool_calls";

/// The first characters of the required form written as text: a JSON object, fenced or behind a thought.
const FORM_BEGINS: [char; 4] = ['{', '`', '<', '◁'];

/// The most blanks behind complete arguments, in bytes.
const BLANKS: usize = 256;

/// The longest function name assembled from pieces, in bytes.
const NAME_BYTES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Merged {
    /// True if the arguments of the function for the answer are text for members.
    answer_function: bool,
    /// The number of bytes of these arguments that were returned as text.
    answered: usize,
    /// True if the content begins with prose, false if it may be the required form; none while it is blank.
    is_prose: Option<bool>,
    message: Map<String, Value>,
    room: Room,
    finish: Option<String>,
    usage: Option<Reported>,
    /// True if a frame had usage and an empty list of choices, which means that a filter blocked the prompt.
    blocked: bool,
    /// True if the chunk with the finish reason had no text: the answer is complete.
    quiet: bool,
}

impl Assembly for Merged {
    fn take<'a>(&mut self, frame: &'a str) -> Result<Piece<'a>, Unusable> {
        let Read(chunk) = serde_json::from_str::<Read<Chunk<'a>>>(frame).map_err(|_| Unusable::NotJson)?;
        if chunk.suspicious
            && let Some(error) = provider_error::inside(&serde_json::from_str(frame).map_err(|_| Unusable::NotJson)?)
        {
            return Err(Unusable::Failed(error));
        }
        self.blocked |= chunk.choices.empty && chunk.usage.is_some();
        self.usage = chunk.usage.or(self.usage);
        let Some(choice) = chunk.choices.ours.filter(|choice| choice.whole) else { return Ok(Piece::default()) };
        self.usage = choice.usage.or(self.usage);
        // Some servers send the whole message instead of a delta, in a single chunk.
        let delta = match choice.delta {
            Delta::Absent if self.message.is_empty() => choice.message,
            delta => delta,
        };
        let mut piece = Piece::default();
        if let Delta::Fields(fields) = delta {
            piece = self.grow(fields).map_err(|TooMany| Unusable::OutOfBounds(too_many(ITEMS_MAX)))?;
            if self.finish.is_none() && self.has_enough_calls() {
                // A model that repeats calls without end is read no further, and its first calls are the answer.
                (self.finish, self.quiet) = (Some("tool_calls".to_owned()), true);
            }
        }
        if let Some(finish) = choice.finish {
            self.finish = Some(finish.into_owned());
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

    fn bytes(&self) -> usize {
        self.room.bytes()
    }

    fn is_answer(&self) -> bool {
        let half = self.finish.is_none() && read::has_half_a_call(&self.message);
        self.blocked || (self.has_begun() && !half)
    }

    fn into_completion(mut self: Box<Self>, prompt_chars: &dyn Fn() -> usize) -> Completion {
        if !self.has_begun() {
            return read::blocked(self.usage, prompt_chars);
        }
        let reason = self.finish.take();
        let usage = self.usage;
        read::message(self.into_message(), reason.as_deref(), usage, prompt_chars)
    }
}

impl Merged {
    /// Creates an empty assembly. `answer_function`: the request offers a function for the answer.
    pub fn new(answer_function: bool) -> Self {
        Self { answer_function, ..Self::default() }
    }

    /// Returns the part of the answer that the last delta added to the arguments of its function. The answer beside
    /// calls of tools is not shown, because their results are still to come.
    fn answer_part(&mut self) -> Option<String> {
        let [only] = self.message.get(CALLS).filter(|_| self.answer_function)?.as_array()?.as_slice() else {
            return None;
        };
        let called = called(only.as_object()?).filter(|called| called.name == ANSWER_FUNCTION)?;
        let part = called.arguments.get(self.answered..).filter(|part| !part.is_empty())?.to_owned();
        self.answered += part.len();
        Some(part)
    }

    /// True if the message has more than a role.
    fn has_begun(&self) -> bool {
        self.finish.is_some() || self.message.keys().any(|name| name != "role")
    }

    /// True if further calls are dropped.
    fn has_enough_calls(&self) -> bool {
        self.message.get(CALLS).and_then(Value::as_array).is_some_and(|calls| calls.len() > CALLS_MAX)
    }

    /// Returns the whole message, fit for an echo.
    fn into_message(mut self) -> Map<String, Value> {
        if let Some(Value::Array(calls)) = self.message.get_mut(CALLS) {
            calls.truncate(CALLS_MAX);
            for call in calls.iter_mut().filter_map(Value::as_object_mut) {
                // Indices belong to deltas; strict servers reject them in an echo.
                call.remove("index");
            }
        }
        self.message.entry("role").or_insert_with(|| json!("assistant"));
        self.message
    }

    fn grow<'a>(&mut self, fields: Fields<'a>) -> Result<Piece<'a>, TooMany> {
        let mut piece = Piece::default();
        match fields.content {
            Loose::Absent => {}
            Loose::Text(text) => {
                add_text(&mut self.message, "content", &text, &mut self.room)?;
                piece.text = text;
            }
            Loose::Other(value) => {
                piece.text = Cow::Owned(text_of(Some(&value)).0);
                add_value(&mut self.message, "content", value, &mut self.room)?;
            }
        }
        // The role does not count as hidden text.
        add_loose(&mut self.message, "role", fields.role, &mut self.room)?;
        for (name, value) in fields.others {
            piece.hidden += match &value {
                Loose::Absent => 0,
                Loose::Text(text) => text.chars().count(),
                Loose::Other(value) => chars(value),
            };
            add_loose(&mut self.message, &name, value, &mut self.room)?;
        }
        if let Some(first) = piece.text.trim_start().chars().next() {
            self.is_prose.get_or_insert(!FORM_BEGINS.contains(&first));
        }
        if let Some(part) = self.answer_part() {
            piece.hidden = (piece.hidden + piece.text.chars().count()).saturating_sub(part.chars().count());
            piece.text = Cow::Owned(part);
        } else if self.answer_function && self.is_prose == Some(true) {
            // Prose is the answer only if no call follows, so it is not shown early.
            piece.hidden += std::mem::take(&mut piece.text).chars().count();
        }
        Ok(piece)
    }
}

fn merge(into: &mut Map<String, Value>, delta: Map<String, Value>, room: &mut Room) -> Result<(), TooMany> {
    delta.into_iter().try_for_each(|(name, more)| add_value(into, &name, more, room))
}

fn add_loose(into: &mut Map<String, Value>, name: &str, more: Loose<'_>, room: &mut Room) -> Result<(), TooMany> {
    match more {
        Loose::Absent => Ok(()),
        Loose::Text(text) => add_text(into, name, &text, room),
        Loose::Other(value) => add_value(into, name, value, room),
    }
}

/// Appends to the text with this name.
fn add_text(into: &mut Map<String, Value>, name: &str, more: &str, room: &mut Room) -> Result<(), TooMany> {
    match into.get_mut(name) {
        Some(Value::String(there)) => add_to(there, name, more, room)?,
        Some(Value::Null) | None => return put(into, name, more.into(), room),
        Some(there) => *there = grown(name, there.take(), more.into(), room)?,
    }
    Ok(())
}

fn add_to(there: &mut String, name: &str, more: &str, room: &mut Room) -> Result<(), TooMany> {
    if WHOLE.contains(&name) && !more.is_empty() {
        room.give_back(Size::of_text(there));
        there.clear();
    }
    there.push_str(more);
    room.take(Size::of_text(more))
}

/// Merges a value into the one with this name.
fn add_value(into: &mut Map<String, Value>, name: &str, more: Value, room: &mut Room) -> Result<(), TooMany> {
    match into.get_mut(name) {
        // Null never overwrites a value.
        Some(_) if more.is_null() => {}
        Some(there) if !there.is_null() => *there = grown(name, there.take(), more, room)?,
        Some(_) | None => return put(into, name, more, room),
    }
    Ok(())
}

/// Sets the value of a name that has none or null.
fn put(into: &mut Map<String, Value>, name: &str, value: Value, room: &mut Room) -> Result<(), TooMany> {
    let fresh = if value.is_array() {
        let empty = Value::Array(Vec::new());
        room.take(Size::of(&empty))?;
        // Merged into an empty list, so that items are bounded alike.
        grown(name, empty, value, room)?
    } else {
        room.take(Size::of(&value))?;
        value
    };
    if let Some(null) = into.get_mut(name) {
        room.give_back(Size::of(null));
        *null = fresh;
    } else {
        room.take(Size::of_name(name))?;
        into.insert(name.to_owned(), fresh);
    }
    Ok(())
}

/// Returns a value merged with its continuation.
fn grown(name: &str, there: Value, more: Value, room: &mut Room) -> Result<Value, TooMany> {
    Ok(match (there, more) {
        (Value::String(mut there), Value::String(more)) => {
            add_to(&mut there, name, &more, room)?;
            Value::String(there)
        }
        (Value::Object(mut there), Value::Object(more)) => {
            merge(&mut there, more, room)?;
            Value::Object(there)
        }
        (Value::Array(mut there), Value::Array(more)) => {
            for item in more {
                add(name, &mut there, item, room)?;
            }
            Value::Array(there)
        }
        // The content changes from text to parts within the stream.
        (Value::String(there), Value::Array(more)) => {
            let before = Value::String(there);
            room.give_back(Size::of(&before));
            let parts = json!([{"type": "text", "text": before}]);
            room.take(Size::of(&parts))?;
            let Value::Array(mut parts) = parts else { return Err(TooMany) };
            for item in more {
                add(name, &mut parts, item, room)?;
            }
            Value::Array(parts)
        }
        (Value::Array(mut there), Value::String(more)) => {
            add(name, &mut there, json!({"type": "text", "text": more}), room)?;
            Value::Array(there)
        }
        (there, more) => {
            room.give_back(Size::of(&there));
            room.take(Size::of(&more))?;
            more
        }
    })
}

/// Appends an item to the list of this name, or merges it with the item that it continues.
fn add(name: &str, list: &mut Vec<Value>, item: Value, room: &mut Room) -> Result<(), TooMany> {
    let Value::Object(mut item) = item else {
        room.take(Size::of(&item))?;
        list.push(item);
        return Ok(());
    };
    let place = known(list, &item);
    if let Some(known) = place.and_then(|place| list[place].as_object_mut()) {
        join_name(known, &mut item);
        return merge(known, item, room);
    }
    if list.len() >= ITEMS_MAX {
        if name != CALLS {
            return Err(TooMany);
        }
        // The last excess call takes the place of the one before: the rest of its arguments has to belong to it.
        list.drain(ITEMS_MAX..).for_each(|call| room.give_back(Size::of(&call)));
    }
    // Merged into an empty object, so that nested lists are bounded alike.
    room.take(Size::of(&Value::Object(Map::new())))?;
    let mut fresh = Map::new();
    merge(&mut fresh, item, room)?;
    list.push(Value::Object(fresh));
    Ok(())
}

/// Returns the position of the item that this one continues: by index where indices are consistent, else the last match
/// in the bounded list.
fn known(list: &[Value], item: &Map<String, Value>) -> Option<usize> {
    let fits = |place: &usize| list.get(*place).and_then(Value::as_object).is_some_and(|known| continues(known, item));
    let number = item.get("index").and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    // Two calls may have the same index; the later one is meant.
    let numbered = number.filter(|place| fits(place) && !fits(&(place + 1)));
    numbered.or_else(|| list.len().checked_sub(1).filter(fits)).or_else(|| (0..list.len()).rev().find(fits))
}

/// True if an item continues a known one: compared by index and id if present, else by kind.
fn continues(known: &Map<String, Value>, item: &Map<String, Value>) -> bool {
    // Some servers give every call the same index.
    let differ = |name: &str| matches!((text(known, name), text(item, name)), (Some(a), Some(b)) if a != b);
    if differ("id") || differ("type") {
        return false;
    }
    match (known.get("index"), item.get("index")) {
        (Some(number), Some(other)) if !number.is_null() && !other.is_null() => {
            number == other && !begins_anew(known, item)
        }
        _ => {
            // A signature closes its block. A call without an index that repeats a function name is a new call.
            let closed = text(known, "signature").is_some() && text(item, "signature").is_none();
            !(closed || is_named(known) && is_named(item) && text(item, "id").is_none())
        }
    }
}

/// True if an item with the same index is a new call: servers that send index 0 and no id for every call repeat the
/// function name.
fn begins_anew(known: &Map<String, Value>, item: &Map<String, Value>) -> bool {
    let (Some(before), Some(next)) = (called(known), called(item)) else { return false };
    if text(item, "id").is_some() || before.name.is_empty() || next.name.is_empty() {
        return false;
    }
    // Some servers repeat the name with each piece of the arguments.
    let last = before.arguments.bytes().rev().take(BLANKS).find(|byte| !byte.is_ascii_whitespace());
    let whole = last == Some(b'}') && next.arguments.trim_start().starts_with('{');
    if before.name == next.name { whole } else { !before.arguments.is_empty() || text(item, "type").is_some() }
}

/// Joins the pieces of a function name, which come before the arguments.
fn join_name(known: &Map<String, Value>, item: &mut Map<String, Value>) {
    let (Some(before), Some(next)) = (called(known), called(item)) else { return };
    let ends = !before.arguments.is_empty() || before.name.len() >= NAME_BYTES;
    if ends || before.name.is_empty() || next.name.is_empty() || next.name.starts_with(before.name) {
        return;
    }
    let whole = format!("{}{}", before.name, next.name);
    if let Some(function) = item.get_mut("function") {
        function["name"] = whole.into();
    }
}

/// The function of a call, as far as known.
struct Called<'a> {
    name: &'a str,
    arguments: &'a str,
}

fn called(item: &Map<String, Value>) -> Option<Called<'_>> {
    let function = item.get("function")?.as_object()?;
    Some(Called {
        name: text(function, "name").unwrap_or_default(),
        arguments: text(function, "arguments").unwrap_or_default(),
    })
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    map.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn is_named(map: &Map<String, Value>) -> bool {
    map.get("function").is_some_and(|function| function.get("name").is_some_and(Value::is_string))
}
