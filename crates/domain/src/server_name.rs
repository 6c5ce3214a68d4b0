//! Names of tool servers.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of a configured tool server: its key in the configuration, or a name derived from its host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerName(Arc<str>);

impl ServerName {
    /// Creates the name of a server.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
