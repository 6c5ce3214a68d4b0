//! One turn in detail, as plain data for JSON.

use serde::Serialize;

use domain::ids::Timestamp;

/// The prompts and answers of one turn, and its log lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TurnDetail {
    /// The visibility of texts.
    pub texts: TextAccess,
    /// Its first six model calls in order, for ten minutes. Empty if they may not be shown.
    pub calls: Vec<ModelCall>,
    /// Its log lines, oldest first, at most 100; without content and secrets, like the log itself.
    pub log: Vec<String>,
}

/// The visibility of a turn's texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextAccess {
    /// Visible, while they are stored.
    Visible,
    /// The operator does not allow it.
    #[default]
    Withheld,
    /// A member ran `/forget` after the turn was accepted, and its texts were deleted.
    Forgotten,
}

/// The recent log lines, for operators.
pub trait TurnLog: Send + Sync {
    /// Returns the lines that name this turn, oldest first.
    fn of(&self, turn: &str) -> Vec<String>;

    /// Drops all lines.
    fn forget(&self);

    /// Drops the lines written before this time.
    fn forget_before(&self, moment: Timestamp);
}

/// One model call. Long texts are truncated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelCall {
    /// The model row.
    pub model: String,
    /// The prompt.
    pub prompt: Vec<PromptPart>,
    /// The unprocessed answer. `None` while the call runs and after a failure.
    pub answer: Option<String>,
    /// The requested tool calls with arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The error; never a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptPart {
    /// The role: `system`, `user`, `assistant` or `tool`; `…` for omitted parts.
    pub role: String,
    /// The text.
    pub text: String,
}
