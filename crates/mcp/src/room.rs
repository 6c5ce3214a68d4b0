//! The memory budget of pending replies, in bytes, shared by all servers. A message reserves memory before it is
//! assembled and releases it when it is read. A message that gets no memory before its timeout is dropped, and its call
//! fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// The bytes of all pending messages.
const ALL_BYTES: usize = 32 * 1024 * 1024;
/// The bytes of the pending messages of one connection.
const OWN_BYTES: usize = 16 * 1024 * 1024;
/// The size in bytes from which a message reserves memory.
pub(super) const FREE_BYTES: usize = 128 * 1024;
/// The timeout of waiting for memory.
const ROOM_WITHIN: Duration = Duration::from_secs(10);
/// The longest time for which an incomplete message may hold memory.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);
/// The most large messages parsed at once, each with a few copies of its contents.
const READ_AT_ONCE: usize = 2;
/// The unit of the budget, in bytes.
const UNIT: usize = 1024;

/// The budget of one server: of its present session and of earlier ones that calls still use.
#[derive(Debug, Clone)]
pub(super) struct Room {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
    reading: Arc<Semaphore>,
}

/// Reserved memory, released on drop.
#[derive(Debug)]
pub(super) struct Held {
    permits: [OwnedSemaphorePermit; 2],
    /// The time by which it must be released.
    pub until: Instant,
}

impl Default for Room {
    fn default() -> Self {
        let of = |bytes: usize| Arc::new(Semaphore::new(bytes / UNIT));
        Self { all: of(ALL_BYTES), own: of(OWN_BYTES), reading: Arc::new(Semaphore::new(READ_AT_ONCE)) }
    }
}

impl Room {
    /// Returns the budget of a further server within the same total.
    pub(super) fn of_server(&self) -> Self {
        let own = Arc::new(Semaphore::new(OWN_BYTES / UNIT));
        Self { all: Arc::clone(&self.all), own, reading: Arc::clone(&self.reading) }
    }

    /// Reserves memory for `bytes` bytes; `None` after the timeout.
    pub(super) async fn take(&self, bytes: usize) -> Option<Held> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok()?;
        let taken = async {
            // The connection's own part comes first: a connection that used it up must not occupy the queue of the
            // total.
            let own = Arc::clone(&self.own).acquire_many_owned(units).await.ok()?;
            let all = Arc::clone(&self.all).acquire_many_owned(units).await.ok()?;
            Some(Held { permits: [own, all], until: Instant::now() + WHOLE_WITHIN })
        };
        timeout(ROOM_WITHIN, taken).await.ok().flatten()
    }

    /// Waits until a large message may be parsed.
    pub(super) async fn reading(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.reading).acquire_owned().await.ok()
    }
}

impl Held {
    /// Adds reserved memory; the earlier release time counts.
    pub(super) fn add(&mut self, more: Self) {
        let [own, all] = more.permits;
        self.permits[0].merge(own);
        self.permits[1].merge(all);
    }

    pub(super) fn bytes(&self) -> usize {
        self.permits[0].num_permits() * UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn all_connections_share_one_budget_and_none_takes_it_alone() {
        let first = Room::default().of_server();
        let (second, third) = (first.of_server(), first.of_server());
        let mut held = vec![first.take(8 * MIB).await.unwrap(), first.take(8 * MIB).await.unwrap()];
        let begun = Instant::now();
        assert!(first.take(MIB).await.is_none(), "a connection has its own limit");
        assert_eq!(begun.elapsed(), ROOM_WITHIN);
        held.push(second.take(16 * MIB).await.unwrap());
        assert!(third.take(1).await.is_none(), "all connections share one budget");
        held.remove(0);
        let mut last = third.take(6 * MIB).await.unwrap();
        last.add(third.take(2 * MIB).await.unwrap());
        assert_eq!(last.bytes(), 8 * MIB);
        assert!(second.take(1).await.is_none());
        drop((held, last));
        assert_eq!(first.all.available_permits() * UNIT, ALL_BYTES);
    }
}
