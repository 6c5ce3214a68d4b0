//! What others may tell the watcher of the configuration.

/// What the watcher is told.
pub enum ConfigWatcherMsg {
    /// The operator wants the files to be read, changed or not.
    Reload,
}
