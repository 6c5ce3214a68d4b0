//! The index of the communities in which each member was counted. Counting writes it; this adds the counters of versions
//! that did not.

use super::CommandParts;
use domain::counter::Counter;
use domain::ids::Person;
use domain::keys::ledger as keys;
use ports::{Stored, Write};

/// The maximum number of counters of one kind that are added.
const COUNTERS_MAX: usize = 100_000;
/// The number of entries in one write.
const ADDED_AT_ONCE: usize = 1_000;

/// Adds the communities of earlier counters to the index, unless that was done in the last days. This reads the counters
/// of all members, so no command of a member does it. While the store fails, it is left to the next start.
pub(super) async fn complete(parts: &CommandParts) {
    let store = &parts.basics.store;
    if store.read(keys::INDEXED).await != Stored::Absent {
        return;
    }
    for prefix in keys::of_all_time() {
        let Some(counters) = store.scan(&prefix, COUNTERS_MAX).await.whole() else { return };
        for counters in counters.chunks(ADDED_AT_ONCE) {
            let counted = counters.iter().filter_map(|(key, _)| keys::counted_by(key));
            let ttl = Some(keys::ALL_TTL);
            let add = |(person, guild): (Person, String)| Write::Add {
                key: keys::counted(&person, &guild),
                by: Counter::from(0),
                ttl,
            };
            if !store.write(counted.map(add).collect()).await {
                return;
            }
        }
    }
    let (key, value) = (keys::INDEXED.to_owned(), String::new());
    store.write(vec![Write::Put { key, value, ttl: Some(keys::INDEXED_TTL) }]).await;
}
