//! Writes of owners, as specified by [`OwnedStore`].

use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use metrics::counter;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Resilient;
use crate::Backend;
use domain::ownership::{FencingToken, Range};
use ports::{OwnedStore, Pace, StoreStatus, Write, WriteOutcome};
use telemetry::metrics::STORE_WRITES_TOTAL;

impl<B: Backend> Resilient<B> {
    /// True while a working backend has still to issue tokens.
    fn is_taking(&self) -> bool {
        let state = self.shared.lock();
        state.status == StoreStatus::Ready && !state.terms.wanted().is_empty()
    }
}

impl<B: Backend> OwnedStore for Resilient<B> {
    fn own(&self, ranges: Vec<Range>) {
        self.shared.lock().terms.own(ranges);
        self.shared.dirty.notify_one();
        self.shared.enough.notify_one();
    }

    fn owned(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut progress = self.shared.progress.subscribe();
            let taken = async {
                // No state is read under the lock of `progress`: its senders hold the lock of the state.
                while self.is_taking() && progress.changed().await.is_ok() {}
            };
            // A backend that misses this deadline makes the store degraded.
            let _ = timeout(self.shared.limits.scan, taken).await;
        })
    }

    fn leave(&self, ranges: Vec<Range>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let (status, last) = {
                let state = self.shared.lock();
                (state.status.clone(), state.overlay.last())
            };
            if status == StoreStatus::Ready {
                self.shared.enough.notify_one();
                let mut progress = self.shared.progress.subscribe();
                // Neither a failure nor the end of the store promises that the writes arrived: their range then ends by
                // itself.
                let _ = progress.wait_for(|progress| progress.of(last).is_some()).await;
            }
            self.shared.lock().terms.leave(&ranges);
        })
    }

    fn token(&self, range: &Range) -> FencingToken {
        self.shared.lock().terms.token(range)
    }

    fn write_under(&self, range: &Range, writes: Vec<Write>, pace: Pace) -> BoxFuture<'static, WriteOutcome> {
        if !self.shared.lock().terms.is_owned(range) {
            return Box::pin(ready(WriteOutcome::Fenced));
        }
        counter!(STORE_WRITES_TOTAL).increment(writes.len() as u64);
        let number = self.shared.take(writes, Some(range));
        if pace == Pace::Now {
            self.shared.enough.notify_one();
        }
        let Some(number) = number else { return Box::pin(ready(WriteOutcome::InMemory)) };
        let (shared, range, mut progress) = (Arc::clone(&self.shared), range.clone(), self.shared.progress.subscribe());
        Box::pin(async move {
            let landed = progress.wait_for(|progress| progress.of(number).is_some()).await;
            let durable = landed.is_ok_and(|progress| progress.of(number).unwrap_or(false));
            match (shared.lock().terms.is_fenced(&range), durable) {
                (true, _) => WriteOutcome::Fenced,
                (false, true) => WriteOutcome::Durable,
                (false, false) => WriteOutcome::InMemory,
            }
        })
    }

    fn fenced(&self) -> watch::Receiver<Vec<Range>> {
        self.shared.fenced.subscribe()
    }

    fn is_shared(&self) -> bool {
        B::SHARED
    }
}
