//! Bounds of an assembled answer that every wire has.

use serde_json::Value;

use ports::{ModelError, ModelErrorKind};

/// The most tool calls of one answer; further ones are dropped.
pub const CALLS_MAX: usize = 64;

/// The most JSON values of a streamed answer, besides the bound on its text. A value takes at least 32 bytes.
pub const VALUES_MAX: usize = 64 * 1024;

/// The answer has too many items or more than [`VALUES_MAX`] values.
pub struct TooMany;

/// The number of JSON values that an answer has so far. Text that grows is one value.
#[derive(Debug, Default)]
pub struct Room(usize);

impl Room {
    pub fn take(&mut self, many: usize) -> Result<(), TooMany> {
        self.0 += many;
        if self.0 > VALUES_MAX { Err(TooMany) } else { Ok(()) }
    }

    pub fn give_back(&mut self, many: usize) {
        self.0 = self.0.saturating_sub(many);
    }
}

/// Returns the error for an answer with more than `items` items in a list, or too many values.
pub fn too_many(items: usize) -> ModelError {
    ModelError::new(
        ModelErrorKind::TooLarge,
        format!("the answer has a list of more than {items} items, or more than {VALUES_MAX} values"),
    )
}

/// Returns the number of values in a value, with itself.
pub fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(fields) => fields.values().map(values).sum(),
        _ => 0,
    }
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
