//! The store used by the rest of the program: a backend behind an overlay of writes that are not durable yet.
//!
//! A write enters the overlay at once. One writer task commits it together with all other pending writes (group
//! commit). If the backend fails, times out, panics or cannot be opened, the overlay keeps serving, and the writer
//! retries until everything is merged. A failing backend never blocks a caller for longer than a deadline named here
//! and never causes an error for the caller.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use metrics::{counter, gauge};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use self::counts::Counts;
use self::overlay::{Overlay, Seen};
use self::recent::Recent;
use self::scan_permits::ScanPermits;
use self::shared::Shared;
use self::writer::Writer;
use crate::{Backend, FoundRows, OpenError, Steps, counted};
use domain::counter::Counter;
use domain::ids::{Person, Timestamp};
use domain::limits;
use domain::panic;
use ports::{Clock, Keeping, Limiter, Replaced, Scanned, Store, StoreStatus, Stored, StoredRow, Unreadable, Write};
use telemetry::events::STORE_UNSAVED;
use telemetry::metrics::{STORE_DEGRADED, STORE_WRITES_TOTAL};

mod ahead;

mod counts;

mod overlay;

mod owning;

mod reading;

mod recent;

mod scan_permits;

mod decision;

mod joining;

mod shared;

mod terms;

mod writer;

#[cfg(test)]
mod tests;

/// The time for which the first write waits for others before the commit.
const GATHER: Duration = Duration::from_millis(10);

/// The least time between two commits that are sent along with another request to a server.
const PIGGYBACK_INTERVAL: Duration = Duration::from_millis(5);

/// The number of pending keys that triggers an immediate commit.
const GATHERED_ENOUGH: usize = 512;

/// The deadline of a commit, a sweep or a reopening, after which the store is degraded.
const COMMIT_DEADLINE: Duration = Duration::from_secs(2);

/// The deadline of opening at startup; a repair after a crash may take a while.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);

/// The deadline of a read, after which the store is degraded.
const READ_DEADLINE: Duration = Duration::from_secs(1);

/// The deadline of one step of a scan, after which the store is degraded.
const SCAN_DEADLINE: Duration = Duration::from_secs(5);

/// The first backoff of a failing backend; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_millis(100);

/// The longest backoff of a failing backend.
const RETRY_MOST: Duration = Duration::from_secs(5);

/// The interval between sweeps of expired keys.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// The pause before the next sweep if one left work behind.
const SWEEP_AGAIN: Duration = Duration::from_millis(500);

/// The most keys in the overlay.
const OVERLAY_ENTRIES: usize = 20_000;

const OVERLAY_BYTES: usize = 16 * 1024 * 1024;

/// Bounds and pauses of the store. Only tests need other values than the default.
#[derive(Debug, Clone, Copy)]
pub struct StoreBounds {
    /// The time for which the first write waits for others.
    pub gather: Duration,
    /// The deadline of a commit, a sweep or a reopening.
    pub commit: Duration,
    /// The deadline of a read.
    pub read: Duration,
    /// The least adaptive deadline of a commit. If equal to `commit`, the deadline is fixed.
    pub commit_least: Duration,
    /// The same for a read and a limit decision.
    pub read_least: Duration,
    /// The deadline of one step of a scan.
    pub scan: Duration,
    /// The first backoff of a failing backend.
    pub retry_first: Duration,
    /// The longest backoff.
    pub retry_most: Duration,
    /// The interval between sweeps.
    pub sweep: Duration,
    /// The most keys in the overlay.
    pub entries: usize,
    /// The most bytes in the overlay.
    pub bytes: usize,
}

impl Default for StoreBounds {
    fn default() -> Self {
        Self {
            gather: GATHER,
            commit: COMMIT_DEADLINE,
            read: READ_DEADLINE,
            commit_least: COMMIT_DEADLINE,
            read_least: READ_DEADLINE,
            scan: SCAN_DEADLINE,
            retry_first: RETRY_FIRST,
            retry_most: RETRY_MOST,
            sweep: SWEEP_EVERY,
            entries: OVERLAY_ENTRIES,
            bytes: OVERLAY_BYTES,
        }
    }
}

/// A store that survives failures of its backend. Dropping it commits pending writes in the background.
pub struct Resilient<B: Backend> {
    shared: Arc<Shared<B>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Held while a value is replaced in a backend without other writers.
    replacing: tokio::sync::Mutex<()>,
    scans: ScanPermits,
}

impl<B: Backend> Resilient<B> {
    /// Opens the backend and starts the writer task. If the backend cannot be opened, the store starts degraded and
    /// retries in the background. `open` may block.
    ///
    /// # Errors
    /// Only [`OpenError::InUse`] and [`OpenError::Later`]: retrying would not help.
    pub async fn start(
        open: impl Fn() -> Result<B, OpenError> + Send + Sync + 'static,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        Self::start_with(open, clock, StoreBounds::default()).await
    }

    /// Like [`Self::start`], with custom bounds.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_with(
        open: impl Fn() -> Result<B, OpenError> + Send + Sync + 'static,
        clock: Arc<dyn Clock>,
        limits: StoreBounds,
    ) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::new(clock, limits));
        gauge!(STORE_DEGRADED).set(0.0);
        let mut writer = Writer::new(Arc::clone(&shared), Arc::new(open));
        writer.first_open(OPEN_DEADLINE).await?;
        let task = tokio::spawn(writer.run());
        Ok(Self {
            shared,
            writer: Mutex::new(Some(task)),
            replacing: tokio::sync::Mutex::default(),
            scans: ScanPermits::default(),
        })
    }

    /// Replaces a value of a backend with other writers.
    async fn replace_shared(&self, key: &str, seen: Option<&str>, value: &str) -> Replaced {
        // A recovering backend is not used before pending writes are merged.
        if !self.counts_landed().await {
            return Replaced::Away;
        }
        let Some(backend) = self.shared.lock().readable() else { return Replaced::Away };
        let replaced = backend.replace(key, seen, value);
        match self.shared.read_backend(&backend, self.shared.limits.commit, &Steps::default(), replaced).await {
            Some(true) => Replaced::Done,
            Some(false) => Replaced::Other,
            None => Replaced::Away,
        }
    }

    fn counting(&self, holds: impl FnOnce(&Counts) -> bool) -> bool {
        holds(&self.shared.lock().overlay.counts)
    }

    /// Reads a counter with pending increments. The backend's value is used once these are durable; before that it is
    /// unknown if it includes them.
    async fn read_counter(&self, key: &str) -> Stored {
        let counted = self.counts_landed().await;
        let (backend, missing) = {
            let state = self.shared.lock();
            if let Some(known) = known(&state.overlay, key, self.shared.clock.now()) {
                return known;
            }
            (state.readable(), if counted { None } else { state.overlay.counts.of(key) })
        };
        let base = match backend {
            Some(backend) => self.shared.read_one(&backend, key).await,
            None => Stored::Unreadable(Unreadable::NoAnswer),
        };
        match missing {
            Some(by) => Stored::Value(counted_text(base.value().as_deref(), by)),
            None => base,
        }
    }

    /// Waits until everything written so far is durable, at most for the deadline of a read. Returns false on a
    /// timeout.
    async fn counts_landed(&self) -> bool {
        let number = {
            let state = self.shared.lock();
            if state.status != StoreStatus::Ready {
                return false;
            }
            state.overlay.last()
        };
        let mut progress = self.shared.progress.subscribe();
        if progress.borrow().of(number).is_none() {
            self.shared.enough.notify_one();
        }
        let landed = progress.wait_for(|progress| progress.of(number).is_some());
        match timeout(self.shared.limits.read, landed).await {
            Ok(Ok(progress)) => progress.of(number).unwrap_or(false),
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

impl<B: Backend> Limiter for Resilient<B> {
    fn step(&self, request: limits::Request) -> BoxFuture<'static, limits::Decision> {
        if !B::SHARED {
            return Box::pin(ready(self.shared.decide(&request)));
        }
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { decision::decide_limit(&shared, &request).await })
    }
}

impl<B: Backend> Store for Resilient<B> {
    fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Stored> {
        Box::pin(async move {
            if self.counting(|counts| counts.of(key).is_some()) {
                return self.read_counter(key).await;
            }
            let (backend, begun, before) = {
                let mut state = self.shared.lock();
                let now = self.shared.clock.now();
                if let Some(known) = known(&state.overlay, key, now) {
                    return known;
                }
                if !B::SHARED
                    && let Some(value) = state.recent.written(key, now)
                {
                    return Stored::Value(value);
                }
                let Some(backend) = state.readable() else { return cached(&state.recent, key, now) };
                (backend, state.ahead.take(key), state.overlay.last())
            };
            let begun = match begun {
                Some(begun) => begun.await.ok(),
                None => None,
            };
            let read = match begun {
                Some(read) => read,
                None => self.shared.read_one(&backend, key).await,
            };
            let now = self.shared.clock.now();
            let mut state = self.shared.lock();
            // The value read may be older than a concurrent write.
            let changed = state.overlay.last() != before;
            if changed && let Some(known) = known(&state.overlay, key, now) {
                return known;
            }
            match &read {
                Stored::Unreadable(Unreadable::NoAnswer) => return cached(&state.recent, key, now),
                Stored::Value(value) if !changed => state.recent.read(key, Some(value), now),
                Stored::Absent if !changed => state.recent.read(key, None, now),
                Stored::Unreadable(Unreadable::NotText) if !changed => state.recent.forget(key),
                _ => {}
            }
            read
        })
    }

    fn read_ahead(&self, keys: Vec<String>) {
        if B::SHARED {
            for key in keys {
                self.shared.read_ahead(key);
            }
        }
    }

    fn scan_many<'a>(
        &'a self,
        prefixes: &'a [&'a str],
        limit: usize,
        person: Option<&'a Person>,
    ) -> BoxFuture<'a, FoundRows> {
        Box::pin(async move {
            let is_readable = self.shared.lock().readable().is_some();
            let permit = if is_readable { self.scans.take(person).await } else { None };
            let counting = self.counting(|counts| prefixes.iter().any(|prefix| !counts.with_prefix(prefix).is_empty()));
            let counted = !counting || self.counts_landed().await;
            // The overlay is read first: entries that leave it afterwards are durable before the backend is read.
            let (waiting, backend) = {
                let state = self.shared.lock();
                let now = self.shared.clock.now();
                let of = |prefix: &&str| {
                    let counts = if counted { Vec::new() } else { state.overlay.counts.with_prefix(prefix) };
                    (state.overlay.scan(prefix, limit, now), counts)
                };
                let waiting: Vec<_> = prefixes.iter().map(of).collect();
                (waiting, state.readable().filter(|_| permit.is_some()))
            };
            let hidden = |(waiting, _): &(Vec<(String, Option<String>)>, _)| {
                waiting.iter().filter(|(_, value)| value.is_none()).count()
            };
            let hidden = waiting.iter().map(hidden).max().unwrap_or_default();
            let kept = match backend {
                Some(backend) => {
                    let steps = Steps::default();
                    let rows = backend.scan_many(prefixes, limit.saturating_add(hidden), &steps);
                    self.shared.read_backend(&backend, self.shared.limits.scan, &steps, rows).await
                }
                None => None,
            };
            let none = || Scanned::new(vec![Vec::new(); prefixes.len()], false);
            kept.unwrap_or_else(none).map(|kept| {
                let merged = |(kept, (waiting, counts))| merge(add_up(kept, counts), waiting, limit);
                kept.into_iter().zip(waiting).map(merged).collect()
            })
        })
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'static, bool> {
        if writes.is_empty() {
            return Box::pin(ready(true));
        }
        counter!(STORE_WRITES_TOTAL).increment(writes.len() as u64);
        let Some(number) = self.shared.take(writes, None) else { return Box::pin(ready(false)) };
        let mut progress = self.shared.progress.subscribe();
        Box::pin(async move {
            match progress.wait_for(|progress| progress.of(number).is_some()).await {
                Ok(progress) => progress.of(number).unwrap_or(false),
                Err(_) => false,
            }
        })
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'static, bool> {
        let durable = self.write(writes);
        self.shared.enough.notify_one();
        durable
    }

    fn send(&self, writes: Vec<Write>) -> BoxFuture<'static, ()> {
        counter!(STORE_WRITES_TOTAL).increment(writes.len() as u64);
        let number = if writes.is_empty() { None } else { self.shared.take(writes, None) };
        let Some(number) = number.filter(|_| B::SHARED) else { return Box::pin(ready(())) };
        let mut progress = self.shared.progress.subscribe();
        Box::pin(async move {
            // A store that was dropped sends nothing.
            let _ = progress.wait_for(|progress| progress.is_sent(number)).await;
        })
    }

    fn replace<'a>(&'a self, key: &'a str, seen: Option<&'a str>, value: &'a str) -> BoxFuture<'a, Replaced> {
        Box::pin(async move {
            if B::SHARED {
                return self.replace_shared(key, seen, value).await;
            }
            let _alone = self.replacing.lock().await;
            let held = self.read(key).await;
            if matches!(held, Stored::Unreadable(_)) || self.status() != StoreStatus::Ready {
                return Replaced::Away;
            }
            if held.value().as_deref() != seen {
                return Replaced::Other;
            }
            let put = Write::Put { key: key.to_owned(), value: value.to_owned(), ttl: None };
            if self.commit(vec![put]).await { Replaced::Done } else { Replaced::Away }
        })
    }

    fn status(&self) -> StoreStatus {
        self.shared.lock().status.clone()
    }

    fn copy(&self, to: mpsc::Sender<StoredRow>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let away = || {
                "the store does not answer, and a copy of memory alone would be incomplete; try again later".to_owned()
            };
            if !self.counts_landed().await {
                return Err(away());
            }
            let backend = self.shared.lock().readable().ok_or_else(away)?;
            match AssertUnwindSafe(backend.copy(to)).catch_unwind().await {
                Ok(copied) => copied.map_err(|error| error.to_string()),
                Err(caught) => Err(format!("a copy panicked: {}", panic::text(caught.as_ref()))),
            }
        })
    }

    fn keeping(&self) -> Keeping {
        self.shared.lock().keeping.clone()
    }

    fn close(&self, within: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let deadline = Instant::now() + within;
            self.shared.closing.cancel();
            let task = self.writer.lock().take();
            if let Some(mut task) = task
                && timeout_at(deadline, &mut task).await.is_err()
            {
                task.abort();
            }
            let (backend, left) = self.shared.shut();
            if left > 0 {
                tracing::warn!(event = STORE_UNSAVED, keys = left, "the store closed before everything was durable");
            }
            let Some(backend) = backend else { return left == 0 };
            match timeout_at(deadline, AssertUnwindSafe(backend.close()).catch_unwind()).await {
                Ok(Ok(())) => {}
                Ok(Err(caught)) => {
                    tracing::error!(reason = %panic::text(caught.as_ref()), "closing the store panicked");
                }
                Err(_) => tracing::warn!("the store did not close before its deadline"),
            }
            left == 0
        })
    }
}

impl<B: Backend> Drop for Resilient<B> {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

/// Returns what the overlay holds of a key; `None` if the backend decides.
fn known(overlay: &Overlay, key: &str, now: Timestamp) -> Option<Stored> {
    match overlay.get(key, now) {
        Seen::Live(value) => Some(Stored::Value(value.to_owned())),
        Seen::Part(value) => Some(Stored::Part(value.to_owned())),
        Seen::Gone => Some(Stored::Absent),
        Seen::Unknown => None,
    }
}

/// Returns the cached value of a key that the backend does not answer for.
fn cached(recent: &Recent, key: &str, now: Timestamp) -> Stored {
    recent.get(key, now).unwrap_or(Stored::Unreadable(Unreadable::NoAnswer))
}

/// Adds pending increments to the counters of the backend.
fn add_up(kept: Vec<(String, String)>, counts: Vec<(String, Counter)>) -> Vec<(String, String)> {
    let mut rows: std::collections::BTreeMap<String, String> = kept.into_iter().collect();
    for (key, by) in counts {
        let sum = counted_text(rows.get(&key).map(String::as_str), by);
        rows.insert(key, sum);
    }
    rows.into_iter().collect()
}

fn counted_text(before: Option<&str>, by: Counter) -> String {
    counted(before, by).to_string()
}

/// Merges rows of the backend with the overlay, which takes precedence; returns the first `limit` live keys.
fn merge(kept: Vec<(String, String)>, waiting: Vec<(String, Option<String>)>, limit: usize) -> Vec<(String, String)> {
    let mut rows: std::collections::BTreeMap<String, Option<String>> =
        kept.into_iter().map(|(key, value)| (key, Some(value))).collect();
    rows.extend(waiting);
    rows.into_iter().filter_map(|(key, value)| Some((key, value?))).take(limit).collect()
}
