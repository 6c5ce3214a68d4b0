use super::*;
use crate::testing::{BEGINNING, person, place, turn_id};
use domain::incoming::Deletion;
use domain::tool::testing::on_behalf;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ports::testing::{ManualClock, MemoryStore};
use ports::{Replaced, Row, Scanned, StoreStatus};
use std::sync::atomic::{AtomicUsize, Ordering};

const BOUNDS: Bounds = Bounds { facts: 3, bytes: 100, total: 5, ttl: Duration::from_secs(90 * 24 * 60 * 60) };

fn keeper(store: &Arc<MemoryStore>) -> FactKeeper {
    FactKeeper::new(Arc::clone(store) as _, Arc::new(ManualClock::new()), || BOUNDS)
}

fn asked(who: &str, at: u64) -> OnBehalf {
    OnBehalf {
        guild: Some("5".to_owned()),
        turn: turn_id(&at.to_string()),
        at: Timestamp(BEGINNING.0 + at),
        ..on_behalf(person(who), place("42"))
    }
}

async fn texts(keeper: &FactKeeper, asked: &OnBehalf) -> Vec<String> {
    let found = keeper.search(asked, "").await.unwrap();
    found.facts.into_iter().map(|fact| fact.text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_member_has_so_many_facts_and_all_members_together_have_so_many() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    for (number, text) in ["one", "two", "three"].iter().enumerate() {
        assert!(keeper.remember(&asked("7", number as u64), text).await.is_ok());
    }
    assert_eq!(keeper.remember(&asked("7", 4), "four").await, Err(NotKept::Full(3)));
    let again = keeper.remember(&asked("7", 5), "Two.").await.unwrap();
    assert!(again.before, "the same words are no further fact");
    assert_eq!(texts(&keeper, &asked("7", 6)).await, ["Two.", "three", "one"]);
    for text in ["one", "two"] {
        assert!(keeper.remember(&asked("8", 1), text).await.is_ok());
    }
    assert_eq!(keeper.remember(&asked("9", 1), "one").await, Err(NotKept::NoRoom));
    assert_eq!(keeper.forget(&asked("7", 7), &again.id).await, Ok(true));
    assert_eq!(keeper.forget(&asked("7", 7), &again.id).await, Ok(false));
    assert!(keeper.remember(&asked("9", 1), "one").await.is_ok(), "what is forgotten makes room");
}

#[tokio::test(start_paused = true)]
async fn what_is_over_is_not_found_and_makes_room() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    let clock = ManualClock::new();
    for text in ["one", "two", "three"] {
        keeper.remember(&asked("7", 0), text).await.unwrap();
    }
    tokio::time::advance(BOUNDS.ttl + Duration::from_secs(1)).await;
    assert_eq!(keeper.search(&asked("7", 1), "").await, Ok(FactMatches::default()));
    let now = clock.now().0 - BEGINNING.0;
    keeper.remember(&asked("7", now), "four").await.unwrap();
    // Expired facts can still be counted, for one step.
    tokio::time::advance(keys::facts::FACTS_TOLD_STEP).await;
    for text in ["one", "two", "three"] {
        keeper.remember(&asked("8", now), text).await.unwrap();
    }
    assert_eq!(texts(&keeper, &asked("7", now)).await, ["four"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_before_the_wish_to_be_forgotten_is_not_kept() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    let cut = Timestamp(BEGINNING.0 + 10);
    keeper.forgotten().wish(&person("7"), None, cut);
    assert_eq!(keeper.remember(&asked("7", 10), "one").await, Err(NotKept::Forgotten));
    assert!(keeper.remember(&asked("7", 11), "one").await.is_ok());
    assert!(keeper.remember(&asked("8", 10), "one").await.is_ok());
    // The same request, recorded by another process.
    let wished =
        crate::services::forgotten::Wished { person: person("8"), place: None, cut, noted: cut, unfinished: false };
    let value = serde_json::to_string(&wished).unwrap();
    store.write(vec![Write::Put { key: keys::forgotten(&person("8"), None), value, ttl: None }]).await;
    assert_eq!(keeper.remember(&asked("8", 9), "two").await, Err(NotKept::Forgotten));
    // One that can no longer be read: its time is unknown.
    store.put(keys::forgotten(&person("9"), None), "{");
    assert_eq!(keeper.remember(&asked("9", 11), "one").await, Err(NotKept::Forgotten));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_process_lost_is_added_again() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    keeper.remember(&asked("7", 1), "one").await.unwrap();
    keeper.remember(&asked("7", 2), "two").await.unwrap();
    let key = keys::facts::fact_index(&person("7"));
    let lost = store.get(&key).await.unwrap();
    let mut index = FactIndex::parse(Some(&lost));
    index.remove(&index.all()[1].id.clone());
    store.write(vec![Write::Put { key: key.clone(), value: index.to_json(), ttl: None }]).await;
    keeper.settle(Instant::now()).await;
    assert_eq!(texts(&keeper, &asked("7", 3)).await, ["one"], "it is looked for later");
    tokio::time::advance(SETTLES_AFTER).await;
    keeper.settle(Instant::now()).await;
    assert_eq!(texts(&keeper, &asked("7", 3)).await, ["two", "one"]);
    // A fact that was deleted meanwhile stays deleted.
    store.write(vec![Write::Delete { key: key.clone() }]).await;
    let facts: Vec<_> = FactIndex::parse(Some(&lost)).all().iter().map(|named| named.id.clone()).collect();
    for id in facts {
        store.write(vec![Write::Delete { key: keys::facts::fact(&person("7"), &id) }]).await;
    }
    tokio::time::advance(SETTLES_AFTER).await;
    keeper.settle(Instant::now()).await;
    assert_eq!(store.get(&key).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_fact_goes_with_the_message_that_told_it_last() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    for text in ["one", "two"] {
        keeper.remember(&asked("7", 1), text).await.unwrap();
    }
    keeper.remember(&asked("7", 2), "two").await.unwrap();
    keeper.deleted(&Deletion::of(turn_id("3").trigger())).await;
    assert_eq!(texts(&keeper, &asked("7", 4)).await, ["two", "one"]);
    keeper.deleted(&Deletion::of(turn_id("1").trigger())).await;
    assert_eq!(texts(&keeper, &asked("7", 4)).await, ["two"], "it was told again later");
    keeper.deleted(&Deletion::of(turn_id("2").trigger())).await;
    assert_eq!(keeper.search(&asked("7", 4), "").await, Ok(FactMatches::default()));
    let left: Vec<String> = store.entries.lock().keys().cloned().collect();
    assert!(left.iter().all(|key| key.starts_with("staffai:facts_told:")), "{left:?}");
}

/// Checks that the store contains only counts, and that all counts are zero.
fn nothing_is_left(store: &MemoryStore) {
    for (key, value) in &*store.entries.lock() {
        assert!(key.starts_with("staffai:facts_told:") && value == "0", "{key}: {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_message_that_told_two_facts_one_is_forgotten_and_the_other_goes_with_it() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    let one = keeper.remember(&asked("7", 1), "one").await.unwrap();
    keeper.remember(&asked("7", 1), "two").await.unwrap();
    assert_eq!(keeper.forget(&asked("7", 2), &one.id).await, Ok(true));
    keeper.deleted(&Deletion::of(turn_id("1").trigger())).await;
    nothing_is_left(&store);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_forgotten_leaves_nothing_behind() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    for (at, text) in [(1, "one"), (1, "two"), (2, "one"), (3, "three")] {
        keeper.remember(&asked("7", at), text).await.unwrap();
    }
    let odd = format!("{}odd", keys::facts::facts_of(&person("7")));
    store.write(vec![Write::Put { key: odd, value: "{".to_owned(), ttl: None }]).await;
    let whole = person("7");
    let (first, second) = tokio::join!(keeper.wipe(&whole, None), keeper.wipe(&whole, None));
    assert!(first && second);
    nothing_is_left(&store);
}

#[tokio::test(start_paused = true)]
async fn what_was_told_after_the_wish_stays() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    for (at, text) in [(1, "one"), (2, "two"), (3, "three")] {
        keeper.remember(&asked("7", at), text).await.unwrap();
    }
    assert!(keeper.wipe(&person("7"), Some(Timestamp(BEGINNING.0 + 2))).await);
    assert_eq!(texts(&keeper, &asked("7", 4)).await, ["three"]);
    keeper.deleted(&Deletion::of(turn_id("3").trigger())).await;
    nothing_is_left(&store);
}

#[tokio::test(start_paused = true)]
async fn what_a_deleted_message_asked_for_is_not_kept() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    keeper.deleted(&Deletion::of(turn_id("1").trigger())).await;
    assert_eq!(keeper.remember(&asked("7", 1), "one").await, Err(NotKept::Deleted));
    assert!(keeper.remember(&asked("7", 2), "one").await.is_ok());
    keeper.deleted(&Deletion::of(turn_id("2").trigger())).await;
    nothing_is_left(&store);
}

#[tokio::test(start_paused = true)]
async fn while_the_store_fails_nothing_replaces_what_it_has() {
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    let kept = keeper.remember(&asked("7", 1), "one").await.unwrap();
    store.degraded.store(true, Ordering::SeqCst);
    assert_eq!(keeper.remember(&asked("7", 2), "two").await, Err(NotKept::Away));
    assert_eq!(keeper.search(&asked("7", 2), "one").await, Err(NotKept::Away));
    assert_eq!(keeper.forget(&asked("7", 2), &kept.id).await, Err(NotKept::Away));
    store.degraded.store(false, Ordering::SeqCst);
    assert_eq!(texts(&keeper, &asked("7", 3)).await, ["one"]);
}

/// A store whose read of this number fails, and which is ready all the same.
struct OneReadFails {
    inner: Arc<MemoryStore>,
    /// The number of reads up to the one that fails.
    left: AtomicUsize,
    /// True if it holds writes in memory alone: they can be read, and are not durable.
    in_memory: bool,
}

impl Store for OneReadFails {
    fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Stored> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left == Ok(1) {
            return async { Stored::Unreadable(Unreadable::NoAnswer) }.boxed();
        }
        self.inner.read(key)
    }

    fn scan_many<'a>(
        &'a self,
        prefixes: &'a [&'a str],
        limit: usize,
        person: Option<&'a Person>,
    ) -> BoxFuture<'a, Scanned<Vec<Vec<Row>>>> {
        self.inner.scan_many(prefixes, limit, person)
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'static, bool> {
        let (written, durable) = (self.inner.write(writes), !self.in_memory);
        async move { written.await && durable }.boxed()
    }

    fn replace<'a>(&'a self, key: &'a str, seen: Option<&'a str>, value: &'a str) -> BoxFuture<'a, Replaced> {
        self.inner.replace(key, seen, value)
    }

    fn status(&self) -> StoreStatus {
        StoreStatus::Ready
    }

    fn close(&self, within: Duration) -> BoxFuture<'_, bool> {
        self.inner.close(within)
    }
}

#[tokio::test(start_paused = true)]
async fn a_fact_that_is_not_durable_is_not_kept_later() {
    let store = Arc::new(MemoryStore::new());
    keeper(&store).remember(&asked("7", 1), "one").await.unwrap();
    let before = store.scan("staffai:fact", 100).await.whole().unwrap();
    let full = OneReadFails { inner: Arc::clone(&store), left: AtomicUsize::new(0), in_memory: true };
    let full = FactKeeper::new(Arc::new(full) as _, Arc::new(ManualClock::new()), || BOUNDS);
    assert_eq!(full.remember(&asked("7", 2), "two").await, Err(NotKept::Away));
    assert_eq!(full.remember(&asked("7", 3), "one").await, Err(NotKept::Away), "a fact that is told again");
    assert_eq!(texts(&keeper(&store), &asked("7", 4)).await, ["one"]);
    let after = store.scan("staffai:fact", 100).await.whole().unwrap();
    let numbers = |rows: &[Row]| {
        let told = rows.iter().filter(|(key, _)| key.contains("facts_told"));
        told.map(|(_, value)| value.parse::<i64>().unwrap()).sum::<i64>()
    };
    assert_eq!((numbers(&after), after.len()), (numbers(&before), before.len()));
}

#[tokio::test(start_paused = true)]
async fn whichever_one_read_fails_no_other_fact_is_lost() {
    for failing in 1..=8 {
        let store = Arc::new(MemoryStore::new());
        let first = keeper(&store);
        let one = first.remember(&asked("7", 1), "one").await.unwrap();
        // Another fact of the same message.
        first.remember(&asked("7", 1), "two").await.unwrap();
        let left = AtomicUsize::new(failing);
        let failing_store = Arc::new(OneReadFails { inner: Arc::clone(&store), left, in_memory: false });
        let keeper = FactKeeper::new(failing_store as _, Arc::new(ManualClock::new()), || BOUNDS);
        let forgotten = keeper.forget(&asked("7", 2), &one.id).await;
        let left = match forgotten {
            Ok(true) => vec!["two"],
            Err(NotKept::Away) => vec!["two", "one"],
            other => panic!("{other:?}"),
        };
        assert_eq!(texts(&first, &asked("7", 3)).await, left, "{failing}");
        let _ = keeper.remember(&asked("7", 4), "three").await;
        let kept = texts(&first, &asked("7", 5)).await;
        assert!(left.iter().all(|text| kept.iter().any(|kept| kept == text)), "{failing}: {kept:?}");
        // The message still names its facts.
        first.deleted(&Deletion::of(turn_id("1").trigger())).await;
        let kept = texts(&first, &asked("7", 6)).await;
        assert!(kept.iter().all(|text| text == "three"), "{failing}: {kept:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_facts_of_a_message_that_is_deleted_while_the_store_fails_go_once_it_answers() {
    for failing in 1..=4 {
        let store = Arc::new(MemoryStore::new());
        let first = keeper(&store);
        for text in ["one", "two"] {
            first.remember(&asked("7", 1), text).await.unwrap();
        }
        let left = AtomicUsize::new(failing);
        let failing_store = Arc::new(OneReadFails { inner: Arc::clone(&store), left, in_memory: false });
        let keeper = FactKeeper::new(failing_store as _, Arc::new(ManualClock::new()), || BOUNDS);
        keeper.deleted(&Deletion::of(turn_id("1").trigger())).await;
        keeper.settle(Instant::now()).await;
        nothing_is_left(&store);
    }
    let store = Arc::new(MemoryStore::new());
    let keeper = keeper(&store);
    keeper.remember(&asked("7", 1), "one").await.unwrap();
    store.degraded.store(true, Ordering::SeqCst);
    keeper.deleted(&Deletion::of(turn_id("1").trigger())).await;
    keeper.settle(Instant::now()).await;
    assert_eq!(store.entries.lock().len(), 4, "it is not forgotten meanwhile");
    store.degraded.store(false, Ordering::SeqCst);
    keeper.settle(Instant::now()).await;
    nothing_is_left(&store);
}
