//! Why a platform rejected a request, as far as it tells; the one vocabulary in which edges report it and decisions read it.

use std::fmt;

/// Why a platform rejected a request. The name is a label in logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// The place does not exist any more.
    PlaceGone,
    /// The platform says that we lack access to the place, or a permission there.
    Forbidden,
    /// The message that the request names does not exist any more.
    MessageGone,
    /// The request as it stands: what it carries, or what else it names. The same request is rejected again.
    Content,
    /// Our credentials.
    Credentials,
    /// No reason that is known. It may pass.
    Unexplained,
}

impl Rejection {
    /// The label in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlaceGone => "place gone",
            Self::Forbidden => "forbidden",
            Self::MessageGone => "message gone",
            Self::Content => "content refused",
            Self::Credentials => "credentials refused",
            Self::Unexplained => "refused",
        }
    }

    /// The same request may be taken later, without anybody changing anything here.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        match self {
            Self::Credentials | Self::Unexplained => true,
            Self::PlaceGone | Self::Forbidden | Self::MessageGone | Self::Content => false,
        }
    }

    /// Everything else for the same place is rejected as well.
    #[must_use]
    pub const fn closes_place(self) -> bool {
        match self {
            Self::PlaceGone | Self::Forbidden => true,
            Self::MessageGone | Self::Content | Self::Credentials | Self::Unexplained => false,
        }
    }

    /// Platforms ban senders of too many requests like this one.
    #[must_use]
    pub const fn counts_against_us(self) -> bool {
        match self {
            Self::Forbidden | Self::Content | Self::Credentials | Self::Unexplained => true,
            Self::PlaceGone | Self::MessageGone => false,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
