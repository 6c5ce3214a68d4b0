//! `[agents]`: other servers that models may ask.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use super::read;

/// `[agents]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agents {
    /// Our own name among servers; none draws one at each start.
    #[serde(deserialize_with = "read::text")]
    pub name: Option<String>,
    /// The most servers one behind the other.
    #[serde(deserialize_with = "read::up_to::<_, 16>")]
    pub depth: usize,
    /// The most calls of other servers for one turn, those of the servers that follow included.
    #[serde(deserialize_with = "read::number")]
    pub calls: u32,
    /// The most tokens that one turn gives on.
    #[serde(deserialize_with = "read::number")]
    pub tokens: u64,
    /// The model rows that models may have asked with a clean context; `*` for all, empty for none.
    #[serde(deserialize_with = "read::texts")]
    pub models: Vec<String>,
    /// The servers that may be asked.
    #[serde(deserialize_with = "read::rows")]
    pub peers: Vec<Peer>,
}

/// One `[[agents.peers]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// What models call it: 1 to 64 letters, digits, `-`, `_`, `.` or `@`.
    #[serde(deserialize_with = "read::some_text")]
    pub name: String,
    /// Where it is.
    #[serde(deserialize_with = "read::web_address")]
    pub url: String,
    /// The variable that holds our key there.
    #[serde(default, deserialize_with = "read::text")]
    pub env_key: Option<String>,
    /// Our key there.
    #[serde(default, deserialize_with = "read::secret")]
    pub key: Option<SecretString>,
    /// What it is good for, as models are told.
    #[serde(default, deserialize_with = "read::some_text")]
    pub description: String,
    /// Time that one call may take.
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    pub timeout: Duration,
}

const fn usual_timeout() -> Duration {
    Duration::from_secs(120)
}
