//! When a connection that ended is begun again: after pauses that grow while connections do not last.

use std::time::Duration;

use tokio::time::Instant;

use domain::restart::Backoff;

/// How long a connection must last for the pauses to start over.
const LASTED: Duration = Duration::from_secs(10);

/// The connections of one actor, one after the other.
pub(crate) struct Reconnect {
    since: Instant,
    /// Connections in a row that did not last.
    failures: u32,
}

impl Reconnect {
    /// The first one is begun now.
    pub(crate) fn begun() -> Self {
        Self { since: Instant::now(), failures: 0 }
    }

    /// One more is begun now.
    pub(crate) fn again(&mut self) {
        self.since = Instant::now();
    }

    /// It ended: the pause before the next one, for a throw of dice.
    pub(crate) fn pause(&mut self, backoff: &Backoff, roll: f64) -> Duration {
        self.failures = if self.since.elapsed() >= LASTED { 1 } else { self.failures.saturating_add(1) };
        backoff.delay(self.failures, roll)
    }
}
