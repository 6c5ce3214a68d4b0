//! What the router tells a conversation.

use super::conversations::Offered;
use domain::ids::TurnId;

/// The messages that a conversation handles.
pub enum ConversationMsg {
    /// The router offers a turn. Idempotent: a turn that the conversation already holds is ignored.
    Offer(Box<Offered>),
    /// The trigger of this turn was deleted: it ends without an answer.
    Cancel(TurnId),
    /// No waiting turn begins from now on.
    Drain,
}
