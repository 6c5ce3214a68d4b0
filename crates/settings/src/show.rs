//! The table of `staffai config`.

use super::Loaded;
use super::defaults::{self, DefaultKey};

/// Replaces a secret that is set.
pub const MASK: &str = "********";

/// One row of `staffai config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigRow {
    /// `section.key`.
    pub key: String,
    /// The value in effect, masked if secret.
    pub value: String,
    /// Its origin.
    pub origin: String,
}

/// Returns the settings in effect, in the order of `config/default.toml`.
#[must_use]
pub fn table(loaded: &Loaded) -> Vec<ConfigRow> {
    let row = |entry: DefaultKey| ConfigRow {
        value: loaded.shown.get(&entry.key).cloned().unwrap_or_default(),
        origin: loaded.origins.get(&entry.key).map(ToString::to_string).unwrap_or_default(),
        key: entry.key,
    };
    defaults::entries().into_iter().map(row).collect()
}
