//! The world of a life: what is outside of the process, with the platform and the durable rows.

use std::ops::Deref;
use std::sync::Arc;

use super::outside::{BEGINNING, Outside};
use super::platform::Platform;
use super::rows::Rows;
use domain::ids::Timestamp;
use ports::{Clock, Dice};

/// The world of a life.
pub struct World {
    outside: Outside,
    /// The chat platform.
    pub platform: Platform,
    /// The rows that are durable.
    pub rows: Rows,
}

impl World {
    /// Creates the world of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Self> {
        let outside = Outside::new(seed);
        let platform = Platform::new(outside.swarm.places, Timestamp(BEGINNING));
        Arc::new(Self { outside, platform, rows: Rows::default() })
    }
}

impl Deref for World {
    type Target = Outside;

    fn deref(&self) -> &Outside {
        &self.outside
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        self.outside.now()
    }
}

impl Dice for World {
    fn roll(&self) -> f64 {
        self.outside.roll()
    }
}
