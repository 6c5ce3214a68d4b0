//! The lease on a shared store: of several processes with one bot account, one is active and the others stand by.
//!
//! ```text
//!            lease free                 request to end: drain, save, release
//!   start ───────────────▶ active ──────────────────────────────────────────▶ exit
//!     │ held elsewhere       ▲  │ held elsewhere, or not renewed for a term
//!     ▼                      │  ▼ while another process stands by
//!   standing by ─────────────┘  stopped at once; exit when the store answers
//! ```
//!
//! - A process that stands by opens no door. It serves health, readiness and metrics alone.
//! - If the store does not answer at the start, the process becomes active: an outage does not silence the bot. Fencing
//!   tokens and the nonces of posts limit the effects of two such processes.
//! - While another process stands by, an outage of the store for longer than a term stops the bot until the outage ends:
//!   neither process can know whether the other one is active.

mod pages;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(super) use self::pages::StandbyParts;
use self::pages::StandbyVitals;
use ports::Listener;
use store::redis::lease::{Lease, LeaseAnswer, TERM};
use telemetry::events::{LEASE_AWAITED, LEASE_LOST, LEASE_TAKEN, LEASE_UNKNOWN};

/// The pause between two renewals: several fit into a term.
const RENEW_EVERY: Duration = Duration::from_millis(400);

/// The pause between two requests of a process that stands by: the longest delay after a release.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The time within which the store must answer at the start; afterwards it counts as unreachable.
const START_WITHIN: Duration = Duration::from_secs(3);

/// The timeout of a release.
const RELEASE_WITHIN: Duration = Duration::from_millis(500);

/// The time before the end of a term at which its holder stops: the tree needs some of it.
const MARGIN: Duration = Duration::from_millis(250);

/// The pause before the pages are bound again.
const BIND_AGAIN: Duration = Duration::from_secs(1);

/// The lease of the active process.
pub struct Active {
    lease: Arc<Lease>,
    lost: watch::Receiver<Option<String>>,
    keeper: AbortOnDropHandle<()>,
    parts: StandbyParts,
    /// True if this process stood by before.
    pub(super) took_over: bool,
}

impl Active {
    /// Resolves with the reason once this process must stop. The reason is a sentence.
    pub(super) fn lost(&self) -> impl Future<Output = String> + Send + use<> {
        let mut lost = self.lost.clone();
        async move {
            match lost.wait_for(Option::is_some).await.map(|reason| reason.clone()) {
                Ok(Some(reason)) => reason,
                Ok(None) | Err(_) => "the renewal of the lease ended".to_owned(),
            }
        }
    }

    /// Releases the lease: a process that stands by becomes active immediately. The caller has finished its last write.
    pub(super) async fn release(self) {
        self.keeper.abort();
        // A renewal in progress could take the lease again.
        let _ = self.keeper.await;
        release(&self.lease).await;
    }

    /// Serves the pages of a process that stands by until the store answers.
    pub(super) async fn until_the_store_answers(&self, reason: &str) {
        let vitals = Arc::new(StandbyVitals::new(reason.to_owned(), self.parts.live.clone()));
        let never = CancellationToken::new();
        let pages = serve(&self.parts, &vitals, &never);
        let answered = async {
            while let Err(error) = self.lease.take(true).await {
                vitals.note(error);
                sleep(RENEW_EVERY).await;
            }
        };
        tokio::select! {
            () = answered => {}
            () = pages => {}
        }
    }
}

/// Returns the lease once this process is active. While another process holds it, this one stands by and serves its own
/// pages. `None` if `stop` came first.
pub(super) async fn activate(lease: Lease, parts: StandbyParts, stop: &CancellationToken) -> Option<Active> {
    let lease = Arc::new(lease);
    let active = stop.run_until_cancelled(wait(&lease, parts)).await;
    if active.is_none() {
        release(&lease).await;
    }
    active
}

async fn wait(lease: &Arc<Lease>, parts: StandbyParts) -> Active {
    match first_answer(lease).await {
        (asked, Ok(LeaseAnswer::Held { awaited })) => {
            tracing::info!(event = LEASE_TAKEN, "this process holds the lease and is active");
            keep(lease, (asked, awaited), parts, false)
        }
        (asked, Err(error)) => {
            tracing::warn!(event = LEASE_UNKNOWN, error, "no lease; this process becomes active without it");
            keep(lease, (asked, false), parts, false)
        }
        (_, Ok(LeaseAnswer::Elsewhere(holder))) => {
            tracing::info!(event = LEASE_AWAITED, holder, "another process holds the lease; this process stands by");
            let vitals = Arc::new(StandbyVitals::new(holds(&holder), parts.live.clone()));
            let (stop, at) = (CancellationToken::new(), parts.clone());
            let pages = serve(&at, &vitals, &stop);
            let taken = async {
                let taken = stand_by(lease, &vitals).await;
                tracing::info!(event = LEASE_TAKEN, "the lease is free; this process takes over");
                stop.cancel();
                keep(lease, taken, parts, true)
            };
            // The lease is renewed while the pages close.
            let ((), active) = tokio::join!(pages, taken);
            active
        }
    }
}

/// Returns the first answer of the store, or the last error after [`START_WITHIN`], with the time of the request.
async fn first_answer(lease: &Lease) -> (Instant, Result<LeaseAnswer, String>) {
    let end = Instant::now() + START_WITHIN;
    loop {
        let asked = Instant::now();
        let answer = lease.take(false).await;
        if answer.is_ok() || Instant::now() >= end {
            return (asked, answer);
        }
        sleep(ASK_EVERY).await;
    }
}

/// Serves the pages until `stop`. The previous process may still use the address, so binding is retried.
async fn serve(parts: &StandbyParts, vitals: &Arc<StandbyVitals>, stop: &CancellationToken) {
    let (listener, mut told) = (pages::pages(parts.clone(), Arc::clone(vitals)), false);
    while !stop.is_cancelled() {
        if let Err(error) = listener.serve(stop.clone()).await {
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(event = LEASE_AWAITED, error, "the pages of this process cannot be served yet");
            }
            let _ = timeout(BIND_AGAIN, stop.cancelled()).await;
        }
    }
}

/// Asks until this process holds the lease. Returns the time of the request that took it, and whether another process
/// stands by.
async fn stand_by(lease: &Lease, vitals: &StandbyVitals) -> (Instant, bool) {
    loop {
        sleep(ASK_EVERY).await;
        let asked = Instant::now();
        match lease.take(true).await {
            Ok(LeaseAnswer::Held { awaited }) => return (asked, awaited),
            Ok(LeaseAnswer::Elsewhere(holder)) => vitals.note(holds(&holder)),
            Err(error) => vitals.note(error),
        }
    }
}

fn holds(holder: &str) -> String {
    let holder = if holder.is_empty() { "an unknown process" } else { holder };
    format!("{holder} holds the lease; this process takes over when it is free")
}

/// Renews the lease in the background until it is lost.
fn keep(lease: &Arc<Lease>, renewed: (Instant, bool), parts: StandbyParts, took_over: bool) -> Active {
    let (tell, lost) = watch::channel(None);
    let renewing = Arc::clone(lease);
    let keeper = tokio::spawn(async move {
        let reason = renew(&renewing, renewed).await;
        tracing::error!(event = LEASE_LOST, reason, "this process stops");
        tell.send_replace(Some(reason));
    });
    Active { lease: Arc::clone(lease), lost, keeper: AbortOnDropHandle::new(keeper), parts, took_over }
}

/// Returns the reason why the lease is lost.
async fn renew(lease: &Lease, (mut renewed, mut awaited): (Instant, bool)) -> String {
    let mut failing = false;
    loop {
        let ends = renewed + TERM.saturating_sub(MARGIN);
        let next = async {
            sleep(RENEW_EVERY).await;
            (Instant::now(), lease.take(false).await)
        };
        let (asked, answer) = tokio::select! {
            biased;
            () = sleep_until(ends), if awaited => {
                let ms = renewed.elapsed().as_millis();
                return format!("the lease was last renewed {ms} ms ago, and another process stands by");
            }
            next = next => next,
        };
        match answer {
            Ok(LeaseAnswer::Held { awaited: now }) => (renewed, awaited, failing) = (asked, now, false),
            Ok(LeaseAnswer::Elsewhere(holder)) => return format!("{holder} holds the lease now"),
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(event = LEASE_UNKNOWN, error, "the lease is not renewed");
                }
            }
        }
    }
}

async fn release(lease: &Lease) {
    if let Ok(Err(error)) | Err(error) = timeout(RELEASE_WITHIN, lease.release()).await.map_err(|late| late.to_string())
    {
        tracing::debug!(event = LEASE_UNKNOWN, error, "the lease is not released; its term ends by itself");
    }
}
