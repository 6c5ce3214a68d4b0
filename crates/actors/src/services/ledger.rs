//! How the usage ledger is read from the store. It is written by the journal, with the record that closes a turn.

use std::collections::HashMap;

use futures_util::{StreamExt, stream};
use jiff::civil::Date;

use domain::ids::{Door, Person, Timestamp};
use domain::keys;
use domain::ledger::{self, Overview, Sums};
use ports::Store;

/// How many counters are read at the same time.
const AT_ONCE: usize = 16;

/// The most counters that one overview reads.
const ROWS_MOST: usize = 200_000;

/// What a member used in a community. Each read is bounded by the store.
pub async fn sums(store: &dyn Store, person: &Person, guild: Option<&str>, now: Timestamp) -> Sums {
    let keys = ledger::keys_of_sums(person, guild, now);
    let reads = keys.into_iter().map(|key| async move {
        let text = store.get(&key).await;
        (key, text)
    });
    let found: HashMap<String, Option<String>> = stream::iter(reads).buffer_unordered(AT_ONCE).collect().await;
    ledger::sums(person, guild, now, |key| found.get(key).cloned().flatten())
}

/// What everybody used on these days; `door` is the one whose members the Python bot counted. Each read is bounded by the
/// store.
pub async fn overview(store: &dyn Store, days: &[Date], door: &Door) -> Overview {
    let mut rows = store.scan(keys::ledger::DAILY_PREFIX, ROWS_MOST).await;
    for day in days {
        rows.extend(store.scan(&ledger::of_day(*day), ROWS_MOST).await);
    }
    ledger::overview(days, &rows, door)
}
