//! Turns that another process took over: this one drops them, and posts nothing for them.
//!
//! The store refuses the writes of an owner that another one followed, and says which ranges are lost (`ports::OwnedStore`). Nothing of such
//! a turn is closed, settled or removed here: record, reservation and messages belong to the new owner.

use std::sync::Arc;

use super::entry::{Entry, oldest_first};
use super::{Journal, JournalEvent, JournalState};
use crate::messages::clearance::{Clearance, SharedKept};
use crate::messages::outbox::OutboxMsg;
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::runtime::supervisor::ActorContext;
use domain::ending::Dropped;
use domain::ids::TurnId;
use domain::turn::Turn;
use domain::turn_event::TurnUpdate;

impl Journal {
    /// Reports each loss of a range as an event.
    pub(super) fn watch_ranges(&self, ctx: &mut ActorContext<Journal>) {
        let (mut fenced, events) = (self.turns.fenced(), ctx.events());
        ctx.background(async move {
            loop {
                let lost = !fenced.borrow_and_update().is_empty();
                if lost && events.send(JournalEvent::Fenced).is_err() || fenced.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Drops the turns of all ranges that are lost.
    pub(super) fn fenced(&self, state: &mut JournalState) {
        for id in oldest_first(state.open.values().filter(|entry| self.is_fenced(&entry.turn))) {
            self.drop_fenced(state, &id);
        }
    }

    /// True if another process owns this turn.
    pub(super) fn is_fenced(&self, turn: &Turn) -> bool {
        self.turns.range_of(turn).is_some_and(|range| self.turns.fenced().borrow().contains(&range))
    }

    fn drop_fenced(&self, state: &mut JournalState, id: &TurnId) {
        let Some(Entry { turn, .. }) = state.open.remove(id) else { return };
        note(&turn);
        self.timeline.closed(id, "fenced", Dropped::Fenced.as_str());
        self.events.publish(&turn.place, id, || TurnUpdate::Done { unanswered: Some(Dropped::Fenced) });
        // An actor that is down holds nothing of it any more.
        let release = OutboxMsg::Release { place: turn.place.clone(), turn: id.clone() };
        let _ = self.outboxes.of(&id.door).cast(release);
        let _ = self.rate_limiter.cast(RateLimiterMsg::Withdraw(turn));
    }

    /// The clearance of the answer of this turn; `record` is its record on the way to the store.
    pub(super) fn clearance(&self, turn: &Arc<Turn>, record: SharedKept) -> Clearance {
        match self.turns.range_of(turn).filter(|_| self.turns.is_shared()) {
            Some(range) => Clearance::new(record, range, self.turns.fenced()),
            None => Clearance::default(),
        }
    }
}

/// Logs and counts a turn that another process owns.
pub(super) fn note(turn: &Turn) {
    tracing::warn!(
        event = "turn.fenced", turn = %turn.id, door = %turn.id.door, place = %turn.place, member = %turn.person,
        "another process owns the turn; it is dropped here without an answer"
    );
    metrics::counter!("staffai_turns_fenced_total").increment(1);
}
