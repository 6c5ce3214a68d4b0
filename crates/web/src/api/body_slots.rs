//! Places for the bodies of requests whose sender is not authenticated yet. They are bounded per address and in total,
//! and separate from the places of other requests.
//!
//! A place is held only until the body is complete. If all places are taken, a new request displaces another body, so
//! unsigned bodies do not block signed requests:
//!
//! - the youngest body of the address with the most, if that address keeps at least as many as the new request's,
//! - else the body that has been incomplete longest, at least [`GRACE`].

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::connection_slots::{Reach, network};
use crate::api::guard::Link;

/// Maximum concurrent bodies.
const AT_ONCE: usize = 64;
/// Maximum concurrent bodies of one address; an IPv6 /64 network counts as one.
const OF_ONE_PEER: usize = 16;
/// Time after which an incomplete body may be displaced.
const GRACE: Duration = Duration::from_secs(1);

/// All places.
#[derive(Clone, Default)]
pub struct BodySlots(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    last: u64,
    /// In the order in which they were taken.
    bodies: BTreeMap<u64, Body>,
}

struct Body {
    peer: IpAddr,
    begun: Instant,
    displaced: CancellationToken,
}

/// A place for one body; released when dropped.
pub struct BodySlot {
    rooms: BodySlots,
    number: u64,
    displaced: CancellationToken,
}

impl BodySlots {
    /// Creates the places, all free.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a place for a request of this connection. `None` if all places are taken, or those of this address, and no
    /// body may be displaced.
    pub fn take(&self, link: &Link) -> Option<BodySlot> {
        if link.share == Reach::HealthOnly {
            return None;
        }
        let peer = network(link.peer);
        let mut held = self.0.lock();
        let own = |body: &Body| body.peer == peer;
        let many = held.bodies.values().filter(|body| own(body)).count();
        let is_full = if many >= OF_ONE_PEER {
            !held.displace_late(own)
        } else {
            held.bodies.len() >= AT_ONCE && !held.displace_of_most(many) && !held.displace_late(|_| true)
        };
        if is_full {
            return None;
        }
        held.last += 1;
        let (number, displaced) = (held.last, CancellationToken::new());
        held.bodies.insert(number, Body { peer, begun: Instant::now(), displaced: displaced.clone() });
        Some(BodySlot { rooms: self.clone(), number, displaced })
    }
}

impl Held {
    /// Ends the youngest body of the address with the most, for a request of an address with `many` bodies. Returns false
    /// if that address would then have fewer than the other.
    fn displace_of_most(&mut self, many: usize) -> bool {
        let mut peers: HashMap<IpAddr, (usize, u64)> = HashMap::new();
        for (number, body) in &self.bodies {
            let (bodies, youngest) = peers.entry(body.peer).or_default();
            (*bodies, *youngest) = (*bodies + 1, *number);
        }
        let most = peers.into_values().max().filter(|(bodies, _)| *bodies > many + 1);
        most.is_some_and(|(_, youngest)| self.end(youngest))
    }

    /// Ends the body that has been incomplete longest among the matching ones. Returns false if all are younger than
    /// the grace.
    fn displace_late(&mut self, matching: impl Fn(&Body) -> bool) -> bool {
        let late = |body: &Body| body.begun.elapsed() >= GRACE;
        let longest = self.bodies.iter().find(|(_, body)| matching(body)).filter(|(_, body)| late(body));
        let number = longest.map(|(number, _)| *number);
        number.is_some_and(|number| self.end(number))
    }

    fn end(&mut self, number: u64) -> bool {
        self.bodies.remove(&number).map(|body| body.displaced.cancel()).is_some()
    }
}

impl BodySlot {
    /// Resolves when another body displaces this one.
    pub async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for BodySlot {
    fn drop(&mut self) {
        self.rooms.0.lock().bodies.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(last: u8) -> Link {
        Link { peer: [10, 0, 0, last].into(), own: [10, 0, 0, 99].into(), share: Reach::Whole }
    }

    /// Takes all places: as many for each address as it may have.
    fn filled(rooms: &BodySlots) -> Vec<BodySlot> {
        let peers = (0..AT_ONCE).map(|n| u8::try_from(n / OF_ONE_PEER).unwrap());
        peers.map(|last| rooms.take(&of(last)).unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_has_a_share_and_all_together_have_a_bound() {
        let rooms = BodySlots::new();
        let held: Vec<_> = (0..OF_ONE_PEER).map_while(|_| rooms.take(&of(1))).collect();
        assert!(held.len() == OF_ONE_PEER && rooms.take(&of(1)).is_none(), "its share is taken");
        let each: Vec<_> = (100..=255).map_while(|last| rooms.take(&of(last))).collect();
        assert!(rooms.0.lock().bodies.len() == AT_ONCE && each.len() > AT_ONCE - OF_ONE_PEER);
        assert!(rooms.take(&of(5)).is_none(), "all are taken, by one address each");
        drop(each);
        assert!(rooms.take(&of(5)).is_some());
        assert!(rooms.take(&Link { share: Reach::HealthOnly, ..of(5) }).is_none());
        drop(held);
        assert!(rooms.0.lock().bodies.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_body_displaces_one_of_the_address_with_the_most() {
        let rooms = BodySlots::new();
        let held = filled(&rooms);
        let new = rooms.take(&of(5)).expect("no body is late, but some addresses have many");
        held[AT_ONCE - 1].displaced().await;
        assert_eq!(held.iter().filter(|room| room.displaced.is_cancelled()).count(), 1);
        let more: Vec<_> = (0..AT_ONCE).map_while(|_| rooms.take(&of(5))).collect();
        assert_eq!(more.len() + 1, AT_ONCE / 5, "its part, of which no address has more than it by one");
        assert!(!new.displaced.is_cancelled() && more.iter().all(|room| !room.displaced.is_cancelled()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_gives_way_to_a_new_one() {
        let rooms = BodySlots::new();
        let held: Vec<_> = (0..AT_ONCE).map(|n| rooms.take(&of(u8::try_from(n).unwrap())).unwrap()).collect();
        assert!(rooms.take(&of(100)).is_none(), "all are young, and no address has more than one");
        tokio::time::advance(GRACE).await;
        let new = rooms.take(&of(100)).expect("the oldest gives way");
        held[0].displaced().await;
        assert!(!held[1].displaced.is_cancelled() && !new.displaced.is_cancelled());
        drop((held, new));
        let held = filled(&rooms);
        tokio::time::advance(GRACE).await;
        let _own = rooms.take(&of(3)).expect("an address replaces one of its own");
        held[AT_ONCE - OF_ONE_PEER].displaced().await;
        assert_eq!(held.iter().filter(|room| room.displaced.is_cancelled()).count(), 1);
    }
}
