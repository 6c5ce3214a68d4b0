//! The report of a process to the others on its store, and the number of ranges that no process holds.

use std::convert::Infallible;
use std::time::Duration;

use metrics::gauge;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{Claim, StandbyParts};
use domain::ids;
use telemetry::metrics::RANGES_FREE;

/// The pause between two reports: several fit into [`store::redis::lease::PRESENT_FOR`].
const REPORT_EVERY: Duration = Duration::from_secs(3);

/// The report of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::app) struct Presence {
    pub state: ProcessState,
    /// The version of the program.
    pub version: String,
    /// The time in milliseconds since 1970 at which the process entered this state.
    pub since: u64,
    /// The address of its HTTP listener.
    pub address: String,
    /// The host and port at which other processes reach that listener; `None` if it takes no requests from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_at: Option<String>,
    /// The time in milliseconds for which its oldest turn waits for its start.
    #[serde(default)]
    pub lag_ms: u64,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::app) enum ProcessState {
    /// It answers.
    Active,
    /// It takes over when the active one ends.
    Standby,
}

/// Reports this state until the future is dropped. A lost report is followed by the next.
pub(super) async fn report(claim: &Claim, parts: &StandbyParts, state: ProcessState) -> Infallible {
    let (version, since) = (env!("CARGO_PKG_VERSION").to_owned(), parts.clock.now().0);
    let address = parts.live.now().settings.http.addr.to_string();
    let reached_at = parts.forwarding.as_ref().map(|forwarding| forwarding.address.clone());
    let mut presence = Presence { state, version, since, address, reached_at, lag_ms: 0 };
    loop {
        presence.lag_ms = claim.tree.get().map_or(0, |tree| ids::millis(tree.lag()));
        // Plain data always serializes.
        let text = serde_json::to_string(&presence).unwrap_or_default();
        if let Some(forwarding) = &parts.forwarding {
            forwarding.learn(&claim.lease).await;
        }
        if let Err(error) = claim.lease.report(&text).await {
            tracing::debug!(%error, "the state of this process is not reported");
        }
        if claim.lease.is_divided()
            && let Ok(ranges) = claim.lease.ranges().await
        {
            let free = ranges.iter().filter(|range| range.holder.is_none()).count();
            gauge!(RANGES_FREE).set(f64::from(u32::try_from(free).unwrap_or(u32::MAX)));
        }
        sleep(REPORT_EVERY).await;
    }
}
