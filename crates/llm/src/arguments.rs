//! The arguments of a tool call as models write them: JSON in text, or a parsed object.

use serde::de::IgnoredAny;
use serde_json::Value;

use domain::json_values;

/// The most values in the arguments of all calls of an answer. In the answer itself, arguments in text are one value.
const ARGUMENT_VALUES_MAX: usize = 16 * 1024;
/// The text in place of arguments with too many values. It is not JSON, so the model is told of its mistake.
const TOO_MANY: &str = "(arguments with too many values)";

/// Replaces arguments in text that have too many values, together with those of the calls before.
pub fn bound<'a>(all: impl Iterator<Item = &'a mut Value>) {
    let mut values = 0;
    for arguments in all {
        let Value::String(text) = arguments else { continue };
        // Arguments that are encoded twice have their values inside of a text.
        let inner = text.trim_start().starts_with('"').then(|| serde_json::from_str::<String>(text).ok()).flatten();
        values += json_values::count(inner.as_deref().unwrap_or(text).as_bytes());
        if values > ARGUMENT_VALUES_MAX {
            *arguments = Value::String(TOO_MANY.to_owned());
        }
    }
}

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_of_all_calls_have_so_many_values_however_they_are_written() {
        let list = |values: usize| format!(r#"{{"x": [{}0]}}"#, "0,".repeat(values));
        let twice = |values: usize| Value::String(list(values)).to_string();
        let escaped = twice(ARGUMENT_VALUES_MAX).replace(',', r"\u002c").replace('[', r"\u005b");
        for text in [list(ARGUMENT_VALUES_MAX), twice(ARGUMENT_VALUES_MAX), escaped] {
            let mut all = [json!("{}"), Value::String(text), json!({"parsed": true}), json!("{}")];
            bound(all.iter_mut());
            assert_eq!(all, [json!("{}"), json!(TOO_MANY), json!({"parsed": true}), json!(TOO_MANY)]);
            assert_eq!(mended(Some(&all[1])), Some("{}".to_owned()));
        }
        let usual = json!(list(1_000));
        let mut all = [usual.clone(), json!(twice(1_000))];
        bound(all.iter_mut());
        assert_eq!(all[0], usual);
        assert_ne!(all[1], json!(TOO_MANY));
    }
}
