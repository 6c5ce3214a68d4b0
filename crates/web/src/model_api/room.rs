//! What requests under way take: places and memory, of which each holder has a share, so that none can take it from the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::failure::{AGAIN, Failure};

/// KiB of conversations that all requests under way may hold together; each is held a few times over while it is read and sent.
const ALL_KIB: usize = 32 << 10;
/// KiB that those of one holder may hold.
const SHARE_KIB: u32 = 8 << 10;
/// How long a request waits for the room that it needs.
const WITHIN: Duration = Duration::from_secs(3);

/// The room, and who holds how much of it.
pub(super) struct Room {
    /// One permit for each KiB.
    all: Arc<Semaphore>,
    holders: Mutex<HashMap<String, Held>>,
    /// The most requests of one holder at once.
    at_once: usize,
}

#[derive(Debug, Default)]
struct Held {
    requests: usize,
    kib: u32,
}

/// A place and room, given back when it is dropped.
pub(super) struct Taken {
    room: Arc<Room>,
    holder: String,
    kib: u32,
    permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// All of it, free, for so many requests of one holder at once.
    pub fn new(at_once: usize) -> Arc<Self> {
        Arc::new(Self { all: Arc::new(Semaphore::new(ALL_KIB)), holders: Mutex::default(), at_once })
    }

    /// Takes a place and so many KiB for a holder.
    ///
    /// # Errors
    /// The holder has its share already, or all is taken for a while.
    pub async fn take(self: &Arc<Self>, holder: &str, kib: u32) -> Result<Taken, Failure> {
        {
            let mut holders = self.holders.lock();
            let held = holders.entry(holder.to_owned()).or_default();
            if held.requests >= self.at_once {
                let why = format!("this key has {} requests under way; wait for one", self.at_once);
                return Err(Failure::OverLimit(why, Some(AGAIN)));
            }
            if held.requests > 0 && held.kib + kib > SHARE_KIB {
                return Err(over_share());
            }
            held.requests += 1;
            held.kib += kib;
        }
        let mut taken = Taken { room: Arc::clone(self), holder: holder.to_owned(), kib, permit: None };
        let permit = timeout(WITHIN, Arc::clone(&self.all).acquire_many_owned(kib)).await;
        let Ok(Ok(permit)) = permit else {
            return Err(full());
        };
        taken.permit = Some(permit);
        Ok(taken)
    }
}

impl Taken {
    /// Takes room for so many bytes more.
    ///
    /// # Errors
    /// The holder has its share already, or all is taken for a while.
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
        let more = timeout(WITHIN, Arc::clone(&self.room.all).acquire_many_owned(kib)).await;
        let Ok(Ok(more)) = more else { return Err(full()) };
        if let Some(permit) = &mut self.permit {
            permit.merge(more);
        }
        Ok(())
    }

    /// Gives back what is not needed after all.
    pub fn shrink(&mut self, kib: u32) {
        let spare = self.kib.saturating_sub(kib);
        self.kib -= spare;
        let spare = usize::try_from(spare).unwrap_or_default();
        drop(self.permit.as_mut().and_then(|permit| permit.split(spare)));
        if let Some(held) = self.room.holders.lock().get_mut(&self.holder) {
            held.kib -= u32::try_from(spare).unwrap_or_default();
        }
    }
}

impl Drop for Taken {
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
    let why = format!("the requests of this key that are under way may hold {SHARE_KIB} KiB; wait for one");
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
        assert!(room.holders.lock().is_empty() && room.all.available_permits() == ALL_KIB);
        let mut first = room.take("ci", 10).await.ok().unwrap();
        assert!(first.grow(1_000 << 10).await.is_ok() && room.all.available_permits() == ALL_KIB - 1_010);
        let second = room.take("ci", 1).await.ok().unwrap();
        assert!(matches!(first.grow(8_000 << 10).await, Err(Failure::OverLimit(..))));
        drop(second);
        assert!(first.grow(8_000 << 10).await.is_ok(), "one request alone may take more");
        drop(first);
        assert!(room.holders.lock().is_empty() && room.all.available_permits() == ALL_KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_in_vain_holds_nothing() {
        let room = Room::new(AT_ONCE);
        let all = Arc::clone(&room.all).acquire_many_owned(u32::try_from(ALL_KIB).unwrap()).await;
        assert!(matches!(room.take("ci", 1).await, Err(Failure::Busy(_))));
        drop(all);
        assert!(room.holders.lock().is_empty());
    }
}
