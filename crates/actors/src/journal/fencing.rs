//! Fencing: drops the turns that another process took over, and posts nothing for them.
//!
//! The store rejects the writes of a superseded owner, and reports the lost ranges (`ports::OwnedStore`). The journal
//! closes, settles or removes nothing of such a turn: record, reservation and messages belong to the new owner.

use std::sync::Arc;

use super::entry::{JournalEntry, oldest_first};
use super::{Journal, JournalEvent, JournalState};
use crate::messages::clearance::{Clearance, SharedKept};
use crate::messages::outbox::OutboxMsg;
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::observation::board::PartKind;
use crate::runtime::supervisor::ActorContext;
use domain::ending::Dropped;
use domain::happening::Happening;
use domain::ids::TurnId;
use domain::turn::Turn;

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

    /// Drops the turns of all lost ranges.
    pub(super) fn fenced(&self, state: &mut JournalState) {
        for range in &*self.turns.fenced().borrow() {
            let why = "another process owns its turns: stop this process, or restart it to take them back";
            self.board.down(PartKind::Custody, &range.to_string(), why);
        }
        for id in oldest_first(state.open.values().filter(|entry| self.is_fenced(&entry.turn))) {
            self.drop_fenced(state, &id);
        }
    }

    /// True if another process owns this turn.
    pub(super) fn is_fenced(&self, turn: &Turn) -> bool {
        self.turns.range_of(turn).is_some_and(|range| self.turns.fenced().borrow().contains(&range))
    }

    pub(super) fn drop_fenced(&self, state: &mut JournalState, id: &TurnId) {
        let Some(JournalEntry { turn, .. }) = state.open.remove(id) else { return };
        self.observers.tell(&Happening::TurnFenced(&turn));
        self.observers.tell(&Happening::TurnClosed(&turn, Some(Dropped::Fenced)));
        // If the outbox refuses this, it holds nothing of the turn.
        let release = OutboxMsg::Release { place: turn.place.clone(), turn: id.clone() };
        self.outboxes.of(&id.door).tell(release);
        self.rate_limiter.tell(RateLimiterMsg::Withdraw(turn));
    }

    /// Returns the clearance of this turn's answer; `record` is the pending write of its record.
    pub(super) fn clearance(&self, turn: &Arc<Turn>, record: SharedKept) -> Clearance {
        match self.turns.range_of(turn).filter(|_| self.turns.is_shared()) {
            Some(range) => Clearance::new(record, range, self.turns.fenced()),
            None => Clearance::default(),
        }
    }
}
