//! Errors of completions.

use std::time::Duration;

pub use domain::ending::ModelErrorKind;

/// The error of a completion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?}: {safe_message}")]
pub struct ModelError {
    /// The kind of error.
    pub kind: ModelErrorKind,
    /// The description for an operator at a terminal; capped, without secrets. A provider's text in it may quote the
    /// request.
    pub message: String,
    /// The description for the log and the pages, without the provider's text.
    pub safe_message: String,
    /// The delay that the provider requested.
    pub retry_after: Option<Duration>,
    /// True if no connection to the provider's address was established: the failure concerns all rows of the provider.
    pub unreached: bool,
}

impl ModelError {
    /// Creates an error without a provider's text.
    #[must_use]
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, safe_message: message.clone(), message, retry_after: None, unreached: false }
    }

    /// Returns the text that the log may show only if it may show content. `None` if the safe message is complete.
    #[must_use]
    pub fn quoted(&self) -> Option<&str> {
        (self.message != self.safe_message).then_some(&*self.message)
    }
}
