//! Accounts: what a step counts in, beside the window of the member.
//!
//! An account sums up one cost of one scope within one sliding window: the dollars of a channel in a day, the calls of a tool by
//! one member in an hour. A step names several accounts, and is admitted when all of them have room.

use std::sync::Arc;
use std::time::Duration;

use super::window_log::{Entry, EntryState, WindowLog};
use super::{
    AccountUse, Basis, Cost, ENTRIES_MAX, FullAccount, Limits, Refusal, Reservation, TOKENS_MAX, estimate_max,
};
use crate::ids::{self, Timestamp, TurnId};
use crate::keys;

/// Entries from which those that no turn can change any more are joined. An account may see thousands of turns in a day.
pub const JOINED_FROM: usize = 128;

/// Joined entries in one window: entries that began in the same part of it become one, which counts from its latest moment.
const PARTS: u64 = 64;

/// The pause after which a turn is tried again whose account has no place for a further open turn.
const FULL: Duration = Duration::from_secs(1);

/// The most accounts that one step names.
pub const SHARES_MAX: usize = 32;

/// Whose use an account sums up. The name is a word of configuration, logs and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// One member of a community.
    Member,
    /// All holders of a role together.
    Role,
    /// A channel, its threads included.
    Channel,
    /// A key of a program.
    Key,
    /// A tool, or all tools whose names fit one pattern.
    Tool,
    /// A whole community.
    Guild,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Member, Self::Role, Self::Channel, Self::Key, Self::Tool, Self::Guild];

    /// The word in configuration, logs and keys.
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

/// What one account sums up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    /// Whose use.
    pub scope: Scope,
    /// Of what.
    pub cost: Cost,
    /// The length of the sliding window.
    pub window: Duration,
    /// The community, as keys write it. The accounts of one step are of one community.
    pub community: Arc<str>,
    /// Who or what of that scope, as keys write it, and after it what else tells accounts of one scope apart.
    pub id: Arc<str>,
}

/// An account that a step counts in, with its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The account.
    pub account: Account,
    /// How much is allowed within its window; zero allows nothing.
    pub limit: u64,
    /// How much the turn takes: by estimate when it reserves, really when it settles; `None` leaves the estimate.
    pub amount: Option<u64>,
}

impl Share {
    /// The amount that a reservation counts as: an estimate is cut as that of the member's tokens is.
    #[must_use]
    pub fn reserved(&self, exempt: bool) -> u64 {
        let amount = self.amount.unwrap_or_default().min(TOKENS_MAX);
        if exempt { amount } else { amount.min(estimate_max(self.limit)) }
    }
}

impl WindowLog {
    /// Returns why an account has no room for a share; `None` when it has, or counts the turn already. The caller sets the place.
    pub fn share_refusal(&mut self, now: Timestamp, share: &Share, turn: &str) -> Option<Refusal> {
        let Account { scope, cost, window, .. } = share.account;
        self.refresh(now, window);
        if self.entry(turn).is_some() {
            return None;
        }
        self.join(now, window);
        let account = Some(FullAccount { place: 0, scope });
        if self.entries().len() >= ENTRIES_MAX {
            let basis = Basis::OpenTurns;
            return Some(Refusal { cost, retry_after: Some(FULL), basis, account });
        }
        let limits = Limits { messages: u32::MAX, tokens: share.limit };
        let refusal = self.refusal(now, window, share.reserved(false), limits)?;
        let basis = if cost.is_counted() { Basis::Use } else { refusal.basis };
        Some(Refusal { cost, basis, account, ..refusal })
    }

    /// Returns how much of an account is used, and the wait for one more of it.
    #[must_use]
    pub fn used_of_share(mut self, now: Timestamp, share: &Share) -> AccountUse {
        let one = Share { amount: Some(1), ..share.clone() };
        let wait = self.share_refusal(now, &one, "").and_then(|refusal| refusal.retry_after);
        AccountUse { used: self.used(None).tokens, wait }
    }

    /// Counts the share of a turn; false when it is counted already.
    pub fn reserve_share(&mut self, now: Timestamp, share: &Share, ask: &Reservation) -> bool {
        let turn = keys::limits::limit_turn(&ask.turn);
        self.refresh(now, share.account.window);
        if self.entry(&turn).is_some() {
            return false;
        }
        self.join(now, share.account.window);
        let lease = Timestamp(now.0.saturating_add(ids::millis(ask.lease)));
        self.push(Entry {
            at: now,
            tokens: share.reserved(ask.exempt),
            turn: Some(turn.into()),
            message: false,
            state: EntryState::Open(lease),
        });
        true
    }

    /// Settles the share of a turn; false when it was settled or cancelled before, or has aged out.
    pub fn settle_share(&mut self, now: Timestamp, share: &Share, turn: &TurnId) -> bool {
        self.refresh(now, share.account.window);
        self.settle(turn, share.amount)
    }

    /// Cancels the share of a turn; false when it was settled or cancelled before, or has aged out.
    pub fn cancel_share(&mut self, now: Timestamp, share: &Share, turn: &TurnId) -> bool {
        self.refresh(now, share.account.window);
        self.cancel(turn)
    }

    /// Joins entries that no turn is expected to change any more, so that any number of turns fits into one account. What is joined counts
    /// from its latest moment: longer than it has to, and never shorter.
    fn join(&mut self, now: Timestamp, window: Duration) {
        if self.entries().len() < JOINED_FROM {
            return;
        }
        let part = (ids::millis(window) / PARTS).max(1);
        let mut kept: Vec<Entry> = Vec::with_capacity(JOINED_FROM);
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
