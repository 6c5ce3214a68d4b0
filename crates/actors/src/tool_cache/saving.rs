//! When the record of a server is written. The first one is written at once, and so is what an operator decides. Further changes
//! are debounced: after each write there is a pause in proportion to its length, and then the last state alone is written, unless it is
//! what is stored already. So a server writes at most [`STORED_A_SECOND`] bytes a second on average, whatever it does.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{ToolCache, ToolCacheEvent, ToolCacheState, building};
use crate::runtime::supervisor::ActorContext;
use domain::keys;
use domain::tool::catalogue::Pin;
use domain::tool::{ServerName, Tool};
use ports::Write;

/// The bytes that are stored of one server in a second, on average.
const STORED_A_SECOND: usize = 8 * 1024;
/// The shortest pause between two writes about one server.
const PAUSE: Duration = Duration::from_secs(10);

/// When what is known of a server is stored.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that stands by itself")]
pub(super) struct Saving {
    /// What is known is not what is stored.
    unsaved: bool,
    /// It is stored without a pause.
    at_once: bool,
    /// A timer is set.
    armed: bool,
    /// A task makes the record.
    making: bool,
    /// No write before.
    from: Option<Instant>,
    /// The hash of what is stored.
    stored: Option<u64>,
}

/// The record of a server, and what it was made of.
pub struct Record {
    tools: Arc<Vec<Arc<Tool>>>,
    pins: Arc<BTreeMap<String, Pin>>,
    fingerprint: String,
    /// None when it is too large to be stored.
    text: Option<String>,
}

impl Saving {
    /// What is known changed. `at_once`: an operator decided so.
    pub(super) fn changed(&mut self, at_once: bool) {
        self.unsaved = true;
        self.at_once |= at_once;
    }

    /// Begins the pause before what is unsaved is stored.
    pub(super) fn arm(&mut self, ctx: &mut ActorContext<ToolCache>, name: &ServerName) {
        if self.unsaved && !self.making && (self.at_once || !self.armed) {
            self.armed = true;
            ctx.after(self.pause(), ToolCacheEvent::Save(name.clone()));
        }
    }

    /// The time until it may be stored.
    fn pause(&self) -> Duration {
        let from = self.from.filter(|_| !self.at_once);
        from.map_or(Duration::ZERO, |from| from.saturating_duration_since(Instant::now()))
    }

    /// True if this has to be written.
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

/// Makes the record of a server, beside the actor: a long list takes long to write.
pub(super) fn record(ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState, name: &ServerName) {
    let Some(known) = state.known.get_mut(name) else { return };
    known.saving.armed = false;
    // A timer may be left from before an operator decided.
    if !known.saving.unsaved || known.saving.making || !known.saving.pause().is_zero() {
        return;
    }
    // What changes from here on is not in it.
    (known.saving.unsaved, known.saving.at_once, known.saving.making) = (false, false, true);
    let (entry, fingerprint, whole) = (Arc::clone(&known.server.entry), known.fingerprint.clone(), known.whole);
    let (tools, pins) = (Arc::clone(&known.tools), Arc::clone(&known.pins));
    let made = tokio::task::spawn_blocking(move || {
        let text = building::record(&entry.transport, fingerprint.clone(), (&tools, whole), BTreeMap::clone(&pins));
        Record { tools, pins, fingerprint, text }
    });
    let (name, back) = (name.clone(), name.clone());
    ctx.task(async move { ToolCacheEvent::Recorded(name, made.await.ok().map(Box::new)) }, move |_| {
        ToolCacheEvent::Recorded(back, None)
    });
}

/// Has the records of all servers written again, so that they live on.
pub(super) fn renew(ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState) {
    for (name, known) in state.known.iter_mut().filter(|(_, known)| known.stored && !known.loading) {
        known.saving.stored = None;
        known.saving.changed(false);
        known.saving.arm(ctx, name);
    }
}

impl ToolCache {
    /// Writes the record of a server, unless it is stored already or is of another entry.
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
        if let Some(Record { tools, pins, text, .. }) = record {
            known.saving.unsaved |= !Arc::ptr_eq(&known.pins, &pins) || !Arc::ptr_eq(&known.tools, &tools);
            if let Some(value) = text.filter(|text| known.saving.takes(text)) {
                let (key, ttl) = (keys::tools(name), Some(keys::TOOLS_TTL));
                // It is written in the background; a list that is lost is read again.
                drop(self.store.write(vec![Write::Put { key, value, ttl }]));
            }
        }
        known.saving.arm(ctx, name);
    }
}
