//! What callers and the writer task share: the overlay, how the store is, and how far the writes have come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::gauge;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::overlay::{Overlay, Snapshot};
use super::recent::Recent;
use super::{GATHERED_ENOUGH, Limits};
use crate::domain::ids::{self, Timestamp};
use crate::domain::keys;
use crate::domain::limits::book::{Book, Changes};
use crate::domain::limits::{self, Member, member};
use crate::ports::{Clock, StoreStatus, Write};
use crate::store::{Backend, BackendError, Ruling};

/// What callers and the writer task share.
pub struct Shared<B> {
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
    state: Mutex<State<B>>,
    pub progress: watch::Sender<Progress>,
    /// There is something to do.
    pub dirty: Notify,
    /// There is so much to do that gathering ends.
    pub plenty: Notify,
    pub closing: CancellationToken,
    /// The wall clock and the one that never jumps, at the same moment.
    began: (Timestamp, Instant),
}

pub struct State<B> {
    pub overlay: Overlay,
    pub recent: Recent,
    pub status: StoreStatus,
    pub backend: Option<Arc<B>>,
    /// Reads may ask the backend.
    reads: bool,
    /// Living entries dropped since the last warning about it.
    pub dropped: usize,
    /// What is known of members' limits.
    pub book: Book,
    /// What earlier lives wrote down of them was read.
    pub loaded: bool,
    /// How far the backend's clock is ahead of ours, in milliseconds.
    ahead: i64,
}

/// Everything that waits for the backend.
pub struct Pending<B> {
    /// Writes.
    pub snapshot: Snapshot,
    /// Changes of limits, where the backend decides about them.
    pub changes: Vec<Changes>,
    /// All changes of limits up to this number are in it.
    pub changes_through: u64,
    /// Where to put it.
    pub backend: Option<Arc<B>>,
    /// The backend was failing, or nothing was asked of it yet.
    pub probe: bool,
    /// What earlier lives wrote down of limits is to be read.
    pub load: bool,
}

/// How long entries that an earlier life wrote down are kept when nobody asks about them, because the window is only told when
/// somebody does: their own keys vanish at its end.
const LOADED_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// How far the numbered writes have come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Everything up to this one is durable, but for what failed.
    durable: u64,
    /// The writes after the first and up to the second number were not durable when the store last gave up on waiting ones.
    failed: (u64, u64),
}

impl Progress {
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
        let began = (clock.now(), Instant::now());
        Self {
            clock,
            limits,
            began,
            state: Mutex::new(State {
                overlay: Overlay::new(limits.entries, limits.bytes),
                recent: Recent::default(),
                status: StoreStatus::Ready,
                backend: None,
                reads: true,
                dropped: 0,
                book: Book::default(),
                loaded: B::RULES,
                ahead: 0,
            }),
            progress: watch::Sender::new(Progress::default()),
            dirty: Notify::new(),
            plenty: Notify::new(),
            closing: CancellationToken::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes writes visible. Gives the number to wait for, or none when nobody can promise that they become durable.
    pub fn take(&self, writes: Vec<Write>) -> Option<u64> {
        let mut state = self.lock();
        let now = self.clock.now();
        for write in &writes {
            match write {
                Write::Put { key, value, ttl } => state.recent.wrote(key, value, *ttl, now),
                Write::Delete { key } => state.recent.forget(key),
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
            self.plenty.notify_one();
        }
        Some(state.overlay.last())
    }

    /// Everything that waits, and where to put it.
    pub fn pending(&self) -> Pending<B> {
        let state = self.lock();
        let mut snapshot = state.overlay.snapshot(self.clock.now());
        let mut changes = Vec::new();
        if B::RULES {
            changes = state.book.changes();
        } else {
            snapshot.writes.extend(state.book.changed().into_iter().map(|(member, log, window)| {
                let [_, key] = keys::limit_pair(member, false);
                Write::Put { key, value: member::to_json(log), ttl: Some(window) }
            }));
        }
        Pending {
            snapshot,
            changes,
            changes_through: state.book.last(),
            backend: state.backend.clone(),
            probe: state.status != StoreStatus::Ready,
            load: !state.loaded,
        }
    }

    /// Whether anything waits for the backend.
    pub fn waits(&self) -> bool {
        let state = self.lock();
        state.overlay.len() > 0 || state.book.has_changes()
    }

    /// Decides one step about limits by what is known here.
    pub fn decide(&self, request: &limits::Request) -> limits::Answer {
        let mut state = self.lock();
        let now = self.steady(state.ahead);
        let answer = state.book.decide(now, request);
        if state.book.has_changes() {
            self.dirty.notify_one();
        }
        answer
    }

    /// The same, after the backend was asked and nobody knows whether it heard.
    pub fn decide_instead(&self, request: &limits::Request) -> limits::Answer {
        let answer = self.decide(request);
        self.lock().book.tell_of(request);
        self.dirty.notify_one();
        answer
    }

    /// The backend that decides about limits, and what it does not know yet about a member; none while it fails.
    pub fn ruler(&self, member: &Member) -> Option<(Arc<B>, Option<Changes>)> {
        let state = self.lock();
        let well = state.status == StoreStatus::Ready;
        let backend = state.backend.clone().filter(|_| well)?;
        Some((backend, state.book.changes_of(member)))
    }

    /// The backend has decided, knowing these changes.
    pub fn ruled(&self, request: &limits::Request, changes: Option<&Changes>, ruling: Ruling) {
        let mut state = self.lock();
        let steady = self.steady(0).0.cast_signed();
        state.ahead = ruling.now.0.cast_signed().saturating_sub(steady);
        if let Some(changes) = changes {
            state.book.kept_of(&changes.member, changes.through);
        }
        state.book.learned(ruling.now, &request.member, request.window, ruling.log);
    }

    /// What an earlier life wrote down of limits.
    pub fn load_limits(&self, rows: Vec<(String, String)>) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.loaded, true) {
            return;
        }
        let rows = rows.into_iter().filter_map(|(key, text)| {
            let log = member::from_json(&text);
            if log.is_none() {
                tracing::warn!(event = "store.corrupt", key, "the entries of a limit cannot be read; they are forgotten");
            }
            Some((keys::parse_token_limit(&key)?, log?))
        });
        state.book.load(rows.collect(), LOADED_WINDOW);
    }

    /// Forgets of limits what has aged out.
    pub fn tidy(&self) {
        let mut state = self.lock();
        let now = self.steady(state.ahead);
        state.book.tidy(now);
    }

    /// A time that never jumps, whatever becomes of the wall clock; so far ahead of the moment at which this process began.
    fn steady(&self, ahead: i64) -> Timestamp {
        let (wall, began) = self.began;
        Timestamp(wall.0.saturating_add(ids::millis(began.elapsed())).saturating_add_signed(ahead))
    }

    /// The backend has all writes up to this number, and all changes of limits up to that one.
    pub fn settled(&self, (through, changes): (u64, u64), backend: Option<Arc<B>>) {
        let mut state = self.lock();
        state.overlay.settle(through);
        state.book.kept(changes);
        state.backend = backend;
        state.reads = true;
        if state.status != StoreStatus::Ready {
            state.status = StoreStatus::Ready;
            gauge!("staffai_store_degraded").set(0.0);
            tracing::info!(event = "store.recovered", "the store answers again; what memory kept is merged back");
        }
        self.progress.send_modify(|progress| progress.durable = progress.durable.max(through));
    }

    /// The backend failed: whoever waits is told, and memory serves.
    pub fn degrade(&self, failure: &BackendError, opened: Option<Arc<B>>) {
        let mut state = self.lock();
        match failure {
            BackendError::Broken(_) => state.backend = None,
            BackendError::Failed(_) if opened.is_some() => state.backend = opened,
            BackendError::Failed(_) => {}
        }
        self.mark_degraded(&mut state, failure.to_string());
    }

    /// A read failed. The backend that failed may have been replaced since, and then it does not matter.
    pub fn read_failed(&self, backend: &Arc<B>, failure: &BackendError) {
        let mut state = self.lock();
        if !state.backend.as_ref().is_some_and(|current| Arc::ptr_eq(current, backend)) {
            return;
        }
        state.reads = false;
        if matches!(failure, BackendError::Broken(_)) {
            state.backend = None;
        }
        self.mark_degraded(&mut state, failure.to_string());
        self.dirty.notify_one();
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
        let limits = state.book.changed().len();
        (state.backend.take(), state.overlay.len() + limits)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
