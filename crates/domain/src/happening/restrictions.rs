//! Events of restrictions.

use std::time::Duration;

use crate::ids::Timestamp;

/// A change of one member's restriction.
#[derive(Debug, Clone, Copy)]
pub enum RestrictionChange<'a> {
    /// The member has the role.
    Added {
        /// The label of the broken limit.
        tier: &'static str,
        /// The end; `None` if only moderators end it.
        until: Option<Timestamp>,
    },
    /// The member left before the role was given. The restriction stays.
    Left,
    /// The restriction ended.
    Lifted {
        /// The reason.
        why: Lifted,
        /// The time since the end was due; `None` if no end is known.
        late: Option<Duration>,
    },
    /// A change of the role failed with this error and is retried.
    Failed(&'a str),
    /// The platform refuses to change the role, with this error. Reported at a limited rate for each community.
    Refused(&'a str),
}

/// The reason for the end of a restriction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifted {
    /// Its end was due.
    Expired,
    /// Its end was due, and the member had left.
    Left,
    /// A moderator removed the role.
    Moderator,
}

impl Lifted {
    /// Returns the label in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Left => "left",
            Self::Moderator => "moderator",
        }
    }
}
