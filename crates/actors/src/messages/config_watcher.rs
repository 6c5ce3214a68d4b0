//! Messages of the configuration watcher.

use crate::runtime::named::named;

/// The messages that the watcher handles.
pub enum ConfigWatcherMsg {
    /// Reads the files again, changed or not (SIGHUP).
    Reload,
}

named!(ConfigWatcherMsg: Reload);
