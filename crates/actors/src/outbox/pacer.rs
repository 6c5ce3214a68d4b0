//! The budgets of a door, kept before the platform has to speak of them. They live outside of the outbox: a crash that reset them
//! could get us banned.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::pace::WAIT_MAX;
use domain::budget::{InvalidBudget, RequestBudget, Ticket};
use domain::rejection::Rejection;

/// Requests a second, and refused requests in ten minutes.
pub struct Pacer {
    origin: Instant,
    budget: RequestBudget,
    invalid: InvalidBudget,
    /// Whoever holds it is the next to go; those who wait for it come in the order in which they asked.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A request that may go now. Dropping it says that it was answered, or that there will be no answer.
pub(super) struct Slot {
    pacer: Arc<Mutex<Pacer>>,
    ticket: Ticket,
}

impl Pacer {
    /// Budgets of `per_second` requests (0: only what the platform says) and `invalid` refusals in ten minutes.
    #[must_use]
    pub fn new(per_second: u32, invalid: u32) -> Self {
        let (budget, invalid) = (RequestBudget::new(per_second), InvalidBudget::new(invalid));
        Self { origin: Instant::now(), budget, invalid, turn: Arc::default() }
    }

    /// The platform rejected a request.
    pub(super) fn rejected(&mut self, now: Instant, reason: Rejection) {
        if reason.counts_against_us() {
            self.invalid(now);
        }
    }

    fn invalid(&mut self, now: Instant) {
        self.invalid.invalid(now - self.origin);
        // As a block, so that those who wait for its end do not all go at once then.
        if let Some(until) = self.invalid.hold(now - self.origin) {
            self.budget.block_until(until);
        }
    }

    /// The platform said that there were too many requests.
    pub(super) fn limited(&mut self, now: Instant, retry_after: Duration, global: bool) {
        self.invalid(now);
        if global {
            self.budget.block_until(now - self.origin + retry_after.min(WAIT_MAX));
        }
    }

    /// When to ask again, or a ticket.
    fn take(&mut self, now: Instant) -> Result<Ticket, Instant> {
        self.budget.take(now - self.origin).map_err(|at| self.origin + at)
    }
}

impl Slot {
    /// Waits until a request may go, first come, first served. The wait ends with the budget's window or with a block of the
    /// platform's, which is bounded by [`WAIT_MAX`] and by the window of refusals.
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

    /// For an unimportant request: only if it may go right now and leaves `spare` requests for others.
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
