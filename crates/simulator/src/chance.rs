//! Random numbers of a life: one stream for each consumer, so that a change of one leaves the others as they were.

use parking_lot::Mutex;
use std::time::Duration;

/// The consumers of random numbers. Append new ones; the number of each is part of every seed's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The parameters of the life.
    Swarm,
    /// The actions of members.
    Workload,
    /// The outcomes of requests at the ports.
    Ports,
    /// The failures of actors.
    Actors,
    /// The random source of the program.
    Dice,
    /// The ends of processes and the time until the next one.
    Processes,
}

/// A stream of random numbers (`SplitMix64`, Steele, Lea and Flood 2014).
#[derive(Debug)]
pub struct Chance(Mutex<u64>);

impl Chance {
    /// Returns the stream of a consumer in the life with this seed.
    #[must_use]
    pub fn new(seed: u64, stream: Stream) -> Self {
        let start = Self(Mutex::new(seed ^ (stream as u64 + 1).wrapping_mul(0xa076_1d64_78bd_642f)));
        Self(Mutex::new(start.next()))
    }

    /// Returns the next 64 random bits.
    pub fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which is at least 1.
    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns a number in `[0, 1)`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn roll(&self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True once in `parts` times on average; never for 0, without drawing a number.
    pub fn one_in(&self, parts: u64) -> bool {
        parts > 0 && self.below(parts) == 0
    }

    /// Returns a time below this many milliseconds.
    pub fn millis(&self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}
