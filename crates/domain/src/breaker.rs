//! The circuit breaker of a model or a tool server. It opens after failures of several turns from several people, and
//! lets one probe through after a while. One person cannot open it alone, and one turn counts once however often it
//! retries. A few people whose requests alone fail do not close a working model to the others:
//!
//! - It stays closed while as many people succeed as fail.
//! - If the probe of a person whose calls failed fails again, one person without a failure may probe at once.
//! - If such a person succeeds while it is open, the failures so far say nothing about the model: for a while those
//!   people alone cannot open it again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

/// The number of failed turns without a success in between that opens the breaker.
pub const OPEN_AFTER: usize = 3;
/// The number of distinct origins that these turns must have.
pub const ORIGINS: usize = 2;
/// The default time for which the breaker stays open before one probe call.
pub const OPEN_FOR: Duration = Duration::from_secs(15);
/// The time for which the success of an origin counts.
pub const SUCCESS_FOR: Duration = Duration::from_secs(15);
/// The time for which people whose failures were refuted cannot open the breaker without another person.
pub const SUSPECT_FOR: Duration = Duration::from_secs(120);
/// Maximum number of turns and origins remembered; more than needed to open.
const REMEMBERED: usize = 32;
/// Maximum number of successful origins that count; fewer than the failing ones remembered.
const SUCCESSES: usize = 16;

/// One circuit breaker. `T` identifies a turn and `O` its origin: the person who asked, or the bot itself. Times are
/// durations since a fixed origin that the caller chooses.
#[derive(Debug)]
pub struct Breaker<T, O> {
    turns: HashSet<T>,
    origins: HashSet<O>,
    /// The origins of the newest successes with their times, oldest first.
    successes: VecDeque<(O, Duration)>,
    /// The origins whose failures a success refuted, with the time of the success.
    suspects: HashMap<O, Duration>,
    open_until: Option<Duration>,
    open_for: Duration,
    /// True if the last probe failed and came from an origin that had failed before.
    doubtful: bool,
}

impl<T, O> Default for Breaker<T, O> {
    fn default() -> Self {
        let (turns, origins, successes, suspects) = (HashSet::new(), HashSet::new(), VecDeque::new(), HashMap::new());
        Self { turns, origins, successes, suspects, open_until: None, open_for: OPEN_FOR, doubtful: false }
    }
}

/// A state change that the caller should report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerChange {
    /// The breaker opened: calls are refused.
    Opened,
    /// The breaker closed: calls are allowed.
    Closed,
}

impl<T: Eq + Hash, O: Eq + Hash> Breaker<T, O> {
    /// Sets how long the breaker stays open, starting with its next opening.
    pub const fn opening_for(&mut self, open_for: Duration) -> &mut Self {
        self.open_for = open_for;
        self
    }

    /// True if a call of this origin may go now. When the open time is over, one probe may go. If its result is never
    /// reported, the next probe may go after another open time.
    pub fn allow(&mut self, origin: &O, now: Duration) -> bool {
        match self.open_until {
            None => true,
            Some(until) if now < until && (!self.doubtful || self.origins.contains(origin)) => false,
            Some(_) => {
                self.open_until = Some(now + self.open_for);
                self.doubtful = false;
                true
            }
        }
    }

    /// Records a successful call.
    pub fn succeeded(&mut self, origin: O, now: Duration) -> Option<BreakerChange> {
        let was_open = self.open_until.take().is_some();
        if was_open && !self.origins.contains(&origin) {
            self.suspects.retain(|_, since| *since + SUSPECT_FOR > now);
            let more = REMEMBERED.saturating_sub(self.suspects.len());
            self.suspects.extend(self.origins.drain().take(more).map(|origin| (origin, now)));
        }
        self.successes.retain(|(of, _)| *of != origin);
        if self.successes.len() == SUCCESSES {
            self.successes.pop_front();
        }
        self.successes.push_back((origin, now));
        self.turns.clear();
        self.origins.clear();
        self.doubtful = false;
        was_open.then_some(BreakerChange::Closed)
    }

    /// Records a failure that the callee caused, not the request.
    pub fn failed(&mut self, turn: T, origin: O, now: Duration) -> Option<BreakerChange> {
        self.successes.retain(|(of, at)| *of != origin && *at + SUCCESS_FOR > now);
        self.doubtful = self.open_until.is_some() && self.origins.contains(&origin);
        if self.turns.len() < REMEMBERED {
            self.turns.insert(turn);
        }
        if self.origins.len() < REMEMBERED {
            self.origins.insert(origin);
        }
        let many = self.turns.len() >= OPEN_AFTER && self.origins.len() >= ORIGINS;
        if self.open_until.is_none() && !(many && self.origins.len() > self.successes.len() && self.is_shared(now)) {
            return None;
        }
        let was_open = self.open_until.replace(now + self.open_for).is_some();
        (!was_open).then_some(BreakerChange::Opened)
    }

    /// True if an origin failed whose failures no success refuted lately.
    fn is_shared(&self, now: Duration) -> bool {
        let suspect = |origin: &O| self.suspects.get(origin).is_some_and(|since| *since + SUSPECT_FOR > now);
        !self.origins.iter().all(suspect)
    }

    /// Returns how long calls are refused from now on.
    #[must_use]
    pub fn rest(&self, now: Duration) -> Duration {
        self.open_until.unwrap_or_default().saturating_sub(now)
    }

    /// True if the breaker opened and no call succeeded since.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }

    /// True if no call may go now, not even a probe.
    #[must_use]
    pub fn refuses(&self, now: Duration) -> bool {
        self.open_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(failures: &[(u32, &'static str)]) -> bool {
        let mut breaker = Breaker::default();
        for (turn, origin) in failures {
            breaker.failed(*turn, *origin, Duration::ZERO);
        }
        breaker.is_open()
    }

    #[test]
    fn it_opens_after_the_turns_of_several_people_and_lets_one_call_try() {
        let mut breaker = Breaker::default();
        let now = Duration::from_secs(100);
        assert_eq!((breaker.failed(1, "ada", now), breaker.failed(2, "ben", now)), (None, None));
        assert!(breaker.allow(&"ada", now));
        assert_eq!(breaker.failed(3, "ada", now), Some(BreakerChange::Opened));
        assert!(!breaker.allow(&"ada", now) && breaker.is_open());
        assert_eq!((breaker.rest(now), breaker.rest(now + OPEN_FOR / 3)), (OPEN_FOR, OPEN_FOR * 2 / 3));
        let later = now + OPEN_FOR;
        assert!(breaker.allow(&"ada", later), "one call may try");
        assert!(!breaker.allow(&"ada", later), "and only one");
        assert_eq!(breaker.failed(4, "ada", later), None);
        assert!(!breaker.allow(&"ada", later + OPEN_FOR / 2));
        assert_eq!(breaker.succeeded("ada", later), Some(BreakerChange::Closed));
        assert!(breaker.allow(&"ada", later));
    }

    #[test]
    fn a_person_without_a_failure_may_probe_after_a_failed_probe_of_another_one() {
        let mut breaker = Breaker::default();
        for (turn, person) in [(1, "x"), (2, "y"), (3, "z")] {
            breaker.failed(turn, person, Duration::ZERO);
        }
        assert!(!breaker.allow(&"ada", OPEN_FOR / 2) && breaker.allow(&"x", OPEN_FOR));
        assert!(!breaker.allow(&"ada", OPEN_FOR), "the probe is under way");
        breaker.failed(4, "x", OPEN_FOR);
        assert!(!breaker.allow(&"y", OPEN_FOR) && breaker.allow(&"ada", OPEN_FOR) && !breaker.allow(&"ben", OPEN_FOR));
        breaker.failed(5, "ada", OPEN_FOR);
        assert!(!breaker.allow(&"ben", OPEN_FOR), "the model is down");
    }

    #[test]
    fn people_whose_failures_were_refuted_do_not_open_it_again_alone() {
        let mut breaker = Breaker::default();
        let attack = |breaker: &mut Breaker<u64, &str>, from: u64, at: Duration| {
            (from..from + 6)
                .zip(["x", "y", "z"].into_iter().cycle())
                .any(|(turn, person)| breaker.failed(turn, person, at) == Some(BreakerChange::Opened))
        };
        assert!(attack(&mut breaker, 0, Duration::ZERO));
        assert!(breaker.allow(&"ada", OPEN_FOR));
        assert_eq!(breaker.succeeded("ada", OPEN_FOR), Some(BreakerChange::Closed));
        let later = OPEN_FOR + SUCCESS_FOR;
        assert!(!attack(&mut breaker, 10, later));
        assert_eq!(breaker.failed(20, "ben", later), Some(BreakerChange::Opened), "it fails for others too");
        breaker.succeeded("x", later);
        assert!(attack(&mut breaker, 30, OPEN_FOR + SUSPECT_FOR), "the success is long ago");
    }

    #[test]
    fn it_stays_open_for_as_long_as_it_was_told_last() {
        let (mut breaker, short) = (Breaker::default(), Duration::from_secs(2));
        for turn in 0..OPEN_AFTER {
            breaker.opening_for(short).failed(turn, turn, Duration::ZERO);
        }
        assert!(breaker.refuses(short / 2) && !breaker.refuses(short));
        assert!(
            breaker.opening_for(OPEN_FOR).allow(&0, short)
                && breaker.refuses(OPEN_FOR)
                && !breaker.refuses(OPEN_FOR + short)
        );
    }

    #[test]
    fn one_person_and_one_turn_never_open_it() {
        assert!(!opened(&[(1, "ada"), (2, "ada"), (3, "ada"), (4, "ada"), (5, "ada")]));
        assert!(!opened(&[(1, "ada"), (1, "ada"), (1, "ada"), (2, "ben"), (2, "ben"), (2, "ben")]));
        assert!(opened(&[(1, "ada"), (2, "ada"), (3, "ben")]));
    }

    #[test]
    fn a_success_in_between_starts_the_count_anew() {
        let mut breaker = Breaker::default();
        for turn in 0..10 {
            assert_eq!(breaker.failed(turn, turn, Duration::ZERO), None);
            assert_eq!(breaker.succeeded(100, Duration::ZERO), None);
        }
    }

    #[test]
    fn it_stays_closed_while_as_many_people_succeed_as_fail() {
        let mut breaker = Breaker::default();
        let at = Duration::from_secs;
        for person in ["ada", "ben", "cyd"] {
            breaker.succeeded(person, at(0));
        }
        for (turn, person) in [(1, "x"), (2, "y"), (3, "z"), (4, "x"), (5, "y")] {
            assert_eq!(breaker.failed(turn, person, at(1)), None, "three people succeeded just now");
        }
        assert_eq!(breaker.failed(6, "ada", at(2)), Some(BreakerChange::Opened), "the failure spreads");
        breaker.succeeded("ben", at(3));
        for turn in 7..10 {
            assert_eq!(breaker.failed(turn, "x", at(4)), None);
        }
        assert_eq!(
            breaker.failed(10, "dan", at(3) + SUCCESS_FOR),
            Some(BreakerChange::Opened),
            "the success is long ago"
        );
    }
}
