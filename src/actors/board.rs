//! How the parts of the program are that are not actors: doors, shards, the store, models. Written by who knows, read by
//! readiness.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The status of each part, by kind and name.
pub struct Board {
    parts: Mutex<BTreeMap<(PartKind, String), PartState>>,
    phase: Mutex<Phase>,
}

/// What kind of part it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// A way in and out.
    Door,
    /// One gateway connection.
    Shard,
    /// The store.
    Store,
    /// A model row.
    Model,
}

impl PartKind {
    /// The word in the readiness body.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Door => "door",
            Self::Shard => "shard",
            Self::Store => "store",
            Self::Model => "model",
        }
    }
}

/// How a part is.
#[derive(Debug, Clone)]
pub struct PartState {
    /// It does its work.
    pub up: bool,
    /// Since when.
    pub since: Instant,
    /// How often it came back.
    pub restarts: u64,
    /// Why it was down last.
    pub last_error: Option<String>,
}

/// The phase of the whole process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It serves, or is about to.
    Serving,
    /// It finishes what it has begun.
    Draining,
}

impl Default for Board {
    fn default() -> Self {
        Self { parts: Mutex::default(), phase: Mutex::new(Phase::Serving) }
    }
}

impl Board {
    /// A part begins; it does not do its work yet.
    pub fn starting(&self, kind: PartKind, name: &str) {
        self.change(kind, name, false, None);
    }

    /// A part does its work.
    pub fn up(&self, kind: PartKind, name: &str) {
        self.change(kind, name, true, None);
    }

    /// A part does not do its work, for this reason.
    pub fn down(&self, kind: PartKind, name: &str, reason: &str) {
        self.change(kind, name, false, Some(reason));
    }

    /// All parts.
    #[must_use]
    pub fn parts(&self) -> Vec<(PartKind, String, PartState)> {
        self.parts.lock().iter().map(|((kind, name), state)| (*kind, name.clone(), state.clone())).collect()
    }

    /// From now on the process finishes what it has begun.
    pub fn drain(&self) {
        *self.phase.lock() = Phase::Draining;
    }

    /// The phase of the whole process.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.lock()
    }

    fn change(&self, kind: PartKind, name: &str, up: bool, reason: Option<&str>) {
        let mut parts = self.parts.lock();
        let fresh = || PartState { up, since: Instant::now(), restarts: 0, last_error: None };
        let state = parts.entry((kind, name.to_owned())).or_insert_with(fresh);
        if state.up != up {
            state.up = up;
            state.since = Instant::now();
            state.restarts += u64::from(up && state.last_error.is_some());
        }
        if let Some(reason) = reason {
            state.last_error = Some(reason.to_owned());
        }
    }
}
