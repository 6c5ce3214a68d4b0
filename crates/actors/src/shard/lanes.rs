//! Message order of one member in one place: while a message is queued for the lookup of the message it replies to,
//! later messages queue behind it.

use std::collections::{BTreeSet, HashMap};

use domain::ids::{Person, Place};
use domain::incoming::Posted;

/// The key of an ordered lane: a member and a place.
type LaneKey = (Person, Place);

/// The lanes with a queued message.
#[derive(Default)]
pub(super) struct Lanes {
    /// The lane of each ticket that is queued for a lookup.
    first: HashMap<u64, LaneKey>,
    /// The tickets behind it. Ticket numbers follow the order of their events.
    behind: HashMap<LaneKey, BTreeSet<u64>>,
}

impl Lanes {
    /// True if a message is queued behind an earlier one of its lane. [`Self::release`] returns it later.
    pub(super) fn waits(&mut self, posted: &Posted, ticket: u64) -> bool {
        if self.first.contains_key(&ticket) || self.first.is_empty() {
            return false;
        }
        let behind = self.behind.get_mut(&(posted.author.person.clone(), posted.place.clone()));
        behind.is_some_and(|behind| behind.insert(ticket) || behind.contains(&ticket))
    }

    /// Holds the lane: later messages of the same lane queue.
    pub(super) fn hold(&mut self, posted: &Posted, ticket: u64) {
        let lane = (posted.author.person.clone(), posted.place.clone());
        self.behind.entry(lane.clone()).or_default();
        self.first.insert(ticket, lane);
    }

    /// Ends the lookup of this ticket; returns the tickets behind it, in order.
    pub(super) fn release(&mut self, ticket: u64) -> BTreeSet<u64> {
        self.first.remove(&ticket).and_then(|lane| self.behind.remove(&lane)).unwrap_or_default()
    }
}
