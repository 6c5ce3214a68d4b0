//! Messages that arrive while some stored records are not loaded: an earlier process may have answered them. The journal
//! reads the record of each from the store before it accepts the message.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Journal, JournalEvent, JournalState, Records};
use crate::messages::journal::Accepted;
use crate::runtime::supervisor::ActorContext;
use domain::ids::{Timestamp, TurnId};
use ports::{Adopted, Unreadable};

/// The doubtful messages. The permits of `turn.open` bound their number.
pub(super) struct Doubtful {
    /// Those whose records are read, in order of arrival. A task reads the record of the first one.
    queue: VecDeque<Doubted>,
    /// Those whose records the store did not return; a sweep tries them again.
    held: VecDeque<Doubted>,
    /// The start of the journal. No earlier process can have a record of a later message.
    since: Timestamp,
}

/// One message.
struct Doubted {
    accepted: Accepted,
    /// True if the message was deleted meanwhile.
    deleted: bool,
}

impl Doubtful {
    pub(super) const fn since(since: Timestamp) -> Self {
        Self { queue: VecDeque::new(), held: VecDeque::new(), since }
    }

    /// Records that a message was deleted, so that its turn is not accepted.
    pub(super) fn delete(&mut self, id: &TurnId) {
        for doubted in self.queue.iter_mut().chain(&mut self.held) {
            doubted.deleted |= doubted.accepted.turn.id == *id;
        }
    }
}

impl Journal {
    /// True if an earlier process may have a record of this message that is not loaded.
    pub(super) fn is_doubtful(state: &JournalState, accepted: &Accepted) -> bool {
        state.records != Records::Whole && !state.knows(&accepted.turn.id)
    }

    /// Reads the record of a message before it is accepted.
    pub(super) fn doubt(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, accepted: Accepted) {
        state.doubtful.queue.push_back(Doubted { accepted, deleted: false });
        if state.doubtful.queue.len() == 1 {
            self.look_up(ctx, state);
        }
    }

    /// Tries the held messages again.
    pub(super) fn try_held(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState) {
        let idle = state.doubtful.queue.is_empty();
        let held = std::mem::take(&mut state.doubtful.held);
        state.doubtful.queue.extend(held);
        if idle {
            self.look_up(ctx, state);
        }
    }

    fn look_up(&self, ctx: &mut ActorContext<Journal>, state: &JournalState) {
        let Some(first) = state.doubtful.queue.front() else { return };
        let (turns, id) = (Arc::clone(&self.turns), first.accepted.turn.id.clone());
        let read = async move { JournalEvent::LookedUp(turns.recorded(&id).await.map(|found| found.map(Box::new))) };
        ctx.task(read, |_| JournalEvent::LookedUp(Err(Unreadable::NoAnswer)));
    }

    /// Accepts the first message, unless it is known. If the store did not return its record, the message is held, or
    /// goes back to a sender that awaits its custody. A message from after the start is accepted: a store that is down at
    /// the start must not silence the bot.
    pub(super) fn looked_up(
        &self,
        ctx: &mut ActorContext<Journal>,
        state: &mut JournalState,
        found: Result<Option<Box<Adopted>>, Unreadable>,
    ) {
        if let Some(Doubted { accepted, deleted }) = state.doubtful.queue.pop_front() {
            match found {
                _ if deleted => accepted.receipt.settle(),
                Err(_) if accepted.turn.at < state.doubtful.since => {
                    if !accepted.receipt.is_awaited() {
                        state.doubtful.held.push_back(Doubted { accepted, deleted });
                    }
                }
                Ok(Some(adopted)) => {
                    self.load(state, vec![*adopted]);
                    self.accept(ctx, state, accepted);
                }
                Err(_) | Ok(None) => self.accept(ctx, state, accepted),
            }
        }
        self.look_up(ctx, state);
    }
}
