//! What is known about one actor: counts, the state of its life, what it handles now, and which inputs failed it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::tree::{ActorKind, Mailbox, Row, Scope};
use domain::latencies::Latencies;
use ports::{Input, Subject};

/// How often a message may fail one actor; after that it counts as poison and is not handled again. Less often than a turn is
/// offered, so that a turn which waits beside it is not given up with it.
pub(crate) const POISON_AFTER: u32 = 3;
/// How long a failure is held against a subject.
const SUSPECT_FOR: Duration = Duration::from_secs(600);
/// The most subjects remembered for one actor, the oldest forgotten first.
const SUSPECTS_MAX: usize = 64;

/// The failures of one actor that are remembered, the newest.
pub const FAILURES_MAX: usize = 16;
/// Bytes of an error that are remembered; it may quote what came from outside.
const ERROR_BYTES: usize = 512;
/// The word for an actor whose handler runs longer than its row allows.
pub const HUNG: &str = "hung";

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
    /// Messages, events and ordered faults in the mailbox, with the one that is being handled.
    pub depth: AtomicUsize,
    /// The messages of other actors among them: at most as many as its row allows.
    pub queued: AtomicUsize,
    /// Messages that were refused or dropped because the mailbox was full.
    pub refused: AtomicU64,
    /// The bound of the mailbox.
    pub mailbox: Mailbox,
    /// Messages were refused because the mailbox was full, and the actor was not told yet.
    overflowed: AtomicBool,
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
    /// How long handlers of inputs from outside ran since the last sample; none while none did.
    latencies: Option<Box<Latencies>>,
    /// The last failures, the oldest first, at most [`FAILURES_MAX`]; none for nearly every actor.
    failures: Option<VecDeque<Failure>>,
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

/// A failure of an actor and what followed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// When it was.
    pub at: Instant,
    /// Why.
    pub error: String,
    /// How long its supervisor waited before it started the actor again.
    pub backoff: Option<Duration>,
    /// How long the actor was away.
    pub outage: Option<Duration>,
}

/// What a sample takes of an actor.
pub(crate) struct Sampled {
    /// The state of its life.
    pub state: LifeState,
    /// Its handler runs longer than its row allows.
    pub hung: bool,
    /// Messages that wait, without the one that is being handled.
    pub waiting: usize,
    /// How long its handlers ran since the sample before.
    pub latencies: Option<Box<Latencies>>,
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
pub(crate) enum Next {
    /// It is handled.
    Handle,
    /// It failed this actor so often that it is not handled.
    GiveUp,
}

/// What the watchdog finds about a handler, once each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hung {
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

/// The counter of messages to these actors that were refused for this reason.
fn refusals(label: &str, reason: &'static str) -> metrics::Counter {
    metrics::counter!("staffai_mailbox_refused_total", "actor" => label.to_owned(), "reason" => reason)
}

impl Service {
    fn last_failure(&mut self) -> Option<&mut Failure> {
        self.failures.as_mut()?.back_mut()
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
            queued: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            mailbox: row.mailbox,
            overflowed: AtomicBool::new(false),
            restarts: AtomicU64::new(0),
            life: Mutex::new(life),
        }
    }

    /// Takes a place for a message of another actor; false if none is free.
    pub(super) fn claim(&self) -> bool {
        let capacity = self.mailbox.capacity;
        let next = |queued: usize| (queued < capacity).then_some(queued + 1);
        self.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    pub(super) fn release(&self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }

    /// The counter of refusals is there from the start, so that the first one is a rise.
    pub(crate) fn count_no_refusal(&self) {
        if self.mailbox != Mailbox::NONE {
            refusals(&self.label, "full").increment(0);
        }
    }

    /// A message found the mailbox full.
    pub(super) fn refused_full(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.overflowed.store(true, Ordering::Relaxed);
        refusals(&self.label, "full").increment(1);
    }

    /// A message found the actor down.
    pub(super) fn refused_down(&self) {
        refusals(&self.label, "down").increment(1);
    }

    pub(super) fn forget_overflow(&self) {
        self.overflowed.store(false, Ordering::Relaxed);
    }

    /// True once after messages were refused because the mailbox was full, as soon as at most half of it is taken.
    pub(crate) fn overflow_is_over(&self) -> bool {
        self.overflowed.load(Ordering::Relaxed)
            && self.queued.load(Ordering::Relaxed) <= self.mailbox.capacity / 2
            && self.overflowed.swap(false, Ordering::Relaxed)
    }

    /// How the actor is.
    #[must_use]
    pub fn life(&self) -> Life {
        self.life.lock().clone()
    }

    pub(crate) fn enter(&self, state: LifeState) {
        let mut life = self.life.lock();
        if state == LifeState::Running && life.state == LifeState::Restarting {
            life.outage = Some(life.since.elapsed());
            if let Some(failure) = self.service.lock().last_failure() {
                failure.outage = life.outage;
            }
        }
        life.state = state;
        life.since = Instant::now();
    }

    /// It failed, and is started again after this time.
    pub(crate) fn restarts_after(&self, backoff: Duration) {
        self.enter(LifeState::Restarting);
        self.life.lock().backoff = Some(backoff);
        if let Some(failure) = self.service.lock().last_failure() {
            failure.backoff = Some(backoff);
        }
    }

    pub(crate) fn failed(&self, error: &str) {
        let error = &error[..error.floor_char_boundary(ERROR_BYTES)];
        self.life.lock().last_error = Some(error.to_owned());
        let mut service = self.service.lock();
        let failures = service.failures.get_or_insert_default();
        if failures.len() >= FAILURES_MAX {
            failures.pop_front();
        }
        failures.push_back(Failure { at: Instant::now(), error: error.to_owned(), backoff: None, outage: None });
    }

    /// Its last failures, the newest first.
    #[must_use]
    pub fn failures(&self) -> Vec<Failure> {
        let service = self.service.lock();
        service.failures.iter().flat_map(|failures| failures.iter().rev()).cloned().collect()
    }

    /// Its state, and how long its handlers ran, which is counted anew from now on.
    pub(crate) fn sample(&self) -> Sampled {
        let state = self.life.lock().state;
        let mut service = self.service.lock();
        let hung = service.handling.is_some_and(|handling| handling.since.elapsed() > self.handles_within);
        let waiting = self.depth.load(Ordering::Relaxed).saturating_sub(usize::from(service.handling.is_some()));
        Sampled { state, hung, waiting, latencies: service.latencies.take() }
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
    pub(crate) fn begin(&self, input: Input) -> Next {
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

    /// The handler is done.
    pub(crate) fn done(&self) {
        let mut service = self.service.lock();
        let Some(handling) = service.handling.take() else { return };
        if handling.input.is_outside() {
            service.latencies.get_or_insert_default().record(handling.since.elapsed());
        }
    }

    /// Nothing is handled any more, or what fails next is not the handler's fault.
    pub(crate) fn end(&self) {
        self.service.lock().handling = None;
    }

    /// The life ended by a failure. Gives what was being handled, whose subject is suspected from now on; none when it failed
    /// between two handlers: at its start, or for its children.
    pub(crate) fn blame(&self) -> Option<Input> {
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
    pub(crate) fn look(&self, grace: Duration) -> Option<Hung> {
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
