//! Work in memory that takes longer than a task may hold its thread.

use std::panic::resume_unwind;

use tokio::task::spawn_blocking;

/// Does this work on a thread of its own. A panic of it is one of the task that waits.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime goes down, and this task with it.
        Err(_) => std::future::pending().await,
    }
}
