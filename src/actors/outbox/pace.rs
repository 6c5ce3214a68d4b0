//! How fast a door and each of its places may go.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::budget::{InvalidBudget, RequestBudget};

/// The longest wait that a platform may impose on one request.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(600);
/// The shortest time between two edits in one place.
pub(super) const EDIT_EVERY: Duration = Duration::from_secs(1);

/// What a place allows, as far as it is known; handed from courier to courier.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// The platform's bucket for this place is empty until then.
    pub not_before: Option<Instant>,
    /// What is left in that bucket until then is for answers.
    pub drafts_after: Option<Instant>,
    /// When a draft was last shown.
    pub drawn_at: Option<Instant>,
    /// When anything was last edited.
    pub edited_at: Option<Instant>,
}

impl Pace {
    /// Nothing of it matters any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let past = |at: Option<Instant>| at.is_none_or(|at| at <= now);
        past(self.not_before) && past(self.drafts_after) && self.may_edit(now)
    }

    /// Another draft may be begun.
    pub(super) fn may_draft(&self, now: Instant) -> bool {
        let past = |at: Option<Instant>| at.is_none_or(|at| at <= now);
        past(self.not_before) && past(self.drafts_after)
    }

    /// Enough time has gone by since the last change.
    pub(super) fn may_edit(&self, now: Instant) -> bool {
        let rested = |at: Option<Instant>| at.is_none_or(|at| at + EDIT_EVERY <= now);
        rested(self.drawn_at) && rested(self.edited_at)
    }
}

/// The budgets of a door: requests a second, and refused requests in ten minutes.
pub struct Pacer {
    origin: Instant,
    budget: RequestBudget,
    invalid: InvalidBudget,
}

impl Pacer {
    /// Budgets of `per_second` requests (0: only what the platform says) and `invalid` refusals in ten minutes.
    #[must_use]
    pub fn new(per_second: u32, invalid: u32) -> Self {
        Self { origin: Instant::now(), budget: RequestBudget::new(per_second), invalid: InvalidBudget::new(invalid) }
    }

    /// Takes the next free slot; the request may go at the returned moment.
    pub fn reserve(&mut self, now: Instant) -> Instant {
        self.origin + self.budget.reserve(now - self.origin)
    }

    /// Whether a slot still holds now that it has come; a later one when everything was blocked meanwhile.
    pub fn renew(&mut self, slot: Instant) -> Instant {
        self.origin + self.budget.renew(slot - self.origin)
    }

    /// Takes a slot only if one is free now and `spare` more would remain.
    pub fn try_reserve(&mut self, now: Instant, spare: u32) -> bool {
        self.budget.try_reserve(now - self.origin, spare)
    }

    /// The platform refused a request with this status.
    pub fn refused(&mut self, now: Instant, status: u16) {
        if matches!(status, 401 | 403 | 429) {
            self.invalid.invalid(now - self.origin);
            // As a block, so that those who wait for its end do not all go at once then.
            if let Some(until) = self.invalid.hold(now - self.origin) {
                self.budget.block_until(until);
            }
        }
    }

    /// The platform said that there were too many requests.
    pub fn limited(&mut self, now: Instant, retry_after: Duration, global: bool) {
        self.refused(now, 429);
        if global {
            self.budget.block_until(now - self.origin + retry_after.min(WAIT_MAX));
        }
    }
}
