//! Which outbox belongs to which door.

use std::sync::Arc;

use super::OutboxMsg;
use crate::actors::handle::Handle;
use crate::domain::ids::Door;

/// The outbox of each door.
#[derive(Clone)]
pub struct Outboxes {
    first: Handle<OutboxMsg>,
    others: Arc<[(Door, Handle<OutboxMsg>)]>,
}

impl Outboxes {
    /// Every door beside the first has its own; a door without one has the first, whose platform refuses foreign places.
    #[must_use]
    pub fn new(first: Handle<OutboxMsg>, others: Vec<(Door, Handle<OutboxMsg>)>) -> Self {
        Self { first, others: others.into() }
    }

    /// The outbox of a door.
    #[must_use]
    pub fn of(&self, door: &Door) -> &Handle<OutboxMsg> {
        self.others.iter().find(|(known, _)| known == door).map_or(&self.first, |(_, outbox)| outbox)
    }
}
