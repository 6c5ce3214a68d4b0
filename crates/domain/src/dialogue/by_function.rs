//! Answers by a function: the model calls [`ANSWER_FUNCTION`], which stands beside the tools, and the arguments of the
//! call are the typed answer. So a model that cannot combine tools with structured output needs one call.

use serde_json::{Map, Value};

use crate::completion::{ANSWER_FUNCTION, Completion, Finish};
use crate::reply::{Invalid, salvage};
use crate::tool::spoken;

/// The instruction for the model, after the description of the form.
pub const INSTRUCTION: &str = "Give your answer by calling the function give_answer once: its arguments are the JSON object \
                               described above. Write no text beside the call.";

/// Returns the arguments of the function, if the completion calls it and no tool. A call written as text counts, and
/// empty arguments do not.
#[must_use]
pub fn arguments(completion: &Completion) -> Option<String> {
    let is_answer = |name: &str| name == ANSWER_FUNCTION;
    let calls = if completion.calls.is_empty() {
        spoken::calls(&completion.content, is_answer)
    } else {
        completion.calls.clone()
    };
    if !calls.iter().all(|call| is_answer(&call.name)) {
        return None;
    }
    calls.into_iter().map(|call| call.arguments).find(|arguments| !is_empty(arguments))
}

/// Returns the text of an answer that was written as prose instead of a call. An answer that was cut off is none.
#[must_use]
pub fn prose(completion: &Completion, invalid: &Invalid) -> Option<String> {
    let whole = completion.finish != Finish::Length && !matches!(invalid, Invalid::TooLong);
    whole.then(|| salvage::prose(&completion.content)).flatten()
}

fn is_empty(arguments: &str) -> bool {
    let empty = |value: Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    arguments.trim().is_empty() || serde_json::from_str(arguments).is_ok_and(empty)
}
