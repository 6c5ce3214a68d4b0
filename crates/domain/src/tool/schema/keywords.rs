//! The conversion of each keyword of JSON Schema.

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    /// Kept if providers accept its value.
    Kept,
    /// Kept, truncated.
    Description,
    /// Converted to a list of values.
    Values,
    /// The schema of the elements.
    Items,
    /// The schema of additional properties, or a flag that permits them.
    Additional,
    /// The type or types.
    Type,
    /// Schemas of which one must match.
    Alternatives,
    /// Dropped without loss: it does not restrict values.
    Remark,
    /// Dropped, and reported as a loss.
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

const PATTERN_BYTES: usize = 200;
const DEFAULT_BYTES: usize = 200;

/// Returns the value of a kept keyword; none if providers reject it.
pub(super) fn kept_as_is(word: &str, value: &Value, types: &[&str]) -> Option<Value> {
    let fits = match word {
        "minimum" | "maximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
        // Inline flags and look-arounds, which begin with `(?`, make some providers reject the whole request.
        "pattern" => value.as_str().is_some_and(|text| text.len() <= PATTERN_BYTES && !text.contains("(?")),
        // The only format that all providers support.
        "format" => value == "date-time" && types == ["string"],
        "default" => match value {
            Value::String(text) => text.len() <= DEFAULT_BYTES,
            Value::Bool(_) | Value::Number(_) => true,
            // Null or an empty value is the meaning of an omitted argument anyway.
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        },
        _ => false,
    };
    fits.then(|| value.clone())
}
