//! What is asked of a model and what it says, in the field's own words and free of any provider's wire types.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One completion request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The transcript, oldest first.
    pub messages: Vec<Item>,
    /// The whole `response_format` value to send; none asks for plain text.
    pub response_format: Option<Arc<Value>>,
}

/// One item of the transcript: a normal view, and what a provider sent when it must be echoed as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Who speaks.
    pub role: Role,
    /// The text.
    pub content: String,
    /// The provider's own message, sent back unchanged instead of the view.
    pub raw: Option<Value>,
}

impl Item {
    /// An item of our own making.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), raw: None }
    }
}

/// Who speaks in a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Our instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name on the wire and in stored history.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The text, all text parts joined.
    pub content: String,
    /// The provider's refusal text, when it gave one instead of an answer.
    pub refusal: Option<String>,
    /// Why it stopped.
    pub finish: Finish,
    /// The tokens that it took.
    pub usage: Usage,
    /// The assistant message as it came.
    pub raw: Value,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// It ran into a length limit: the text is cut off.
    Length,
    /// It wants tools.
    ToolCalls,
    /// A content filter stopped it.
    Filtered,
    /// The provider said something else, or nothing.
    Other(String),
}

impl Finish {
    /// The label in logs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::Filtered => "content_filter",
            Self::Other(other) => other,
        }
    }
}

/// Tokens of one or more completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens in.
    pub prompt: u64,
    /// Tokens out.
    pub completion: u64,
    /// Tokens in that the provider had cached.
    pub cached: u64,
    /// At least one figure is our own estimate, because the provider left it out or sent nonsense.
    pub estimated: bool,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.completion = self.completion.saturating_add(other.completion);
        self.cached = self.cached.saturating_add(other.cached);
        self.estimated = self.estimated || other.estimated;
    }
}
