//! The parts of a streaming answer.

use std::sync::Arc;

/// The receiver of an answer's deltas, in order. Called between two network reads, so it must be fast.
pub type DeltaSink = Arc<dyn Fn(Delta<'_>) + Send + Sync>;

/// A part of a streaming answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// Visible text.
    Text(&'a str),
    /// The number of hidden characters: reasoning, tool arguments.
    Hidden(usize),
}

impl Delta<'_> {
    /// Returns its length in characters.
    #[must_use]
    pub fn chars(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::Hidden(chars) => *chars,
        }
    }
}
