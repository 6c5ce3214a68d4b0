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

/// True if a stored request of a person to be forgotten ([`forgotten`](crate::keys::forgotten)) covers data of that time. An
/// unreadable request covers all.
#[must_use]
pub fn covers(stored: &str, at: Timestamp) -> bool {
    #[derive(Deserialize)]
    struct Stored {
        cut: Timestamp,
    }
    serde_json::from_str::<Stored>(stored).map_or(true, |stored| at <= stored.cut)
}
