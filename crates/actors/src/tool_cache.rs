//! `tool_cache`: builds the catalogue of the tools of all sources, and publishes it on every change.
//!
//! Supervised by: tools (permanent).
//! Receives: the list of servers from tools, their tool lists from their actors, the results of its tasks.
//! Sends: `CacheBegan` to tools. Turns read the toolbox.
//! A restart loses: lists that are not built yet; the toolbox and the accepted tools stay, and the servers and their
//! lists are read again.
//!
//! The last valid list of each server is stored, so that its tools are known before it is connected. A tool that
//! changed since it was accepted is withheld until an operator accepts it, unless its server is trusted. So are all
//! tools of a server whose stored record cannot be read; it is read again while the store does not answer. A list that
//! changes constantly uses a bounded share of a core and a bounded number of stored bytes a second; see `saving`.

mod building;
mod remembered;
mod saving;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use self::building::{Built, BuiltServer, Plan, Planned};
pub use self::remembered::Remembered;
use self::saving::{Record, Saving};
use crate::messages::tool_cache::{CachedServer, ToolCacheMsg};
use crate::messages::tools::ToolsMsg;
use crate::runtime::blocking::blocking_caught;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::clean_calls::OpenCalls;
use crate::services::toolbox::{Caller, Toolbox};
use domain::ids::Timestamp;
use domain::keys;
use domain::tool::catalogue::{Catalogue, Offer, Pin};
use domain::tool::server::ServerRecord;
use domain::tool::server::Tooling;
use domain::tool::{ServerName, Tool};
use parking_lot::RwLock;
use ports::tools::Transport;
use ports::{Clock, Store, Stored, Unreadable};
use telemetry::events::{TOOL_CHANGED, TOOL_REFUSED, TOOL_SIMPLIFIED, TOOLS_CHANGED};
use tokio::time::Instant;

/// The debounce time before a catalogue is built.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// The minimum pause after a build, as a multiple of its duration.
const BUILD_SHARE: u32 = 10;
/// The maximum of these pauses.
const BUILD_PAUSE_MAX: Duration = Duration::from_secs(60);
/// The pause before a record is read again that the store did not answer for.
const READ_AGAIN: Duration = Duration::from_secs(5);
/// The interval at which the stored records of servers are renewed, so that they live as long as the servers are
/// configured.
const RENEW_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of self-announced processes with stored records in one life of this actor.
const PROVIDERS_MAX: usize = 200;
/// The maximum number of log lines of one kind for one change.
const LINES_MAX: usize = 20;

/// Events from its timer and its tasks.
pub enum ToolCacheEvent {
    /// The time to read the record of a server again.
    Load(ServerName),
    /// A task: the stored record of a server with this entry.
    Loaded(ServerName, String, Result<Option<Box<ServerRecord>>, UnreadRecord>),
    /// The time to build the catalogue.
    Build,
    /// A task: the catalogue is built; `None` if nothing changed.
    Built(Result<Option<Box<Built>>, String>),
    /// The time to renew the stored records.
    Renew,
    /// The time to store the record of a server.
    Save(ServerName),
    /// A task: the record of a server; `None` if building it failed.
    Recorded(ServerName, Option<Box<Record>>),
}

/// The reason why a stored record cannot be read.
pub struct UnreadRecord {
    reason: String,
    /// True if a later read may succeed.
    again: bool,
}

/// The built-in tools.
#[derive(Clone)]
pub struct BuiltIn {
    /// The tools.
    pub offer: Offer,
    /// The route to them.
    pub caller: Caller,
    /// The open calls of built-in tools that can call models.
    pub clean_calls: Arc<OpenCalls>,
}

/// The behaviour and its arguments.
pub struct ToolCache {
    /// The toolbox that turns read.
    pub toolbox: Arc<Toolbox>,
    /// The built-in tools.
    pub built_in: BuiltIn,
    /// The store of tool lists.
    pub store: Arc<dyn Store>,
    /// The supervisor of tools, which holds the list of servers.
    pub tools: Handle<ToolsMsg>,
    /// The published names of tools.
    pub tooling: Arc<RwLock<Tooling>>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The last state of each server, for a restart.
    pub remembered: Remembered,
}

/// The state of the cache.
pub struct ToolCacheState {
    known: BTreeMap<ServerName, Known>,
    work: Work,
    /// The earliest time of the next build.
    build_from: Instant,
    /// True if the catalogue must be rebuilt although no list changed.
    rebuild: bool,
    /// The servers whose records will be read again: one timer for each.
    unread: BTreeSet<ServerName>,
    catalogue: Arc<Catalogue>,
    /// The lines in the log, so that each is logged once.
    told: BTreeSet<String>,
    /// The self-announced processes with stored records.
    providers: BTreeSet<ServerName>,
}

/// The state of building the catalogue.
enum Work {
    Idle,
    /// A build is scheduled.
    Due,
    /// A build is in progress since `since`; `again`: the input may have changed since its start.
    Building {
        since: Instant,
        again: bool,
    },
}

/// The state of one server.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that stands by itself")]
struct Known {
    server: CachedServer,
    fingerprint: String,
    /// The published list.
    tools: Arc<Vec<Arc<Tool>>>,
    /// True if the published list is the complete list of the server: no tool was omitted for lack of room.
    whole: bool,
    /// `None` until the stored record is read. Without it every tool counts as changed.
    pins: Option<Arc<BTreeMap<String, Pin>>>,
    /// The time at which each tool was first listed.
    first_seen: Arc<BTreeMap<String, Timestamp>>,
    /// The time at which the list was last read, also by an earlier process.
    verified: Option<Timestamp>,
    /// A newer list.
    listed: Option<Vec<Tool>>,
    /// True while the stored record is being read; lists are compared only afterwards.
    loading: bool,
    /// True if its tools are accepted as they are.
    accept: bool,
    /// The names of withheld tools.
    changed: Vec<String>,
    /// True if the list was stored in this life.
    stored: bool,
    /// The schedule of its next write.
    saving: Saving,
}

impl Actor for ToolCache {
    type Msg = ToolCacheMsg;
    type Event = ToolCacheEvent;
    type State = ToolCacheState;

    fn start(&self, ctx: &mut ActorContext<ToolCache>) -> Result<ToolCacheState, Crash> {
        ctx.after(RENEW_EVERY, ToolCacheEvent::Renew);
        // Its supervisor is running, since it starts this actor; a full one sends the servers once it has room.
        self.tools.tell(ToolsMsg::CacheBegan);
        let catalogue = Arc::clone(&self.toolbox.now().catalogue);
        let (known, told) = (BTreeMap::new(), BTreeSet::new());
        Ok(ToolCacheState {
            known,
            work: Work::Idle,
            build_from: Instant::now(),
            rebuild: false,
            unread: BTreeSet::new(),
            catalogue,
            told,
            providers: BTreeSet::new(),
        })
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: ToolCacheMsg,
        state: &mut ToolCacheState,
    ) -> Result<(), Crash> {
        match message {
            ToolCacheMsg::Servers(servers) => self.servers(ctx, state, servers),
            ToolCacheMsg::Listed(name, tools) => {
                if let Some(known) = state.known.get_mut(&name) {
                    known.listed = Some(tools);
                    known.verified = Some(self.clock.now());
                    self.tooling.write().verified(name.as_str(), known.verified);
                    state.build_soon(ctx);
                }
            }
            ToolCacheMsg::Accept => {
                for known in state.known.values_mut() {
                    known.accept = true;
                }
                state.build_soon(ctx);
            }
        }
        Ok(())
    }

    /// The refused messages can include the servers or a list: a cache that reports its start gets both again.
    fn overflowed(&self, _ctx: &mut ActorContext<Self>, _state: &mut ToolCacheState) {
        // A supervisor that refuses this sends the servers once its mailbox has room; missing lists arrive with the
        // next refresh.
        self.tools.tell(ToolsMsg::CacheBegan);
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ToolCacheEvent,
        state: &mut ToolCacheState,
    ) -> Result<(), Crash> {
        match event {
            ToolCacheEvent::Load(name) => {
                state.unread.remove(&name);
                if let Some(known) = state.known.get(&name).filter(|known| !known.loading && known.pins.is_none()) {
                    self.load(ctx, name, known.fingerprint.clone());
                }
            }
            ToolCacheEvent::Loaded(name, entry, loaded) => state.loaded(ctx, &name, &entry, loaded),
            ToolCacheEvent::Build => self.build(ctx, state),
            ToolCacheEvent::Renew => {
                saving::renew(ctx, state);
                ctx.after(RENEW_EVERY, ToolCacheEvent::Renew);
            }
            ToolCacheEvent::Save(name) => saving::record(ctx, state, &name),
            ToolCacheEvent::Recorded(name, record) => self.recorded(ctx, state, &name, record.map(|record| *record)),
            ToolCacheEvent::Built(built) => {
                let mut again = false;
                if let Work::Building { since, again: changed } = std::mem::replace(&mut state.work, Work::Idle) {
                    again = changed;
                    state.build_from = Instant::now() + (since.elapsed() * BUILD_SHARE).min(BUILD_PAUSE_MAX);
                }
                match built {
                    Ok(Some(built)) => self.built(ctx, state, *built),
                    Ok(None) => {}
                    // A retry would fail too; the previous catalogue stays.
                    Err(error) => {
                        tracing::error!(%error, "the catalogue of tools could not be made; the last one stays");
                    }
                }
                if again {
                    state.build_soon(ctx);
                }
            }
        }
        Ok(())
    }
}

impl ToolCacheState {
    fn build_soon(&mut self, ctx: &mut ActorContext<ToolCache>) {
        match &mut self.work {
            Work::Idle => {
                self.work = Work::Due;
                let pause = self.build_from.saturating_duration_since(Instant::now()).max(DEBOUNCE);
                ctx.after(pause, ToolCacheEvent::Build);
            }
            Work::Due => {}
            Work::Building { again, .. } => *again = true,
        }
    }

    /// Records the stored record of a server, unless its entry was replaced or its tools were accepted meanwhile.
    fn loaded(
        &mut self,
        ctx: &mut ActorContext<ToolCache>,
        name: &ServerName,
        entry: &str,
        loaded: Result<Option<Box<ServerRecord>>, UnreadRecord>,
    ) {
        let unread = |known: &&mut Known| known.fingerprint == entry && known.pins.is_none();
        let Some(known) = self.known.get_mut(name).filter(unread) else { return };
        known.loading = false;
        match loaded {
            Ok(record) => {
                if let Some(record) = record {
                    let ServerRecord { tools, pins, first_seen, verified, .. } = *record;
                    if known.tools.is_empty() {
                        known.tools = Arc::new(tools.into_iter().map(Arc::new).collect());
                    }
                    known.pins = Some(Arc::new(pins));
                    known.first_seen = Arc::new(first_seen);
                    known.verified = known.verified.or(verified);
                }
                known.pins.get_or_insert_default();
                self.rebuild = true;
            }
            Err(UnreadRecord { reason, again }) => {
                if again && self.unread.insert(name.clone()) {
                    ctx.after(READ_AGAIN, ToolCacheEvent::Load(name.clone()));
                }
                if self.is_new(&format!("{name} {reason}")) {
                    self.rebuild = true;
                    tracing::error!(
                        event = TOOL_REFUSED, server = %name, reason,
                        "the accepted tools of a server cannot be read; its tools are withheld until they are read or accepted"
                    );
                }
            }
        }
        // A build that found this read in progress waits for it.
        self.build_soon(ctx);
    }

    /// True if a line is new. The record is bounded; an evicted line is logged again.
    fn is_new(&mut self, line: &str) -> bool {
        const TOLD_MAX: usize = 1_000;
        if self.told.len() >= TOLD_MAX {
            self.told.clear();
        }
        self.told.insert(line.to_owned())
    }
}

impl ToolCache {
    fn servers(&self, ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState, servers: Vec<CachedServer>) {
        let mut before = std::mem::take(&mut state.known);
        for server in servers {
            let (name, fingerprint) = (server.entry.name.clone(), server.entry.fingerprint());
            let known = match before.remove(&name).filter(|known| known.fingerprint == fingerprint) {
                Some(known) => Known { server, ..known },
                None => {
                    let last = self.remembered.of(&name, &fingerprint);
                    if last.is_none() {
                        self.load(ctx, name.clone(), fingerprint.clone());
                    }
                    Known {
                        server,
                        fingerprint,
                        tools: last.as_ref().map(|last| Arc::clone(&last.tools)).unwrap_or_default(),
                        whole: last.as_ref().is_none_or(|last| last.whole),
                        loading: last.is_none(),
                        first_seen: last.as_ref().map(|last| Arc::clone(&last.first_seen)).unwrap_or_default(),
                        verified: last.as_ref().and_then(|last| last.verified),
                        pins: last.map(|last| last.pins),
                        listed: None,
                        accept: false,
                        changed: Vec::new(),
                        stored: false,
                        saving: Saving::default(),
                    }
                }
            };
            state.known.insert(name, known);
        }
        self.remembered.retain(&state.known);
        state.rebuild = true;
        state.build_soon(ctx);
    }

    fn load(&self, ctx: &mut ActorContext<ToolCache>, name: ServerName, fingerprint: String) {
        let (store, back, entry) = (Arc::clone(&self.store), name.clone(), fingerprint.clone());
        ctx.task(
            async move {
                let record = record(&*store, &name, fingerprint.clone()).await;
                ToolCacheEvent::Loaded(name, fingerprint, record.map(|record| record.map(Box::new)))
            },
            move |reason| ToolCacheEvent::Loaded(back, entry, Err(UnreadRecord { reason, again: false })),
        );
    }

    fn build(&self, ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState) {
        if state.known.values().any(|known| known.loading) {
            // The last read triggers the build, so that no tool disappears temporarily.
            state.work = Work::Idle;
            return;
        }
        let servers = state.known.values_mut().map(|known| Planned {
            entry: Arc::clone(&known.server.entry),
            line: known.server.line.clone(),
            fingerprint: known.fingerprint.clone(),
            tools: Arc::clone(&known.tools),
            pins: known.pins.clone(),
            first_seen: Arc::clone(&known.first_seen),
            listed: known.listed.take(),
            accept: std::mem::take(&mut known.accept),
            stored: known.stored,
            whole: known.whole,
        });
        let plan = Plan {
            servers: servers.collect(),
            built_in: self.built_in.clone(),
            before: Arc::clone(&state.catalogue),
            rebuild: std::mem::take(&mut state.rebuild),
            now: self.clock.now(),
        };
        state.work = Work::Building { since: Instant::now(), again: false };
        let built = blocking_caught(move || building::build(plan));
        ctx.task(async move { ToolCacheEvent::Built(built.await.map(|built| built.map(Box::new))) }, |panic| {
            ToolCacheEvent::Built(Err(panic))
        });
    }

    fn built(&self, ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState, built: Built) {
        let Built { toolset, servers, refused, simplified } = built;
        state.catalogue = Arc::clone(&toolset.catalogue);
        let tools = state.catalogue.entries().len();
        self.toolbox.publish(toolset);
        tracing::info!(event = TOOLS_CHANGED, tools, refused = refused.len(), "the tools that are offered changed");
        let mut lines = 0;
        for (tool, reason) in refused {
            if state.is_new(&format!("{tool} {reason}")) && lines < LINES_MAX {
                lines += 1;
                tracing::warn!(event = TOOL_REFUSED, tool, reason, "a tool is not offered");
            }
        }
        for (tool, lost) in simplified.into_iter().take(LINES_MAX) {
            tracing::info!(
                event = TOOL_SIMPLIFIED,
                tool,
                lost,
                "a tool schema was simplified; constraints were omitted"
            );
        }
        for server in servers {
            self.built_server(ctx, state, server);
        }
    }

    fn built_server(&self, ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState, built: BuiltServer) {
        let BuiltServer { name, fingerprint, tools, whole, pins, first_seen, discovered, .. } = built;
        let BuiltServer { changed, accepted, shown, unsaved, decided, .. } = built;
        // A server that was removed or has a different entry now counts as another server.
        let Some(known) = state.known.get_mut(&name).filter(|known| known.fingerprint == fingerprint) else { return };
        if known.loading {
            return;
        }
        known.tools = tools;
        known.whole = whole;
        // A record that was read meanwhile is compared in the next build.
        if let Some(pins) = pins {
            (known.pins, known.first_seen) = (Some(pins), first_seen);
        }
        self.remembered.put(&name, known);
        for tool in changed.iter().filter(|tool| !known.changed.contains(tool)).take(LINES_MAX) {
            tracing::warn!(event = TOOL_CHANGED, server = %name, tool, accepted = false, "the definition of a tool changed; it is held back until an operator runs /refresh_tools");
        }
        for tool in accepted.iter().take(LINES_MAX) {
            tracing::warn!(event = TOOL_CHANGED, server = %name, tool, accepted = true, "the definition of a tool changed");
        }
        known.changed.clone_from(&changed);
        let provider = known.server.entry.transport == Transport::Provider;
        if unsaved && (!provider || state.providers.len() < PROVIDERS_MAX || state.providers.contains(&name)) {
            if provider {
                state.providers.insert(name.clone());
            }
            known.stored = true;
            known.saving.changed(decided);
            known.saving.arm(ctx, &name);
        }
        let mut tooling = self.tooling.write();
        if let Some(server) = tooling.known(name.as_str()) {
            server.tools = shown;
            server.about.clone_from(&known.server.entry.description);
            server.changed = changed;
            server.verified_at = known.verified;
            server.discovered = discovered;
        }
    }
}

/// Reads the stored record of a server with this entry; `None` if there is none.
async fn record(store: &dyn Store, name: &ServerName, entry: String) -> Result<Option<ServerRecord>, UnreadRecord> {
    let text = match store.read(&keys::tools(name)).await {
        Stored::Absent => return Ok(None),
        Stored::Value(text) | Stored::Part(text) => text,
        Stored::Unreadable(why) => {
            return Err(UnreadRecord { reason: why.to_string(), again: why == Unreadable::NoAnswer });
        }
    };
    // Parsing a long list would block the task's thread for too long.
    let parsed = blocking_caught(move || ServerRecord::parse(&text, &entry).map_err(|error| error.to_string()));
    parsed.await.and_then(|parsed| parsed).map_err(|reason| UnreadRecord { reason, again: false })
}

#[cfg(test)]
mod tests;
