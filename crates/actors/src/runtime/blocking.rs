//! In-memory work that takes too long for a thread of the async runtime.

use std::panic::resume_unwind;

use domain::panic;

/// Runs the work on a blocking thread. A panic of the work propagates to the awaiting task.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    ports::blocking(work).await.unwrap_or_else(|panicked| resume_unwind(panicked))
}

/// Runs the work on a blocking thread if it is `long`, and in place otherwise.
pub async fn blocking_if<T: Send + 'static>(long: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
    if long { blocking(work).await } else { work() }
}

/// Runs the work on a blocking thread.
///
/// # Errors
/// The text of a panic of the work.
pub async fn blocking_caught<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    ports::blocking(work).await.map_err(|panicked| panic::text(&*panicked))
}
