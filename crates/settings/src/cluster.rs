//! The section about several processes on one store.

use serde::Deserialize;

use super::read;

/// `[cluster]`: several processes on one Redis.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The host and port at which the other processes reach the pages of this one; `None` passes no requests on.
    #[serde(deserialize_with = "read::host_and_port")]
    pub address: Option<String>,
}
