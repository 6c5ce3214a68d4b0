//! One turn in detail, as plain data that is shown as JSON.

use serde::Serialize;

use domain::ids::Timestamp;

/// What was said to and by models for one turn, and what the log has of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TurnDetail {
    /// Whether texts may be seen.
    pub texts: TextAccess,
    /// Its calls of models in their order, the first six, for ten minutes; none when they are not told.
    pub calls: Vec<ModelCall>,
    /// Its lines of the log, the oldest first, at most a hundred; without content and secrets as the log itself.
    pub log: Vec<String>,
}

/// Whether the texts of a turn may be seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextAccess {
    /// They are, as far as they are kept.
    Visible,
    /// The operator does not allow it.
    #[default]
    Withheld,
    /// A member wished to be forgotten after the turn was accepted, and its texts are gone.
    Forgotten,
}

/// The last lines of the log, for those who look after the program.
pub trait TurnLog: Send + Sync {
    /// Those that name this turn, the oldest first.
    fn of(&self, turn: &str) -> Vec<String>;

    /// Drops all that are kept.
    fn forget(&self);

    /// Drops those that were written before this moment.
    fn forget_before(&self, moment: Timestamp);
}

/// One call of a model. Long texts are cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelCall {
    /// The model row.
    pub model: String,
    /// What it was asked.
    pub prompt: Vec<PromptPart>,
    /// What it answered, before anything was made of it; none while it is asked and when it failed.
    pub answer: Option<String>,
    /// The tools that it wanted to have run, each with its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Why it failed; never a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptPart {
    /// Who speaks: `system`, `user`, `assistant` or `tool`; `…` for what is left out.
    pub role: String,
    /// The text.
    pub text: String,
}
