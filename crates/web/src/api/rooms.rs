//! Places for requests whose bodies are read before their sender is authenticated. They are bounded per address and in
//! total, and separate from the places of other requests.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::api::guard::Link;
use crate::api::places::{Share, network};

/// Maximum concurrent requests.
const AT_ONCE: usize = 64;
/// Maximum concurrent requests of one address; an IPv6 /64 network counts as one.
const OF_ONE_PEER: usize = 16;

/// All places.
#[derive(Clone, Default)]
pub struct Rooms(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One place; released when dropped.
pub struct PeerPlace {
    rooms: Rooms,
    peer: IpAddr,
}

impl Rooms {
    /// Creates the places, all free.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a place for a request of this connection; `None` if all are taken, or the address has reached its maximum.
    pub fn take(&self, link: &Link) -> Option<PeerPlace> {
        let peer = network(link.peer);
        let mut held = self.0.lock();
        let own = held.get(&peer).copied().unwrap_or_default();
        if link.share == Share::HealthOnly || own >= OF_ONE_PEER || held.values().sum::<usize>() >= AT_ONCE {
            return None;
        }
        held.insert(peer, own + 1);
        Some(PeerPlace { rooms: self.clone(), peer })
    }
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let mut held = self.rooms.0.lock();
        if let Some(own) = held.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_a_share_and_all_together_have_a_bound() {
        let rooms = Rooms::new();
        let of = |last: u8| Link { peer: [10, 0, 0, last].into(), own: [10, 0, 0, 99].into(), share: Share::Whole };
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
        assert!(rooms.0.lock().is_empty());
    }
}
