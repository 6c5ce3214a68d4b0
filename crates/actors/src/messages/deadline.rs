//! The deadline of a turn: a stall timeout that is extended while a model writes.
//!
//! Clones share one deadline, so the reader of a stream extends it for every user: the turn, the permits, the tools,
//! the drafts, and the typing indicator. It never moves backwards and never past `latest`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// A deadline that progress extends.
#[derive(Debug, Clone)]
pub struct Deadline(Arc<Moving>);

#[derive(Debug)]
struct Moving {
    /// The maximum time without progress.
    patience: Duration,
    /// The upper limit of the deadline.
    latest: Instant,
    due: Mutex<Instant>,
}

impl Deadline {
    /// Returns a deadline that is due `patience` after the last progress, and at most `longest` from now. A `longest`
    /// shorter than `patience` counts as `patience`.
    #[must_use]
    pub fn new(patience: Duration, longest: Duration) -> Self {
        let now = Instant::now();
        let moving = Moving { patience, latest: now + longest.max(patience), due: Mutex::new(now + patience) };
        Self(Arc::new(moving))
    }

    /// Returns a fixed deadline.
    #[must_use]
    pub fn fixed(at: Instant) -> Self {
        Self(Arc::new(Moving { patience: Duration::ZERO, latest: at, due: Mutex::new(at) }))
    }

    /// Returns the current due time.
    #[must_use]
    pub fn at(&self) -> Instant {
        *self.0.due.lock()
    }

    /// Returns the remaining time.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.at().saturating_duration_since(Instant::now())
    }

    /// True if the deadline has passed; a passed deadline is not extended any more.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.at() <= Instant::now()
    }

    /// Records progress: the deadline is again `patience` from now.
    pub fn move_on(&self) {
        let now = Instant::now();
        let due = &mut *self.0.due.lock();
        if *due > now {
            *due = (now + self.0.patience).min(self.0.latest).max(*due);
        }
    }

    /// Completes when the deadline has passed, including all extensions.
    pub async fn passed(&self) {
        loop {
            let due = self.at();
            sleep_until(due).await;
            if self.at() <= due {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);
    const LONGEST: Duration = Duration::from_secs(100);

    #[tokio::test(start_paused = true)]
    async fn it_waits_as_long_as_something_arrives_and_not_longer() {
        let (deadline, begun) = (Deadline::new(PATIENCE, LONGEST), Instant::now());
        let waits = tokio::spawn({
            let deadline = deadline.clone();
            async move { deadline.passed().await }
        });
        for _ in 0..5 {
            tokio::time::sleep(PATIENCE / 2).await;
            deadline.move_on();
            assert_eq!(deadline.left(), PATIENCE);
        }
        waits.await.unwrap();
        assert_eq!(begun.elapsed(), PATIENCE / 2 * 5 + PATIENCE);
        deadline.move_on();
        assert!(deadline.has_passed(), "what is over stays over");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_moves_it_past_the_longest_time() {
        let (deadline, begun) = (Deadline::new(PATIENCE, LONGEST), Instant::now());
        let arrives = async {
            loop {
                tokio::time::sleep(PATIENCE / 4).await;
                deadline.move_on();
            }
        };
        tokio::select! { () = deadline.passed() => {}, () = arrives => {} }
        assert_eq!(begun.elapsed(), LONGEST);
        let short = Deadline::new(PATIENCE, Duration::ZERO);
        assert_eq!(short.left(), PATIENCE, "the longest time is never shorter than the patience");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_one_stays() {
        let deadline = Deadline::fixed(Instant::now() + PATIENCE);
        tokio::time::sleep(PATIENCE / 2).await;
        deadline.move_on();
        assert_eq!(deadline.left(), PATIENCE / 2);
    }
}
