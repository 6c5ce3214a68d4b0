//! Permits of model calls. They outlive the dispatcher that grants them.
//!
//! - One person holds at most half of the permits, however long the answers are.
//! - While other rows are configured, one row holds at most about three quarters (see [`ROW_WEIGHT`]): a model that
//!   answers slowly leaves permits for calls to others, also to others of its provider.
//! - While other providers are configured, the rows of one provider together hold at most about seven eighths (see
//!   [`PROVIDER_WEIGHT`]): a provider with many rows leaves permits for calls to others.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use domain::fair_share::Weight;
use domain::ids::Person;
use ports::shares::{Share, Shares};

/// The weight of a row: most calls go to the default row, so its share is larger than that of a person.
const ROW_WEIGHT: Weight = Weight(3);

/// The weight of a provider: larger than that of a row, so that one slow row leaves permits for the other rows of its
/// provider.
const PROVIDER_WEIGHT: Weight = Weight(7);

/// The permits. Clones are the same permits.
#[derive(Clone)]
pub struct ModelPermits {
    all: Shares,
    rows: Shares<String>,
    providers: Shares<String>,
}

/// A permit for one call. Dropping it returns it.
pub struct ModelPermit {
    _row: Share<String>,
    _provider: Share<String>,
    _all: Share,
}

/// The holders to which a call counts besides its person. `None`: no other row or provider is configured, so there is
/// nothing to leave permits for.
#[derive(Debug, Clone, Copy)]
pub struct Callee<'a> {
    /// The row.
    pub row: Option<&'a String>,
    /// The provider of the row.
    pub provider: Option<&'a String>,
}

impl ModelPermits {
    /// Creates permits from all permits of this semaphore.
    #[must_use]
    pub fn new(permits: Arc<Semaphore>) -> Self {
        let many = permits.available_permits();
        let weighted = |weight| Shares::weighted(Arc::new(Semaphore::new(many)), weight);
        Self { all: Shares::new(permits), rows: weighted(ROW_WEIGHT), providers: weighted(PROVIDER_WEIGHT) }
    }

    /// Returns the number of free permits.
    #[must_use]
    pub fn free(&self) -> usize {
        self.all.free()
    }

    /// True if this person may call this row now.
    #[must_use]
    pub fn admits(&self, person: &Person, callee: Callee<'_>) -> bool {
        self.all.admits(person)
            && callee.row.is_none_or(|row| self.rows.admits(row))
            && callee.provider.is_none_or(|provider| self.providers.admits(provider))
    }

    /// Takes a permit for a call to this row, for a person or for the bot itself; none if none is free for it.
    #[must_use]
    pub fn take(&self, person: Option<&Person>, callee: Callee<'_>) -> Option<ModelPermit> {
        let (row, provider) = (self.rows.take(callee.row)?, self.providers.take(callee.provider)?);
        Some(ModelPermit { _row: row, _provider: provider, _all: self.all.take(person)? })
    }

    /// Returns a receiver that changes with each permit returned from now on.
    #[must_use]
    pub fn returned(&self) -> watch::Receiver<()> {
        self.all.returned()
    }
}
