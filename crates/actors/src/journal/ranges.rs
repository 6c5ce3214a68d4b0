//! Ranges that come and go: takes up the turns of a range that this process took, and drops those of one that it gives
//! away.

use std::sync::Arc;

use super::entry::{JournalEntry, oldest_first};
use super::{Journal, JournalEvent, JournalState, Records};
use crate::messages::approvals::ApprovalsMsg;
use crate::runtime::handle::Reply;
use crate::runtime::supervisor::ActorContext;
use domain::ownership::Portion;
use domain::turn::Turn;
use ports::{Adopted, Scanned};

impl Journal {
    /// Reads the records of all portions of this process. A failure drops the reply: the caller asks again.
    pub(super) fn adopt(&self, ctx: &mut ActorContext<Journal>, reply: Reply<()>) {
        let turns = Arc::clone(&self.turns);
        let read = async move { JournalEvent::Adopted(turns.adopt().await, reply) };
        ctx.task(read, JournalEvent::Unreadable);
    }

    pub(super) fn adopted(&self, state: &mut JournalState, records: Scanned<Vec<Adopted>>, reply: Reply<()>) {
        let (records, complete) = records.into_parts();
        if !complete {
            // Each message is looked up until all records are loaded.
            state.records = Records::LOADING.after(false);
        }
        self.load(state, records);
        // The caller may have stopped waiting.
        let _ = reply.send(());
    }

    /// Returns the number of turns of a portion that still need work in this process.
    pub(super) fn left_of(&self, state: &JournalState, portion: Portion) -> usize {
        state.open.values().filter(|entry| self.is_of(&entry.turn, portion) && !entry.is_parked()).count()
    }

    /// Drops the turns of a portion, whose next owner takes up their records.
    pub(super) fn leave(&self, state: &mut JournalState, portion: Portion) {
        for id in oldest_first(state.open.values().filter(|entry| self.is_of(&entry.turn, portion))) {
            let gate = state.open.get(&id).and_then(JournalEntry::waits_for).map(|waiting| waiting.gate.id);
            if let Some(gate) = gate {
                self.approvals.tell(ApprovalsMsg::Moved(gate));
            }
            self.drop_fenced(state, &id);
        }
    }

    fn is_of(&self, turn: &Turn, portion: Portion) -> bool {
        portion.has_guild(turn.guild.as_deref()) && self.turns.range_of(turn).is_some()
    }
}
