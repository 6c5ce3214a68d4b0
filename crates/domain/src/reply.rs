//! A typed reply: parsed from a model's answer, checked against the schema, and converted to neutral parts.

use std::fmt::Write as _;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::code::fence;
use super::completion::{ANSWER_FUNCTION, AnswerForm, ToolSpec, WrittenJson};
use super::split::is_blank;
use super::tool::schema::convert;

mod parts;

pub mod salvage;

pub use parts::to_parts;

/// The longest model answer that is parsed, in bytes.
pub const MAX_CONTENT_BYTES: usize = 256 * 1024;

/// The deepest nesting of arrays and objects that is accepted.
pub const MAX_DEPTH: usize = 16;

/// The longest text of a validation error, in Unicode scalar values.
pub const MAX_ERROR_CHARS: usize = 400;

/// The maximum number of faults in one validation error.
const MAX_FAULTS: usize = 3;

/// The maximum number of times that JSON inside a JSON string is decoded.
const MAX_UNWRAPS: usize = 2;

/// A model's answer in the bot's own types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The kind, which decides the presentation.
    pub kind: ReplyKind,
    /// The text for the person.
    pub response: String,
    /// The data of the kind: an address, a formula or a program. Empty if unused.
    pub data: String,
}

/// The kind of a reply, which decides its presentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// Text only.
    Text,
    /// A link.
    Url,
    /// An animated picture, given by its address.
    Gif,
    /// A formula.
    Latex,
    /// A program.
    Code,
    /// The output of a program.
    Output,
}

impl ReplyKind {
    /// Returns the kind of this name. An unknown name gives [`ReplyKind::Text`].
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "url" => Self::Url,
            "gif" => Self::Gif,
            "latex" => Self::Latex,
            "code" => Self::Code,
            "output" => Self::Output,
            _ => Self::Text,
        }
    }
}

impl Reply {
    /// Creates a text-only reply.
    pub fn text(response: impl Into<String>) -> Self {
        Self { kind: ReplyKind::Text, response: response.into(), data: String::new() }
    }
}

/// The reason why an answer is not a valid reply. The text tells the model what to correct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is empty.
    #[error("the answer is empty")]
    Empty,
    /// It is longer than [`MAX_CONTENT_BYTES`].
    #[error("the answer is too long")]
    TooLong,
    /// It contains no JSON object.
    #[error("the answer is not one json object: {0}")]
    NotJson(String),
    /// It is nested deeper than [`MAX_DEPTH`].
    #[error("the answer is nested too deeply")]
    TooDeep,
    /// It is JSON, but violates the schema.
    #[error("{0}")]
    Refused(String),
}

/// The schema of replies, compiled once.
#[derive(Debug)]
pub struct Schema {
    form: Arc<AnswerForm>,
    function: Arc<ToolSpec>,
    validator: jsonschema::Validator,
}

impl Schema {
    /// Compiles a complete `response_format` document.
    ///
    /// # Errors
    /// Returns a text with the position in the document and the correction to make there.
    pub fn compile(document: &Value) -> Result<Self, String> {
        if document.get("type").and_then(Value::as_str) != Some("json_schema") {
            return Err("/type: must be \"json_schema\"".to_owned());
        }
        let Some(format) = document.get("json_schema").filter(|format| format.is_object()) else {
            return Err("/json_schema: is missing; put an object with name, strict and schema there".to_owned());
        };
        let Some(name) = format.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            return Err("/json_schema/name: is missing; give the format a name".to_owned());
        };
        let Some(schema) = format.get("schema").filter(|schema| schema.is_object()) else {
            return Err("/json_schema/schema: is missing; put the json schema of a reply there".to_owned());
        };
        if schema.pointer("/properties/response/type").and_then(Value::as_str) != Some("string") {
            return Err("/json_schema/schema/properties/response: must be a string; it is what members read".to_owned());
        }
        let validator = jsonschema::validator_for(schema).map_err(|error| {
            let place = error.instance_path().to_string();
            capped(&format!("/json_schema/schema{place}: {error}; correct the schema there"), MAX_ERROR_CHARS)
        })?;
        let form = AnswerForm {
            name: name.to_owned(),
            description: format.get("description").and_then(Value::as_str).map(str::to_owned),
            strict: format.get("strict").and_then(Value::as_bool),
            schema: schema.clone(),
        };
        let function = ToolSpec {
            name: ANSWER_FUNCTION.to_owned(),
            description: "Gives your answer to the member. Call it once you need no other function.".to_owned(),
            parameters: WrittenJson::new(&convert(schema).schema),
        };
        Ok(Self { form: Arc::new(form), function: Arc::new(function), validator })
    }

    /// Returns the form for a model request.
    #[must_use]
    pub fn form(&self) -> Arc<AnswerForm> {
        Arc::clone(&self.form)
    }

    /// Returns the function whose arguments are an answer in this form.
    #[must_use]
    pub fn function(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.function)
    }

    /// Parses a reply from an answer. Handles code fences, thoughts, surrounding prose and doubly encoded JSON.
    ///
    /// # Errors
    /// Returns [`Invalid`] with the correction for the model to make.
    pub fn read(&self, content: &str) -> Result<Reply, Invalid> {
        if content.len() > MAX_CONTENT_BYTES {
            return Err(Invalid::TooLong);
        }
        if is_blank(content) {
            return Err(Invalid::Empty);
        }
        let mut first_error = None;
        // The unchanged text comes first: thought marks and fences inside a valid answer are part of the answer.
        for candidate in candidates(content) {
            match self.read_json(&candidate) {
                Ok(reply) => return Ok(reply),
                // A schema fault in valid JSON is more useful to the model than a parse error.
                Err(error) if matches!(first_error, None | Some(Invalid::NotJson(_))) => first_error = Some(error),
                Err(_) => {}
            }
        }
        Err(first_error.unwrap_or(Invalid::Empty))
    }

    fn read_json(&self, text: &str) -> Result<Reply, Invalid> {
        let mut value: Value = serde_json::from_str(text).map_err(|error| Invalid::NotJson(error.to_string()))?;
        for _ in 0..MAX_UNWRAPS {
            let Value::String(inner) = &value else { break };
            value = serde_json::from_str(inner).map_err(|error| Invalid::NotJson(error.to_string()))?;
        }
        if !value.is_object() {
            return Err(Invalid::NotJson("it is another kind of json value".to_owned()));
        }
        if depth(&value) > MAX_DEPTH {
            return Err(Invalid::TooDeep);
        }
        self.check(&value)?;
        let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = ReplyKind::of(field("type"));
        let response = salvage::without_leading_thoughts(field("response")).trim();
        let data = match value.get("data") {
            // A custom schema may define an object here.
            Some(object @ (Value::Object(_) | Value::Array(_))) => object.to_string(),
            _ => field("data").trim().to_owned(),
        };
        // Some models encode the whole reply once more inside its own text.
        if response.starts_with('{')
            && let Ok(inner) = self.read_json(response)
        {
            return Ok(inner);
        }
        if is_blank(response) && is_blank(&data) {
            return Err(Invalid::Refused("/response: must not be empty".to_owned()));
        }
        let only_markup = response.starts_with('<') && salvage::plain_text(response).is_none();
        if salvage::is_call(response) || only_markup {
            return Err(Invalid::Refused("/response: must be words for the person, not a tool call".to_owned()));
        }
        Ok(Reply { kind, response: words(response), data })
    }

    fn check(&self, value: &Value) -> Result<(), Invalid> {
        let mut faults = String::new();
        for error in self.validator.iter_errors(value).take(MAX_FAULTS) {
            let place = error.instance_path().to_string();
            let separator = if faults.is_empty() { "" } else { "; " };
            let place = if place.is_empty() { "/" } else { &place };
            // Writing to a string cannot fail.
            let _ = match error.kind() {
                ValidationErrorKind::Enum { options } => write!(faults, "{separator}{place}: must be one of {options}"),
                _ => write!(faults, "{separator}{place}: {}", error.masked()),
            };
        }
        if faults.is_empty() { Ok(()) } else { Err(Invalid::Refused(capped(&faults, MAX_ERROR_CHARS))) }
    }
}

/// Returns the substrings that may be the reply, the most probable first.
fn candidates(content: &str) -> Vec<String> {
    let whole = content.trim();
    let spoken = salvage::without_thoughts(whole);
    let spoken = spoken.trim();
    let mut found = vec![whole.to_owned()];
    // A draft inside a thought must never win, but a fence around everything may contain text about thoughts.
    found.extend(salvage::whole_fence(whole).map(str::to_owned));
    // The leading object was shown while the answer streamed, so it precedes any later object.
    found.extend(salvage::leading_object(whole).map(str::to_owned));
    found.push(spoken.to_owned());
    found.extend(salvage::fenced(spoken).map(str::to_owned));
    found.extend(salvage::objects(spoken).map(str::to_owned));
    found.dedup();
    found.retain(|candidate| !candidate.is_empty());
    found
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns the text for display: bare JSON goes into a code fence.
fn words(text: &str) -> String {
    let json = matches!(serde_json::from_str::<Value>(text), Ok(Value::Object(_) | Value::Array(_)));
    if json { fence("json", text) } else { text.to_owned() }
}

/// Returns the first `most` scalar values of a text.
fn capped(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests;
