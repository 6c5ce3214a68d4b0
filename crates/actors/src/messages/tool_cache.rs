//! What the cache of tools is told.

use std::sync::Arc;

use crate::messages::server_line::ServerLine;
use domain::tool::{ServerName, Tool};
use ports::tools::ServerEntry;

/// What the cache of tools is told.
pub enum ToolCacheMsg {
    /// tools: these servers there are, and no others.
    Servers(Vec<CachedServer>),
    /// The actor of a server: this is its whole list now.
    Listed(ServerName, Vec<Tool>),
    /// tools: an operator accepts the tools as they are, also those that changed.
    Accept,
}

/// A server whose tools are offered.
#[derive(Clone)]
pub struct CachedServer {
    /// Its entry.
    pub entry: Arc<ServerEntry>,
    /// The way to it.
    pub line: ServerLine,
}
