//! Lookups of single keys. Handing one to a thread costs more than the lookup itself, so keys requested while a thread
//! is busy are looked up by that thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redb::{ReadableDatabase, ReadableTable};
use tokio::sync::oneshot;

use super::absent::{Missing, family};
use super::{Inner, VALUES, alive};
use domain::ids::Timestamp;

/// The most lookup threads. More of them do not make a disk faster.
const THREADS: usize = 8;
/// The number of queued keys that starts a further thread.
const WORTH_A_THREAD: usize = 8;
/// The most keys of one read transaction.
const KEYS_A_READ: usize = 16;

/// The result of a lookup: the text of a live row, an absence, or an error.
pub(super) type Found = Result<Result<String, Missing>, Arc<redb::Error>>;

/// A key and its waiting caller.
type Waiting = (String, oneshot::Sender<Found>);

/// Queued keys and the number of lookup threads.
#[derive(Default)]
pub(super) struct Reads {
    waiting: VecDeque<Waiting>,
    threads: usize,
}

impl Reads {
    /// Reserves a slot for a thread if the queue is long enough and a slot is free.
    fn begins_a_thread(&mut self) -> bool {
        let begins = self.threads == 0 || (self.threads < THREADS && self.waiting.len() >= WORTH_A_THREAD);
        self.threads += usize::from(begins);
        begins
    }
}

/// The slot of one lookup thread.
struct Place {
    inner: Arc<Inner>,
    /// True once the thread found no work and released the slot.
    left: bool,
}

impl Place {
    /// Starts a thread in a reserved slot.
    fn begin(inner: Arc<Inner>) {
        let place = Self { inner, left: false };
        tokio::task::spawn_blocking(move || place.look_for_all());
    }

    /// Takes the next keys. If there are none, releases the slot atomically, so that the next key finds it free.
    fn next(&mut self) -> Vec<Waiting> {
        let mut reads = self.inner.reads.lock();
        let many = reads.waiting.len().min(KEYS_A_READ);
        let taken: Vec<Waiting> = reads.waiting.drain(..many).collect();
        if taken.is_empty() {
            reads.threads -= 1;
            self.left = true;
        }
        let begins = !reads.waiting.is_empty() && reads.begins_a_thread();
        // A thread that fails to start releases its slot at once.
        drop(reads);
        if begins {
            Self::begin(Arc::clone(&self.inner));
        }
        taken
    }

    fn look_for_all(mut self) {
        loop {
            let taken = self.next();
            if taken.is_empty() {
                return;
            }
            let guard = self.inner.database.read();
            let database = guard.as_ref().ok_or(redb::Error::DatabaseClosed);
            let now = self.inner.clock.now();
            match database.and_then(|database| Ok(database.begin_read()?.open_table(VALUES)?)) {
                // Each result is sent as soon as it is found; a cancelled caller is ignored.
                Ok(values) => {
                    for (key, tell) in taken {
                        drop(tell.send(look(&values, &key, now)));
                    }
                }
                Err(error) => {
                    let error = Arc::new(error);
                    for (_, tell) in taken {
                        drop(tell.send(Err(Arc::clone(&error))));
                    }
                }
            }
        }
    }
}

impl Drop for Place {
    /// Tells waiting callers that the thread was aborted or never started.
    fn drop(&mut self) {
        if !self.left {
            self.inner.suspect.fetch_or(std::thread::panicking(), Ordering::AcqRel);
            let mut reads = self.inner.reads.lock();
            reads.threads -= 1;
            reads.waiting.clear();
        }
    }
}

impl Inner {
    /// Looks up a key in the tables. Returns `None` if the thread was aborted.
    pub(super) async fn look(self: &Arc<Self>, key: String) -> Option<Found> {
        let (tell, found) = oneshot::channel();
        let begins = {
            let mut reads = self.reads.lock();
            reads.waiting.push_back((key, tell));
            reads.begins_a_thread()
        };
        if begins {
            Place::begin(Arc::clone(self));
        }
        found.await.ok()
    }
}

fn look(values: &impl ReadableTable<&'static str, (u64, &'static str)>, key: &str, now: Timestamp) -> Found {
    let looked = || {
        let row = values.get(key)?;
        if let Some((end, text)) = row.as_ref().map(redb::AccessGuard::value) {
            return Ok(if alive(end, now) { Ok(text.to_owned()) } else { Err(Missing::Key) });
        }
        let next = values.range(family(key)..)?.next().transpose()?;
        let related = next.is_some_and(|(next, _)| next.value().starts_with(family(key)));
        Ok(Err(if related { Missing::Key } else { Missing::Family }))
    };
    looked().map_err(|error: redb::StorageError| Arc::new(error.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::join_all;
    use tempfile::TempDir;

    use crate::embedded::opener::Opener;
    use crate::suite::{TestClock, put};
    use crate::{Backend, BackendError, Batch};

    #[tokio::test]
    async fn keys_that_are_looked_for_at_once_are_each_found_and_the_threads_end() {
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(TestClock::default());
        let store = Opener::new(dir.path(), clock.clone()).open().unwrap();
        let writes = (0..500).map(|number| put(&format!("even:{}", number * 2), &number.to_string())).collect();
        store.apply(Batch { writes, ..Batch::default() }).await.unwrap();
        let inner = Arc::clone(&store.inner);
        store.call(move |database, _| inner.checkpoint(database, &mut inner.wal.lock())).await.unwrap();
        let keys: Vec<String> = (0..1000).map(|number| format!("even:{number}")).collect();
        let found = join_all(keys.iter().map(|key| store.get(key))).await;
        for (number, found) in found.into_iter().enumerate() {
            let half = (number % 2 == 0).then(|| (number / 2).to_string());
            assert_eq!(found.unwrap(), half, "even:{number}");
        }
        let done = || {
            let reads = store.inner.reads.lock();
            reads.threads == 0 && reads.waiting.is_empty()
        };
        while !done() {
            tokio::task::yield_now().await;
        }
        store.close().await;
        assert!(matches!(store.get("even:0").await, Err(BackendError::Broken(_))));
    }

    #[tokio::test]
    async fn a_thread_that_breaks_off_leaves_nobody_waiting() {
        let dir = TempDir::new().unwrap();
        let store = Opener::new(dir.path(), Arc::new(TestClock::default())).open().unwrap();
        let place = super::Place { inner: Arc::clone(&store.inner), left: false };
        store.inner.reads.lock().threads = 1;
        let looks = async { tokio::join!(store.get("a"), store.get("b")) };
        let breaks = async {
            while store.inner.reads.lock().waiting.len() < 2 {
                tokio::task::yield_now().await;
            }
            drop(place);
        };
        let ((a, b), ()) = tokio::join!(looks, breaks);
        assert!(matches!((a, b), (Err(BackendError::Broken(_)), Err(BackendError::Broken(_)))));
        assert_eq!(store.get("a").await.unwrap(), None, "the next one gets a separate thread");
    }
}
