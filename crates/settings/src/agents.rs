//! `[agents]`: other servers that models may call.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use super::read;

/// `[agents]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agents {
    /// This server's name; `None` generates one at each start.
    #[serde(deserialize_with = "read::text")]
    pub name: Option<String>,
    /// The longest chain of servers.
    #[serde(deserialize_with = "read::up_to::<_, 16>")]
    pub depth: usize,
    /// The most calls of other servers for one turn, including those made by the called servers.
    #[serde(deserialize_with = "read::number")]
    pub calls: u32,
    /// The most tokens that one turn may pass on.
    #[serde(deserialize_with = "read::number")]
    pub tokens: u64,
    /// The model rows that models may call with an empty context; `*` for all, empty for none.
    #[serde(deserialize_with = "read::texts")]
    pub models: Vec<String>,
    /// The servers that may be called.
    #[serde(deserialize_with = "read::rows")]
    pub peers: Vec<Peer>,
}

/// One `[[agents.peers]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// The name that models use: 1 to 64 letters, digits, `-`, `_`, `.` or `@`.
    #[serde(deserialize_with = "read::some_text")]
    pub name: String,
    /// The address.
    #[serde(deserialize_with = "read::web_address")]
    pub url: String,
    /// The variable that holds the key.
    #[serde(default, deserialize_with = "read::text")]
    pub env_key: Option<String>,
    /// The key for this server.
    #[serde(default, deserialize_with = "read::secret")]
    pub key: Option<SecretString>,
    /// The purpose of the server, as described to models.
    #[serde(default, deserialize_with = "read::some_text")]
    pub description: String,
    /// The timeout of one call.
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    pub timeout: Duration,
}

const fn usual_timeout() -> Duration {
    Duration::from_secs(120)
}
