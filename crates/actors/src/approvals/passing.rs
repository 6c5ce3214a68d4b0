//! Clicks between the processes of a divided bot: a question of a timer or webhook belongs to the first range, and a click
//! on it arrives at the process of its community. That process stores the click for the others, and refuses it itself if
//! none takes it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::clicks::Clicked;
use super::{Approvals, ApprovalsEvent, ApprovalsState};
use crate::runtime::supervisor::ActorContext;
use domain::gate::GateId;
use domain::gate::passed::{KEPT, PassedClick};
use domain::keys;
use ports::{Store, Write};

/// The time for another process to take a click: longer than the pause between two reads, so that the platform, which
/// gives up after three seconds, still gets a response.
const TAKEN_WITHIN: Duration = Duration::from_millis(1_800);
/// The timeout of one read of clicks, which ends before the next one.
const READ_TIMEOUT: Duration = Duration::from_millis(900);
/// The most gates for which clicks are read at once.
const READ_MAX: usize = 64;

impl Approvals {
    /// True if the gate of this click may be open in another process.
    pub(super) fn is_elsewhere(&self, state: &ApprovalsState, clicked: &Clicked) -> bool {
        let known = state.open.contains_key(&clicked.click.gate) || !state.loaded;
        !clicked.was_passed && !known && !self.ranges.now().is_whole()
    }

    /// Stores a click for the process with its gate.
    pub(super) fn pass_on(&self, ctx: &mut ActorContext<Approvals>, mut clicked: Clicked) {
        clicked.was_passed = true;
        let (store, key) = (Arc::clone(&self.store), keys::click(&clicked.click.gate));
        let written = PassedClick::written(&clicked.click);
        ctx.task(
            async move {
                if let Some(value) = written {
                    store.commit(vec![Write::Put { key: key.clone(), value, ttl: Some(KEPT) }]).await;
                    tokio::time::sleep(TAKEN_WITHIN).await;
                    if store.get(&key).await.is_none() {
                        return ApprovalsEvent::Unclaimed(None);
                    }
                    store.commit(vec![Write::Delete { key }]).await;
                }
                ApprovalsEvent::Unclaimed(Some(Box::new(clicked)))
            },
            |_| ApprovalsEvent::Unclaimed(None),
        );
    }

    /// Reads the clicks on gates of this process that arrived elsewhere.
    pub(super) fn read_passed(&self, ctx: &mut ActorContext<Approvals>, state: &ApprovalsState) {
        if state.open.is_empty() || self.ranges.now().is_whole() {
            return;
        }
        let gates: Vec<GateId> = state.open.keys().take(READ_MAX).cloned().collect();
        let store = Arc::clone(&self.store);
        ctx.task(
            async move {
                let taken = join_all(gates.iter().map(|gate| take(&*store, gate)));
                let taken = tokio::time::timeout(READ_TIMEOUT, taken).await.unwrap_or_default();
                ApprovalsEvent::Passed(taken.into_iter().flatten().collect())
            },
            |_| ApprovalsEvent::Passed(Vec::new()),
        );
    }
}

/// Takes the click on a gate, if there is one. The platform's only deferral of a click protects against a second taker.
async fn take(store: &dyn Store, gate: &GateId) -> Option<domain::gate::Click> {
    let key = keys::click(gate);
    let text = store.get(&key).await?;
    store.commit(vec![Write::Delete { key }]).await;
    PassedClick::read(&text)
}
