//! The watchdog: a supervisor checks its children for handlers that exceed the time limits of their rows.

use std::time::Duration;

use ractor::ActorCell;

use super::children::{Children, KILL_TIMEOUT, Timer};
use crate::runtime::handle::{Hung, Stats};
use crate::tree::OnHang;
use domain::happening::ActorChange;

/// The interval between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The maximum number of children in one check, far below a millisecond of work; the next check continues after them.
const LOOK_MAX: usize = 1_000;

/// The position of one supervisor's watchdog.
#[derive(Default)]
pub(super) struct Watch {
    /// True if its timer runs.
    runs: bool,
    /// The child at which the next check begins.
    next: u64,
}

impl Watch {
    /// Starts the timer, because the supervisor has children.
    pub fn begin(&mut self, timer: &(dyn Fn(Duration, Timer) + Send + Sync)) {
        if !std::mem::replace(&mut self.runs, true) {
            timer(LOOK_EVERY, Timer::Look);
        }
    }
}

impl Children {
    /// Checks the next children. The timer stops if the supervisor has no children, and starts again with the first
    /// one.
    pub fn look(&mut self) {
        let mut seen = 0;
        for (index, child) in self.list.all.range(self.watch.next..).take(LOOK_MAX) {
            (self.watch.next, seen) = (index + 1, seen + 1);
            if let Some(cell) = &child.cell
                && let Some(hung) = child.spec.stats().look(KILL_TIMEOUT)
            {
                self.act(hung, child.spec.stats(), child.spec.row.on_hang, cell);
            }
        }
        if seen < LOOK_MAX {
            self.watch.next = 0;
        }
        self.watch.runs = !self.list.all.is_empty();
        if self.watch.runs {
            (self.timer)(LOOK_EVERY, Timer::Look);
        }
    }

    fn act(&self, hung: Hung, stats: &Stats, on_hang: OnHang, cell: &ActorCell) {
        match (hung, on_hang) {
            (Hung::Overdue(input, ran), on_hang) => {
                let hung = ActorChange::Hung { handling: input.as_str(), ran, action: on_hang.as_str() };
                stats.tell(&self.shared.observers, hung);
                if on_hang == OnHang::Restart {
                    // The kill takes effect at the child's next await; its end arrives as a failure.
                    cell.kill();
                }
            }
            (Hung::Blocked(ran), OnHang::Restart) => stats.tell(&self.shared.observers, ActorChange::Blocked(ran)),
            (Hung::Blocked(_), OnHang::Log) => {}
        }
    }
}
