//! A clock that a story moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::ids::Timestamp;
use ports::Clock;
use staffai::app::system::SystemClock;

pub const MINUTE: u64 = 60 * 1_000;
pub const HOUR: u64 = 60 * MINUTE;

/// The machine's time with an offset, in milliseconds.
pub struct MovedClock(AtomicU64);

impl MovedClock {
    /// The machine's time.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(0)))
    }

    /// Moves ahead by this many milliseconds.
    pub fn passes(&self, time: u64) {
        self.0.fetch_add(time, Ordering::SeqCst);
    }

    /// Moves ahead to this time of the day, in milliseconds from midnight, in UTC.
    pub fn to_time(&self, time: u64) {
        self.passes((time + 24 * HOUR - self.now().0 % (24 * HOUR)) % (24 * HOUR));
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::SeqCst))
    }
}
