//! Bounds of an answer that every wire has.

use serde_json::Value;

use domain::json_values;
use ports::{ModelError, ModelErrorKind};

/// The largest answer that is read, in bytes. The longest real ones are a tenth of this.
pub const ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// The size in bytes above which an answer is parsed on a blocking thread, so that no task occupies a core for long.
pub const LONG_ANSWER: usize = 64 * 1024;

/// The most tool calls of one answer; further ones are dropped.
pub const CALLS_MAX: usize = 64;

/// The most JSON values of an answer, besides the bound on its bytes, which includes names of fields.
pub const VALUES_MAX: usize = 64 * 1024;

/// The memory of a value in its list, of the name of a field, of a list with items and of an object with fields, besides
/// their contents, in bytes.
const VALUE_BYTES: usize = 32;
const NAME_BYTES: usize = 32;
const LIST_BYTES: usize = 96;
const OBJECT_BYTES: usize = 608;

/// The answer has too many items, more than [`VALUES_MAX`] values or more than [`ANSWER_BYTES`].
#[derive(Debug)]
pub struct TooMany;

/// The size of a part of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// The number of values.
    values: usize,
    /// At least its memory, and at least its length as JSON.
    bytes: usize,
}

impl Size {
    /// Returns the size of a value, with all values in it.
    pub fn of(value: &Value) -> Self {
        let mut size = Self { values: 1, bytes: VALUE_BYTES };
        match value {
            Value::String(text) => size.add(Self::of_text(text)),
            Value::Array(items) => {
                size.bytes += LIST_BYTES;
                for item in items {
                    size.add(Self::of(item));
                }
            }
            Value::Object(fields) => {
                size.bytes += OBJECT_BYTES;
                for (name, value) in fields {
                    size.add(Self::of_name(name));
                    size.add(Self::of(value));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        size
    }

    /// Returns the size of the name of a field.
    pub fn of_name(name: &str) -> Self {
        let mut size = Self { values: 0, bytes: NAME_BYTES };
        size.add(Self::of_text(name));
        size
    }

    /// Returns the size of text that is added to a value.
    pub fn of_text(text: &str) -> Self {
        let escaped = |byte: u8| match byte {
            b'"' | b'\\' | 8..=10 | 12 | 13 => 2,
            0..0x20 => 6,
            _ => 1,
        };
        Self { values: 0, bytes: text.bytes().map(escaped).sum() }
    }

    pub fn add(&mut self, more: Self) {
        self.values += more.values;
        self.bytes += more.bytes;
    }
}

/// The size of an answer so far.
#[derive(Debug, Default)]
pub struct Room(Size);

impl Room {
    pub fn take(&mut self, more: Size) -> Result<(), TooMany> {
        self.0.add(more);
        if self.0.values > VALUES_MAX || self.0.bytes > ANSWER_BYTES { Err(TooMany) } else { Ok(()) }
    }

    pub fn give_back(&mut self, size: Size) {
        self.0.values = self.0.values.saturating_sub(size.values);
        self.0.bytes = self.0.bytes.saturating_sub(size.bytes);
    }

    /// Returns the memory of the answer, in bytes.
    pub const fn bytes(&self) -> usize {
        self.0.bytes
    }
}

/// Returns the error for an answer with more than `items` items in a list, or that is too large.
pub fn too_many(items: usize) -> ModelError {
    let message = format!(
        "the answer has a list of more than {items} items, more than {VALUES_MAX} values, or more than {ANSWER_BYTES} bytes"
    );
    ModelError::new(ModelErrorKind::TooLarge, message)
}

/// Fails if JSON has more than `most` values. It is not parsed, so that the check takes no memory.
///
/// # Errors
/// It has more.
pub fn check_values(json: &[u8], most: usize) -> Result<(), ModelError> {
    // A value takes a byte and, except for the last one, a separator.
    if json.len() / 2 < most || json_values::count(json) <= most {
        return Ok(());
    }
    let message = format!("the answer has more than {most} values");
    Err(ModelError::new(ModelErrorKind::TooLarge, message))
}

/// Returns the characters of all texts in a value.
pub fn chars(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.iter().map(chars).sum(),
        Value::Object(fields) => fields.values().map(chars).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_scan_counts_at_least_the_values_of_the_parsed_text() {
        for value in [
            json!(null),
            json!([]),
            json!([[], [0], {"a": {"b": [1, "x,:[{\"\\", null]}}]),
            json!({"\"k,": {"": "\\"}, "l": [[[]]]}),
        ] {
            let text = value.to_string();
            let size = Size::of(&value);
            assert!(json_values::count(text.as_bytes()) >= size.values, "{text}");
            assert!(size.bytes >= text.len(), "{text}");
        }
    }

    #[test]
    fn a_text_is_as_large_as_its_json() {
        let text: String = (0..0x180).filter_map(char::from_u32).collect();
        let json = json!(text).to_string();
        assert!((json.len()..json.len() + VALUE_BYTES).contains(&Size::of(&json!(text)).bytes));
    }

    #[test]
    fn values_are_counted_in_linear_time() {
        let bodies = |size: usize| ["[0],".repeat(size / 4), "\"\\".repeat(size / 2), "{\"\":".repeat(size / 4)];
        cost::grows_linearly(64 * 1024, bodies, |bodies| {
            for body in &bodies {
                drop(check_values(body.as_bytes(), 1));
            }
        });
    }
}
