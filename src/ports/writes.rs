//! What changes the store, and how the store is.

use std::time::Duration;

use crate::domain::ledger::Increment;

/// One change to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets a key; it vanishes after `ttl`, or never when that is none.
    Put {
        /// The key.
        key: String,
        /// The text.
        value: String,
        /// Its life from now on.
        ttl: Option<Duration>,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: String,
    },
    /// Adds to the whole number that a key holds; what holds none counts as zero, and a value of any other kind is replaced.
    /// Increments of several processes add up. Each is counted once, also when it was made while the backend was away and
    /// when the backend's answer was lost.
    Add {
        /// The key.
        key: String,
        /// How much.
        by: i64,
        /// Its life from now on; none leaves the life as it is. It may end up to a sixteenth earlier.
        ttl: Option<Duration>,
    },
}

impl From<Increment> for Write {
    fn from(Increment { key, by, ttl }: Increment) -> Self {
        Self::Add { key, by, ttl }
    }
}

/// How the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreStatus {
    /// The backend answers.
    Ready,
    /// The backend fails, for this reason; memory serves.
    Degraded(String),
}
