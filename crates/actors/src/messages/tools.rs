//! What the supervisor of tools is told.

use ports::tools::ServerEntry;

/// What the supervisor of tools is told.
pub enum ToolsMsg {
    /// `config_watcher`: other settings are in force.
    Configured,
    /// `tool_cache`: it began, and knows of no servers.
    CacheBegan,
    /// providers: these processes provide tools, and no others.
    Provided(Vec<ServerEntry>),
    /// commands: an operator wants all lists read again, and accepts tools that changed.
    Refresh,
}
