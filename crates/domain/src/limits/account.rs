//! Accounts: the further counters of a step, beside the member's window.
//!
//! An account sums up one cost of one scope in one sliding window: the dollars of a channel per day, or one member's
//! calls of a tool per hour. A step may name several accounts. It is admitted only if all of them have room.

use std::sync::Arc;
use std::time::Duration;

use super::window_log::{EntryState, WindowEntry, WindowLog};
use super::{
    AccountUse, Basis, Cost, ENTRIES_MAX, FullAccount, LimitRefusal, Limits, Reservation, TOKENS_MAX, estimate_max,
    turn_part,
};
use crate::ids::{self, Timestamp, TurnId};

/// The number of entries from which final entries are merged. An account may see thousands of turns a day.
pub const JOINED_FROM: usize = 128;

/// The number of merged entries per window: entries that began in the same part of the window become one, which counts
/// from the latest time among them.
const PARTS: u64 = 64;

/// The retry delay of a turn whose account is at its maximum of open turns.
const FULL: Duration = Duration::from_secs(1);

/// The maximum number of accounts that the operator's rows add to one step.
pub const SHARES_MAX: usize = 32;

/// The scope whose use an account sums up. Its name appears in configuration, logs and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// One member of a community.
    Member,
    /// All holders of a role together.
    Role,
    /// A channel, its threads included.
    Channel,
    /// A program's key.
    Key,
    /// A tool, or all tools whose names match one pattern.
    Tool,
    /// A whole community.
    Guild,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 6] = [Self::Member, Self::Role, Self::Channel, Self::Key, Self::Tool, Self::Guild];

    /// Returns the word in configuration, logs and keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Role => "role",
            Self::Channel => "channel",
            Self::Key => "key",
            Self::Tool => "tool",
            Self::Guild => "guild",
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == word);
        found.ok_or("member, role, channel, key, tool or guild")
    }
}

/// The identity of one account.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    /// The scope.
    pub scope: Scope,
    /// The cost.
    pub cost: Cost,
    /// The length of the sliding window.
    pub window: Duration,
    /// The community, as written in keys. In a cluster, the accounts of a community are on one node.
    pub community: Arc<str>,
    /// The id of the member, role, channel, key, tool or community, as written in keys, followed by any further
    /// discriminator of accounts of one scope.
    pub id: Arc<str>,
}

/// An account in which a step counts, with its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The account.
    pub account: Account,
    /// The maximum amount per window; zero allows nothing.
    pub limit: u64,
    /// The amount of the turn: an estimate on reserve, the actual amount on settle; `None` keeps the estimate.
    pub amount: Option<u64>,
}

impl Share {
    /// Returns the amount that a reservation counts as. An estimate is capped in the same way as the member's tokens.
    #[must_use]
    pub fn reserved(&self, exempt: bool) -> u64 {
        let amount = self.amount.unwrap_or_default().min(TOKENS_MAX);
        if exempt { amount } else { amount.min(estimate_max(self.limit)) }
    }
}

impl WindowLog {
    /// Returns the refusal of a full account; `None` if it has room or already counts the turn. The caller sets the
    /// account's index.
    pub fn share_refusal(&mut self, now: Timestamp, share: &Share, turn: &str) -> Option<LimitRefusal> {
        let Account { scope, cost, window, .. } = share.account;
        self.refresh(now, window);
        if self.entry(turn).is_some() {
            return None;
        }
        self.join(now, window);
        let account = Some(FullAccount { place: 0, scope });
        if self.entries().len() >= ENTRIES_MAX {
            let basis = Basis::OpenTurns;
            return Some(LimitRefusal { cost, retry_after: Some(FULL), basis, account });
        }
        let limits = Limits { messages: u32::MAX, tokens: share.limit };
        let refusal = self.refusal(now, window, share.reserved(false), limits)?;
        let basis = if cost.is_counted() { Basis::Use } else { refusal.basis };
        Some(LimitRefusal { cost, basis, account, ..refusal })
    }

    /// Returns the use of an account and the time until it has room for one more unit.
    #[must_use]
    pub fn used_of_share(mut self, now: Timestamp, share: &Share) -> AccountUse {
        let one = Share { amount: Some(1), ..share.clone() };
        let wait = self.share_refusal(now, &one, "").and_then(|refusal| refusal.retry_after);
        AccountUse { used: self.used(None).tokens, wait }
    }

    /// Counts the share of a turn. Returns false if it is already counted.
    pub fn reserve_share(&mut self, now: Timestamp, share: &Share, ask: &Reservation) -> bool {
        let turn = turn_part(&ask.turn);
        self.refresh(now, share.account.window);
        if self.entry(&turn).is_some() {
            return false;
        }
        self.join(now, share.account.window);
        let lease = Timestamp(now.0.saturating_add(ids::millis(ask.lease)));
        self.push(WindowEntry {
            at: now,
            tokens: share.reserved(ask.exempt),
            turn: Some(turn.into()),
            message: false,
            state: EntryState::Open(lease),
        });
        true
    }

    /// Settles the share of a turn. Returns false if it was settled or cancelled before, or has aged out.
    pub fn settle_share(&mut self, now: Timestamp, share: &Share, turn: &TurnId) -> bool {
        self.refresh(now, share.account.window);
        self.settle(turn, share.amount)
    }

    /// Cancels the share of a turn. Returns false if it was settled or cancelled before, or has aged out.
    pub fn cancel_share(&mut self, now: Timestamp, share: &Share, turn: &TurnId) -> bool {
        self.refresh(now, share.account.window);
        self.cancel(turn)
    }

    /// Merges entries that are final, so that any number of turns fits into one account. Merged entries count from
    /// their latest time: longer than necessary, never shorter.
    fn join(&mut self, now: Timestamp, window: Duration) {
        if self.entries().len() < JOINED_FROM {
            return;
        }
        let part = (ids::millis(window) / PARTS).max(1);
        let mut kept: Vec<WindowEntry> = Vec::with_capacity(JOINED_FROM);
        let mut closed: Option<usize> = None;
        for entry in self.entries().iter().rev() {
            if matches!(entry.state, EntryState::Open(lease) if lease > now) {
                kept.push(entry.clone());
                continue;
            }
            match closed {
                Some(at) if kept[at].at.0 / part == entry.at.0 / part => {
                    let later = &mut kept[at];
                    later.tokens = later.tokens.saturating_add(entry.tokens);
                    (later.turn, later.state) = (None, EntryState::Settled);
                }
                _ => {
                    closed = Some(kept.len());
                    kept.push(entry.clone());
                }
            }
        }
        kept.reverse();
        *self = Self::of(kept);
    }
}

#[cfg(test)]
mod tests;
