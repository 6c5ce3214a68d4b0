//! The memory of `SQLite`. The library bounds it for the whole process and counts none for a connection.
//!
//! - If memory runs out for a statement, the oldest running one stops, and the statement runs again. Only the oldest
//!   fails for lack of memory, so that one that fills the memory and keeps it fails no later ones.
//! - A statement that was stopped runs again once, after those for which it stopped: it may be innocent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

/// Maximum memory of all statements of this process, in bytes: sorting, comparing and temporary results use memory,
/// never temporary files.
pub(super) const HEAP_BYTES: u64 = 64 * 1024 * 1024;

/// The running statements of this process, oldest first. Each flag is true if the statement has to stop.
static STATEMENTS: Mutex<Vec<Arc<AtomicBool>>> = Mutex::new(Vec::new());
/// Notified when a statement ended.
static ENDED: Condvar = Condvar::new();

/// A running statement. Dropping it ends it.
pub(super) struct Running(Arc<AtomicBool>);

impl Running {
    pub(super) fn begin() -> Self {
        let has_to_stop = Arc::<AtomicBool>::default();
        STATEMENTS.lock().push(Arc::clone(&has_to_stop));
        Self(has_to_stop)
    }

    /// Returns the flag that is true if the statement has to stop.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Stops the oldest statement and waits until it ended. Returns false if this statement is the oldest, or if the time
    /// is over.
    pub(super) fn make_room(&self, until: Instant) -> bool {
        let oldest = STATEMENTS.lock().first().filter(|oldest| !Arc::ptr_eq(oldest, &self.0)).cloned();
        oldest.is_some_and(|oldest| {
            oldest.store(true, Ordering::Relaxed);
            have_ended(&[oldest], until)
        })
    }

    /// Ends the statement, waits until the others have ended, and begins it again. Returns none if the time is over.
    pub(super) fn begin_again(self, until: Instant) -> Option<Self> {
        drop(self);
        let others = STATEMENTS.lock().clone();
        have_ended(&others, until).then(Self::begin)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        STATEMENTS.lock().retain(|running| !Arc::ptr_eq(running, &self.0));
        ENDED.notify_all();
    }
}

/// Waits until these statements have ended. Returns false if the time is over before.
fn have_ended(these: &[Arc<AtomicBool>], until: Instant) -> bool {
    let mut statements = STATEMENTS.lock();
    while statements.iter().any(|running| these.iter().any(|one| Arc::ptr_eq(one, running))) {
        if ENDED.wait_until(&mut statements, until.into_std()).timed_out() {
            return false;
        }
    }
    true
}
