//! Places for the bodies of requests whose sender is not authenticated yet. They are bounded per address and in total,
//! and separate from the places of other requests.
//!
//! A place is held only until the body is complete. If all places are taken, a new request displaces the body that has
//! been incomplete longest, at least [`GRACE`]: slow bodies do not block signed requests.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::guard::Link;
use crate::api::places::{Share, network};

/// Maximum concurrent bodies.
const AT_ONCE: usize = 64;
/// Maximum concurrent bodies of one address; an IPv6 /64 network counts as one.
const OF_ONE_PEER: usize = 16;
/// Time after which an incomplete body may be displaced.
const GRACE: Duration = Duration::from_secs(1);

/// All places.
#[derive(Clone, Default)]
pub struct Rooms(Arc<Mutex<Held>>);

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
pub struct Room {
    rooms: Rooms,
    number: u64,
    displaced: CancellationToken,
}

impl Rooms {
    /// Creates the places, all free.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a place for a request of this connection. `None` if all places are taken, or those of this address, and no
    /// body may be displaced.
    pub fn take(&self, link: &Link) -> Option<Room> {
        if link.share == Share::HealthOnly {
            return None;
        }
        let peer = network(link.peer);
        let mut held = self.0.lock();
        let own = |body: &Body| body.peer == peer;
        let is_full = if held.bodies.values().filter(|body| own(body)).count() >= OF_ONE_PEER {
            !held.displace(own)
        } else {
            held.bodies.len() >= AT_ONCE && !held.displace(|_| true)
        };
        if is_full {
            return None;
        }
        held.last += 1;
        let (number, displaced) = (held.last, CancellationToken::new());
        held.bodies.insert(number, Body { peer, begun: Instant::now(), displaced: displaced.clone() });
        Some(Room { rooms: self.clone(), number, displaced })
    }
}

impl Held {
    /// Ends the body that has been incomplete longest among the matching ones. Returns false if all are younger than
    /// the grace.
    fn displace(&mut self, matching: impl Fn(&Body) -> bool) -> bool {
        let late = |body: &Body| body.begun.elapsed() >= GRACE;
        let longest = self.bodies.iter().find(|(_, body)| matching(body)).filter(|(_, body)| late(body));
        let body = longest.map(|(number, _)| *number).and_then(|number| self.bodies.remove(&number));
        body.map(|body| body.displaced.cancel()).is_some()
    }
}

impl Room {
    /// Resolves when another body displaces this one.
    pub async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.rooms.0.lock().bodies.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(last: u8) -> Link {
        Link { peer: [10, 0, 0, last].into(), own: [10, 0, 0, 99].into(), share: Share::Whole }
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_has_a_share_and_all_together_have_a_bound() {
        let rooms = Rooms::new();
        let mut held: Vec<_> = (0..OF_ONE_PEER).map_while(|_| rooms.take(&of(1))).collect();
        assert!(held.len() == OF_ONE_PEER && rooms.take(&of(1)).is_none(), "its share is taken");
        for last in 2..=4 {
            held.extend((0..OF_ONE_PEER).map_while(|_| rooms.take(&of(last))));
        }
        assert!(held.len() == AT_ONCE && rooms.take(&of(5)).is_none(), "all are taken");
        held.pop();
        assert!(rooms.take(&of(5)).is_some());
        assert!(rooms.take(&Link { share: Share::HealthOnly, ..of(5) }).is_none());
        drop(held);
        assert!(rooms.0.lock().bodies.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_gives_way_to_a_new_one() {
        let rooms = Rooms::new();
        let held: Vec<_> =
            (0..AT_ONCE).map(|n| rooms.take(&of(u8::try_from(n / OF_ONE_PEER).unwrap())).unwrap()).collect();
        assert!(rooms.take(&of(5)).is_none(), "all are young");
        tokio::time::advance(GRACE).await;
        let new = rooms.take(&of(5)).expect("the oldest gives way");
        held[0].displaced().await;
        assert!(!held[1].displaced.is_cancelled() && !new.displaced.is_cancelled());
        let _own = rooms.take(&of(3)).expect("an address replaces one of its own");
        held[AT_ONCE - OF_ONE_PEER].displaced().await;
        assert!(!held[1].displaced.is_cancelled());
    }
}
