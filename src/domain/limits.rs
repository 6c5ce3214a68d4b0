//! Two limits on what a member may ask for: messages, and model tokens, each in one sliding window.
//!
//! Tokens are reserved by estimate before a model is asked, and settled with what it really took. A refusal writes nothing. The
//! law itself is `log.rs`, for the entries of one member; `src/store/redis/limits.lua` is the same law as one step of a server,
//! and tests hold the two against each other. An entry made at `at` counts up to, and not at, `at + window`: so no span of the
//! window's length ever holds more than the limit, and the moment told for the next try is exact to the millisecond.

pub mod window_log;

pub mod member;

pub mod member_windows;

pub mod rules;

pub mod estimate;

pub mod charge;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::ids::{Timestamp, TurnId};

/// The most entries of one member. A limit of more messages counts as this many; whoever is exempt has the newest counted.
pub const ENTRIES_MAX: usize = 1_000;

/// The most tokens of one entry: a larger figure is nonsense, and counts as this.
pub const TOKENS_MAX: u64 = 1_000_000_000_000;

/// Whose entries stand together: one person in one community. Made by [`super::keys::limited`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member(Arc<str>);

impl Member {
    /// A member by the part of the keys that names them.
    #[must_use]
    pub fn new(part: impl Into<Arc<str>>) -> Self {
        Self(part.into())
    }

    /// The part of the keys that names them.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How much is allowed within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Messages; zero allows none.
    pub messages: u32,
    /// Model tokens; zero allows none.
    pub tokens: u64,
}

/// One step about one member. Each may be repeated: the turn's id is the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whom it is about.
    pub member: Member,
    /// The length of the window.
    pub window: Duration,
    /// What to do.
    pub step: Step,
}

/// What to do with the entries of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A turn wants to be answered.
    Reserve(Reservation),
    /// A turn has ended. Its tokens replace the estimate; none leaves the estimate as what it took.
    Settle(TurnId, Option<u64>),
    /// A turn has ended before a model was asked: it counts as if it had never been.
    Cancel(TurnId),
    /// Somebody wants to know how much is used.
    Read(Limits),
}

/// A turn that wants to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The turn.
    pub turn: TurnId,
    /// The tokens that it will take, by estimate. More than the limit counts as the limit, so that a small one lets a single
    /// message through.
    pub tokens: u64,
    /// How long it may take until it is settled; afterwards nobody will, and it stays at its estimate until it has aged out.
    pub lease: Duration,
    /// What is allowed.
    pub limits: Limits,
    /// It is counted and never refused.
    pub exempt: bool,
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The turn is counted, as of now or from an earlier time.
    Admitted,
    /// The turn is over a limit; nothing was written.
    Refused(Refusal),
    /// It is done, or there was nothing to do.
    Done,
    /// What was asked for.
    Used(Used),
}

/// Why a turn is refused, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The limit that it is over; of both, the one on tokens.
    pub tier: Tier,
    /// The time after which the same turn is accepted, if nothing else happens; none when the limit allows nothing at all.
    pub retry_after: Option<Duration>,
    /// It rests on estimates of turns that have not ended: nobody broke a limit yet, and waiting may be enough.
    pub unsettled: bool,
}

/// One of the two limits. The name is a log and metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The one on messages.
    Messages,
    /// The one on tokens.
    Tokens,
}

impl Tier {
    /// The label in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Tokens => "tokens",
        }
    }
}

/// What a member has used of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Messages.
    pub messages: u32,
    /// Tokens, estimates of turns that have not ended included.
    pub tokens: u64,
    /// The time after which a message of one token is accepted; none when it would be now, or never.
    pub wait: Option<Duration>,
}

/// How a member stands, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Messages used, and how many are allowed.
    pub messages: (u32, u32),
    /// Tokens used, and how many are allowed.
    pub tokens: (u64, u64),
    /// When the next message will be accepted; none when it would be now, or never.
    pub frees_at: Option<Timestamp>,
    /// The length of the window.
    pub window: Duration,
    /// They are counted and never refused.
    pub exempt: bool,
}

#[cfg(test)]
mod tests;
