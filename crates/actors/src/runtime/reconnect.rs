//! Reconnect delays: exponential backoff that grows while connections are short-lived.

use std::time::Duration;

use tokio::time::Instant;

use domain::restart::Backoff;

/// The minimum duration of a connection that resets the backoff.
pub(crate) const LASTED: Duration = Duration::from_secs(10);

/// The successive connections of one actor.
pub(crate) struct Reconnect {
    since: Instant,
    /// The number of consecutive short-lived connections.
    failures: u32,
}

impl Reconnect {
    /// Records the start of the first connection.
    pub(crate) fn begun() -> Self {
        Self { since: Instant::now(), failures: 0 }
    }

    /// Records the start of another connection.
    pub(crate) fn again(&mut self) {
        self.since = Instant::now();
    }

    /// Records the end of the connection; returns the delay before the next one, for this random roll.
    pub(crate) fn pause(&mut self, backoff: &Backoff, roll: f64) -> Duration {
        self.failures = if self.since.elapsed() >= LASTED { 1 } else { self.failures.saturating_add(1) };
        backoff.delay(self.failures, roll)
    }
}
