//! Where state is kept. [`resilient::Resilient`] is the store that the rest of the program sees; a [`Backend`] keeps its text.
//!
//! A backend may fail, hang, panic or be absent; nothing of that passes the resilient layer. Backends know keys and text
//! only: what a value means, and what to do with a value that cannot be read, is decided by the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::mpsc;

use domain::counter::Counter;
use domain::ids::Timestamp;
use domain::limits::member_windows::Changes;
use domain::limits::window_log::WindowLog;
use domain::limits::{Decision, Request};
use ports::{Keeping, StoredRow, Write};

pub mod resilient;

pub mod embedded;

pub mod redis;

pub mod failing;

#[cfg(test)]
mod suite;

/// Something that keeps text by key, durably. Every call may fail; none needs to bound its own time, because the caller
/// holds each against a deadline and never has more than one `apply` or `sweep` under way.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Several processes write to it, so it decides about limits itself. Else the layer above does, keeps the entries as text, and
    /// does not ask for what it wrote and still knows.
    const SHARED: bool = false;

    /// The value of a live key.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn get(&self, key: &str) -> Result<Option<String>, BackendError>;

    /// All live keys that begin with `prefix` and their values, by key; at most `limit`. A backend that has to look at much else
    /// does that in steps, and counts each.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn scan(&self, prefix: &str, limit: usize, steps: &Steps) -> Result<Vec<(String, String)>, BackendError>;

    /// Applies the writes as one, in order. They are durable when this returns. After an error all or none of them hold,
    /// and applying them again must be harmless.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn apply(&self, batch: Batch) -> Result<(), BackendError>;

    /// Sets a key, without an end, if it holds `seen`; false when it holds something else, which may be `value` when the request had to
    /// be repeated. Durable when this returns. Only asked where [`Self::SHARED`].
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn replace(&self, _key: &str, _seen: Option<&str>, _value: &str) -> Result<bool, BackendError> {
        Err(BackendError::Failed("it does not compare values".to_owned()))
    }

    /// Decides one step about limits, after the changes from elsewhere are applied. Only asked where [`Self::SHARED`].
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn decide_limit(&self, _request: &Request, _known: &AccountsKnown) -> Result<LimitOutcome, BackendError> {
        Err(BackendError::Failed("it does not decide about limits".to_owned()))
    }

    /// Takes over what was decided about limits while it was away; taking it over twice must be harmless. Only asked where
    /// [`Self::SHARED`].
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn merge(&self, _changes: &[Changes]) -> Result<(), BackendError> {
        Ok(())
    }

    /// Removes a bounded number of keys whose life is over. Returns whether more are left. A backend that does this by
    /// itself has nothing to do.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn sweep(&self) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Sends every living key. Ends early when nothing receives any more.
    ///
    /// # Errors
    /// See [`BackendError`].
    async fn copy(&self, to: mpsc::Sender<StoredRow>) -> Result<(), BackendError>;

    /// What the settings of the server can lose or break; `None` where it does not say. Asked after opening and with each sweep.
    async fn keeping(&self) -> Option<Keeping> {
        None
    }

    /// Gives the backend's resources back. Later calls fail.
    async fn close(&self);
}

/// How far a scan has come. What makes steps is slow and does not hang.
#[derive(Debug, Default)]
pub struct Steps(AtomicUsize);

impl Steps {
    /// One more step is done.
    pub fn done(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many steps were done.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the caller of a backend knows about the windows of a step, and the backend may not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountsKnown {
    /// The version of the member's window that the backend is known to have, zero for none.
    pub version: u64,
    /// What changed elsewhere in the member's window.
    pub changes: Option<Changes>,
    /// The same for each account of the step, in order.
    pub shares: Vec<Option<Changes>>,
}

/// The outcome of asking a backend about limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitOutcome {
    /// It decided.
    Decided(LimitDecision),
    /// It has lost what the caller knows it to have had, and did nothing.
    Lost,
}

/// What a backend decided about limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitDecision {
    /// The decision.
    pub decision: Decision,
    /// Its clock.
    pub now: Timestamp,
    /// The version of what counts for the member now; zero when it keeps none.
    pub version: u64,
    /// Messages and tokens that count for the member now.
    pub used: (u32, u64),
    /// All that counts for the member now; none when the step was done on what the caller knows.
    pub log: Option<WindowLog>,
    /// Its clock in microseconds: of two answers about one account the later one has more.
    pub micros: u64,
    /// All that counts in each account of the step now, in order.
    pub shares: Vec<WindowLog>,
}

/// Writes that are applied as one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The writes, in order.
    pub writes: Vec<Write>,
    /// Names the increments among them; without it they are counted whenever the batch is applied.
    pub ticket: Option<Ticket>,
}

impl Batch {
    /// What its keys and values weigh, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |write: &Write| match write {
            Write::Put { key, value, .. } => key.len() + value.len(),
            Write::Delete { key } | Write::Add { key, .. } => key.len(),
        };
        self.writes.iter().map(of).sum()
    }

    /// Whether there are increments in it.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.writes.iter().any(|write| matches!(write, Write::Add { .. }))
    }
}

/// Names the increments of a batch, so that a batch whose answer was lost can be applied again without counting them twice: a
/// backend skips increments whose number is not above the last one that it took from this writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// One opened store. No two ever have the same name.
    pub writer: Arc<str>,
    /// Rises with each batch.
    pub number: u64,
}

impl From<Vec<Write>> for Batch {
    fn from(writes: Vec<Write>) -> Self {
        Self { writes, ticket: None }
    }
}

/// What a counter holds after an increment. Text that is none counts as zeros, as on a server.
fn counted(before: Option<&str>, by: Counter) -> Counter {
    before.and_then(Counter::read).unwrap_or_default().plus(by)
}

/// Why a backend did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// It may work later.
    #[error("{0}")]
    Failed(String),
    /// It may work later, but only after the backend was opened anew.
    #[error("{0}")]
    Broken(String),
}

/// Why a backend could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another process holds it. Waiting is pointless; the text says what to do.
    #[error("{0}")]
    InUse(String),
    /// It may work later.
    #[error("{0}")]
    Failed(String),
}
