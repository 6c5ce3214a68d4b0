//! State shared by callers and the writer task: the overlay, the status, and the progress of writes.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use metrics::gauge;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::ahead::Ahead;
use super::decision::{KnownLimits, Steady};
use super::overlay::{Overlay, Snapshot};
use super::recent::Recent;
use super::terms::Terms;
use super::{GATHERED_ENOUGH, StoreBounds};
use crate::{Backend, BackendError};
use domain::ids::Timestamp;
use domain::ownership::{FencingToken, Range, Term};
use domain::patience::Patience;
use ports::{Clock, Keeping, StoreStatus, Write};
use telemetry::events::{STORE_DEGRADED, STORE_FENCED, STORE_KEEPING, STORE_RECOVERED};

/// State shared by callers and the writer task.
pub struct Shared<B> {
    pub clock: Arc<dyn Clock>,
    pub limits: StoreBounds,
    /// The name of this store at its backend.
    pub writer: Arc<str>,
    state: Mutex<State<B>>,
    pub progress: watch::Sender<Progress>,
    /// Signals that there is work.
    pub dirty: Notify,
    /// Ends gathering: there is enough work, or a caller is waiting.
    pub enough: Notify,
    /// Signals that another request is about to be sent to the backend.
    pub piggyback: Notify,
    pub closing: CancellationToken,
    pub steady: Steady,
    /// The deadline of reads and limit decisions.
    pub short: Mutex<Patience>,
    /// The deadline of commits.
    pub commits: Mutex<Patience>,
    /// The ranges taken over by other processes.
    pub fenced: watch::Sender<Vec<Range>>,
}

pub struct State<B> {
    pub overlay: Overlay,
    pub recent: Recent,
    pub ahead: Ahead,
    pub status: StoreStatus,
    pub backend: Option<Arc<B>>,
    /// True if the backend may be read.
    reads: bool,
    /// Live entries evicted since the last warning.
    pub dropped: usize,
    pub decision: KnownLimits,
    /// Data loss and broken promises caused by the server's settings.
    pub keeping: Keeping,
    /// The ranges that this process owns.
    pub terms: Terms,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// The number up to which writes were sent to the backend.
    sent: u64,
    /// The number up to which writes are durable, except for failed ones.
    durable: u64,
    /// The range of writes (exclusive start, inclusive end) that were not durable when the store last gave up on
    /// pending ones.
    failed: (u64, u64),
}

impl Progress {
    /// True if the write with this number was sent to the backend, or its durability is already decided.
    pub const fn is_sent(self, number: u64) -> bool {
        number <= self.sent || self.of(number).is_some()
    }

    /// True if the write with this number became durable; `None` while it is pending.
    pub const fn of(self, number: u64) -> Option<bool> {
        if self.failed.0 < number && number <= self.failed.1 {
            Some(false)
        } else if number <= self.durable {
            Some(true)
        } else {
            None
        }
    }
}

impl<B> State<B> {
    pub fn readable(&self) -> Option<Arc<B>> {
        self.backend.clone().filter(|_| self.reads)
    }
}

impl<B: Backend> Shared<B> {
    pub fn new(clock: Arc<dyn Clock>, limits: StoreBounds) -> Self {
        Self {
            writer: writer_name(clock.now()),
            steady: Steady::beginning(clock.now()),
            short: Mutex::new(Patience::new(limits.read_least, limits.read)),
            commits: Mutex::new(Patience::new(limits.commit_least, limits.commit)),
            clock,
            limits,
            state: Mutex::new(State {
                overlay: Overlay::new(limits.entries, limits.bytes),
                recent: Recent::default(),
                ahead: Ahead::default(),
                status: StoreStatus::Ready,
                backend: None,
                reads: true,
                dropped: 0,
                decision: KnownLimits::default(),
                keeping: Keeping::default(),
                terms: Terms::default(),
            }),
            progress: watch::Sender::new(Progress::default()),
            dirty: Notify::new(),
            enough: Notify::new(),
            piggyback: Notify::new(),
            fenced: watch::Sender::default(),
            closing: CancellationToken::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock()
    }

    /// Makes writes visible, of the owner of a range or without one. Returns the number to wait for, or `None` if their
    /// durability cannot be promised.
    pub fn take(&self, writes: Vec<Write>, owner: Option<&Range>) -> Option<u64> {
        let mut state = self.lock();
        let now = self.clock.now();
        for write in &writes {
            let (Write::Put { key, .. } | Write::Join { key, .. } | Write::Delete { key } | Write::Add { key, .. }) =
                write;
            state.ahead.forget(key);
            match write {
                Write::Put { value, ttl, .. } => state.recent.wrote(key, value, *ttl, now),
                Write::Join { .. } | Write::Delete { .. } | Write::Add { .. } => state.recent.forget(key),
            }
        }
        let dropped = state.overlay.take(writes, owner, now);
        state.dropped += dropped;
        if dropped > 0 {
            self.fail_waiting(&state);
        }
        if state.status != StoreStatus::Ready {
            return None;
        }
        self.dirty.notify_one();
        if state.overlay.len() >= GATHERED_ENOUGH {
            self.enough.notify_one();
        }
        Some(state.overlay.last())
    }

    /// Lets waiting writes join a request that is about to be sent to a server.
    pub fn take_along(&self, state: &State<B>) {
        if B::SHARED && self.progress.borrow().sent < state.overlay.last() {
            self.piggyback.notify_one();
        }
    }

    /// Returns all pending writes, the backend for them, and true if that backend was failing before.
    pub fn pending(&self) -> (Snapshot, Option<Arc<B>>, bool) {
        let mut state = self.lock();
        let now = self.clock.now();
        (state.overlay.snapshot(now), state.backend.clone(), state.status != StoreStatus::Ready)
    }

    /// Returns the current terms, and the ranges without a token.
    pub fn terms(&self) -> (Vec<Term>, Vec<Range>) {
        let state = self.lock();
        (state.terms.held(), state.terms.wanted())
    }

    /// Records issued tokens.
    pub fn took(&self, terms: Vec<Term>) {
        for Term { range, token } in &terms {
            show_term(range, *token);
        }
        self.lock().terms.took(terms);
    }

    /// Records that other processes own these ranges: pending writes are discarded and later ones refused.
    pub fn fence(&self, ranges: &[Range]) {
        let mut state = self.lock();
        for range in ranges {
            state.overlay.drop_owned(range);
            if state.terms.fence(range) {
                show_term(range, FencingToken::NONE);
                tracing::error!(
                    event = STORE_FENCED, range = %range,
                    "another process took over these turns; this process no longer answers them; stop one of the two"
                );
                self.fenced.send_modify(|fenced| fenced.push(range.clone()));
            }
        }
    }

    /// Records that everything up to this number was sent to the backend.
    pub fn sent(&self, through: u64) {
        if B::SHARED {
            self.progress.send_modify(|progress| progress.sent = progress.sent.max(through));
        }
    }

    /// Records that the backend has everything up to this number, and the increments of this batch.
    pub fn settled(&self, through: u64, counts: u64, backend: Option<Arc<B>>) {
        let mut state = self.lock();
        state.overlay.settle(through, counts);
        state.backend = backend;
        state.reads = true;
        if state.status != StoreStatus::Ready {
            state.status = StoreStatus::Ready;
            gauge!(telemetry::metrics::STORE_DEGRADED).set(0.0);
            tracing::info!(event = STORE_RECOVERED, "the store has recovered; writes kept in memory were merged");
        }
        self.progress.send_modify(|progress| progress.durable = progress.durable.max(through));
    }

    /// Records a failure of the backend: all waiting calls resolve, and memory serves.
    pub fn degrade(&self, failure: &BackendError, opened: Option<Arc<B>>) {
        let mut state = self.lock();
        match failure {
            BackendError::Broken(_) => state.backend = None,
            BackendError::Failed(_) if opened.is_some() => state.backend = opened,
            BackendError::Failed(_) | BackendError::NotText(_) => {}
        }
        self.mark_degraded(&mut state, failure.to_string());
    }

    /// Records the findings about the server's settings.
    pub fn keeps(&self, keeping: &Keeping) {
        let before = std::mem::replace(&mut self.lock().keeping, keeping.clone());
        if before == *keeping {
            return;
        }
        if let Some(loses) = &keeping.loses {
            tracing::info!(event = STORE_KEEPING, reason = loses, "the settings of the store allow data loss");
        }
        if let Some(breaks) = &keeping.breaks {
            tracing::error!(event = STORE_KEEPING, reason = breaks, "the settings of the store break promises");
        }
    }

    /// Records a failed read; ignored if that backend was replaced. Returns true if the store was healthy before.
    pub fn read_failed(&self, backend: &Arc<B>, failure: &BackendError) -> bool {
        self.call_failed(backend, failure, false)
    }

    /// Records a failed limit decision. A backend that cannot write may still be readable.
    pub fn decision_failed(&self, backend: &Arc<B>, failure: &BackendError) -> bool {
        self.call_failed(backend, failure, true)
    }

    fn call_failed(&self, backend: &Arc<B>, failure: &BackendError, reads: bool) -> bool {
        let mut state = self.lock();
        if !state.backend.as_ref().is_some_and(|current| Arc::ptr_eq(current, backend)) {
            return false;
        }
        let was_well = state.status == StoreStatus::Ready;
        state.reads &= reads;
        if matches!(failure, BackendError::Broken(_)) {
            state.backend = None;
        }
        self.mark_degraded(&mut state, failure.to_string());
        self.dirty.notify_one();
        was_well
    }

    fn mark_degraded(&self, state: &mut State<B>, reason: String) {
        self.fail_waiting(state);
        if state.status == StoreStatus::Ready {
            gauge!(telemetry::metrics::STORE_DEGRADED).set(1.0);
            tracing::warn!(event = STORE_DEGRADED, reason, "the store fails; memory serves until it recovers");
        } else {
            tracing::debug!(reason, "the store still fails");
        }
        state.status = StoreStatus::Degraded(reason);
    }

    /// Tells all waiting callers that their writes are not durable.
    fn fail_waiting(&self, state: &State<B>) {
        let last = state.overlay.last();
        self.progress.send_modify(|progress| progress.failed = (progress.durable, last));
    }

    /// Ends the service; returns the backend and the number of keys that never became durable.
    pub fn shut(&self) -> (Option<Arc<B>>, usize) {
        let mut state = self.lock();
        self.fail_waiting(&state);
        state.status = StoreStatus::Degraded("the store is closed".to_owned());
        (state.backend.take(), state.overlay.len() + state.decision.book.changed().len())
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Sets the metric of the token under which this process owns a range.
#[expect(clippy::cast_precision_loss, reason = "tokens are numbers of milliseconds, or small")]
fn show_term(range: &Range, token: FencingToken) {
    gauge!(telemetry::metrics::TERM, "door" => range.door().to_string()).set(token.0 as f64);
}

/// Returns a globally unique name; a timestamp alone could be shared.
fn writer_name(now: Timestamp) -> Arc<str> {
    let chance = RandomState::new().build_hasher().finish();
    format!("{:x}-{:x}-{chance:x}", now.0, std::process::id()).into()
}
