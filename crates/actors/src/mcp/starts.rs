//! The places of tool servers whose processes start at once: many that start together would all be slow.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use ports::tools::{ServerEntry, Transport};

/// Processes that start at once.
const STARTS_MAX: usize = 4;
/// The time after which a start gives up its place: one that hangs or installs for long delays the others by no more than this.
const PLACE_FOR: Duration = Duration::from_secs(10);

/// The places of processes that start at once. Cheap to clone; clones share the places.
#[derive(Clone)]
pub struct Starts(Arc<Semaphore>);

impl Default for Starts {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STARTS_MAX)))
    }
}

impl Starts {
    /// Waits for a place for a process; other servers need none.
    pub(super) async fn place(&self, entry: &ServerEntry) -> Place {
        match entry.transport {
            // The semaphore is never closed.
            Transport::Stdio(_) => Place { _permit: Arc::clone(&self.0).acquire_owned().await.ok() },
            Transport::Http(_) | Transport::Provider => Place { _permit: None },
        }
    }
}

/// A place among the processes that start.
pub(super) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Place {
    /// Keeps the place while `work` runs, for [`PLACE_FOR`] at most.
    pub(super) async fn during<W: Future>(self, work: W) -> W::Output {
        let mut work = pin!(work);
        if let Ok(done) = timeout(PLACE_FOR, &mut work).await {
            return done;
        }
        drop(self);
        work.await
    }
}
