//! Looks at single keys. Each look into the tables takes a thread, which costs more than the look: keys that are asked for while
//! a thread is at work are looked for by that one.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redb::{Database, ReadableDatabase};
use tokio::sync::oneshot;

use super::{Inner, VALUES, alive};
use crate::domain::ids::Timestamp;

/// How many threads look at once. A disk does not get faster by more of them.
const THREADS: usize = 8;
/// So many keys wait before a further thread is worth it.
const KEYS_A_THREAD: usize = 32;

/// What became of a look: the text of a living row, or what went wrong; the error is shared by all that were looked for with it.
pub(super) type Found = Result<Option<String>, Arc<redb::Error>>;

/// A key, and who waits for it.
type Waiting = (String, oneshot::Sender<Found>);

/// Keys that are waited for, and the threads that look.
#[derive(Default)]
pub(super) struct Reads {
    waiting: Vec<Waiting>,
    threads: usize,
}

impl Reads {
    /// Whether what waits is worth a thread that is not there yet.
    const fn wants_a_thread(&self) -> bool {
        self.threads == 0 || (self.threads < THREADS && self.waiting.len() >= KEYS_A_THREAD * self.threads)
    }
}

/// One thread's place among those that look.
struct Place {
    inner: Arc<Inner>,
    /// It found nothing to do and gave the place back.
    left: bool,
}

impl Place {
    /// What to look for next. Nothing: the place is given back in the same moment, so that the next key finds it free.
    fn next(&mut self) -> Vec<Waiting> {
        let mut reads = self.inner.reads.lock();
        let waiting = mem::take(&mut reads.waiting);
        if waiting.is_empty() {
            reads.threads -= 1;
            self.left = true;
        }
        waiting
    }

    fn look_for_all(mut self) {
        loop {
            let waiting = self.next();
            if waiting.is_empty() {
                return;
            }
            let guard = self.inner.database.read();
            let database = guard.as_ref().ok_or(redb::Error::DatabaseClosed);
            match database.and_then(|database| look(database, self.inner.clock.now(), &waiting)) {
                Ok(answers) => waiting.into_iter().zip(answers).for_each(|((_, tell), text)| drop(tell.send(Ok(text)))),
                Err(error) => {
                    let error = Arc::new(error);
                    waiting.into_iter().for_each(|(_, tell)| drop(tell.send(Err(Arc::clone(&error)))));
                }
            }
        }
    }
}

impl Drop for Place {
    /// A thread that broke off, or never began: whoever counted on it learns so.
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
    /// Looks for a key in the tables. None when the thread broke off.
    pub(super) async fn look(self: &Arc<Self>, key: String) -> Option<Found> {
        let (tell, found) = oneshot::channel();
        let begins = {
            let mut reads = self.reads.lock();
            reads.waiting.push((key, tell));
            let begins = reads.wants_a_thread();
            reads.threads += usize::from(begins);
            begins
        };
        if begins {
            let place = Place { inner: Arc::clone(self), left: false };
            tokio::task::spawn_blocking(move || place.look_for_all());
        }
        found.await.ok()
    }
}

fn look(database: &Database, now: Timestamp, waiting: &[Waiting]) -> Result<Vec<Option<String>>, redb::Error> {
    let values = database.begin_read()?.open_table(VALUES)?;
    let living = |(key, _): &Waiting| {
        let row = values.get(key.as_str())?;
        let row = row.as_ref().map(redb::AccessGuard::value);
        Ok(row.filter(|(end, _)| alive(*end, now)).map(|(_, text)| text.to_owned()))
    };
    waiting.iter().map(living).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::join_all;
    use tempfile::TempDir;

    use crate::store::embedded::opener::Opener;
    use crate::store::suite::{TestClock, put};
    use crate::store::{Backend, BackendError, Batch};

    #[tokio::test]
    async fn keys_that_are_looked_for_at_once_are_each_found_and_the_threads_end() {
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(TestClock::default());
        let store = Opener::new(dir.path(), clock.clone()).open().unwrap();
        let writes = (0..500).map(|number| put(&format!("even:{}", number * 2), &number.to_string())).collect();
        store.apply(Batch { writes, ticket: None }).await.unwrap();
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
        assert_eq!(store.get("a").await.unwrap(), None, "the next one gets a thread of its own");
    }
}
