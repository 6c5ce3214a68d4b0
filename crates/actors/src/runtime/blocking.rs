//! In-memory work that takes too long for a thread of the async runtime.

use std::panic::resume_unwind;

use domain::panic;

/// Runs the work on a blocking thread. A panic of the work propagates to the awaiting task.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match run(work).await {
        Outcome::Done(done) => done,
        Outcome::Panicked(payload) => resume_unwind(payload),
        // The runtime shuts down, and this task with it.
        Outcome::ShutDown => std::future::pending().await,
    }
}

/// Runs the work on a blocking thread.
///
/// # Errors
/// The message of a panic of the work.
pub async fn blocking_caught<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    match run(work).await {
        Outcome::Done(done) => Ok(done),
        Outcome::Panicked(payload) => Err(panic::text(&*payload)),
        Outcome::ShutDown => std::future::pending().await,
    }
}

enum Outcome<T> {
    Done(T),
    Panicked(Box<dyn std::any::Any + Send>),
    #[cfg_attr(feature = "simulation", expect(dead_code, reason = "a simulation ends with its thread"))]
    ShutDown,
}

#[cfg(not(feature = "simulation"))]
async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Outcome::Done(done),
        Err(error) if error.is_panic() => Outcome::Panicked(error.into_panic()),
        Err(_) => Outcome::ShutDown,
    }
}

/// A simulation has one thread: the order of its tasks depends on the seed alone.
#[cfg(feature = "simulation")]
async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    tokio::task::yield_now().await;
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(done) => Outcome::Done(done),
        Err(payload) => Outcome::Panicked(payload),
    }
}
