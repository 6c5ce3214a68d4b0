//! Views of one output item. Items stay as the provider sent them, unknown kinds and fields included.

use serde_json::{Map, Value};

use domain::completion::ANSWER_FUNCTION;

/// An output item.
pub(super) type Item = Map<String, Value>;

/// Returns a text field, unless it is empty.
pub(super) fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn is_kind(item: &Item, kind: &str) -> bool {
    text(item, "type") == Some(kind)
}

/// True if it is a call of a tool that this program runs.
pub(super) fn is_call(item: &Item) -> bool {
    is_kind(item, "function_call")
}

/// True if it is the call of the function for the answer.
pub(super) fn is_answer_call(item: &Item) -> bool {
    is_call(item) && text(item, "name") == Some(ANSWER_FUNCTION)
}

pub(super) fn is_message(item: &Item) -> bool {
    is_kind(item, "message")
}

/// True if the model writes to itself: a message that announces its next steps.
pub(super) fn is_commentary(item: &Item) -> bool {
    text(item, "phase") == Some("commentary")
}

/// True if it is reasoning that cannot be sent back to a provider that keeps nothing.
pub(super) fn is_lost_reasoning(item: &Item) -> bool {
    let has_content = || item.get("content").and_then(Value::as_array).is_some_and(|parts| !parts.is_empty());
    is_kind(item, "reasoning") && text(item, "encrypted_content").is_none() && !has_content()
}

/// True if the provider waits for the approval of a call.
pub(super) fn is_approval_request(item: &Item) -> bool {
    is_kind(item, "mcp_approval_request")
}

/// Returns the parts of a message.
pub(super) fn parts(item: &Item) -> &[Value] {
    item.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the text of a message, all text parts joined; empty for other items.
pub(super) fn message_text(item: &Item) -> String {
    if !is_message(item) {
        return String::new();
    }
    // Some servers write the text where parts belong.
    if let Some(text) = text(item, "content") {
        return text.to_owned();
    }
    let text = |part: &Value| match part.get("type").and_then(Value::as_str) {
        None | Some("output_text" | "text") => part.get("text")?.as_str().map(str::to_owned),
        Some(_) => None,
    };
    parts(item).iter().filter_map(text).collect()
}

/// Returns the refusal in a message.
pub(super) fn refusal(item: &Item) -> Option<&str> {
    parts(item).iter().filter(|_| is_message(item)).find_map(|part| part.get("refusal")?.as_str())
}
