//! Ports that a life does not use: files that stay as they are, pages that are not read, formulas that are not drawn.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use actors::config_watcher::{FileFingerprints, Files};
use actors::services::running::Running;
use domain::ids::Place;
use domain::tool::{CallError, CallErrorKind, ToolRequest, ToolResult};
use ports::tools::{Listing, ServerInfo};
use ports::vitals::{Configuration, Readiness, Status, TreeNode, Turns};
use ports::{Listener, NotDrawn, ProgressSink, Renderer, ToolServer, Vitals};

/// A listener that no client reaches.
pub struct Unserved;

#[async_trait]
impl Listener for Unserved {
    async fn serve(&self, stop: CancellationToken) -> Result<(), String> {
        stop.cancelled().await;
        Ok(())
    }
}

/// The vital signs that no page shows.
pub struct Unread;

impl Vitals for Unread {
    fn alive(&self) -> bool {
        true
    }

    fn readiness(&self) -> Readiness {
        let configuration = Configuration { version: String::new(), rejected: None };
        let (version, parts, actors, notes) = (String::new(), Vec::new(), Vec::new(), Vec::new());
        Readiness { status: Status::Ready, version, range: None, configuration, parts, actors, notes }
    }

    fn tree(&self, _of_a_kind: usize) -> TreeNode {
        unreachable!("no page asks for it")
    }

    fn turns(&self) -> Turns {
        Turns { accepted: 0, newest: Vec::new(), spent: Vec::new(), today: None, limits: Vec::new() }
    }
}

/// Files that never change.
pub struct Still;

impl Files for Still {
    fn fingerprints(&self) -> FileFingerprints {
        FileFingerprints::new()
    }

    fn read(&self) -> (FileFingerprints, Result<Running, Vec<String>>) {
        (FileFingerprints::new(), Err(Vec::new()))
    }
}

/// A renderer that draws nothing, so that formulas are shown as text.
pub struct Undrawn;

impl Renderer for Undrawn {
    fn formula<'a>(&'a self, _place: &'a Place, _formula: &'a str) -> BoxFuture<'a, Result<Vec<u8>, NotDrawn>> {
        Box::pin(async { Err(NotDrawn::Late) })
    }
}

/// A source without tools.
pub struct NoTools {
    info: ServerInfo,
    changes: watch::Sender<u64>,
}

impl NoTools {
    /// Creates the source.
    pub fn new() -> Self {
        Self { info: ServerInfo::default(), changes: watch::channel(0).0 }
    }
}

#[async_trait]
impl ToolServer for NoTools {
    fn info(&self) -> &ServerInfo {
        &self.info
    }

    async fn list(&self) -> Result<Listing, CallError> {
        Ok(Listing::default())
    }

    async fn call(&self, _request: &ToolRequest, _progress: Option<ProgressSink>) -> Result<ToolResult, CallError> {
        Err(CallError::new(CallErrorKind::NotFound, "there is no such tool"))
    }

    async fn ping(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn closed(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) {}
}
