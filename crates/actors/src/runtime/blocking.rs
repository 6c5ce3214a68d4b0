//! In-memory work that takes too long for a thread of the async runtime.

use std::panic::resume_unwind;

use tokio::task::spawn_blocking;

/// Runs the work on a blocking thread. A panic of the work propagates to the awaiting task.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime shuts down, and this task with it.
        Err(_) => std::future::pending().await,
    }
}
