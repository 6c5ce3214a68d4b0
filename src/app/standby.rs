//! The lease on a shared store: of several processes with one bot account, one acts and the others stand by.
//!
//! ```text
//!            lease free                     told to end: drain, close the store, release
//!   start ─────────────▶ acting ────────────────────────────────────────────▶ end
//!     │                    │  ▲
//!     │ held elsewhere     │  │ lease free (released, or its term is over)
//!     ▼                    │  │
//!   standing by ───────────┼──┘
//!                          │ another process holds it, or a term passed without
//!                          ▼ a renewal while another process stands by
//!                        stopped at once: nothing is posted any more
//! ```
//!
//! - A process that stands by opens no door. It serves health, readiness and metrics alone.
//! - A start while the store cannot be asked acts: an outage of the store does not silence the bot. The fencing tokens
//!   and the nonces of posts limit what two such processes can do.
//! - While a process stands by, an outage of the store for longer than a term stops the bot until the outage ends:
//!   neither process can know whether the other one acts.

mod pages;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(super) use self::pages::StandbyParts;
use self::pages::StandbyVitals;
use ports::Listener;
use store::redis::lease::{Lease, Standing, TERM};
use telemetry::events::{LEASE_AWAITED, LEASE_LOST, LEASE_TAKEN, LEASE_UNKNOWN};
use web::api::Api;

/// The pause between two renewals: several fit into a term.
const RENEW_EVERY: Duration = Duration::from_millis(400);

/// The pause between two requests of a process that stands by: the longest delay after a release.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The timeout of a request.
const WITHIN: Duration = Duration::from_millis(500);

/// The time before the end of a term at which its holder stops: the tree needs some of it.
const MARGIN: Duration = Duration::from_millis(250);

/// The pause before the pages of a process that stands by are bound again.
const BIND_AGAIN: Duration = Duration::from_secs(1);

/// The lease of a process that acts.
pub struct Acting {
    lease: Arc<Lease>,
    lost: watch::Receiver<Option<String>>,
    keeper: AbortOnDropHandle<()>,
}

impl Acting {
    /// Resolves with the reason once this process must stop. The reason is a sentence.
    pub(super) async fn lost(&mut self) -> String {
        match self.lost.wait_for(Option::is_some).await.map(|reason| reason.clone()) {
            Ok(Some(reason)) => reason,
            // The keeper ends only with this struct.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Releases the lease: the process that stands by acts at once. Call it after the last write.
    pub(super) async fn release(self) {
        drop(self.keeper);
        if let Ok(Err(error)) | Err(error) =
            timeout(WITHIN, self.lease.release()).await.map_err(|late| late.to_string())
        {
            tracing::debug!(event = LEASE_UNKNOWN, error, "the lease is not released; its term ends by itself");
        }
    }

    /// Waits until the store answers requests about the lease, and releases it.
    pub(super) async fn give_up(self) {
        while ask(&self.lease).await.is_err() {
            tokio::time::sleep(RENEW_EVERY).await;
        }
        self.release().await;
    }
}

/// Takes the lease. While another process holds it, this one stands by and serves its own pages.
pub(super) async fn act(lease: Lease, parts: StandbyParts) -> Acting {
    let (lease, mut renewed) = (Arc::new(lease), Instant::now());
    let first = ask(&lease).await;
    match first {
        Ok(Standing::Held { .. }) => tracing::info!(event = LEASE_TAKEN, "this process holds the lease and acts"),
        Err(error) => {
            tracing::warn!(event = LEASE_UNKNOWN, error, "the store cannot be asked for the lease; this process acts");
        }
        Ok(Standing::Elsewhere { holder, .. }) => {
            tracing::info!(event = LEASE_AWAITED, holder, "another process holds the lease; this process stands by");
            let vitals = Arc::new(StandbyVitals::new(holder, parts.live.clone()));
            let (stop, listener) = (CancellationToken::new(), pages::pages(parts, Arc::clone(&vitals)));
            let served = serve(&listener, &stop);
            let taken = async {
                let at = stand_by(&lease, &vitals).await;
                stop.cancel();
                at
            };
            ((), renewed) = tokio::join!(served, taken);
            tracing::info!(event = LEASE_TAKEN, "the lease is free; this process takes over");
        }
    }
    let (tell, lost) = watch::channel(None);
    let keeper = AbortOnDropHandle::new(tokio::spawn(keep(Arc::clone(&lease), renewed, tell)));
    Acting { lease, lost, keeper }
}

/// Serves the pages until `stop`. Another process may leave the address only now.
async fn serve(listener: &Api, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        if let Err(error) = listener.serve(stop.clone()).await {
            tracing::warn!(event = LEASE_AWAITED, error, "the pages of this process cannot be served yet");
            let _ = timeout(BIND_AGAIN, stop.cancelled()).await;
        }
    }
}

/// Asks until this process holds the lease, and returns the time of the request that took it.
async fn stand_by(lease: &Lease, vitals: &StandbyVitals) -> Instant {
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        let asked = Instant::now();
        match ask(lease).await {
            Ok(Standing::Held { .. }) => return asked,
            Ok(Standing::Elsewhere { holder, .. }) => vitals.held_by(holder),
            Err(error) => tracing::debug!(event = LEASE_UNKNOWN, error, "the store cannot be asked for the lease"),
        }
    }
}

/// Renews the lease until it is lost.
async fn keep(lease: Arc<Lease>, mut renewed: Instant, lost: watch::Sender<Option<String>>) {
    let reason = renew(&lease, &mut renewed).await;
    tracing::error!(event = LEASE_LOST, reason, "this process stops acting");
    lost.send_replace(Some(reason));
}

async fn renew(lease: &Lease, renewed: &mut Instant) -> String {
    let mut awaited = false;
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        let ends = *renewed + TERM.saturating_sub(MARGIN);
        if awaited && Instant::now() >= ends {
            return overdue(*renewed);
        }
        let asked = Instant::now();
        match ask(lease).await {
            Ok(Standing::Held { awaited: now }) => (*renewed, awaited) = (asked, now),
            Ok(Standing::Elsewhere { holder, .. }) => return format!("{holder} holds the lease now"),
            Err(error) => {
                tracing::debug!(event = LEASE_UNKNOWN, error, "the lease is not renewed");
                if awaited && Instant::now() >= ends {
                    return overdue(*renewed);
                }
            }
        }
    }
}

fn overdue(renewed: Instant) -> String {
    let ms = renewed.elapsed().as_millis();
    format!("the lease was last renewed {ms} ms ago, and another process stands by")
}

async fn ask(lease: &Lease) -> Result<Standing, String> {
    timeout(WITHIN, lease.take()).await.unwrap_or_else(|late| Err(format!("the store does not answer: {late}")))
}
