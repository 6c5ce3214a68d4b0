//! Rate limits with sliding windows: the messages and model tokens of each member, and accounts of members, roles,
//! channels, keys, tools and communities (`account.rs`).
//!
//! - *Reserve, then settle.* Tokens are reserved by estimate before the model call and settled with the actual use.
//! - *No effect of a refusal.* A refused request writes nothing.
//! - *Exact windows.* An entry made at `at` counts until `at + window`, exclusive. No span of the window's length ever
//!   exceeds the limit, and the reported retry time is exact to the millisecond.
//! - *One algorithm.* `window_log.rs` implements it for the entries of one window; `crates/store/src/redis/limits.lua`
//!   implements it as one atomic step of the server. Tests compare the two.

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
use super::ids::{Person, Timestamp, TurnId};
use super::key_part::{legacy, part};

/// The maximum number of entries of one member. A higher message limit counts as this. Of an exempt member, only the
/// newest entries count.
pub const ENTRIES_MAX: usize = 1_000;

/// The maximum number of tokens of one entry. Larger values are invalid and count as this.
pub const TOKENS_MAX: u64 = 1_000_000_000_000;

/// Returns the maximum number of tokens that one estimate may reserve of a limit: just over half of it. So an estimate
/// never refuses a single message of a member who has used less than the other half, and two turns with capped
/// estimates never run at the same time. A window is exceeded at most by the amount one message uses beyond its
/// estimate.
#[must_use]
pub const fn estimate_max(limit: u64) -> u64 {
    let most = limit / 2 + 1;
    if most < limit { most } else { limit }
}

/// The placeholder for "no community".
const NO_GUILD: &str = "direct";

/// Returns the community of a person's accounts, as written in keys.
#[must_use]
pub fn community(person: &Person, guild: Option<&str>) -> String {
    legacy(&person.door, guild.unwrap_or(NO_GUILD))
}

/// Formats a turn as a part of an entry.
#[must_use]
pub fn turn_part(turn: &TurnId) -> String {
    format!("{}%3A{}", part(turn.door.as_str()), part(&turn.id))
}

/// The key of a member's entries: one person in one community.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member(Arc<str>);

impl Member {
    /// Returns the unit whose messages and tokens are counted together.
    ///
    /// On Discord the parts are the bare ids, as the Python bot wrote them; other doors qualify each id with their name.
    #[must_use]
    pub fn of(person: &Person, guild: Option<&str>) -> Self {
        Self::new(format!("{}:{}", community(person, guild), legacy(&person.door, &person.id)))
    }

    /// Builds a member from the key part that names them.
    #[must_use]
    pub fn new(part: impl Into<Arc<str>>) -> Self {
        Self(part.into())
    }

    /// Returns the key part that names the member.
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

/// The limits of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of messages; zero allows none.
    pub messages: u32,
    /// The number of model tokens; zero allows none.
    pub tokens: u64,
}

/// One atomic step. It is idempotent by the turn's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The member whose messages and tokens are counted; `None` counts in accounts only.
    pub member: Option<Member>,
    /// The length of the member's window.
    pub window: Duration,
    /// The operation.
    pub step: LimitStep,
    /// The further accounts of the step: at most [`account::SHARES_MAX`] of the operator's rows, those of the quotas of a
    /// tool call, and the copies that count a person at all doors.
    pub shares: Vec<Share>,
}

impl Request {
    /// Builds a step on a member's window only.
    #[must_use]
    pub const fn of_member(member: Member, window: Duration, step: LimitStep) -> Self {
        Self { member: Some(member), window, step, shares: Vec::new() }
    }

    /// Builds a step on accounts only.
    #[must_use]
    pub const fn of_shares(shares: Vec<Share>, step: LimitStep) -> Self {
        Self { member: None, window: Duration::ZERO, step, shares }
    }
}

/// An operation on the entries of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitStep {
    /// Reserves the estimate of a turn.
    Reserve(Reservation),
    /// Settles an ended turn: the actual tokens replace the estimate. `None` keeps the estimate, which never counts as
    /// use in a breach.
    Settle(TurnId, Option<u64>),
    /// Cancels a turn that ended before a model call: the turn no longer counts.
    Cancel(TurnId),
    /// Reads the current use.
    Read(Limits),
}

/// The reservation of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The turn.
    pub turn: TurnId,
    /// The estimated tokens. At most [`estimate_max`] of the limit are counted, so that a small limit admits a single
    /// message.
    pub tokens: u64,
    /// The lease: the maximum time until the turn is settled. After that it is never settled, and its estimate counts
    /// until it ages out.
    pub lease: Duration,
    /// The limits that apply.
    pub limits: Limits,
    /// True if the turn is counted but never refused.
    pub exempt: bool,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The turn is counted, by this step or an earlier one.
    Admitted,
    /// The turn exceeds a limit; nothing was written.
    Refused(LimitRefusal),
    /// The step is done, or had no effect.
    Done,
    /// The current use.
    Used(Used),
}

/// The reason for a refusal and the time until a retry succeeds. If several accounts are full, the first is reported,
/// the member's window before all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRefusal {
    /// The cost whose limit is exceeded. Of a member's messages and tokens, the tokens if they are used up.
    pub cost: Cost,
    /// The time after which the same turn is accepted if nothing else happens; `None` if the limit allows nothing.
    pub retry_after: Option<Duration>,
    /// The basis of the refusal.
    pub basis: Basis,
    /// The full account; `None` for the member's window.
    pub account: Option<FullAccount>,
}

/// A full account of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullAccount {
    /// Its index among the shares of the step.
    pub place: usize,
    /// Its scope.
    pub scope: Scope,
}

impl LimitRefusal {
    /// True if the member exceeded a limit of their own window by their own use. A full account is not a breach.
    #[must_use]
    pub const fn is_breach(&self) -> bool {
        self.account.is_none() && self.basis.is_breach()
    }
}

/// The basis of a refusal. Only actual use is a breach; estimates may belong to turns of other members, and only delay
/// a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The member's actual use: all messages are sent, or the tokens of settled turns reach the limit.
    Use,
    /// Ended turns leave fewer tokens than this turn is expected to use.
    Remainder,
    /// Open turns are expected to use the remaining tokens; there may be room once they are settled.
    OpenTurns,
}

impl Basis {
    /// Returns the basis for a turn with this token estimate, from the settled tokens and the token limit.
    /// `all_messages` is true if all messages are sent.
    const fn of(all_messages: bool, settled: u64, tokens: u64, limit: u64) -> Self {
        if all_messages || settled >= limit {
            Self::Use
        } else if settled.saturating_add(tokens) > limit {
            Self::Remainder
        } else {
            Self::OpenTurns
        }
    }

    /// True if the member exceeded a limit.
    #[must_use]
    pub const fn is_breach(self) -> bool {
        matches!(self, Self::Use)
    }
}

/// A cost that a limit counts. Its name appears in configuration and keys, and as the label `tier` of logs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cost {
    /// Answered messages.
    Messages,
    /// Model tokens.
    Tokens,
    /// Money, in millionths of a dollar.
    Dollars,
    /// Tool calls.
    Calls,
}

impl Cost {
    /// All costs.
    pub const ALL: [Self; 4] = [Self::Messages, Self::Tokens, Self::Dollars, Self::Calls];

    /// True if each turn costs a known number, without an estimate.
    #[must_use]
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Messages | Self::Calls)
    }

    /// Returns the label in logs and metrics.
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

/// The current use of a member's window and of the accounts of the step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Used {
    /// Messages.
    pub messages: u32,
    /// Tokens, the estimates of open turns included.
    pub tokens: u64,
    /// The time after which a message of one token is accepted; `None` if that is now or never.
    pub wait: Option<Duration>,
    /// The use of each account of the step, in order.
    pub accounts: Vec<AccountUse>,
}

/// The current use of one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountUse {
    /// The amount, the estimates of open turns included.
    pub used: u64,
    /// The time after which one more unit is accepted; `None` if that is now or never.
    pub wait: Option<Duration>,
}

/// The current use of a member, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Messages used, and the limit.
    pub messages: (u32, u32),
    /// Tokens used, and the limit.
    pub tokens: (u64, u64),
    /// The time at which the next message is accepted; `None` if that is now or never.
    pub frees_at: Option<Timestamp>,
    /// The length of the window.
    pub window: Duration,
    /// True if the member is counted but never refused.
    pub exempt: bool,
    /// The further accounts in which the member's messages count.
    pub accounts: Vec<AccountStanding>,
}

/// The current use of one account, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountStanding {
    /// The scope whose use it sums up.
    pub scope: Scope,
    /// The cost; dollars are in millionths.
    pub cost: Cost,
    /// The amount used, and the limit.
    pub used: (u64, u64),
    /// The length of the window.
    pub window: Duration,
    /// The time at which more is accepted; `None` if that is now or never.
    pub frees_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests;
