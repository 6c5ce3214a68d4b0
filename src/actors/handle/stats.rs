//! What is known about one actor: counts, the state of its life, what it handles now, and which inputs failed it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::actors::tree::{ActorKind, Row, Scope};
use crate::ports::{Input, Subject};

/// How often a message may fail one actor; after that it counts as poison and is not handled again. Less often than a turn is
/// offered, so that a turn which waits beside it is not given up with it.
pub(in crate::actors) const POISON_AFTER: u32 = 3;
/// How long a failure is held against a subject.
const SUSPECT_FOR: Duration = Duration::from_secs(600);
/// The most subjects remembered for one actor, the oldest forgotten first.
const SUSPECTS_MAX: usize = 64;

/// What is counted and remembered about one actor, across its restarts.
pub struct Stats {
    /// The path in the tree, such as `staffai/discord/shard:0`.
    pub path: Arc<str>,
    /// What it is.
    pub kind: ActorKind,
    /// Which one of its kind it is.
    pub scope: Scope,
    /// What metrics and health lines call it: its path, or what is common to all actors of places.
    pub label: Arc<str>,
    /// Messages handled, and events from outside; not those of its own timers and tasks.
    pub handled: AtomicU64,
    /// Messages in the mailbox.
    pub depth: AtomicUsize,
    /// Restarts.
    pub restarts: AtomicU64,
    /// How long its row allows a handler to run.
    pub handles_within: Duration,
    life: Mutex<Life>,
    service: Mutex<Service>,
}

/// What an actor handles, and what failed it.
#[derive(Default)]
struct Service {
    handling: Option<Handling>,
    /// At most [`SUSPECTS_MAX`].
    suspects: Vec<Suspect>,
}

/// What an actor handles now.
#[derive(Debug, Clone, Copy)]
pub struct Handling {
    /// What it was given.
    pub input: Input,
    /// When its handler began.
    pub since: Instant,
    noticed: Noticed,
}

/// How far the watchdog is with a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noticed {
    No,
    Hung,
    Blocked,
}

/// A subject that failed an actor.
struct Suspect {
    subject: Subject,
    failures: u32,
    last: Instant,
}

/// What is done with the next input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actors) enum Next {
    /// It is handled.
    Handle,
    /// It failed this actor so often that it is not handled.
    GiveUp,
}

/// What the watchdog finds about a handler, once each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actors) enum Hung {
    /// It has run longer than its row allows.
    Overdue(Input, Duration),
    /// It was killed and runs on: it does not yield.
    Blocked(Duration),
}

/// How an actor is.
#[derive(Debug, Clone)]
pub struct Life {
    /// Its state now.
    pub state: LifeState,
    /// Since when it is in that state.
    pub since: Instant,
    /// The last failure, if there was one.
    pub last_error: Option<String>,
    /// The backoff of its last restart.
    pub backoff: Option<Duration>,
    /// How long it was away at its last restart.
    pub outage: Option<Duration>,
}

/// The states of an actor's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifeState {
    /// Not started yet.
    Starting,
    /// It handles messages.
    Running,
    /// It failed and waits for its restart.
    Restarting,
    /// It ended.
    Stopped,
}

impl LifeState {
    /// The word in logs and in the tree.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Stopped => "stopped",
        }
    }
}

impl Stats {
    pub(super) fn new(row: &Row, above: &str, scope: Scope) -> Self {
        let life =
            Life { state: LifeState::Starting, since: Instant::now(), last_error: None, backoff: None, outage: None };
        Self {
            path: row.path(above, &scope).into(),
            kind: row.kind,
            label: row.label(above, &scope).into(),
            handles_within: row.handles_within,
            service: Mutex::default(),
            scope,
            handled: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            restarts: AtomicU64::new(0),
            life: Mutex::new(life),
        }
    }

    /// How the actor is.
    #[must_use]
    pub fn life(&self) -> Life {
        self.life.lock().clone()
    }

    pub(in crate::actors) fn enter(&self, state: LifeState) {
        let mut life = self.life.lock();
        if state == LifeState::Running && life.state == LifeState::Restarting {
            life.outage = Some(life.since.elapsed());
        }
        life.state = state;
        life.since = Instant::now();
    }

    /// It failed, and is started again after this time.
    pub(in crate::actors) fn restarts_after(&self, backoff: Duration) {
        self.enter(LifeState::Restarting);
        self.life.lock().backoff = Some(backoff);
    }

    pub(in crate::actors) fn failed(&self, error: &str) {
        self.life.lock().last_error = Some(error.to_owned());
    }

    /// What it handles now, and since when; none while it waits for its next message.
    #[must_use]
    pub fn handling(&self) -> Option<Handling> {
        self.service.lock().handling
    }

    /// Its handler has run longer than its row allows.
    #[must_use]
    pub fn is_hung(&self) -> bool {
        self.handling().is_some_and(|handling| handling.since.elapsed() > self.handles_within)
    }

    /// A handler begins, unless this input failed the actor too often.
    pub(in crate::actors) fn begin(&self, input: Input) -> Next {
        let now = Instant::now();
        let mut service = self.service.lock();
        service.handling = Some(Handling { input, since: now, noticed: Noticed::No });
        // Nearly every actor has no suspects.
        if service.suspects.is_empty() {
            return Next::Handle;
        }
        service.suspects.retain(|suspect| now - suspect.last < SUSPECT_FOR);
        let poison = |suspect: &Suspect| Some(suspect.subject) == input.subject() && suspect.failures >= POISON_AFTER;
        if service.suspects.iter().any(poison) { Next::GiveUp } else { Next::Handle }
    }

    /// The handler is done, or what fails next is not its fault.
    pub(in crate::actors) fn end(&self) {
        self.service.lock().handling = None;
    }

    /// The life ended by a failure. Gives what was being handled, whose subject is suspected from now on; none when it failed
    /// between two handlers: at its start, or for its children.
    pub(in crate::actors) fn blame(&self) -> Option<Input> {
        let mut service = self.service.lock();
        let input = service.handling.take()?.input;
        if let Some(subject) = input.subject() {
            let known = service.suspects.iter().position(|suspect| suspect.subject == subject);
            let failures = known.map_or(0, |index| service.suspects.remove(index).failures);
            if service.suspects.len() >= SUSPECTS_MAX {
                service.suspects.remove(0);
            }
            service.suspects.push(Suspect { subject, failures: failures + 1, last: Instant::now() });
        }
        Some(input)
    }

    /// What the watchdog has to say of the handler that runs now: each finding once. `grace` is the time that a killed one has.
    pub(in crate::actors) fn look(&self, grace: Duration) -> Option<Hung> {
        let mut service = self.service.lock();
        let handling = service.handling.as_mut()?;
        let ran = handling.since.elapsed();
        match handling.noticed {
            Noticed::No if ran > self.handles_within => {
                handling.noticed = Noticed::Hung;
                Some(Hung::Overdue(handling.input, ran))
            }
            Noticed::Hung if ran > self.handles_within + grace => {
                handling.noticed = Noticed::Blocked;
                Some(Hung::Blocked(ran))
            }
            Noticed::No | Noticed::Hung | Noticed::Blocked => None,
        }
    }
}
