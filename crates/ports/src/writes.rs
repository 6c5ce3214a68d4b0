//! Reads and writes of the store, and its status.

use std::time::Duration;

use super::Store;
use domain::counter::Counter;
use domain::forgetting::covers;
use domain::ids::{Person, Timestamp};
use domain::keys;
use domain::ledger::Increment;

/// The result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// The key does not exist, or its TTL ended.
    Absent,
    /// The value.
    Value(String),
    /// The part of a history that [`Write::Join`] has yet to add to the stored one.
    Part(String),
    /// A value may exist, and it cannot be read.
    Unreadable(Unreadable),
}

impl Stored {
    /// Returns the text that could be read.
    #[must_use]
    pub fn value(self) -> Option<String> {
        match self {
            Self::Value(text) | Self::Part(text) => Some(text),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }
}

impl From<Option<String>> for Stored {
    fn from(value: Option<String>) -> Self {
        value.map_or(Self::Absent, Self::Value)
    }
}

/// The reason why a value cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The store does not answer; a later read may succeed.
    #[error("the store does not answer")]
    NoAnswer,
    /// The value is of another type, or not UTF-8. Another program wrote it.
    #[error("the stored value is not text")]
    NotText,
}

/// One write to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets a key, with a TTL or without expiry.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The TTL from now on.
        ttl: Option<Duration>,
    },
    /// Adds messages to a stored history that the writer could not read: the store joins the two once it reads the
    /// stored one, and never overwrites one that is not text. Until then a read returns [`Stored::Part`].
    Join {
        /// The key.
        key: String,
        /// The history of these messages, with those of earlier parts that are not joined yet.
        value: String,
        /// The TTL from now on.
        ttl: Option<Duration>,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: String,
    },
    /// Adds to the counter stored under a key. A missing counter counts as zero, and a value of another type is
    /// replaced. Increments of several processes add up. Each counts exactly once, also if it was made during an
    /// outage or if the backend's answer was lost.
    Add {
        /// The key.
        key: String,
        /// The amount.
        by: Counter,
        /// The TTL from now on; `None` keeps the current one. It may expire up to a sixteenth earlier.
        ttl: Option<Duration>,
    },
}

impl Write {
    /// Sets an unreadable record of this key aside, for inspection by an operator: see [`keys::quarantine`].
    #[must_use]
    pub fn quarantine(key: &str, value: String) -> Self {
        Self::Put { key: keys::quarantine(key), value, ttl: Some(keys::QUARANTINE_TTL) }
    }
}

impl From<Increment> for Write {
    fn from(Increment { key, by, ttl }: Increment) -> Self {
        Self::Add { key, by, ttl }
    }
}

/// The outcome of a compare-and-swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The value is replaced, durably.
    Done,
    /// The key holds another value than the expected one; nothing changed.
    Other,
    /// The store is degraded, so the outcome is unknown; or the value cannot be read, and nothing changed.
    Away,
}

/// True if a stored request of this person to be forgotten covers data of that time. An unreadable request covers all; while
/// the store does not answer, the second pass of the request deletes what was kept meanwhile.
pub async fn is_forgotten(store: &dyn Store, person: &Person, at: Timestamp) -> bool {
    match store.read(&keys::forgotten(person, None)).await {
        Stored::Absent | Stored::Unreadable(Unreadable::NoAnswer) => false,
        Stored::Value(text) | Stored::Part(text) => covers(&text, at),
        Stored::Unreadable(Unreadable::NotText) => true,
    }
}

/// Maximum number of attempts after concurrent changes.
const REPLACE_TRIES: u32 = 16;
/// The pause after the first concurrent change; it grows by the same amount with each further one. Otherwise a
/// process that changes the key constantly could win each race.
const REPLACE_PAUSE: Duration = Duration::from_millis(1);

/// Changes the value of a key durably by compare-and-swap. `changed` receives the current value, again after each
/// concurrent change. If it returns `None`, nothing changes and the outcome is [`Replaced::Done`].
pub async fn replace(
    store: &dyn Store,
    key: &str,
    mut changed: impl FnMut(Option<&str>) -> Option<String> + Send,
) -> Replaced {
    for attempt in 1..=REPLACE_TRIES {
        let read = store.read(key).await;
        if matches!(read, Stored::Unreadable(_)) || store.status() != StoreStatus::Ready {
            return Replaced::Away;
        }
        let seen = read.value();
        let Some(value) = changed(seen.as_deref()) else { return Replaced::Done };
        match store.replace(key, seen.as_deref(), &value).await {
            Replaced::Other => tokio::time::sleep(REPLACE_PAUSE * attempt).await,
            end => return end,
        }
    }
    Replaced::Other
}

/// One key in a copy of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The remaining TTL; `None`: no expiry.
    pub ttl: Option<Duration>,
}

/// The risks in the settings of a state server, as sentences with the fix; never a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keeping {
    /// The data lost if the server fails.
    pub loses: Option<String>,
    /// The promise broken even without failures.
    pub breaks: Option<String>,
}

/// The status of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreStatus {
    /// The backend responds.
    Ready,
    /// The backend fails, for this reason; the store uses memory.
    Degraded(String),
}
