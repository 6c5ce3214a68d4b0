//! Reads of the backend with deadlines.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

use super::ahead::FRESH;
use super::overlay::Seen;
use super::shared::Shared;
use crate::{Backend, BackendError, Steps};
use domain::panic;
use ports::{StoreStatus, Stored, Unreadable};

/// The most steps' time that a scan may take: it may have to visit every key of a server shared with other programs. A
/// scan that takes longer ends without its rows, but the store is not degraded.
const SCAN_STEPS: u32 = 24;

/// The deadline of a read while the store is degraded. The first failure stops reads of the backend until it recovers.
const DEGRADED_READ_DEADLINE: Duration = Duration::from_millis(50);

impl<B: Backend> Shared<B> {
    /// Returns the backend's answer, if it can be read and answers in time.
    pub async fn read_backend<T>(
        &self,
        backend: &Arc<B>,
        within: Duration,
        steps: &Steps,
        call: BoxFuture<'_, Result<T, BackendError>>,
    ) -> Option<T> {
        let status = self.lock().status.clone();
        let deadline = match status {
            StoreStatus::Ready => within,
            StoreStatus::Degraded(_) => DEGRADED_READ_DEADLINE.min(within),
        };
        let call = AssertUnwindSafe(call).catch_unwind();
        let (failure, late) = match patient(deadline, steps, call).await {
            Ok(Ok(Ok(value))) => return Some(value),
            Ok(Ok(Err(error))) => (error, false),
            Ok(Err(caught)) => {
                (BackendError::Broken(format!("a read panicked: {}", panic::text(caught.as_ref()))), false)
            }
            Err(Late::Stuck) => (BackendError::Failed(format!("a read had no answer within {deadline:?}")), true),
            Err(Late::Long) => {
                tracing::warn!(
                    ?deadline,
                    "a scan takes too long and is given up; the server has too many keys, or is busy"
                );
                return None;
            }
        };
        if self.read_failed(backend, &failure) && late {
            self.short.lock().missed();
        }
        None
    }

    /// Reads a key in the backend.
    pub async fn read_one(&self, backend: &Arc<B>, key: &str) -> Stored {
        self.take_along(&self.lock());
        let (deadline, begun) = (self.short.lock().deadline(), Instant::now());
        let read = async {
            match backend.get(key).await {
                Ok(value) => Ok(Stored::from(value)),
                Err(BackendError::NotText(reason)) => {
                    tracing::debug!(reason, "a stored value cannot be read");
                    Ok(Stored::Unreadable(Unreadable::NotText))
                }
                Err(error) => Err(error),
            }
        };
        let Some(read) = self.read_backend(backend, deadline, &Steps::default(), Box::pin(read)).await else {
            return Stored::Unreadable(Unreadable::NoAnswer);
        };
        self.short.lock().answered(begun.elapsed());
        read
    }

    /// Prefetches a key that will be read soon.
    pub fn read_ahead(self: &Arc<Self>, key: String) {
        let (backend, number, told) = {
            let mut state = self.lock();
            let known = state.overlay.get(&key, self.clock.now()) != Seen::Unknown;
            if known || state.status != StoreStatus::Ready || state.overlay.counts.of(&key).is_some() {
                return;
            }
            let Some(backend) = state.readable() else { return };
            let Some((number, told)) = state.ahead.begin(&key) else { return };
            (backend, number, told)
        };
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let read = shared.read_one(&backend, &key).await;
            // If the key was written in the meantime, the answer has no receiver.
            let _ = told.send(read);
            sleep(FRESH).await;
            shared.lock().ahead.over(&key, number);
        });
    }
}

/// The reason why a call did not end in time.
enum Late {
    /// It made no step within its deadline: the backend fails.
    Stuck,
    /// It made steps, but too many.
    Long,
}

/// Waits for a call while it makes a step within each deadline, for at most [`SCAN_STEPS`] deadlines.
async fn patient<T>(deadline: Duration, steps: &Steps, call: impl Future<Output = T>) -> Result<T, Late> {
    let mut call = pin!(call);
    let mut seen = steps.count();
    for _ in 0..SCAN_STEPS {
        match in_time(deadline, call.as_mut()).await {
            Ok(value) => return Ok(value),
            Err(_) if steps.count() > seen => seen = steps.count(),
            Err(_) => return Err(Late::Stuck),
        }
    }
    Err(Late::Long)
}

/// The delay of a timer that indicates that this process was suspended.
const STALLED: Duration = Duration::from_millis(50);

/// Waits for a call with a deadline. If this process was suspended, the answer may be waiting unread, so the call gets
/// its time once more.
pub async fn in_time<F: Future>(deadline: Duration, mut call: Pin<&mut F>) -> Result<F::Output, Elapsed> {
    let due = Instant::now() + deadline;
    match timeout(deadline, call.as_mut()).await {
        Err(_) if due.elapsed() >= STALLED => timeout(deadline, call).await,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_of_too_many_steps_is_long_and_one_without_steps_is_stuck() {
        let (each, steps) = (Duration::from_millis(75), Steps::default());
        let endless = async {
            loop {
                sleep(each).await;
                steps.done();
            }
        };
        assert!(matches!(patient::<()>(each * 4, &steps, endless).await, Err(Late::Long)));
        let still = std::future::pending::<()>();
        assert!(matches!(patient(each, &Steps::default(), still).await, Err(Late::Stuck)));
    }

    #[tokio::test]
    async fn a_process_that_did_not_run_reads_the_answer_before_it_calls_the_server_late() {
        let (answer, asked) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            sleep(Duration::from_millis(20)).await;
            // The layers between the socket and the caller need a few rounds.
            for _ in 0..8 {
                yield_now().await;
            }
            let _ = answer.send(());
        });
        tokio::spawn(async { std::thread::sleep(Duration::from_millis(400)) });
        assert!(in_time(Duration::from_millis(100), pin!(asked)).await.is_ok());
        let never = pin!(std::future::pending::<()>());
        assert!(in_time(Duration::from_millis(100), never).await.is_err());
    }
}
