//! What becomes of each keyword of JSON Schema.

use serde_json::Value;

/// What becomes of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    /// It stays when its value is what providers take.
    Kept,
    /// It stays, shortened.
    Description,
    /// It becomes a list of values.
    Values,
    /// A schema of the elements.
    Items,
    /// A schema of what is not named, or whether there may be such.
    Additional,
    /// The type or types.
    Type,
    /// Schemas of which one fits.
    Alternatives,
    /// It says nothing about what is allowed.
    Remark,
    /// It is left out, and that is a loss.
    Unknown,
}

pub(super) fn of(word: &str) -> Keyword {
    match word {
        "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems" | "pattern" | "format"
        | "default" => Keyword::Kept,
        "description" => Keyword::Description,
        "enum" | "const" => Keyword::Values,
        "items" => Keyword::Items,
        "additionalProperties" => Keyword::Additional,
        "type" => Keyword::Type,
        "anyOf" | "oneOf" => Keyword::Alternatives,
        "$schema"
        | "$id"
        | "$anchor"
        | "$comment"
        | "$defs"
        | "definitions"
        | "title"
        | "examples"
        | "example"
        | "deprecated"
        | "readOnly"
        | "writeOnly"
        | "nullable"
        | "markdownDescription"
        | "contentMediaType"
        | "contentEncoding" => Keyword::Remark,
        other if other.starts_with("x-") => Keyword::Remark,
        _ => Keyword::Unknown,
    }
}

/// The longest pattern that is kept, in bytes.
const PATTERN_BYTES: usize = 200;
/// The longest default that is kept, in bytes.
const DEFAULT_BYTES: usize = 200;

/// The value of a keyword that stays; none when providers refuse it.
pub(super) fn kept_as_is(word: &str, value: &Value, types: &[&str]) -> Option<Value> {
    let fits = match word {
        "minimum" | "maximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
        // Words and look-arounds make some providers refuse the whole request.
        "pattern" => value.as_str().is_some_and(|text| text.len() <= PATTERN_BYTES && !text.contains("(?")),
        // The one form that all of them know.
        "format" => value == "date-time" && types == ["string"],
        "default" => match value {
            Value::String(text) => text.len() <= DEFAULT_BYTES,
            Value::Bool(_) | Value::Number(_) => true,
            // Nothing, or a list of nothing, is what is meant when nothing is given.
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        },
        _ => false,
    };
    fits.then(|| value.clone())
}
