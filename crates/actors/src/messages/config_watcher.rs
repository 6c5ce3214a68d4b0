//! What others may tell the watcher of the configuration.

/// The messages that the watcher handles.
pub enum ConfigWatcherMsg {
    /// The files are read again, changed or not (SIGHUP).
    Reload,
}
