//! The settlement of turns with the limiter: the unit that the member's window counts, and its use.

use std::sync::Arc;

use crate::messages::rate_limiter::RateLimiterMsg;
use crate::runtime::handle::Handle;
use domain::gate::Parked;
use domain::limits::charge::{Charge, charge};
use domain::turn::{Answer, Effort, Turn};

/// Returns the unit that the member's window counts for this turn, with its use: a part that follows a decision is
/// counted separately, under its own id.
#[must_use]
pub(crate) fn counted(turn: &Arc<Turn>, goes_on: Option<&Parked>, effort: &Effort) -> (Arc<Turn>, Effort) {
    match goes_on.filter(|parked| parked.case.decision.is_some()) {
        Some(parked) => (part(turn, parked), effort.since(&parked.effort)),
        None => (Arc::clone(turn), effort.clone()),
    }
}

/// Returns the part of a turn that follows a decision, as the window counts it.
#[must_use]
pub(crate) fn part(turn: &Turn, parked: &Parked) -> Arc<Turn> {
    Arc::new(Turn { id: parked.part(), ..turn.clone() })
}

/// Settles or cancels the use of a turn whose answer is known. If the limiter is down, the estimate stays until it ages
/// out.
pub(crate) fn settle_or_cancel(
    limiter: &Handle<RateLimiterMsg>,
    turn: &Arc<Turn>,
    goes_on: Option<&Parked>,
    answer: &Answer,
) {
    let (turn, effort) = counted(turn, goes_on, &answer.effort);
    match charge(&answer.outcome, &effort) {
        Charge::Settle => limiter.tell(RateLimiterMsg::Settle { turn, effort }),
        Charge::Cancel => limiter.tell(RateLimiterMsg::Cancel(turn)),
        Charge::Nothing => {}
    }
}
