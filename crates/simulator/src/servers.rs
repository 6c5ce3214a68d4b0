//! A tool server with two tools: one reads, one pays and needs an approval for each call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::history::{Kind, Seen, tokens};
use super::outside::{Answer, Way};
use super::swarm::Port;
use super::world::World;
use domain::completion::WrittenJson;
use domain::tool::{
    Annotations, CallError, CallErrorKind, Part, ServerName, Source, Tool, ToolKind, ToolRequest, ToolResult,
};
use ports::tools::{
    Command, ConnectError, ConnectErrorKind, Listing, ServerEntries, ServerEntry, ServerInfo, Transport,
};
use ports::{ProgressSink, ToolServer, ToolServers};

/// The name of the server with tools that read.
const LIBRARY: &str = "library";
/// The name of the server whose calls need an approval.
const BANK: &str = "bank";
/// The tool that reads.
pub const LOOK: &str = "look";
/// The tool that pays.
pub const PAY: &str = "pay";

/// Returns the configuration of both servers.
#[must_use]
pub fn entries() -> ServerEntries {
    let entry = |name: &str| {
        let command = Command { program: name.to_owned(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
        ServerEntry::new(ServerName::new(name), Transport::Stdio(command))
    };
    let library = ServerEntry { side_effects: Some(false), ..entry(LIBRARY) };
    let bank = ServerEntry { side_effects: Some(true), always_ask: true, ..entry(BANK) };
    ServerEntries { entries: vec![bank, library], ..ServerEntries::default() }
}

/// The servers.
pub struct SimulatedServers(pub Arc<World>);

struct Connected {
    world: Arc<World>,
    tool: &'static str,
    source: ServerName,
    info: ServerInfo,
    changes: watch::Sender<u64>,
}

#[async_trait]
impl ToolServers for SimulatedServers {
    async fn connect(&self, entry: &ServerEntry, within: Duration) -> Result<Arc<dyn ToolServer>, ConnectError> {
        let away = || ConnectError {
            kind: ConnectErrorKind::Unreachable,
            message: "the server is away".to_owned(),
            fix: "wait".to_owned(),
        };
        let way = tokio::time::timeout(within, self.0.enter(Port::Server)).await.map_err(|_| away())?;
        let Way::Through(fault) = way else { return Err(away()) };
        if self.0.leave(fault).await == Answer::Lost {
            return Err(away());
        }
        let tool = if entry.name.as_str() == BANK { PAY } else { LOOK };
        let (info, changes) = (ServerInfo::default(), watch::channel(0).0);
        Ok(Arc::new(Connected { world: Arc::clone(&self.0), tool, source: entry.name.clone(), info, changes }))
    }
}

#[async_trait]
impl ToolServer for Connected {
    fn info(&self) -> &ServerInfo {
        &self.info
    }

    async fn list(&self) -> Result<Listing, CallError> {
        self.asked().await?;
        let tool = Tool {
            source: Source::Server(self.source.clone()),
            name: self.tool.into(),
            title: None,
            description: format!("The tool {}.", self.tool),
            input_schema: WrittenJson::new(&serde_json::json!({
                "type": "object",
                "properties": { "about": { "type": "string" } },
                "required": ["about"],
            })),
            annotations: Annotations::default(),
            kind: ToolKind::Other,
            utility: None,
        };
        Ok(Listing { tools: vec![tool], warnings: Vec::new() })
    }

    async fn call(&self, request: &ToolRequest, _progress: Option<ProgressSink>) -> Result<ToolResult, CallError> {
        let lost = || CallError::new(CallErrorKind::Lost, "the connection was lost");
        let way = tokio::time::timeout(request.deadline, self.world.enter(Port::Call)).await;
        let fault = match way.map_err(|_| CallError::new(CallErrorKind::Timeout, "no answer"))? {
            Way::Through(fault) => fault,
            Way::Refused => return Err(CallError::new(CallErrorKind::Unavailable, "there is no connection")),
            Way::TimedOut => return Err(CallError::new(CallErrorKind::Timeout, "no answer")),
        };
        let about = request.arguments.get("about").and_then(|about| about.as_str()).unwrap_or_default();
        let kind = if self.tool == PAY { Kind::Pay } else { Kind::Look };
        for number in tokens(about) {
            self.world.record(Seen::Called { number, kind });
        }
        match tokio::time::timeout(request.deadline, self.world.leave(fault)).await {
            Ok(Answer::Arrives) => {
                Ok(ToolResult { parts: vec![Part::Text(format!("done: {about}"))], ..ToolResult::default() })
            }
            Ok(Answer::Lost) => Err(lost()),
            Err(_) => Err(CallError::new(CallErrorKind::Timeout, "no answer")),
        }
    }

    async fn ping(&self) -> Result<(), CallError> {
        self.asked().await
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn closed(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) {}
}

impl Connected {
    async fn asked(&self) -> Result<(), CallError> {
        let failed = || CallError::new(CallErrorKind::Failed, "the server failed");
        let Way::Through(fault) = self.world.enter(Port::Server).await else { return Err(failed()) };
        match self.world.leave(fault).await {
            Answer::Arrives => Ok(()),
            Answer::Lost => Err(failed()),
        }
    }
}
