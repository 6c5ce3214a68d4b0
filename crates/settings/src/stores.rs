//! Sections about the stored data, and the store that they choose.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::address::escape;
use super::{Settings, read};

/// The store that the settings choose.
#[derive(Debug, Clone)]
pub enum StoreChoice<'a> {
    /// The embedded store in this folder. One process alone uses it.
    Embedded(&'a Path),
    /// Redis or Valkey at this address. Several processes can share it.
    Redis(SecretString),
}

impl Settings {
    /// Returns the store that these settings choose: the embedded store if they name no server.
    #[must_use]
    pub fn chosen_store(&self) -> StoreChoice<'_> {
        self.redis.address().map_or(StoreChoice::Embedded(&self.store.dir), StoreChoice::Redis)
    }
}

impl StoreChoice<'_> {
    /// True if several processes can use the store.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        match self {
            Self::Embedded(_) => false,
            Self::Redis(_) => true,
        }
    }

    /// Returns the address of the server, which may contain a password; `None` if there is no server.
    #[must_use]
    pub fn address(self) -> Option<SecretString> {
        match self {
            Self::Embedded(_) => None,
            Self::Redis(address) => Some(address),
        }
    }
}

/// `[store]`: the embedded store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The folder of the store, created if missing.
    #[serde(deserialize_with = "read::path")]
    pub dir: PathBuf,
}

/// `[redis]`: Redis or Valkey instead of the embedded store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// The full address, which may contain a password.
    #[serde(deserialize_with = "read::secret")]
    pub url: Option<SecretString>,
    /// The host, if there is no address.
    #[serde(deserialize_with = "read::text")]
    pub host: Option<String>,
    /// The port at the host.
    #[serde(deserialize_with = "read::number")]
    pub port: u16,
    /// The database number at the host.
    #[serde(deserialize_with = "read::number")]
    pub db: u32,
    /// The password at the host.
    #[serde(deserialize_with = "read::secret")]
    pub password: Option<SecretString>,
}

impl Redis {
    /// Returns the address to connect to, or `None` for the embedded store.
    pub(super) fn address(&self) -> Option<SecretString> {
        if let Some(url) = &self.url {
            return Some(url.clone());
        }
        let host = self.host.as_deref()?;
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
        let login = self
            .password
            .as_ref()
            .map(|password| format!(":{}@", escape(password.expose_secret())))
            .unwrap_or_default();
        Some(SecretString::from(format!("redis://{login}{host}:{}/{}", self.port, self.db)))
    }
}
