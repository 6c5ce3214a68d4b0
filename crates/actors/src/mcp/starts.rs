//! Bounds the number of tool server processes that start concurrently, since many concurrent starts slow each other
//! down.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use ports::tools::{ServerEntry, Transport};

/// The maximum number of concurrent process starts.
const STARTS_MAX: usize = 4;
/// The maximum time that a start holds its slot: a start that hangs or installs for a long time delays the others by at
/// most this.
const PLACE_FOR: Duration = Duration::from_secs(10);

/// The slots for process starts. Cheap to clone; clones share the slots.
#[derive(Clone)]
pub struct Starts(Arc<Semaphore>);

impl Default for Starts {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STARTS_MAX)))
    }
}

impl Starts {
    /// Acquires a slot for a process; other servers need none.
    pub(super) async fn place(&self, entry: &ServerEntry) -> Place {
        match entry.transport {
            // The semaphore is never closed.
            Transport::Stdio(_) => Place { _permit: Arc::clone(&self.0).acquire_owned().await.ok() },
            Transport::Http(_) | Transport::Provider => Place { _permit: None },
        }
    }
}

/// A slot for a process start.
pub(super) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Place {
    /// Holds the slot while `work` runs, for at most [`PLACE_FOR`].
    pub(super) async fn during<W: Future>(self, work: W) -> W::Output {
        let mut work = pin!(work);
        if let Ok(done) = timeout(PLACE_FOR, &mut work).await {
            return done;
        }
        drop(self);
        work.await
    }
}
