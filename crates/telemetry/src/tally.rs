//! Counts of this process as numbers, for the pages. Metrics with the same meaning are rendered from the same events.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::happening::{ActorChange, Happening};
use domain::shed::Shed;
use ports::Observer;
use ports::samples::Counters;

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub struct Tally {
    refused: AtomicU64,
    shed: AtomicU64,
    lost: AtomicU64,
    doubled: AtomicU64,
    failures: AtomicU64,
}

impl Tally {
    /// Returns the counts that the pages show.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let [refused, shed, lost, doubled] =
            [&self.refused, &self.shed, &self.lost, &self.doubled].map(|count| count.load(Ordering::Relaxed));
        Counters { refused, shed, lost, doubled }
    }

    /// Returns the number of actor failures.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Counts work that telemetry itself rejected, which is no event: reporting it would produce more of it.
    pub(crate) fn shed_here(&self, at: Shed, many: u64) {
        self.shed.fetch_add(many, Ordering::Relaxed);
        metrics::counter!(crate::metrics::SHED_TOTAL, "where" => at.as_str()).increment(many);
    }
}

impl Observer for Tally {
    fn observe(&self, happening: &Happening<'_>) {
        if happening.loses_turn() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        let count = match happening {
            Happening::LimitRefused(..) => &self.refused,
            Happening::WorkShed(_) => &self.shed,
            Happening::TurnPosted(posted) if posted.doubled => &self.doubled,
            Happening::Actor { change: ActorChange::Failed { .. }, .. } => &self.failures,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
