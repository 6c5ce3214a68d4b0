//! The choice of a wire for each model row.

use std::sync::Arc;

use crate::chat::{Chat, ChatCompletions};
use crate::responses::Responses;
use crate::wire::Wire;

/// The wire of a model row, with the settings that only this wire has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowWire {
    /// `/chat/completions`.
    ChatCompletions(ChatCompletions),
    /// `/responses`.
    Responses,
}

impl RowWire {
    /// Returns the implementation for one call. `answer_function`: the request offers a function for the answer.
    #[must_use]
    pub fn implementation(self, answer_function: bool) -> Arc<dyn Wire> {
        match self {
            Self::ChatCompletions(settings) => Arc::new(Chat { settings, answer_function }),
            Self::Responses => Arc::new(Responses { answer_function }),
        }
    }
}
