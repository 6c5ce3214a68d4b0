//! The restart policy of supervision: which children restart, after which delay, and when a supervisor gives up. Time
//! and randomness are arguments.
//!
//! Intensity measures whether restarts help. A failure at the start, at an internal event or caused by children would
//! recur, so it counts. A failure while handling external input (a *poison message*) says nothing about the actor's
//! health. Such restarts get a longer backoff and are not counted; otherwise any sender could terminate the process.

use std::collections::VecDeque;
use std::time::Duration;

/// The maximum number of failures in a history. An intensity at or above this number never escalates.
pub const MAX_REMEMBERED: u32 = 1_024;

/// The restart type of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Restarted after every exit.
    Permanent,
    /// Restarted after a failure, not after a normal exit.
    Transient,
    /// Never restarted.
    Temporary,
}

impl Restart {
    /// Returns the name shown in the supervision tree.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Transient => "transient",
            Self::Temporary => "temporary",
        }
    }
}

/// The cap of the backoff after failures at poison messages, unless the child's own cap is higher.
pub const POISON_CAP: Duration = Duration::from_secs(30);

/// The exit of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It finished.
    Normal,
    /// It panicked, returned an error, or could not start.
    Failure,
    /// The same, while it handled external input.
    Poison,
}

/// The restart intensity: the maximum number of counted restarts of one child within a period. At the next one, the
/// supervisor itself fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intensity {
    /// The maximum number of restarts; zero allows none.
    pub restarts: u32,
    /// The length of the sliding window.
    pub period: Duration,
}

/// The exponential backoff with full jitter of restarts: a random delay up to a bound that doubles from `base` to
/// `cap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The bound of the first delay; zero restarts immediately, every time.
    pub base: Duration,
    /// The highest bound.
    pub cap: Duration,
}

impl Backoff {
    /// Returns the delay before restart number `attempt`, counted from zero. `roll` in `[0, 1)` selects it uniformly
    /// between zero and the bound (full jitter), so that children that failed together do not restart together.
    #[must_use]
    pub fn delay(&self, attempt: u32, roll: f64) -> Duration {
        let roll = if roll.is_finite() { roll.clamp(0.0, 1.0) } else { 0.0 };
        self.bound(attempt).mul_f64(roll)
    }

    /// Returns the backoff for uncounted failures: its bound doubles up to [`POISON_CAP`].
    #[must_use]
    pub fn patient(self) -> Self {
        Self { cap: self.cap.max(POISON_CAP), ..self }
    }

    /// Returns the longest possible [`Self::delay`].
    #[must_use]
    pub fn bound(&self, attempt: u32) -> Duration {
        let factor = 2_u32.checked_pow(attempt).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }
}

/// The restart policy of one child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The restart type.
    pub restart: Restart,
    /// The maximum restart intensity.
    pub intensity: Intensity,
    /// The backoff of restarts.
    pub backoff: Backoff,
}

/// The supervisor's decision about a child that exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Restarts it after this delay.
    RestartAfter(Duration),
    /// The supervisor itself fails, because restarts do not help.
    Escalate,
    /// The child is not restarted.
    Leave,
}

/// The exit history of one child.
#[derive(Debug, Clone, Default)]
pub struct RestartHistory {
    /// The times of the counted restarts, oldest first; at most [`MAX_REMEMBERED`].
    restarts: VecDeque<Duration>,
    /// The number of consecutive restarts without a calm period between them.
    attempt: u32,
    /// The time when the last restart was due.
    due: Option<Duration>,
}

impl RestartHistory {
    /// Records an exit at `now` (monotonic time since a fixed origin) and returns the decision.
    pub fn record(&mut self, policy: &RestartPolicy, exit: Exit, now: Duration, roll: f64) -> RestartDecision {
        match (policy.restart, exit) {
            (Restart::Temporary, _) | (Restart::Transient, Exit::Normal) => return RestartDecision::Leave,
            (Restart::Permanent, _) | (Restart::Transient, Exit::Failure | Exit::Poison) => {}
        }
        if exit != Exit::Poison && self.exceeds(policy.intensity, now) {
            return RestartDecision::Escalate;
        }
        // The restart delay does not count as calm.
        let calm = self.due.is_none_or(|due| now.saturating_sub(due) > policy.intensity.period);
        self.attempt = if calm { 0 } else { self.attempt.saturating_add(1) };
        let backoff = if exit == Exit::Poison { policy.backoff.patient() } else { policy.backoff };
        let delay = backoff.delay(self.attempt, roll);
        self.due = Some(now.saturating_add(delay));
        RestartDecision::RestartAfter(delay)
    }

    /// Counts a restart. Returns true if it exceeds the intensity.
    fn exceeds(&mut self, intensity: Intensity, now: Duration) -> bool {
        let Intensity { restarts, period } = intensity;
        while self.restarts.front().is_some_and(|at| now.saturating_sub(*at) > period) {
            self.restarts.pop_front();
        }
        if restarts < MAX_REMEMBERED && self.restarts.len() >= restarts as usize {
            return true;
        }
        if self.restarts.len() == MAX_REMEMBERED as usize {
            self.restarts.pop_front();
        }
        self.restarts.push_back(now);
        false
    }
}

#[cfg(test)]
mod tests;
