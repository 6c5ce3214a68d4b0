//! The permits of scans. A scan may visit every key of a server, so few run at once. A scan without a permit waits; the
//! backend does not fail meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::SCANS_AT_ONCE;
use domain::ids::Person;
use ports::shares::{Share, Shares};

/// The permits of the program's own scans. The others are for scans on behalf of members.
const OWN: usize = SCANS_AT_ONCE / 2;

/// The longest wait for a permit.
const WAIT_MOST: Duration = Duration::from_secs(300);

pub(super) struct ScanPermits {
    /// Granted in the order of requests.
    own: Arc<Semaphore>,
    members: Shares,
}

pub(super) enum ScanPermit {
    Own(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit),
    Member(#[expect(dead_code, reason = "held until it is dropped")] Share),
}

impl Default for ScanPermits {
    fn default() -> Self {
        Self { own: Arc::new(Semaphore::new(OWN)), members: Shares::new(Arc::new(Semaphore::new(SCANS_AT_ONCE - OWN))) }
    }
}

impl ScanPermits {
    /// Waits for a permit. Returns `None` after the longest wait.
    pub(super) async fn take(&self, person: Option<&Person>) -> Option<ScanPermit> {
        let permit = async {
            match person {
                Some(person) => Some(ScanPermit::Member(self.members.wait(Some(person)).await)),
                None => Arc::clone(&self.own).acquire_owned().await.ok().map(ScanPermit::Own),
            }
        };
        timeout(WAIT_MOST, permit).await.ok().flatten()
    }
}
