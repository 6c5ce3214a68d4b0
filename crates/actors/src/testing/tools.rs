//! Scripted in-memory tool servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Map;
use tokio::sync::watch;

use crate::services::toolbox::Caller;
use crate::tool_cache::BuiltIn;
use domain::tool::catalogue::Offer;
pub use domain::tool::testing::tool;
use domain::tool::{CallError, CallErrorKind, Effect, Part, ServerName, ToolRequest, ToolResult};
use ports::tools::{Command, ConnectError, ConnectErrorKind, Listing, ServerEntry, ServerInfo, Transport};
use ports::{AnnouncedSink, ProgressSink, ToolProviders, ToolServer, ToolServers};

/// The entry of a server of this name. A different program makes a different entry.
pub fn entry(name: &str, program: &str) -> ServerEntry {
    let command = Command { program: program.to_owned(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
    ServerEntry::new(ServerName::new(name), Transport::Stdio(command))
}

/// A call of a tool.
pub fn request(name: &str) -> ToolRequest {
    ToolRequest::new(name, Map::new(), Effect::Changes, Duration::from_secs(30))
}

/// One scripted server.
#[derive(Default)]
pub struct Script {
    /// The tools and their descriptions.
    pub tools: Mutex<Vec<(String, String)>>,
    /// The reason why connecting fails; `None` if it succeeds.
    pub down: Mutex<Option<String>>,
    /// The duration of connecting.
    pub takes: Mutex<Duration>,
    /// True if the server sends change notifications.
    pub announces: Mutex<bool>,
    /// True if the server answers no pings.
    pub silent: Mutex<bool>,
    /// The number of connection attempts; then of connections made and closed, list reads, and cancelled calls.
    pub connects: AtomicUsize,
    pub dropped: AtomicUsize,
    pub lists: AtomicUsize,
    pub cancelled: AtomicUsize,
    live: Mutex<Option<Ends>>,
}

#[derive(Clone)]
struct Ends {
    closed: watch::Sender<Option<String>>,
    changes: watch::Sender<u64>,
}

impl Script {
    /// Ends the connection.
    pub fn lose(&self, reason: &str) {
        let ends = self.live.lock().clone().expect("a connection");
        ends.closed.send_replace(Some(reason.to_owned()));
    }

    /// Sends a change notification of the list.
    pub fn change(&self) {
        let ends = self.live.lock().clone().expect("a connection");
        ends.changes.send_modify(|count| *count += 1);
    }

    pub fn offer(&self, tools: &[(&str, &str)]) {
        *self.tools.lock() = tools.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned())).collect();
    }

    pub fn count(counter: &AtomicUsize) -> usize {
        counter.load(Ordering::Relaxed)
    }
}

/// Servers by the names of their entries.
#[derive(Default)]
pub struct ScriptedServers(Mutex<BTreeMap<String, Arc<Script>>>);

impl ScriptedServers {
    /// Returns the script of the server of this name.
    pub fn script(&self, name: &str) -> Arc<Script> {
        let mut scripts = self.0.lock();
        let script = scripts.entry(name.to_owned()).or_insert_with(|| {
            let script = Script::default();
            script.offer(&[("echo", "says it again")]);
            *script.announces.lock() = true;
            Arc::new(script)
        });
        Arc::clone(script)
    }
}

#[async_trait]
impl ToolServers for ScriptedServers {
    async fn connect(&self, entry: &ServerEntry, within: Duration) -> Result<Arc<dyn ToolServer>, ConnectError> {
        let script = self.script(entry.name.as_str());
        script.connects.fetch_add(1, Ordering::Relaxed);
        let takes = *script.takes.lock();
        let late = || ConnectError { kind: ConnectErrorKind::Timeout, message: "too slow".into(), fix: "wait".into() };
        tokio::time::timeout(within, tokio::time::sleep(takes)).await.map_err(|_| late())?;
        if let Some(message) = script.down.lock().clone() {
            return Err(ConnectError { kind: ConnectErrorKind::Unreachable, message, fix: "start it".into() });
        }
        let ends = Ends { closed: watch::channel(None).0, changes: watch::channel(0).0 };
        *script.live.lock() = Some(ends.clone());
        let info = ServerInfo { announces_changes: *script.announces.lock(), ..ServerInfo::default() };
        Ok(Arc::new(Connected { name: entry.name.clone(), script, ends, info }))
    }
}

/// A source without any provider of tools.
pub struct NoProviders;

#[async_trait]
impl ToolProviders for NoProviders {
    async fn listen(&self, announced: AnnouncedSink) -> String {
        announced(Vec::new());
        std::future::pending().await
    }
}

struct Connected {
    name: ServerName,
    script: Arc<Script>,
    ends: Ends,
    info: ServerInfo,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.script.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a call that was dropped before its end.
struct Running<'a>(Option<&'a Script>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(script) = self.0 {
            script.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl ToolServer for Connected {
    fn info(&self) -> &ServerInfo {
        &self.info
    }

    async fn list(&self) -> Result<Listing, CallError> {
        self.script.lists.fetch_add(1, Ordering::Relaxed);
        let tools = self.script.tools.lock();
        let tools = tools.iter().map(|(name, about)| tool(self.name.as_str(), name, about)).collect();
        Ok(Listing { tools, warnings: Vec::new() })
    }

    async fn call(&self, request: &ToolRequest, _progress: Option<ProgressSink>) -> Result<ToolResult, CallError> {
        let mut running = Running(Some(&self.script));
        let result = match &*request.name {
            "hang" => std::future::pending().await,
            "hasty" => Err(CallError::new(CallErrorKind::Timeout, "no answer in a short time")),
            "late" => {
                tokio::time::sleep(Duration::from_secs(10)).await;
                Err(CallError::new(CallErrorKind::Timeout, "no answer"))
            }
            name => Ok(ToolResult { parts: vec![Part::Text(name.to_owned())], ..ToolResult::default() }),
        };
        running.0 = None;
        result
    }

    async fn ping(&self) -> Result<(), CallError> {
        let silent = *self.script.silent.lock();
        if silent { Err(CallError::new(CallErrorKind::Timeout, "nothing came")) } else { Ok(()) }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.ends.changes.subscribe()
    }

    async fn closed(&self) -> String {
        let mut closed = self.ends.closed.subscribe();
        let reason = closed.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        reason.unwrap_or_default()
    }

    async fn close(&self) {}
}

/// A program without built-in tools.
pub fn nothing_built_in() -> BuiltIn {
    let script = Arc::new(Script::default());
    let ends = Ends { closed: watch::channel(None).0, changes: watch::channel(0).0 };
    let server = Connected { name: ServerName::new("built in"), script, ends, info: ServerInfo::default() };
    let offer = Offer::built_in(Vec::new());
    BuiltIn { offer, caller: Caller::Direct(Arc::new(server)), clean_calls: Arc::default() }
}
