//! Tools that reach data outside of this program: each is offered only when it is configured.

use std::time::Duration;

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
