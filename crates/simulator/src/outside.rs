//! The state outside of the process: it survives every process of a life. All waits of its doubles use simulated time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::chance::{Chance, Stream};
use super::history::{History, Seen};
use super::swarm::{Fault, Port, Swarm};
use domain::ids::{Timestamp, millis};
use ports::{Clock, Dice, Store, StoreStatus};

/// The wall-clock time at the beginning of each life.
pub const BEGINNING: u64 = 1_800_000_000_000;
/// Longer than the timeout of every request.
const HANGS: Duration = Duration::from_secs(120);

/// The world around the processes of one life.
pub struct Outside {
    /// The environment.
    pub swarm: Swarm,
    /// All events.
    pub history: History,
    /// The number of hits of each fault at each port.
    pub hits: Mutex<BTreeMap<(Port, Fault), u64>>,
    /// The number of failures of each kind of actor.
    pub broken: Mutex<BTreeMap<String, u64>>,
    /// True if no further faults occur.
    pub calm: AtomicBool,
    /// True while the store's backend fails.
    outage: AtomicBool,
    /// The store of the current process.
    store: Mutex<Option<Arc<dyn Store>>>,
    ports: Chance,
    dice: Chance,
    /// Milliseconds of earlier processes and of the time between them.
    base: AtomicU64,
    /// The start of the current process.
    begun: Mutex<Option<Instant>>,
    /// The time at which the current process started.
    since: AtomicU64,
    dead: AtomicBool,
    death: Notify,
    /// The start of the commit that is under way.
    commit: Mutex<Option<u64>>,
}

/// The time within which a process has read what it needs at its start.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// The outcome of a request that reached the other side.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It has its effect; pass it to [`Outside::leave`] afterwards.
    Through(Option<Fault>),
    /// It has no effect, and the caller learns that.
    Refused,
    /// It has no effect, and the caller's time is over.
    TimedOut,
}

/// The answer to a request that had its effect.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It arrives.
    Arrives,
    /// It is lost.
    Lost,
}

impl Outside {
    /// Creates the world of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            history: History::default(),
            swarm: Swarm::draw(seed),
            hits: Mutex::default(),
            broken: Mutex::default(),
            calm: AtomicBool::new(true),
            outage: AtomicBool::new(false),
            store: Mutex::default(),
            ports: Chance::new(seed, Stream::Ports),
            dice: Chance::new(seed, Stream::Dice),
            base: AtomicU64::new(0),
            begun: Mutex::default(),
            since: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            death: Notify::new(),
            commit: Mutex::default(),
        }
    }

    /// True while the store's backend fails.
    pub fn is_away(&self) -> bool {
        self.outage.load(Ordering::SeqCst)
    }

    /// Returns the milliseconds since the beginning of the life.
    #[must_use]
    pub fn elapsed(&self) -> u64 {
        let running = self.begun.lock().map_or(0, |begun| millis(begun.elapsed()));
        self.base.load(Ordering::SeqCst) + running
    }

    /// Records an event now.
    pub fn record(&self, seen: Seen) {
        self.history.record(self.elapsed(), seen);
    }

    /// Begins a process. Called in its runtime.
    pub fn begins(&self) {
        self.dead.store(false, Ordering::SeqCst);
        self.since.store(self.base.load(Ordering::SeqCst), Ordering::SeqCst);
        *self.begun.lock() = Some(Instant::now());
        // A process that starts without its store knows nothing of the one before.
        self.set_outage(false);
        self.record(Seen::Started);
    }

    /// The process has opened its store.
    pub fn opened(&self, store: Arc<dyn Store>) {
        *self.store.lock() = Some(store);
    }

    /// Ends a process, in its runtime; time passes until the next one.
    pub fn ends(&self, end: Seen, down: Duration) {
        *self.store.lock() = None;
        self.committed();
        self.record(end);
        self.base.store(self.elapsed() + millis(down), Ordering::SeqCst);
        *self.begun.lock() = None;
    }

    /// Kills the process: from now on no request of it has an effect.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.death.notify_one();
    }

    /// Waits until the process is killed.
    pub async fn killed(&self) {
        self.death.notified().await;
    }

    /// Sends a request to the other side: a delay, and perhaps a fault before its effect.
    ///
    /// # Panics
    /// The edge panics, as a fault.
    pub async fn enter(&self, port: Port) -> Way {
        self.alive().await;
        let fault = self.fault(port);
        let delay = if self.swarm.delay > 1 { self.ports.millis(self.swarm.delay) } else { Duration::ZERO };
        self.history.count(format_args!("{} {port:?} {fault:?} {delay:?}", self.elapsed()));
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        } else if self.ports.one_in(2) {
            tokio::task::yield_now().await;
        }
        self.alive().await;
        match fault {
            Some(Fault::Refused) => Way::Refused,
            Some(Fault::Hang) => {
                tokio::time::sleep(HANGS).await;
                self.alive().await;
                Way::TimedOut
            }
            Some(Fault::Panic) => panic!("the edge failed"),
            Some(Fault::DeathBefore) => {
                self.kill();
                self.alive().await;
                Way::TimedOut
            }
            Some(Fault::LostAnswer | Fault::LateEffect | Fault::LatePanic | Fault::DeathAfter) | None => {
                Way::Through(fault)
            }
        }
    }

    /// Returns the answer of a request that had its effect.
    ///
    /// # Panics
    /// The edge panics, as a fault.
    pub async fn leave(&self, fault: Option<Fault>) -> Answer {
        match fault {
            Some(Fault::LostAnswer) => Answer::Lost,
            Some(Fault::LateEffect) => {
                tokio::time::sleep(HANGS).await;
                self.alive().await;
                Answer::Lost
            }
            Some(Fault::LatePanic) => panic!("the edge failed"),
            Some(Fault::DeathAfter) => {
                self.kill();
                self.alive().await;
                Answer::Lost
            }
            Some(Fault::Refused | Fault::Hang | Fault::Panic | Fault::DeathBefore) | None => Answer::Arrives,
        }
    }

    /// Counts a failure of the actor at this path.
    pub fn broke(&self, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let kind = name.split(':').next().unwrap_or(name);
        *self.broken.lock().entry(kind.to_owned()).or_default() += 1;
    }

    /// True if an event of the platform arrives twice.
    pub fn repeats(&self) -> bool {
        !self.calm.load(Ordering::SeqCst) && self.ports.one_in(self.swarm.repeats)
    }

    /// True if a refused request to the platform meets its rate limit.
    pub fn limits_instead(&self) -> bool {
        self.ports.one_in(2)
    }

    /// Takes the store's backend away, or gives it back.
    pub fn toggle_outage(&self) {
        let away = !self.is_away() && !self.is_starting();
        self.set_outage(away);
    }

    /// Takes the store's backend away, or gives it back.
    pub fn set_outage(&self, away: bool) {
        if self.outage.swap(away, Ordering::SeqCst) != away {
            self.record(Seen::Outage { away });
        }
    }

    /// True in the first moments of a process. One that starts without its store reads back nothing that members said
    /// while no process ran, so its store works then.
    fn is_starting(&self) -> bool {
        self.elapsed() < self.since.load(Ordering::SeqCst) + millis(STARTS_WITHIN)
    }

    /// True while records are in the memory of the process alone: during an outage of the backend, and until the
    /// store has merged them. A death would lose them, as the guides say.
    pub fn keeps_in_memory(&self) -> bool {
        let store = self.store.lock();
        self.is_away() || store.as_ref().is_some_and(|store| store.status() != StoreStatus::Ready)
    }

    /// A commit begins, perhaps as the repetition of one that failed.
    pub fn commits(&self) {
        self.commit.lock().get_or_insert_with(|| self.elapsed());
    }

    /// A commit was accepted.
    pub fn committed(&self) {
        *self.commit.lock() = None;
    }

    /// Returns the time since which no commit was accepted, if one is under way.
    pub fn commit_under_way(&self) -> Option<u64> {
        *self.commit.lock()
    }

    /// Never resolves in a process that was killed.
    pub async fn alive(&self) {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    fn fault(&self, port: Port) -> Option<Fault> {
        let one_in = self.swarm.fails[port as usize];
        let quiet = self.calm.load(Ordering::SeqCst) || (port == Port::Load && self.is_starting());
        if quiet || !self.ports.one_in(one_in) {
            return None;
        }
        let mut drawn = self.ports.below(self.swarm.weights.iter().sum());
        let weighed = Fault::ALL.into_iter().zip(self.swarm.weights);
        let fault = weighed.into_iter().find(|(_, weight)| {
            let hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            hit
        });
        let (fault, _) = fault?;
        if matches!(fault, Fault::DeathBefore | Fault::DeathAfter) && self.keeps_in_memory() {
            return None;
        }
        // An answer whose edge panics twice is given up: its message may be the reason.
        if matches!(fault, Fault::Panic | Fault::LatePanic) && matches!(port, Port::Post | Port::Read) {
            return None;
        }
        *self.hits.lock().entry((port, fault)).or_default() += 1;
        Some(fault)
    }
}

impl Clock for Outside {
    fn now(&self) -> Timestamp {
        Timestamp(BEGINNING + self.elapsed())
    }
}

impl Dice for Outside {
    fn roll(&self) -> f64 {
        self.dice.roll()
    }
}
