//! tools: supervises the cache of tools, who listens for providers, and an actor for each tool server: those that are configured, and
//! those that announced themselves.
//!
//! Supervised by: staffai (permanent). Its children are permanent.
//! Receives: that settings changed from `config_watcher`, that the cache began from the cache, who provides tools from `providers`, an
//! operator's wish from commands.
//! Sends: the servers that there are to `tool_cache`, wishes to read lists again to the actors of servers.
//! A restart loses: its children; servers are connected anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::account::Account;
use crate::mcp::{McpActor, Published, Starts};
use crate::messages::mcp::McpMsg;
use crate::messages::server_line::ServerLine;
use crate::messages::tool_cache::{CachedServer, ToolCacheMsg};
use crate::messages::tools::ToolsMsg;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, ChildSpec, Crash};
use crate::services::running::Live;
use crate::tree::{Row, Scope};
use domain::tool::ServerName;
use ports::tools::{ServerEntries, ServerEntry, ServerOff};
use ports::{Dice, ToolServers};

/// The behaviour and its arguments.
pub struct Tools {
    /// The row that the actor of each server is supervised by.
    pub template: &'static Row,
    /// What this process runs with.
    pub live: Live,
    /// Connects to servers.
    pub servers: Arc<dyn ToolServers>,
    /// Who offers their tools.
    pub cache: Handle<ToolCacheMsg>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// Where the status of servers is shown.
    pub published: Published,
    /// The places of processes that start at once.
    pub starts: Starts,
    /// Where what happens is told.
    pub account: Account,
}

/// What the supervisor of tools tells itself.
pub enum ToolsEvent {
    /// The servers that run are to be those that are configured.
    Apply,
}

/// What the supervisor of tools holds.
#[derive(Default)]
pub struct ToolsState {
    known: BTreeMap<ServerName, CachedServer>,
    /// Processes that announced themselves.
    provided: Vec<ServerEntry>,
    /// The cache has not been told of them as they are.
    untold: bool,
    /// Entries that cannot be used, as they were told of.
    off: Vec<ServerOff>,
    /// What was odd about entries, as it was told.
    warnings: Vec<String>,
}

impl Actor for Tools {
    type Msg = ToolsMsg;
    type Event = ToolsEvent;
    type State = ToolsState;

    fn start(&self, _ctx: &mut ActorContext<Tools>) -> Result<ToolsState, Crash> {
        // The cache is started next, and says so.
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
                // They can be reached now: what waits for another attempt to connect makes it.
                for entry in &entries {
                    if let Some(known) = state.known.get(&entry.name).filter(|known| *known.entry == *entry) {
                        // An actor that is down connects when it is back.
                        let _ = known.line.handle.cast(McpMsg::Reachable);
                    }
                }
                state.provided = entries;
                apply_soon(ctx);
            }
            ToolsMsg::Refresh => {
                // A cache that is down has nothing that could be accepted.
                let _ = self.cache.cast(ToolCacheMsg::Accept);
                refresh(state);
            }
        }
        Ok(())
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
    /// Starts, stops and replaces the actors of the servers whose entries changed, and no others. One is stopped at a time.
    async fn apply(&self, ctx: &mut ActorContext<Tools>, state: &mut ToolsState) -> Result<(), Crash> {
        let running = self.live.now();
        let ServerEntries { entries, off, warnings } = &*running.servers;
        let entries = all(entries, &state.provided);
        let stays = |known: &CachedServer| entries.iter().any(|entry| *entry == *known.entry);
        let gone = state.known.iter().find(|(_, known)| !stays(known)).map(|(name, _)| name.clone());
        if let Some(known) = gone.and_then(|name| state.known.remove(&name)) {
            ctx.stop_child(&known.line.handle.stats().path).await;
            // One that waited for its restart, or was killed, did not say so itself.
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
        // The cache knows of a server before its first list comes.
        if std::mem::take(&mut state.untold) {
            // A cache that is down says when it is back.
            let _ = self.cache.cast(ToolCacheMsg::Servers(state.known.values().cloned().collect()));
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
        let line = ServerLine::new(&entry, handle, self.account.clone());
        (CachedServer { entry, line }, child)
    }

    /// Says once what is wrong with entries, and what is odd.
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
            tracing::warn!(event = "config.warning", warning, "tool servers");
        }
        state.off = off.to_vec();
        state.warnings = warnings.to_vec();
    }
}

/// What is configured, and the providers whose names are free.
fn all(configured: &[ServerEntry], provided: &[ServerEntry]) -> Vec<ServerEntry> {
    let is_free = |entry: &&ServerEntry| !configured.iter().any(|other| other.name == entry.name);
    configured.iter().chain(provided.iter().filter(is_free)).cloned().collect()
}

fn apply_soon(ctx: &ActorContext<Tools>) {
    // The actor itself sends it, so it lives.
    let _ = ctx.events().send(ToolsEvent::Apply);
}

fn refresh(state: &ToolsState) {
    for known in state.known.values() {
        // A server's actor that is down reads its list when it is back.
        let _ = known.line.handle.cast(McpMsg::Refresh);
    }
}

#[cfg(test)]
mod tests;
