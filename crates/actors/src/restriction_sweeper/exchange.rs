//! The exchange of restrictions between the processes of a divided bot: each restricts the members of its own
//! communities, and knows of the others, because a restriction may confine linked accounts elsewhere.

use std::sync::Arc;
use std::time::Duration;

use super::{RestrictionSweeper, SweeperEvent, SweeperState};
use crate::runtime::supervisor::ActorContext;
use domain::ids::Timestamp;
use domain::keys::restrictions::CHANGES;
use domain::restriction::Member;
use domain::restriction::changes::{Change, LatestChanges};
use ports::{Replaced, Store, Stored, Unreadable, replace};

/// The timeout of one exchange; the changes are sent again with the next one.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// The most changes that are kept until the store accepts them; the oldest is dropped first. Other processes read its
/// record with their next read of all records.
const UNSENT_MAX: usize = 100;

/// The state of the exchange.
#[derive(Default)]
pub(super) struct Exchange {
    /// The changes that the store has not accepted.
    unsent: Vec<Change>,
    /// The number of the last change that is known; `None` before the first exchange.
    seen: Option<u64>,
    /// The number of the first changes in `unsent` that an exchange under way sends; `None` if none is under way.
    pub(super) sending: Option<usize>,
}

impl RestrictionSweeper {
    /// Records that a restriction of a member began at this time, or ended, for the other processes.
    pub(super) fn announce(&self, state: &mut SweeperState, member: &Member, since: Option<Timestamp>) {
        if self.ranges.now().is_whole() {
            return;
        }
        let unsent = &mut state.exchange.unsent;
        unsent.push(Change::new(member, since));
        if unsent.len() > UNSENT_MAX {
            unsent.remove(0);
            state.exchange.sending = state.exchange.sending.map(|many| many.saturating_sub(1));
        }
    }

    /// Sends the changes of this process, and reads those of the others.
    pub(super) fn exchange(&self, ctx: &mut ActorContext<RestrictionSweeper>, state: &mut SweeperState) {
        // A read of all records may be older than a change.
        if self.ranges.now().is_whole() || state.reading || state.exchange.sending.is_some() {
            return;
        }
        state.exchange.sending = Some(state.exchange.unsent.len());
        let (store, unsent, now) = (Arc::clone(&self.store), state.exchange.unsent.clone(), self.clock.now());
        ctx.task(
            async move {
                let exchanged = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange(&*store, unsent, now)).await;
                SweeperEvent::Exchanged(exchanged.ok().flatten().map(Box::new))
            },
            |_| SweeperEvent::Exchanged(None),
        );
    }

    /// Applies the changes of other processes.
    pub(super) fn exchanged(&self, state: &mut SweeperState, latest: Option<Box<LatestChanges>>) {
        let sent = state.exchange.sending.take().unwrap_or_default();
        let Some(latest) = latest else { return };
        state.exchange.unsent.drain(..sent.min(state.exchange.unsent.len()));
        // The records were read after the changes before the first exchange.
        let Some(seen) = state.exchange.seen.replace(latest.last()) else { return };
        let Some(changes) = latest.after(seen) else {
            state.read_at = None;
            return;
        };
        for (member, since) in changes.cloned().map(Change::into_parts) {
            if self.ranges.now().has_guild(Some(&member.guild)) {
                continue;
            }
            match since {
                Some(since) => {
                    state.elsewhere.insert(member.clone(), since);
                    self.restricted.begin(member, since);
                }
                None => {
                    state.elsewhere.remove(&member);
                    state.endless.remove(&member);
                    self.restricted.end(&member);
                }
            }
        }
    }
}

async fn exchange(store: &dyn Store, unsent: Vec<Change>, now: Timestamp) -> Option<LatestChanges> {
    let mut latest = match store.read(CHANGES).await {
        Stored::Unreadable(Unreadable::NoAnswer) => return None,
        stored => LatestChanges::parse(stored.value().as_deref()),
    };
    if unsent.is_empty() && !latest.clone().expire(now) {
        return Some(latest);
    }
    let end = replace(store, CHANGES, |stored| {
        latest = LatestChanges::parse(stored);
        latest.expire(now);
        if !unsent.is_empty() {
            latest.extend(&unsent, now);
        }
        Some(latest.to_json())
    });
    (end.await == Replaced::Done).then_some(latest)
}
