//! What the supervisor of tools is told.

/// What the supervisor of tools is told.
pub enum ToolsMsg {
    /// `config_watcher`: other settings are in force.
    Configured,
    /// `tool_cache`: it began, and knows of no servers.
    CacheBegan,
    /// commands: an operator wants all lists read again, and accepts tools that changed.
    Refresh,
}
