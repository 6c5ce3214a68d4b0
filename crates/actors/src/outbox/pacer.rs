//! The budgets of a door, enforced before the platform enforces its limits. They live outside of the outbox, because a
//! crash that reset them could lead to a ban.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::pace::WAIT_MAX;
use crate::observation::board::{Board, PartKind};
use crate::services::own_ranges::OwnRanges;
use domain::budget::{InvalidBudget, RequestBudget, Ticket};
use domain::ids::{self, Door, Place};
use ports::{LimitScope, PostError, PostRequest, Poster};
use telemetry::events::OUTBOX_HELD;

/// The budgets of requests per second, and of refused requests in ten minutes.
pub struct Pacer {
    origin: Instant,
    budget: RequestBudget,
    /// The budget of all processes, and the ranges by which they share it.
    whole: (u32, Option<OwnRanges>),
    invalid: InvalidBudget<Payer>,
    /// The end of each hold that was reported; `None` is the whole door.
    holds: HashMap<Option<Payer>, Instant>,
    /// The door, and the board that readiness reads.
    report: Option<(Door, Arc<Board>)>,
    /// The lock of the next request; callers acquire it in order of arrival.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The payer of refused requests: only its own requests wait when its share of the budget is spent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Payer {
    Community(String),
    /// A place without a known community.
    Place(Place),
}

impl Payer {
    /// Returns the payer of a request; none if it concerns the whole bot.
    pub(super) fn of(poster: &dyn Poster, request: &PostRequest) -> Option<Self> {
        let named = request.community().map(|community| Self::Community(community.to_owned()));
        named.or_else(|| request.place().map(|place| Self::at(poster, place)))
    }

    /// Returns the payer of requests for this place.
    pub(super) fn at(poster: &dyn Poster, place: &Place) -> Self {
        poster.community(place).map_or_else(|| Self::Place(place.clone()), Self::Community)
    }
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
        let whole = (per_second, None);
        Self {
            origin: Instant::now(),
            budget,
            whole,
            invalid,
            holds: HashMap::new(),
            report: None,
            turn: Arc::default(),
        }
    }

    /// Shares the budget with the processes that have the other ranges.
    #[must_use]
    pub fn shared(self, ranges: OwnRanges) -> Self {
        Self { whole: (self.whole.0, Some(ranges)), ..self }
    }

    /// Applies the share of this process, which its ranges decide.
    fn share(&mut self) {
        let (whole, Some(ranges)) = &self.whole else { return };
        let portions = ranges.now();
        let share = u64::from(*whole) * u64::from(portions.count().max(1));
        self.budget.resize(u32::try_from(share.div_ceil(u64::from(portions.of.max(1)))).unwrap_or(*whole));
    }

    /// Reports holds of this door on the board.
    #[must_use]
    pub fn reporting(self, door: Door, board: Arc<Board>) -> Self {
        Self { report: Some((door, board)), ..self }
    }

    /// Counts a failed request, and applies a rate limit reported by the platform.
    pub(super) fn failed(&mut self, now: Instant, error: &PostError, payer: impl FnOnce() -> Option<Payer>) {
        if error.is_counted() {
            // A limit of the whole bot is not the fault of one community.
            let global = matches!(error, PostError::Limited { scope: LimitScope::Global, .. });
            let payer = if global { None } else { payer() };
            self.invalid.invalid(now - self.origin, payer.clone());
            // Reports a hold that this refusal began.
            self.held(now, payer.as_ref());
        }
        if let PostError::Limited { retry_after, scope: LimitScope::Global } = error {
            self.budget.block_until(now - self.origin + (*retry_after).min(WAIT_MAX));
        }
    }

    /// Returns the end of the hold on this payer's requests, if there is one, and reports a new hold.
    fn held(&mut self, now: Instant, payer: Option<&Payer>) -> Option<Instant> {
        let at = now - self.origin;
        // If the whole budget is used up, one hold concerns all payers.
        let (whose, until) = match self.invalid.hold(at, None) {
            Some(until) => (None, until),
            None => (payer.cloned(), self.invalid.hold(at, payer)?),
        };
        let until = self.origin + until;
        self.report(now, whose, until);
        Some(until)
    }

    fn report(&mut self, now: Instant, whose: Option<Payer>, until: Instant) {
        let known = self.holds.get(&whose).filter(|known| **known > now).copied();
        if known == Some(until) {
            return;
        }
        self.holds.retain(|_, until| *until > now);
        let Some((door, board)) = &self.report else { return };
        let (kind, name) = match &whose {
            None => (PartKind::Requests, format!("{door}:requests")),
            Some(Payer::Community(community)) => (PartKind::Held, format!("{door}:{community}")),
            Some(Payer::Place(place)) => (PartKind::Held, place.to_string()),
        };
        board.pause(kind, &name, "the platform refused too many requests; further ones wait", until);
        if known.is_none() {
            let (name, ms) = (name.as_str(), ids::millis(until - now));
            tracing::warn!(event = OUTBOX_HELD, %door, name, ms, "the platform refused too many requests; further ones wait");
        }
        self.holds.insert(whose, until);
    }

    /// Returns the end of the hold on this request; none if it may be sent.
    fn held_for(&mut self, payer: &impl Fn() -> Option<Payer>) -> Option<Instant> {
        if self.invalid.may_hold() { self.held(Instant::now(), payer().as_ref()) } else { None }
    }

    /// Returns a ticket, or the time of the next attempt.
    fn take(&mut self, now: Instant) -> Result<Ticket, Instant> {
        self.share();
        self.budget.take(now - self.origin).map_err(|at| self.origin + at)
    }
}

impl Slot {
    /// Waits until a request of this payer may be sent, first come, first served. The wait ends with the budget's
    /// window or with a block of the platform, bounded by [`WAIT_MAX`] and by the window of refusals. A request that is
    /// held delays no other.
    pub(super) async fn take(pacer: &Arc<Mutex<Pacer>>, payer: impl Fn() -> Option<Payer>) -> Self {
        let turn = Arc::clone(&pacer.lock().turn);
        loop {
            let held = pacer.lock().held_for(&payer);
            if let Some(until) = held {
                tokio::time::sleep_until(until).await;
                continue;
            }
            let _next = turn.lock().await;
            // The hold may have begun during the wait.
            while pacer.lock().held_for(&payer).is_none() {
                let taken = pacer.lock().take(Instant::now());
                match taken {
                    Ok(ticket) => return Self { pacer: Arc::clone(pacer), ticket },
                    Err(at) => tokio::time::sleep_until(at).await,
                }
            }
        }
    }

    /// Takes a slot for a low-priority request, only if it may be sent immediately and leaves `spare` requests for
    /// others, and if its refusal would leave its payer refusals for answers.
    pub(super) fn try_take(pacer: &Arc<Mutex<Pacer>>, spare: u32, payer: impl Fn() -> Option<Payer>) -> Option<Self> {
        let mut budgets = pacer.lock();
        if budgets.held_for(&payer).is_some() {
            return None;
        }
        budgets.share();
        let now = Instant::now() - budgets.origin;
        if !budgets.invalid.spares(now, payer) {
            return None;
        }
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
