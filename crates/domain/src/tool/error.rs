//! How calls of tools fail.

use std::time::Duration;

/// Why a call gave no result. A tool that ran and failed is no such error: its result says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What kind of failure it was.
    pub kind: CallErrorKind,
    /// What happened and, where there is one, the fix, for an operator; never a secret, one line, capped.
    pub message: String,
    /// How long the source asked us to wait.
    pub retry_after: Option<Duration>,
}

impl CallError {
    /// A failure of this kind.
    pub fn new(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}

/// What kind of failure a call met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorKind {
    /// There is no connection to the source; nothing was sent.
    Unavailable,
    /// The connection broke, or the session was lost, after the call was sent: whether it ran is unknown.
    Lost,
    /// No answer in time: whether it ran is unknown.
    Timeout,
    /// The credentials were not accepted (401).
    Unauthorized,
    /// The credentials are not enough (403), or the source does not let us do this.
    Forbidden,
    /// The source has no such tool, resource or prompt.
    NotFound,
    /// The source takes no more calls for now (429).
    RateLimited,
    /// The arguments were refused.
    InvalidArguments,
    /// The source failed (5xx, an error of the protocol).
    Failed,
    /// The answer was none of the protocol.
    Malformed,
    /// The call or its answer is larger than what is carried.
    TooLarge,
}

impl CallErrorKind {
    /// The label in logs.
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

    /// The call may have run although there is no result.
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
