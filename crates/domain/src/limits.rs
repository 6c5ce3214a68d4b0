//! Limits on what may be asked for, each in a sliding window: the messages and model tokens of a member, and accounts of members,
//! roles, channels, keys, tools and communities beside them (`account.rs`).
//!
//! Tokens are reserved by estimate before a model is asked, and settled with what it really took. A refusal writes nothing. The
//! law itself is `window_log.rs`, for the entries of one window; `crates/store/src/redis/limits.lua` is the same law as one step of a server,
//! and tests hold the two against each other. An entry made at `at` counts up to, and not at, `at + window`: so no span of the
//! window's length ever holds more than the limit, and the moment told for the next try is exact to the millisecond.

pub mod window_log;

pub mod account;

pub mod budget;

pub mod member;

pub mod member_windows;

pub mod rules;

pub mod estimate;

pub mod charge;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::account::{Scope, Share};
use super::ids::{Timestamp, TurnId};

/// The most entries of one member. A limit of more messages counts as this many; whoever is exempt has the newest counted.
pub const ENTRIES_MAX: usize = 1_000;

/// The most tokens of one entry: a larger figure is nonsense, and counts as this.
pub const TOKENS_MAX: u64 = 1_000_000_000_000;

/// The most tokens that the estimate of one turn counts as, of a limit of so many: just over a half. So whoever has used less
/// than the other half is never held up by an estimate of a single message, and no two turns whose estimates were cut are
/// under way at once: a window is exceeded by what one message took beyond its estimate, and no more.
#[must_use]
pub const fn estimate_max(limit: u64) -> u64 {
    let most = limit / 2 + 1;
    if most < limit { most } else { limit }
}

/// Whose entries stand together: one person in one community. Made by [`super::keys::limits::limited`].
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

/// One atomic step. It may be repeated: the turn's id is the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The member whose messages and tokens are counted; `None` counts in accounts alone.
    pub member: Option<Member>,
    /// The length of the member's window.
    pub window: Duration,
    /// What to do.
    pub step: Step,
    /// The accounts that the step is about beside the member's window; at most [`account::SHARES_MAX`].
    pub shares: Vec<Share>,
}

impl Request {
    /// A step about the window of a member alone.
    #[must_use]
    pub const fn of_member(member: Member, window: Duration, step: Step) -> Self {
        Self { member: Some(member), window, step, shares: Vec::new() }
    }

    /// A step about accounts alone.
    #[must_use]
    pub const fn of_shares(shares: Vec<Share>, step: Step) -> Self {
        Self { member: None, window: Duration::ZERO, step, shares }
    }
}

/// What to do with the entries of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A turn wants to be answered.
    Reserve(Reservation),
    /// A turn has ended. Its tokens replace the estimate; none leaves the estimate, which is never taken for use in a breach.
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
    /// The tokens that it will take, by estimate; counted as at most [`estimate_max`] of the limit, so that a small one lets
    /// a single message through.
    pub tokens: u64,
    /// How long it may take until it is settled; afterwards nobody will, and it stays at its estimate until it has aged out.
    pub lease: Duration,
    /// What is allowed.
    pub limits: Limits,
    /// It is counted and never refused.
    pub exempt: bool,
}

/// The decision about a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The turn is counted, as of now or from an earlier time.
    Admitted,
    /// The turn is over a limit; nothing was written.
    Refused(Refusal),
    /// It is done, or there was nothing to do.
    Done,
    /// What was asked for.
    Used(Used),
}

/// Why a turn is refused, and for how long. Of several accounts without room, the first is told, the member's window before all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The cost whose limit it is over; of a member's messages and tokens, the tokens, if these are used up.
    pub cost: Cost,
    /// The time after which the same turn is accepted, if nothing else happens; none when the limit allows nothing at all.
    pub retry_after: Option<Duration>,
    /// What it rests on.
    pub basis: Basis,
    /// The account without room; `None` for the member's window.
    pub account: Option<FullAccount>,
}

/// The account of a step that has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullAccount {
    /// Its place among the shares of the step.
    pub place: usize,
    /// Its scope.
    pub scope: Scope,
}

impl Refusal {
    /// Returns true if the member broke a limit of their own window by their own use. An account without room is no breach.
    #[must_use]
    pub const fn is_breach(&self) -> bool {
        self.account.is_none() && self.basis.is_breach()
    }
}

/// What a refusal rests on. Only use is a breach: estimates may be those of other members' turns, and make one wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// On what the member has used, and on nothing else: the messages are all sent, or the tokens of settled turns are all
    /// that is allowed.
    Use,
    /// Turns that have ended leave less than this one is expected to take.
    Remainder,
    /// Turns that have not ended are expected to take what is left; once they are settled there may be room.
    OpenTurns,
}

impl Basis {
    /// For a turn of so many tokens by estimate: whether all messages are sent, and the tokens of settled turns, held against
    /// the limit on tokens.
    const fn of(all_messages: bool, settled: u64, tokens: u64, limit: u64) -> Self {
        if all_messages || settled >= limit {
            Self::Use
        } else if settled.saturating_add(tokens) > limit {
            Self::Remainder
        } else {
            Self::OpenTurns
        }
    }

    /// The member broke a limit.
    #[must_use]
    pub const fn is_breach(self) -> bool {
        matches!(self, Self::Use)
    }
}

/// What a limit counts. The name is a word of configuration and keys, and the label `tier` of logs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cost {
    /// Messages that are answered.
    Messages,
    /// Model tokens.
    Tokens,
    /// Money, in millionths of a dollar.
    Dollars,
    /// Calls of tools.
    Calls,
}

impl Cost {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Messages, Self::Tokens, Self::Dollars, Self::Calls];

    /// Returns true if each turn takes a known number, so that no estimate is involved.
    #[must_use]
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Messages | Self::Calls)
    }

    /// The label in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Tokens => "tokens",
            Self::Dollars => "dollars",
            Self::Calls => "calls",
        }
    }
}

/// What has been used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Used {
    /// Messages.
    pub messages: u32,
    /// Tokens, estimates of turns that have not ended included.
    pub tokens: u64,
    /// The time after which a message of one token is accepted; none when it would be now, or never.
    pub wait: Option<Duration>,
    /// The same of each account of the step, in order.
    pub accounts: Vec<AccountUse>,
}

/// What has been used of one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountUse {
    /// The amount, estimates of turns that have not ended included.
    pub used: u64,
    /// The time after which one more is accepted; `None` when it would be now, or never.
    pub wait: Option<Duration>,
}

/// How a member stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The accounts that their messages count in beside that.
    pub accounts: Vec<AccountStanding>,
}

/// How one account stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountStanding {
    /// Whose use it sums up.
    pub scope: Scope,
    /// Of what; dollars are millionths.
    pub cost: Cost,
    /// How much is used, and how much is allowed.
    pub used: (u64, u64),
    /// The length of the window.
    pub window: Duration,
    /// When more will be accepted; `None` when it would be now, or never.
    pub frees_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests;
