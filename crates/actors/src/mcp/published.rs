//! Publishes the state of a tool server: the observers of events, readiness, and the lists shown to members.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::observation::board::{Board, PartKind};
use crate::observers::Observers;
use domain::happening::{Happening, ServerChange};
use domain::tool::ServerName;
use domain::tool::server::ServerStatus;
use domain::tool::server::Tooling;

/// The destinations of the state of servers.
#[derive(Clone)]
pub struct Published {
    /// The board that readiness reads.
    pub board: Arc<Board>,
    /// The states that commands read.
    pub tooling: Arc<RwLock<Tooling>>,
    /// The observers of events.
    pub observers: Observers,
}

impl Published {
    /// Records that a server connects for the first time.
    pub(crate) fn begins(&self, server: &ServerName) {
        self.board.starting(PartKind::McpServer, server.as_str());
        self.show(server, &ServerStatus::Starting);
        self.tell(server, ServerChange::Begun);
    }

    /// Records a change of a server's state.
    pub(crate) fn change(&self, server: &ServerName, from: &ServerStatus, to: &ServerStatus) {
        if from == to {
            return;
        }
        match to {
            ServerStatus::Ready => self.board.up(PartKind::McpServer, server.as_str()),
            ServerStatus::Starting => self.board.starting(PartKind::McpServer, server.as_str()),
            ServerStatus::Degraded(reason) | ServerStatus::Open(reason) | ServerStatus::Stopped(reason) => {
                self.board.down(PartKind::McpServer, server.as_str(), reason);
            }
        }
        self.show(server, to);
        self.tell(server, ServerChange::Changed { from, to });
    }

    /// Sets the progress of a connection attempt; `None` if there is no attempt.
    pub(crate) fn progress(&self, server: &ServerName, progress: Option<&str>) {
        self.tooling.write().server(server.as_str()).progress = progress.map(str::to_owned);
    }

    /// Records that the entry of a server is invalid.
    pub(crate) fn unusable(&self, server: &ServerName, mistake: &str) {
        self.board.down(PartKind::McpServer, server.as_str(), mistake);
        self.show(server, &ServerStatus::Stopped(mistake.to_owned()));
        self.tell(server, ServerChange::Unusable(mistake));
    }

    /// Removes a server.
    pub(crate) fn gone(&self, server: &ServerName) {
        self.board.forget(PartKind::McpServer, server.as_str());
        self.tooling.write().servers.retain(|known| known.name != server.as_str());
    }

    /// Reports an event of a server.
    pub(super) fn tell(&self, server: &ServerName, change: ServerChange<'_>) {
        self.observers.tell(&Happening::Server(server, change));
    }

    fn show(&self, server: &ServerName, status: &ServerStatus) {
        self.tooling.write().server(server.as_str()).state = status.clone();
    }
}
