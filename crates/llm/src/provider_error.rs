//! The errors of providers, in all shapes that they come in, and which failure their words mean.

use serde_json::Value;

use ports::{ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// The longest name of an error, in bytes.
const NAME_MAX: usize = 64;

/// How the proxy writes the class of an upstream's error, which stands before its words.
const LITELLM: &str = "litellm.";

/// Words by which providers say that the prompt does not fit. Compared in lower case, as all of these are.
const OVERFLOW_WORDS: [&str; 7] = [
    "contextwindowexceedederror",
    "context_length_exceeded",
    "exceed_context_size",
    "context window",
    "context length",
    "prompt is too long",
    "exceeds the maximum number of tokens",
];

/// Words by which they say that a filter refused what was asked.
const FILTER_WORDS: [&str; 5] = [
    "content_filter",
    "content management policy",
    "contentpolicyviolation",
    "content_policy_violation",
    "responsibleaipolicyviolation",
];

/// Words by which they say that the key or the model is wrong with a status that does not, and the name that is logged for each:
/// the words themselves may quote what was asked.
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

/// Words by which they say that the account has no credit. A quota that is used up for a minute is told in other words.
const QUOTA_WORDS: [&str; 3] = ["insufficient_quota", "insufficient balance", "credit balance is too low"];

/// An error as the provider reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    /// Its code or type, when it has one.
    pub code: Option<String>,
    /// Its type, when it has a code as well.
    pub kind: Option<String>,
    /// Its words.
    pub message: String,
}

impl ProviderError {
    /// Its name, without any words that may quote a prompt: its code, unless that repeats a status; its type; the class of
    /// the proxy's error; what its words are known to mean; at last the number.
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

    /// The innermost class that the proxy names, such as `ContentPolicyViolationError`.
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

/// The failure that the words of an error mean, where its status does not say.
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

/// The error for a failure that the provider reports. Its words may quote what members wrote, so the safe message has at most its name.
#[must_use]
pub fn model_error(kind: ModelErrorKind, what: &str, provider_error: &ProviderError) -> ModelError {
    let name = provider_error.name().map_or_else(String::new, |name| format!(": {name}"));
    ModelError { message: format!("{what}: {provider_error}"), ..ModelError::new(kind, format!("{what}{name}")) }
}

/// The error in the body of a refused request: the usual `error` object, a bare text, Google's list of one,
/// or the `detail` of a Python web framework.
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

/// The error in the body of an answer whose status is a success.
#[must_use]
pub fn inside(body: &Value) -> Option<ProviderError> {
    let body = match body {
        Value::Array(list) => list.first()?,
        other => other,
    };
    // Some routers put the failure of the model behind them where its choice would be.
    let choice = body
        .get("choices")
        .and_then(|choices| choices.get(0))
        .filter(|choice| choice.get("message").is_none_or(Value::is_null));
    let place =
        [Some(body), choice].into_iter().flatten().find(|place| place.get("error").is_some_and(says_something))?;
    let wordless = || ProviderError { code: None, kind: None, message: "no words".to_owned() };
    Some(of_body(place).unwrap_or_else(wordless))
}

/// An `error` field that is an error: some servers send an empty one along with every success.
fn says_something(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}
