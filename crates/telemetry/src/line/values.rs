//! The values of one event: their text one after the other in a buffer that each thread keeps, without secrets and within bounds.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::ops::Range;

use serde::Serialize;

use crate::redact::Redactor;

thread_local! {
    /// What each thread makes its lines in.
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// Room for the making of a line.
#[derive(Default)]
pub(super) struct Buffers {
    pub values: Values,
    /// For one value.
    pub scratch: String,
    pub line: String,
}

impl Buffers {
    /// Those of this thread. They are taken out meanwhile: a value may log something while it is formatted.
    pub fn take() -> Self {
        // A thread that ends may still say something.
        BUFFERS.try_with(RefCell::take).unwrap_or_default()
    }

    /// Keeps them for the thread's next line.
    pub fn give_back(mut self) {
        self.values.text.clear();
        self.values.slots.clear();
        self.line.clear();
        let _ = BUFFERS.try_with(|buffers| buffers.replace(self));
    }
}

/// The values of one event: their text one after the other, and where each stands.
#[derive(Default)]
pub(super) struct Values {
    text: String,
    slots: Vec<Slot>,
}

/// One value.
pub(super) struct Slot {
    pub name: &'static str,
    /// The name is one that only this layer may use, so the line says `field.` before it.
    pub is_reserved: bool,
    /// Its text is that of a JSON value other than a string.
    is_json: bool,
    text: Range<usize>,
}

impl Slot {
    pub fn full_name(&self) -> Cow<'static, str> {
        if self.is_reserved { format!("field.{}", self.name).into() } else { self.name.into() }
    }
}

impl Values {
    /// Brings them into the order of their names.
    pub fn sort(&mut self) {
        self.slots.sort_by(|one, other| one.full_name().cmp(&other.full_name()));
    }

    /// All of them.
    pub fn all(&self) -> &[Slot] {
        &self.slots
    }

    /// The text of a value.
    pub fn text(&self, slot: &Slot) -> &str {
        &self.text[slot.text.clone()]
    }

    /// The value of this name that is no reserved one.
    pub fn find(&self, name: &str) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.name == name && !slot.is_reserved)
    }

    pub fn put_text(&mut self, name: &'static str, text: &str) {
        self.put(name, false, false, |out| out.push_str(text));
    }

    /// A later value replaces one of the same name.
    pub fn put(&mut self, name: &'static str, is_reserved: bool, is_json: bool, write: impl FnOnce(&mut String)) {
        let from = self.text.len();
        write(&mut self.text);
        let slot = Slot { name, is_reserved, is_json, text: from..self.text.len() };
        match self.slots.iter_mut().find(|known| known.name == name && known.is_reserved == is_reserved) {
            Some(known) => *known = slot,
            None => self.slots.push(slot),
        }
    }

    /// The value of this name as JSON; an empty string when there is none.
    pub fn json(&self, name: &str, line: &mut String) {
        match self.find(name) {
            Some(slot) => self.write_json(slot, line),
            None => line.push_str("\"\""),
        }
    }

    pub fn write_json(&self, slot: &Slot, line: &mut String) {
        let text = self.text(slot);
        if slot.is_json {
            line.push_str(text);
        } else {
            json_text(line, text);
        }
    }
}

/// Appends JSON. What is written there is text, and memory takes all of it.
pub(super) fn json_text(out: &mut String, value: &(impl Serialize + ?Sized)) {
    let _ = serde_json::to_writer(Utf8(out), value);
}

/// Takes the bytes of a JSON writer, which come as whole pieces of text.
struct Utf8<'a>(&'a mut String);

impl std::io::Write for Utf8<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(|_| std::io::ErrorKind::InvalidData)?;
        self.0.push_str(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Makes `text` that of a value without secrets, cut so that it takes at most `most` bytes of a JSON string. Gives the bytes it
/// takes.
pub fn bounded(value: &dyn fmt::Display, most: usize, redactor: &Redactor, text: &mut String) -> usize {
    text.clear();
    let mut gathered = Gathered { text, most: most + redactor.longest(), full: false };
    // The only error is the one that ends the formatting of a value that is too long.
    let _ = write!(gathered, "{value}");
    let Gathered { text, full, .. } = gathered;
    redactor.clean(text);
    if full {
        // What was cut may end with the beginning of a secret.
        let sure = text.len().saturating_sub(redactor.longest());
        text.truncate(floor(text, sure));
    }
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\') || byte == b' ';
    if !full && text.len() <= most && text.bytes().all(plain) {
        return text.len();
    }
    let (mut end, mut cost, mut fits) = (0, 0, !full);
    let ellipsis = '…'.len_utf8();
    for (at, character) in text.char_indices() {
        let next = cost + json_cost(character);
        if next > most {
            fits = false;
            break;
        }
        if next + ellipsis <= most {
            end = at + character.len_utf8();
        }
        cost = next;
    }
    if fits {
        return cost;
    }
    text.truncate(end);
    let cost = text.chars().map(json_cost).sum::<usize>();
    if cost + ellipsis > most {
        return cost;
    }
    text.push('…');
    cost + ellipsis
}

/// How many bytes a character takes in a JSON string.
fn json_cost(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

/// The nearest border between characters at or below `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Formats no more than is kept.
struct Gathered<'a> {
    text: &'a mut String,
    most: usize,
    full: bool,
}

impl fmt::Write for Gathered<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = self.most - self.text.len();
        if part.len() <= room {
            self.text.push_str(part);
            return Ok(());
        }
        self.text.push_str(&part[..floor(part, room)]);
        self.full = true;
        Err(fmt::Error)
    }
}
