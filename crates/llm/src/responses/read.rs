//! Reads a response leniently: unused fields cannot make it fail.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::hosted;
use super::item::{self, Item};
use crate::arguments;
use crate::bounds::CALLS_MAX;
use crate::usage::{Reported, usage_of};
use domain::completion::{Completion, Finish, ToolCall};
use ports::{ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// The most characters kept of an unknown status, which becomes a label.
const REASON_CHARS: usize = 40;

/// The reported end of an answer.
#[derive(Debug, Default, Clone)]
pub(super) struct Ending {
    pub status: Option<String>,
    /// The reason why it is incomplete.
    pub reason: Option<String>,
}

/// Reads an answer. `prompt_chars` returns the length of the prompt, for an answer without usage.
///
/// # Errors
/// [`ModelErrorKind::Malformed`] if it has no output, [`ModelErrorKind::Provider`] if it failed or was cancelled.
pub(super) fn read(answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError> {
    let Value::Object(mut answer) = answer else {
        return Err(malformed("the answer is not a JSON object"));
    };
    let usage = answer.get("usage").and_then(Reported::of);
    let label = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let status = label(answer.get("status"));
    if let Some(status @ ("failed" | "cancelled")) = status.as_deref() {
        return Err(ModelError::new(ModelErrorKind::Provider, format!("the answer has the status {status}")));
    }
    let reason = label(answer.get("incomplete_details").and_then(|details| details.get("reason")));
    let Some(Value::Array(output)) = answer.remove("output") else {
        return Err(malformed("the answer has no list `output`"));
    };
    if status.is_none() && has_half_a_call(output.iter().filter_map(Value::as_object)) {
        return Err(malformed("the answer ends inside a call of a tool"));
    }
    Ok(completion(output, &Ending { status, reason }, usage, prompt_chars))
}

/// True if the arguments of a call are not JSON. Without a status, the answer was truncated there.
pub(super) fn has_half_a_call<'a>(mut items: impl Iterator<Item = &'a Item>) -> bool {
    items.any(|item| item::is_call(item) && item::text(item, "arguments").is_some_and(arguments::are_half))
}

/// Returns the completion of all output items; the items are kept for the echo.
pub(super) fn completion(
    output: Vec<Value>,
    ending: &Ending,
    usage: Option<Reported>,
    prompt_chars: &dyn Fn() -> usize,
) -> Completion {
    let mut items: Vec<Item> = output.into_iter().filter_map(into_item).collect();
    name_calls(&mut items);
    let of_calls = items.iter_mut().filter(|item| item::is_call(item));
    arguments::bound(of_calls.filter_map(|item| item.get_mut("arguments")));
    let calls: Vec<ToolCall> = items.iter().filter_map(call_of).collect();
    let content = content_of(&items);
    let refusal = items.iter().find_map(item::refusal).filter(|text| !text.is_empty()).map(str::to_owned);
    let hosted = hosted::used(&items);
    let finish = finish_of(ending, !calls.is_empty());
    let written = |call: &ToolCall| call.name.chars().count() + call.arguments.chars().count();
    let answer_chars = content.chars().count()
        + calls.iter().map(written).sum::<usize>()
        + refusal.as_ref().map_or(0, |text| text.chars().count());
    mend_arguments(&mut items);
    detach(&mut items);
    Completion {
        content,
        refusal,
        calls,
        finish,
        hosted,
        usage: usage_of(usage, prompt_chars, answer_chars),
        raw: Value::Array(items.into_iter().map(Value::Object).collect()).into(),
    }
}

fn into_item(value: Value) -> Option<Item> {
    match value {
        Value::Object(item) => Some(item),
        _ => None,
    }
}

/// Returns the text for members. Commentary is the answer only if there is nothing else.
fn content_of(items: &[Item]) -> String {
    let text = |commentary: bool| -> String {
        items.iter().filter(|item| item::is_commentary(item) == commentary).map(item::message_text).collect()
    };
    let answer = text(false);
    if answer.trim().is_empty() { text(true) } else { answer }
}

/// Prepares calls for an echo with a result for each: drops unreadable and excess ones and generates missing ids.
fn name_calls(items: &mut Vec<Item>) {
    let mut number = 0;
    let mut seen = HashSet::new();
    items.retain_mut(|item| {
        if !item::is_call(item) {
            return true;
        }
        let Some(name) = item::text(item, "name").map(str::to_owned) else { return false };
        if number == CALLS_MAX {
            return false;
        }
        let id = item::text(item, "call_id").or_else(|| item::text(item, "id")).unwrap_or_default().to_owned();
        let id = if id.is_empty() || seen.contains(&id) { format!("call_{number}_{name}") } else { id };
        seen.insert(id.clone());
        item.insert("call_id".to_owned(), Value::String(id));
        number += 1;
        true
    });
}

fn call_of(item: &Item) -> Option<ToolCall> {
    if !item::is_call(item) {
        return None;
    }
    let text = |name: &str| item::text(item, name).map(str::to_owned);
    Some(ToolCall { id: text("call_id")?, name: text("name")?, arguments: arguments::written(item.get("arguments")) })
}

/// Makes the arguments of each call a JSON object in text.
fn mend_arguments(items: &mut [Item]) {
    for item in items.iter_mut().filter(|item| item::is_call(item)) {
        if let Some(mended) = arguments::mended(item.get("arguments")) {
            item.insert("arguments".to_owned(), Value::String(mended));
        }
    }
}

/// Drops reasoning that the provider would not find again, and the ids by which other items belong to it.
fn detach(items: &mut Vec<Item>) {
    // An approval that was not given would block the answers after it.
    items.retain(|item| !item::is_approval_request(item));
    let before = items.len();
    items.retain(|item| !item::is_lost_reasoning(item));
    if items.len() == before {
        return;
    }
    for item in items {
        if item::is_call(item) {
            item.remove("id");
        } else if item::is_message(item) {
            let text = item::message_text(item);
            *item = Item::from_iter([
                ("type".to_owned(), json!("message")),
                ("role".to_owned(), json!("assistant")),
                ("content".to_owned(), Value::String(text)),
            ]);
        }
    }
}

fn finish_of(ending: &Ending, has_calls: bool) -> Finish {
    let label = |text: &str| Finish::Other(text.chars().take(REASON_CHARS).collect());
    match (ending.status.as_deref(), ending.reason.as_deref()) {
        (None | Some("completed"), _) if has_calls => Finish::ToolCalls,
        (Some("completed"), _) => Finish::Stop,
        (None, _) => label("none"),
        (Some("incomplete"), Some("max_output_tokens" | "max_tokens" | "length")) => Finish::Length,
        (Some("incomplete"), Some("content_filter")) => Finish::Filtered,
        (Some("incomplete"), Some(reason)) => label(reason),
        (Some(status), _) => label(status),
    }
}

fn malformed(message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, message)
}
