//! The arguments of a tool call as models write them: JSON in text, or a parsed object.

use serde::de::IgnoredAny;
use serde_json::Value;

/// Returns the arguments as text; parsed ones are serialised again.
pub fn written(arguments: Option<&Value>) -> String {
    match arguments {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(parsed) => parsed.to_string(),
    }
}

/// True if the arguments are not JSON. Without a finish reason, the answer was truncated there.
pub fn are_half(arguments: &str) -> bool {
    !arguments.trim().is_empty() && serde_json::from_str::<IgnoredAny>(arguments).is_err()
}

/// Returns the arguments as a JSON object in text, which providers require in a history; `None` if they are one. The
/// tool result reports the original mistake to the model.
pub fn mended(arguments: Option<&Value>) -> Option<String> {
    Some(match arguments {
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Object(_)) => return None,
            // Some models encode the object as text twice.
            Ok(Value::String(inner)) if is_object(&inner) => inner,
            _ => "{}".to_owned(),
        },
        Some(object @ Value::Object(_)) => object.to_string(),
        _ => "{}".to_owned(),
    })
}

fn is_object(text: &str) -> bool {
    matches!(serde_json::from_str(text), Ok(Value::Object(_)))
}
