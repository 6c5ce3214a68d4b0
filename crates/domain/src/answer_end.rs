//! Why the model stopped that wrote an answer, as far as that concerns whoever asked.

use serde::{Deserialize, Serialize};

use super::completion::{Completion, Finish};

/// How the completion ended that became an answer, as far as that concerns whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerEnd {
    /// The model had said all that it wanted to say.
    #[default]
    Whole,
    /// It reached its limit of tokens.
    CutOff,
    /// The provider's content filter stopped it.
    Filtered,
    /// The model refused to answer.
    Refused,
}

impl AnswerEnd {
    /// The end of a completion.
    #[must_use]
    pub fn of(completion: &Completion) -> Self {
        match completion.finish {
            _ if completion.refusal.is_some() => Self::Refused,
            Finish::Length => Self::CutOff,
            Finish::Filtered => Self::Filtered,
            Finish::Stop | Finish::ToolCalls | Finish::Other(_) => Self::Whole,
        }
    }

    /// True if nothing of it is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}
