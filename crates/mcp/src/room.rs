//! The memory budget of pending replies, in bytes, shared by all servers by the rule of [`domain::fair_share`]: a server
//! reserves more only while at least as much is free as it then holds. Some servers with large replies therefore leave
//! room for those of others. A message reserves memory before it is assembled and releases it when it is read. A message
//! that gets no memory before its timeout is dropped, and its call fails.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use ports::shares::{Share, Shares};

/// The bytes of all pending messages. One server has at most half of them.
const ALL_BYTES: usize = 32 * 1024 * 1024;
/// The size in bytes from which a message reserves memory.
pub(super) const FREE_BYTES: usize = 128 * 1024;
/// The timeout of waiting for memory.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time for which an incomplete message may hold memory.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);
/// The most large messages parsed at once, each with a few copies of its contents.
const READ_AT_ONCE: usize = 2;
/// The unit of the budget, in bytes.
const UNIT: usize = 1024;

/// The budget of one server: of its present session and of earlier ones that calls still use.
#[derive(Clone)]
pub(super) struct Room {
    all: Shares<u64>,
    server: u64,
    /// The number of servers so far.
    servers: Arc<AtomicU64>,
    reading: Arc<Semaphore>,
}

/// Reserved memory, released on drop.
pub(super) struct Held {
    shares: Vec<Share<u64>>,
    bytes: usize,
    /// The time by which it must be released.
    pub until: Instant,
}

impl Default for Room {
    fn default() -> Self {
        let all = Shares::new(Arc::new(Semaphore::new(ALL_BYTES / UNIT)));
        Self { all, server: 0, servers: Arc::default(), reading: Arc::new(Semaphore::new(READ_AT_ONCE)) }
    }
}

impl Room {
    /// Returns the budget of a further server within the same total.
    pub(super) fn of_server(&self) -> Self {
        Self { server: self.servers.fetch_add(1, Ordering::Relaxed) + 1, ..self.clone() }
    }

    /// Reserves memory for `bytes` bytes; `None` after the timeout.
    pub(super) async fn take(&self, bytes: usize) -> Option<Held> {
        let units = bytes.div_ceil(UNIT);
        let share = timeout(ROOM_TIMEOUT, self.all.wait_many(Some(&self.server), units)).await.ok()?;
        Some(Held { shares: vec![share], bytes: units * UNIT, until: Instant::now() + WHOLE_WITHIN })
    }

    /// Waits until a large message may be parsed.
    pub(super) async fn reading(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.reading).acquire_owned().await.ok()
    }
}

impl Held {
    /// Adds reserved memory; the earlier release time counts.
    pub(super) fn add(&mut self, more: Self) {
        self.shares.extend(more.shares);
        self.bytes += more.bytes;
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    /// Reserves for one reply of 8 MiB as it arrives; stops where no memory is free.
    async fn arriving(room: &Room) -> Held {
        let mut held = room.take(MIB / 4).await.unwrap();
        while held.bytes() < 8 * MIB {
            let Some(more) = room.take(held.bytes()).await else { break };
            held.add(more);
        }
        held
    }

    #[tokio::test(start_paused = true)]
    async fn all_servers_share_one_budget_and_large_replies_of_some_leave_room_for_others() {
        let rooms = Room::default();
        let [first, second, third, fourth] = [(); 4].map(|()| rooms.of_server());
        let mut held = vec![arriving(&first).await, arriving(&first).await];
        assert_eq!(held.iter().map(Held::bytes).sum::<usize>(), ALL_BYTES / 2);
        let begun = Instant::now();
        assert!(first.take(1).await.is_none(), "one server has at most half");
        assert_eq!(begun.elapsed(), ROOM_TIMEOUT);
        held.push(arriving(&second).await);
        assert!(held[2].bytes() == 8 * MIB && second.take(MIB).await.is_none());
        held.push(arriving(&third).await);
        assert_eq!(held[3].bytes(), 4 * MIB);
        assert!(fourth.take(MIB).await.is_some(), "the next server finds room");
        // A server whose reply was read gets room at once.
        held.remove(0);
        assert!(first.take(MIB).await.is_some());
        drop(held);
        assert_eq!(rooms.all.free() * UNIT, ALL_BYTES);
    }
}
