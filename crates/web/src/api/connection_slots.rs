//! Admission of connections: their number, and which one is closed when all places are taken.
//!
//! A connection is waiting (before its first request and between requests) or busy (from the head of a request to the
//! end of its response). When no place is free, the connection that has waited longest is closed; if none waits, the
//! one whose request body has been incomplete longest, at least [`BODY_GRACE`]. If all are busy, the new connection
//! gets a reserved place, which serves only health and metrics.
//!
//! Keys share the places by the rule of [`domain::fair_share`], however long their streams are.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use domain::fair_share;
use domain::proxies::Proxies;

/// Time after which a connection with an incomplete request body may be closed in favour of others.
const BODY_GRACE: Duration = Duration::from_secs(1);

/// The number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Maximum concurrent connections.
    pub connections: usize,
    /// Maximum concurrent connections of one peer; an IPv6 /64 network counts as one peer. For a client behind a
    /// trusted proxy, maximum concurrent requests.
    pub per_peer: usize,
    /// Additional connections that serve only health and metrics.
    pub reserved: usize,
}

/// The paths a connection may request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Whole,
    HealthOnly,
}

/// All places of one listener.
pub struct ConnectionSlots {
    capacity: Capacity,
    proxies: Arc<Proxies>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    last: u64,
    held: BTreeMap<u64, Held>,
}

struct Held {
    /// `None` for a trusted proxy or a process of the cluster, whose clients are counted separately.
    peer: Option<IpAddr>,
    /// The client behind a trusted proxy whose request is in progress.
    client: Option<IpAddr>,
    /// The name of the key of the request in progress.
    key: Option<String>,
    share: Reach,
    /// The order in which connections began to wait; `None` while busy.
    waiting: Option<u64>,
    /// The start of a request whose body is incomplete.
    body: Option<Instant>,
    gives_way: CancellationToken,
}

/// A place; released when dropped.
pub struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    number: u64,
    /// The paths that may be requested.
    pub share: Reach,
    /// Cancelled when the connection must close at once.
    pub gives_way: CancellationToken,
}

/// A request and its response; the connection is busy until this is dropped.
pub struct Busy(Arc<ConnectionSlot>);

/// A request with an incomplete body, until this is dropped.
pub struct AwaitsBody(Arc<ConnectionSlot>);

impl ConnectionSlots {
    /// Creates the places, all free.
    pub fn new(capacity: Capacity, proxies: Arc<Proxies>) -> Arc<Self> {
        Arc::new(Self { capacity, proxies, taken: Mutex::default() })
    }

    /// Takes a place for a connection from this address; `None` if all are busy, including the reserved ones.
    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
        let peer = (!self.proxies.trust(peer)).then(|| network(peer));
        let mut taken = self.taken.lock();
        let share = taken.make_room(&self.capacity, peer)?;
        let number = taken.next();
        let gives_way = CancellationToken::new();
        let held = Held {
            peer,
            client: None,
            key: None,
            share,
            waiting: Some(number),
            body: None,
            gives_way: gives_way.clone(),
        };
        taken.held.insert(number, held);
        Some(ConnectionSlot { places: Arc::clone(self), number, share, gives_way })
    }
}

impl ConnectionSlot {
    /// Returns the client address that a peer forwards for, by the lines of its header `X-Forwarded-For`.
    pub fn client<'a>(&self, peer: IpAddr, forwarded: impl DoubleEndedIterator<Item = &'a str>) -> IpAddr {
        self.places.proxies.client(peer, forwarded)
    }

    /// Marks the connection as one of another process of the cluster. Its clients are counted separately, like those of
    /// a trusted proxy.
    pub fn mark_member(&self) {
        if let Some(held) = self.places.taken.lock().held.get_mut(&self.number) {
            held.peer = None;
        }
    }

    /// Marks the connection as busy with a request of this client. Returns `None` if the connection was just closed, or
    /// if a client behind a trusted proxy has reached its maximum of concurrent requests.
    pub fn begin(self: &Arc<Self>, client: IpAddr) -> Option<Busy> {
        let client = network(client);
        let mut taken = self.places.taken.lock();
        let is_of_proxy = taken.held.get(&self.number)?.peer.is_none();
        let own = |held: &Held| held.client == Some(client);
        if is_of_proxy && taken.count(own) >= self.places.capacity.per_peer {
            return None;
        }
        let held = taken.held.get_mut(&self.number)?;
        held.waiting = None;
        held.body = None;
        held.client = is_of_proxy.then_some(client);
        held.key = None;
        Some(Busy(Arc::clone(self)))
    }

    /// Counts the request in progress for this key. Returns false if the key keeps as many places busy as are left.
    pub fn count_for(&self, key: &str) -> bool {
        let mut taken = self.places.taken.lock();
        let busy = |held: &Held| held.share == Reach::Whole && held.waiting.is_none();
        let others = taken.count(busy).saturating_sub(1);
        let own = taken.count(|held| busy(held) && held.key.as_deref() == Some(key));
        let counted = fair_share::admits(own, self.places.capacity.connections.saturating_sub(others));
        if let Some(held) = taken.held.get_mut(&self.number).filter(|_| counted) {
            held.key = Some(key.to_owned());
        }
        counted
    }
}

impl Busy {
    /// Marks the request's body as incomplete until the returned guard is dropped.
    pub fn awaits_body(&self) -> AwaitsBody {
        let mut taken = self.0.places.taken.lock();
        if let Some(held) = taken.held.get_mut(&self.0.number) {
            held.body = Some(Instant::now());
        }
        AwaitsBody(Arc::clone(&self.0))
    }
}

impl Drop for AwaitsBody {
    fn drop(&mut self) {
        let mut taken = self.0.places.taken.lock();
        if let Some(held) = taken.held.get_mut(&self.0.number) {
            held.body = None;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut taken = self.0.places.taken.lock();
        let now = taken.next();
        if let Some(held) = taken.held.get_mut(&self.0.number) {
            held.waiting = Some(now);
            held.client = None;
            held.key = None;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.taken.lock().held.remove(&self.number);
    }
}

impl Taken {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn count(&self, matching: impl Fn(&Held) -> bool) -> usize {
        self.held.values().filter(|held| matching(held)).count()
    }

    fn make_room(&mut self, capacity: &Capacity, peer: Option<IpAddr>) -> Option<Reach> {
        let whole = |held: &Held| held.share == Reach::Whole;
        let own = |held: &Held| whole(held) && held.peer == peer;
        // A peer at its maximum replaces one of its own connections, never another peer's.
        if peer.is_some() && self.count(own) >= capacity.per_peer {
            if self.close_longest_waiting(own) || self.close_latest_body(own) {
                return Some(Reach::Whole);
            }
        } else if self.count(whole) < capacity.connections
            || self.close_longest_waiting(whole)
            || self.close_latest_body(whole)
        {
            return Some(Reach::Whole);
        }
        let reserved = |held: &Held| held.share == Reach::HealthOnly;
        let free = self.count(reserved) < capacity.reserved || self.close_longest_waiting(reserved);
        free.then_some(Reach::HealthOnly)
    }

    fn close_longest_waiting(&mut self, matching: impl Fn(&Held) -> bool) -> bool {
        let waiting =
            self.held.iter().filter(|(_, held)| matching(held)).filter_map(|(id, held)| Some((held.waiting?, *id)));
        let number = waiting.min().map(|(_, number)| number);
        self.close(number)
    }

    /// Closes the connection whose request body has been incomplete longest, if that exceeds the grace.
    fn close_latest_body(&mut self, matching: impl Fn(&Held) -> bool) -> bool {
        let late = |held: &Held| held.body.filter(|begun| begun.elapsed() >= BODY_GRACE);
        let late =
            self.held.iter().filter(|(_, held)| matching(held)).filter_map(|(id, held)| Some((late(held)?, *id)));
        let number = late.min().map(|(_, number)| number);
        self.close(number)
    }

    fn close(&mut self, number: Option<u64>) -> bool {
        let held = number.and_then(|number| self.held.remove(&number));
        held.map(|held| held.gives_way.cancel()).is_some()
    }
}

/// Returns the peer that an address counts for: an IPv6 subscriber often has a whole /64 network.
pub fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Capacity = Capacity { connections: 4, per_peer: 2, reserved: 1 };

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn places() -> Arc<ConnectionSlots> {
        ConnectionSlots::new(CAPACITY, Arc::default())
    }

    #[test]
    fn clients_behind_a_trusted_proxy_have_shares_of_their_own() {
        let proxies = Proxies::new(vec!["10.0.0.9".parse().unwrap()]);
        let places = ConnectionSlots::new(CAPACITY, Arc::new(proxies));
        let held: Vec<_> = (0..4).map(|_| taken(&places, 9)).collect();
        assert!(held.iter().all(|place| place.share == Reach::Whole), "a proxy is no peer with a share");
        let first = [held[0].begin(peer(1)), held[1].begin(peer(1))];
        assert!(first.iter().all(Option::is_some));
        assert!(held[2].begin(peer(1)).is_none(), "its share is full");
        assert!(held[2].begin(peer(2)).is_some(), "and others have theirs");
        drop(first);
        assert!(held[3].begin(peer(1)).is_some());
    }

    #[test]
    fn keys_leave_places_for_each_other() {
        let places = ConnectionSlots::new(Capacity { connections: 8, per_peer: 8, reserved: 1 }, Arc::default());
        let mut busy = Vec::new();
        let mut begins = |key: &str| {
            let place = taken(&places, 1);
            let begun = place.begin(peer(1)).unwrap();
            let counted = place.count_for(key);
            if counted {
                busy.push((begun, place));
            }
            counted
        };
        let mut counts = Vec::new();
        for key in ["a", "b", "c"] {
            counts.push((0..8).filter(|_| begins(key)).count());
        }
        assert_eq!(counts, [4, 2, 1]);
        let (_, place) = &busy[0];
        let first = Arc::clone(place);
        busy.remove(0);
        assert!(first.begin(peer(1)).is_some_and(|_| first.count_for("c")), "a request that ended counts for none");
    }

    fn taken(places: &Arc<ConnectionSlots>, last: u8) -> Arc<ConnectionSlot> {
        Arc::new(places.take(peer(last)).expect("there is a place"))
    }

    #[test]
    fn the_connection_that_waited_for_longest_gives_way() {
        let places = places();
        let held: Vec<_> = (1..=4).map(|last| taken(&places, last)).collect();
        // After a request it is the one that began to wait last.
        drop(held[0].begin(peer(1)));
        let new = taken(&places, 5);
        let closed: Vec<bool> = held.iter().map(|place| place.gives_way.is_cancelled()).collect();
        assert_eq!((new.share, closed), (Reach::Whole, vec![false, true, false, false]));
        assert!(held[1].begin(peer(2)).is_none(), "a request that comes just then is not begun");
    }

    #[test]
    fn a_busy_connection_never_gives_way_and_health_has_places_of_its_own() {
        let places = places();
        let held: Vec<_> = (1..=4).map(|last| taken(&places, last)).collect();
        let busy: Vec<_> = held.iter().map(|place| place.begin(peer(1)).unwrap()).collect();
        let first = taken(&places, 5);
        let second = taken(&places, 6);
        assert_eq!((first.share, second.share), (Reach::HealthOnly, Reach::HealthOnly));
        assert!(first.gives_way.is_cancelled(), "a reserved place that only waits is passed on");
        let _asking = second.begin(peer(6)).unwrap();
        assert!(places.take(peer(7)).is_none());
        drop(busy);
        assert_eq!(taken(&places, 7).share, Reach::Whole);
        assert_eq!(held.iter().filter(|place| place.gives_way.is_cancelled()).count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_body_does_not_come_gives_way_after_a_second() {
        let places = places();
        let held: Vec<_> = (0..2).map(|_| taken(&places, 1)).collect();
        let busy: Vec<_> = held.iter().map(|place| place.begin(peer(1)).unwrap()).collect();
        let bodies: Vec<_> = busy.iter().map(Busy::awaits_body).collect();
        assert_eq!(taken(&places, 1).share, Reach::HealthOnly, "a body may take a moment");
        tokio::time::advance(BODY_GRACE).await;
        let third = taken(&places, 1);
        let closed: Vec<bool> = held.iter().map(|place| place.gives_way.is_cancelled()).collect();
        assert_eq!((third.share, closed), (Reach::Whole, vec![true, false]));
        let _asking = third.begin(peer(1)).unwrap();
        drop(bodies);
        assert_eq!(taken(&places, 1).share, Reach::HealthOnly, "a request that is whole never gives way");
    }

    #[test]
    fn a_peer_with_its_full_share_makes_room_for_itself() {
        let places = places();
        let others = taken(&places, 1);
        let own = [taken(&places, 2), taken(&places, 2)];
        let third = taken(&places, 2);
        assert_eq!((own[0].gives_way.is_cancelled(), others.gives_way.is_cancelled()), (true, false));
        let _busy = (own[1].begin(peer(2)), third.begin(peer(2)));
        assert_eq!(taken(&places, 2).share, Reach::HealthOnly);
        assert_eq!(taken(&places, 3).share, Reach::Whole);
    }

    #[test]
    fn a_network_of_64_bits_is_one_peer() {
        let same = ["2001:db8:1:2::1", "2001:db8:1:2:ffff::2"].map(|text| network(text.parse().unwrap()));
        assert_eq!(same[0], same[1]);
        assert_ne!(same[0], network("2001:db8:1:3::1".parse().unwrap()));
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), peer(1));
    }

    #[test]
    fn a_place_is_free_once_its_connection_is_gone() {
        let places = places();
        for _ in 0..100 {
            let place = taken(&places, 1);
            drop(place.begin(peer(1)));
        }
        assert!(places.taken.lock().held.is_empty());
    }
}
