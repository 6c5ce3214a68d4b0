//! The processes that share a store, by their reports and the lease.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::presence::{Presence, ProcessState};
use super::{Active, Claim};
use domain::ids::Timestamp;
use domain::keys::PROCESS_PREFIX;
use ports::processes::{Cluster, HeldRange, ProcessDetails, ProcessReport};
use ports::{Processes, Store};

/// The most processes that are listed.
const SHOWN_MAX: usize = 1_000;

/// The processes that share the store of this one.
pub(in crate::app) struct SharedProcesses {
    /// `None` if the store serves this process alone.
    claim: Option<Arc<Claim>>,
    store: Arc<dyn Store>,
}

impl SharedProcesses {
    /// Returns them with the lease of this process, if it has one.
    pub(in crate::app) fn of(active: Option<&Active>, store: &Arc<dyn Store>) -> Self {
        Self { claim: active.map(|active| Arc::clone(&active.claim)), store: Arc::clone(store) }
    }
}

#[async_trait]
impl Processes for SharedProcesses {
    async fn list(&self) -> Option<Cluster> {
        let Some(claim) = &self.claim else { return Some(Cluster::default()) };
        let (holder, ranges) = (claim.lease.holder().await.ok()?, claim.lease.ranges().await.ok()?);
        cluster(&*self.store, holder.as_deref(), ranges).await
    }
}

/// Returns the reports of all processes with the ranges; `None` if the store does not answer. `holder` has the lease, or
/// the holders of its `ranges`.
pub(in crate::app) async fn cluster(
    store: &dyn Store,
    holder: Option<&str>,
    ranges: Vec<HeldRange>,
) -> Option<Cluster> {
    let holds = |name: &str| ranges.iter().any(|range| range.holder.as_deref() == Some(name));
    let reports = store.scan(PROCESS_PREFIX, SHOWN_MAX).await.whole()?;
    let report = |(key, value): &(String, String)| {
        let name = key.strip_prefix(PROCESS_PREFIX).unwrap_or(key);
        report(name, value, holder == Some(name) || holds(name))
    };
    let processes = reports.iter().map(report).collect();
    Some(Cluster { processes, ranges })
}

fn report(name: &str, value: &str, is_active: bool) -> ProcessReport {
    let name = name.to_owned();
    let Ok(Presence { state, version, since, address, reached_at, lag_ms }) = serde_json::from_str(value) else {
        return ProcessReport { name, state: "unknown", details: None };
    };
    let state = match state {
        _ if is_active => "active",
        ProcessState::Standby => "standby",
        ProcessState::Active => "gone",
    };
    ProcessReport {
        name,
        state,
        details: Some(ProcessDetails {
            version,
            since: Timestamp(since),
            address,
            reached_at,
            lag: Duration::from_millis(lag_ms),
        }),
    }
}
