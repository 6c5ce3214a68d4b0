//! The budgets of a door, enforced before the platform enforces its limits. They live outside of the outbox, because a
//! crash that reset them could lead to a ban.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::pace::WAIT_MAX;
use domain::budget::{InvalidBudget, RequestBudget, Ticket};
use domain::rejection::Rejection;

/// The budgets of requests per second, and of refused requests in ten minutes.
pub struct Pacer {
    origin: Instant,
    budget: RequestBudget,
    invalid: InvalidBudget,
    /// The lock of the next request; callers acquire it in order of arrival.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A request that may be sent now. Dropping it marks the request as answered or abandoned.
pub(super) struct Slot {
    pacer: Arc<Mutex<Pacer>>,
    ticket: Ticket,
}

impl Pacer {
    /// Creates budgets of `per_second` requests (0: only the platform's limits) and `invalid` refusals in ten minutes.
    #[must_use]
    pub fn new(per_second: u32, invalid: u32) -> Self {
        let (budget, invalid) = (RequestBudget::new(per_second), InvalidBudget::new(invalid));
        Self { origin: Instant::now(), budget, invalid, turn: Arc::default() }
    }

    /// Counts a rejected request.
    pub(super) fn rejected(&mut self, now: Instant, reason: Rejection) {
        if reason.counts_against_us() {
            self.invalid(now);
        }
    }

    fn invalid(&mut self, now: Instant) {
        self.invalid.invalid(now - self.origin);
        // A block releases the callers one after the other when it ends, rather than all at once.
        if let Some(until) = self.invalid.hold(now - self.origin) {
            self.budget.block_until(until);
        }
    }

    /// Applies a rate limit reported by the platform.
    pub(super) fn limited(&mut self, now: Instant, retry_after: Duration, global: bool) {
        self.invalid(now);
        if global {
            self.budget.block_until(now - self.origin + retry_after.min(WAIT_MAX));
        }
    }

    /// Returns a ticket, or the time of the next attempt.
    fn take(&mut self, now: Instant) -> Result<Ticket, Instant> {
        self.budget.take(now - self.origin).map_err(|at| self.origin + at)
    }
}

impl Slot {
    /// Waits until a request may be sent, first come, first served. The wait ends with the budget's window or with a
    /// block of the platform, bounded by [`WAIT_MAX`] and by the window of refusals.
    pub(super) async fn take(pacer: &Arc<Mutex<Pacer>>) -> Self {
        let turn = Arc::clone(&pacer.lock().turn);
        let _next = turn.lock().await;
        loop {
            let taken = pacer.lock().take(Instant::now());
            match taken {
                Ok(ticket) => return Self { pacer: Arc::clone(pacer), ticket },
                Err(at) => tokio::time::sleep_until(at).await,
            }
        }
    }

    /// Takes a slot for a low-priority request, only if it may be sent immediately and leaves `spare` requests for
    /// others.
    pub(super) fn try_take(pacer: &Arc<Mutex<Pacer>>, spare: u32) -> Option<Self> {
        let mut budgets = pacer.lock();
        let now = Instant::now() - budgets.origin;
        let ticket = budgets.budget.try_take(now, spare)?;
        Some(Self { pacer: Arc::clone(pacer), ticket })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut budgets = self.pacer.lock();
        let now = Instant::now() - budgets.origin;
        budgets.budget.answered(self.ticket, now);
    }
}
