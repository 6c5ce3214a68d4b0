//! Messages of the actor that summarises conversations.

use tokio::time::Instant;

use crate::runtime::named::named;
use domain::ids::{Person, Place};

/// The messages that the actor handles.
pub enum SummariesMsg {
    /// A long conversation got an exchange: summarises what its history will evict next, and renews its summary.
    Saved(Conversation, Instant),
}

named!(SummariesMsg: Saved);

/// One conversation: the scope of a history and of its summary.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Conversation {
    /// The member.
    pub person: Person,
    /// The place.
    pub place: Place,
}
