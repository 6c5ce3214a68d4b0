//! The choice of a wire for each model row.

use std::sync::Arc;

use crate::chat::ChatCompletions;
use crate::wire::Wire;

/// The wire of a model row, with the settings that only this wire has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowWire {
    /// `/chat/completions`.
    ChatCompletions(ChatCompletions),
}

impl RowWire {
    /// Returns the implementation.
    #[must_use]
    pub fn implementation(self) -> Arc<dyn Wire> {
        match self {
            Self::ChatCompletions(wire) => Arc::new(wire),
        }
    }
}
