//! One life: processes follow each other, members act, faults occur; then everything works, and the checker judges.

use std::collections::BTreeMap;
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

/// The time without faults at the end: longer than any wait of a turn, and than any retry.
const CALM: Duration = Duration::from_secs(600);
/// The time in which a request for approval expires in addition to that.
const EXPIRES: Duration = Duration::from_secs(900);

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
    outside: Arc<World>,
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
    /// The name of a planted defect.
    pub planted: Option<String>,
    /// True if each step of the actors and ports is printed.
    pub steps: bool,
}

/// Runs a life. It depends on nothing but its seed, in a new process of the operating system.
#[must_use]
pub fn run(wanted: &Wanted) -> Outcome {
    let seed = wanted.seed;
    ports::work_in_place();
    let outside = World::new(seed);
    outside.history.traces.store(wanted.steps, Ordering::Relaxed);
    if let Some(defect) = wanted.planted.as_deref().and_then(Defect::named) {
        defect.plant();
    }
    let mut life = Life {
        workload: Chance::new(seed, Stream::Workload),
        processes: Chance::new(seed, Stream::Processes),
        left: wanted.actions.unwrap_or(outside.swarm.actions),
        seed,
        settled: false,
        begun: 0,
        outside,
    };
    while !life.process() {}
    life.outcome()
}

impl Life {
    /// Runs one process. Returns true if the life is over.
    fn process(&mut self) -> bool {
        self.begun += 1;
        let runtime = runtime();
        let outside = Arc::clone(&self.outside);
        let end = runtime.block_on(async {
            outside.begins();
            let end = tokio::select! {
                biased;
                () = outside.killed() => End::Killed,
                end = self.acts() => end,
            };
            let down = self.processes.millis(outside.swarm.down);
            outside.platform.disconnect();
            let kept = match end {
                End::Killed => !outside.keeps_in_memory(),
                End::Stopped { kept } | End::Over { kept } => kept,
            };
            outside.ends(Seen::Ended { in_order: !matches!(end, End::Killed), loses: !kept }, down);
            end
        });
        // All tasks of the process end where they wait.
        drop(runtime);
        matches!(end, End::Over { .. })
    }

    /// Members act until the process ends.
    async fn acts(&mut self) -> End {
        let outside = Arc::clone(&self.outside);
        let Some(mut process) = Process::start(&outside, self.seed).await else { return End::Killed };
        if !self.settled {
            // A bot that has never run reads nothing back: the promises begin with its first durable records.
            tokio::time::sleep(SETTLES).await;
            self.settled = true;
            outside.calm.store(false, Ordering::SeqCst);
        }
        while self.left > 0 {
            let pause = self.workload.millis(outside.swarm.pause);
            tokio::select! {
                biased;
                () = process.gave_up() => return End::Killed,
                () = tokio::time::sleep(pause) => {}
            }
            self.left -= 1;
            self.act();
            if self.processes.one_in(outside.swarm.cuts) {
                outside.platform.cut(self.processes.one_in(2));
            }
            if self.processes.one_in(outside.swarm.outages) {
                outside.toggle_outage();
            }
            if self.processes.one_in(outside.swarm.restarts) && !outside.keeps_in_memory() {
                return End::Stopped { kept: process.stop().await };
            }
            if self.processes.one_in(outside.swarm.kills) && !outside.keeps_in_memory() {
                return End::Killed;
            }
        }
        outside.set_outage(false);
        outside.calm.store(true, Ordering::SeqCst);
        outside.record(Seen::Calm);
        let calm = if self.processes.one_in(4) {
            CALM + EXPIRES
        } else {
            // Time for requests that are still on their way.
            tokio::time::sleep(CALM / 2).await;
            outside.platform.decide_all(&outside);
            CALM
        };
        tokio::select! {
            biased;
            () = process.gave_up() => return End::Killed,
            () = tokio::time::sleep(calm) => {}
        }
        End::Over { kept: process.stop().await }
    }

    /// A member does something.
    fn act(&self) {
        let (workload, outside) = (&self.workload, &*self.outside);
        let (member, place) = (workload.below(outside.swarm.members), workload.below(outside.swarm.places));
        match workload.below(32) {
            0..=11 => outside.platform.ask(outside, Kind::Plain, member, place),
            12..=14 => outside.platform.ask(outside, Kind::Long, member, place),
            15..=16 => outside.platform.ask(outside, Kind::Look, member, place),
            17..=20 => outside.platform.ask(outside, Kind::Pay, member, place),
            21..=26 => {
                let (nth, other, approves) = (workload.below(4), workload.one_in(4), !workload.one_in(4));
                outside.platform.click(outside, nth, other, approves);
            }
            27..=28 => outside.platform.delete(outside, workload.below(4)),
            29 => outside.platform.run(outside, "new", member, place),
            30 => outside.platform.run(outside, "forget", member, place),
            _ => outside.platform.run(outside, "usage", member, place),
        }
    }

    fn outcome(self) -> Outcome {
        let outside = self.outside;
        let rows = outside.rows.living(outside.now(), "");
        let mut stored: Vec<u64> = rows.iter().flat_map(|(key, text)| [tokens(key), tokens(text)].concat()).collect();
        for (key, text) in rows.iter().filter(|(key, text)| !tokens(key).is_empty() || !tokens(text).is_empty()) {
            outside.history.count(format_args!("stored {key} {text}"));
        }
        stored.sort_unstable();
        stored.dedup();
        outside.record(Seen::Over { stored });
        let history = outside.history.entries();
        let failures = self.begun > 1 || !outside.broken.lock().is_empty();
        let verdict = checker::judge(&history, outside.swarm.messages, failures);
        Outcome {
            seed: self.seed,
            judged: verdict.judged,
            findings: verdict.findings,
            hash: outside.history.hash(),
            simulated: outside.elapsed(),
            processes: self.begun,
            asked: history.iter().filter(|entry| matches!(entry.seen, Seen::Asked { .. })).count() as u64,
            hits: outside.hits.lock().iter().map(|((port, fault), many)| (*port, *fault, *many)).collect(),
            broken: outside.broken.lock().clone(),
            history,
        }
    }
}

fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_time().start_paused(true).build();
    built.unwrap_or_else(|error| panic!("no runtime: {error}"))
}
