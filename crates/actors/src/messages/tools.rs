//! Messages of the supervisor of tools.

use crate::runtime::named::named;
use ports::tools::ServerEntry;

/// The messages that the supervisor of tools handles.
pub enum ToolsMsg {
    /// From `config_watcher`: changed settings are in force.
    Configured,
    /// From `tool_cache`: it started and has no list of servers.
    CacheBegan,
    /// From `providers`: the complete list of processes that provide tools.
    Provided(Vec<ServerEntry>),
    /// From `commands`: an operator requests that all lists are read again, and accepts changed tools.
    Refresh,
}

named!(ToolsMsg: Configured, CacheBegan, Provided, Refresh);
