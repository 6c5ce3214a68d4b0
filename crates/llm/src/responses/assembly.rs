//! Assembles the events of a stream into output items. Items arrive empty, grow by deltas, and arrive again when they
//! are complete; the complete item is kept as it came, because servers check what is sent back to them.
//!
//! The number of items and of their values is bounded, and an item is found by its index, so that the cost of an event
//! is linear in its length.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::event::{Event, Kind, PartKind, Response};
use super::item::{self, Item};
use super::read::{self, Ending};
use crate::bounds::{CALLS_MAX, Room, Size, TooMany, chars, too_many};
use crate::lenient::{Loose, Read};
use crate::provider_error::{self, ProviderError};
use crate::usage::Reported;
use crate::wire::{Assembly, Piece, Unusable};
use domain::completion::Completion;

#[cfg(test)]
mod tests;

/// The most output items of an answer, besides dropped calls: reasoning, messages, calls of the provider's own tools.
const ITEMS_MAX: usize = 256;

/// The first characters of the required form written as text: a JSON object, fenced or behind a thought.
const FORM_BEGINS: [char; 4] = ['{', '`', '<', '◁'];

#[derive(Debug, Default)]
pub(super) struct Assembled {
    /// True if the arguments of the function for the answer are text for members.
    answer_function: bool,
    /// True if the text begins with prose, false if it may be the required form; none while it is blank.
    is_prose: Option<bool>,
    /// The items by their index.
    slots: BTreeMap<u64, Slot>,
    /// The number of calls of tools among them.
    calls: usize,
    room: Room,
    ending: Option<Ending>,
    usage: Option<Reported>,
}

#[derive(Debug, Default)]
struct Slot {
    item: Item,
    /// The size of the item, as far as taken of the room.
    size: Size,
    /// The characters of hidden content that were reported.
    hidden: usize,
    /// True if the item is complete.
    done: bool,
}

impl Assembly for Assembled {
    fn take<'a>(&mut self, frame: &'a str) -> Result<Piece<'a>, Unusable> {
        let Read(event) = serde_json::from_str::<Read<Event<'a>>>(frame).map_err(|_| Unusable::NotJson)?;
        let kind = Kind::of(&event.kind);
        if kind == Kind::Failed || event.suspicious {
            let frame: Value = serde_json::from_str(frame).map_err(|_| Unusable::NotJson)?;
            if let Some(error) = failure(kind, &frame) {
                return Err(Unusable::Failed(error));
            }
        }
        let piece = self.grow(kind, event).map_err(|TooMany| Unusable::OutOfBounds(too_many(ITEMS_MAX)))?;
        if self.ending.is_none() && self.calls > CALLS_MAX {
            // A model that repeats calls without end is read no further, and its first calls are the answer.
            self.ending = Some(Ending { status: Some("completed".to_owned()), reason: None });
        }
        Ok(piece)
    }

    fn is_finished(&self) -> bool {
        self.ending.is_some()
    }

    fn is_quiet(&self) -> bool {
        self.ending.is_some()
    }

    fn is_complete(&self) -> bool {
        self.ending.is_some()
    }

    fn bytes(&self) -> usize {
        self.room.bytes()
    }

    fn is_answer(&self) -> bool {
        self.ending.is_some()
            || !(self.slots.is_empty() || read::has_half_a_call(self.slots.values().map(|slot| &slot.item)))
    }

    fn into_completion(self: Box<Self>, prompt_chars: &dyn Fn() -> usize) -> Completion {
        let output = self.slots.into_values().map(|slot| Value::Object(slot.item)).collect();
        read::completion(output, &self.ending.unwrap_or_default(), self.usage, prompt_chars)
    }
}

/// Returns the error in a frame: the event `error`, a failed response, or a proxy's own error object.
fn failure(kind: Kind, frame: &Value) -> Option<ProviderError> {
    if kind != Kind::Failed {
        return provider_error::inside(frame);
    }
    let response = frame.get("response").filter(|response| response.is_object());
    let wordless = || ProviderError { code: None, kind: None, message: "no words".to_owned() };
    Some(provider_error::of_body(response.unwrap_or(frame)).unwrap_or_else(wordless))
}

impl Assembled {
    /// Creates an empty assembly. `answer_function`: the request offers a function for the answer.
    pub fn new(answer_function: bool) -> Self {
        Self { answer_function, ..Self::default() }
    }

    fn grow<'a>(&mut self, kind: Kind, event: Event<'a>) -> Result<Piece<'a>, TooMany> {
        let Event { output_index, item_id, index, delta, whole, item, part, response, .. } = event;
        let delta = match delta {
            Loose::Text(text) => text,
            Loose::Absent | Loose::Other(_) => Cow::Borrowed(""),
        };
        match kind {
            Kind::ItemAdded | Kind::ItemDone => {
                let Loose::Other(Value::Object(item)) = item else { return Ok(Piece::default()) };
                let place = self.place_of_item(output_index, &item);
                self.put(place, item, kind == Kind::ItemDone)
            }
            Kind::Part => {
                let Loose::Other(Value::Object(part)) = part else { return Ok(Piece::default()) };
                let kinds = [PartKind::OutputText, PartKind::Refusal, PartKind::Reasoning];
                let named = |kind: &PartKind| item::text(&part, "type") == Some(kind.names().0);
                let Some(kind) = kinds.into_iter().find(named) else { return Ok(Piece::default()) };
                let whole = item::text(&part, kind.names().1).unwrap_or_default().to_owned();
                let place = self.place(output_index, &item_id);
                self.complete(place, kind, index, &whole)
            }
            Kind::Text(kind) => {
                let place = self.place(output_index, &item_id);
                self.append(place, kind, index, delta)
            }
            Kind::TextDone(kind) => {
                let place = self.place(output_index, &item_id);
                self.complete(place, kind, index, &whole.unwrap_or_default())
            }
            Kind::Arguments(ours) => {
                let place = self.place(output_index, &item_id);
                self.append_arguments(place, ours, delta)
            }
            Kind::ArgumentsDone(ours) => {
                let place = self.place(output_index, &item_id);
                let whole = whole.unwrap_or_default();
                let known = self.slots.get(&place).and_then(|slot| item::text(&slot.item, "arguments"));
                let rest = whole.strip_prefix(known.unwrap_or_default()).unwrap_or_default().to_owned();
                self.append_arguments(place, ours, Cow::Owned(rest))
            }
            Kind::Hidden => Ok(Piece { hidden: delta.chars().count().max(1), ..Piece::default() }),
            Kind::Working => Ok(Piece { hidden: 1, ..Piece::default() }),
            Kind::End => self.end(response),
            Kind::Failed | Kind::Other => Ok(Piece::default()),
        }
    }

    /// Returns the index of the item that an event continues: the item with its id, else the one at its index, else the
    /// last one. Some servers give every item the same index, others change ids.
    fn place(&self, index: Option<u64>, id: &str) -> u64 {
        let is_same = |slot: &Slot| id.is_empty() || item::text(&slot.item, "id").is_none_or(|known| known == id);
        let at = index.filter(|index| self.slots.get(index).is_none_or(is_same));
        let named = || self.slots.iter().rev().find(|(_, slot)| item::text(&slot.item, "id") == Some(id));
        let last = || self.slots.last_key_value().map_or(0, |(place, _)| *place);
        at.or_else(|| named().map(|(place, _)| *place)).or(index).unwrap_or_else(last)
    }

    /// Returns the index of an item: a new one if the item at its index is another one.
    fn place_of_item(&self, index: Option<u64>, item: &Item) -> u64 {
        let next = || self.slots.last_key_value().map_or(0, |(place, _)| place.saturating_add(1));
        let id = item::text(item, "id").unwrap_or_default();
        let known = |slot: &Slot| item::text(&slot.item, "id") == Some(id) && !id.is_empty();
        if let Some((place, _)) = self.slots.iter().rev().find(|(_, slot)| known(slot)) {
            return *place;
        }
        let is_other = |slot: &Slot| slot.done || item::text(&slot.item, "type") != item::text(item, "type");
        index.filter(|index| !self.slots.get(index).is_some_and(is_other)).unwrap_or_else(next)
    }

    /// Returns the item at an index, created as `fresh` if an event arrived before its item.
    fn slot(&mut self, place: u64, fresh: impl FnOnce() -> Value) -> Result<&mut Slot, TooMany> {
        if !self.slots.contains_key(&place) {
            if self.slots.len() >= ITEMS_MAX {
                return Err(TooMany);
            }
            let Value::Object(item) = fresh() else { return Err(TooMany) };
            let size = size(&item);
            self.room.take(size)?;
            self.calls += usize::from(item::is_call(&item));
            self.slots.insert(place, Slot { item, size, ..Slot::default() });
        }
        self.slots.get_mut(&place).ok_or(TooMany)
    }

    /// Replaces an item by a later version of itself and returns what is new in it.
    fn put(&mut self, place: u64, item: Item, done: bool) -> Result<Piece<'static>, TooMany> {
        let before = self.slots.remove(&place).unwrap_or_default();
        if before.done {
            self.slots.insert(place, before);
            return Ok(Piece::default());
        }
        if self.slots.len() >= ITEMS_MAX {
            return Err(TooMany);
        }
        let was = self.visible(&before.item);
        self.calls -= usize::from(item::is_call(&before.item));
        self.calls += usize::from(item::is_call(&item));
        let size = size(&item);
        self.room.give_back(before.size);
        self.room.take(size)?;
        let now = self.visible(&item);
        let rest = now.strip_prefix(&was).unwrap_or_default();
        let all = item.values().map(chars).sum::<usize>().saturating_sub(now.chars().count());
        let mut piece = Piece { text: Cow::Owned(rest.to_owned()), hidden: all.saturating_sub(before.hidden) };
        if item::is_message(&item) {
            self.hold_prose_back(&mut piece);
        }
        self.slots.insert(place, Slot { item, size, hidden: before.hidden + piece.hidden, done });
        Ok(piece)
    }

    /// Returns the text of an item that members may read while it grows.
    fn visible(&self, item: &Item) -> String {
        if self.shows_arguments_of(item) {
            return item::text(item, "arguments").unwrap_or_default().to_owned();
        }
        if item::is_commentary(item) { String::new() } else { item::message_text(item) }
    }

    /// True if the arguments of a call are the answer. The answer beside calls of tools is not shown, because their
    /// results are still to come.
    fn shows_arguments_of(&self, item: &Item) -> bool {
        self.answer_function && self.calls <= 1 && item::is_answer_call(item)
    }

    /// Appends to a text of an item.
    fn append<'a>(&mut self, place: u64, kind: PartKind, index: u64, more: Cow<'a, str>) -> Result<Piece<'a>, TooMany> {
        let Some(text) = self.text_at(place, kind, index)? else { return Ok(Piece::default()) };
        text.push_str(&more);
        self.grew(place, Size::of_text(&more))?;
        Ok(self.told(place, kind == PartKind::OutputText, more))
    }

    /// Sets a text of an item that is now known as a whole, and returns its rest.
    fn complete(&mut self, place: u64, kind: PartKind, index: u64, whole: &str) -> Result<Piece<'static>, TooMany> {
        let Some(text) = self.text_at(place, kind, index)? else { return Ok(Piece::default()) };
        let Some(rest) = whole.strip_prefix(text.as_str()) else { return Ok(Piece::default()) };
        let rest = rest.to_owned();
        text.push_str(&rest);
        self.grew(place, Size::of_text(&rest))?;
        Ok(self.told(place, kind == PartKind::OutputText, Cow::Owned(rest)))
    }

    /// Takes room for what was added to an item.
    fn grew(&mut self, place: u64, more: Size) -> Result<(), TooMany> {
        if let Some(slot) = self.slots.get_mut(&place) {
            slot.size.add(more);
        }
        self.room.take(more)
    }

    /// Returns the text of a part, which is created if it is the next one; `None` if the item is complete.
    fn text_at(&mut self, place: u64, kind: PartKind, index: u64) -> Result<Option<&mut String>, TooMany> {
        let (part, field, list) = kind.names();
        let item = if list == "summary" || kind == PartKind::Reasoning { "reasoning" } else { "message" };
        let fresh = || json!({"type": item, "role": "assistant"});
        if self.slot(place, fresh)?.done {
            return Ok(None);
        }
        let Some(slot) = self.slots.get_mut(&place) else { return Ok(None) };
        let parts = slot.item.entry(list).or_insert_with(|| json!([]));
        if !parts.is_array() {
            *parts = json!([]);
        }
        let Some(parts) = parts.as_array_mut() else { return Ok(None) };
        let at = usize::try_from(index).unwrap_or(usize::MAX).min(parts.len());
        if at == parts.len() {
            let part = json!({"type": part, field: ""});
            let size = Size::of(&part);
            slot.size.add(size);
            self.room.take(size)?;
            parts.push(part);
        }
        let Some(part) = parts[at].as_object_mut() else { return Ok(None) };
        let text = part.entry(field).or_insert_with(|| json!(""));
        if !text.is_string() {
            *text = json!("");
        }
        Ok(match text {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    fn append_arguments<'a>(&mut self, place: u64, ours: bool, more: Cow<'a, str>) -> Result<Piece<'a>, TooMany> {
        let kind = if ours { "function_call" } else { "mcp_call" };
        let slot = self.slot(place, || json!({"type": kind, "arguments": ""}))?;
        if slot.done {
            return Ok(Piece::default());
        }
        match slot.item.get_mut("arguments") {
            Some(Value::String(there)) => there.push_str(&more),
            _ => drop(slot.item.insert("arguments".to_owned(), Value::String(more.clone().into_owned()))),
        }
        self.grew(place, Size::of_text(&more))?;
        let shown = self.slots.get(&place).is_some_and(|slot| self.shows_arguments_of(&slot.item));
        Ok(self.told(place, shown, more))
    }

    /// Returns a text as a piece: for members, or hidden.
    fn told<'a>(&mut self, place: u64, visible: bool, text: Cow<'a, str>) -> Piece<'a> {
        let Some(slot) = self.slots.get(&place) else { return Piece::default() };
        let is_call = item::is_call(&slot.item);
        let mut piece = if visible && !item::is_commentary(&slot.item) {
            Piece { text, hidden: 0 }
        } else {
            Piece { hidden: text.chars().count(), ..Piece::default() }
        };
        if !is_call {
            self.hold_prose_back(&mut piece);
        }
        if let Some(slot) = self.slots.get_mut(&place) {
            slot.hidden += piece.hidden;
        }
        piece
    }

    fn end(&mut self, response: Response) -> Result<Piece<'static>, TooMany> {
        let Response { status, reason, usage, output } = response;
        self.usage = usage.or(self.usage);
        self.ending.get_or_insert(Ending { status: status.or_else(|| Some("completed".to_owned())), reason });
        let is_known = output.len() <= self.slots.len() && self.slots.values().all(|slot| slot.done);
        if output.is_empty() || is_known {
            return Ok(Piece::default());
        }
        // Items, or their ends, were not streamed.
        let was: String = self.slots.values().map(|slot| self.visible(&slot.item)).collect();
        (self.slots, self.calls, self.room) = (BTreeMap::new(), 0, Room::default());
        for (place, item) in (0..).zip(output) {
            if let Value::Object(item) = item {
                self.put(place, item, true)?;
            }
        }
        let now: String = self.slots.values().map(|slot| self.visible(&slot.item)).collect();
        let mut piece = Piece { text: Cow::Owned(now.strip_prefix(&was).unwrap_or_default().to_owned()), hidden: 0 };
        if self.calls == 0 {
            self.hold_prose_back(&mut piece);
        }
        Ok(piece)
    }

    /// Hides prose while a call may follow that is the answer: only without one is the prose the answer itself.
    fn hold_prose_back(&mut self, piece: &mut Piece<'_>) {
        if !self.answer_function {
            return;
        }
        if let Some(first) = piece.text.trim_start().chars().next() {
            self.is_prose.get_or_insert(!FORM_BEGINS.contains(&first));
        }
        if self.is_prose == Some(true) {
            piece.hidden += std::mem::take(&mut piece.text).chars().count();
        }
    }
}

/// Returns the size of an item, to which two lists may be added.
fn size(item: &Item) -> Size {
    let mut size = Size::of(&json!({"content": [], "summary": []}));
    for (name, value) in item {
        size.add(Size::of_name(name));
        size.add(Size::of(value));
    }
    size
}
