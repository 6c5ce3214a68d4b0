//! What others may tell the router of turns.

use std::sync::Arc;

use super::journal::JournalMsg;
use domain::ending::Ending;
use domain::gate::Parked;
use domain::ids::{Place, TurnId};
use domain::notice::{self, Apology};
use domain::turn::Turn;

/// The messages that the router handles.
pub enum ConversationsMsg {
    /// The journal offers a turn. Idempotent by the turn's id.
    Offer(Box<Offered>),
    /// The trigger of this turn was deleted.
    Cancel(Place, TurnId),
    /// A conversation is idle; the number counts the messages that it had handled by then.
    Idle(Place, u64),
    /// No new turn begins from now on.
    Drain,
}

/// A turn that is offered to be answered.
#[derive(Clone)]
pub struct Offered {
    /// The turn.
    pub turn: Arc<Turn>,
    /// Not the first offer: parts of an answer may be in the channel already.
    pub again: bool,
    /// It waited for a decision, and goes on with it.
    pub resumed: Option<Box<Parked>>,
}

impl Offered {
    /// What the journal is told of a turn that failed an actor on its way again and again: it gets the apology of turns that were
    /// offered too often.
    pub(crate) fn given_up(&self) -> JournalMsg {
        let text = notice::apology(Apology::Internal, self.turn.locale());
        let answer = self.turn.apology(text, Ending::OffersExhausted);
        JournalMsg::Answered(self.turn.id.clone(), Box::new(answer))
    }
}
