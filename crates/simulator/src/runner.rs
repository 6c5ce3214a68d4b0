//! Runs lives in processes of their own.

use std::num::NonZero;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use domain::planted::Defect;
use parking_lot::Mutex;
use staffai_simulator::swarm::ACTIONS_MAX;

use super::report::Report;

/// The file of this program.
const THIS: &str = "/proc/self/exe";

/// Runs lives of this program.
pub struct Runner {
    /// The number of lives at the same time.
    pub jobs: NonZero<usize>,
    /// The defect that is planted in each life. The first finding then ends the run.
    pub planted: Option<Defect>,
}

/// Returns the number of processors.
pub fn processors() -> NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

impl Runner {
    /// Runs the lives of these seeds, and adds them to the report.
    pub fn run(&self, seeds: Range<u64>, report: Report) -> Report {
        let (next, found) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
        let report = Mutex::new(report);
        let begun = monotonic();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.get() {
                scope.spawn(|| {
                    while !found.load(Ordering::SeqCst) {
                        let seed = next.fetch_add(1, Ordering::SeqCst);
                        if seed >= seeds.end {
                            break;
                        }
                        let line = self.life(seed, None);
                        let mut report = report.lock();
                        report.add(seed, &line);
                        found.store(self.planted.is_some() && report.found() > 0, Ordering::SeqCst);
                    }
                });
            }
        });
        let mut report = report.into_inner();
        report.took = monotonic().saturating_sub(begun);
        report
    }

    /// Returns the fewest actions with which a life still has findings; `None` if it has none.
    pub fn shrink(&self, seed: u64) -> Option<u64> {
        let fails = |actions: Option<u64>| {
            let mut report = Report::default();
            report.add(seed, &self.life(seed, actions));
            report.found() > 0
        };
        if fails(None) { (1..=ACTIONS_MAX).find(|actions| fails(Some(*actions))) } else { None }
    }

    fn life(&self, seed: u64, actions: Option<u64>) -> String {
        let mut command = Command::new(THIS);
        command.args(["life", &seed.to_string(), "--json"]).stderr(Stdio::null());
        if let Some(actions) = actions {
            command.args(["--actions", &actions.to_string()]);
        }
        if let Some(planted) = self.planted {
            command.args(["--planted", planted.name()]);
        }
        let output = command.output().map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }
}

/// Plants each defect, and prints the number of lives until it is found. Returns true if each one is found.
pub fn defects(seeds: u64) -> bool {
    let mut all = true;
    for defect in Defect::ALL {
        let runner = Runner { jobs: processors(), planted: Some(defect) };
        let report = runner.run(0..seeds, Report::default());
        let found = report.found() > 0;
        let lives = if found { report.lives().to_string() } else { format!("not in {seeds}") };
        println!("{:<44}{lives}", defect.name());
        all &= found;
    }
    all
}

/// Returns the time since the machine started. The clock of this process stands still, because a life must not read it.
fn monotonic() -> Duration {
    let read = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    read.split(' ').next().and_then(|seconds| seconds.parse().ok()).map_or(Duration::ZERO, Duration::from_secs_f64)
}
