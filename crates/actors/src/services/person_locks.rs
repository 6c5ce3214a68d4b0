//! Locks by person: changes of one person's data are serialized in this process, those of different persons run
//! concurrently.

use std::hash::{DefaultHasher, Hash, Hasher};

use tokio::sync::{Mutex, MutexGuard};

use domain::ids::Person;

/// The number of locks; persons share them by hash.
const LOCKS: usize = 64;

/// The locks.
pub(crate) struct PersonLocks(Vec<Mutex<()>>);

impl Default for PersonLocks {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Mutex::default()).collect())
    }
}

impl PersonLocks {
    /// Acquires the lock of this person.
    pub(crate) async fn lock(&self, person: &Person) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        person.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or_default();
        self.0[at].lock().await
    }
}
