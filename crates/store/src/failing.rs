//! A backend that fails on demand, to demonstrate and test the layer above.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{Backend, BackendError, Batch, FoundRows, OpenError, Steps};
use domain::ownership::Range;
use ports::{Keeping, StoreFault, StoredRow};

/// Opens a backend.
///
/// # Errors
/// The fault is active, or the backend cannot be opened.
pub fn open<B>(fault: &StoreFault, open: impl FnOnce() -> Result<B, OpenError>) -> Result<Failing<B>, OpenError> {
    if fault() {
        return Err(OpenError::Failed(REASON.to_owned()));
    }
    open().map(|inner| Failing { inner, fault: fault.clone() })
}

/// A backend without its own limit decisions, and the switch that makes it fail.
pub struct Failing<B> {
    inner: B,
    fault: StoreFault,
}

/// The reason given for a failure.
const REASON: &str = "the fault injection is active";

impl<B> Failing<B> {
    /// A store whose file was removed must be reopened.
    fn works(&self) -> Result<&B, BackendError> {
        if (self.fault)() { Err(BackendError::Broken(REASON.to_owned())) } else { Ok(&self.inner) }
    }
}

#[async_trait]
impl<B: Backend> Backend for Failing<B> {
    async fn get(&self, key: &str) -> Result<Option<String>, BackendError> {
        self.works()?.get(key).await
    }

    async fn scan_many(&self, prefixes: &[&str], limit: usize, steps: &Steps) -> Result<FoundRows, BackendError> {
        self.works()?.scan_many(prefixes, limit, steps).await
    }

    async fn set_aside(&self, key: &str, aside: &str, ttl: Duration) -> Result<bool, BackendError> {
        self.works()?.set_aside(key, aside, ttl).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Range>, BackendError> {
        self.works()?.apply(batch).await
    }

    async fn sweep(&self) -> Result<bool, BackendError> {
        self.works()?.sweep().await
    }

    async fn copy(&self, to: mpsc::Sender<StoredRow>) -> Result<(), BackendError> {
        self.works()?.copy(to).await
    }

    async fn keeping(&self) -> Option<Keeping> {
        self.inner.keeping().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tempfile::TempDir;

    use super::*;
    use crate::embedded::opener::Opener;
    use crate::resilient::Resilient;
    use crate::suite::{TestClock, put};
    use ports::Store;

    /// A backup of a running playground needs copies to work.
    #[tokio::test]
    async fn a_store_that_can_be_taken_away_is_copied_while_it_is_there() {
        let (dir, clock, away) =
            (TempDir::new().unwrap(), Arc::new(TestClock::default()), Arc::new(AtomicBool::new(false)));
        let opener = Opener::new(dir.path(), clock.clone());
        let fault: StoreFault = {
            let away = Arc::clone(&away);
            Arc::new(move || away.load(Ordering::SeqCst))
        };
        let store = Resilient::start(move || open(&fault, || opener.open()), clock).await.unwrap();
        assert!(store.commit(vec![put("a", "1")]).await);
        let (to, mut rows) = mpsc::channel(8);
        store.copy(to).await.unwrap();
        assert_eq!(rows.recv().await.map(|row| (row.key, row.value)), Some(("a".to_owned(), "1".to_owned())));
        away.store(true, Ordering::SeqCst);
        assert!(store.copy(mpsc::channel(8).0).await.is_err());
    }
}
