//! Statistics of one actor: counters, lifecycle state, the input in its handler, and the inputs that made it fail.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::observers::Observers;
use crate::tree::{ActorKind, Mailbox, Scope, TreeRow};
use domain::happening::{ActorChange, Happening};
use domain::latencies::Latencies;
use ports::{Input, Subject};
use telemetry::metrics as names;

/// The number of failures of one actor at one message that make the message poison: it is not handled again. It is
/// lower than the number of offers of a turn, so that a turn queued beside the poison message is not given up with it.
pub(crate) const POISON_AFTER: u32 = 3;
/// The time for which a failure counts against a subject.
const SUSPECT_FOR: Duration = Duration::from_secs(600);
/// The maximum number of subjects remembered for one actor; the oldest is evicted first.
const SUSPECTS_MAX: usize = 64;

/// The maximum number of failures remembered for one actor; the oldest is evicted first.
pub const FAILURES_MAX: usize = 16;
/// The number of inputs remembered for one actor.
pub const RECENT_MAX: usize = 8;
/// The number of bytes of an error text that are kept; the text may quote external input.
const ERROR_BYTES: usize = 512;
/// The label of an actor whose handler exceeds the time limit of its row.
pub const HUNG: &str = "hung";

/// Counters and recent history of one actor, kept across its restarts.
pub struct Stats {
    /// The path in the tree, such as `staffai/discord/shard:0`.
    pub path: Arc<str>,
    /// The kind of actor.
    pub kind: ActorKind,
    /// Identifies the actor among those of its kind.
    pub scope: Scope,
    /// The label in metrics and health lines: the path, or one shared label for all actors of places.
    pub label: Arc<str>,
    /// The number of handled messages and external events; events of the actor's own timers and tasks do not count.
    pub handled: AtomicU64,
    /// The number of messages, events and injected faults in the mailbox, including the input in the handler.
    pub depth: AtomicUsize,
    /// The number of those that are messages of other actors; bounded by the capacity of the row.
    pub queued: AtomicUsize,
    /// The number of messages refused or dropped because the mailbox was full.
    pub refused: AtomicU64,
    /// The capacity of the mailbox.
    pub mailbox: Mailbox,
    /// True if the full mailbox refused messages and the actor is not notified yet.
    overflowed: AtomicBool,
    /// The number of restarts.
    pub restarts: AtomicU64,
    /// The time limit of a handler, from the row.
    pub handler_timeout: Duration,
    life: Mutex<Life>,
    service: Mutex<Service>,
}

/// The input in the handler, and the recent failures.
#[derive(Default)]
struct Service {
    handling: Option<Handling>,
    /// The durations of handlers of external inputs since the last sample; `None` if none ran.
    latencies: Option<Box<Latencies>>,
    /// The time in handlers over all lives.
    busy: Duration,
    /// The last messages and events from outside, the oldest first, at most [`RECENT_MAX`]; `None` before the first.
    recent: Option<Box<Recent>>,
    /// The last failures, the oldest first, at most [`FAILURES_MAX`]; `None` for nearly every actor.
    failures: Option<VecDeque<Failure>>,
    /// At most [`SUSPECTS_MAX`].
    suspects: Vec<Suspect>,
}

/// The last inputs, in a ring: `next` is the place of the next one.
#[derive(Default)]
struct Recent {
    inputs: [Option<Handled>; RECENT_MAX],
    next: usize,
}

/// An input that an actor handled, without its content.
#[derive(Debug, Clone, Copy)]
pub struct Handled {
    /// The kind of message.
    pub kind: &'static str,
    /// The time at which its handler began.
    pub since: Instant,
    /// The duration of its handler; `None` while it runs, or if the actor failed at it.
    pub took: Option<Duration>,
}

/// The input that an actor handles now.
#[derive(Debug, Clone, Copy)]
pub struct Handling {
    /// The input.
    pub input: Input,
    /// The time at which its handler began.
    pub since: Instant,
    noticed: Noticed,
}

/// A failure of an actor and its consequences.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The time of the failure.
    pub at: Instant,
    /// The error text.
    pub error: String,
    /// The backoff before the supervisor restarted the actor.
    pub backoff: Option<Duration>,
    /// The time from the failure until the actor ran again.
    pub outage: Option<Duration>,
}

/// A sample of the statistics of an actor.
pub(crate) struct Sampled {
    /// The lifecycle state.
    pub state: LifeState,
    /// True if the handler exceeds the time limit of its row.
    pub hung: bool,
    /// The number of queued messages, without the one in the handler.
    pub waiting: usize,
    /// The durations of handlers since the previous sample.
    pub latencies: Option<Box<Latencies>>,
}

/// The watchdog's progress with the current handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noticed {
    No,
    Hung,
    Blocked,
}

/// A subject at which an actor failed.
struct Suspect {
    subject: Subject,
    failures: u32,
    last: Instant,
}

/// The treatment of the next input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Handle the input.
    Handle,
    /// Do not handle the input: this actor failed at it too often.
    GiveUp,
}

/// A finding of the watchdog about a handler; each is reported once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hung {
    /// The handler exceeds the time limit of its row.
    Overdue(Input, Duration),
    /// The handler was killed and still runs: it does not yield.
    Blocked(Duration),
}

/// The health of an actor.
#[derive(Debug, Clone)]
pub struct Life {
    /// The current state.
    pub state: LifeState,
    /// The time at which the actor entered that state.
    pub since: Instant,
    /// The error of the last failure, if any.
    pub last_error: Option<String>,
    /// The backoff of its last restart.
    pub backoff: Option<Duration>,
    /// The outage before its last restart.
    pub outage: Option<Duration>,
}

/// The states of an actor's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifeState {
    /// The actor is not started yet.
    Starting,
    /// The actor handles messages.
    Running,
    /// The actor failed and its restart is scheduled.
    Restarting,
    /// The actor ended.
    Stopped,
}

impl LifeState {
    /// Returns the word for logs and for the tree.
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

/// Returns the counter of refused messages for an actor label and a reason.
fn refusals(label: &str, reason: &'static str) -> metrics::Counter {
    metrics::counter!(names::MAILBOX_REFUSED_TOTAL, "actor" => label.to_owned(), "reason" => reason)
}

impl Recent {
    fn begin(&mut self, kind: &'static str, since: Instant) {
        self.inputs[self.next] = Some(Handled { kind, since, took: None });
        self.next = (self.next + 1) % RECENT_MAX;
    }

    fn done(&mut self, took: Duration) {
        if let Some(last) = &mut self.inputs[(self.next + RECENT_MAX - 1) % RECENT_MAX] {
            last.took = Some(took);
        }
    }
}

impl Service {
    fn last_failure(&mut self) -> Option<&mut Failure> {
        self.failures.as_mut()?.back_mut()
    }
}

impl Stats {
    pub(super) fn new(row: &TreeRow, above: &str, scope: Scope) -> Self {
        let life =
            Life { state: LifeState::Starting, since: Instant::now(), last_error: None, backoff: None, outage: None };
        Self {
            path: row.path(above, &scope).into(),
            kind: row.kind,
            label: row.label(above, &scope).into(),
            handler_timeout: row.handler_timeout,
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

    /// Reports a change in the life of the actor.
    pub(crate) fn tell(&self, observers: &Observers, change: ActorChange<'_>) {
        observers.tell(&Happening::Actor { path: &self.path, label: &self.label, change });
    }

    /// Claims a slot for a message of another actor; returns false if none is free.
    pub(super) fn claim(&self) -> bool {
        let capacity = self.mailbox.capacity;
        let next = |queued: usize| (queued < capacity).then_some(queued + 1);
        self.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    pub(super) fn release(&self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }

    /// Registers the counter of refusals at zero, so that metrics show the first refusal as an increase.
    pub(crate) fn count_no_refusal(&self) {
        if self.mailbox != Mailbox::NONE {
            refusals(&self.label, "full").increment(0);
        }
    }

    /// Records that the full mailbox refused a message.
    pub(super) fn refused_full(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.overflowed.store(true, Ordering::Relaxed);
        refusals(&self.label, "full").increment(1);
    }

    /// Records that a message was refused because the actor is down.
    pub(super) fn refused_down(&self) {
        refusals(&self.label, "down").increment(1);
    }

    pub(super) fn forget_overflow(&self) {
        self.overflowed.store(false, Ordering::Relaxed);
    }

    /// True once after a full mailbox refused messages, as soon as at most half of the mailbox is in use.
    pub(crate) fn overflow_is_over(&self) -> bool {
        self.overflowed.load(Ordering::Relaxed)
            && self.queued.load(Ordering::Relaxed) <= self.mailbox.capacity / 2
            && self.overflowed.swap(false, Ordering::Relaxed)
    }

    /// Returns the health of the actor.
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

    /// Records a failure after which the actor restarts with this backoff.
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

    /// Returns the last failures, the newest first.
    #[must_use]
    pub fn failures(&self) -> Vec<Failure> {
        let service = self.service.lock();
        service.failures.iter().flat_map(|failures| failures.iter().rev()).cloned().collect()
    }

    /// Returns the state and the durations of handlers, and resets the durations.
    pub(crate) fn sample(&self) -> Sampled {
        let state = self.life.lock().state;
        let mut service = self.service.lock();
        let hung = service.handling.is_some_and(|handling| handling.since.elapsed() > self.handler_timeout);
        let waiting = self.depth.load(Ordering::Relaxed).saturating_sub(usize::from(service.handling.is_some()));
        Sampled { state, hung, waiting, latencies: service.latencies.take() }
    }

    /// Returns the input in the handler and its start time; `None` if the actor is idle.
    #[must_use]
    pub fn handling(&self) -> Option<Handling> {
        self.service.lock().handling
    }

    /// True if the current handler exceeds the time limit of its row.
    #[must_use]
    pub fn is_hung(&self) -> bool {
        self.handling().is_some_and(|handling| handling.since.elapsed() > self.handler_timeout)
    }

    /// Returns the time in handlers, and the last inputs from outside, the newest first.
    #[must_use]
    pub fn work(&self) -> (Duration, Vec<Handled>) {
        let service = self.service.lock();
        let recent = service.recent.iter().flat_map(|recent| {
            let (newer, older) = recent.inputs.split_at(recent.next);
            newer.iter().rev().chain(older.iter().rev()).flatten().copied()
        });
        (service.busy, recent.collect())
    }

    /// Records the start of a handler of this kind of input, unless the actor failed too often at this input.
    pub(crate) fn begin(&self, input: Input, kind: &'static str) -> Next {
        let now = Instant::now();
        let mut service = self.service.lock();
        service.handling = Some(Handling { input, since: now, noticed: Noticed::No });
        if input.is_outside() {
            service.recent.get_or_insert_default().begin(kind, now);
        }
        // Nearly every actor has no suspects.
        if service.suspects.is_empty() {
            return Next::Handle;
        }
        service.suspects.retain(|suspect| now - suspect.last < SUSPECT_FOR);
        let poison = |suspect: &Suspect| Some(suspect.subject) == input.subject() && suspect.failures >= POISON_AFTER;
        if service.suspects.iter().any(poison) { Next::GiveUp } else { Next::Handle }
    }

    /// Records that the handler finished.
    pub(crate) fn done(&self) {
        let mut service = self.service.lock();
        let Some(handling) = service.handling.take() else { return };
        let took = handling.since.elapsed();
        service.busy += took;
        if handling.input.is_outside() {
            service.latencies.get_or_insert_default().record(took);
            service.recent.get_or_insert_default().done(took);
        }
    }

    /// Clears the current input: no handler runs, or the next failure is not caused by the handler.
    pub(crate) fn end(&self) {
        self.service.lock().handling = None;
    }

    /// Records that the life ended by a failure. Returns the input in the handler, whose subject becomes a suspect;
    /// `None` if the actor failed outside a handler: at its start, or because of its children.
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

    /// Returns the watchdog's finding about the current handler, each finding once. `grace` is the time a killed
    /// handler has to end.
    pub(crate) fn look(&self, grace: Duration) -> Option<Hung> {
        let mut service = self.service.lock();
        let handling = service.handling.as_mut()?;
        let ran = handling.since.elapsed();
        match handling.noticed {
            Noticed::No if ran > self.handler_timeout => {
                handling.noticed = Noticed::Hung;
                Some(Hung::Overdue(handling.input, ran))
            }
            Noticed::Hung if ran > self.handler_timeout + grace => {
                handling.noticed = Noticed::Blocked;
                Some(Hung::Blocked(ran))
            }
            Noticed::No | Noticed::Hung | Noticed::Blocked => None,
        }
    }
}
