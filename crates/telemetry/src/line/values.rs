//! The values of one event: their text one after the other in a buffer that each thread keeps, without secrets and within bounds.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use serde::Serialize;

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
