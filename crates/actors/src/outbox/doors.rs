//! Which outbox belongs to which door.

use std::sync::Arc;

use super::OutboxMsg;
use crate::runtime::handle::Handle;
use crate::tree::{ActorKind, ROOT, Row, Scope, TREE};
use domain::ids::Door;

/// The outbox of each door.
#[derive(Clone)]
pub struct Outboxes {
    known: Arc<[(Door, Handle<OutboxMsg>)]>,
    /// No actor ever runs there.
    none: Handle<OutboxMsg>,
}

impl Outboxes {
    /// The outboxes of these doors.
    #[must_use]
    pub fn new(known: Vec<(Door, Handle<OutboxMsg>)>) -> Self {
        let row: &Row = TREE.find(ActorKind::Outbox).unwrap_or(&TREE);
        Self { known: known.into(), none: Handle::new(row, ROOT, Scope::Door(Door::new("unknown"))) }
    }

    /// The outbox of a door. A door that is not there has an address that is down for ever, so nothing is ever posted
    /// elsewhere in its place.
    #[must_use]
    pub fn of(&self, door: &Door) -> &Handle<OutboxMsg> {
        self.known.iter().find(|(known, _)| known == door).map_or(&self.none, |(_, outbox)| outbox)
    }

    /// Whether the door is there.
    #[must_use]
    pub fn has(&self, door: &Door) -> bool {
        self.known.iter().any(|(known, _)| known == door)
    }
}
