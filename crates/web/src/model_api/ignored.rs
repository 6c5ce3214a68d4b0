//! The ignored parts of a request, and the header that reports them to the client.

use std::collections::BTreeMap;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use serde_json::{Value, json};

/// The header that lists the ignored parts.
const WARNING: HeaderName = HeaderName::from_static("warning");
/// Parallel tool calls, which are always on.
const PARALLEL: &str = "parallel_tool_calls";
/// The maximum number of parts that are listed.
const NAMED_MAX: usize = 16;
/// Maximum length of a name, in characters.
const NAME_MAX: usize = 40;

/// The names of the ignored parts, each once, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ignored(Vec<String>);

impl Ignored {
    /// Records a part. Only characters of plain names are kept, since the name may be the client's text.
    pub fn add(&mut self, name: &str) {
        let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '[' | ']');
        let name: String = name.chars().filter(plain).take(NAME_MAX).collect();
        if self.0.len() < NAMED_MAX && !name.is_empty() && !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    /// Records a tool of an unsupported type.
    pub fn tool(&mut self, kind: &str) {
        self.add(&format!("tools of type {kind}"));
    }

    /// Records all parameters with a value, except those without an effect on the answer.
    pub fn parameters(&mut self, others: &BTreeMap<String, Value>, without_effect: &[&str]) {
        let has_effect = |name: &str| name != PARALLEL && !without_effect.contains(&name);
        let asking = others.iter().filter(|(name, value)| asks(value) && has_effect(name));
        for (name, _) in asking {
            self.add(name);
        }
        // This parameter has an effect if it is false.
        if others.get(PARALLEL).is_some_and(|value| *value == false) {
            self.add(PARALLEL);
        }
    }

    /// Adds the header `Warning` (RFC 9111, code 299 in the form of RFC 7234) if anything was ignored.
    pub fn warn(&self, mut response: Response) -> Response {
        let text = format!("299 staffai \"ignored: {}\"", self.0.join(", "));
        if let Ok(warning) = HeaderValue::from_str(&text)
            && !self.0.is_empty()
        {
            response.headers_mut().insert(WARNING, warning);
        }
        response
    }

    #[cfg(test)]
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

/// True if a value has an effect.
pub(super) fn asks(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Array(items) => !items.is_empty() && *items != [json!("text")],
        Value::Object(entries) => !entries.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) => true,
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn the_header_names_each_part_once_and_holds_no_text_that_could_end_it() {
        let mut ignored = Ignored::default();
        assert!(!ignored.warn(().into_response()).headers().contains_key(WARNING));
        for name in ["seed", "seed", "a\"\r\nset-cookie: x", "\"", &"x".repeat(99)] {
            ignored.add(name);
        }
        ignored.tool("web_search");
        let response = ignored.warn(().into_response());
        let told = response.headers()[WARNING].to_str().unwrap();
        let long = "x".repeat(NAME_MAX);
        assert_eq!(told, format!("299 staffai \"ignored: seed, aset-cookie x, {long}, tools of type web_search\""));
        (0..100).for_each(|number| ignored.add(&format!("p{number}")));
        assert_eq!(ignored.names().len(), NAMED_MAX);
    }

    #[test]
    fn parameters_that_ask_for_nothing_or_have_no_effect_are_not_named() {
        let others = json!({
            "seed": 1, "logprobs": false, "frequency_penalty": 0, "modalities": ["text"], "user": "x", "functions": [{}],
            "stop_at": null, "top_k": 4, "empty": {}, "word": "",
        });
        let mut ignored = Ignored::default();
        ignored.parameters(&serde_json::from_value(others).unwrap(), &["user"]);
        assert_eq!(ignored.names(), ["functions", "seed", "top_k"]);
    }
}
