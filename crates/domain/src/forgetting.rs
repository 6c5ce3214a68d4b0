//! Removal of members' data from the stored text of a conversation.

use serde::Deserialize;

use crate::ids::{Person, Timestamp};

/// The stored text of one conversation, from which the data of its members can be removed.
pub trait Forgetting {
    /// Returns the ids of the other members whose questions it contains or was made from. An id may occur several
    /// times.
    fn others(&self) -> Vec<&str>;

    /// Removes all text from questions asked up to `cut`.
    fn forget_until(&mut self, cut: Timestamp);

    /// Removes the text from this other member's questions asked up to `cut`.
    fn forget_asked_by(&mut self, other: &Person, cut: Timestamp);

    /// Removes the text from the question of that moment: the owner's (`None`), or that of another member.
    fn forget_asked_at(&mut self, other: Option<&Person>, at: Timestamp);
}

/// The end of what a stored request to be forgotten covers ([`forgotten`](crate::keys::forgotten)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct StoredCut {
    /// Data up to this moment is to be forgotten.
    pub cut: Timestamp,
}
