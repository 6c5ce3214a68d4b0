//! The deadline of a turn: it bounds what stands still, and moves on while a model writes.
//!
//! Clones are the same deadline, so the reader of a stream moves it for all that wait: the turn itself, the permits, the tools, the
//! drafts, the typing. It never moves backwards, and never past `latest`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// A deadline that is moved on by what arrives.
#[derive(Debug, Clone)]
pub struct Deadline(Arc<Moving>);

#[derive(Debug)]
struct Moving {
    /// The time that something may stand still.
    patience: Duration,
    /// The moment that it is never moved past.
    latest: Instant,
    due: Mutex<Instant>,
}

impl Deadline {
    /// A deadline that is due `patience` after the last move, and at the latest `longest` from now. A `longest` that is shorter
    /// than `patience` counts as `patience`.
    #[must_use]
    pub fn new(patience: Duration, longest: Duration) -> Self {
        let now = Instant::now();
        let moving = Moving { patience, latest: now + longest.max(patience), due: Mutex::new(now + patience) };
        Self(Arc::new(moving))
    }

    /// A deadline that nothing moves.
    #[must_use]
    pub fn fixed(at: Instant) -> Self {
        Self(Arc::new(Moving { patience: Duration::ZERO, latest: at, due: Mutex::new(at) }))
    }

    /// The moment at which it is due now.
    #[must_use]
    pub fn at(&self) -> Instant {
        *self.0.due.lock()
    }

    /// The time that is left now.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.at().saturating_duration_since(Instant::now())
    }

    /// True once it has passed; what has passed is not moved any more.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.at() <= Instant::now()
    }

    /// Something arrived: what follows has all of its patience again.
    pub fn move_on(&self) {
        let now = Instant::now();
        let due = &mut *self.0.due.lock();
        if *due > now {
            *due = (now + self.0.patience).min(self.0.latest).max(*due);
        }
    }

    /// Resolves when it has passed, however often it was moved meanwhile.
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
