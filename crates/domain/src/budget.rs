//! The law of outgoing requests: so many in a second, none while the platform wants silence, and few that it refuses.
//! Moments are times since some fixed origin.

use std::collections::VecDeque;
use std::time::Duration;

/// The time within which the platform counts requests.
pub const WINDOW: Duration = Duration::from_secs(1);

/// How long after it was sent a request may arrive, when no answer says that it did.
pub const ARRIVAL: Duration = Duration::from_secs(1);

/// The largest budget in a second; a larger one counts as this.
pub const MAX_PER_SECOND: u32 = 1_000;

/// The time within which refused requests are counted.
pub const INVALID_WINDOW: Duration = Duration::from_secs(600);

/// Lets requests go so that no [`WINDOW`] of the platform's holds more of them than the budget.
///
/// The platform counts a request when it arrives, which is some time between its sending and its answer: one that has to open
/// its connection first arrives much later than one that is sent after it on an open one. So a request counts here from its
/// sending until a window after its answer, or after [`ARRIVAL`] when none came by then.
#[derive(Debug)]
pub struct RequestBudget {
    /// For each request of the budget, when it counts no more; none sets no limit.
    counts_until: Vec<Duration>,
    blocked_until: Duration,
}

/// A request that was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Which of the budget's requests it is, and until when it counts without an answer; none without a limit.
    taken: Option<(usize, Duration)>,
}

impl RequestBudget {
    /// A budget of `per_second` requests in a second, at most [`MAX_PER_SECOND`]; zero sets no limit.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        let per_second = per_second.min(MAX_PER_SECOND) as usize;
        Self { counts_until: vec![Duration::ZERO; per_second], blocked_until: Duration::ZERO }
    }

    /// Lets a request go now. Its answer, or that there will be none, must be told to [`Self::answered`].
    ///
    /// # Errors
    /// It may not go yet: the moment at which to ask again, later than `now` and not later than it may go.
    pub fn take(&mut self, now: Duration) -> Result<Ticket, Duration> {
        if now < self.blocked_until {
            return Err(self.blocked_until);
        }
        let Some(next) = self.counts_until.iter().copied().min() else { return Ok(Ticket { taken: None }) };
        let free = self.counts_until.iter().position(|until| *until <= now);
        // An answer that comes from now on frees its place a window later, which may be sooner than all that is known.
        let Some(place) = free else { return Err(next.min(now + WINDOW)) };
        let until = now + ARRIVAL + WINDOW;
        self.counts_until[place] = until;
        Ok(Ticket { taken: Some((place, until)) })
    }

    /// Lets an unimportant request go: only if it may go right now and leaves `spare` requests for others.
    pub fn try_take(&mut self, now: Duration, spare: u32) -> Option<Ticket> {
        let free = self.counts_until.iter().filter(|until| **until <= now).count();
        let fits = self.counts_until.is_empty() || free > spare as usize;
        fits.then(|| self.take(now).ok()).flatten()
    }

    /// The request was answered at `now`, or is known to be over without an answer.
    pub fn answered(&mut self, ticket: Ticket, now: Duration) {
        if let Some((place, until)) = ticket.taken
            && self.counts_until[place] == until
        {
            self.counts_until[place] = until.min(now + WINDOW);
        }
    }

    /// Lets nothing go before `at`: the platform closed all routes. An earlier block that lasts longer stays.
    pub fn block_until(&mut self, at: Duration) {
        self.blocked_until = self.blocked_until.max(at);
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
