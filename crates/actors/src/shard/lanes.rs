//! Messages of one member in one place keep their order: while one of them waits for the message that it is about, the later ones
//! wait behind it.

use std::collections::{BTreeSet, HashMap};

use domain::ids::{Person, Place};
use domain::incoming::Posted;

/// Whose messages keep their order, and where.
type LaneKey = (Person, Place);

/// The lanes in which a message waits.
#[derive(Default)]
pub(super) struct Lanes {
    /// The lane of each ticket that waits for a lookup.
    first: HashMap<u64, LaneKey>,
    /// The tickets behind it. Tickets are numbered in the order of their events.
    behind: HashMap<LaneKey, BTreeSet<u64>>,
}

impl Lanes {
    /// Whether a message has to wait behind an earlier one of its lane. If so, [`Self::release`] gives it back.
    pub(super) fn waits(&mut self, posted: &Posted, ticket: u64) -> bool {
        if self.first.contains_key(&ticket) || self.first.is_empty() {
            return false;
        }
        let behind = self.behind.get_mut(&(posted.author.person.clone(), posted.place.clone()));
        behind.is_some_and(|behind| behind.insert(ticket) || behind.contains(&ticket))
    }

    /// From now on later messages of this one's lane wait.
    pub(super) fn hold(&mut self, posted: &Posted, ticket: u64) {
        let lane = (posted.author.person.clone(), posted.place.clone());
        self.behind.entry(lane.clone()).or_default();
        self.first.insert(ticket, lane);
    }

    /// The lookup of this ticket ended: the tickets behind it, in order.
    pub(super) fn release(&mut self, ticket: u64) -> BTreeSet<u64> {
        self.first.remove(&ticket).and_then(|lane| self.behind.remove(&lane)).unwrap_or_default()
    }
}
