//! Turns that end without an answer.

use super::{Entry, Journal, JournalState, report};
use crate::actors::outbox::OutboxMsg;
use crate::actors::rate_limiter::{self, RateLimiterMsg};
use crate::domain::ids::TurnId;
use crate::domain::turn::{Answer, Outcome, Turn};

/// Why this turn ends in silence although its answer is known: nobody waits for what nobody asked for, so its failure is not told.
pub(super) fn silent(entry: &Entry) -> Option<String> {
    match &entry.answer.as_ref()?.outcome {
        Outcome::Apologised(reason) | Outcome::Refused(reason) if !entry.turn.trigger.is_asked() => {
            Some(reason.clone())
        }
        Outcome::Apologised(_) | Outcome::Refused(_) | Outcome::Replied | Outcome::Hinted => None,
    }
}

impl Journal {
    /// Ends a turn without an answer, and tells those who may hold it.
    pub(super) fn withdraw(&self, state: &mut JournalState, id: &TurnId, outcome: &'static str, reason: &str) {
        let Some(Entry { turn, .. }) = self.drop_turn(state, id, outcome, reason) else { return };
        // Whoever is down holds nothing of it any more.
        let _ = self.outboxes.of(&id.door).cast(OutboxMsg::Forget(turn.place.clone(), id.clone()));
        let _ = self.rate_limiter.cast(RateLimiterMsg::Withdraw(Box::new(turn)));
    }

    /// Ends what an earlier life began and nobody asked for: it might have been said already. What it took is counted, and nothing
    /// of its words is kept.
    pub(super) fn let_go(&self, state: &mut JournalState, turn: Turn, answer: Option<Answer>) {
        if let Some(answer) = &answer {
            rate_limiter::close(&self.rate_limiter, &turn, answer);
        }
        self.close(state, &Entry::of_earlier_life(turn, answer), Vec::new(), Vec::new());
    }

    /// Ends a turn without an answer.
    pub(super) fn drop_turn(
        &self,
        state: &mut JournalState,
        id: &TurnId,
        outcome: &'static str,
        reason: &str,
    ) -> Option<Entry> {
        let entry = state.open.remove(id)?;
        report::refused(&entry, outcome, reason);
        self.timeline.closed(id, outcome, reason);
        self.close(state, &entry, Vec::new(), Vec::new());
        Some(entry)
    }
}
