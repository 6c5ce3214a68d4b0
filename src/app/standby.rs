//! The lease on a shared store: of several processes with one bot account, one is active and the others stand by. If the
//! bot's work is divided (`cluster.ranges`), each range has one active process, which may have several.
//!
//! `docs/architecture.md` ("Standby") draws the states and lists the remaining cases. The process that lost the lease
//! stops at once, and exits with 75 when the store answers.
//!
//! - A process that stands by opens no door. It serves health, readiness and metrics, and passes all other requests on
//!   to the active process if that is configured ([forwarding]).
//! - While the store does not answer, only the process whose data directory has the right to [act alone](alone) acts. If
//!   the store does not answer at the start, any other process stands by until it does.
//! - While another process stands by or has that right, an outage of the store for longer than a term stops the active
//!   one until the outage ends: neither process can know whether the other one is active.
//! - If the work is divided, no process has the right to act alone: an outage stops all of them until it ends.
//! - While another process stands by, a process whose tree makes no progress stops renewing: the other one takes over.

mod alone;

mod forwarding;

mod moving;

mod pages;

mod presence;

mod processes;

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use metrics::gauge;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(super) use self::alone::Alone;
pub(super) use self::forwarding::Forwarding;
pub(super) use self::moving::Moves;
use self::moving::{Balance, Order};
pub(super) use self::pages::StandbyParts;
use self::pages::StandbyVitals;
use self::presence::ProcessState;
pub(super) use self::processes::{SharedProcesses, cluster};
use domain::ids::Door;
use domain::ownership::Portions;
use ports::{Listener, Peers, Vitals};
use settings::edges::Http;
use store::redis::lease::{self, ASK_EVERY, Lease, LeaseAnswer, LeaseFault, RENEW_EVERY};
use telemetry::events::{LEASE_AWAITED, LEASE_LOST, LEASE_TAKEN, LEASE_UNKNOWN};
use telemetry::metrics::ACTIVE;
use web::api::forwarding::Forwarder;
use web::api::membership::Membership;
use web::api::sockets::Sockets;
use web::api::{Exposure, Limits};

/// The time within which the store must answer at the start; afterwards it counts as unreachable.
const START_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeout of a release.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// The pause between two looks at the tree, of which each reads the state of all actors.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The pause before the pages are bound again.
const BIND_AGAIN: Duration = Duration::from_secs(1);

/// The lease of a process and its right to act alone.
struct Claim {
    lease: Arc<Lease>,
    alone: Alone,
    /// The tree of this process, once it runs.
    tree: OnceLock<Arc<dyn Vitals>>,
}

/// The lease of the active process.
pub struct Active {
    claim: Arc<Claim>,
    lost: watch::Receiver<Option<String>>,
    keeper: AbortOnDropHandle<()>,
    parts: Box<StandbyParts>,
    /// The ranges with which this process began to be active.
    portions: Portions,
    /// The later changes of its ranges, until they are followed.
    orders: Option<mpsc::UnboundedReceiver<Order>>,
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

    /// Returns the portions of the bot's work with which this process began to be active.
    pub(super) const fn portions(&self) -> Portions {
        self.portions
    }

    /// Returns the later changes of its ranges, which the caller must apply. At the first call only.
    pub(super) fn moves(&mut self) -> Option<Moves> {
        let orders = self.orders.take()?;
        Some(Moves { claim: Arc::clone(&self.claim), orders })
    }

    /// From now on, this process takes no further ranges: it ends.
    pub(super) fn takes_no_more(&self) {
        self.claim.lease.takes_no_more();
    }

    /// Returns the other processes, if the work is divided.
    pub(super) fn peers(&self) -> Option<Arc<dyn Peers>> {
        self.claim.lease.is_divided().then(|| Arc::clone(&self.claim.lease) as _)
    }

    /// Ends the terms of divisions into other numbers of ranges at these doors, before this process takes its own tokens.
    ///
    /// # Errors
    /// The store does not answer, or refuses; processes of another division may still write.
    pub(super) async fn end_other_divisions(&self, doors: &[Door]) -> Result<(), LeaseFault> {
        let end = Instant::now() + START_TIMEOUT;
        loop {
            match self.claim.lease.end_other_divisions(doors).await {
                Ok(()) => return Ok(()),
                // Without these rights there was no division, and no lease.
                Err(LeaseFault::Refused(_)) if !self.claim.lease.is_divided() => return Ok(()),
                // A process that acts alone takes no token before the store answers, and no division acted before it.
                Err(_) if self.claim.alone.is_held() => return Ok(()),
                Err(fault) if Instant::now() >= end => return Err(fault),
                Err(_) => sleep(ASK_EVERY).await,
            }
        }
    }

    /// Returns what the pages of the active process take over from those of the standby: the secret of the processes,
    /// if there is one, and the sockets at the addresses of these settings.
    pub(super) fn inheritance(&self, http: &Http) -> (Option<Arc<Membership>>, Sockets) {
        let Exposure { membership, sockets, .. } = self.parts.exposure.clone();
        let addresses = [Some(http.addr), http.health_addr].into_iter().flatten().chain(http.listeners.iter().copied());
        sockets.keep_only(&addresses.map(|address| address.to_string()).collect::<Vec<_>>());
        (membership, sockets)
    }

    /// Returns the way to pass requests on to the process with the first range, if the work is divided and the settings
    /// name an address of this process.
    pub(super) fn forwarder(&self, limits: Limits) -> Option<Forwarder> {
        let forwarding = self.parts.forwarding.as_ref().filter(|_| self.claim.lease.is_divided())?;
        Some(forwarding.forwarder(limits, self.parts.refuse))
    }

    /// Ties the lease to the progress of this tree.
    pub(super) fn runs(&self, tree: Arc<dyn Vitals>) {
        let _ = self.claim.tree.set(tree);
    }

    /// Releases the lease: a process that stands by becomes active immediately. The caller has finished its last write.
    pub(super) async fn release(self) {
        self.keeper.abort();
        // A renewal in progress could take the lease again.
        let _ = self.keeper.await;
        release(&self.claim.lease).await;
    }

    /// Serves the pages of a process that stands by until the store answers.
    pub(super) async fn until_the_store_answers(&self, reason: &str) {
        let vitals = Arc::new(StandbyVitals::new(reason.to_owned(), self.parts.live.clone()));
        let never = CancellationToken::new();
        // The last known active process may have ended.
        let parts = StandbyParts { forwarding: None, ..StandbyParts::clone(&self.parts) };
        let pages = Box::pin(serve(&parts, &vitals, &never));
        let answered = async {
            while let Err(fault) = self.claim.lease.take(true).await {
                vitals.note(fault.to_string());
                sleep(RENEW_EVERY).await;
            }
        };
        tokio::select! {
            () = answered => {}
            () = pages => {}
        }
    }
}

/// Shows whether this process is active.
pub(super) fn show(active: bool) {
    gauge!(ACTIVE).set(f64::from(u8::from(active)));
}

/// Returns the lease once this process is active. While another process holds it, or may hold it, this one stands by and
/// serves its own pages. `None` if `stop` came first.
pub(super) async fn activate(
    lease: Lease,
    alone: Alone,
    parts: StandbyParts,
    stop: &CancellationToken,
) -> Option<Active> {
    let claim = Arc::new(Claim { lease: Arc::new(lease), alone, tree: OnceLock::new() });
    let active = stop.run_until_cancelled(Box::pin(wait(&claim, parts))).await;
    if active.is_none() {
        release(&claim.lease).await;
    }
    active
}

async fn wait(claim: &Arc<Claim>, parts: StandbyParts) -> Active {
    show(false);
    let reason = match first_answer(&claim.lease).await {
        (asked, Ok(LeaseAnswer::Held { awaited })) => {
            let range = shown_range(&claim.lease);
            tracing::info!(event = LEASE_TAKEN, range, "this process holds the lease and is active");
            return keep(claim, (asked, Some(awaited)), parts, false);
        }
        (asked, Err(fault)) if may_act(claim, &fault).await => {
            let error = fault.to_string();
            tracing::warn!(event = LEASE_UNKNOWN, error, "no lease; this process becomes active without it");
            return keep(claim, (asked, None), parts, false);
        }
        (_, Err(fault)) => {
            let reason = fault.to_string();
            tracing::warn!(
                event = LEASE_AWAITED,
                reason,
                "another process may be active; this process stands by until the store answers"
            );
            reason
        }
        (_, Ok(LeaseAnswer::Elsewhere(holder))) => {
            tracing::info!(event = LEASE_AWAITED, holder, "another process holds the lease; this process stands by");
            claim.alone.give_up(&claim.lease).await;
            holds(&claim.lease, &holder)
        }
    };
    let vitals = Arc::new(StandbyVitals::new(reason, parts.live.clone()));
    let (stop, at) = (CancellationToken::new(), parts.clone());
    let pages = serve(&at, &vitals, &stop);
    let taken = async {
        let taken = tokio::select! {
            taken = stand_by(claim, &vitals, at.forwarding.as_deref()) => taken,
            never = presence::report(claim, &at, ProcessState::Standby) => match never {},
            never = follow(claim, &at) => match never {},
        };
        let range = shown_range(&claim.lease);
        tracing::info!(event = LEASE_TAKEN, range, "the lease is free; this process takes over");
        stop.cancel();
        keep(claim, taken, parts, true)
    };
    // The lease is renewed while the pages close.
    let ((), active) = tokio::join!(pages, taken);
    active
}

/// True if this process may act without a lease: no process can hold one, or no other process has the right to. A process
/// of a division needs its range.
async fn may_act(claim: &Claim, fault: &LeaseFault) -> bool {
    match fault {
        _ if claim.lease.is_divided() => false,
        LeaseFault::Refused(_) => true,
        LeaseFault::Away(_) => claim.alone.may_start(&claim.lease).await,
    }
}

/// Returns the first answer of the store, or the last error after [`START_TIMEOUT`], with the time of the request.
async fn first_answer(lease: &Lease) -> (Instant, Result<LeaseAnswer, LeaseFault>) {
    let end = Instant::now() + START_TIMEOUT;
    loop {
        let (asked, answer) = lease.take_timed(false).await;
        if answer.is_ok() || Instant::now() >= end {
            return (asked, answer);
        }
        sleep(ASK_EVERY).await;
    }
}

/// Follows the address of the active process, if requests are passed on.
async fn follow(claim: &Claim, parts: &StandbyParts) -> Infallible {
    match &parts.forwarding {
        Some(forwarding) => forwarding.follow(&claim.lease).await,
        None => pending().await,
    }
}

/// Follows the address of the process with the first range, if requests are passed on.
async fn follow_the_first_range(claim: &Claim, parts: &StandbyParts) -> Infallible {
    match parts.forwarding.as_ref().filter(|_| claim.lease.is_divided()) {
        Some(forwarding) => forwarding.follow_the_first_range(&claim.lease).await,
        None => pending().await,
    }
}

/// Serves the pages until `stop`.
async fn serve(parts: &StandbyParts, vitals: &Arc<StandbyVitals>, stop: &CancellationToken) {
    let listeners = pages::pages(parts.clone(), Arc::clone(vitals));
    join_all(listeners.iter().map(|listener| serve_at(&**listener, stop))).await;
}

/// Serves at one address until `stop`. The previous process may still use it, so binding is retried.
async fn serve_at(listener: &dyn Listener, stop: &CancellationToken) {
    let mut told = false;
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
/// stands by, if that is known.
async fn stand_by(claim: &Claim, vitals: &StandbyVitals, forwarding: Option<&Forwarding>) -> (Instant, Option<bool>) {
    loop {
        sleep(ASK_EVERY).await;
        let (asked, answer) = claim.lease.take_timed(true).await;
        match answer {
            Ok(LeaseAnswer::Held { awaited }) => return (asked, Some(awaited)),
            Ok(LeaseAnswer::Elsewhere(holder)) => {
                claim.alone.give_up(&claim.lease).await;
                vitals.note(holds(&claim.lease, &holder));
                if let Some(forwarding) = forwarding {
                    forwarding.holds(&holder);
                }
            }
            Err(LeaseFault::Refused(error)) if !claim.lease.is_divided() => {
                tracing::warn!(event = LEASE_UNKNOWN, error, "no process can hold the lease");
                return (asked, None);
            }
            Err(LeaseFault::Away(error) | LeaseFault::Refused(error)) => vitals.note(error),
        }
    }
}

/// Returns the held range for the log; `None` if the work is not divided.
fn shown_range(lease: &Lease) -> Option<String> {
    lease.portions().range_name()
}

/// Returns the reason why this process stands by.
fn holds(lease: &Lease, holder: &str) -> String {
    if lease.has_division(holder) {
        return "each range has a holder; this process takes over a free one, or is given one".to_owned();
    }
    let holder = if holder.is_empty() { "an unknown process" } else { holder };
    format!("{holder} holds the lease; this process takes over when it is free")
}

/// Renews the lease in the background until it is lost.
fn keep(claim: &Arc<Claim>, renewed: (Instant, Option<bool>), parts: StandbyParts, took_over: bool) -> Active {
    let (tell, lost) = watch::channel(None);
    let (renewing, at) = (Arc::clone(claim), parts.clone());
    if renewed.1.is_none() {
        claim.alone.acts();
    }
    show(true);
    let (portions, (give, orders)) = (claim.lease.portions(), mpsc::unbounded_channel());
    if let Some(range) = portions.range_name() {
        telemetry::show_range(&range);
    }
    let balance = Balance::new(portions, give, parts.live.now().settings.drain.timeout);
    let keeper = tokio::spawn(async move {
        let (heard, awaited) = watch::channel(renewed.1);
        let reason = tokio::select! {
            reason = renew(&renewing, renewed.0, &heard, balance) => reason,
            never = renewing.alone.follow(&renewing.lease, awaited) => match never {},
            never = presence::report(&renewing, &at, ProcessState::Active) => match never {},
            never = follow_the_first_range(&renewing, &at) => match never {},
        };
        show(false);
        tracing::error!(event = LEASE_LOST, reason, "this process stops");
        tell.send_replace(Some(reason));
    });
    let (keeper, parts) = (AbortOnDropHandle::new(keeper), Box::new(parts));
    Active { claim: Arc::clone(claim), lost, keeper, parts, portions, orders: Some(orders), took_over }
}

/// Returns the reason why the lease is lost. `awaited` holds whether another process stands by, once that is known.
async fn renew(
    claim: &Claim,
    mut renewed: Instant,
    awaited: &watch::Sender<Option<bool>>,
    mut balance: Balance,
) -> String {
    let (mut failing, mut looked) = (false, Instant::now());
    loop {
        let is_awaited = *awaited.borrow() == Some(true);
        if is_awaited && looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            if let Some(reason) = claim.tree.get().and_then(|tree| tree.stuck()) {
                return format!("{reason}, and another process stands by");
            }
        }
        let other = match (is_awaited, claim.lease.is_divided()) {
            (true, _) => "another process stands by",
            (false, true) => "another process may take the range",
            (false, false) => "another process may start alone",
        };
        let ends = lease::stops_at(renewed);
        let next = async {
            sleep(RENEW_EVERY).await;
            balance.keep(&claim.lease).await;
            claim.lease.take_timed(false).await
        };
        let (asked, answer) = tokio::select! {
            biased;
            () = sleep_until(ends), if is_awaited || !claim.alone.is_held() => {
                let ms = renewed.elapsed().as_millis();
                return format!("the lease was last renewed {ms} ms ago, and {other}");
            }
            next = next => next,
        };
        match answer {
            Ok(LeaseAnswer::Held { awaited: now }) => {
                (renewed, failing) = (asked, false);
                awaited.send_if_modified(|known| known.replace(now) != Some(now));
                balance.renewed(&claim.lease);
            }
            Ok(LeaseAnswer::Elsewhere(holder)) => return format!("{holder} holds the lease now"),
            Err(fault) => {
                if !std::mem::replace(&mut failing, true) {
                    let error = fault.to_string();
                    tracing::warn!(event = LEASE_UNKNOWN, error, "the lease is not renewed");
                }
            }
        }
    }
}

async fn release(lease: &Lease) {
    let released = async {
        lease.release().await?;
        lease.leave().await
    };
    let released = timeout(RELEASE_TIMEOUT, released).await;
    let released = released.map_err(|late| late.to_string()).and_then(|done| done.map_err(|fault| fault.to_string()));
    if let Err(error) = released {
        tracing::debug!(event = LEASE_UNKNOWN, error, "the lease is not released; its term ends by itself");
    }
}
