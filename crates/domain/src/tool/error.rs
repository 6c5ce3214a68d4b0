//! Errors of tool calls.

use std::time::Duration;

/// The reason why a call returned no result. A tool that ran and failed is not such an error: it returns a result with
/// an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// The kind of failure.
    pub kind: CallErrorKind,
    /// The cause and, if there is one, the fix, for an operator; without secrets, one line, with a maximum length.
    pub message: String,
    /// The delay that the source requested.
    pub retry_after: Option<Duration>,
}

impl CallError {
    /// Builds an error of this kind.
    pub fn new(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}

/// The kind of a call's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorKind {
    /// There is no connection to the source; nothing was sent.
    Unavailable,
    /// The connection or the session was lost after the call was sent: it may have run.
    Lost,
    /// The call timed out: it may have run.
    Timeout,
    /// The credentials were rejected (401).
    Unauthorized,
    /// The credentials are insufficient (403), or the source forbids the call.
    Forbidden,
    /// The source has no such tool, resource or prompt.
    NotFound,
    /// The source accepts no more calls at present (429).
    RateLimited,
    /// The arguments were rejected.
    InvalidArguments,
    /// The source failed (5xx, or a protocol error).
    Failed,
    /// The response violates the protocol.
    Malformed,
    /// The call or its response exceeds the size limit.
    TooLarge,
}

impl CallErrorKind {
    /// Returns the label in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Lost => "lost",
            Self::Timeout => "timeout",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::RateLimited => "rate_limited",
            Self::InvalidArguments => "invalid_arguments",
            Self::Failed => "failed",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
        }
    }

    /// True if the same request may succeed later.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Unavailable | Self::Lost | Self::Timeout | Self::RateLimited | Self::Failed => true,
            Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::InvalidArguments
            | Self::Malformed
            | Self::TooLarge => false,
        }
    }

    /// True if the call may have run although there is no result.
    #[must_use]
    pub const fn may_have_run(self) -> bool {
        match self {
            Self::Lost | Self::Timeout | Self::Failed | Self::Malformed | Self::TooLarge => true,
            Self::Unavailable
            | Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::RateLimited
            | Self::InvalidArguments => false,
        }
    }
}
