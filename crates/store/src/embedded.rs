//! The backend without a server: one redb file in the data directory, and a log in front of it.
//!
//! A batch is durable once its record is in the log (`wal`): one write and one wait for the disk, however many keys. What the log
//! holds is also in memory, where reads look first, and moves into the tables together, at the latest after `CHECKPOINT_AFTER`, and
//! when the file is closed or opened. The tables know the number of the last record that they have, in the same transaction.
//!
//! One table holds values by key, each with the moment its life ends. What is over is not read any more; a cursor that goes round the
//! table removes it (`tables::Sweep`), so that no write has to keep an index of ends. One process at a time may hold the file.
//! Nothing is ever deleted when the file is damaged: it is put aside under another name.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use redb::{Database, ReadableDatabase, TableDefinition};
use tokio::sync::{Semaphore, mpsc};

use crate::{Backend, BackendError, Batch, Steps, Ticket, counted};
use absent::Absent;
use domain::ids::Timestamp;
use memtable::{Memtable, Row};
use ports::{Clock, StoredRow, Write};
use reads::Reads;
use tables::{Known, Sweep};
use wal::Wal;

pub mod opener;

mod absent;

mod copying;

mod memtable;

mod reads;

mod tables;

mod wal;

#[cfg(test)]
mod tests;

/// The file in the data directory.
pub const FILE: &str = "staffai.redb";

/// The log in front of it, beside it.
pub const LOG_FILE: &str = "staffai.wal";

/// How long what is in the log alone waits for company before it moves into the tables.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(1);

/// How many scans are under way at once. Each takes a thread, and a disk does not get faster by more of them.
const SCANS: usize = 8;

/// Smaller files are never compacted.
const COMPACT_FROM_BYTES: u64 = 8 * 1024 * 1024;

/// A file that is so many times larger than what it holds is compacted when it is closed.
const COMPACT_FACTOR: u64 = 2;

/// Key to the moment its life ends, in milliseconds since the epoch (0: never), and its text.
const VALUES: TableDefinition<&str, (u64, &str)> = TableDefinition::new("values");

/// What files have that an earlier version made: keys by their ends.
const ENDS: TableDefinition<(u64, &str), ()> = TableDefinition::new("expiry");

/// The store that counted here last, and the number of its last batch of increments; and by [`LOGGED`] how far the log is in the
/// tables.
const APPLIED: TableDefinition<&str, u64> = TableDefinition::new("applied");

/// Beside the number of the last record of the log that the tables have. No store has this name.
const LOGGED: &str = "log";

/// An open file. Every call runs on a thread for blocking work.
pub struct Embedded {
    inner: Arc<Inner>,
}

/// The ticket of a record, and its rows.
type Resolved = (Option<Ticket>, Vec<(String, Row)>);

struct Inner {
    /// None once closed. Calls hold it for reading, so that closing waits for them.
    database: RwLock<Option<Database>>,
    path: PathBuf,
    clock: Arc<dyn Clock>,
    /// Held by whoever writes, from reading what there is until the rows are in memory or in the tables.
    wal: Mutex<Wal>,
    /// What is in the log and not in the tables.
    memtable: RwLock<Memtable>,
    /// What neither memory nor the tables have.
    absent: Mutex<Absent>,
    /// A checkpoint is on its way.
    checkpointing: AtomicBool,
    /// How far the round is that removes what is over.
    sweep: Mutex<Sweep>,
    /// Keys that are looked for in the tables.
    reads: Mutex<Reads>,
    /// One permit for each scan under way.
    scans: Arc<Semaphore>,
    /// Damage showed while the file was in use. Shared with the opener, which looks at all of it the next time.
    suspect: Arc<AtomicBool>,
}

impl Embedded {
    fn new(database: Database, wal: Wal, path: PathBuf, clock: Arc<dyn Clock>, suspect: Arc<AtomicBool>) -> Self {
        let (database, scans) = (RwLock::new(Some(database)), Arc::new(Semaphore::new(SCANS)));
        let (wal, memtable, checkpointing) = (Mutex::new(wal), RwLock::default(), AtomicBool::default());
        let (absent, sweep, reads) = (Mutex::default(), Mutex::default(), Mutex::default());
        let inner = Inner { database, path, clock, wal, memtable, absent, checkpointing, sweep, reads, scans, suspect };
        Self { inner: Arc::new(inner) }
    }

    async fn scan_tables<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database, Timestamp) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, BackendError> {
        let permit = Arc::clone(&self.inner.scans).acquire_owned().await;
        // The permit goes with the work: a reader that stops waiting leaves its thread busy.
        self.call(move |database, now| {
            let _permit = permit;
            work(database, now)
        })
        .await
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database, Timestamp) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, BackendError> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || {
            let guard = inner.database.read();
            let database = guard.as_ref().ok_or(redb::Error::DatabaseClosed)?;
            work(database, inner.clock.now())
        });
        match done.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.judge(&error)),
            Err(error) => {
                self.inner.suspect.fetch_or(error.is_panic(), Ordering::AcqRel);
                Err(BackendError::Broken(format!("the store's file could not be worked on: {error}")))
            }
        }
    }

    /// Moves what is in the log into the tables after a while, unless that is on its way.
    fn checkpoint_later(&self) {
        if self.inner.checkpointing.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            tokio::time::sleep(CHECKPOINT_AFTER).await;
            let Some(inner) = inner.upgrade() else { return };
            inner.checkpointing.store(false, Ordering::Release);
            let moved = tokio::task::spawn_blocking(move || {
                let guard = inner.database.read();
                guard.as_ref().map_or(Ok(()), |database| inner.checkpoint(database, &mut inner.wal.lock()))
            });
            // What was not moved is still in the log, and the next batch tries again.
            match moved.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the store's log could not be moved into its tables"),
                Err(error) => tracing::warn!(%error, "the store's log could not be moved into its tables"),
            }
        });
    }

    /// After an input or output error the library refuses everything until the file is opened anew.
    fn judge(&self, error: &redb::Error) -> BackendError {
        let text = format!("{}: {error}", self.inner.path.display());
        self.inner.suspect.fetch_or(damaged(error), Ordering::AcqRel);
        match error {
            redb::Error::Corrupted(_)
            | redb::Error::Io(_)
            | redb::Error::PreviousIo
            | redb::Error::DatabaseClosed
            | redb::Error::LockPoisoned(_) => BackendError::Broken(text),
            _ => BackendError::Failed(text),
        }
    }
}

#[async_trait]
impl Backend for Embedded {
    async fn get(&self, key: &str) -> Result<Option<String>, BackendError> {
        if let Some(row) = self.inner.memtable.read().get(key) {
            return Ok(row.living(self.inner.clock.now()).map(|(_, text)| text.to_owned()));
        }
        let Some(since) = self.inner.absent.lock().look(key) else { return Ok(None) };
        let found = match self.inner.look(key.to_owned()).await {
            Some(found) => found.map_err(|error| self.judge(&error))?,
            None => {
                return Err(BackendError::Broken("the thread that looks into the store's file broke off".to_owned()));
            }
        };
        Ok(found.map_err(|missing| self.inner.absent.lock().learn(key.to_owned(), missing, since)).ok())
    }

    async fn scan(&self, prefix: &str, limit: usize, _steps: &Steps) -> Result<Vec<(String, String)>, BackendError> {
        // Memory first: what leaves it meanwhile is in the tables before they are read.
        let now = self.inner.clock.now();
        let known: BTreeMap<String, Option<String>> = {
            let memtable = self.inner.memtable.read();
            let living = |row: &Row| row.living(now).map(|(_, text)| text.to_owned());
            memtable.with_prefix(prefix).map(|(key, row)| (key.clone(), living(row))).collect()
        };
        let hidden = known.len();
        let prefix = prefix.to_owned();
        let kept = self.scan_tables(move |database, now| {
            let values = database.begin_read()?.open_table(VALUES)?;
            let mut found = Vec::new();
            for row in values.range(prefix.as_str()..)? {
                let (key, value) = row?;
                if found.len() == limit + hidden || !key.value().starts_with(&prefix) {
                    break;
                }
                let (end, text) = value.value();
                if alive(end, now) {
                    found.push((key.value().to_owned(), text.to_owned()));
                }
            }
            Ok(found)
        });
        let kept = kept.await?;
        if known.is_empty() {
            return Ok(kept);
        }
        let mut rows: BTreeMap<String, Option<String>> =
            kept.into_iter().map(|(key, text)| (key, Some(text))).collect();
        rows.extend(known);
        Ok(rows.into_iter().filter_map(|(key, text)| Some((key, text?))).take(limit).collect())
    }

    async fn apply(&self, batch: Batch) -> Result<(), BackendError> {
        let inner = Arc::clone(&self.inner);
        let waits = self.call(move |database, now| inner.apply(database, now, batch)).await?;
        if waits {
            self.checkpoint_later();
        }
        Ok(())
    }

    async fn sweep(&self) -> Result<bool, BackendError> {
        let inner = Arc::clone(&self.inner);
        self.call(move |database, now| inner.sweep.lock().go_on(database, now)).await
    }

    async fn copy(&self, to: mpsc::Sender<StoredRow>) -> Result<(), BackendError> {
        let permit = Arc::clone(&self.inner.scans).acquire_owned().await;
        let inner = Arc::clone(&self.inner);
        let copied = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            inner.copy(&to)
        });
        match copied.await {
            Ok(copied) => copied.map_err(|error| self.judge(&error)),
            Err(error) => Err(BackendError::Failed(format!("a copy broke off: {error}"))),
        }
    }

    async fn close(&self) {
        let inner = Arc::clone(&self.inner);
        let closed = tokio::task::spawn_blocking(move || inner.close()).await;
        if let Err(error) = closed {
            tracing::error!(%error, "closing the store's file ended badly");
        }
    }
}

impl Drop for Embedded {
    /// Giving the file back writes to it, and that must not block the thread that drops the last handle.
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let inner = Arc::clone(&self.inner);
            runtime.spawn_blocking(move || drop(inner.take()));
        }
    }
}

impl Inner {
    /// Makes a batch durable; true when it is in the log and not in the tables yet.
    fn apply(&self, database: &Database, now: Timestamp, batch: Batch) -> Result<bool, redb::Error> {
        let mut wal = self.wal.lock();
        let (ticket, rows) = self.resolve(database, now, batch)?;
        let record = wal.append(ticket, rows)?;
        let full = {
            let mut memtable = self.memtable.write();
            memtable.take(record);
            memtable.is_full()
        };
        if full {
            self.checkpoint(database, &mut wal)?;
        }
        Ok(!full)
    }

    /// What a batch makes of its keys, and its ticket when its increments are counted in that.
    fn resolve(&self, database: &Database, now: Timestamp, batch: Batch) -> Result<Resolved, redb::Error> {
        let memtable = self.memtable.read();
        let mut known = Known::new(database);
        let ticket = if batch.counts() { batch.ticket.clone() } else { None };
        let counted_before = match &ticket {
            Some(ticket) => known.has_counted(memtable.ticket(), ticket)?,
            None => false,
        };
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for write in batch.writes {
            match write {
                Write::Put { key, value, ttl } => {
                    rows.insert(key, Row { end: ttl.map_or(0, |ttl| end_of(now, ttl)), text: Some(value) });
                }
                Write::Delete { key } => drop(rows.insert(key, Row { end: 0, text: None })),
                Write::Add { .. } if counted_before => {}
                Write::Add { key, by, ttl } => {
                    let sum = |before: Option<(u64, &str)>| {
                        let end = ttl.map_or_else(|| before.map_or(0, |(end, _)| end), |ttl| end_of(now, ttl));
                        Row { end, text: Some(counted(before.map(|(_, text)| text), by).to_string()) }
                    };
                    let row = match rows.get(&key).or_else(|| memtable.get(&key)) {
                        Some(row) => sum(row.living(now)),
                        None => known.row(&key, |row| sum(row.filter(|(end, _)| alive(*end, now))))?,
                    };
                    rows.insert(key, row);
                }
            }
        }
        Ok((ticket.filter(|_| !counted_before), rows.into_iter().collect()))
    }

    /// Moves what is in the log into the tables. The caller holds the log, so nobody writes meanwhile; reading goes on.
    fn checkpoint(&self, database: &Database, wal: &mut Wal) -> Result<(), redb::Error> {
        {
            let memtable = self.memtable.read();
            if memtable.is_empty() {
                return Ok(());
            }
            tables::take(database, &memtable)?;
            self.absent.lock().moved(&memtable);
        }
        self.memtable.write().clear();
        wal.rewind();
        Ok(())
    }

    fn close(&self) {
        let Some(mut database) = self.take() else { return };
        self.absent.lock().forget();
        let emptied = {
            let mut wal = self.wal.lock();
            self.checkpoint(&database, &mut wal).and_then(|()| Ok(wal.clear()?))
        };
        if let Err(error) = emptied {
            // The next opening does it.
            tracing::warn!(%error, "the store's log could not be moved into its tables");
        }
        match self.bloated(&database) {
            Ok(false) => {}
            Ok(true) => {
                if let Err(error) = database.compact() {
                    tracing::warn!(%error, "the store's file could not be compacted");
                }
            }
            Err(error) => tracing::warn!(%error, "the store's file could not be measured"),
        }
    }

    /// Waits for the calls under way; later ones fail.
    fn take(&self) -> Option<Database> {
        self.database.write().take()
    }

    /// Freed pages stay in the file until it is compacted.
    fn bloated(&self, database: &Database) -> Result<bool, redb::Error> {
        let size = fs::metadata(&self.path)?.len();
        if size < COMPACT_FROM_BYTES {
            return Ok(false);
        }
        let transaction = database.begin_write()?;
        let stats = transaction.stats()?;
        transaction.abort()?;
        Ok(size / COMPACT_FACTOR > stats.stored_bytes() + stats.metadata_bytes())
    }
}

/// Whether the content of the file is at fault, rather than the disk or the way to it.
fn damaged(error: &redb::Error) -> bool {
    match error {
        redb::Error::Corrupted(_) => true,
        redb::Error::Io(error) => matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof),
        _ => false,
    }
}

const fn alive(end: u64, now: Timestamp) -> bool {
    end == 0 || end > now.0
}

/// The moment a life that begins now ends; never 0, because that means no end.
fn end_of(now: Timestamp, ttl: Duration) -> u64 {
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    now.0.saturating_add(millis).max(1)
}
