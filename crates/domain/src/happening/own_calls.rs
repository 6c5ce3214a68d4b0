//! Model calls that no turn waits for.

use crate::ids::{Person, Place};
use crate::summary::SummaryOutcome;

/// An attempt to summarise exchanges.
#[derive(Debug, Clone, Copy)]
pub struct Summarised<'a> {
    /// The member of the conversation.
    pub person: &'a Person,
    /// The place of the conversation.
    pub place: &'a Place,
    /// The number of exchanges.
    pub exchanges: usize,
    /// The tokens that the call used.
    pub tokens: u64,
    /// The outcome.
    pub outcome: SummaryOutcome,
}

/// The purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPurpose {
    /// The answer of a turn.
    Turn,
    /// A status line.
    StatusLine,
    /// A summary of older exchanges.
    Summary,
}

impl CallPurpose {
    /// Returns the label for logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::StatusLine => "status",
            Self::Summary => "summary",
        }
    }
}
