//! Forwarding: while this process stands by, it passes requests of clients on to the active process. If the work is
//! divided, each process without the first range passes those of programs on to the one with it.
//!
//! The address of the active process is in its report. It is read once for each holder of the lease, because a process
//! keeps its name and address for life. The processes share a secret in the store, by which the active one recognizes
//! requests that another one passed on.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::presence::Presence;
use crate::app::system::random_bits;
use domain::hex::hex;
use settings::Settings;
use store::redis::lease::Lease;
use web::api::Limits;
use web::api::form::Refuse;
use web::api::forwarding::Forwarder;
use web::api::membership::Membership;

/// The pause between two reads of a report that is not there yet.
const REPORT_AGAIN: Duration = Duration::from_millis(200);

/// The timeout of the report of the holder of a range.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two reads of the holders of ranges.
const RANGES_EVERY: Duration = Duration::from_millis(500);

/// The part of this process in forwarding.
pub(in crate::app) struct Forwarding {
    /// The host and port at which other processes reach this one.
    pub address: String,
    /// Recognizes requests that another process passed on.
    pub membership: Arc<Membership>,
    /// The secret if the store has none.
    new_secret: SecretString,
    /// The name of the holder of the lease; empty while none is known.
    holder: watch::Sender<String>,
    /// The address of the holder; `None` while it is unknown.
    active: watch::Sender<Option<String>>,
}

impl Forwarding {
    /// Returns `None` if the settings name no address of this process.
    pub(in crate::app) fn of(settings: &Settings) -> Option<Arc<Self>> {
        let address = settings.cluster.address.clone()?;
        let (membership, new_secret) = (Arc::default(), SecretString::from(hex(&random_bits::<32>())));
        let (holder, active) = (watch::Sender::default(), watch::Sender::default());
        Some(Arc::new(Self { address, membership, new_secret, holder, active }))
    }

    /// Returns the proxy to the active process.
    pub(super) fn forwarder(&self, limits: Limits, refuse: Refuse) -> Forwarder {
        Forwarder::new(self.active.subscribe(), Arc::clone(&self.membership), limits, refuse)
    }

    /// Records the holder of the lease.
    pub(super) fn holds(&self, holder: &str) {
        self.holder.send_if_modified(|known| {
            let is_new = known != holder;
            if is_new {
                holder.clone_into(known);
            }
            is_new
        });
    }

    /// Reads the secret of the processes again. On a failure the last one stays in use.
    pub(super) async fn learn(&self, lease: &Lease) {
        match lease.shared_secret(&self.new_secret).await {
            Ok(secret) => self.membership.learn(secret.expose_secret()),
            Err(error) => tracing::debug!(%error, "the secret of the processes is not read"),
        }
    }

    /// Follows the address of the holder until the future is dropped.
    pub(super) async fn follow(&self, lease: &Lease) -> Infallible {
        let mut holder = self.holder.subscribe();
        loop {
            let name = holder.borrow_and_update().clone();
            self.active.send_replace(None);
            let known = async {
                if lease.has_division(&name) {
                    return self.follow_the_first_range(lease).await;
                }
                // A holder keeps its address.
                if !name.is_empty() {
                    self.active.send_replace(address_of(lease, &name).await);
                }
                pending::<Infallible>().await
            };
            tokio::select! {
                Ok(()) = holder.changed() => {}
                never = known => match never {},
            }
        }
    }

    /// Follows the address of the process with the first range.
    pub(super) async fn follow_the_first_range(&self, lease: &Lease) -> Infallible {
        let mut known = None;
        loop {
            let holder = match lease.ranges().await {
                Ok(ranges) => ranges.into_iter().next().and_then(|range| range.holder),
                Err(error) => {
                    tracing::debug!(%error, "the holders of the ranges are not read");
                    known.clone()
                }
            };
            if holder != known {
                self.active.send_replace(None);
                known = None;
                if let Some(name) = holder
                    // A process that ended before its report never has one.
                    && let Ok(address) = timeout(REPORT_TIMEOUT, address_of(lease, &name)).await
                {
                    self.active.send_replace(address);
                    known = Some(name);
                }
            }
            sleep(RANGES_EVERY).await;
        }
    }
}

/// Waits for the report of a process. Returns `None` if the process has no address for others.
async fn address_of(lease: &Lease, name: &str) -> Option<String> {
    loop {
        match lease.report_of(name).await {
            Ok(Some(report)) => return serde_json::from_str::<Presence>(&report).ok()?.reached_at,
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "the report of the active process is not read"),
        }
        sleep(REPORT_AGAIN).await;
    }
}
