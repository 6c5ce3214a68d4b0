//! The reason why a model stopped, as far as it concerns the member who asked.

use serde::{Deserialize, Serialize};

use super::completion::{Completion, Finish};

/// The way in which the completion behind an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerEnd {
    /// The model finished its answer.
    #[default]
    Whole,
    /// The answer reached the token limit.
    CutOff,
    /// The provider's content filter stopped the answer.
    Filtered,
    /// The model refused to answer.
    Refused,
}

impl AnswerEnd {
    /// Returns how a completion ended.
    #[must_use]
    pub fn of(completion: &Completion) -> Self {
        match completion.finish {
            _ if completion.refusal.is_some() => Self::Refused,
            Finish::Length => Self::CutOff,
            Finish::Filtered => Self::Filtered,
            Finish::Stop | Finish::ToolCalls | Finish::Other(_) => Self::Whole,
        }
    }

    /// True if the answer is complete.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}
