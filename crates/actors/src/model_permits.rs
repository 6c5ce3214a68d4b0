//! Permits of model calls. They outlive the dispatcher that grants them.
//!
//! - One person holds at most half of the permits, however long the answers are.
//! - While other rows are configured, one row holds at most about three quarters (see [`ROW_WEIGHT`]): a row that answers
//!   slowly leaves permits for calls to the others. Rows of one provider are counted apart.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use domain::fair_share::Weight;
use domain::ids::Person;
use ports::shares::{Share, Shares};

/// The weight of a row: most calls go to the default row, so its share is larger than that of a person.
const ROW_WEIGHT: Weight = Weight(3);

/// The permits. Clones are the same permits.
#[derive(Clone)]
pub struct ModelPermits {
    all: Shares,
    rows: Shares<String>,
}

/// A permit for one call. Dropping it returns it.
pub struct ModelPermit {
    _row: Share<String>,
    _all: Share,
}

impl ModelPermits {
    /// Creates permits from all permits of this semaphore.
    #[must_use]
    pub fn new(permits: Arc<Semaphore>) -> Self {
        let rows = Arc::new(Semaphore::new(permits.available_permits()));
        Self { all: Shares::new(permits), rows: Shares::weighted(rows, ROW_WEIGHT) }
    }

    /// Returns the number of free permits.
    #[must_use]
    pub fn free(&self) -> usize {
        self.all.free()
    }

    /// True if this person may call this row now. `alone`: no other row is configured.
    #[must_use]
    pub fn admits(&self, person: &Person, row: &String, alone: bool) -> bool {
        self.all.admits(person) && (alone || self.rows.admits(row))
    }

    /// Takes a permit for a call to this row, for a person or for the bot itself; none if none is free for it.
    /// `alone`: no other row is configured.
    #[must_use]
    pub fn take(&self, person: Option<&Person>, row: &String, alone: bool) -> Option<ModelPermit> {
        let row = self.rows.take(Some(row).filter(|_| !alone))?;
        Some(ModelPermit { _row: row, _all: self.all.take(person)? })
    }

    /// Returns a receiver that changes with each permit returned from now on.
    #[must_use]
    pub fn returned(&self) -> watch::Receiver<()> {
        self.all.returned()
    }
}
