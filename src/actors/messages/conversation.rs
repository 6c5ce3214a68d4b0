//! What the router tells a conversation.

use super::conversations::Offered;
use crate::domain::ids::TurnId;

/// What a conversation is told.
pub enum ConversationMsg {
    /// The router has a turn for it; a turn that it already holds is ignored.
    Offer(Box<Offered>),
    /// The trigger of this turn was deleted: it ends without an answer.
    Cancel(TurnId),
    /// No waiting turn begins from now on.
    Drain,
}
