//! The memory of `SQLite`. The library bounds it for the whole process and counts none for a connection.
//!
//! - If memory runs out for a statement, the oldest running one stops, and the statement runs again. The oldest fails for
//!   lack of memory itself.
//! - A statement that was stopped runs again once, after those that ran then: it may have used hardly any memory. It is not
//!   stopped a second time; later statements wait for its end instead, at most until its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

/// Maximum memory of all statements of this process, in bytes: sorting, comparing and temporary results use memory,
/// never temporary files.
pub(super) const HEAP_BYTES: u64 = 64 * 1024 * 1024;

/// The running statements of this process, oldest first.
static STATEMENTS: Mutex<Vec<Arc<Statement>>> = Mutex::new(Vec::new());
/// Notified when a statement ended.
static ENDED: Condvar = Condvar::new();

#[derive(Default)]
struct Statement {
    has_to_stop: AtomicBool,
    /// True if it was stopped before, and runs again.
    runs_again: bool,
}

/// A running statement. Dropping it ends it.
pub(super) struct Running(Arc<Statement>);

impl Running {
    pub(super) fn begin() -> Self {
        Self::of(Statement::default())
    }

    fn of(statement: Statement) -> Self {
        let statement = Arc::new(statement);
        STATEMENTS.lock().push(Arc::clone(&statement));
        Self(statement)
    }

    /// Returns a check that is true if the statement has to stop.
    pub(super) fn has_to_stop(&self) -> impl Fn() -> bool + Send + use<> {
        let statement = Arc::clone(&self.0);
        move || statement.has_to_stop.load(Ordering::Relaxed)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.has_to_stop.load(Ordering::Relaxed)
    }

    /// Waits until memory was given back: by the oldest statement that may be stopped, or else by older ones that may not.
    /// Returns false if there are none, or if the time is over.
    pub(super) fn make_room(&self, until: Instant) -> bool {
        let statements = STATEMENTS.lock().clone();
        let others = match statements.iter().find(|statement| !statement.runs_again) {
            Some(oldest) if !Arc::ptr_eq(oldest, &self.0) => {
                oldest.has_to_stop.store(true, Ordering::Relaxed);
                vec![Arc::clone(oldest)]
            }
            _ => statements.into_iter().take_while(|older| !Arc::ptr_eq(older, &self.0)).collect(),
        };
        !others.is_empty() && have_ended(&others, until)
    }

    /// Ends the statement, waits until the others have ended, and begins it again. Returns none if the time is over.
    pub(super) fn begin_again(self, until: Instant) -> Option<Self> {
        drop(self);
        let others = STATEMENTS.lock().clone();
        have_ended(&others, until).then(|| Self::of(Statement { runs_again: true, ..Statement::default() }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        STATEMENTS.lock().retain(|running| !Arc::ptr_eq(running, &self.0));
        ENDED.notify_all();
    }
}

/// Waits until these statements have ended. Returns false if the time is over before.
fn have_ended(these: &[Arc<Statement>], until: Instant) -> bool {
    let mut statements = STATEMENTS.lock();
    while statements.iter().any(|running| these.iter().any(|one| Arc::ptr_eq(one, running))) {
        if ENDED.wait_until(&mut statements, until.into_std()).timed_out() {
            return false;
        }
    }
    true
}
