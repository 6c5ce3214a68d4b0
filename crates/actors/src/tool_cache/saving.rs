//! The schedule for writing the record of a server. The first record and decisions of operators are written
//! immediately. Further changes are debounced: each write is followed by a pause in proportion to its length; then only
//! the last state is written, unless it is stored already. So each server writes at most [`STORED_A_SECOND`] bytes a
//! second on average.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{ToolCache, ToolCacheEvent, ToolCacheState, building};
use crate::runtime::blocking::blocking_caught;
use crate::runtime::supervisor::ActorContext;
use domain::ids::Timestamp;
use domain::keys;
use domain::tool::catalogue::Pin;
use domain::tool::{ServerName, Tool};
use ports::Write;

/// The maximum bytes stored for one server in a second, on average.
const STORED_A_SECOND: usize = 8 * 1024;
/// The minimum pause between two writes for one server.
const PAUSE: Duration = Duration::from_secs(10);

/// The schedule of storing one server's record.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that stands by itself")]
pub(super) struct Saving {
    /// True if the stored record is out of date.
    unsaved: bool,
    /// True if the next write skips the pause.
    at_once: bool,
    /// True if a timer is set.
    armed: bool,
    /// True if a task is building the record.
    making: bool,
    /// The earliest time of the next write.
    from: Option<Instant>,
    /// The hash of the stored record.
    stored: Option<u64>,
}

/// The part of a server's state that is stored.
pub(super) struct Saved {
    pub tools: Arc<Vec<Arc<Tool>>>,
    pub pins: Arc<BTreeMap<String, Pin>>,
    pub first_seen: Arc<BTreeMap<String, Timestamp>>,
    /// True if the list is complete.
    pub whole: bool,
    pub verified: Option<Timestamp>,
}

/// The record of a server, and its input.
pub struct Record {
    saved: Saved,
    fingerprint: String,
    /// The text; `None` if it is too large to be stored.
    text: Option<String>,
}

impl Saving {
    /// Records a change. `at_once`: an operator made it.
    pub(super) fn changed(&mut self, at_once: bool) {
        self.unsaved = true;
        self.at_once |= at_once;
    }

    /// Starts the pause before the unsaved state is stored.
    pub(super) fn arm(&mut self, ctx: &mut ActorContext<ToolCache>, name: &ServerName) {
        if self.unsaved && !self.making && (self.at_once || !self.armed) {
            self.armed = true;
            ctx.after(self.pause(), ToolCacheEvent::Save(name.clone()));
        }
    }

    /// The time until the next write is permitted.
    fn pause(&self) -> Duration {
        let from = self.from.filter(|_| !self.at_once);
        from.map_or(Duration::ZERO, |from| from.saturating_duration_since(Instant::now()))
    }

    /// True if this text must be written.
    fn takes(&mut self, text: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = Some(hasher.finish());
        let other = self.stored != hash;
        if other {
            let seconds = u64::try_from(text.len() / STORED_A_SECOND).unwrap_or(u64::MAX);
            self.from = Some(Instant::now() + Duration::from_secs(seconds).max(PAUSE));
            self.stored = hash;
        }
        other
    }
}

/// Builds the record of a server in a task, because serializing a long list takes long.
pub(super) fn record(ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState, name: &ServerName) {
    let Some(known) = state.known.get_mut(name) else { return };
    known.saving.armed = false;
    // A timer can be left from before an operator's decision.
    if !known.saving.unsaved || known.saving.making || !known.saving.pause().is_zero() {
        return;
    }
    let Some(pins) = known.pins.clone() else { return };
    let (tools, first_seen) = (Arc::clone(&known.tools), Arc::clone(&known.first_seen));
    let saved = Saved { tools, pins, first_seen, whole: known.whole, verified: known.verified };
    // Later changes are not in this record.
    (known.saving.unsaved, known.saving.at_once, known.saving.making) = (false, false, true);
    let (entry, fingerprint) = (Arc::clone(&known.server.entry), known.fingerprint.clone());
    let made = blocking_caught(move || {
        let text = building::record(&saved, &entry.transport, fingerprint.clone());
        Record { saved, fingerprint, text }
    });
    let (name, back) = (name.clone(), name.clone());
    ctx.task(async move { ToolCacheEvent::Recorded(name, made.await.ok().map(Box::new)) }, move |_| {
        ToolCacheEvent::Recorded(back, None)
    });
}

/// Rewrites the records of all servers to renew their TTL.
pub(super) fn renew(ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState) {
    for (name, known) in state.known.iter_mut().filter(|(_, known)| known.stored && !known.loading) {
        known.saving.stored = None;
        known.saving.changed(false);
        known.saving.arm(ctx, name);
    }
}

impl ToolCache {
    /// Writes the record of a server, unless it is stored already or belongs to another entry.
    pub(super) fn recorded(
        &self,
        ctx: &mut ActorContext<ToolCache>,
        state: &mut ToolCacheState,
        name: &ServerName,
        record: Option<Record>,
    ) {
        let Some(known) = state.known.get_mut(name) else { return };
        if record.as_ref().is_some_and(|record| record.fingerprint != known.fingerprint) {
            return;
        }
        known.saving.making = false;
        if let Some(Record { saved, text, .. }) = record {
            let same = known.pins.as_ref().is_some_and(|known| Arc::ptr_eq(known, &saved.pins))
                && Arc::ptr_eq(&known.first_seen, &saved.first_seen)
                && Arc::ptr_eq(&known.tools, &saved.tools);
            known.saving.unsaved |= !same;
            if let Some(value) = text.filter(|text| known.saving.takes(text)) {
                let (key, ttl) = (keys::tools(name), Some(keys::TOOLS_TTL));
                // The write runs in the background; a lost list is read again.
                drop(self.store.write(vec![Write::Put { key, value, ttl }]));
            }
        }
        known.saving.arm(ctx, name);
    }
}
