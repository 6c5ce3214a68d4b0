//! Bulkheads for requests in progress: bounded concurrency and memory per holder and in total, so that no holder
//! starves the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::failure::{AGAIN, Failure};
use ports::shares::{Share, Shares};

/// Maximum KiB of one holder.
const SHARE_KIB: u32 = 8 << 10;
/// Maximum KiB of conversations of all requests in progress; each is held several times while it is parsed and sent. Less
/// than four shares: by the rule of [`Shares`], three whole shares leave almost one to smaller requests of others.
const ALL_KIB: usize = 4 * SHARE_KIB as usize - 1;
/// Timeout of a reservation.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The reservations of each holder.
pub(super) struct Room {
    /// One permit per KiB.
    all: Shares<String>,
    /// The requests in progress, those that wait for permits included.
    holders: Mutex<HashMap<String, Held>>,
    /// Maximum concurrent requests of one holder.
    at_once: usize,
}

#[derive(Debug, Default)]
struct Held {
    requests: usize,
    kib: u32,
}

/// A reservation; released when dropped.
pub(super) struct RoomReservation {
    room: Arc<Room>,
    holder: String,
    kib: u32,
    share: Option<Share<String>>,
}

impl Room {
    /// Creates the room, all free, with this maximum of concurrent requests per holder.
    pub fn new(at_once: usize) -> Arc<Self> {
        Arc::new(Self { all: Shares::new(Arc::new(Semaphore::new(ALL_KIB))), holders: Mutex::default(), at_once })
    }

    /// Reserves a request and this many KiB for a holder.
    ///
    /// # Errors
    /// The holder has reached its maximum, or the timeout expired.
    pub async fn take(self: &Arc<Self>, holder: &str, kib: u32) -> Result<RoomReservation, Failure> {
        {
            let mut holders = self.holders.lock();
            let held = holders.entry(holder.to_owned()).or_default();
            if held.requests >= self.at_once {
                let why = format!("this key has {} requests in progress; wait for one", self.at_once);
                return Err(Failure::OverLimit(why, Some(AGAIN)));
            }
            if held.requests > 0 && held.kib + kib > SHARE_KIB {
                return Err(over_share());
            }
            held.requests += 1;
            held.kib += kib;
        }
        let mut taken = RoomReservation { room: Arc::clone(self), holder: holder.to_owned(), kib, share: None };
        taken.share = Some(taken.wait(kib).await?);
        Ok(taken)
    }
}

impl RoomReservation {
    async fn wait(&self, kib: u32) -> Result<Share<String>, Failure> {
        let waited = self.room.all.wait_many(Some(&self.holder), kib as usize);
        timeout(TIMEOUT, waited).await.map_err(|_| full())
    }

    /// Reserves this many bytes more.
    ///
    /// # Errors
    /// The holder has reached its maximum, or the timeout expired.
    pub async fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        {
            let mut holders = self.room.holders.lock();
            let Some(held) = holders.get_mut(&self.holder) else { return Ok(()) };
            if held.requests > 1 && held.kib.saturating_add(kib) > SHARE_KIB {
                return Err(over_share());
            }
            held.kib += kib;
        }
        self.kib += kib;
        let more = self.wait(kib).await?;
        if let Some(share) = &mut self.share {
            share.merge(more);
        }
        Ok(())
    }

    /// Releases what is not needed.
    pub fn shrink(&mut self, kib: u32) {
        let spare = self.kib.saturating_sub(kib);
        self.kib -= spare;
        if let Some(share) = &mut self.share {
            share.give_back(spare as usize);
        }
        if let Some(held) = self.room.holders.lock().get_mut(&self.holder) {
            held.kib -= spare;
        }
    }
}

impl Drop for RoomReservation {
    fn drop(&mut self) {
        let mut holders = self.room.holders.lock();
        if let Some(held) = holders.get_mut(&self.holder) {
            held.requests -= 1;
            held.kib -= self.kib;
            if held.requests == 0 {
                holders.remove(&self.holder);
            }
        }
    }
}

fn over_share() -> Failure {
    let why = format!("the requests of this key in progress may hold {SHARE_KIB} KiB; wait for one");
    Failure::OverLimit(why, Some(AGAIN))
}

fn full() -> Failure {
    Failure::Busy("too many long conversations at once; try again in a moment".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: usize = 32;

    #[tokio::test]
    async fn one_holder_has_a_share_and_others_have_room_beside_it() {
        let room = Room::new(AT_ONCE);
        let mut first = room.take("ci", SHARE_KIB).await.ok().unwrap();
        assert!(matches!(room.take("ci", 1).await, Err(Failure::OverLimit(..))));
        assert!(room.take("laptop", SHARE_KIB).await.is_ok());
        first.shrink(10);
        let more: Vec<_> = futures_util::future::join_all((1..AT_ONCE).map(|_| room.take("ci", 1))).await;
        assert!(more.iter().all(Result::is_ok));
        assert!(matches!(room.take("ci", 1).await, Err(Failure::OverLimit(..))), "places have a bound as well");
        drop((first, more));
        assert!(room.holders.lock().is_empty() && room.all.free() == ALL_KIB);
        let mut first = room.take("ci", 10).await.ok().unwrap();
        assert!(first.grow(1_000 << 10).await.is_ok() && room.all.free() == ALL_KIB - 1_010);
        let second = room.take("ci", 1).await.ok().unwrap();
        assert!(matches!(first.grow(8_000 << 10).await, Err(Failure::OverLimit(..))));
        drop(second);
        assert!(first.grow(8_000 << 10).await.is_ok(), "one request alone may take more");
        drop(first);
        assert!(room.holders.lock().is_empty() && room.all.free() == ALL_KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn the_largest_requests_of_several_holders_leave_room_for_the_next() {
        let room = Room::new(AT_ONCE);
        let largest = ["a", "b", "c", "d"].map(|holder| room.take(holder, SHARE_KIB));
        let largest = futures_util::future::join_all(largest).await;
        assert_eq!(largest.iter().filter(|taken| taken.is_ok()).count(), 3, "the fourth waits in vain");
        // While a large request waits, small ones pass.
        let mut waiting = Box::pin(room.take("e", SHARE_KIB));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        let small = room.take("f", 1);
        assert!(small.await.is_ok());
        drop(largest);
        assert!(futures_util::poll!(&mut waiting).is_ready());
        drop(waiting);
        assert!(room.holders.lock().is_empty() && room.all.free() == ALL_KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_in_vain_holds_nothing() {
        let room = Room::new(AT_ONCE);
        let all = room.all.take_many(None, ALL_KIB);
        assert!(all.is_some());
        assert!(matches!(room.take("ci", 1).await, Err(Failure::Busy(_))));
        drop(all);
        assert!(room.holders.lock().is_empty());
    }
}
