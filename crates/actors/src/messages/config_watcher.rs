//! Messages of the configuration watcher.

/// The messages that the watcher handles.
pub enum ConfigWatcherMsg {
    /// Reads the files again, changed or not (SIGHUP).
    Reload,
}
