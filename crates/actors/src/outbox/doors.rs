//! The outboxes by door.

use std::sync::Arc;

use super::OutboxMsg;
use crate::runtime::handle::Handle;
use crate::tree::{ActorKind, ROOT, Scope, TREE, TreeRow};
use domain::ids::Door;
use domain::outgoing::Medium;

/// The outbox of each door.
#[derive(Clone)]
pub struct Outboxes {
    known: Arc<[(Door, Medium, Handle<OutboxMsg>)]>,
    /// The doors whose messages can open a form, and the most fields of one.
    forms: Arc<[(Door, usize)]>,
    /// An address without an actor.
    none: Handle<OutboxMsg>,
}

impl Outboxes {
    /// Returns the outboxes of these doors.
    #[must_use]
    pub fn new(known: Vec<(Door, Medium, Handle<OutboxMsg>)>) -> Self {
        let row: &TreeRow = TREE.find(ActorKind::Outbox).unwrap_or(&TREE);
        let none = Handle::new(row, ROOT, Scope::Door(Door::new("unknown")));
        Self { known: known.into(), forms: Arc::from([]), none }
    }

    /// Adds the doors whose messages can open a form.
    #[must_use]
    pub fn with_forms(self, forms: Vec<(Door, usize)>) -> Self {
        Self { forms: forms.into(), ..self }
    }

    /// True if members can fill in a form at this door: a message opens it, or their client reads it as an event.
    #[must_use]
    pub fn shows_forms(&self, door: &Door) -> bool {
        self.fields(door) > 0 || (self.has(door) && self.medium(door) == Medium::Replies)
    }

    /// Returns the most fields of a form that a message of this door opens; zero if it opens none.
    #[must_use]
    pub fn fields(&self, door: &Door) -> usize {
        self.forms.iter().find(|(known, _)| known == door).map_or(0, |(_, fields)| *fields)
    }

    /// Returns the outbox of a door. An unknown door gets an address without an actor, so its posts never go to
    /// another door.
    #[must_use]
    pub fn of(&self, door: &Door) -> &Handle<OutboxMsg> {
        self.known.iter().find(|(known, ..)| known == door).map_or(&self.none, |(.., outbox)| outbox)
    }

    /// Returns the form in which a door shows a turn.
    #[must_use]
    pub fn medium(&self, door: &Door) -> Medium {
        self.known.iter().find(|(known, ..)| known == door).map_or(Medium::Messages, |(_, medium, _)| *medium)
    }

    /// True if the door exists.
    #[must_use]
    pub fn has(&self, door: &Door) -> bool {
        self.known.iter().any(|(known, ..)| known == door)
    }
}
