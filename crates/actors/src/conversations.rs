//! conversations: routes each turn to its conversation.
//!
//! Supervised by: staffai (permanent). Its children, one for each active place, are temporary.
//! Receives: turns and cancellations from the journal, idle notices from its children.
//! Sends: turns and cancellations to its children.
//! A restart loses: the conversations below it; the journal offers their turns again.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::conversation::Conversation;
use crate::messages::conversation::ConversationMsg;
use crate::messages::conversations::{ConversationsMsg, OfferedTurn};
use crate::messages::journal::JournalMsg;
use crate::runtime::handle::{Handle, Refused};
use crate::runtime::shrink;
use crate::runtime::supervisor::{Actor, ActorContext, ChildSpec, Crash};
use crate::tree::{Scope, TreeRow};
use crate::turn::parts::TurnParts;
use domain::happening::ActorChange;
use domain::ids::Place;
use ports::Subject;

/// The behaviour and its arguments.
pub struct Conversations {
    /// The row that supervises each conversation.
    pub template: &'static TreeRow,
    /// The services that a turn uses.
    pub parts: Arc<TurnParts>,
}

/// The state of the router.
#[derive(Default)]
pub struct ConversationsState {
    known: HashMap<Place, Known>,
    draining: bool,
}

struct Known {
    handle: Handle<ConversationMsg>,
    /// The number of messages sent to it: a conversation may stop only after it has received all of them.
    sent: u64,
}

impl Actor for Conversations {
    type Msg = ConversationsMsg;
    type Event = Infallible;
    type State = ConversationsState;

    fn start(&self, _me: &mut ActorContext<Conversations>) -> Result<ConversationsState, Crash> {
        Ok(ConversationsState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: ConversationsMsg,
        state: &mut ConversationsState,
    ) -> Result<(), Crash> {
        match message {
            ConversationsMsg::Offer(offered) if !state.draining => self.offer(ctx, state, offered).await?,
            ConversationsMsg::Offer(_) => {}
            ConversationsMsg::Cancel(place, turn) => {
                if let Some(known) = state.known.get_mut(&place) {
                    // A stopped conversation runs no turn that could be cancelled. If a full conversation refuses this,
                    // it answers a deleted message, and the journal ignores that answer.
                    known.sent += u64::from(known.handle.cast(ConversationMsg::Cancel(turn)).is_ok());
                }
            }
            ConversationsMsg::Idle(place, seen) => {
                if state.known.get(&place).is_some_and(|known| known.sent == seen)
                    && let Some(known) = state.known.remove(&place)
                {
                    shrink::shrink(&mut state.known);
                    // The child is stopped before the next turn is routed: a place never has two conversations.
                    ctx.stop_child(&known.handle.stats().path).await;
                }
            }
            ConversationsMsg::Drain => {
                state.draining = true;
                for known in state.known.values() {
                    // If a full conversation refuses this, its lanes continue until the drain is over; the remaining
                    // turns stay in the journal.
                    known.handle.tell(ConversationMsg::Drain);
                }
            }
        }
        Ok(())
    }

    fn subject(message: &ConversationsMsg) -> Option<Subject> {
        match message {
            ConversationsMsg::Offer(offered) => Some(Subject::of(&offered.turn.id)),
            ConversationsMsg::Cancel(..) | ConversationsMsg::Idle(..) | ConversationsMsg::Drain => None,
        }
    }

    fn give_up(&self, _ctx: &mut ActorContext<Self>, message: ConversationsMsg, _state: &mut ConversationsState) {
        if let ConversationsMsg::Offer(offered) = message {
            // If the journal refuses this, it offers the turn again.
            self.parts.neighbors.journal.tell(offered.given_up());
        }
    }

    async fn event(
        &self,
        _ctx: &mut ActorContext<Self>,
        event: Infallible,
        _state: &mut ConversationsState,
    ) -> Result<(), Crash> {
        match event {}
    }
}

impl Conversations {
    async fn offer(
        &self,
        ctx: &mut ActorContext<Conversations>,
        state: &mut ConversationsState,
        offered: Box<OfferedTurn>,
    ) -> Result<(), Crash> {
        let (place, id) = (offered.turn.place.clone(), offered.turn.id.clone());
        let mut offer = ConversationMsg::Offer(offered);
        let mut restarts = 0;
        if let Some(known) = state.known.get_mut(&place) {
            match known.handle.cast(offer) {
                Ok(()) => {
                    known.sent += 1;
                    return Ok(());
                }
                Err(Refused::Full(_)) => {
                    // If the journal refuses this, it offers the turn again once its own mailbox has room.
                    self.parts.neighbors.journal.tell(JournalMsg::Undelivered(id));
                    return Ok(());
                }
                Err(Refused::Down(back)) => offer = back,
            }
            // The child crashed: an idle one is already removed from the map.
            let stats = known.handle.stats();
            restarts = stats.restarts.load(Ordering::Relaxed) + 1;
            // Temporary actors have no supervisor that counts their restarts.
            stats.tell(&self.parts.readers.observers, ActorChange::Restarted(restarts));
        }
        let handle = Handle::new(self.template, ctx.path(), Scope::Place(place.clone()));
        handle.stats().restarts.store(restarts, Ordering::Relaxed);
        let conversation =
            Conversation { place: place.clone(), router: ctx.handle().clone(), parts: Arc::clone(&self.parts) };
        ctx.start_child(ChildSpec::new(self.template, &handle, conversation, Vec::new())).await?;
        // Its mailbox is empty. If its start failed, the supervisor reports that to the journal.
        handle.tell(offer);
        state.known.insert(place, Known { handle, sent: 1 });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
