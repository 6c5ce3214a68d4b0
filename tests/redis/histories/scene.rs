//! The scene of one history: members who ask, lines to the server, the plan of faults, and the record of events.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::checker::Event;
use crate::proxy::{Mode, Proxy};

/// The pause between two questions, and the time at which members stop asking.
const ASKS_EVERY: Duration = Duration::from_millis(150);
const ASKS_FOR: Duration = Duration::from_millis(4_500);

/// The bound on the wait for the last answers: many terms of the lease.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The times of faults, in milliseconds.
const FAULTS_MS: std::ops::Range<u64> = 700..3_500;

/// The longest difference of an owner's clock, in milliseconds.
const SKEW_MS: i64 = 3_600_000;

/// A fault of one owner.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// It is stopped for longer than the term of the lease.
    Stop(Duration),
    /// It is killed; the next process starts at once.
    Kill,
    /// It ends in order.
    End,
    /// Its line to the server is closed or silent.
    Partition(Mode, Duration),
    /// Its connections are reset.
    Cut,
    /// Its clock jumps by so many milliseconds.
    Jump(i64),
}

impl Fault {
    fn name(&self) -> &'static str {
        match self {
            Self::Stop(_) => "stops",
            Self::Kill => "kills",
            Self::End => "orderly ends",
            Self::Partition(..) => "partitions",
            Self::Cut => "cuts",
            Self::Jump(_) => "jumps of clocks",
        }
    }
}

/// A fault, its time in microseconds, and its victim: the active owner, or those that stand by.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    pub at: u64,
    pub of_active: bool,
    pub fault: Fault,
}

/// The faults and the clock of one owner.
#[derive(Debug, Clone)]
pub struct OwnerPlan {
    pub skew_ms: i64,
    pub faults: Vec<Planned>,
}

/// Returns the plans of two or three owners.
pub fn plan(seed: u64) -> Vec<OwnerPlan> {
    let dice = &mut StdRng::seed_from_u64(seed);
    let mut faults: Vec<Planned> = (0..dice.random_range(1..=3)).map(|_| planned(dice)).collect();
    faults.sort_by_key(|fault| fault.at);
    let owner = |_| OwnerPlan { skew_ms: dice.random_range(-SKEW_MS..=SKEW_MS), faults: faults.clone() };
    (0..2 + usize::from(seed.is_multiple_of(3))).map(owner).collect()
}

fn planned(dice: &mut StdRng) -> Planned {
    let at = dice.random_range(FAULTS_MS) * 1_000;
    let lasts = |dice: &mut StdRng, range| Duration::from_millis(dice.random_range(range));
    let fault = match dice.random_range(0..100) {
        0..35 => Fault::Stop(lasts(dice, 2_100..3_200)),
        35..50 => Fault::Kill,
        50..60 => Fault::End,
        60..75 => Fault::Partition(Mode::Silent, lasts(dice, 300..3_000)),
        75..85 => Fault::Partition(Mode::Closed, lasts(dice, 300..3_000)),
        85..93 => Fault::Cut,
        _ => Fault::Jump(dice.random_range(-SKEW_MS..=SKEW_MS)),
    };
    let of_active = matches!(fault, Fault::End) || dice.random_bool(0.8);
    Planned { at, of_active, fault }
}

/// A question and its state at the platform.
#[derive(Default)]
struct Question {
    /// The life that received it last.
    by: u64,
    acknowledged: bool,
    posted: bool,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    questions: BTreeMap<u64, Question>,
    active: BTreeSet<usize>,
    /// The lives that took up all turns of earlier ones.
    took_up: BTreeSet<u64>,
    /// The number of faults by kind.
    suffered: BTreeMap<&'static str, usize>,
}

pub struct Scene {
    /// The lines of the owners to the server.
    pub lines: Vec<Proxy>,
    pub plan: Vec<OwnerPlan>,
    database: usize,
    began: Instant,
    runtime: Handle,
    state: Mutex<State>,
    told: Vec<Notify>,
    over: watch::Sender<bool>,
    lives: AtomicU64,
}

impl Scene {
    /// Creates the scene of a seed in a database of this server.
    pub async fn new(seed: u64, server: SocketAddr, database: usize) -> Arc<Self> {
        let plan = plan(seed);
        let mut lines = Vec::new();
        for _ in &plan {
            lines.push(Proxy::to(server).await);
        }
        Arc::new(Self {
            told: plan.iter().map(|_| Notify::new()).collect(),
            lines,
            plan,
            database,
            began: Instant::now(),
            runtime: Handle::current(),
            state: Mutex::default(),
            over: watch::Sender::new(false),
            lives: AtomicU64::new(1),
        })
    }

    /// Lets members ask, waits for the answers, and ends the history. Returns all events.
    pub async fn plays(&self) {
        let mut number = 0;
        while self.began.elapsed() < ASKS_FOR {
            number += 1;
            self.record(Event::Asked { turn: number });
            self.state.lock().questions.insert(number, Question::default());
            sleep(ASKS_EVERY).await;
        }
        let until = Instant::now() + ANSWER_TIMEOUT;
        while Instant::now() < until && self.state.lock().questions.values().any(|question| !question.posted) {
            sleep(Duration::from_millis(50)).await;
        }
        self.over.send_replace(true);
    }

    pub fn events(&self) -> Vec<Event> {
        self.state.lock().events.clone()
    }

    pub fn url(&self, owner: usize) -> String {
        format!("redis://{}/{}", self.lines[owner].address(), self.database)
    }

    /// Returns the microseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    /// Returns a time in microseconds since the beginning.
    pub fn at(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.began).as_micros()).unwrap()
    }

    pub fn record(&self, event: Event) {
        self.state.lock().events.push(event);
    }

    /// Counts a fault.
    pub fn suffers(&self, fault: &Fault) {
        *self.state.lock().suffered.entry(fault.name()).or_default() += 1;
    }

    /// Returns the number of faults by kind.
    pub fn suffered(&self) -> BTreeMap<&'static str, usize> {
        self.state.lock().suffered.clone()
    }

    pub fn next_life(&self) -> u64 {
        self.lives.fetch_add(1, Ordering::Relaxed)
    }

    // === The owners ===

    pub fn acts(&self, owner: usize) {
        self.state.lock().active.insert(owner);
    }

    pub fn stands_by(&self, owner: usize) {
        self.state.lock().active.remove(&owner);
    }

    pub fn is_active(&self, owner: usize) -> bool {
        self.state.lock().active.contains(&owner)
    }

    /// Asks the active process of this owner to end in order.
    pub fn tell(&self, owner: usize) {
        self.told[owner].notify_waiters();
    }

    pub async fn told(&self, owner: usize) {
        self.told[owner].notified().await;
    }

    /// Breaks the line of an owner for a while.
    pub fn parts(self: &Arc<Self>, owner: usize, mode: Mode, lasts: Duration) {
        let scene = Arc::clone(self);
        scene.lines[owner].set(mode);
        self.runtime.spawn(async move {
            sleep(lasts).await;
            scene.lines[owner].set(Mode::Open);
        });
    }

    pub fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    pub async fn over(&self) {
        // The sender is in this scene.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    // === The platform ===

    /// Delivers to a life what no process acknowledged and no member saw answered, each once.
    pub fn undelivered(&self, life: u64) -> Vec<u64> {
        let mut state = self.state.lock();
        let open = |question: &Question| !question.acknowledged && !question.posted && question.by != life;
        let open: Vec<u64> =
            state.questions.iter().filter(|(_, question)| open(question)).map(|(number, _)| *number).collect();
        for number in &open {
            state.questions.entry(*number).or_default().by = life;
        }
        open
    }

    /// True if a life may take up a turn that it read: it has not received the question itself.
    pub fn takes(&self, life: u64, number: u64) -> bool {
        let mut state = self.state.lock();
        std::mem::replace(&mut state.questions.entry(number).or_default().by, life) != life
    }

    pub fn has_taken_up(&self, life: u64) {
        self.state.lock().took_up.insert(life);
    }

    pub fn took_up(&self, life: u64) -> bool {
        self.state.lock().took_up.contains(&life)
    }

    pub fn acknowledge(&self, number: u64) {
        let mut state = self.state.lock();
        state.questions.entry(number).or_default().acknowledged = true;
        state.events.push(Event::Acknowledged { turn: number });
    }

    pub fn post(&self, term: u64, number: u64) {
        let at = self.now();
        let mut state = self.state.lock();
        state.questions.entry(number).or_default().posted = true;
        state.events.push(Event::Posted { term, turn: number, at });
    }
}
