use parking_lot::RwLock;
use tokio::time::sleep;

use super::*;
use crate::observation::board::{Board, PartKind};
use crate::observers::Observers;
use crate::testing::log::Log;
use crate::testing::tools::{Script, ScriptedServers, entry};
use crate::testing::{Inbox, Stage, Tree, at, real, running, settle};
use crate::tree::ActorKind;
use domain::tool::server::ServerStatus;
use domain::tool::server::Tooling;
use ports::testing::{FixedDice, ScriptedModels};
use std::time::Duration;

struct World {
    live: Live,
    servers: Arc<ScriptedServers>,
    published: Published,
    tools: Handle<ToolsMsg>,
    cache: Inbox<ToolCacheMsg>,
    _tree: Tree,
}

fn with(entries: Vec<ServerEntry>, off: Vec<ServerOff>) -> crate::services::running::Running {
    let mut running = running(&[], Arc::new(ScriptedModels::new(&["main"])));
    running.servers = Arc::new(ServerEntries { entries, off, warnings: vec!["odd".to_owned()] });
    running
}

async fn world(entries: Vec<ServerEntry>, off: Vec<ServerOff>, servers: Arc<ScriptedServers>) -> World {
    let live = Live::new(with(entries, off));
    let published = Published {
        board: Arc::new(Board::default()),
        tooling: Arc::new(RwLock::new(Tooling::default())),
        observers: Observers::default(),
    };
    let (tools, cache) = (at("tools"), at("tool_cache"));
    let mut stage = Stage::new();
    let inbox = stage.probe(&cache);
    let actor = Tools {
        template: real(ActorKind::Mcp),
        live: live.clone(),
        servers: Arc::clone(&servers) as _,
        cache,
        dice: Arc::new(FixedDice::new(0.5)),
        published: published.clone(),
        starts: crate::mcp::Starts::default(),
    };
    stage.actor(real(ActorKind::Tools), &tools, actor);
    let tree = stage.go().await;
    tools.cast(ToolsMsg::CacheBegan).ok().unwrap();
    settle().await;
    World { live, servers, published, tools, cache: inbox, _tree: tree }
}

impl World {
    async fn reload(&self, entries: Vec<ServerEntry>, off: Vec<ServerOff>) {
        self.live.replace(with(entries, off));
        self.tools.cast(ToolsMsg::Configured).ok().unwrap();
        sleep(Duration::from_secs(3)).await;
    }

    fn connects(&self, server: &str) -> usize {
        Script::count(&self.servers.script(server).connects)
    }

    fn states(&self) -> Vec<(String, &'static str)> {
        let tooling = self.published.tooling.read();
        tooling.servers.iter().map(|server| (server.name.clone(), server.state.as_str())).collect()
    }
}

fn off(name: &str, mistake: Option<&str>) -> ServerOff {
    ServerOff { name: ServerName::new(name), mistake: mistake.map(str::to_owned) }
}

#[tokio::test(start_paused = true)]
async fn a_reload_touches_only_the_servers_whose_entries_changed() {
    let mut world = world(vec![entry("a", "x"), entry("b", "x"), entry("c", "x")], Vec::new(), Arc::default()).await;
    assert!(matches!(world.cache.next().await, ToolCacheMsg::Servers(servers) if servers.len() == 3));
    world.reload(vec![entry("a", "x"), entry("b", "y"), entry("d", "x")], Vec::new()).await;
    assert_eq!(["a", "b", "c", "d"].map(|name| world.connects(name)), [1, 2, 1, 1]);
    assert_eq!(["a", "b", "c", "d"].map(|name| Script::count(&world.servers.script(name).dropped)), [0, 1, 1, 0]);
    let states = ["a", "b", "d"].map(|name| (name.to_owned(), "ready"));
    assert_eq!(world.states(), states);
    world.reload(vec![entry("a", "x"), entry("b", "y"), entry("d", "x")], Vec::new()).await;
    assert_eq!(["a", "b", "d"].map(|name| world.connects(name)), [1, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_delays_nothing_and_a_wrong_entry_is_one_line() {
    let log = Log::capture();
    let servers = Arc::new(ScriptedServers::default());
    *servers.script("dead").takes.lock() = Duration::from_secs(1_000);
    let wrong = off("wrong", Some("mcp.json: wrong: has neither a command nor a url; write one of them"));
    let entries = vec![entry("dead", "x"), entry("well", "x")];
    let world = world(entries.clone(), vec![wrong.clone(), off("unwanted", None)], servers).await;
    let expected = [("dead", "starting"), ("well", "ready"), ("wrong", "stopped")];
    assert_eq!(world.states(), expected.map(|(name, state)| (name.to_owned(), state)));
    assert!(log.column("mcp.state", "reason").iter().any(|reason| reason.contains("neither a command nor a url")));
    let lines = log.of("mcp.state").len();
    world.reload(entries.clone(), vec![wrong]).await;
    assert_eq!((log.of("mcp.state").len(), log.of("config.warning").len()), (lines, 1), "nothing is told twice");
    world.reload(entries, Vec::new()).await;
    let parts = world.published.board.parts();
    assert!(!parts.iter().any(|(kind, name, _)| *kind == PartKind::McpServer && name == "wrong"));
}

#[tokio::test(start_paused = true)]
async fn an_operators_wish_reaches_every_server_and_the_cache() {
    let mut world = world(vec![entry("a", "x")], Vec::new(), Arc::default()).await;
    sleep(Duration::from_secs(5)).await;
    while world.cache.now().await.is_some() {}
    world.tools.cast(ToolsMsg::Refresh).ok().unwrap();
    assert!(matches!(world.cache.next().await, ToolCacheMsg::Accept));
    assert!(matches!(world.cache.next().await, ToolCacheMsg::Listed(..)));
    assert_eq!(Script::count(&world.servers.script("a").lists), 2);
    assert_eq!(world.published.tooling.read().servers[0].state, ServerStatus::Ready);
}

#[tokio::test(start_paused = true)]
async fn many_processes_start_a_few_at_a_time_and_one_that_hangs_delays_the_others_by_seconds() {
    let names: Vec<String> = (0..21).map(|number| format!("server{number:02}")).collect();
    let servers = Arc::new(ScriptedServers::default());
    for (number, name) in names.iter().enumerate() {
        let hangs = number < 3;
        *servers.script(name).takes.lock() = Duration::from_secs(if hangs { 110 } else { 2 });
    }
    let entries = names.iter().map(|name| entry(name, "program")).collect();
    let world = world(entries, Vec::new(), servers).await;
    let begun = || names.iter().filter(|name| world.connects(name) > 0).count();
    let ready = || world.states().iter().filter(|(_, state)| *state == "ready").count();
    assert_eq!(begun(), 4);
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!((begun(), ready()), (5, 1));
    sleep(Duration::from_secs(20)).await;
    assert_eq!((begun(), ready()), (21, 18), "{:?}", world.states());
    sleep(Duration::from_secs(100)).await;
    assert_eq!(ready(), 21);
}
