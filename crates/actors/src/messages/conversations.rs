//! Messages of the router of turns.

use std::sync::Arc;

use super::journal::JournalMsg;
use crate::runtime::named::named;
use domain::ending::Ending;
use domain::gate::Parked;
use domain::ids::{Place, TurnId};
use domain::notice::{self, Apology};
use domain::turn::Turn;

/// The messages that the router handles.
pub enum ConversationsMsg {
    /// From the journal: offers a turn. Idempotent by the turn's id.
    Offer(Box<OfferedTurn>),
    /// Cancels a turn whose trigger was deleted.
    Cancel(Place, TurnId),
    /// A conversation is idle. The number is the count of messages that it had handled at that time.
    Idle(Place, u64),
    /// Stops the start of new turns.
    Drain,
}

named!(ConversationsMsg: Offer, Cancel, Idle, Drain);

/// A turn offered for an answer.
#[derive(Clone)]
pub struct OfferedTurn {
    /// The turn.
    pub turn: Arc<Turn>,
    /// True for any offer after the first: the channel may already contain parts of an answer.
    pub again: bool,
    /// The parked state with its decision, if the turn resumes after one.
    pub resumed: Option<Box<Parked>>,
}

impl OfferedTurn {
    /// Returns the report to the journal for a turn that repeatedly failed an actor on its way. Its member gets the
    /// same apology as for a turn that exceeded the maximum number of offers.
    pub(crate) fn given_up(&self) -> JournalMsg {
        let text = notice::apology(Apology::Internal, self.turn.locale());
        let answer = self.turn.apology(text, Ending::OffersExhausted);
        JournalMsg::Answered(self.turn.id.clone(), Box::new(answer))
    }
}
