//! Messages of a conversation, sent by the router.

use super::conversations::OfferedTurn;
use crate::runtime::named::named;
use domain::ids::TurnId;

/// The messages that a conversation handles.
pub enum ConversationMsg {
    /// Offers a turn. Idempotent: a turn that the conversation already holds is ignored.
    Offer(Box<OfferedTurn>),
    /// Cancels a turn whose trigger was deleted: it ends without an answer.
    Cancel(TurnId),
    /// Stops the start of queued turns.
    Drain,
}

named!(ConversationMsg: Offer, Cancel, Drain);
