//! One life: processes follow each other, members act, faults occur; then everything works, and the checker judges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::chance::{Chance, Stream};
use super::checker::{self, Finding};
use super::history::{Entry, Kind, Seen, tokens};
use super::process::Process;
use super::swarm::{Fault, Port};
use super::world::World;
use domain::planted::Defect;
use ports::Clock as _;

/// The longest time without faults at the end: longer than any wait of a turn and than any retry, and enough for a request
/// for approval to expire.
const CALM: Duration = Duration::from_secs(1_500);
/// The pause between two looks at what is still open in that time.
const LOOK: Duration = Duration::from_secs(60);
/// The looks between two times at which members decide all open requests.
const UNTIL_DECIDED: u64 = 5;
/// The looks in a row without an open question after which a life ends.
const QUIET: u64 = 2;
/// One life of this number lasts for all of the calm, also if nothing is open.
const PATIENT: u64 = 8;

/// The time without faults at the beginning.
const SETTLES: Duration = Duration::from_secs(20);

/// The outcome of a life.
#[derive(Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The violations of promises.
    pub findings: Vec<Finding>,
    /// The hash of all events.
    pub hash: u64,
    /// The simulated time in milliseconds.
    pub simulated: u64,
    /// The number of processes.
    pub processes: u64,
    /// The number of questions.
    pub asked: u64,
    /// The number of questions of which something is promised.
    pub judged: u64,
    /// The hits of each fault at each port.
    pub hits: Vec<(Port, Fault, u64)>,
    /// The kinds of actors that broke, and how often.
    pub broken: BTreeMap<String, u64>,
    /// All events.
    pub history: Vec<Entry>,
}

/// The reason why a process ended.
enum End {
    /// It was killed, or its tree gave up.
    Killed,
    /// It was stopped in order, and all of its records are durable or not.
    Stopped { kept: bool },
    /// The life is over.
    Over { kept: bool },
}

struct Life {
    world: Arc<World>,
    workload: Chance,
    processes: Chance,
    seed: u64,
    left: u64,
    /// True once the first process has durable records.
    settled: bool,
    begun: u64,
}

/// A life.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The seed.
    pub seed: u64,
    /// The number of actions of members; `None` for the seed's own.
    pub actions: Option<u64>,
    /// The planted defect.
    pub planted: Option<Defect>,
    /// True if each step of the actors and ports is printed.
    pub steps: bool,
}

/// Runs a life. It depends on nothing but its seed, in a new process of the operating system.
#[must_use]
pub fn run(wanted: &Wanted) -> Outcome {
    let seed = wanted.seed;
    ports::work_in_place();
    let world = World::new(seed);
    world.history.traces.store(wanted.steps, Ordering::Relaxed);
    if let Some(defect) = wanted.planted {
        defect.plant();
    }
    let mut life = Life {
        workload: Chance::new(seed, Stream::Workload),
        processes: Chance::new(seed, Stream::Processes),
        left: wanted.actions.unwrap_or(world.swarm.actions),
        seed,
        settled: false,
        begun: 0,
        world,
    };
    while !life.process() {}
    life.outcome()
}

impl Life {
    /// Runs one process. Returns true if the life is over.
    fn process(&mut self) -> bool {
        self.begun += 1;
        let runtime = runtime();
        let world = Arc::clone(&self.world);
        let end = runtime.block_on(async {
            world.begins();
            let end = tokio::select! {
                biased;
                () = world.killed() => End::Killed,
                end = self.acts() => end,
            };
            let down = self.processes.millis(world.swarm.down);
            world.platform.disconnect();
            let kept = match end {
                End::Killed => !world.keeps_in_memory(),
                End::Stopped { kept } | End::Over { kept } => kept,
            };
            let (in_order, under_way) = (!matches!(end, End::Killed), world.commit_under_way());
            world.ends(Seen::Ended { in_order, loses: !kept, under_way }, down);
            end
        });
        // All tasks of the process end where they wait.
        drop(runtime);
        matches!(end, End::Over { .. })
    }

    /// Members act until the process ends.
    async fn acts(&mut self) -> End {
        let world = Arc::clone(&self.world);
        let Some(mut process) = Process::start(&world, self.seed).await else { return End::Killed };
        if !self.settled {
            // A bot that has never run reads nothing back: the promises begin with its first durable records.
            tokio::time::sleep(SETTLES).await;
            self.settled = true;
            world.calm.store(false, Ordering::SeqCst);
        }
        while self.left > 0 {
            let pause = self.workload.millis(world.swarm.pause);
            tokio::select! {
                biased;
                () = process.gave_up() => return End::Killed,
                () = tokio::time::sleep(pause) => {}
            }
            self.left -= 1;
            self.act();
            if self.processes.one_in(world.swarm.cuts) {
                world.platform.cut(self.processes.one_in(2));
            }
            if self.processes.one_in(world.swarm.outages) {
                world.toggle_outage();
            }
            if self.processes.one_in(world.swarm.restarts) && !world.keeps_in_memory() {
                return End::Stopped { kept: process.stop().await };
            }
            if self.processes.one_in(world.swarm.kills) && !world.keeps_in_memory() {
                return End::Killed;
            }
        }
        world.set_outage(false);
        world.calm.store(true, Ordering::SeqCst);
        world.record(Seen::Calm);
        tokio::select! {
            biased;
            () = process.gave_up() => return End::Killed,
            () = self.calm() => {}
        }
        End::Over { kept: process.stop().await }
    }

    /// Waits until nothing is open, and long enough for a second answer to appear. One life of [`PATIENT`] waits longer
    /// than any retry; in half of these, no member decides and requests for approval expire.
    async fn calm(&self) {
        let patient = self.processes.one_in(PATIENT);
        let expires = patient && self.processes.one_in(2);
        let (mut quiet, looks) = (0, CALM.as_secs() / LOOK.as_secs());
        for look in 1..=looks {
            tokio::time::sleep(LOOK).await;
            if !expires && look % UNTIL_DECIDED == 0 {
                self.world.platform.decide_all(&self.world);
            }
            quiet = if self.is_open() { 0 } else { quiet + 1 };
            if quiet == QUIET && !patient {
                return;
            }
        }
    }

    /// True if a question has no whole answer yet.
    fn is_open(&self) -> bool {
        let history = self.world.history.entries();
        checker::judge(&history, self.world.swarm.messages, true).is_open()
    }

    /// A member does something.
    fn act(&self) {
        let (workload, world) = (&self.workload, &*self.world);
        let (member, place) = (workload.below(world.swarm.members), workload.below(world.swarm.places));
        match workload.below(32) {
            0..=11 => world.platform.ask(world, Kind::Plain, member, place),
            12..=14 => world.platform.ask(world, Kind::Long, member, place),
            15..=16 => world.platform.ask(world, Kind::Look, member, place),
            17..=20 => world.platform.ask(world, Kind::Pay, member, place),
            21..=26 => {
                let (nth, other, approves) = (workload.below(4), workload.one_in(4), !workload.one_in(4));
                world.platform.click(world, nth, other, approves);
            }
            27..=28 => world.platform.delete(world, workload.below(4)),
            29 => world.platform.run(world, "new", member, place),
            30 => world.platform.run(world, "forget", member, place),
            _ => world.platform.run(world, "usage", member, place),
        }
    }

    fn outcome(self) -> Outcome {
        let world = self.world;
        let rows = world.rows.living(world.now(), "");
        let mut stored = BTreeSet::new();
        for (key, text) in &rows {
            let named = [tokens(key), tokens(text)].concat();
            if !named.is_empty() {
                world.history.count(format_args!("stored {key} {text}"));
            }
            stored.extend(named);
        }
        world.record(Seen::Over { stored: stored.into_iter().collect() });
        let history = world.history.entries();
        let failures = self.begun > 1 || !world.broken.lock().is_empty();
        let verdict = checker::judge(&history, world.swarm.messages, failures);
        Outcome {
            seed: self.seed,
            judged: verdict.judged,
            findings: verdict.findings,
            hash: world.history.hash(),
            simulated: world.elapsed(),
            processes: self.begun,
            asked: history.iter().filter(|entry| matches!(entry.seen, Seen::Asked { .. })).count() as u64,
            hits: world.hits.lock().iter().map(|((port, fault), many)| (*port, *fault, *many)).collect(),
            broken: world.broken.lock().clone(),
            history,
        }
    }
}

fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_time().start_paused(true).build();
    built.unwrap_or_else(|error| panic!("no runtime: {error}"))
}
