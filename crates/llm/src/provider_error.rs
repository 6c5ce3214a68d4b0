//! Parses provider errors in all their formats and classifies their messages.

use serde_json::Value;

use ports::{ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// The longest name of an error, in bytes.
const NAME_MAX: usize = 64;

/// The prefix that the LiteLLM proxy puts before the class of an upstream error.
const LITELLM: &str = "litellm.";

/// Phrases for a prompt that exceeds the context window. All phrases here are compared in lower case.
const OVERFLOW_WORDS: [&str; 7] = [
    "contextwindowexceedederror",
    "context_length_exceeded",
    "exceed_context_size",
    "context window",
    "context length",
    "prompt is too long",
    "exceeds the maximum number of tokens",
];

/// Phrases for a refusal by a content filter.
const FILTER_WORDS: [&str; 5] = [
    "content_filter",
    "content management policy",
    "contentpolicyviolation",
    "content_policy_violation",
    "responsibleaipolicyviolation",
];

/// Phrases for a wrong key or model under an unspecific status, with the logged name of each: the message itself may
/// quote the prompt.
const REFUSAL_WORDS: [(&str, &str); 9] = [
    ("no_db_connection", "no_db_connection"),
    ("no connected db", "no_db_connection"),
    ("invalid model name", "invalid_model_name"),
    ("model_not_found", "model_not_found"),
    ("unknown model", "unknown_model"),
    ("invalid_api_key", "invalid_api_key"),
    ("incorrect api key", "invalid_api_key"),
    ("api key not valid", "invalid_api_key"),
    ("invalid proxy server token", "invalid_api_key"),
];

/// Phrases for an account without credit. A quota per minute has other phrases.
const QUOTA_WORDS: [&str; 3] = ["insufficient_quota", "insufficient balance", "credit balance is too low"];

/// An error as reported by the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    /// Its code or type, if any.
    pub code: Option<String>,
    /// Its type, if it also has a code.
    pub kind: Option<String>,
    pub message: String,
}

impl ProviderError {
    /// Returns a name that cannot quote a prompt: the code, unless it repeats a status; else the type; the class of the
    /// proxy's error; the meaning of a known phrase; the number.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let plain = |name: &&str| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            name.len() <= NAME_MAX && name.bytes().all(letter) && !["", "None", "null"].contains(name)
        };
        let code = self.code.as_deref().filter(plain);
        let told = code.filter(|code| !is_status(code)).or_else(|| self.kind.as_deref().filter(plain));
        told.or_else(|| self.class().filter(plain)).or_else(|| refusal(&self.message.to_lowercase())).or(code)
    }

    /// Returns the innermost class that the proxy names, such as `ContentPolicyViolationError`.
    fn class(&self) -> Option<&str> {
        let (_, last) = self.message.rsplit_once(LITELLM)?;
        let end = last.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(last.len());
        last[..end].ends_with("Error").then(|| &last[..end])
    }
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

fn is_status(code: &str) -> bool {
    code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit())
}

fn refusal(words: &str) -> Option<&'static str> {
    REFUSAL_WORDS.iter().find(|(sign, _)| words.contains(sign)).map(|(_, name)| *name)
}

/// Returns the kind of failure that a message means if its status is unspecific.
#[must_use]
pub fn kind_of_words(text: &str) -> Option<ModelErrorKind> {
    let text = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
    if says(&OVERFLOW_WORDS) {
        Some(ModelErrorKind::ContextOverflow)
    } else if says(&FILTER_WORDS) {
        Some(ModelErrorKind::Filtered)
    } else if says(&QUOTA_WORDS) {
        Some(ModelErrorKind::OutOfQuota)
    } else {
        refusal(&text).map(|_| ModelErrorKind::Refused)
    }
}

/// Creates the error for a failure reported by the provider. Its message may quote members, so the safe message
/// contains at most its name.
#[must_use]
pub fn model_error(kind: ModelErrorKind, what: &str, provider_error: &ProviderError) -> ModelError {
    let name = provider_error.name().map_or_else(String::new, |name| format!(": {name}"));
    ModelError { message: format!("{what}: {provider_error}"), ..ModelError::new(kind, format!("{what}{name}")) }
}

/// Returns the error in the body of a refused request: the usual `error` object, plain text, Google's list of one, or
/// the `detail` of a Python web framework.
#[must_use]
pub fn of_body(body: &Value) -> Option<ProviderError> {
    let body = match body {
        Value::Array(list) => list.first()?,
        other => other,
    };
    let error =
        ["error", "detail"].iter().find_map(|field| body.get(field)).filter(|value| !value.is_null()).unwrap_or(body);
    let error = match error {
        Value::Array(list) => list.first()?,
        other => other,
    };
    if let Some(text) = error.as_str() {
        return Some(ProviderError { code: None, kind: None, message: text.to_owned() });
    }
    let message = ["message", "msg", "error", "detail"].iter().find_map(|field| error.get(field)?.as_str())?;
    let told = |field: &str| match error.get(field)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let code = ["code", "type", "status"].into_iter().find_map(told);
    let kind = ["type", "status"].into_iter().find_map(told).filter(|kind| Some(kind) != code.as_ref());
    Some(ProviderError { code, kind, message: message.to_owned() })
}

/// Returns the error in the body of a response with a success status.
#[must_use]
pub fn inside(body: &Value) -> Option<ProviderError> {
    let body = match body {
        Value::Array(list) => list.first()?,
        other => other,
    };
    // Some routers put a model's failure in the place of its choice.
    let choice = body
        .get("choices")
        .and_then(|choices| choices.get(0))
        .filter(|choice| choice.get("message").is_none_or(Value::is_null));
    let place =
        [Some(body), choice].into_iter().flatten().find(|place| place.get("error").is_some_and(says_something))?;
    let wordless = || ProviderError { code: None, kind: None, message: "no words".to_owned() };
    Some(of_body(place).unwrap_or_else(wordless))
}

/// True if an `error` field has a value: some servers send an empty one with every success.
fn says_something(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}
