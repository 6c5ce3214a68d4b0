//! Changes of stored histories.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::MutexGuard;

use super::locks::Locks;
use domain::history::History;
use ports::{Store, Stored, Write};

/// Of two concurrent changes of one record in this process, neither may put back what the other removed.
static CHANGING: LazyLock<Locks> = LazyLock::new(Locks::default);

/// Waits until no other change of this record is in progress. Changes do not nest.
pub(crate) async fn changing(key: &str) -> MutexGuard<'static, ()> {
    CHANGING.lock(key).await
}

/// Changes a stored history if the change makes a difference. Returns false if the history cannot be read now, or if
/// the change is not durable.
pub(crate) async fn change(
    store: &dyn Store,
    key: &str,
    ttl: Option<Duration>,
    change: impl FnOnce(&mut History),
) -> bool {
    let _changing = changing(key).await;
    let (stored, is_part) = match store.read(key).await {
        Stored::Absent => return true,
        Stored::Value(text) => (text, false),
        Stored::Part(text) => (text, true),
        Stored::Unreadable(_) => return false,
    };
    let Ok(parsed) = History::parse(&stored) else { return false };
    let mut history = if is_part { parsed.history.as_part() } else { parsed.history };
    let before = history.clone();
    change(&mut history);
    // Written at once, because its owner may continue the conversation.
    (history == before || store.write(vec![write(key.to_owned(), &history, ttl)]).await) && !is_part
}

/// Returns the write that stores a history. It keeps earlier messages that could not be read.
pub(crate) fn write(key: String, history: &History, ttl: Option<Duration>) -> Write {
    match history.entries() {
        _ if history.is_part() => Write::Join { key, value: history.to_json(), ttl },
        [] => Write::Delete { key },
        _ => Write::Put { key, value: history.to_json(), ttl },
    }
}
