//! tools: supervises the tool cache, the listener for providers, and one actor for each tool server: the configured
//! servers and those that announced themselves.
//!
//! Supervised by: staffai (permanent). Its children are permanent.
//! Receives: changed settings from `config_watcher`, the start of the cache from the cache, the announced servers from
//! `providers`, refresh requests of operators from commands.
//! Sends: the list of servers to `tool_cache`, refresh requests to the actors of servers.
//! A restart loses: its children; servers are reconnected.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::mcp::{McpActor, Published, Starts};
use crate::messages::mcp::McpMsg;
use crate::messages::server_line::ServerLine;
use crate::messages::tool_cache::{CachedServer, ToolCacheMsg};
use crate::messages::tools::ToolsMsg;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, ChildSpec, Crash};
use crate::services::running::Live;
use crate::tree::{Scope, TreeRow};
use domain::tool::ServerName;
use ports::tools::{ServerEntries, ServerEntry, ServerOff};
use ports::{Dice, ToolServers};
use telemetry::events::CONFIG_WARNING;

/// The behaviour and its arguments.
pub struct Tools {
    /// The supervision row of server actors.
    pub template: &'static TreeRow,
    /// The running configuration.
    pub live: Live,
    /// The connector for servers.
    pub servers: Arc<dyn ToolServers>,
    /// The tool cache, which publishes the tools.
    pub cache: Handle<ToolCacheMsg>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// The publisher of server states.
    pub published: Published,
    /// The slots for concurrent process starts.
    pub starts: Starts,
}

/// Events that the supervisor of tools sends to itself.
pub enum ToolsEvent {
    /// Aligns the running servers with the configured servers.
    Apply,
}

/// The state of the supervisor of tools.
#[derive(Default)]
pub struct ToolsState {
    known: BTreeMap<ServerName, CachedServer>,
    /// The processes that announced themselves.
    provided: Vec<ServerEntry>,
    /// True if the cache does not have the current list of servers yet.
    untold: bool,
    /// The invalid entries in the last report.
    off: Vec<ServerOff>,
    /// The warnings about entries in the last report.
    warnings: Vec<String>,
}

impl Actor for Tools {
    type Msg = ToolsMsg;
    type Event = ToolsEvent;
    type State = ToolsState;

    fn start(&self, _ctx: &mut ActorContext<Tools>) -> Result<ToolsState, Crash> {
        // The cache starts next and reports it.
        Ok(ToolsState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: ToolsMsg,
        state: &mut ToolsState,
    ) -> Result<(), Crash> {
        match message {
            ToolsMsg::Configured => apply_soon(ctx),
            ToolsMsg::CacheBegan => {
                refresh(state);
                state.untold = true;
                apply_soon(ctx);
            }
            ToolsMsg::Provided(entries) => {
                // These servers are reachable now: a server in backoff reconnects at once.
                for entry in &entries {
                    if let Some(known) = state.known.get(&entry.name).filter(|known| *known.entry == *entry) {
                        // An actor that is down connects at its restart; one with a full mailbox is connected.
                        known.line.handle.tell(McpMsg::Reachable);
                    }
                }
                state.provided = entries;
                apply_soon(ctx);
            }
            ToolsMsg::Refresh => {
                // A cache that is down has nothing to accept; if a full one refuses this, the operator repeats the
                // command.
                self.cache.tell(ToolCacheMsg::Accept);
                refresh(state);
            }
        }
        Ok(())
    }

    /// The refused messages can include a new configuration or the start of the cache.
    fn overflowed(&self, ctx: &mut ActorContext<Self>, state: &mut ToolsState) {
        state.untold = true;
        apply_soon(ctx);
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ToolsEvent,
        state: &mut ToolsState,
    ) -> Result<(), Crash> {
        match event {
            ToolsEvent::Apply => self.apply(ctx, state).await,
        }
    }
}

impl Tools {
    /// Starts, stops and replaces only the actors of servers whose entries changed. Stops run one after the other.
    async fn apply(&self, ctx: &mut ActorContext<Tools>, state: &mut ToolsState) -> Result<(), Crash> {
        let running = self.live.now();
        let ServerEntries { entries, off, warnings } = &*running.servers;
        let entries = all(entries, &state.provided);
        let stays = |known: &CachedServer| entries.iter().any(|entry| *entry == *known.entry);
        let gone = state.known.iter().find(|(_, known)| !stays(known)).map(|(name, _)| name.clone());
        if let Some(known) = gone.and_then(|name| state.known.remove(&name)) {
            ctx.stop_child(&known.line.handle.stats().path).await;
            // An actor that was in backoff or was killed did not report its end.
            self.published.gone(&known.entry.name);
            state.untold = true;
            apply_soon(ctx);
            return Ok(());
        }
        self.tell_off(state, off, warnings);
        let mut begun = Vec::new();
        for entry in entries {
            if !state.known.contains_key(&entry.name) {
                let (server, child) = self.child(ctx, &entry);
                state.known.insert(entry.name.clone(), server);
                state.untold = true;
                begun.push(child);
            }
        }
        // The cache gets the server before its first list.
        if std::mem::take(&mut state.untold) {
            // A cache that refuses this requests the servers again, at its restart or once it has room.
            self.cache.tell(ToolCacheMsg::Servers(state.known.values().cloned().collect()));
        }
        for child in begun {
            ctx.start_child(child).await?;
        }
        Ok(())
    }

    fn child(&self, ctx: &ActorContext<Tools>, entry: &ServerEntry) -> (CachedServer, ChildSpec) {
        let handle = Handle::new(self.template, ctx.path(), Scope::Server(entry.name.clone()));
        let entry = Arc::new(entry.clone());
        let actor = McpActor {
            entry: Arc::clone(&entry),
            servers: Arc::clone(&self.servers),
            cache: self.cache.clone(),
            dice: Arc::clone(&self.dice),
            published: self.published.clone(),
            starts: self.starts.clone(),
        };
        let child = ChildSpec::new(self.template, &handle, actor, Vec::new());
        let line = ServerLine::new(&entry, handle, self.published.observers.clone());
        (CachedServer { entry, line }, child)
    }

    /// Logs invalid entries and warnings, each once.
    fn tell_off(&self, state: &mut ToolsState, off: &[ServerOff], warnings: &[String]) {
        for known in state.off.iter().filter(|known| !off.iter().any(|off| off.name == known.name)) {
            self.published.gone(&known.name);
        }
        for server in off.iter().filter(|server| !state.off.contains(server)) {
            if let Some(mistake) = &server.mistake {
                self.published.unusable(&server.name, mistake);
            }
        }
        for warning in warnings.iter().filter(|warning| !state.warnings.contains(warning)) {
            tracing::warn!(event = CONFIG_WARNING, warning, "tool servers");
        }
        state.off = off.to_vec();
        state.warnings = warnings.to_vec();
    }
}

/// Returns the configured servers, and the providers whose names are not in use.
fn all(configured: &[ServerEntry], provided: &[ServerEntry]) -> Vec<ServerEntry> {
    let is_free = |entry: &&ServerEntry| !configured.iter().any(|other| other.name == entry.name);
    configured.iter().chain(provided.iter().filter(is_free)).cloned().collect()
}

fn apply_soon(ctx: &ActorContext<Tools>) {
    ctx.events().tell(ToolsEvent::Apply);
}

fn refresh(state: &ToolsState) {
    for known in state.known.values() {
        // An actor that is down reads its list at its restart; a full one reads it when the server reports a change.
        known.line.handle.tell(McpMsg::Refresh);
    }
}

#[cfg(test)]
mod tests;
