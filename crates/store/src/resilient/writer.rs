//! The one task that talks to the backend for writing: it gathers, commits, sweeps, and tries again.
//!
//! At most one job is under way. A job that missed its deadline is not abandoned but awaited further before the next one is
//! begun: two commits can never overtake each other, and a hanging backend holds one thread, not one more each retry.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use metrics::histogram;
use tokio::select;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::reading::in_time;
use super::shared::Shared;
use super::{COMPANY_EVERY, GATHERED_ENOUGH, SWEEP_AGAIN};
use crate::{Backend, BackendError, Batch, OpenError, Steps, Ticket};
use domain::limits::member_windows::{Changes, MEMBERS_MAX};
use domain::{keys, panic};
use ports::{Keeping, StoreStatus};

/// Opens the backend; may block.
pub type Open<B> = Arc<dyn Fn() -> Result<B, OpenError> + Send + Sync>;

/// The writer task's own state.
pub struct Writer<B: Backend> {
    shared: Arc<Shared<B>>,
    open: Open<B>,
    flight: Option<Flight<B>>,
    backoff: Duration,
    next_sweep: Instant,
    /// When the last commit began.
    committed: Option<Instant>,
}

/// A job under way.
struct Flight<B> {
    /// The writes up to the first number are in it, and decisions about limits up to the second.
    through: (u64, u64),
    /// The number of the batch of increments that is in it.
    counts: u64,
    /// How many writes those are.
    writes: usize,
    begun: Instant,
    task: JoinHandle<Landed<B>>,
}

/// A job that came to its end.
struct Landed<B> {
    /// The backend it used, if it got that far.
    backend: Option<Arc<B>>,
    /// What the server behind it says of its settings, where it was asked.
    keeping: Option<Keeping>,
    result: Result<Done, Trouble>,
}

/// What a job achieved.
enum Done {
    /// With what earlier lives wrote down of limits, where that was asked for.
    Committed(Option<Vec<(String, String)>>),
    Swept {
        more: bool,
    },
}

/// What a job met.
enum Trouble {
    Open(OpenError),
    Backend(BackendError),
}

/// What a job is to do.
enum Job {
    /// Put these into the backend; ask it something first when it was failing, because there may be nothing to put.
    Commit {
        batch: Batch,
        changes: Vec<Changes>,
        probe: bool,
        /// Read what earlier lives wrote down of limits.
        load: bool,
    },
    Sweep,
}

impl<B: Backend> Writer<B> {
    /// A writer that has not opened its backend yet.
    pub fn new(shared: Arc<Shared<B>>, open: Open<B>) -> Self {
        let backoff = shared.limits.retry_first;
        let next_sweep = Instant::now() + shared.limits.sweep;
        Self { shared, open, flight: None, backoff, next_sweep, committed: None }
    }

    /// Opens the backend for the first time, or leaves that to the retries.
    ///
    /// # Errors
    /// Only [`OpenError::InUse`].
    pub async fn first_open(&mut self, deadline: Duration) -> Result<(), OpenError> {
        let first = Job::Commit { batch: Batch::default(), changes: Vec::new(), probe: true, load: !B::SHARED };
        let mut flight = self.launch(first, (0, 0), None);
        match timeout(deadline, &mut flight.task).await {
            Ok(Ok(Landed { result: Err(Trouble::Open(error @ OpenError::InUse(_))), .. })) => return Err(error),
            Ok(Ok(landed)) => self.land(&flight, landed),
            Ok(Err(error)) => self.panicked(error),
            Err(_) => self.late(flight, deadline),
        }
        Ok(())
    }

    /// Works until the store is closed.
    pub async fn run(mut self) {
        // The backend's panics end in their own task. This is for the unthinkable: a writer that dies would leave every
        // write waiting for ever.
        while let Err(caught) = AssertUnwindSafe(self.work()).catch_unwind().await {
            let reason = panic::text(caught.as_ref());
            tracing::error!(reason, "the store's writer panicked and starts again");
            self.shared.degrade(&BackendError::Failed(format!("the writer panicked: {reason}")), None);
        }
    }

    async fn work(&mut self) {
        loop {
            let (status, waiting) = {
                let state = self.shared.lock();
                (state.status.clone(), state.overlay.len() + usize::from(state.decision.book.has_changes()))
            };
            let closing = self.shared.closing.is_cancelled();
            self.report_dropped();
            if status == StoreStatus::Ready {
                if Instant::now() >= self.next_sweep && !closing {
                    self.sweep().await;
                } else if waiting > 0 {
                    self.gather().await;
                    self.commit().await;
                } else if closing {
                    return;
                } else {
                    self.idle().await;
                }
            } else {
                if !closing {
                    self.pause().await;
                }
                self.commit().await;
                // Increments may be left that had to wait behind a batch in doubt.
                if closing && self.shared.lock().status != StoreStatus::Ready {
                    return;
                }
            }
        }
    }

    /// Waits for something to do.
    async fn idle(&self) {
        select! {
            () = self.shared.dirty.notified() => {}
            () = self.shared.closing.cancelled() => {}
            () = sleep_until(self.next_sweep) => {}
        }
    }

    /// Lets more writes join the next commit. It goes along with another request to a server, unless one just did.
    async fn gather(&self) {
        let gather = self.shared.limits.gather;
        let company = async {
            loop {
                self.shared.company.notified().await;
                if self.committed.is_none_or(|committed| committed.elapsed() >= COMPANY_EVERY.min(gather)) {
                    return;
                }
            }
        };
        select! {
            () = sleep(gather) => {}
            () = company => {}
            () = self.shared.enough.notified() => {}
            () = self.shared.closing.cancelled() => {}
        }
    }

    /// Waits before the backend is tried again.
    async fn pause(&mut self) {
        select! {
            () = sleep(self.backoff) => {}
            () = self.shared.closing.cancelled() => {}
        }
        self.backoff = (self.backoff * 2).min(self.shared.limits.retry_most);
        let now = self.shared.now();
        self.shared.lock().overlay.expire(now);
    }

    async fn commit(&mut self) {
        let flight = if let Some(late) = self.flight.take() {
            late
        } else {
            self.committed = Some(Instant::now());
            let (snapshot, backend, probe) = self.shared.pending();
            let ticket = Some(Ticket { writer: Arc::clone(&self.shared.writer), number: snapshot.counts });
            let batch = Batch { writes: snapshot.writes, ticket };
            let mut batch = batch;
            let (changes, decided, load) = self.shared.unkept(&mut batch.writes);
            let through = (snapshot.through, decided);
            let flight = self.launch(Job::Commit { batch, changes, probe, load }, through, backend);
            self.shared.sent(through.0);
            flight
        };
        self.watch(flight).await;
    }

    async fn sweep(&mut self) {
        self.next_sweep = Instant::now() + self.shared.limits.sweep;
        self.shared.tidy();
        let backend = self.shared.lock().backend.clone();
        let flight = self.launch(Job::Sweep, (0, 0), backend);
        self.watch(flight).await;
    }

    fn launch(&self, job: Job, through: (u64, u64), backend: Option<Arc<B>>) -> Flight<B> {
        let (writes, counts) = match &job {
            Job::Commit { batch, .. } => (batch.writes.len(), batch.ticket.as_ref().map_or(0, |ticket| ticket.number)),
            Job::Sweep => (0, 0),
        };
        let task = tokio::spawn(perform(job, backend, Arc::clone(&self.open)));
        Flight { through, counts, writes, begun: Instant::now(), task }
    }

    /// Waits for a job, but not longer than the deadline. That of an ordinary commit follows what commits usually take; a long one,
    /// and those of a store that fails, get all the time there is.
    async fn watch(&mut self, mut flight: Flight<B>) {
        let well = self.shared.lock().status == StoreStatus::Ready;
        let usual = well && (1..=GATHERED_ENOUGH).contains(&flight.writes);
        let deadline = if usual { self.shared.commits.lock().deadline() } else { self.shared.limits.commit };
        match in_time(deadline, Pin::new(&mut flight.task)).await {
            Ok(Ok(landed)) => {
                if usual && landed.result.is_ok() {
                    self.shared.commits.lock().answered(flight.begun.elapsed());
                }
                self.land(&flight, landed);
            }
            Ok(Err(error)) => self.panicked(error),
            Err(_) => {
                if usual && self.shared.lock().status == StoreStatus::Ready {
                    self.shared.commits.lock().missed();
                }
                self.late(flight, deadline);
            }
        }
    }

    fn land(&mut self, flight: &Flight<B>, landed: Landed<B>) {
        if let Some(keeping) = landed.keeping {
            self.shared.keeps(&keeping);
        }
        match landed.result {
            Ok(Done::Committed(loaded)) => {
                self.shared.kept(flight.through.1, loaded);
                if flight.writes > 0 {
                    histogram!("staffai_store_commit_seconds").record(flight.begun.elapsed().as_secs_f64());
                }
                self.backoff = self.shared.limits.retry_first;
                self.shared.settled(flight.through.0, flight.counts, landed.backend);
            }
            Ok(Done::Swept { more: true }) => {
                self.next_sweep = Instant::now() + SWEEP_AGAIN.min(self.shared.limits.sweep);
            }
            Ok(Done::Swept { more: false }) => {}
            Err(Trouble::Open(error)) => self.shared.degrade(&BackendError::Broken(error.to_string()), None),
            Err(Trouble::Backend(error)) => self.shared.degrade(&error, landed.backend),
        }
    }

    fn panicked(&self, error: tokio::task::JoinError) {
        let reason = match error.try_into_panic() {
            Ok(caught) => format!("the backend panicked: {}", panic::text(caught.as_ref())),
            Err(error) => format!("the backend's task ended: {error}"),
        };
        tracing::error!(reason, "the store's backend failed badly and will be opened anew");
        self.shared.degrade(&BackendError::Broken(reason), None);
    }

    fn late(&mut self, flight: Flight<B>, deadline: Duration) {
        self.flight = Some(flight);
        self.shared.degrade(&BackendError::Failed(format!("no answer within {deadline:?}")), None);
    }

    fn report_dropped(&self) {
        let dropped = std::mem::take(&mut self.shared.lock().dropped);
        if dropped > 0 {
            tracing::warn!(
                event = "store.dropped",
                keys = dropped,
                "the store's memory is full; the oldest keys were dropped"
            );
        }
    }
}

/// Does one job, in a task of its own so that a panic ends here.
async fn perform<B: Backend>(job: Job, backend: Option<Arc<B>>, open: Open<B>) -> Landed<B> {
    let backend = match backend {
        Some(backend) => backend,
        None => match tokio::task::spawn_blocking(move || open()).await {
            Ok(Ok(backend)) => Arc::new(backend),
            Ok(Err(error)) => return Landed { backend: None, keeping: None, result: Err(Trouble::Open(error)) },
            Err(error) => {
                let error = OpenError::Failed(format!("opening the backend ended badly: {error}"));
                return Landed { backend: None, keeping: None, result: Err(Trouble::Open(error)) };
            }
        },
    };
    let looks = matches!(job, Job::Sweep | Job::Commit { probe: true, .. });
    let result = match job {
        Job::Commit { batch, changes, probe, load } => commit(backend.as_ref(), batch, &changes, (probe, load)).await,
        Job::Sweep => backend.sweep().await.map(|more| Done::Swept { more }),
    };
    let keeping = if looks && result.is_ok() { backend.keeping().await } else { None };
    Landed { backend: Some(backend), keeping, result: result.map_err(Trouble::Backend) }
}

async fn commit<B: Backend>(
    backend: &B,
    batch: Batch,
    changes: &[Changes],
    (probe, load): (bool, bool),
) -> Result<Done, BackendError> {
    if probe {
        backend.get(keys::PROBE).await?;
    }
    let loaded = if load {
        let mut rows = backend.scan(keys::limits::TOKEN_LIMIT_PREFIX, MEMBERS_MAX, &Steps::default()).await?;
        rows.extend(backend.scan(keys::limits::ACCOUNT_PREFIX, MEMBERS_MAX, &Steps::default()).await?);
        Some(rows)
    } else {
        None
    };
    if !batch.writes.is_empty() {
        backend.apply(batch).await?;
    }
    backend.merge(changes).await?;
    Ok(Done::Committed(loaded))
}
