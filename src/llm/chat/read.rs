//! Reads a chat completion as leniently as providers write them. Nothing here fails for a field that is not used.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::domain::completion::{self, Completion, Finish, ToolCall, Usage};
use crate::ports::{ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// A reported number of tokens above this is nonsense: no model has a window of this size.
const SANE_TOKENS: u64 = 10_000_000;

/// The most characters kept of a finish reason that we do not know: it becomes a label.
const REASON_CHARS: usize = 40;

/// The most calls that are read of one answer.
pub(super) const CALLS_MAX: usize = 64;

/// Reads an answer. `prompt_chars` measures what was sent, for an answer without usage.
///
/// # Errors
/// [`ModelErrorKind::Malformed`] when there is no message in it.
pub(super) fn read(answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError> {
    let Value::Object(mut answer) = answer else {
        return Err(malformed("the answer is not a JSON object"));
    };
    if answer.get("choices").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        return Ok(blocked(&answer, prompt_chars));
    }
    let Some(mut choice) = first_choice(&mut answer) else {
        return Err(malformed("the answer has no choices"));
    };
    let Some(mut raw @ Value::Object(_)) = choice.remove("message") else {
        return Err(malformed("the first choice has no message"));
    };
    let finish = finish_of(&choice, &raw);
    name_calls(&mut raw);
    let (content, refused_part) = text_of(raw.get("content"));
    let refusal = raw.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let answer_chars = content.chars().count() + call_chars(&raw);
    Ok(Completion {
        finish,
        calls: calls_of(&raw),
        usage: usage_of(answer.get("usage"), prompt_chars, answer_chars),
        refusal: refusal.or(refused_part),
        content,
        raw,
    })
}

/// With an empty list of choices a provider says that its filter blocked the prompt.
fn blocked(answer: &Map<String, Value>, prompt_chars: &dyn Fn() -> usize) -> Completion {
    Completion {
        content: String::new(),
        refusal: None,
        calls: Vec::new(),
        finish: Finish::Filtered,
        usage: usage_of(answer.get("usage"), prompt_chars, 0),
        raw: json!({"role": "assistant", "content": ""}),
    }
}

fn first_choice(answer: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    match answer.remove("choices")? {
        Value::Array(choices) => match choices.into_iter().next()? {
            Value::Object(choice) => Some(choice),
            _ => None,
        },
        _ => None,
    }
}

/// The text of a content field, and a refusal if one of its parts is one. Parts that are not text, such as reasoning, are left out.
pub(super) fn text_of(content: Option<&Value>) -> (String, Option<String>) {
    match content {
        None | Some(Value::Null) => (String::new(), None),
        Some(Value::String(text)) => (text.clone(), None),
        Some(Value::Array(parts)) => {
            let text = parts.iter().filter_map(text_of_part).collect();
            let refusal = parts.iter().find_map(|part| part.get("refusal")?.as_str()).map(str::to_owned);
            (text, refusal)
        }
        // Some servers parse a JSON answer, although no request asks for it.
        Some(other) => (other.to_string(), None),
    }
}

fn text_of_part(part: &Value) -> Option<&str> {
    if let Some(text) = part.as_str() {
        return Some(text);
    }
    match part.get("type").and_then(Value::as_str) {
        None | Some("text" | "output_text") => part.get("text")?.as_str(),
        Some(_) => None,
    }
}

/// Makes the calls of a message fit to be echoed with a result for each: those that cannot be read are left out, and one without
/// a name of its own gets one.
fn name_calls(message: &mut Value) {
    let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) else { return };
    let before = calls.len();
    calls.retain(|call| call.pointer("/function/name").is_some_and(Value::is_string));
    calls.truncate(CALLS_MAX);
    let mut seen = HashSet::new();
    for (index, call) in calls.iter_mut().enumerate() {
        let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
        if !id.is_empty() && seen.insert(id.to_owned()) {
            continue;
        }
        let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        let id = format!("call_{index}_{name}");
        seen.insert(id.clone());
        call["id"] = Value::String(id);
    }
    if calls.is_empty()
        && before > 0
        && let Some(message) = message.as_object_mut()
    {
        message.remove("tool_calls");
    }
}

/// The tool calls of a message. Arguments that came parsed are serialised again.
fn calls_of(message: &Value) -> Vec<ToolCall> {
    let calls = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let read = |call: &Value| {
        let function = call.get("function")?;
        let arguments = match function.get("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(parsed) => parsed.to_string(),
        };
        let name = function.get("name")?.as_str()?.to_owned();
        Some(ToolCall { id: text(call.get("id")), name, arguments })
    };
    calls.iter().take(CALLS_MAX).filter_map(read).collect()
}

/// The length of everything in a message that the model wrote besides its content.
fn call_chars(message: &Value) -> usize {
    ["tool_calls", "function_call", "refusal"]
        .iter()
        .filter_map(|field| message.get(field).filter(|value| !value.is_null()))
        .map(|value| value.to_string().chars().count())
        .sum()
}

fn finish_of(choice: &Map<String, Value>, message: &Value) -> Finish {
    let Some(reason) = choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty()) else {
        let calls = message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
        return if calls { Finish::ToolCalls } else { Finish::Other("none".to_owned()) };
    };
    match reason.to_ascii_lowercase().as_str() {
        "stop" | "end_turn" | "stop_sequence" | "eos" => Finish::Stop,
        "length" | "max_tokens" => Finish::Length,
        "tool_calls" | "tool_use" | "function_call" => Finish::ToolCalls,
        "safety" | "refusal" | "recitation" | "blocklist" | "prohibited_content" | "spii" => Finish::Filtered,
        // Some say behind it which filter it was.
        filtered if filtered.starts_with("content_filter") => Finish::Filtered,
        _ => Finish::Other(reason.chars().take(REASON_CHARS).collect()),
    }
}

fn usage_of(usage: Option<&Value>, prompt_chars: &dyn Fn() -> usize, answer_chars: usize) -> Usage {
    let reported = |names: &[&str]| names.iter().find_map(|name| sane(usage?.get(name)?));
    let prompt = reported(&["prompt_tokens", "input_tokens"]);
    let completion = reported(&["completion_tokens", "output_tokens"]);
    // No tokens at all for some text is what servers say that do not count.
    let prompt = prompt.filter(|tokens| *tokens > 0 || prompt_chars() == 0);
    let completion = completion.filter(|tokens| *tokens > 0 || answer_chars == 0);
    let prompt_tokens = prompt.unwrap_or_else(|| completion::estimated_tokens(prompt_chars()));
    Usage {
        prompt: prompt_tokens,
        completion: completion.unwrap_or_else(|| completion::estimated_tokens(answer_chars)),
        cached: usage.and_then(cached).unwrap_or(0).min(prompt_tokens),
        estimated: prompt.is_none() || completion.is_none(),
    }
}

/// Tokens that the provider had cached: the usual place first, then those of some providers.
fn cached(usage: &Value) -> Option<u64> {
    const PLACES: [&[&str]; 5] = [
        &["prompt_tokens_details", "cached_tokens"],
        &["input_tokens_details", "cached_tokens"],
        &["cached_tokens"],
        &["prompt_cache_hit_tokens"],
        &["cache_read_input_tokens"],
    ];
    PLACES.iter().find_map(|place| sane(place.iter().try_fold(usage, |value, name| value.get(name))?))
}

/// A token count that can be true. Some providers write whole numbers as `12.0`.
fn sane(value: &Value) -> Option<u64> {
    let tokens = match value.as_u64() {
        Some(tokens) => tokens,
        None => whole(value.as_f64()?)?,
    };
    (tokens <= SANE_TOKENS).then_some(tokens)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the comparison before it")]
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=1e9).contains(&number)).then_some(number as u64)
}

fn malformed(message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, message)
}
