//! The state of an earlier process: its pending gates, which the journal has, and its allowances, which the store has.

use std::sync::Arc;

use super::{Approvals, ApprovalsEvent, ApprovalsState, RECORD_TIMEOUT};
use crate::messages::journal::JournalMsg;
use crate::runtime::supervisor::ActorContext;
use domain::gate::allowance::{ALLOWANCES_MAX, Allowance};
use domain::keys;
use domain::unquoted::unquoted;
use ports::Scanned;
use telemetry::events::STORE_CORRUPT;

/// Reads a stored allowance. An unreadable one is logged and allows nothing.
fn allowance((key, text): &(String, String)) -> Option<Allowance> {
    let read = serde_json::from_str(text).map_err(|error| {
        let error = unquoted(&error.to_string());
        tracing::error!(event = STORE_CORRUPT, key, error, "an allowance cannot be read; it is skipped");
    });
    read.ok()
}

impl Approvals {
    /// Loads the state of an earlier process.
    pub(super) fn load(&self, ctx: &mut ActorContext<Approvals>) {
        let (journal, store, audit) = (self.journal.clone(), Arc::clone(&self.store), Arc::clone(&self.audit));
        ctx.task(
            async move {
                let _ = tokio::time::timeout(RECORD_TIMEOUT, audit.load()).await;
                let scan = store.scan(keys::ALLOWANCE_PREFIX, ALLOWANCES_MAX);
                let scanned = tokio::time::timeout(RECORD_TIMEOUT, scan).await.map(Scanned::into_parts);
                let stored = scanned.ok().filter(|(stored, complete)| *complete || stored.len() >= ALLOWANCES_MAX);
                let allowances = stored.map(|(stored, _)| stored.iter().filter_map(allowance).collect());
                let waiting = journal.call(JournalMsg::Waiting, RECORD_TIMEOUT).await.ok();
                ApprovalsEvent::Loaded(waiting, allowances)
            },
            |_| ApprovalsEvent::Loaded(None, None),
        );
    }

    /// Adds the allowances of an earlier process, except those withdrawn meanwhile. Applies only the first load: a later
    /// one could restore an allowance that was withdrawn since.
    pub(super) fn adopt(&self, state: &mut ApprovalsState, allowances: Vec<Allowance>) {
        if std::mem::replace(&mut state.allowed, true) {
            return;
        }
        let now = self.clock.now();
        let withdrawn = std::mem::take(&mut state.withdrawn);
        let is_gone = |known: &Allowance| withdrawn.iter().any(|which| which.takes_back(known));
        let (gone, held): (Vec<_>, Vec<_>) = allowances.into_iter().partition(is_gone);
        for allowance in held {
            self.allowances.add(allowance, now);
        }
        drop(self.store.write(Self::forget(&gone)));
    }
}
