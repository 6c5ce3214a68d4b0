//! Rounds of tool calls, and their form in the next request.

use serde_json::{Value, json};

use super::RequestFacts;
use crate::completion::{Completion, Item, Role, ToolCall};
use crate::model::Row;

/// The request after results that the prompt shows as text.
pub const USE_RESULTS: &str = "Use these results, and go on with my question.";
/// Results up to this length, in bytes, are not shortened further.
const SHORT_BYTES: usize = 2_000;
/// Marks the place where a result was shortened.
pub(super) const SHORTENED: &str = "\n[... left out: there is no room for it ...]\n</tool_result>";
/// The same for a result that has no fence yet.
pub(super) const SHORTENED_INSIDE: &str = "\n[... left out: there is no room for it ...]";

/// Calls that a model made in one answer, with their results.
#[derive(Debug)]
pub(super) struct Round {
    /// The row that made native calls. `None` if the calls were written as text.
    pub row: Option<String>,
    pub echo: Item,
    pub calls: Vec<ToolCall>,
    pub results: Vec<String>,
}

impl Round {
    pub fn new(completion: &Completion, calls: Vec<ToolCall>, asked: &RequestFacts) -> Self {
        let native = asked.offered.is_native() && !completion.calls.is_empty();
        let row = native.then(|| asked.row.clone());
        Self { row, echo: Item::echo(completion), calls, results: Vec::new() }
    }

    /// Adds the round to the messages: unchanged if the same row made native calls and accepts them, otherwise as
    /// text.
    pub fn tell(&self, row: &Row, native: bool, messages: &mut Vec<Item>) {
        if native && self.row.as_ref() == Some(&row.key) {
            messages.push(self.echo.clone());
            messages.extend(self.calls.iter().zip(&self.results).map(|(call, result)| Item::result(call, result)));
            return;
        }
        let said = match (&self.row, self.echo.content.trim()) {
            (None, said) if !said.is_empty() => said.to_owned(),
            _ => self.calls.iter().map(written).collect::<Vec<_>>().join("\n"),
        };
        messages.push(Item::new(Role::Assistant, said));
        let results = self.results.join("\n");
        messages.push(Item::new(Role::User, format!("{results}\n{USE_RESULTS}")));
    }

    /// Returns the bytes of the answer that it keeps.
    pub fn bytes(&self) -> usize {
        let raw = self.echo.raw.as_ref().map_or(0, |raw| raw.as_str().len());
        raw + self.echo.content.len() + self.calls.iter().map(ToolCall::bytes).sum::<usize>()
    }

    /// Removes the later half of each long result. False if there is none.
    pub fn shorten(&mut self) -> bool {
        self.results.iter_mut().filter_map(|result| shorten(result, SHORTENED).then_some(())).count() > 0
    }
}

/// Replaces the later half of a long result by a mark. False if it is short.
pub(super) fn shorten(result: &mut String, mark: &str) -> bool {
    let is_long = result.len() > SHORT_BYTES;
    if is_long {
        result.truncate(result.floor_char_boundary(result.len() / 2));
        result.push_str(mark);
    }
    is_long
}

fn written(call: &ToolCall) -> String {
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::String(call.arguments.clone()));
    json!({"tool": call.name, "arguments": arguments}).to_string()
}
