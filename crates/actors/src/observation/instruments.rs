//! The records about the running program that actors write and operators read.

use std::sync::Arc;

use parking_lot::RwLock;

use super::board::Board;
use super::timeline::Timeline;
use super::tool_health::ToolHealth;
use crate::runtime::roster::Roster;
use domain::tool::server::Tooling;

/// The records about the running program. Clones share them.
#[derive(Clone, Default)]
pub struct Instruments {
    /// The running actors.
    pub roster: Arc<Roster>,
    /// The states of the parts that are not actors.
    pub board: Arc<Board>,
    /// The states of the tool servers.
    pub tooling: Arc<RwLock<Tooling>>,
    /// The health of the built-in tools.
    pub tool_health: Arc<ToolHealth>,
    /// The times of the last turns.
    pub timeline: Arc<Timeline>,
}
