//! Reads a chat completion leniently: unused fields cannot make it fail.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::arguments;
use crate::bounds::CALLS_MAX;
use crate::usage::{Reported, usage_of};
use domain::completion::{Completion, Finish, ToolCall, WrittenJson};
use domain::hosted::HostedUse;
use ports::{ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// The most characters kept of an unknown finish reason, which becomes a label.
const REASON_CHARS: usize = 40;

/// Reads an answer. `prompt_chars` returns the length of the prompt, for an answer without usage.
///
/// # Errors
/// [`ModelErrorKind::Malformed`] if it contains no message.
pub(super) fn read(answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError> {
    let Value::Object(mut answer) = answer else {
        return Err(malformed("the answer is not a JSON object"));
    };
    let usage = answer.get("usage").and_then(Reported::of);
    if answer.get("choices").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        return Ok(blocked(usage, prompt_chars));
    }
    let Some(mut choice) = first_choice(&mut answer) else {
        return Err(malformed("the answer has no choices"));
    };
    let Some(Value::Object(raw)) = choice.remove("message") else {
        return Err(malformed("the first choice has no message"));
    };
    let reason = choice.get("finish_reason").and_then(Value::as_str);
    if reason.is_none() && has_half_a_call(&raw) {
        return Err(malformed("the answer ends inside a call of a tool"));
    }
    Ok(message(raw, reason, usage, prompt_chars))
}

/// True if the arguments of a call are not JSON. Without a finish reason, the answer was truncated there.
pub(super) fn has_half_a_call(message: &Map<String, Value>) -> bool {
    let calls = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    calls.iter().filter_map(|call| call.pointer("/function/arguments")?.as_str()).any(arguments::are_half)
}

/// Returns the completion of a whole message; the raw message is kept for the echo.
pub(super) fn message(
    raw: Map<String, Value>,
    finish_reason: Option<&str>,
    usage: Option<Reported>,
    prompt_chars: &dyn Fn() -> usize,
) -> Completion {
    let mut raw = Value::Object(raw);
    modernise(&mut raw);
    let finish = finish_of(finish_reason, &raw);
    name_calls(&mut raw);
    bound_arguments(&mut raw);
    let (content, refused_part) = text_of(raw.get("content"));
    let refusal = raw.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let answer_chars = content.chars().count() + call_chars(&raw);
    let calls = calls_of(&raw);
    mend_arguments(&mut raw);
    // Some providers reject an empty text; all accept null beside tool calls.
    if !calls.is_empty() && raw["content"] == "" {
        raw["content"] = Value::Null;
    }
    Completion {
        finish,
        calls,
        hosted: HostedUse::default(),
        usage: usage_of(usage, prompt_chars, answer_chars),
        refusal: refusal.or(refused_part),
        content,
        raw: WrittenJson::new(&raw),
    }
}

/// Returns the completion of an empty list of choices: the provider's filter blocked the prompt.
pub(super) fn blocked(usage: Option<Reported>, prompt_chars: &dyn Fn() -> usize) -> Completion {
    Completion {
        content: String::new(),
        refusal: None,
        calls: Vec::new(),
        finish: Finish::Filtered,
        hosted: HostedUse::default(),
        usage: usage_of(usage, prompt_chars, 0),
        raw: json!({"role": "assistant", "content": ""}).into(),
    }
}

/// Converts a call in the older `function_call` form to a tool call, because its result is sent back as one.
fn modernise(message: &mut Value) {
    let Some(message) = message.as_object_mut() else { return };
    if message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty()) {
        return;
    }
    if message.get("function_call").is_some_and(|call| call.get("name").is_some_and(Value::is_string))
        && let Some(function) = message.remove("function_call")
    {
        message.insert("tool_calls".to_owned(), json!([{"type": "function", "function": function}]));
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

/// Returns the text of a content field, and its refusal, if any. Other parts, such as reasoning, are dropped.
pub(super) fn text_of(content: Option<&Value>) -> (String, Option<String>) {
    match content {
        None | Some(Value::Null) => (String::new(), None),
        Some(Value::String(text)) => (text.clone(), None),
        Some(Value::Array(parts)) => {
            let text = parts.iter().filter_map(text_of_part).collect();
            let refusal = parts.iter().find_map(|part| part.get("refusal")?.as_str()).map(str::to_owned);
            (text, refusal)
        }
        // Some servers parse a JSON answer although the request did not ask for it.
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

/// Prepares tool calls for an echo with a result for each: drops unreadable ones and generates missing ids.
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

/// Removes arguments that would take too much memory.
fn bound_arguments(message: &mut Value) {
    let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) else { return };
    arguments::bound(calls.iter_mut().filter_map(|call| call.get_mut("function")?.get_mut("arguments")));
}

/// Makes the arguments of each call a JSON object in text.
fn mend_arguments(message: &mut Value) {
    let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) else { return };
    for function in calls.iter_mut().filter_map(|call| call.get_mut("function")) {
        if let Some(mended) = arguments::mended(function.get("arguments")) {
            function["arguments"] = Value::String(mended);
        }
    }
}

/// Returns the tool calls of a message; parsed arguments are serialised again.
fn calls_of(message: &Value) -> Vec<ToolCall> {
    let calls = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let read = |call: &Value| {
        let function = call.get("function")?;
        let arguments = arguments::written(function.get("arguments"));
        let name = function.get("name")?.as_str()?.to_owned();
        Some(ToolCall { id: text(call.get("id")), name, arguments })
    };
    calls.iter().take(CALLS_MAX).filter_map(read).collect()
}

/// Returns the characters of a message that the model wrote besides its content.
fn call_chars(message: &Value) -> usize {
    ["tool_calls", "function_call", "refusal"]
        .iter()
        .filter_map(|field| message.get(field).filter(|value| !value.is_null()))
        .map(|value| value.to_string().chars().count())
        .sum()
}

fn finish_of(reason: Option<&str>, message: &Value) -> Finish {
    let Some(reason) = reason.filter(|reason| !reason.is_empty()) else {
        let calls = message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
        return if calls { Finish::ToolCalls } else { Finish::Other("none".to_owned()) };
    };
    match reason.to_ascii_lowercase().as_str() {
        "stop" | "end_turn" | "stop_sequence" | "eos" => Finish::Stop,
        "length" | "max_tokens" => Finish::Length,
        "tool_calls" | "tool_use" | "function_call" => Finish::ToolCalls,
        "safety" | "refusal" | "recitation" | "blocklist" | "prohibited_content" | "spii" => Finish::Filtered,
        // Some providers append the name of the filter.
        filtered if filtered.starts_with("content_filter") => Finish::Filtered,
        _ => Finish::Other(reason.chars().take(REASON_CHARS).collect()),
    }
}

fn malformed(message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, message)
}
