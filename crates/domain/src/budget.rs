//! Budgets for outgoing requests: a rate limit, a block while the platform demands it, and a bound on refused
//! requests. Times are durations since a fixed origin.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use crate::fair_share;

/// The window in which the platform counts requests.
pub const WINDOW: Duration = Duration::from_secs(1);

/// The longest assumed time from sending to arrival, if no answer confirms it.
pub const ARRIVAL: Duration = Duration::from_secs(1);

/// The largest budget per second; larger values are reduced to it.
pub const MAX_PER_SECOND: u32 = 1_000;

/// The window in which refused requests are counted.
pub const INVALID_WINDOW: Duration = Duration::from_secs(600);

/// Limits requests so that no [`WINDOW`] at the platform holds more of them than the budget.
///
/// The platform counts a request when it arrives, some time between sending and answer. A request that first opens
/// its connection may arrive much later than one sent after it on an open connection. A request therefore counts from
/// its sending until one window after its answer, or after [`ARRIVAL`] if no answer came by then.
#[derive(Debug)]
pub struct RequestBudget {
    /// For each slot, the time until which it is occupied. Empty: no limit.
    counts_until: Vec<Duration>,
    blocked_until: Duration,
}

/// A permit for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The slot, and until when it is occupied without an answer. `None`: no limit.
    taken: Option<(usize, Duration)>,
}

impl RequestBudget {
    /// Creates a budget of `per_second` requests per second, at most [`MAX_PER_SECOND`]; zero means no limit.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        let per_second = per_second.min(MAX_PER_SECOND) as usize;
        Self { counts_until: vec![Duration::ZERO; per_second], blocked_until: Duration::ZERO }
    }

    /// Changes the budget. A smaller one drops the permits that are free first.
    pub fn resize(&mut self, per_second: u32) {
        let per_second = per_second.min(MAX_PER_SECOND) as usize;
        if per_second == self.counts_until.len() {
            return;
        }
        if per_second < self.counts_until.len() {
            self.counts_until.sort_unstable_by(|one, other| other.cmp(one));
        }
        self.counts_until.resize(per_second, Duration::ZERO);
    }

    /// Takes a permit for one request. The caller must report its answer, or that there will be none, to
    /// [`Self::answered`].
    ///
    /// # Errors
    /// No permit is free. The error is the time at which to ask again: later than `now`, and not later than the next
    /// permit.
    pub fn take(&mut self, now: Duration) -> Result<Ticket, Duration> {
        if now < self.blocked_until {
            return Err(self.blocked_until);
        }
        let Some(next) = self.counts_until.iter().copied().min() else { return Ok(Ticket { taken: None }) };
        let free = self.counts_until.iter().position(|until| *until <= now);
        // An answer that arrives from now on frees its slot one window later, possibly before all known slots.
        let Some(place) = free else { return Err(next.min(now + WINDOW)) };
        let until = now + ARRIVAL + WINDOW;
        self.counts_until[place] = until;
        Ok(Ticket { taken: Some((place, until)) })
    }

    /// Takes a permit for a low-priority request: only if one is free now and `spare` permits remain for other
    /// requests.
    pub fn try_take(&mut self, now: Duration, spare: u32) -> Option<Ticket> {
        let free = self.counts_until.iter().filter(|until| **until <= now).count();
        let fits = self.counts_until.is_empty() || free > spare as usize;
        fits.then(|| self.take(now).ok()).flatten()
    }

    /// Records that the request was answered at `now`, or ended without an answer.
    pub fn answered(&mut self, ticket: Ticket, now: Duration) {
        // After a change of the budget, a slot may have moved: its permit counts without an answer.
        if let Some((place, until)) = ticket.taken
            && let Some(slot) = self.counts_until.get_mut(place)
            && *slot == until
        {
            *slot = until.min(now + WINDOW);
        }
    }

    /// Blocks all requests until `at`, when the platform closed all routes. A longer block that is in force stays.
    pub fn block_until(&mut self, at: Duration) {
        self.blocked_until = self.blocked_until.max(at);
    }
}

/// Counts requests that the platform refused and counts against the bot, because it bans addresses that send too many
/// of them.
///
/// Each refusal has a payer, such as the community where it happened. Payers share the budget by the rule of
/// [`fair_share`], so one payer spends at most half of it. Refusals without a payer belong to the bot itself.
#[derive(Debug)]
pub struct InvalidBudget<P> {
    limit: usize,
    /// The refusals of the last [`INVALID_WINDOW`] with their payers, oldest first; at most `limit`.
    refused: VecDeque<(Duration, Option<P>)>,
    /// The number of refusals of each payer.
    spent: HashMap<P, usize>,
}

impl<P: Clone + Eq + Hash> InvalidBudget<P> {
    /// Creates a budget of `limit` refusals per [`INVALID_WINDOW`]; zero means no limit.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self { limit: limit as usize, refused: VecDeque::new(), spent: HashMap::new() }
    }

    /// Records a refusal at `now`.
    pub fn invalid(&mut self, now: Duration, payer: Option<P>) {
        if self.limit == 0 {
            return;
        }
        self.expire(now);
        if self.refused.len() == self.limit {
            self.remove_oldest();
        }
        if let Some(payer) = payer.clone() {
            *self.spent.entry(payer).or_default() += 1;
        }
        // A clock read by several tasks may seem to step back a little; the sequence must not.
        let last = self.refused.back().map(|(at, _)| *at).unwrap_or_default();
        self.refused.push_back((now.max(last), payer));
    }

    /// False if no payer can be held. Then the payer of a request need not be determined.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        self.limit > 0 && self.refused.len() * 2 >= self.limit
    }

    /// Returns until when this payer may send nothing because its share or the budget is used up, `None` if sending is
    /// allowed.
    pub fn hold(&mut self, now: Duration, payer: Option<&P>) -> Option<Duration> {
        if self.limit == 0 {
            return None;
        }
        self.expire(now);
        let left = self.limit - self.refused.len();
        let mut spent = payer.and_then(|payer| self.spent.get(payer)).copied().unwrap_or_default();
        let mut until = None;
        for (freed, (at, of)) in self.refused.iter().enumerate() {
            if fair_share::admits(spent, left + freed) {
                break;
            }
            until = Some(*at + INVALID_WINDOW);
            spent -= usize::from(payer.is_some() && of.as_ref() == payer);
        }
        until
    }

    /// True if a low-priority request leaves this payer refusals for its other requests: it spent less than about two
    /// thirds of its share. Does not call `payer` while few refusals are counted in all.
    pub fn spares(&mut self, now: Duration, payer: impl FnOnce() -> Option<P>) -> bool {
        if self.limit == 0 || self.refused.len() * 3 < self.limit {
            return true;
        }
        self.expire(now);
        let left = self.limit - self.refused.len();
        let spent = payer().and_then(|payer| self.spent.get(&payer)).copied().unwrap_or_default();
        fair_share::admits(2 * spent, left)
    }

    fn expire(&mut self, now: Duration) {
        while self.refused.front().is_some_and(|(at, _)| *at + INVALID_WINDOW <= now) {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some((_, Some(payer))) = self.refused.pop_front() else { return };
        if let Some(spent) = self.spent.get_mut(&payer) {
            *spent -= 1;
            if *spent == 0 {
                self.spent.remove(&payer);
            }
        }
    }
}

#[cfg(test)]
mod tests;
