//! What callers and the writer task share: the overlay, how the store is, and how far the writes have come.

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
use super::{GATHERED_ENOUGH, Limits};
use crate::{Backend, BackendError};
use domain::ids::Timestamp;
use domain::patience::Patience;
use ports::{Clock, Keeping, StoreStatus, Write};

/// What callers and the writer task share.
pub struct Shared<B> {
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
    /// Names this store to its backend.
    pub writer: Arc<str>,
    state: Mutex<State<B>>,
    pub progress: watch::Sender<Progress>,
    /// There is something to do.
    pub dirty: Notify,
    /// Gathering ends: there is so much to do, or a caller waits for it.
    pub enough: Notify,
    /// Something else is about to be sent to the backend.
    pub company: Notify,
    pub closing: CancellationToken,
    /// A clock that never jumps.
    pub steady: Steady,
    /// How long reads and decisions about limits are waited for.
    pub short: Mutex<Patience>,
    /// How long commits are waited for.
    pub commits: Mutex<Patience>,
}

pub struct State<B> {
    pub overlay: Overlay,
    pub recent: Recent,
    pub ahead: Ahead,
    pub status: StoreStatus,
    pub backend: Option<Arc<B>>,
    /// Reads may ask the backend.
    reads: bool,
    /// Living entries dropped since the last warning about it.
    pub dropped: usize,
    /// What is known of members' limits.
    pub decision: KnownLimits,
    /// What the settings of the server behind the backend can lose or break.
    pub keeping: Keeping,
}

/// How far the numbered writes have come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Everything up to this one is on its way to the backend.
    sent: u64,
    /// Everything up to this one is durable, but for what failed.
    durable: u64,
    /// The writes after the first and up to the second number were not durable when the store last gave up on waiting ones.
    failed: (u64, u64),
}

impl Progress {
    /// The write with this number is on its way to the backend, or nobody waits for it any more.
    pub const fn is_sent(self, number: u64) -> bool {
        number <= self.sent || self.of(number).is_some()
    }

    /// Whether the write with this number became durable; none while it is under way.
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
    pub fn new(clock: Arc<dyn Clock>, limits: Limits) -> Self {
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
            }),
            progress: watch::Sender::new(Progress::default()),
            dirty: Notify::new(),
            enough: Notify::new(),
            company: Notify::new(),
            closing: CancellationToken::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock()
    }

    /// Makes writes visible. Gives the number to wait for, or none when their durability cannot be promised.
    pub fn take(&self, writes: Vec<Write>) -> Option<u64> {
        let mut state = self.lock();
        let now = self.clock.now();
        for write in &writes {
            let (Write::Put { key, .. } | Write::Delete { key } | Write::Add { key, .. }) = write;
            state.ahead.forget(key);
            match write {
                Write::Put { value, ttl, .. } => state.recent.wrote(key, value, *ttl, now),
                Write::Delete { .. } | Write::Add { .. } => state.recent.forget(key),
            }
        }
        let dropped = state.overlay.take(writes, now);
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

    /// Something is about to be sent to a backend on a server: writes that wait for company may go along.
    pub fn take_along(&self, state: &State<B>) {
        if B::SHARED && self.progress.borrow().sent < state.overlay.last() {
            self.company.notify_one();
        }
    }

    /// Everything that waits, the backend to put it into, and whether that was failing before.
    pub fn pending(&self) -> (Snapshot, Option<Arc<B>>, bool) {
        let mut state = self.lock();
        let now = self.clock.now();
        (state.overlay.snapshot(now), state.backend.clone(), state.status != StoreStatus::Ready)
    }

    /// Everything up to this number is on its way to the backend.
    pub fn sent(&self, through: u64) {
        if B::SHARED {
            self.progress.send_modify(|progress| progress.sent = progress.sent.max(through));
        }
    }

    /// The backend has everything up to this number, and the increments of this batch.
    pub fn settled(&self, through: u64, counts: u64, backend: Option<Arc<B>>) {
        let mut state = self.lock();
        state.overlay.settle(through, counts);
        state.backend = backend;
        state.reads = true;
        if state.status != StoreStatus::Ready {
            state.status = StoreStatus::Ready;
            gauge!("staffai_store_degraded").set(0.0);
            tracing::info!(event = "store.recovered", "the store answers again; what memory kept is merged back");
        }
        self.progress.send_modify(|progress| progress.durable = progress.durable.max(through));
    }

    /// The backend failed: all waiting calls resolve, and memory serves.
    pub fn degrade(&self, failure: &BackendError, opened: Option<Arc<B>>) {
        let mut state = self.lock();
        match failure {
            BackendError::Broken(_) => state.backend = None,
            BackendError::Failed(_) if opened.is_some() => state.backend = opened,
            BackendError::Failed(_) => {}
        }
        self.mark_degraded(&mut state, failure.to_string());
    }

    /// The server behind the backend says this of its settings.
    pub fn keeps(&self, keeping: &Keeping) {
        let before = std::mem::replace(&mut self.lock().keeping, keeping.clone());
        if before == *keeping {
            return;
        }
        if let Some(loses) = &keeping.loses {
            tracing::info!(event = "store.keeping", reason = loses, "what the store can lose");
        }
        if let Some(breaks) = &keeping.breaks {
            tracing::error!(event = "store.keeping", reason = breaks, "the settings of the store break promises");
        }
    }

    /// A read failed. The backend that failed may have been replaced since, and then it does not matter. True if the store was well
    /// until then.
    pub fn read_failed(&self, backend: &Arc<B>, failure: &BackendError) -> bool {
        self.call_failed(backend, failure, false)
    }

    /// The same of a decision about limits. A backend that cannot write may still be read.
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
            gauge!("staffai_store_degraded").set(1.0);
            tracing::warn!(event = "store.degraded", reason, "the store fails; memory serves until it recovers");
        } else {
            tracing::debug!(reason, "the store still fails");
        }
        state.status = StoreStatus::Degraded(reason);
    }

    /// Tells all who wait for a write taken so far that it is not durable.
    fn fail_waiting(&self, state: &State<B>) {
        let last = state.overlay.last();
        self.progress.send_modify(|progress| progress.failed = (progress.durable, last));
    }

    /// Ends the service; gives the backend back, and how many keys never became durable.
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

/// A name that no other opened store has, on this machine or another: the moment alone could be shared.
fn writer_name(now: Timestamp) -> Arc<str> {
    let chance = RandomState::new().build_hasher().finish();
    format!("{:x}-{:x}-{chance:x}", now.0, std::process::id()).into()
}
