//! Reads the usage ledger from the store. The journal writes it, with the record that closes a turn.

use std::collections::HashMap;

use futures_util::{StreamExt, stream};
use jiff::civil::Date;

use domain::ids::{Door, Person, Timestamp};
use domain::keys;
use domain::ledger::{self, Overview, Sums};
use domain::people::Linked;
use ports::{Row, Store};

/// The maximum number of concurrent counter reads.
const AT_ONCE: usize = 16;

/// The maximum number of communities of one linked account whose counters are read.
const COMMUNITIES_MAX: usize = 100;

/// The maximum number of counters that one overview reads.
const ROWS_MOST: usize = 200_000;

/// Returns the use of a member in a community, and of their other accounts everywhere. The store bounds each read.
pub async fn sums(
    store: &dyn Store,
    (person, linked): (&Person, &Linked),
    guild: Option<&str>,
    now: Timestamp,
) -> Sums {
    let mut sums = sums_in(store, person, guild, now).await;
    for other in linked.others(person) {
        let prefix = keys::ledger::counted_of(other);
        let counted = store.scan(&prefix, COMMUNITIES_MAX).await.part();
        let communities = counted.iter().filter_map(|(key, _)| keys::ledger::community_of(key, other)).map(Some);
        for guild in communities.chain([None]) {
            let Sums { today, week, total } = sums_in(store, other, guild.as_deref(), now).await;
            sums.today.add(today);
            sums.week.add(week);
            sums.total.add(total);
        }
    }
    sums
}

/// Returns the use of an account in a community.
async fn sums_in(store: &dyn Store, person: &Person, guild: Option<&str>, now: Timestamp) -> Sums {
    let keys = ledger::keys_of_sums(person, guild, now);
    let reads = keys.into_iter().map(|key| async move {
        let text = store.get(&key).await;
        (key, text)
    });
    let found: HashMap<String, Option<String>> = stream::iter(reads).buffer_unordered(AT_ONCE).collect().await;
    ledger::sums(person, guild, now, |key| found.get(key).cloned().flatten())
}

/// Returns the use of all members on these days; `door` is the door whose members the Python bot counted. The store
/// bounds each read.
pub async fn overview(store: &dyn Store, days: &[Date], door: &Door) -> Overview {
    ledger::overview(days, &rows(store, days).await.concat(), door)
}

/// Like [`overview`], for each of these days.
pub async fn each(store: &dyn Store, days: &[Date], door: &Door) -> Vec<(Date, Overview)> {
    let mut rows = rows(store, days).await.into_iter();
    let all = rows.next().unwrap_or_default();
    let of = |(day, rows): (&Date, Vec<Row>)| (*day, ledger::overview(&[*day], &[&all[..], &rows].concat(), door));
    days.iter().zip(rows).map(of).collect()
}

/// Returns the counters of earlier versions, then those of each day.
async fn rows(store: &dyn Store, days: &[Date]) -> Vec<Vec<Row>> {
    let of_days: Vec<String> = days.iter().map(|day| ledger::of_day(*day)).collect();
    let prefixes: Vec<&str> =
        std::iter::once(keys::ledger::DAILY_PREFIX).chain(of_days.iter().map(String::as_str)).collect();
    store.scan_many(&prefixes, ROWS_MOST, None).await.part()
}
