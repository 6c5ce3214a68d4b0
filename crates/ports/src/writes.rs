//! What changes the store, and how the store is.

use std::time::Duration;

use tokio::sync::mpsc;

use super::Store;
use domain::counter::Counter;
use domain::ledger::Increment;

/// One change to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets a key; it vanishes after `ttl`, or never when that is none.
    Put {
        /// The key.
        key: String,
        /// The text.
        value: String,
        /// Its life from now on.
        ttl: Option<Duration>,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: String,
    },
    /// Adds to the numbers that a key holds; what holds none counts as zeros, and a value of any other kind is replaced.
    /// Increments of several processes add up. Each is counted once, also when it was made while the backend was away and
    /// when the backend's answer was lost.
    Add {
        /// The key.
        key: String,
        /// How much.
        by: Counter,
        /// Its life from now on; none leaves the life as it is. It may end up to a sixteenth earlier.
        ttl: Option<Duration>,
    },
}

impl From<Increment> for Write {
    fn from(Increment { key, by, ttl }: Increment) -> Self {
        Self::Add { key, by, ttl }
    }
}

/// What became of a value that was to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// It is replaced, durably.
    Done,
    /// The key holds something else than the caller saw; nothing changed.
    Other,
    /// The store is degraded, and it is not known whether it was.
    Away,
}

/// How often a value is replaced again that others changed meanwhile.
const REPLACE_TRIES: u32 = 16;

/// Changes the value of a key, durably and also against other processes that change it at the same moment. `changed` is given what
/// the key holds, none for nothing, again when others were faster; without a new value from it nothing changes, and that is done.
pub async fn replace(
    store: &dyn Store,
    key: &str,
    mut changed: impl FnMut(Option<&str>) -> Option<String> + Send,
) -> Replaced {
    for _ in 0..REPLACE_TRIES {
        let seen = store.get(key).await;
        if store.status() != StoreStatus::Ready {
            return Replaced::Away;
        }
        let Some(value) = changed(seen.as_deref()) else { return Replaced::Done };
        match store.replace(key, seen.as_deref(), &value).await {
            Replaced::Other => {}
            end => return end,
        }
    }
    Replaced::Other
}

/// One key of a copy of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    /// The key.
    pub key: String,
    /// Its text.
    pub value: String,
    /// The time it has left; `None` for ever.
    pub ttl: Option<Duration>,
}

/// What the settings of a server that keeps state can do to it. Sentences with the fix; never a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keeping {
    /// What is lost when the server fails.
    pub loses: Option<String>,
    /// Which promise is broken while all works.
    pub breaks: Option<String>,
}

/// How the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreStatus {
    /// The backend answers.
    Ready,
    /// The backend fails, for this reason; memory serves.
    Degraded(String),
}

/// Makes copies of everything that is kept.
pub trait Backups: Send + Sync {
    /// Begins one. Its text arrives in chunks; one that ends without its last line is not whole.
    fn begin(&self) -> mpsc::Receiver<Vec<u8>>;
}
