//! A tool server whose results may be reused.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::tool::reuse::Reuse;

/// A server as it is configured now. A server with other credentials or times is another one, so no result outlives a
/// change of its entry.
#[derive(Debug, Default)]
pub struct ReusableServer {
    /// The times for which its results may be reused.
    pub times: Reuse,
    /// The number of calls that may have changed its data.
    changes: AtomicU64,
}

impl ReusableServer {
    /// Creates the server with these times.
    #[must_use]
    pub fn new(times: Reuse) -> Self {
        Self { times, changes: AtomicU64::default() }
    }

    /// Notes the moment before a call.
    #[must_use]
    pub fn now(&self) -> Began {
        Began(self.changes.load(Ordering::Acquire))
    }

    /// Counts a call that may have changed its data.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

/// The moment at which a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Began(u64);
