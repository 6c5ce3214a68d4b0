//! The section about several processes on one store.

use serde::Deserialize;

use super::read;
use domain::ownership::RANGES_MAX;

/// `[cluster]`: several processes on one Redis.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The number of ranges into which the bot's work is divided, each for one active process; at most [`RANGES_MAX`].
    #[serde(deserialize_with = "read::one_up_to::<_, RANGES_MAX>")]
    pub ranges: u32,
    /// The host and port at which the other processes reach the pages of this one; `None` passes no requests on.
    #[serde(deserialize_with = "read::host_and_port")]
    pub address: Option<String>,
}
