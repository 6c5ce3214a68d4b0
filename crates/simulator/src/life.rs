//! One life: processes follow each other, members act, faults occur; then everything works, and the checker judges.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::chance::{Chance, Stream};
use super::checker::{self, Finding};
use super::history::{Entry, Kind, Seen, tokens};
use super::outside::Outside;
use super::process::Process;
use super::swarm::{Fault, Port};
use ports::Clock as _;

/// The time without faults at the end: longer than any wait of a turn, and than any retry.
const CALM: Duration = Duration::from_secs(3_600);

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
    pub questions: u64,
    /// The hits of each fault at each port.
    pub hits: Vec<(Port, Fault, u64)>,
    /// The kinds of actors that broke, and how often.
    pub broken: Vec<(String, u64)>,
    /// All events.
    pub history: Vec<Entry>,
}

/// The reason why a process ended.
enum End {
    /// It was killed, or its tree gave up.
    Killed,
    /// It was stopped in order.
    Stopped,
    /// The life is over.
    Over,
}

struct Life {
    outside: Arc<Outside>,
    workload: Chance,
    processes: Chance,
    seed: u64,
    left: u64,
    /// True once the first process has durable records.
    settled: bool,
    begun: u64,
}

/// Runs the life of a seed. It depends on nothing but the seed, in a new process of the operating system.
#[must_use]
pub fn run(seed: u64, traces: bool) -> Outcome {
    let outside = Outside::new(seed);
    outside.history.traces.store(traces, Ordering::Relaxed);
    let mut life = Life {
        workload: Chance::new(seed, Stream::Workload),
        processes: Chance::new(seed, Stream::Processes),
        left: outside.swarm.actions,
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
            outside.ends(!matches!(end, End::Killed), down);
            end
        });
        // All tasks of the process end where they wait.
        drop(runtime);
        matches!(end, End::Over)
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
                process.stop().await;
                return End::Stopped;
            }
            if self.processes.one_in(outside.swarm.kills) && !outside.keeps_in_memory() {
                return End::Killed;
            }
        }
        outside.set_outage(false);
        outside.calm.store(true, Ordering::SeqCst);
        outside.record(Seen::Calm);
        tokio::select! {
            biased;
            () = process.gave_up() => return End::Killed,
            () = tokio::time::sleep(CALM) => {}
        }
        process.stop().await;
        End::Over
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
        stored.sort_unstable();
        stored.dedup();
        outside.record(Seen::Over { stored });
        let history = outside.history.entries();
        Outcome {
            seed: self.seed,
            findings: checker::judge(&history, outside.swarm.messages),
            hash: outside.history.hash(),
            simulated: outside.elapsed(),
            processes: self.begun,
            questions: history.iter().filter(|entry| matches!(entry.seen, Seen::Asked { .. })).count() as u64,
            hits: outside.hits.lock().iter().map(|((port, fault), many)| (*port, *fault, *many)).collect(),
            broken: outside.broken.lock().iter().map(|(kind, many)| (kind.clone(), *many)).collect(),
            history,
        }
    }
}

fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_time().start_paused(true).build();
    built.unwrap_or_else(|error| panic!("no runtime: {error}"))
}
