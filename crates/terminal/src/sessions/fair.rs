//! Bounds on the requests about sessions: no holder of a key delays the requests of another one for long.
//!
//! - Each request that reads or changes the list of sessions holds a share of the work until it ends. By the rule of
//!   [`ports::shares`], one holder has at most half of the shares; its further requests wait.
//! - Names are unique per holder, so the creation of sessions is serialized per holder.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, Semaphore};

use super::{DOOR, Sessions};
use domain::api_key::Caller;
use domain::ids::Person;
use ports::shares::{Share, Shares};

/// Maximum number of concurrent requests about sessions. Each reads at most all sessions that its caller may see.
pub(super) const AT_ONCE: usize = 16;

/// Returns the shares of all holders.
pub(super) fn shares() -> Shares {
    Shares::new(Arc::new(Semaphore::new(AT_ONCE)))
}

impl Sessions {
    /// Waits for a share of the work on sessions. All callers without a key are one holder. A request that holds a
    /// share must not wait for another one.
    pub(super) async fn share(&self, caller: &Caller) -> Share {
        let holder = caller.person().unwrap_or_else(|| Person::new(DOOR, ""));
        self.work.wait(Some(&holder)).await
    }
}

/// One lock per holder; `None` is the holder of the sessions of callers without a key.
#[derive(Default)]
pub(super) struct HolderLocks(Mutex<HashMap<Option<String>, Arc<tokio::sync::Mutex<()>>>>);

impl HolderLocks {
    /// Waits for the lock of a holder.
    pub(super) async fn lock(&self, holder: Option<&str>) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            // A lock that no request holds or awaits has this one reference.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(holder.map(str::to_owned)).or_default())
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn locks_of_holders_are_independent_and_end_with_their_use() {
        let locks = HolderLocks::default();
        let held = locks.lock(Some("a")).await;
        let mut second = Box::pin(locks.lock(Some("a")));
        assert!(futures_util::poll!(&mut second).is_pending());
        drop((locks.lock(Some("b")).await, locks.lock(None).await));
        drop(held);
        drop(second.await);
        drop(locks.lock(Some("c")).await);
        assert_eq!(locks.0.lock().len(), 1);
    }
}
