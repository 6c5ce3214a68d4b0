//! A token bucket with a rate per second and a burst size.

use tokio::time::Instant;

pub(super) struct Bucket {
    tokens: f64,
    at: Instant,
    a_second: f64,
    burst: f64,
}

impl Bucket {
    pub(super) fn new(a_second: f64, burst: f64) -> Self {
        Self { tokens: burst, at: Instant::now(), a_second, burst }
    }

    /// Takes `amount`. Returns false and takes nothing if less is available.
    pub(super) fn take(&mut self, amount: f64, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + since * self.a_second).min(self.burst);
        self.at = now;
        let has = self.tokens >= amount;
        if has {
            self.tokens -= amount;
        }
        has
    }

    /// Returns an amount that does not count.
    pub(super) fn give_back(&mut self, amount: f64) {
        self.tokens = (self.tokens + amount).min(self.burst);
    }
}
