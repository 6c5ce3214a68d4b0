//! In-memory work that takes too long for a thread of the async runtime.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// The payload of a panic.
pub type Panicked = Box<dyn Any + Send>;

/// True if a simulation runs in this process.
static IN_PLACE: AtomicBool = AtomicBool::new(false);

/// Makes all later work of this process run in the thread of its caller. A simulation needs that: the order of its tasks
/// must not depend on other threads.
pub fn work_in_place() {
    IN_PLACE.store(true, Ordering::Relaxed);
}

/// Runs the work on a blocking thread. It never resolves if the runtime shuts down before the work begins.
///
/// # Errors
/// The work panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Panicked> {
    if IN_PLACE.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
        return catch_unwind(AssertUnwindSafe(work));
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => Err(error.into_panic()),
        // The runtime shuts down, and this task with it.
        Err(_) => std::future::pending().await,
    }
}
