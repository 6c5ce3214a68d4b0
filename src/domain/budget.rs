//! The law of outgoing requests: so many in a second, none while the platform wants silence, and few that it refuses.
//! Moments are times since some fixed origin.

use std::collections::VecDeque;
use std::time::Duration;

/// The time within which requests are counted: a second, and a little for those that travel faster than the one before.
pub const WINDOW: Duration = Duration::from_millis(1_020);

/// The largest budget in a second; a larger one counts as this.
pub const MAX_PER_SECOND: u32 = 1_000;

/// The time within which refused requests are counted.
pub const INVALID_WINDOW: Duration = Duration::from_secs(600);

/// Hands out moments at which requests may go, first come, first served, so that no [`WINDOW`] holds more than the budget.
#[derive(Debug)]
pub struct RequestBudget {
    per_second: usize,
    /// The last reserved moments, oldest first, never falling; at most `per_second` (at least one).
    slots: VecDeque<Duration>,
    blocked_until: Duration,
}

impl RequestBudget {
    /// A budget of `per_second` requests in a second; zero sets no limit.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        let per_second = per_second.min(MAX_PER_SECOND) as usize;
        Self { per_second, slots: VecDeque::with_capacity(per_second.max(1)), blocked_until: Duration::ZERO }
    }

    /// Reserves the next moment, at or after `now`, at which a request may go. The caller waits until then, asks
    /// [`Self::renew`] once more and sends.
    pub fn reserve(&mut self, now: Duration) -> Duration {
        let slot = self.next_slot(now);
        if self.slots.len() >= self.per_second.max(1) {
            self.slots.pop_front();
        }
        self.slots.push_back(slot);
        slot
    }

    /// Reserves for an unimportant request: only if it may go right now and leaves `spare` requests for others in this
    /// window. It never waits and never makes others wait beyond that.
    pub fn try_reserve(&mut self, now: Duration, spare: u32) -> bool {
        let unlimited = self.per_second == 0;
        let used = self.slots.iter().filter(|slot| **slot + WINDOW > now).count();
        let left = self.per_second.saturating_sub(used);
        let fits = self.next_slot(now) == now && (unlimited || left > spare as usize);
        if fits {
            self.reserve(now);
        }
        fits
    }

    /// Lets nothing go before `at`: the platform closed all routes. An earlier block that lasts longer stays.
    pub fn block_until(&mut self, at: Duration) {
        self.blocked_until = self.blocked_until.max(at);
    }

    /// Whether a reserved moment still holds when it has come: the same moment, or a later one that was reserved anew because
    /// a block came in between. Without this, all who waited through a block would go at once.
    pub fn renew(&mut self, slot: Duration) -> Duration {
        if slot >= self.blocked_until { slot } else { self.reserve(slot) }
    }

    fn next_slot(&self, now: Duration) -> Duration {
        let last = self.slots.back().copied().unwrap_or_default();
        let earliest = now.max(self.blocked_until).max(last);
        if self.per_second == 0 || self.slots.len() < self.per_second {
            return earliest;
        }
        // The window that begins with the oldest of a full row must be over.
        self.slots.front().map_or(earliest, |oldest| earliest.max(*oldest + WINDOW))
    }
}

/// Counts requests that the platform refused (401, 403, 429): it bans addresses that send too many of them.
#[derive(Debug)]
pub struct InvalidBudget {
    limit: usize,
    /// When the newest refusals came, oldest first; at most `limit`.
    refused: VecDeque<Duration>,
}

impl InvalidBudget {
    /// A budget of `limit` refusals in [`INVALID_WINDOW`]; zero sets no limit.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self { limit: limit as usize, refused: VecDeque::new() }
    }

    /// Takes note of a refusal at `now`.
    pub fn invalid(&mut self, now: Duration) {
        if self.limit == 0 {
            return;
        }
        if self.refused.len() == self.limit {
            self.refused.pop_front();
        }
        // A clock that is read by several tasks may seem to step back a little; the row must not.
        let last = self.refused.back().copied().unwrap_or_default();
        self.refused.push_back(now.max(last));
    }

    /// Until when nothing may be sent, because the budget is used up; none when something may be sent now.
    #[must_use]
    pub fn hold(&self, now: Duration) -> Option<Duration> {
        if self.limit == 0 || self.refused.len() < self.limit {
            return None;
        }
        self.refused.front().map(|oldest| *oldest + INVALID_WINDOW).filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests;
