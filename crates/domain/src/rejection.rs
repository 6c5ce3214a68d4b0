//! The reasons why a platform rejects a request. Edges report them and decisions depend on them.

use std::fmt;

/// The reason why a platform rejected a request. The name is a log label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// The place does not exist any more.
    PlaceGone,
    /// The bot lacks access to the place, or a permission there.
    Forbidden,
    /// The message that the request names does not exist any more.
    MessageGone,
    /// The post may not reply to its message. Without the reply it may be accepted.
    Reply,
    /// The content of the request is not accepted, or it names an object that is not. A repetition is rejected again.
    Content,
    /// The platform rejects the bot's credentials.
    Credentials,
    /// An unknown reason. It may be temporary.
    Unexplained,
}

impl Rejection {
    /// Returns the label for logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlaceGone => "place gone",
            Self::Forbidden => "forbidden",
            Self::MessageGone => "message gone",
            Self::Reply => "reply refused",
            Self::Content => "content refused",
            Self::Credentials => "credentials refused",
            Self::Unexplained => "refused",
        }
    }

    /// True if the same request may succeed later without a change on the bot's side.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        match self {
            Self::Credentials | Self::Unexplained => true,
            Self::PlaceGone | Self::Forbidden | Self::MessageGone | Self::Reply | Self::Content => false,
        }
    }

    /// True if the same post may be accepted without its reply reference.
    #[must_use]
    pub const fn may_be_of_reply(self) -> bool {
        match self {
            Self::Reply | Self::MessageGone | Self::Unexplained => true,
            Self::PlaceGone | Self::Forbidden | Self::Content | Self::Credentials => false,
        }
    }

    /// True if all other requests for the same place are rejected as well.
    #[must_use]
    pub const fn closes_place(self) -> bool {
        match self {
            Self::PlaceGone | Self::Forbidden => true,
            Self::MessageGone | Self::Reply | Self::Content | Self::Credentials | Self::Unexplained => false,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
