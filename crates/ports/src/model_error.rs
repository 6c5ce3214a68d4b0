//! How completions fail.

use std::time::Duration;

pub use domain::ending::ModelErrorKind;

/// Why a completion failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?}: {safe_message}")]
pub struct ModelError {
    /// What kind of failure it was.
    pub kind: ModelErrorKind,
    /// What happened, for an operator at a terminal; never a secret, capped. A provider's own words may quote the request.
    pub message: String,
    /// The same for the log and the pages: without a provider's own words.
    pub safe_message: String,
    /// How long the provider asked us to wait.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// A failure in our own words.
    #[must_use]
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, safe_message: message.clone(), message, retry_after: None }
    }

    /// What the log shows only when it may show content; none when the gist says it all.
    #[must_use]
    pub fn quoted(&self) -> Option<&str> {
        (self.message != self.safe_message).then_some(&*self.message)
    }
}
