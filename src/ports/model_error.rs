//! How completions fail.

use std::time::Duration;

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
    /// A failure that is told in our own words.
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

/// What kind of failure a completion met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// No connection, or it broke.
    Connection,
    /// No answer in time.
    Timeout,
    /// Too many requests.
    RateLimited,
    /// The provider failed (5xx, an error inside a 200).
    Provider,
    /// The answer was not a completion, or too large.
    Malformed,
    /// The key or the model was refused (401, 403, 404).
    Refused,
    /// The request itself was refused (other 4xx).
    BadRequest,
    /// The prompt does not fit the model.
    ContextOverflow,
}

impl ModelErrorKind {
    /// Another try may help.
    #[must_use]
    pub const fn retryable(self) -> bool {
        match self {
            Self::Connection | Self::Timeout | Self::RateLimited | Self::Provider | Self::Malformed => true,
            Self::Refused | Self::BadRequest | Self::ContextOverflow => false,
        }
    }

    /// The label in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::Provider => "provider",
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::BadRequest => "bad_request",
            Self::ContextOverflow => "context_overflow",
        }
    }
}
