//! Storage of state. [`resilient::Resilient`] is the store used by the rest of the program; a [`Backend`] persists its
//! text.
//!
//! A backend may fail, hang, panic or be absent; the resilient layer hides all of that. Backends handle only keys and
//! text: the caller interprets values and handles unreadable ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use domain::counter::Counter;
use domain::ids::Timestamp;
use domain::keys;
use domain::limits::member_windows::Changes;
use domain::limits::window_log::WindowLog;
use domain::limits::{Decision, Request};
use domain::ownership::{FencingToken, Range, Term};
use ports::{Keeping, Row, Scanned, StoredRow, Write};

pub mod resilient;

pub mod embedded;

pub mod redis;

pub mod failing;

pub mod turns;

#[cfg(test)]
mod suite;

/// Durable storage of text by key. Every call may fail. An implementation needs no timeouts: the caller applies a
/// deadline to each call and never runs more than one `apply` or `sweep` at a time.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// True if several processes write to it; it then decides about limits itself. Otherwise the layer above decides,
    /// stores the entries as text, and does not read back values that it wrote and still caches.
    const SHARED: bool = false;

    /// Returns the value of a live key.
    ///
    /// # Errors
    /// See [`BackendError`]; [`BackendError::NotText`] if the value cannot be read.
    async fn get(&self, key: &str) -> Result<Option<String>, BackendError>;

    /// Returns for each prefix the live keys with it and their values, by key; at most `limit` of each. A backend that must
    /// visit many other keys does so once for all prefixes, in steps, and counts each. At most [`SCANS_AT_ONCE`] run.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn scan_many(&self, prefixes: &[&str], limit: usize, steps: &Steps) -> Result<FoundRows, BackendError>;

    /// Like [`Self::scan_many`], for one prefix; a part of the rows if there are too many keys to visit.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn scan(&self, prefix: &str, limit: usize, steps: &Steps) -> Result<Vec<Row>, BackendError> {
        self.scan_many(&[prefix], limit, steps).await.map(|found| found.only().part())
    }

    /// Applies the writes atomically and in order; none is a [`Write::Join`]. They are durable when this returns. After an error either all or
    /// none are applied, and applying them again must be harmless. Writes under a term are refused if its range has a
    /// token above the term's; otherwise the term's token becomes the newest of the range. Returns the ranges whose
    /// writes were refused; refused writes have no effect.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn apply(&self, batch: Batch) -> Result<Vec<Range>, BackendError>;

    /// Copies a value that is not text to another key, with this TTL. Returns false if the backend has no such values.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn set_aside(&self, _key: &str, _aside: &str, _ttl: Duration) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Issues the next token of a range durably. Tokens may be skipped if the request was repeated.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn take_token(&self, range: &Range) -> Result<FencingToken, BackendError> {
        // Only one process has this backend, so no other can interfere.
        let key = keys::term(range);
        let token = FencingToken::stored(self.get(&key).await?.as_deref()).next();
        self.apply(vec![Write::Put { key, value: token.to_string(), ttl: None }].into()).await?;
        Ok(token)
    }

    /// Sets a key, without expiry, if it holds `seen`. Returns false if it holds something else, which may be `value`
    /// if the request was repeated. Durable when this returns. Only called if [`Self::SHARED`].
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn replace(&self, _key: &str, _seen: Option<&str>, _value: &str) -> Result<bool, BackendError> {
        Err(BackendError::Failed("it does not support compare-and-set".to_owned()))
    }

    /// Decides one step about limits, after applying the changes made elsewhere. Only called if [`Self::SHARED`].
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn decide_limit(&self, _request: &Request, _known: &AccountsKnown) -> Result<LimitOutcome, BackendError> {
        Err(BackendError::Failed("it does not decide about limits".to_owned()))
    }

    /// Merges the limit decisions made during an outage; merging them twice must be harmless. Only called if
    /// [`Self::SHARED`].
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn merge(&self, _changes: &[Changes]) -> Result<(), BackendError> {
        Ok(())
    }

    /// Removes a bounded number of expired keys. Returns true if more are left. A backend that expires keys itself does
    /// nothing.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn sweep(&self) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Sends every live key. Stops when the receiver is dropped.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn copy(&self, to: mpsc::Sender<StoredRow>) -> Result<(), BackendError>;

    /// Returns the data that the server's settings can lose and the promises that they break; `None` if unknown. Called
    /// after opening and with each sweep.
    async fn keeping(&self) -> Option<Keeping> {
        None
    }

    /// Releases the backend's resources. Later calls fail.
    async fn close(&self);
}

/// The most scans of one backend at once.
pub const SCANS_AT_ONCE: usize = 4;

/// The rows of each prefix of a scan.
pub type FoundRows = Scanned<Vec<Vec<Row>>>;

/// The progress of a scan. A scan that makes steps is slow but not stuck.
#[derive(Debug, Default)]
pub struct Steps(AtomicUsize);

impl Steps {
    /// Counts a step.
    pub fn done(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The caller's knowledge of the windows of a step, for a backend that may lack it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountsKnown {
    /// The version of the member's window that the backend is known to have, zero for none.
    pub version: u64,
    /// The changes made elsewhere in the member's window.
    pub changes: Option<Changes>,
    /// The same for each account of the step, in order.
    pub shares: Vec<Option<Changes>>,
}

/// The outcome of a limit request to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitOutcome {
    /// A decision.
    Decided(LimitDecision),
    /// The backend lost data that it is known to have had, and did nothing.
    Lost,
}

/// A backend's decision about limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitDecision {
    /// The decision.
    pub decision: Decision,
    /// The backend's time.
    pub now: Timestamp,
    /// The version of the member's entries; zero if it keeps none.
    pub version: u64,
    /// The member's counted messages and tokens.
    pub used: (u32, u64),
    /// All of the member's counted entries; `None` if the step was done on the caller's version.
    pub log: Option<WindowLog>,
    /// The backend's time in microseconds: of two answers about one account the later one has the higher value.
    pub micros: u64,
    /// The counted entries of each account of the step, in order.
    pub shares: Vec<WindowLog>,
}

/// Writes that are applied atomically.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The writes, in order.
    pub writes: Vec<Write>,
    /// Further writes, each group under its term.
    pub owned: Vec<OwnedWrites>,
    /// The ticket of all increments; without one they are counted each time the batch is applied.
    pub ticket: Option<Ticket>,
}

/// Writes that are applied if their writer still owns a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedWrites {
    /// The range, and the token of its writer.
    pub term: Term,
    /// The writes, in order.
    pub writes: Vec<Write>,
}

impl Batch {
    /// Returns the size of its keys and values in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |write: &Write| match write {
            Write::Put { key, value, .. } | Write::Join { key, value, .. } => key.len() + value.len(),
            Write::Delete { key } | Write::Add { key, .. } => key.len(),
        };
        self.all().map(of).sum()
    }

    /// True if it contains increments.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.all().any(|write| matches!(write, Write::Add { .. }))
    }

    /// True if it has no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    fn all(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().chain(self.owned.iter().flat_map(|owned| &owned.writes))
    }
}

/// Makes increments idempotent: a batch whose answer was lost can be applied again. A backend skips increments whose
/// number is not above the last one that it applied from this writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The name of one opened store, globally unique.
    pub writer: Arc<str>,
    /// The number of the batch, which increases.
    pub number: u64,
}

impl From<Vec<Write>> for Batch {
    fn from(writes: Vec<Write>) -> Self {
        Self { writes, ..Self::default() }
    }
}

/// Returns the value of a counter after an increment. Text that is not a counter counts as zeros, as on a server.
fn counted(before: Option<&str>, by: Counter) -> Counter {
    before.and_then(Counter::read).unwrap_or_default().plus(by)
}

/// The reason why a backend failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// A later attempt may succeed.
    #[error("{0}")]
    Failed(String),
    /// A later attempt may succeed, but only after reopening the backend.
    #[error("{0}")]
    Broken(String),
    /// The value of this key is not text; the backend works.
    #[error("{0}")]
    NotText(String),
}

/// The reason why a backend could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another process holds it, so retrying is useless; the text has the remedy.
    #[error("{0}")]
    InUse(String),
    /// Only a later version of the program reads its data, so retrying is useless.
    #[error("{0}")]
    Later(String),
    /// A later attempt may succeed.
    #[error("{0}")]
    Failed(String),
}
