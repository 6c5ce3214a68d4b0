//! The memory budget of the answers that are being read, in bytes, shared by all providers by the rule of
//! [`domain::fair_share`]: a provider reserves more only while at least as much is free as it then holds. Large answers
//! of some providers therefore leave memory for those of others. An answer reserves memory as it arrives and releases it
//! when it is read. If it gets none before the timeout, it fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::bounds::{ANSWER_BYTES, LONG_ANSWER};
use ports::shares::{Share, Shares};
use ports::{ModelError, ModelErrorKind};

/// The bytes of all answers that are being read. One provider has at most half of them.
const ALL_BYTES: usize = 64 * 1024 * 1024;
/// The timeout of waiting for memory.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most long answers or frames that are parsed at once, each with a few copies of its contents.
const PARSED_AT_ONCE: usize = 2;
/// The unit of the budget, in bytes.
const UNIT: usize = 1024;

/// The budget of one provider. Clones are the same budget.
#[derive(Clone)]
pub struct Budget {
    all: Shares<Arc<str>>,
    provider: Arc<str>,
    parsing: Arc<Semaphore>,
}

/// Reserved memory of one answer, released on drop.
pub struct Reservation {
    budget: Budget,
    shares: Vec<Share<Arc<str>>>,
    bytes: usize,
    parsing: Option<OwnedSemaphorePermit>,
}

impl Default for Budget {
    fn default() -> Self {
        let all = Shares::new(Arc::new(Semaphore::new(ALL_BYTES / UNIT)));
        Self { all, provider: Arc::from(""), parsing: Arc::new(Semaphore::new(PARSED_AT_ONCE)) }
    }
}

impl Budget {
    /// Returns the budget of a provider within the same total.
    pub fn of(&self, provider: &str) -> Self {
        Self { provider: Arc::from(provider), ..self.clone() }
    }

    /// Begins an answer, which has no memory yet.
    pub fn begin(&self) -> Reservation {
        Reservation { budget: self.clone(), shares: Vec::new(), bytes: 0, parsing: None }
    }

    /// Waits until something long may be parsed. The semaphore is never closed, so there is always a permit.
    pub async fn parsing(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.parsing).acquire_owned().await.ok()
    }
}

impl Reservation {
    /// Reserves memory for an answer that has this many bytes now. Short answers need none.
    ///
    /// # Errors
    /// There was no memory for this provider before the timeout.
    pub async fn hold(&mut self, bytes: usize) -> Result<(), ModelError> {
        if bytes <= self.bytes.max(LONG_ANSWER) {
            return Ok(());
        }
        // Doubled, so that an answer in small pieces reserves seldom.
        let wanted = bytes.max((2 * self.bytes).min(ANSWER_BYTES));
        let units = (wanted - self.bytes).div_ceil(UNIT);
        let share = timeout(TIMEOUT, self.budget.all.wait_many(Some(&self.budget.provider), units));
        self.shares.push(share.await.map_err(|_| no_memory())?);
        self.bytes += units * UNIT;
        Ok(())
    }

    /// Waits until a long answer may be parsed, and keeps that permit.
    pub async fn parse(&mut self) {
        self.parsing = self.budget.parsing().await;
    }

    /// True if the answer is long.
    pub const fn is_long(&self) -> bool {
        self.bytes > 0
    }

    pub const fn budget(&self) -> &Budget {
        &self.budget
    }
}

fn no_memory() -> ModelError {
    let message = "there is no memory for an answer of this size: other answers hold it";
    ModelError::new(ModelErrorKind::NoMemory, message)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn large_answers_of_one_provider_leave_memory_for_those_of_another() {
        let budget = Budget::default();
        let (one, other) = (budget.of("one"), budget.of("other"));
        let mut held = Vec::new();
        loop {
            let mut answer = one.begin();
            let begun = Instant::now();
            if answer.hold(ANSWER_BYTES).await.is_err() {
                assert_eq!(begun.elapsed(), TIMEOUT);
                break;
            }
            held.push(answer);
        }
        assert_eq!(held.len() * ANSWER_BYTES, ALL_BYTES / 2, "one provider has at most half");
        let mut answer = other.begin();
        answer.hold(ANSWER_BYTES).await.unwrap();
        one.begin().hold(LONG_ANSWER).await.unwrap();
        assert!(answer.is_long() && !one.begin().is_long(), "short answers need no memory");
        held.pop();
        one.begin().hold(ANSWER_BYTES).await.unwrap();
        drop((held, answer));
        assert_eq!(budget.all.free() * UNIT, ALL_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_small_pieces_reserves_seldom_and_what_it_has() {
        let mut answer = Budget::default().begin();
        for bytes in (0..=ANSWER_BYTES).step_by(1000) {
            answer.hold(bytes).await.unwrap();
            assert!(answer.bytes >= bytes || bytes <= LONG_ANSWER);
        }
        assert!(answer.shares.len() < 8 && answer.bytes <= ANSWER_BYTES + UNIT, "{}", answer.bytes);
    }
}
