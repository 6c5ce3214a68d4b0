//! `tool_cache`: makes the one catalogue of what all sources offer, and publishes it whenever it changes.
//!
//! Supervised by: tools (permanent).
//! Receives: which servers there are from tools, their lists from their actors, what its tasks read and made.
//! Sends: `CacheBegan` to tools. Turns read the toolbox.
//! A restart loses: changes that were not stored yet; the toolbox stays, and the servers and their lists are read again.
//!
//! The last good list of each server is stored, so that its tools are known before it is connected. A tool that is not what it was
//! when it was accepted is held back until an operator accepts it, unless its server is trusted. A list that changes all the time costs
//! a bounded share of a core and a bounded number of stored bytes a second; see `saving`.

mod building;
mod saving;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use self::building::{Built, BuiltServer, Plan, Planned};
use self::saving::{Record, Saving};
use crate::messages::tool_cache::{CachedServer, ToolCacheMsg};
use crate::messages::tools::ToolsMsg;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::clean_calls::OpenCalls;
use crate::services::toolbox::{Caller, Toolbox};
use domain::keys;
use domain::tool::catalogue::{Catalogue, Offer, Pin};
use domain::tool::server::ServerRecord;
use domain::tool::server::Tooling;
use domain::tool::{ServerName, Tool};
use parking_lot::RwLock;
use ports::Store;
use ports::tools::Transport;
use tokio::time::Instant;

/// Pause before a catalogue is made, in which more changes join the first.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// A catalogue is not made again for so many times as long as it took to make.
const BUILD_SHARE: u32 = 10;
/// The longest of these pauses.
const BUILD_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often what is stored of servers is written again, so that it lives as long as they are configured.
const RENEW_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Processes that name themselves of which something is stored in one life of this actor.
const PROVIDERS_MAX: usize = 200;
/// The most lines of one kind that are logged for one change.
const LINES_MAX: usize = 20;

/// What its timer and its tasks tell it.
pub enum ToolCacheEvent {
    /// A task: what is stored of a server.
    Loaded(ServerName, Option<Box<ServerRecord>>),
    /// Time to make the catalogue.
    Build,
    /// A task: it is made; none when nothing changed.
    Built(Result<Option<Box<Built>>, String>),
    /// Time to write what is stored again.
    Renew,
    /// Time to store what is known of a server.
    Save(ServerName),
    /// A task: the record of a server; none when it could not be made.
    Recorded(ServerName, Option<Box<Record>>),
}

/// What this program offers itself.
#[derive(Clone)]
pub struct BuiltIn {
    /// Its tools.
    pub offer: Offer,
    /// The way to them.
    pub caller: Caller,
    /// Where those of them that have models asked are heard.
    pub clean_calls: Arc<OpenCalls>,
}

/// The behaviour and its arguments.
pub struct ToolCache {
    /// Where turns find the tools.
    pub toolbox: Arc<Toolbox>,
    /// What this program offers itself.
    pub built_in: BuiltIn,
    /// Where lists are kept.
    pub store: Arc<dyn Store>,
    /// Who knows the servers.
    pub tools: Handle<ToolsMsg>,
    /// Where the names of tools are shown.
    pub tooling: Arc<RwLock<Tooling>>,
}

/// What the cache holds.
pub struct ToolCacheState {
    known: BTreeMap<ServerName, Known>,
    work: Work,
    /// No catalogue is made before.
    build_from: Instant,
    /// The catalogue has to be made although no list changed.
    rebuild: bool,
    catalogue: Arc<Catalogue>,
    /// Lines that were logged, so that each is logged once.
    told: BTreeSet<String>,
    /// Processes that named themselves and of which something is stored.
    providers: BTreeSet<ServerName>,
}

/// Whether a catalogue is being made.
enum Work {
    Idle,
    /// It will be, soon.
    Due,
    /// It is, since then, and something may have changed since it was begun.
    Building {
        since: Instant,
        again: bool,
    },
}

/// What is known of one server.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that stands by itself")]
struct Known {
    server: CachedServer,
    fingerprint: String,
    /// The list that is offered.
    tools: Arc<Vec<Arc<Tool>>>,
    /// That is all that the server offers: everything had room.
    whole: bool,
    pins: Arc<BTreeMap<String, Pin>>,
    /// A newer list.
    listed: Option<Vec<Tool>>,
    /// The stored record is still being read: nothing is compared before that.
    loading: bool,
    /// Its tools are accepted as they are.
    accept: bool,
    /// Names of tools that are held back.
    changed: Vec<String>,
    /// The list was stored in this life.
    stored: bool,
    /// When it is stored again.
    saving: Saving,
}

impl Actor for ToolCache {
    type Msg = ToolCacheMsg;
    type Event = ToolCacheEvent;
    type State = ToolCacheState;

    fn start(&self, ctx: &mut ActorContext<ToolCache>) -> Result<ToolCacheState, Crash> {
        ctx.after(RENEW_EVERY, ToolCacheEvent::Renew);
        // Its supervisor runs, since it is starting this actor; a full one sends the servers once it has room.
        self.tools.tell(ToolsMsg::CacheBegan);
        let catalogue = Arc::clone(&self.toolbox.now().catalogue);
        let (known, told) = (BTreeMap::new(), BTreeSet::new());
        Ok(ToolCacheState {
            known,
            work: Work::Idle,
            build_from: Instant::now(),
            rebuild: false,
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

    /// The servers, or a list of one, may be among what was refused: both are sent again to a cache that began.
    fn overflowed(&self, _ctx: &mut ActorContext<Self>, _state: &mut ToolCacheState) {
        // A supervisor that refuses this sends the servers once its own mailbox has room; lists that are missing then come at the
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
            ToolCacheEvent::Loaded(name, record) => {
                if let Some(known) = state.known.get_mut(&name).filter(|known| known.loading) {
                    known.loading = false;
                    // An entry that was replaced meanwhile leads elsewhere.
                    if let Some(record) = record.filter(|record| record.entry == known.fingerprint) {
                        known.tools = Arc::new(record.tools.into_iter().map(Arc::new).collect());
                        known.pins = Arc::new(record.pins);
                    }
                    state.rebuild = true;
                    state.build_soon(ctx);
                }
            }
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
                    // One that failed would fail again: what there was stays.
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

    /// Whether a line is new. A limited number is remembered; a line that was forgotten is logged again.
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
                    self.load(ctx, name.clone(), fingerprint.clone());
                    Known {
                        server,
                        fingerprint,
                        tools: Arc::default(),
                        whole: true,
                        pins: Arc::default(),
                        listed: None,
                        loading: true,
                        accept: false,
                        changed: Vec::new(),
                        stored: false,
                        saving: Saving::default(),
                    }
                }
            };
            state.known.insert(name, known);
        }
        state.rebuild = true;
        state.build_soon(ctx);
    }

    fn load(&self, ctx: &mut ActorContext<ToolCache>, name: ServerName, fingerprint: String) {
        let (store, back) = (Arc::clone(&self.store), name.clone());
        ctx.task(
            async move {
                let text = store.get(&keys::tools(&name)).await;
                // A long list takes longer to read than a task may hold its thread.
                let parsed = tokio::task::spawn_blocking(move || ServerRecord::parse(&text?, &fingerprint));
                ToolCacheEvent::Loaded(name, parsed.await.ok().flatten().map(Box::new))
            },
            move |_| ToolCacheEvent::Loaded(back, None),
        );
    }

    fn build(&self, ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState) {
        if state.known.values().any(|known| known.loading) {
            // What is read last makes it, so that no tool is gone for a moment.
            state.work = Work::Idle;
            return;
        }
        let servers = state.known.values_mut().map(|known| Planned {
            entry: Arc::clone(&known.server.entry),
            line: known.server.line.clone(),
            fingerprint: known.fingerprint.clone(),
            tools: Arc::clone(&known.tools),
            pins: Arc::clone(&known.pins),
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
        };
        state.work = Work::Building { since: Instant::now(), again: false };
        let built = tokio::task::spawn_blocking(move || building::build(plan));
        ctx.task(
            async move {
                ToolCacheEvent::Built(built.await.map_err(|error| error.to_string()).map(|built| built.map(Box::new)))
            },
            |panic| ToolCacheEvent::Built(Err(panic)),
        );
    }

    fn built(&self, ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState, built: Built) {
        let Built { toolset, servers, refused, simplified } = built;
        state.catalogue = Arc::clone(&toolset.catalogue);
        let tools = state.catalogue.entries().len();
        self.toolbox.publish(toolset);
        tracing::info!(event = "tools.changed", tools, refused = refused.len(), "the tools that are offered changed");
        let mut lines = 0;
        for (tool, reason) in refused {
            if state.is_new(&format!("{tool} {reason}")) && lines < LINES_MAX {
                lines += 1;
                tracing::warn!(event = "tool.refused", tool, reason, "a tool is not offered");
            }
        }
        for (tool, lost) in simplified.into_iter().take(LINES_MAX) {
            tracing::info!(
                event = "tool.simplified",
                tool,
                lost,
                "models are told less than the schema of a tool says"
            );
        }
        for server in servers {
            self.built_server(ctx, state, server);
        }
    }

    fn built_server(&self, ctx: &mut ActorContext<ToolCache>, state: &mut ToolCacheState, built: BuiltServer) {
        let BuiltServer { name, fingerprint, tools, whole, pins, changed, accepted, shown, unsaved, decided } = built;
        // A server that is gone, or whose entry leads elsewhere now, is another one.
        let Some(known) = state.known.get_mut(&name).filter(|known| known.fingerprint == fingerprint) else { return };
        if known.loading {
            return;
        }
        known.tools = tools;
        known.whole = whole;
        known.pins = pins;
        for tool in changed.iter().filter(|tool| !known.changed.contains(tool)).take(LINES_MAX) {
            tracing::warn!(event = "tool.changed", server = %name, tool, accepted = false, "a tool is not what it was; it is held back until an operator runs /refresh_tools");
        }
        for tool in accepted.iter().take(LINES_MAX) {
            tracing::warn!(event = "tool.changed", server = %name, tool, accepted = true, "a tool is not what it was");
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
        if let Some(server) = tooling.servers.iter_mut().find(|server| server.name == name.as_str()) {
            server.tools = shown;
            server.about.clone_from(&known.server.entry.description);
            server.changed = changed;
        }
    }
}

#[cfg(test)]
mod tests;
