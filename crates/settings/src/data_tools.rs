//! Tools that reach data outside of this program: each is offered only when it is configured.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use super::read;

/// `[url_extract]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlExtract {
    /// The tool is offered.
    #[serde(deserialize_with = "read::flag")]
    pub enabled: bool,
    /// Ports of pages that are read.
    #[serde(deserialize_with = "read::ports")]
    pub ports: Vec<u16>,
    /// Hosts that are read, each with all below it; empty allows all that are public.
    #[serde(deserialize_with = "read::texts")]
    pub allow: Vec<String>,
    /// Hosts that are never read, each with all below it.
    #[serde(deserialize_with = "read::texts")]
    pub deny: Vec<String>,
    /// Bytes to which a page is cut.
    #[serde(deserialize_with = "read::at_least_one")]
    pub bytes: usize,
    /// Time that one page may take.
    #[serde(deserialize_with = "read::some_duration")]
    pub timeout: Duration,
}

/// One `[[tools.web_search]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSearch {
    /// Name of the provider.
    #[serde(deserialize_with = "read::some_text")]
    pub provider: String,
    /// Where it is, in place of where it is for everybody.
    #[serde(default, deserialize_with = "read::optional_web_address")]
    pub url: Option<String>,
    /// The key.
    #[serde(default, deserialize_with = "read::secret")]
    pub key: Option<SecretString>,
    /// The variable that holds the key.
    #[serde(default, deserialize_with = "read::text")]
    pub env_key: Option<String>,
    /// What the provider calls the engine that is asked.
    #[serde(default, deserialize_with = "read::text")]
    pub engine: Option<String>,
    /// The model that is asked, of a provider that searches with one.
    #[serde(default, deserialize_with = "read::text")]
    pub model: Option<String>,
    /// Time that one search may take.
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    pub timeout: Duration,
}

const fn usual_timeout() -> Duration {
    Duration::from_secs(15)
}

/// One `[[tools.databases]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Its name for members.
    #[serde(deserialize_with = "read::some_text")]
    pub name: String,
    /// Where it is, with the login.
    #[serde(default, deserialize_with = "read::secret")]
    pub url: Option<SecretString>,
    /// The variable that holds the address.
    #[serde(default, deserialize_with = "read::text")]
    pub env_url: Option<String>,
    /// Tables that may be read.
    #[serde(default, deserialize_with = "read::texts")]
    pub read: Vec<String>,
    /// Tables that may be changed.
    #[serde(default, deserialize_with = "read::texts")]
    pub write: Vec<String>,
    /// Rows of one answer at most.
    #[serde(default = "usual_rows", deserialize_with = "read::at_least_one")]
    pub rows: usize,
    /// Time that one statement may take.
    #[serde(default = "usual_timeout", deserialize_with = "read::some_duration")]
    pub timeout: Duration,
}

const fn usual_rows() -> usize {
    100
}
