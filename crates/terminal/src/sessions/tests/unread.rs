//! Sessions that the store does not return.

use std::sync::atomic::{AtomicUsize, Ordering};

use ports::Unreadable;

use super::*;

/// A store whose read of this number fails, and which is ready all the same.
struct OneReadFails {
    inner: Arc<MemoryStore>,
    /// The number of reads up to the one that fails.
    left: AtomicUsize,
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
        self.inner.write(writes)
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

fn record_of(store: &MemoryStore, place: &Place) -> record::Record {
    let key = domain::keys::sessions::session(&owner_of(place), place);
    serde_json::from_str(&store.entries.lock()[&key]).unwrap()
}

#[tokio::test]
async fn a_session_that_cannot_be_read_is_refused_and_not_replaced() {
    let store = Arc::new(MemoryStore::new());
    let first = sessions_in(&store);
    first.hears("zero", "hi").await;
    let place = first.hears("one", "hello").await.place;
    let later = sessions_in(&store);
    assert_eq!(later.count(&Caller::Local).await, 2);
    let before = record_of(&store, &place);
    store.degraded.store(true, Ordering::SeqCst);
    assert_eq!(later.open(&Caller::Local, "one").await, Err(NotTaken::Away));
    let said = later.says(&Caller::Local, &place, "again", Wants::default(), None).await;
    assert_eq!(said.map(|posted| posted.text), Err(NotTaken::Away));
    let posted = later.perform(&create(&place, "n", "an answer")).await;
    assert!(matches!(posted, Err(PostError::Transient(_))), "the outbox repeats it: {posted:?}");
    store.degraded.store(false, Ordering::SeqCst);
    assert_eq!(record_of(&store, &place), before);
    later.hears("one", "again").await;
    assert_eq!(later.texts(&place).await, ["hello", "again"]);
}

#[tokio::test]
async fn a_session_that_begins_while_the_store_is_away_replaces_none_of_another_process() {
    let store = Arc::new(MemoryStore::new());
    let [here, there] = [sessions_in(&store), sessions_in(&store)];
    here.hears("one", "hello").await;
    // Begun after the other process read the index.
    let theirs = there.hears("two", "theirs").await.place;
    store.degraded.store(true, Ordering::SeqCst);
    let ours = here.hears("two", "ours").await.place;
    assert_eq!(here.hears("two", "more").await.place, ours);
    store.degraded.store(false, Ordering::SeqCst);
    assert_eq!(here.texts(&theirs).await, ["theirs"]);
    assert_eq!(here.texts(&ours).await, ["ours", "more"]);
    assert_eq!(here.count(&Caller::Local).await, 3);
}

#[tokio::test]
async fn whichever_one_read_fails_no_line_of_a_session_is_lost() {
    for failing in 1..=12 {
        let store = Arc::new(MemoryStore::new());
        let first = sessions_in(&store);
        let place = first.hears("one", "hello").await.place;
        first.posts(&place, "n", "an answer").await;
        let failing_store = OneReadFails { inner: Arc::clone(&store), left: AtomicUsize::new(failing) };
        let kept_for: KeptFor = Arc::new(|| Duration::from_secs(60));
        let later = Sessions::new(Arc::new(ManualClock::new()), Arc::new(failing_store) as _, kept_for);
        let said = later.says(&Caller::Local, &place, "again", Wants::default(), None).await;
        let mut expected = vec!["hello", "an answer"];
        expected.extend(said.is_ok().then_some("again"));
        assert_eq!(sessions_in(&store).texts(&place).await, expected, "{failing}");
        // A cached session outlasts a read that fails too.
        later.history(&place, &HistoryRange::Newest, 10).await;
        later.history(&place, &HistoryRange::Newest, 10).await;
        assert_eq!(sessions_in(&store).texts(&place).await, expected, "{failing}");
    }
}
