//! The values of one event: their redacted, bounded texts in a thread-local buffer.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use serde::Serialize;

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

#[derive(Default)]
pub(super) struct Buffers {
    pub values: Values,
    pub scratch: String,
    pub line: String,
}

impl Buffers {
    /// Takes this thread's buffers. They are moved out, because formatting a value may log.
    pub fn take() -> Self {
        // A thread may log during its destruction.
        BUFFERS.try_with(RefCell::take).unwrap_or_default()
    }

    pub fn give_back(mut self) {
        self.values.text.clear();
        self.values.slots.clear();
        self.line.clear();
        let _ = BUFFERS.try_with(|buffers| buffers.replace(self));
    }
}

/// The concatenated texts of one event's values, and the position of each.
#[derive(Default)]
pub(super) struct Values {
    text: String,
    slots: Vec<Slot>,
}

pub(super) struct Slot {
    pub name: &'static str,
    /// True if the name is reserved for this layer, so the line prefixes it with `field.`.
    pub is_reserved: bool,
    /// True if its text is JSON other than a string.
    is_json: bool,
    text: Range<usize>,
}

impl Slot {
    pub fn full_name(&self) -> Cow<'static, str> {
        if self.is_reserved { format!("field.{}", self.name).into() } else { self.name.into() }
    }
}

impl Values {
    pub fn sort(&mut self) {
        self.slots.sort_by(|one, other| one.full_name().cmp(&other.full_name()));
    }

    pub fn all(&self) -> &[Slot] {
        &self.slots
    }

    pub fn text(&self, slot: &Slot) -> &str {
        &self.text[slot.text.clone()]
    }

    /// Returns the value of this name that is not reserved.
    pub fn find(&self, name: &str) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.name == name && !slot.is_reserved)
    }

    pub fn put_text(&mut self, name: &'static str, text: &str) {
        self.put(name, false, false, |out| out.push_str(text));
    }

    /// Adds a value; a later one replaces an earlier one of the same name.
    pub fn put(&mut self, name: &'static str, is_reserved: bool, is_json: bool, write: impl FnOnce(&mut String)) {
        let from = self.text.len();
        write(&mut self.text);
        let slot = Slot { name, is_reserved, is_json, text: from..self.text.len() };
        match self.slots.iter_mut().find(|known| known.name == name && known.is_reserved == is_reserved) {
            Some(known) => *known = slot,
            None => self.slots.push(slot),
        }
    }

    /// Appends the value of this name as JSON; an empty string if absent.
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

/// Appends JSON. Cannot fail: the output is UTF-8 in memory.
pub(super) fn json_text(out: &mut String, value: &(impl Serialize + ?Sized)) {
    let _ = serde_json::to_writer(Utf8(out), value);
}

/// Receives the bytes of a JSON writer, which are whole pieces of text.
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
