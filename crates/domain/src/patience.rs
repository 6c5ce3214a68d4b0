//! An adaptive deadline for requests to a server: a multiple of its usual response time.
//!
//! A fixed deadline is too long for a fast server that hangs, or too short for a slow server that works. So the
//! deadline follows the responses: [`TIMES`] the 99th percentile of the recent ones, between two bounds. Each missed
//! deadline doubles it for a while, so a server that suddenly slows down fails at most a few requests before the
//! deadline fits.

use std::time::Duration;

use super::latencies::Latencies;

/// The factor between the 99th percentile and the deadline.
const TIMES: u32 = 8;

/// The number of responses before which the upper bound applies, because the server is unknown.
const KNOWN_AFTER: u32 = 64;

/// The number of responses between two computations of the deadline.
const RENEWED_AFTER: u32 = 32;

/// The number of responses in one generation. The present and the previous generation count.
const GENERATION: u32 = 512;

/// The number of timely responses that revert one doubling.
const CALM: u32 = 256;

/// The maximum number of doublings.
const DOUBLINGS_MAX: u32 = 5;

/// The deadline of one kind of request to one server.
#[derive(Debug, Clone)]
pub struct Patience {
    least: Duration,
    most: Duration,
    present: Latencies,
    before: Latencies,
    /// The number of responses in the present generation.
    answers: u32,
    /// The number of all responses, up to [`KNOWN_AFTER`].
    known: u32,
    /// The deadline according to the responses, within the bounds.
    usual: Duration,
    doublings: u32,
    /// The number of timely responses since the last change of the doublings.
    calm: u32,
}

impl Patience {
    /// Creates a deadline between these bounds. It begins with the upper one.
    #[must_use]
    pub fn new(least: Duration, most: Duration) -> Self {
        let (present, before) = (Latencies::default(), Latencies::default());
        let least = least.min(most);
        Self { least, most, present, before, answers: 0, known: 0, usual: most, doublings: 0, calm: 0 }
    }

    /// Returns the deadline of the next request.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        (self.usual * (1 << self.doublings)).min(self.most)
    }

    /// Records a response, successful or not, after this time.
    pub fn answered(&mut self, took: Duration) {
        self.present.record(took);
        self.answers += 1;
        self.known = (self.known + 1).min(KNOWN_AFTER);
        self.calm += 1;
        if self.calm >= CALM {
            self.calm = 0;
            self.doublings = self.doublings.saturating_sub(1);
        }
        if self.known == KNOWN_AFTER && self.answers.is_multiple_of(RENEWED_AFTER) {
            self.renew();
        }
        if self.answers >= GENERATION {
            self.before = std::mem::take(&mut self.present);
            self.answers = 0;
        }
    }

    /// Records a request that got no response before its deadline.
    pub fn missed(&mut self) {
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
        self.calm = 0;
    }

    fn renew(&mut self) {
        let mut all = self.before.clone();
        all.add(&self.present);
        let usual = all.percentile(99).map_or(self.most, Duration::from_micros);
        self.usual = usual.saturating_mul(TIMES).clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEAST: Duration = Duration::from_millis(150);
    const MOST: Duration = Duration::from_secs(1);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns the deadline after `answers` responses of equal duration.
    fn after(answers: u32, took: Duration) -> Patience {
        let mut patience = Patience::new(LEAST, MOST);
        for _ in 0..answers {
            patience.answered(took);
        }
        patience
    }

    #[test]
    fn it_follows_what_a_server_usually_takes_between_its_bounds() {
        assert_eq!(after(10, ms(1)).deadline(), MOST, "nothing is known yet");
        assert_eq!(after(200, ms(1)).deadline(), LEAST, "a fast server");
        let slow = after(200, ms(60)).deadline();
        assert!(slow > ms(350) && slow < ms(650), "eight times 60 ms, as near as it is counted: {slow:?}");
        assert_eq!(after(200, ms(400)).deadline(), MOST);
        assert_eq!(Patience::new(MOST, LEAST).deadline(), LEAST, "the upper bound wins");
    }

    #[test]
    fn a_server_that_became_slow_is_failed_a_few_times_at_most_and_one_that_became_fast_is_trusted_again() {
        let mut patience = after(2_000, ms(2));
        let mut failed = 0;
        for _ in 0..2_000 {
            if ms(500) > patience.deadline() {
                patience.missed();
                failed += 1;
            } else {
                patience.answered(ms(500));
            }
        }
        assert!(failed <= 2, "{failed}");
        for _ in 0..3_000 {
            patience.answered(ms(2));
        }
        assert_eq!(patience.deadline(), LEAST);
    }

    #[test]
    fn a_server_that_hangs_now_and_then_is_given_up_on_soon_again() {
        let mut patience = after(1_000, ms(2));
        for _ in 0..10 {
            patience.missed();
        }
        assert_eq!(patience.deadline(), MOST);
        for _ in 0..(CALM * DOUBLINGS_MAX) {
            patience.answered(ms(2));
        }
        assert_eq!(patience.deadline(), LEAST);
    }

    proptest! {
        /// A healthy server misses no deadline at any speed, although single responses take five times as long as most.
        #[test]
        fn a_slow_server_that_works_is_never_failed(usual in 1_u64..190, odd in prop::collection::vec(0_u64..100, 50)) {
            let mut patience = Patience::new(LEAST, MOST);
            for round in 0..3_000_usize {
                let took = match odd[round % odd.len()] {
                    0 | 1 => ms(usual * 5),
                    part => ms(usual * (50 + part) / 100),
                };
                prop_assert!(took <= patience.deadline(), "{took:?} after {round}, {patience:?}");
                patience.answered(took);
            }
        }

        #[test]
        fn it_never_leaves_its_bounds(steps in prop::collection::vec((any::<bool>(), any::<u32>()), 0..500)) {
            let mut patience = Patience::new(LEAST, MOST);
            for (late, micros) in steps {
                if late { patience.missed() } else { patience.answered(Duration::from_micros(micros.into())) }
                prop_assert!(patience.deadline() >= LEAST && patience.deadline() <= MOST);
            }
        }
    }
}
