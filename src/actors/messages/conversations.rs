//! What others may tell the router of turns.

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
