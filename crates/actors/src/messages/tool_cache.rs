//! Messages of the tool cache.

use std::sync::Arc;

use crate::messages::server_line::ServerLine;
use crate::runtime::named::named;
use domain::tool::{ServerName, Tool};
use ports::tools::ServerEntry;

/// The messages that the tool cache handles.
pub enum ToolCacheMsg {
    /// From `tools`: the complete list of servers.
    Servers(Vec<CachedServer>),
    /// From the actor of a server: its complete list of tools.
    Listed(ServerName, Vec<Tool>),
    /// From `tools`: an operator accepts the current tools, including changed ones.
    Accept,
}

named!(ToolCacheMsg: Servers, Listed, Accept);

/// A server whose tools are offered.
#[derive(Clone)]
pub struct CachedServer {
    /// The configuration entry of the server.
    pub entry: Arc<ServerEntry>,
    /// The line to the server.
    pub line: ServerLine,
}
