//! How completions fail.

use std::time::Duration;

/// Why a completion failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?}: {message}")]
pub struct ModelError {
    /// What kind of failure it was.
    pub kind: ModelErrorKind,
    /// What happened, for operators; never a secret, capped.
    pub message: String,
    /// How long the provider asked us to wait.
    pub retry_after: Option<Duration>,
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
