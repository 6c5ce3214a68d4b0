//! Publishes the state of a tool server: log, metrics, readiness, and the lists shown to members.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::observation::board::{Board, PartKind};
use domain::tool::ServerName;
use domain::tool::server::ServerStatus;
use domain::tool::server::Tooling;
use telemetry::events::MCP_STATE;

/// The destinations of the state of servers.
#[derive(Clone)]
pub struct Published {
    /// The board that readiness reads.
    pub board: Arc<Board>,
    /// The states that commands read.
    pub tooling: Arc<RwLock<Tooling>>,
}

impl Published {
    /// Records that a server connects for the first time.
    pub(crate) fn begins(&self, server: &ServerName) {
        self.board.starting(PartKind::McpServer, server.as_str());
        self.show(server, &ServerStatus::Starting);
    }

    /// Records a change of a server's state.
    pub(crate) fn change(&self, server: &ServerName, from: &ServerStatus, to: &ServerStatus) {
        if from == to {
            return;
        }
        let (old, new, reason) = (from.as_str(), to.as_str(), to.reason());
        match to {
            ServerStatus::Ready => self.board.up(PartKind::McpServer, server.as_str()),
            ServerStatus::Starting => self.board.starting(PartKind::McpServer, server.as_str()),
            ServerStatus::Degraded(reason) | ServerStatus::Open(reason) | ServerStatus::Stopped(reason) => {
                self.board.down(PartKind::McpServer, server.as_str(), reason);
            }
        }
        self.show(server, to);
        // A repetition of the same failure is not a change of state.
        if old == new {
            tracing::debug!(event = MCP_STATE, %server, from = old, to = new, reason, "tool server");
        } else if matches!(to, ServerStatus::Degraded(_) | ServerStatus::Open(_)) {
            tracing::warn!(event = MCP_STATE, %server, from = old, to = new, reason, "tool server");
        } else {
            tracing::info!(event = MCP_STATE, %server, from = old, to = new, reason, "tool server");
        }
    }

    /// Sets the progress of a connection attempt; `None` if there is no attempt.
    pub(crate) fn progress(&self, server: &ServerName, progress: Option<&str>) {
        self.tooling.write().server(server.as_str()).progress = progress.map(str::to_owned);
    }

    /// Records that the entry of a server is invalid.
    pub(crate) fn unusable(&self, server: &ServerName, mistake: &str) {
        let (from, to) = (ServerStatus::Starting.as_str(), ServerStatus::Stopped(mistake.to_owned()));
        self.board.down(PartKind::McpServer, server.as_str(), mistake);
        self.show(server, &to);
        let to = to.as_str();
        tracing::warn!(event = MCP_STATE, %server, from, to, reason = mistake, "the entry of a tool server is wrong");
    }

    /// Removes a server.
    pub(crate) fn gone(&self, server: &ServerName) {
        self.board.forget(PartKind::McpServer, server.as_str());
        self.tooling.write().servers.retain(|known| known.name != server.as_str());
    }

    fn show(&self, server: &ServerName, status: &ServerStatus) {
        metrics::gauge!(telemetry::metrics::MCP_STATE, "server" => server.as_str().to_owned())
            .set(f64::from(status.gauge()));
        self.tooling.write().server(server.as_str()).state = status.clone();
    }
}
