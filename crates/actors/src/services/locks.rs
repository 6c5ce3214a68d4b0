//! Locks by key: changes of one person's data, or of one record, are serialized in this process; those of different keys
//! run concurrently.

use std::hash::{BuildHasher, Hash, RandomState};

use tokio::sync::{Mutex, MutexGuard};

/// The number of locks; keys share them by hash.
const LOCKS: usize = 64;

/// The locks.
pub(crate) struct Locks {
    hasher: RandomState,
    locks: [Mutex<()>; LOCKS],
}

impl Default for Locks {
    fn default() -> Self {
        Self { hasher: RandomState::new(), locks: [const { Mutex::const_new(()) }; LOCKS] }
    }
}

impl Locks {
    /// Waits until no other holder of this key's lock is left. Changes under one set of locks do not nest.
    pub(crate) async fn lock(&self, key: &(impl Hash + ?Sized)) -> MutexGuard<'_, ()> {
        let number = usize::try_from(self.hasher.hash_one(key) % LOCKS as u64).unwrap_or(0);
        self.locks[number].lock().await
    }
}
