//! The law of a circuit breaker: after several failures in a row a model is left alone for a while, then tried once.

use std::time::Duration;

/// Failures in a row that open the breaker.
pub const OPEN_AFTER: u32 = 5;
/// How long it stays open before one call may try again.
pub const OPEN_FOR: Duration = Duration::from_secs(15);

/// One breaker. Times are durations since an origin that the caller keeps.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    open_until: Option<Duration>,
}

/// A change worth telling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It opened: calls are refused.
    Opened,
    /// It closed: calls flow.
    Closed,
}

impl Breaker {
    /// Whether a call may go now. When an open breaker's time is over, one call may go, and the next only if that one is not
    /// heard of again.
    pub fn allow(&mut self, now: Duration) -> bool {
        match self.open_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                self.open_until = Some(now + OPEN_FOR);
                true
            }
        }
    }

    /// A call went well.
    pub fn succeeded(&mut self) -> Option<Change> {
        self.failures = 0;
        self.open_until.take().map(|_| Change::Closed)
    }

    /// A call failed in a way that speaks of the model, not of the request.
    pub fn failed(&mut self, now: Duration) -> Option<Change> {
        self.failures = self.failures.saturating_add(1);
        if self.failures < OPEN_AFTER {
            return None;
        }
        let was_open = self.open_until.replace(now + OPEN_FOR).is_some();
        (!was_open).then_some(Change::Opened)
    }

    /// It refuses calls.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_call_try() {
        let mut breaker = Breaker::default();
        let now = Duration::from_secs(100);
        for _ in 1..OPEN_AFTER {
            assert_eq!(breaker.failed(now), None);
        }
        assert!(breaker.allow(now));
        assert_eq!(breaker.failed(now), Some(Change::Opened));
        assert!(!breaker.allow(now));
        let later = now + OPEN_FOR;
        assert!(breaker.allow(later), "one call may try");
        assert!(!breaker.allow(later), "and only one");
        assert_eq!(breaker.succeeded(), Some(Change::Closed));
        assert!(breaker.allow(later));
    }

    #[test]
    fn a_success_in_between_starts_the_count_anew() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            assert_eq!(breaker.failed(Duration::ZERO), None);
            assert_eq!(breaker.succeeded(), None);
        }
    }
}
