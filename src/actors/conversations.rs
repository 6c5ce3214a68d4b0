//! conversations: routes a turn to its conversation.
//!
//! Supervised by: staffai (permanent). Its children, one for each active place, are temporary.
//! Receives: turns and cancellations from the journal, requests to be forgotten from its children.
//! Sends: the same to its children.
//! A restart loses: the conversations below it; the journal offers their turns again.

use std::collections::HashMap;
use std::sync::Arc;

use super::conversation::{Conversation, ConversationMsg};
use super::handle::Handle;
use super::shrink;
use super::supervisor::{Actor, ActorContext, ChildSpec, Crash};
use super::tree::{Row, Scope};
use super::turn::TurnParts;
use crate::domain::ids::{Place, TurnId};
use crate::domain::turn::Turn;

/// What the router is told.
pub enum ConversationsMsg {
    /// The journal offers a turn; offering twice does no harm.
    Offer(Box<Offered>),
    /// The trigger of this turn was deleted.
    Cancel(Place, TurnId),
    /// A conversation has nothing to do after this many messages of ours.
    Idle(Place, u64),
    /// No new turn begins from now on.
    Drain,
}

/// A turn that somebody shall find the answer to.
#[derive(Clone)]
pub struct Offered {
    /// The turn.
    pub turn: Turn,
    /// It is not the first time: some of an answer may stand in the channel already.
    pub again: bool,
}

/// The behaviour and its arguments.
pub struct Conversations {
    /// The row that each conversation is supervised by.
    pub template: &'static Row,
    /// What a turn needs.
    pub parts: Arc<TurnParts>,
}

/// What the router holds.
#[derive(Default)]
pub struct ConversationsState {
    known: HashMap<Place, Known>,
    draining: bool,
}

struct Known {
    handle: Handle<ConversationMsg>,
    /// Messages sent to it: a conversation may go only when it has seen them all.
    sent: u64,
}

impl Actor for Conversations {
    type Msg = ConversationsMsg;
    type State = ConversationsState;

    fn start(&self, _me: &mut ActorContext<ConversationsMsg>) -> Result<ConversationsState, Crash> {
        Ok(ConversationsState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<ConversationsMsg>,
        message: ConversationsMsg,
        state: &mut ConversationsState,
    ) -> Result<(), Crash> {
        match message {
            ConversationsMsg::Offer(offered) if !state.draining => self.offer(ctx, state, offered).await?,
            ConversationsMsg::Offer(_) => {}
            ConversationsMsg::Cancel(place, turn) => {
                if let Some(known) = state.known.get_mut(&place) {
                    known.sent += 1;
                    // A conversation that is gone runs nothing that could be cancelled.
                    let _ = known.handle.cast(ConversationMsg::Cancel(turn));
                }
            }
            ConversationsMsg::Idle(place, seen) => {
                if state.known.get(&place).is_some_and(|known| known.sent == seen)
                    && let Some(known) = state.known.remove(&place)
                {
                    shrink::shrink(&mut state.known);
                    // It is gone before the next turn is routed: a place never has two conversations.
                    ctx.stop_child(&known.handle.stats().path).await;
                }
            }
            ConversationsMsg::Drain => {
                state.draining = true;
                for known in state.known.values() {
                    let _ = known.handle.cast(ConversationMsg::Drain);
                }
            }
        }
        Ok(())
    }
}

impl Conversations {
    async fn offer(
        &self,
        ctx: &mut ActorContext<ConversationsMsg>,
        state: &mut ConversationsState,
        offered: Box<Offered>,
    ) -> Result<(), Crash> {
        let place = offered.turn.place.clone();
        if let Some(known) = state.known.get_mut(&place) {
            known.sent += 1;
            if known.handle.cast(ConversationMsg::Offer(offered.clone())).is_ok() {
                return Ok(());
            }
        }
        let handle = Handle::new(self.template, ctx.path(), Scope::Place(place.clone()));
        let conversation =
            Conversation { place: place.clone(), router: ctx.handle().clone(), parts: Arc::clone(&self.parts) };
        ctx.start_child(ChildSpec::new(self.template, &handle, conversation, Vec::new())).await?;
        let _ = handle.cast(ConversationMsg::Offer(offered));
        state.known.insert(place, Known { handle, sent: 1 });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
