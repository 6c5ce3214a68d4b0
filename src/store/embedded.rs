//! The backend without a server: one redb file in the data directory.
//!
//! Two tables: values by key, each with the moment its life ends, and an index by that moment for the sweep. A life that gets
//! longer, which most do with each write, stays in the index at its earlier end; the sweep finds it there and moves it. One
//! process at a time may hold the file. Nothing is ever deleted when the file is damaged: it is put aside under another name.

use std::fs;
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use parking_lot::RwLock;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, StorageError, Table, TableDefinition};
use tokio::sync::Semaphore;

use crate::domain::ids::Timestamp;
use crate::ports::{Clock, Write};
use crate::store::{Backend, BackendError, Batch, Steps, Ticket, counted};

pub mod opener;

#[cfg(test)]
mod tests;

/// The file in the data directory.
pub const FILE: &str = "staffai.redb";

/// How many keys one sweep removes, so that no sweep holds up the commits behind it.
const SWEEP_ROWS: usize = 1_000;

/// How many reads are under way at once. Each takes a thread, and a disk does not get faster by more of them.
const READS: usize = 8;

/// Smaller files are never compacted.
const COMPACT_FROM_BYTES: u64 = 8 * 1024 * 1024;

/// A file that is so many times larger than what it holds is compacted when it is closed.
const COMPACT_FACTOR: u64 = 2;

/// Key to the moment its life ends, in milliseconds since the epoch (0: never), and its text.
const VALUES: TableDefinition<&str, (u64, &str)> = TableDefinition::new("values");

/// The keys that have an end, by that end or an earlier one.
const EXPIRY: TableDefinition<(u64, &str), ()> = TableDefinition::new("expiry");

/// The store that counted here last, and the number of its last batch of increments.
const APPLIED: TableDefinition<&str, u64> = TableDefinition::new("applied");

/// A counter's life is only changed when its end moves by more than this part of it: the index of ends would otherwise be
/// written with each increment.
const LIFE_SLACK: u64 = 16;

/// An open file. Every call runs on a thread for blocking work.
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    /// None once closed. Calls hold it for reading, so that closing waits for them.
    database: RwLock<Option<Database>>,
    path: PathBuf,
    clock: Arc<dyn Clock>,
    /// One permit for each read under way.
    reads: Arc<Semaphore>,
    /// Damage showed while the file was in use. Shared with the opener, which looks at all of it the next time.
    suspect: Arc<AtomicBool>,
}

impl Embedded {
    fn new(database: Database, path: PathBuf, clock: Arc<dyn Clock>, suspect: Arc<AtomicBool>) -> Self {
        let (database, reads) = (RwLock::new(Some(database)), Arc::new(Semaphore::new(READS)));
        Self { inner: Arc::new(Inner { database, path, clock, reads, suspect }) }
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database, Timestamp) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, BackendError> {
        let permit = Arc::clone(&self.inner.reads).acquire_owned().await;
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
        let key = key.to_owned();
        self.read(move |database, now| {
            let values = database.begin_read()?.open_table(VALUES)?;
            let Some(row) = values.get(key.as_str())? else { return Ok(None) };
            let (end, text) = row.value();
            Ok(alive(end, now).then(|| text.to_owned()))
        })
        .await
    }

    async fn scan(&self, prefix: &str, limit: usize, _steps: &Steps) -> Result<Vec<(String, String)>, BackendError> {
        let prefix = prefix.to_owned();
        self.read(move |database, now| {
            let values = database.begin_read()?.open_table(VALUES)?;
            let mut found = Vec::new();
            for row in values.range(prefix.as_str()..)? {
                let (key, value) = row?;
                if found.len() == limit || !key.value().starts_with(&prefix) {
                    break;
                }
                let (end, text) = value.value();
                if alive(end, now) {
                    found.push((key.value().to_owned(), text.to_owned()));
                }
            }
            Ok(found)
        })
        .await
    }

    async fn apply(&self, batch: Batch) -> Result<(), BackendError> {
        self.call(move |database, now| commit(database, now, &batch)).await
    }

    async fn sweep(&self) -> Result<bool, BackendError> {
        self.call(sweep).await
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
    fn close(&self) {
        let Some(mut database) = self.take() else { return };
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

fn commit(database: &Database, now: Timestamp, batch: &Batch) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        let counts = match &batch.ticket {
            // Opening one more table is not free.
            Some(ticket) if batch.counts() => take_ticket(&mut transaction.open_table(APPLIED)?, ticket)?,
            _ => true,
        };
        let mut values = transaction.open_table(VALUES)?;
        let mut expiry = transaction.open_table(EXPIRY)?;
        for write in &batch.writes {
            if counts || !matches!(write, Write::Add { .. }) {
                apply_one(write, now, &mut values, &mut expiry)?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Whether the increments of this ticket are still to be counted. Only one store at a time has the file, so only the last
/// one is remembered.
fn take_ticket(applied: &mut Table<'_, &'static str, u64>, ticket: &Ticket) -> Result<bool, StorageError> {
    let last = applied.get(&*ticket.writer)?.map(|last| last.value());
    if last.is_some_and(|last| last >= ticket.number) {
        return Ok(false);
    }
    if last.is_none() {
        applied.retain(|_, _| false)?;
    }
    applied.insert(&*ticket.writer, ticket.number)?;
    Ok(true)
}

fn apply_one(
    write: &Write,
    now: Timestamp,
    values: &mut Table<'_, &'static str, (u64, &'static str)>,
    expiry: &mut Table<'_, (u64, &'static str), ()>,
) -> Result<(), StorageError> {
    let (key, old, end) = match write {
        Write::Put { key, value, ttl } => {
            let end = ttl.map_or(0, |ttl| end_of(now, ttl));
            let old = values.insert(key.as_str(), (end, value.as_str()))?.map(|old| old.value().0);
            (key, old, end)
        }
        Write::Add { key, by, ttl } => {
            let mut row = values.get_mut(key.as_str())?;
            let before = row.as_ref().map(redb::AccessGuardMut::value);
            let living = before.filter(|(end, _)| alive(*end, now));
            let sum = counted(living.map(|(_, text)| text), *by).to_string();
            let end = counter_end(living.map(|(end, _)| end), *ttl, now);
            let old = before.map(|(end, _)| end);
            if let Some(row) = &mut row {
                row.insert((end, sum.as_str()))?;
            } else {
                drop(row);
                values.insert(key.as_str(), (end, sum.as_str()))?;
            }
            (key, old, end)
        }
        Write::Delete { key } => (key, values.remove(key.as_str())?.map(|old| old.value().0), 0),
    };
    if old.is_some_and(|old| old == end || (old != 0 && old < end)) {
        return Ok(());
    }
    if end != 0 {
        expiry.insert((end, key.as_str()), ())?;
    }
    if let Some(old) = old.filter(|old| *old != 0) {
        expiry.remove((old, key.as_str()))?;
    }
    Ok(())
}

/// When a counter's life ends after an increment.
fn counter_end(before: Option<u64>, ttl: Option<std::time::Duration>, now: Timestamp) -> u64 {
    let Some(ttl) = ttl else { return before.unwrap_or(0) };
    let end = end_of(now, ttl);
    let near = |before: &u64| end.abs_diff(*before) <= (end - now.0.min(end)) / LIFE_SLACK;
    before.filter(near).unwrap_or(end)
}

fn sweep(database: &Database, now: Timestamp) -> Result<bool, redb::Error> {
    let over: Vec<(u64, String)> = {
        let expiry = database.begin_read()?.open_table(EXPIRY)?;
        let until = (Bound::Unbounded, Bound::Excluded((now.0.saturating_add(1), "")));
        let rows = expiry.range::<(u64, &str)>(until)?.take(SWEEP_ROWS);
        rows.map(|row| row.map(|(at, _)| (at.value().0, at.value().1.to_owned()))).collect::<Result<_, _>>()?
    };
    if over.is_empty() {
        return Ok(false);
    }
    let transaction = database.begin_write()?;
    {
        let mut values = transaction.open_table(VALUES)?;
        let mut expiry = transaction.open_table(EXPIRY)?;
        for (at, key) in &over {
            expiry.remove((*at, key.as_str()))?;
            let end = values.get(key.as_str())?.map(|row| row.value().0);
            if end.is_some_and(|end| !alive(end, now)) {
                values.remove(key.as_str())?;
            } else if let Some(end) = end.filter(|end| *end != 0) {
                expiry.insert((end, key.as_str()), ())?;
            }
        }
    }
    transaction.commit()?;
    Ok(over.len() == SWEEP_ROWS)
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
fn end_of(now: Timestamp, ttl: std::time::Duration) -> u64 {
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    now.0.saturating_add(millis).max(1)
}
