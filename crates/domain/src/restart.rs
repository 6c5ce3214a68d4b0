//! The law of supervision: who is started again, after how long, and when a supervisor gives up. Time and chance are arguments.
//!
//! Intensity measures whether restarts help. A life that fails at its start, at an event of its own or because of its children
//! would fail the same way again, so it counts. One that fails while it handles what somebody outside wrote (a *poison message*)
//! says nothing about the actor: its restarts wait longer instead of being counted, or anybody could end the process.

use std::collections::VecDeque;
use std::time::Duration;

/// The most failures that a history remembers. An intensity that allows as many or more never escalates.
pub const MAX_REMEMBERED: u32 = 1_024;

/// Who is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    Permanent,
    /// After a failure, not after a normal end.
    Transient,
    /// Never.
    Temporary,
}

impl Restart {
    /// The name in the tree's picture.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Transient => "transient",
            Self::Temporary => "temporary",
        }
    }
}

/// The highest bound of the waits after failures at poison messages, unless the actor's own is higher.
pub const POISON_CAP: Duration = Duration::from_secs(30);

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was done.
    Normal,
    /// It panicked, returned an error, or could not start.
    Failure,
    /// The same while it handled what somebody outside wrote.
    Poison,
}

/// How many counted restarts of one child within which time are borne. One more, and the supervisor itself fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intensity {
    /// Restarts that are borne; zero bears none.
    pub restarts: u32,
    /// The time within which they are counted.
    pub period: Duration,
}

/// How long a restart waits: a random time up to a bound that doubles from `base` to `cap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The bound of the first wait; zero restarts at once, every time.
    pub base: Duration,
    /// The highest bound.
    pub cap: Duration,
}

impl Backoff {
    /// The wait before restart number `attempt`, counted from zero; `roll` is in `[0, 1)` and draws it evenly from zero to the
    /// bound (full jitter), so that many children that fell together do not rise together.
    #[must_use]
    pub fn delay(&self, attempt: u32, roll: f64) -> Duration {
        let roll = if roll.is_finite() { roll.clamp(0.0, 1.0) } else { 0.0 };
        self.bound(attempt).mul_f64(roll)
    }

    /// The same for failures that are not counted: the bound doubles on to [`POISON_CAP`].
    #[must_use]
    pub fn patient(self) -> Self {
        Self { cap: self.cap.max(POISON_CAP), ..self }
    }

    /// The longest that [`Self::delay`] can be.
    #[must_use]
    pub fn bound(&self, attempt: u32) -> Duration {
        let factor = 2_u32.checked_pow(attempt).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }
}

/// What holds for one child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Whether it is started again.
    pub restart: Restart,
    /// How many restarts are borne.
    pub intensity: Intensity,
    /// How long they wait.
    pub backoff: Backoff,
}

/// What a supervisor does about a child that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Starts it again after this time.
    RestartAfter(Duration),
    /// Fails itself: restarting does not help.
    Escalate,
    /// Lets it be.
    Leave,
}

/// The ends of one child.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// When the counted restarts were decided, oldest first; at most [`MAX_REMEMBERED`].
    restarts: VecDeque<Duration>,
    /// Restarts in a row without a calm period between them.
    attempt: u32,
    /// When the last restart was due.
    due: Option<Duration>,
}

impl History {
    /// Takes note of an end at `now` (time since some fixed origin, never going back) and judges it.
    pub fn record(&mut self, policy: &RestartPolicy, exit: Exit, now: Duration, roll: f64) -> RestartDecision {
        match (policy.restart, exit) {
            (Restart::Temporary, _) | (Restart::Transient, Exit::Normal) => return RestartDecision::Leave,
            (Restart::Permanent, _) | (Restart::Transient, Exit::Failure | Exit::Poison) => {}
        }
        if exit != Exit::Poison && self.exceeds(policy.intensity, now) {
            return RestartDecision::Escalate;
        }
        // The time that it spent waiting for its restart is no calm.
        let calm = self.due.is_none_or(|due| now.saturating_sub(due) > policy.intensity.period);
        self.attempt = if calm { 0 } else { self.attempt.saturating_add(1) };
        let backoff = if exit == Exit::Poison { policy.backoff.patient() } else { policy.backoff };
        let delay = backoff.delay(self.attempt, roll);
        self.due = Some(now.saturating_add(delay));
        RestartDecision::RestartAfter(delay)
    }

    /// Counts a restart, and says whether it is one too many.
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
