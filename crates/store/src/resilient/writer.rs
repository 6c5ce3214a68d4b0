//! The writer task of the backend: gathers, commits, sweeps and retries.
//!
//! At most one job is running. A job that missed its deadline is awaited before the next one begins: two commits never
//! overtake each other, and a hanging backend occupies one thread instead of one per retry.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use metrics::histogram;
use tokio::select;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::joining::join;
use super::reading::in_time;
use super::shared::Shared;
use super::terms::Grouped;
use super::{GATHERED_ENOUGH, PIGGYBACK_INTERVAL, SWEEP_AGAIN};
use crate::{Backend, BackendError, Batch, OpenError, Steps, Ticket};
use domain::limits::member_windows::{Changes, MEMBERS_MAX};
use domain::ownership::{FencingToken, Range, Term};
use domain::{format, keys, panic};
use ports::{Keeping, StoreStatus};
use telemetry::events::STORE_DROPPED;
use telemetry::metrics::STORE_COMMIT_SECONDS;

/// Opens the backend; may block.
pub type Open<B> = Arc<dyn Fn() -> Result<B, OpenError> + Send + Sync>;

pub struct Writer<B: Backend> {
    shared: Arc<Shared<B>>,
    open: Open<B>,
    flight: Option<Flight<B>>,
    backoff: Duration,
    next_sweep: Instant,
    /// The start of the last commit.
    committed: Option<Instant>,
}

struct Flight<B> {
    /// The numbers up to which writes and limit decisions are included.
    through: (u64, u64),
    /// The number of the included batch of increments.
    counts: u64,
    writes: usize,
    begun: Instant,
    task: JoinHandle<Landed<B>>,
}

struct Landed<B> {
    /// The backend that it used, if any.
    backend: Option<Arc<B>>,
    /// The findings about the server's settings, if they were read.
    keeping: Option<Keeping>,
    result: Result<Done, Trouble>,
}

enum Done {
    Committed(Committed),
    Swept {
        more: bool,
        /// The ranges taken over by another process.
        fenced: Vec<Range>,
    },
}

#[derive(Default)]
struct Committed {
    /// The limits that earlier processes wrote, if requested.
    loaded: Option<Vec<(String, String)>>,
    /// The issued tokens.
    took: Vec<Term>,
    /// The ranges whose writes were refused.
    fenced: Vec<Range>,
}

enum Trouble {
    Open(OpenError),
    Backend(BackendError),
}

enum Job {
    Commit(Box<Commit>),
    /// Removes expired keys, and finds which of these terms ended.
    Sweep(Vec<Term>),
}

/// Writes to the backend.
#[derive(Default)]
struct Commit {
    writes: Grouped,
    ticket: Option<Ticket>,
    /// Limit decisions that the backend lacks.
    changes: Vec<Changes>,
    /// The terms under which owners write.
    terms: Vec<Term>,
    /// The ranges whose token is requested first.
    wanted: Vec<Range>,
    /// True if the backend is used for the first time, or failed before: it is tested first.
    probe: bool,
    /// True if limits written by earlier processes must be read.
    load: bool,
}

impl<B: Backend> Writer<B> {
    /// Creates a writer that has not opened its backend yet.
    pub fn new(shared: Arc<Shared<B>>, open: Open<B>) -> Self {
        let backoff = shared.limits.retry_first;
        let next_sweep = Instant::now() + shared.limits.sweep;
        Self { shared, open, flight: None, backoff, next_sweep, committed: None }
    }

    /// Opens the backend for the first time, or leaves that to the retries.
    ///
    /// # Errors
    /// Only [`OpenError::InUse`] and [`OpenError::Later`].
    pub async fn first_open(&mut self, deadline: Duration) -> Result<(), OpenError> {
        let first = Commit { probe: true, load: !B::SHARED, ..Commit::default() };
        let mut flight = self.launch(Job::Commit(Box::new(first)), (0, 0), None);
        match timeout(deadline, &mut flight.task).await {
            Ok(Ok(Landed {
                result: Err(Trouble::Open(error @ (OpenError::InUse(_) | OpenError::Later(_)))), ..
            })) => return Err(error),
            Ok(Ok(landed)) => self.land(&flight, landed),
            Ok(Err(error)) => self.panicked(error),
            Err(_) => self.late(flight, deadline),
        }
        Ok(())
    }

    /// Runs until the store is closed.
    pub async fn run(mut self) {
        // Panics of the backend end in their own task. This catches a panic of the writer itself, which would leave
        // every write pending forever.
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
                let more = [state.decision.book.has_changes(), !state.terms.wanted().is_empty()];
                (state.status.clone(), state.overlay.len() + more.into_iter().filter(|more| *more).count())
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

    async fn idle(&self) {
        select! {
            () = self.shared.dirty.notified() => {}
            () = self.shared.closing.cancelled() => {}
            () = sleep_until(self.next_sweep) => {}
        }
    }

    /// Lets more writes join the next commit. The commit is sent along with another request to a server, unless one
    /// just was.
    async fn gather(&self) {
        let gather = self.shared.limits.gather;
        let piggyback = async {
            loop {
                self.shared.piggyback.notified().await;
                if self.committed.is_none_or(|committed| committed.elapsed() >= PIGGYBACK_INTERVAL.min(gather)) {
                    return;
                }
            }
        };
        select! {
            () = sleep(gather) => {}
            () = piggyback => {}
            () = self.shared.enough.notified() => {}
            () = self.shared.closing.cancelled() => {}
        }
    }

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
            let mut writes = snapshot.writes;
            let (changes, decided, load) = self.shared.unkept(&mut writes.plain);
            let (terms, wanted) = self.shared.terms();
            let through = (snapshot.through, decided);
            let commit = Commit { writes, ticket, changes, terms, wanted, probe, load };
            let flight = self.launch(Job::Commit(Box::new(commit)), through, backend);
            self.shared.sent(through.0);
            flight
        };
        self.watch(flight).await;
    }

    async fn sweep(&mut self) {
        self.next_sweep = Instant::now() + self.shared.limits.sweep;
        self.shared.tidy();
        let backend = self.shared.lock().backend.clone();
        let held = if B::SHARED { self.shared.terms().0 } else { Vec::new() };
        let flight = self.launch(Job::Sweep(held), (0, 0), backend);
        self.watch(flight).await;
    }

    fn launch(&self, job: Job, through: (u64, u64), backend: Option<Arc<B>>) -> Flight<B> {
        let (writes, counts) = match &job {
            Job::Commit(commit) => (commit.writes.len(), commit.ticket.as_ref().map_or(0, |ticket| ticket.number)),
            Job::Sweep(_) => (0, 0),
        };
        let task = tokio::spawn(perform(job, backend, Arc::clone(&self.open)));
        Flight { through, counts, writes, begun: Instant::now(), task }
    }

    /// Waits for a job until its deadline. The deadline of an ordinary commit adapts to recent commits; a large one,
    /// and those of a failing store, get the full time.
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
            Ok(Done::Committed(Committed { loaded, took, fenced })) => {
                self.shared.kept(flight.through.1, loaded);
                self.shared.took(took);
                self.shared.fence(&fenced);
                if flight.writes > 0 {
                    histogram!(STORE_COMMIT_SECONDS).record(flight.begun.elapsed().as_secs_f64());
                }
                self.backoff = self.shared.limits.retry_first;
                self.shared.settled(flight.through.0, flight.counts, landed.backend);
            }
            Ok(Done::Swept { more, fenced }) => {
                self.shared.fence(&fenced);
                if more {
                    self.next_sweep = Instant::now() + SWEEP_AGAIN.min(self.shared.limits.sweep);
                }
            }
            Err(Trouble::Open(error)) => self.shared.degrade(&BackendError::Broken(error.to_string()), None),
            Err(Trouble::Backend(error)) => self.shared.degrade(&error, landed.backend),
        }
    }

    fn panicked(&self, error: tokio::task::JoinError) {
        let reason = match error.try_into_panic() {
            Ok(caught) => format!("the backend panicked: {}", panic::text(caught.as_ref())),
            Err(error) => format!("the backend's task ended: {error}"),
        };
        tracing::error!(reason, "the store's backend failed and will be reopened");
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
                event = STORE_DROPPED,
                keys = dropped,
                "the store's memory is full; the oldest keys were dropped"
            );
        }
    }
}

/// Runs one job in a separate task, which contains panics.
async fn perform<B: Backend>(job: Job, backend: Option<Arc<B>>, open: Open<B>) -> Landed<B> {
    let backend = match backend {
        Some(backend) => backend,
        None => match ports::blocking(move || open()).await {
            Ok(Ok(backend)) => Arc::new(backend),
            Ok(Err(error)) => return Landed { backend: None, keeping: None, result: Err(Trouble::Open(error)) },
            Err(panicked) => {
                let error = OpenError::Failed(format!("opening the backend failed: {}", panic::text(&*panicked)));
                return Landed { backend: None, keeping: None, result: Err(Trouble::Open(error)) };
            }
        },
    };
    let looks = match &job {
        Job::Sweep(_) => true,
        Job::Commit(commit) => commit.probe,
    };
    if matches!(&job, Job::Commit(commit) if commit.probe)
        && let Err(trouble) = examine(backend.as_ref()).await
    {
        let mut kept = Some(backend);
        if let (Trouble::Open(_), Some(refused)) = (&trouble, &kept) {
            refused.close().await;
            kept = None;
        }
        return Landed { backend: kept, keeping: None, result: Err(trouble) };
    }
    let result = match job {
        Job::Commit(job) => commit(backend.as_ref(), *job).await.map(Done::Committed),
        Job::Sweep(held) => sweep(backend.as_ref(), held).await,
    };
    let keeping = if looks && result.is_ok() { backend.keeping().await } else { None };
    Landed { backend: Some(backend), keeping, result: result.map_err(Trouble::Backend) }
}

/// Tests if the backend answers, and if this version reads its data: another one may have written meanwhile.
async fn examine<B: Backend>(backend: &B) -> Result<(), Trouble> {
    let record = match backend.get(keys::FORMAT).await {
        Ok(record) => record,
        Err(BackendError::NotText(_)) => Some(String::new()),
        Err(error) => return Err(Trouble::Backend(error)),
    };
    format::examine(record.as_deref()).map(drop).map_err(|refused| Trouble::Open(OpenError::Later(refused)))
}

async fn commit<B: Backend>(backend: &B, job: Commit) -> Result<Committed, BackendError> {
    let Commit { mut writes, ticket, changes, mut terms, wanted, load, .. } = job;
    let mut done = Committed::default();
    if load {
        let mut rows = backend.scan(keys::limits::TOKEN_LIMIT_PREFIX, MEMBERS_MAX, &Steps::default()).await?;
        rows.extend(backend.scan(keys::limits::ACCOUNT_PREFIX, MEMBERS_MAX, &Steps::default()).await?);
        done.loaded = Some(rows);
    }
    // Earlier owners are fenced before the first write of this one.
    for range in wanted {
        let token = backend.take_token(&range).await?;
        done.took.push(Term { range, token });
    }
    terms.extend(done.took.iter().cloned());
    done.fenced = join(backend, &mut writes, &terms).await?;
    let batch = Batch { writes: writes.plain, owned: Grouped::under(writes.owned, &terms), ticket };
    if !batch.is_empty() {
        done.fenced.extend(backend.apply(batch).await?);
    }
    backend.merge(&changes).await?;
    Ok(done)
}

async fn sweep<B: Backend>(backend: &B, held: Vec<Term>) -> Result<Done, BackendError> {
    let more = backend.sweep().await?;
    let mut fenced = Vec::new();
    for Term { range, token } in held {
        if FencingToken::stored(backend.get(&keys::term(&range)).await?.as_deref()) > token {
            fenced.push(range);
        }
    }
    Ok(Done::Swept { more, fenced })
}
