//! The serverless backend: one redb file in the data directory, with a write-ahead log in front.
//!
//! A batch is durable once its record is in the log (`wal`): one write and one sync, regardless of the number of keys.
//! The contents of the log are also in memory, which reads consult first. A checkpoint moves them into the tables at
//! the latest after `CHECKPOINT_AFTER`, and when the file is closed or opened. The same transaction stores the number
//! of the last moved record.
//!
//! One table holds values by key, each with its expiry. Expired rows are not returned; a cursor that cycles through the
//! table removes them (`tables::Sweep`), so that writes maintain no index of expiries. Only one process at a time may
//! open the file. A damaged file is never deleted, only renamed.

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

use crate::{Backend, BackendError, Batch, FoundRows, OwnedWrites, Steps, Ticket, counted};
use absent::Absent;
use domain::ids::Timestamp;
use domain::keys;
use domain::ownership::{FencingToken, Range, Term};
use memtable::{Memtable, Row};
use ports::{Clock, Scanned, StoredRow, Write};
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

/// The log file, in the same directory.
pub const LOG_FILE: &str = "staffai.wal";

/// The longest time between a write to the log and the checkpoint.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(1);

/// The most concurrent scans. Each takes a thread, and more of them do not make a disk faster.
const SCANS: usize = 8;

/// The smallest file that is compacted, in bytes.
const COMPACT_FROM_BYTES: u64 = 8 * 1024 * 1024;

/// The ratio of file size to content from which a file is compacted when closed.
const COMPACT_FACTOR: u64 = 2;

/// Key to expiry, in milliseconds since the epoch (0: never), and text.
const VALUES: TableDefinition<&str, (u64, &str)> = TableDefinition::new("values");

/// The index of expiries in files of an earlier version.
const ENDS: TableDefinition<(u64, &str), ()> = TableDefinition::new("expiry");

/// The last store that counted increments, with the number of its last batch; and under [`LOGGED`] the last log record
/// in the tables.
const APPLIED: TableDefinition<&str, u64> = TableDefinition::new("applied");

/// The key of the last log record in the tables. No store has this name.
const LOGGED: &str = "log";

/// An open file. Every call runs on a blocking thread.
pub struct Embedded {
    inner: Arc<Inner>,
}

/// The ticket of a record, and its rows.
type Resolved = (Option<Ticket>, Vec<(String, Row)>);

struct Inner {
    /// `None` once closed. Calls hold a read lock, so closing waits for them.
    database: RwLock<Option<Database>>,
    path: PathBuf,
    clock: Arc<dyn Clock>,
    /// Held by a writer from reading the old rows until the new ones are in memory or in the tables.
    wal: Mutex<Wal>,
    /// Rows in the log but not in the tables.
    memtable: RwLock<Memtable>,
    /// Keys known to be in neither memory nor the tables.
    absent: Mutex<Absent>,
    /// True while a checkpoint is scheduled or running.
    checkpointing: AtomicBool,
    /// The position of the removal of expired rows.
    sweep: Mutex<Sweep>,
    /// Lookups of single keys in the tables.
    reads: Mutex<Reads>,
    /// One permit for each concurrent scan.
    scans: Arc<Semaphore>,
    /// Set when damage was detected during use. Shared with the opener, which then verifies the whole file.
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
        // The permit moves into the work: a cancelled reader leaves its thread busy.
        self.call(move |database, now| {
            let _permit = permit;
            work(database, now)
        })
        .await
    }

    /// Returns the live rows with this prefix, by key; at most `limit`.
    async fn rows(&self, prefix: &str, limit: usize) -> Result<Vec<(String, String)>, BackendError> {
        // Memory is read first: rows that leave it afterwards are in the tables before these are read.
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
                Err(BackendError::Broken(format!("the work on the store's file failed: {error}")))
            }
        }
    }

    /// Schedules a checkpoint, unless one is scheduled.
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
            // On failure the rows stay in the log, and the next batch retries.
            match moved.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn_unmoved(&error),
                Err(error) => warn_unmoved(&error),
            }
        });
    }

    /// After an I/O error, redb rejects all calls until the file is reopened.
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
                return Err(BackendError::Broken("the thread that reads the store's file was aborted".to_owned()));
            }
        };
        Ok(found.map_err(|missing| self.inner.absent.lock().learn(key.to_owned(), missing, since)).ok())
    }

    async fn scan_many(&self, prefixes: &[&str], limit: usize, steps: &Steps) -> Result<FoundRows, BackendError> {
        let mut found = Vec::with_capacity(prefixes.len());
        for prefix in prefixes {
            found.push(self.rows(prefix, limit).await?);
            steps.done();
        }
        Ok(Scanned::new(found, true))
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Range>, BackendError> {
        let inner = Arc::clone(&self.inner);
        let (waits, refused) = self.call(move |database, now| inner.apply(database, now, batch)).await?;
        if waits {
            self.checkpoint_later();
        }
        Ok(refused)
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
            Err(error) => Err(BackendError::Failed(format!("a copy was aborted: {error}"))),
        }
    }

    async fn close(&self) {
        let inner = Arc::clone(&self.inner);
        let closed = tokio::task::spawn_blocking(move || inner.close()).await;
        if let Err(error) = closed {
            tracing::error!(%error, "closing the store's file failed");
        }
    }
}

impl Drop for Embedded {
    /// Closing writes to the file and must not block the thread that drops the last handle.
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let inner = Arc::clone(&self.inner);
            runtime.spawn_blocking(move || drop(inner.take()));
        }
    }
}

impl Inner {
    /// Makes a batch durable. Returns true if it is in the log but not yet in the tables, and the ranges whose writes
    /// were refused.
    fn apply(&self, database: &Database, now: Timestamp, batch: Batch) -> Result<(bool, Vec<Range>), redb::Error> {
        let mut wal = self.wal.lock();
        let (batch, refused) = self.of_owners(database, batch)?;
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
        Ok((!full, refused))
    }

    /// Compares the tokens of owners. Returns the batch with the writes of current owners, and the ranges of the
    /// others.
    fn of_owners(&self, database: &Database, batch: Batch) -> Result<(Batch, Vec<Range>), redb::Error> {
        let Batch { mut writes, owned, ticket } = batch;
        let (memtable, mut known, mut refused) = (self.memtable.read(), Known::new(database), Vec::new());
        for OwnedWrites { term: Term { range, token }, writes: more } in owned {
            let key = keys::term(&range);
            let newest = match memtable.get(&key) {
                Some(row) => FencingToken::stored(row.text.as_deref()),
                None => known.row(&key, |row| FencingToken::stored(row.map(|(_, text)| text)))?,
            };
            if newest > token {
                refused.push(range);
                continue;
            }
            if newest < token {
                writes.push(Write::Put { key, value: token.to_string(), ttl: None });
            }
            writes.extend(more);
        }
        Ok((Batch { writes, owned: Vec::new(), ticket }, refused))
    }

    /// Returns the resulting rows of a batch, and its ticket if its increments are counted in them.
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
                Write::Put { key, value, ttl } | Write::Join { key, value, ttl } => {
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

    /// Moves the contents of the log into the tables. The caller holds the log, which blocks writers but not readers.
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
            // The next opening retries.
            warn_unmoved(&error);
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

    /// Waits for running calls and takes the database; later calls fail.
    fn take(&self) -> Option<Database> {
        self.database.write().take()
    }

    /// True if the file must be compacted: freed pages stay in it until then.
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

fn warn_unmoved(error: &dyn std::fmt::Display) {
    tracing::warn!(%error, "the store's log could not be moved into its tables");
}

/// True if the contents of the file are damaged, rather than the disk or the access to it.
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

/// Returns the expiry of a TTL that begins now; never 0, which means no expiry.
fn end_of(now: Timestamp, ttl: Duration) -> u64 {
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    now.0.saturating_add(millis).max(1)
}
