use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::Notify;

use super::*;
use crate::embedded::Embedded;
use crate::embedded::opener::Opener;
use crate::suite::{CLOSING, TestClock, add, delete, put, put_for, row};
use crate::{BackendError, Batch, FoundRows};
use domain::ids::{Door, Person};
use domain::ownership::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Well,
    Fails,
    Breaks,
    Hangs,
    Panics,
    /// It works, but its answer is lost.
    LosesAnswers,
}

/// The switches of all backends opened by one test.
struct Switches {
    reads: Mutex<Mood>,
    writes: Mutex<Mood>,
    opened: AtomicUsize,
    applied: AtomicUsize,
    /// The largest bytes of values of one batch.
    largest: AtomicUsize,
    swept: AtomicUsize,
    released: Notify,
}

impl Switches {
    fn set(&self, reads: Mood, writes: Mood) {
        *self.reads.lock() = reads;
        *self.writes.lock() = writes;
    }

    async fn obey(&self, which: &Mutex<Mood>) -> Result<(), BackendError> {
        let mood = *which.lock();
        match mood {
            Mood::Well | Mood::LosesAnswers => Ok(()),
            Mood::Fails => Err(BackendError::Failed("injected failure".into())),
            Mood::Breaks => Err(BackendError::Broken("injected breakage".into())),
            Mood::Hangs => {
                self.released.notified().await;
                Ok(())
            }
            Mood::Panics => panic!("injected panic"),
        }
    }
}

/// The real backend with switches.
struct Faulty {
    real: Embedded,
    switches: Arc<Switches>,
}

#[async_trait]
impl Backend for Faulty {
    async fn get(&self, key: &str) -> Result<Option<String>, BackendError> {
        self.switches.obey(&self.switches.reads).await?;
        self.real.get(key).await
    }

    async fn scan_many(&self, prefixes: &[&str], limit: usize, steps: &Steps) -> Result<FoundRows, BackendError> {
        self.switches.obey(&self.switches.reads).await?;
        self.real.scan_many(prefixes, limit, steps).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Range>, BackendError> {
        self.switches.obey(&self.switches.writes).await?;
        self.switches.applied.fetch_add(1, Ordering::SeqCst);
        let values =
            batch.writes.iter().map(|write| if let Write::Put { value, .. } = write { value.len() } else { 0 });
        self.switches.largest.fetch_max(values.sum(), Ordering::SeqCst);
        let refused = self.real.apply(batch).await?;
        if *self.switches.writes.lock() == Mood::LosesAnswers {
            return Err(BackendError::Failed("injected loss of the answer".into()));
        }
        Ok(refused)
    }

    async fn sweep(&self) -> Result<bool, BackendError> {
        self.switches.swept.fetch_add(1, Ordering::SeqCst);
        self.real.sweep().await
    }

    async fn copy(&self, to: mpsc::Sender<StoredRow>) -> Result<(), BackendError> {
        self.switches.obey(&self.switches.reads).await?;
        self.real.copy(to).await
    }

    async fn close(&self) {
        self.real.close().await;
    }
}

struct World {
    dir: TempDir,
    clock: Arc<TestClock>,
    switches: Arc<Switches>,
    store: Resilient<Faulty>,
}

const QUICK: StoreBounds = StoreBounds {
    gather: Duration::from_millis(1),
    commit: Duration::from_millis(300),
    read: Duration::from_millis(300),
    scan: Duration::from_millis(300),
    retry_first: Duration::from_millis(5),
    retry_most: Duration::from_millis(20),
    sweep: Duration::from_secs(30),
    entries: 100,
    bytes: 1024 * 1024,
    commit_least: Duration::from_millis(300),
    read_least: Duration::from_millis(300),
};

impl World {
    async fn new(limits: StoreBounds) -> Self {
        Self::on(TempDir::new().unwrap(), Mood::Well, limits).await
    }

    async fn on(dir: TempDir, reads: Mood, limits: StoreBounds) -> Self {
        let clock = Arc::new(TestClock::default());
        let switches = Arc::new(Switches {
            reads: Mutex::new(reads),
            writes: Mutex::new(Mood::Well),
            opened: AtomicUsize::new(0),
            applied: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
            swept: AtomicUsize::new(0),
            released: Notify::new(),
        });
        let opener = Opener::new(dir.path(), clock.clone());
        let used = switches.clone();
        let open = move || {
            let real = opener.open()?;
            used.opened.fetch_add(1, Ordering::SeqCst);
            Ok(Faulty { real, switches: used.clone() })
        };
        let store = Resilient::start_with(open, clock.clone(), limits).await.unwrap();
        Self { dir, clock, switches, store }
    }

    fn degraded(&self) -> bool {
        matches!(self.store.status(), StoreStatus::Degraded(_))
    }

    async fn until(&self, degraded: bool) {
        let there = async {
            while self.degraded() != degraded {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(CLOSING, there).await.expect("the status changes");
    }

    async fn close_and_read(self) -> Vec<(String, String)> {
        self.store.close(CLOSING).await;
        read_all(self.dir.path(), self.clock).await
    }
}

async fn read_all(dir: &Path, clock: Arc<TestClock>) -> Vec<(String, String)> {
    let real = Opener::new(dir, clock).open().unwrap();
    let rows = real.scan("", 1_000, &Steps::default()).await.unwrap();
    real.close().await;
    rows
}

#[tokio::test]
async fn every_kind_of_failing_write_degrades_and_is_merged_back() {
    for mood in [Mood::Fails, Mood::Breaks, Mood::Hangs, Mood::Panics] {
        let world = World::new(QUICK).await;
        assert!(world.store.write(vec![put("a", "1"), put("b", "1"), put("c", "1")]).await);
        world.switches.set(Mood::Well, mood);
        assert!(!world.store.write(vec![put("a", "2"), delete("b")]).await, "{mood:?}");
        assert!(world.degraded(), "{mood:?}");
        assert!(!world.store.write(vec![put("d", "1"), put_for("e", "1", 10)]).await);
        assert_eq!(world.store.get("a").await.as_deref(), Some("2"));
        assert_eq!(world.store.get("b").await, None);

        world.clock.advance(Duration::from_secs(4));
        world.switches.set(Mood::Well, Mood::Well);
        world.switches.released.notify_waiters();
        world.until(false).await;
        assert!(world.store.write(vec![put("f", "1")]).await, "{mood:?}");
        let clock = world.clock.clone();
        clock.advance(Duration::from_millis(5_999));
        let rows = ["c", "d", "e", "f"].map(|key| row(key, "1"));
        assert_eq!(world.close_and_read().await, [&[row("a", "2")][..], &rows].concat(), "{mood:?}");
    }
}

#[tokio::test]
async fn a_broken_backend_is_opened_anew_and_a_failing_one_is_not() {
    let world = World::new(QUICK).await;
    world.switches.set(Mood::Well, Mood::Fails);
    assert!(!world.store.write(vec![put("a", "1")]).await);
    world.switches.set(Mood::Well, Mood::Well);
    world.until(false).await;
    assert_eq!(world.switches.opened.load(Ordering::SeqCst), 1);
    world.switches.set(Mood::Well, Mood::Breaks);
    assert!(!world.store.write(vec![put("b", "1")]).await);
    world.switches.set(Mood::Well, Mood::Well);
    world.until(false).await;
    assert!(world.switches.opened.load(Ordering::SeqCst) >= 2);
    assert_eq!(world.close_and_read().await, [row("a", "1"), row("b", "1")]);
}

#[tokio::test]
async fn every_kind_of_failing_read_gives_nothing_and_degrades() {
    for mood in [Mood::Fails, Mood::Breaks, Mood::Hangs, Mood::Panics] {
        let world = World::new(QUICK).await;
        assert!(world.store.write(vec![put("a", "1")]).await);
        world.switches.set(mood, Mood::Well);
        assert_eq!(world.store.get("a").await, None);
        assert!(world.degraded(), "{mood:?}");
        assert!(!world.store.write(vec![put("b", "1")]).await);
        assert_eq!(world.store.scan("", 10).await.part(), [row("b", "1")]);
        world.switches.set(Mood::Well, Mood::Well);
        world.switches.released.notify_waiters();
        world.until(false).await;
        assert_eq!(world.store.scan("", 10).await.part(), [row("a", "1"), row("b", "1")], "{mood:?}");
        world.store.close(CLOSING).await;
    }
}

#[tokio::test]
async fn histories_that_were_seen_are_known_while_nothing_can_be_read() {
    const HISTORY: &str = "discord_context:1:1";
    let world = World::new(QUICK).await;
    assert!(world.store.write(vec![put_for(HISTORY, "long", 60), put("discord_context:2:1", "x")]).await);
    assert!(world.store.write(vec![delete("discord_context:2:1")]).await);
    assert_eq!(world.store.get(HISTORY).await.as_deref(), Some("long"));
    world.switches.set(Mood::Fails, Mood::Fails);
    for _ in 0..2 {
        assert_eq!(world.store.get(HISTORY).await.as_deref(), Some("long"));
        assert_eq!(world.store.get("discord_context:2:1").await, None);
    }
    assert!(world.degraded());
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(world.store.get(HISTORY).await, None);
    world.switches.set(Mood::Well, Mood::Well);
    world.store.close(CLOSING).await;
}

#[tokio::test]
async fn a_history_that_could_not_be_read_is_joined_with_what_was_said_meanwhile() {
    const KEY: &str = "discord_context:1:1";
    let history = |words: &[&str]| {
        let said = |word: &&str| format!(r#"{{"content":"{word}","role":"user","timestamp":{}.0}}"#, word.len());
        format!("[{}]", words.iter().map(said).collect::<Vec<_>>().join(","))
    };
    let join = |words: &[&str]| {
        vec![Write::Join { key: KEY.to_owned(), value: history(words), ttl: Some(Duration::from_secs(60)) }]
    };
    let world = World::new(QUICK).await;
    assert!(world.store.write(vec![put_for(KEY, &history(&["a", "bb"]), 60)]).await);
    world.store.shared.lock().recent.forget(KEY);
    world.switches.set(Mood::Fails, Mood::Fails);
    assert_eq!(world.store.read(KEY).await, Stored::Unreadable(Unreadable::NoAnswer));
    assert!(!world.store.write(join(&["ccc"])).await);
    assert_eq!(world.store.read(KEY).await, Stored::Part(history(&["ccc"])));
    assert!(!world.store.write(join(&["ccc", "dddd"])).await);
    world.switches.set(Mood::Well, Mood::Well);
    world.until(false).await;
    assert_eq!(world.store.read(KEY).await, Stored::Value(history(&["a", "bb", "ccc", "dddd"])));
    // A turn that read the part before the merge adds to it after the merge.
    assert!(world.store.write(join(&["ccc", "dddd", "eeeee"])).await);
    let whole = history(&["a", "bb", "ccc", "dddd", "eeeee"]);
    assert_eq!(world.store.read(KEY).await, Stored::Value(whole.clone()));
    // What is pending or deleted is known here.
    drop(world.store.write(vec![put_for(KEY, &whole, 60)]));
    drop(world.store.write(join(&["ffffff"])));
    let joined = history(&["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]);
    assert_eq!(world.store.read(KEY).await, Stored::Value(joined));
    drop(world.store.write(vec![delete(KEY)]));
    assert!(world.store.write(join(&["a"])).await);
    assert_eq!(world.close_and_read().await, [row(KEY, &history(&["a"]))]);
}

#[tokio::test]
async fn histories_without_an_end_are_joined_a_few_at_a_time() {
    const MANY: usize = 40;
    let history = |name: &str, bytes: usize| {
        let content = "x".repeat(bytes);
        format!(r#"{{"content":"{name}{content}","role":"user","timestamp":{}.0}}"#, name.len())
    };
    let key = |number: usize| format!("discord_context:{number}:1");
    let patient = Duration::from_secs(10);
    let limits = StoreBounds { commit: patient, commit_least: patient, read: patient, read_least: patient, ..QUICK };
    let world = World::new(limits).await;
    for number in 0..MANY {
        let stored = format!("[{}]", history("a", 100 * 1024));
        assert!(world.store.write(vec![put(&key(number), &stored)]).await);
        world.store.shared.lock().recent.forget(&key(number));
    }
    world.switches.set(Mood::Fails, Mood::Fails);
    for number in 0..MANY {
        let value = format!("[{}]", history("bb", 1));
        assert!(!world.store.write(vec![Write::Join { key: key(number), value, ttl: None }]).await);
    }
    assert!(!world.store.write(vec![put("other", "1")]).await);
    world.switches.largest.store(0, Ordering::SeqCst);
    world.switches.set(Mood::Well, Mood::Well);
    world.until(false).await;
    let largest = world.switches.largest.load(Ordering::SeqCst);
    assert!(largest < joining::BYTES_AT_ONCE + 256 * 1024, "{largest} bytes were written together");
    let rows = world.close_and_read().await;
    let joined = rows.iter().filter(|(key, value)| key.starts_with("discord_context:") && value.contains("bbx"));
    assert_eq!((joined.filter(|(_, value)| value.contains("ax")).count(), rows.len()), (MANY, MANY + 1));
}

#[tokio::test]
async fn data_of_a_later_version_is_refused_also_by_a_store_that_recovers() {
    const LATER: &str = r#"{"format":3,"read_by":2}"#;
    let first = World::new(QUICK).await;
    assert!(first.store.write(vec![put(domain::keys::FORMAT, LATER), put("a", "1")]).await);
    first.store.close(CLOSING).await;
    let opener = Opener::new(first.dir.path(), first.clock.clone());
    let Err(refused) = Resilient::start(move || opener.open(), first.clock.clone()).await else { panic!("it is read") };
    assert!(matches!(&refused, OpenError::Later(why) if why.contains("nothing was changed")), "{refused}");

    let world = World::on(first.dir, Mood::Fails, QUICK).await;
    assert!(!world.store.write(vec![put("a", "2")]).await);
    world.switches.set(Mood::Well, Mood::Well);
    let refused = async {
        while !matches!(world.store.status(), StoreStatus::Degraded(why) if why.contains("nothing was changed")) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(CLOSING, refused).await.expect("it is refused");
    assert_eq!(world.store.get("a").await.as_deref(), Some("2"), "memory serves");
    assert_eq!(world.close_and_read().await, [row("a", "1"), row(domain::keys::FORMAT, LATER)]);
}

#[tokio::test]
async fn a_part_whose_time_is_over_deletes_no_stored_history_and_an_unreadable_one_is_set_aside() {
    const KEY: &str = "discord_context:1:1";
    let part =
        |value: &str| vec![Write::Join { key: KEY.into(), value: value.into(), ttl: Some(Duration::from_secs(9)) }];
    let world = World::new(QUICK).await;
    assert!(world.store.write(vec![put(KEY, "no history")]).await);
    world.switches.set(Mood::Fails, Mood::Fails);
    assert!(!world.store.write(part("[]")).await);
    world.clock.advance(Duration::from_secs(10));
    world.switches.set(Mood::Well, Mood::Well);
    world.until(false).await;
    assert_eq!(world.store.read(KEY).await, Stored::Value("no history".to_owned()));
    assert!(world.store.write(part("[]")).await);
    let aside = domain::keys::quarantine(KEY);
    assert_eq!(world.close_and_read().await, [row(KEY, "[]"), row(&aside, "no history")]);
}

#[tokio::test]
async fn a_history_that_was_written_here_is_not_asked_for_where_nobody_else_writes() {
    let world = World::new(QUICK).await;
    assert!(world.store.write(vec![put("discord_context:1:1", "long"), put("a", "1")]).await);
    world.switches.set(Mood::Fails, Mood::Well);
    assert_eq!(world.store.get("discord_context:1:1").await.as_deref(), Some("long"));
    assert!(!world.degraded());
    assert_eq!(world.store.get("a").await, None);
    assert!(world.degraded(), "unknown keys are read from the backend");
    world.store.close(CLOSING).await;
}

#[tokio::test]
async fn what_is_written_during_a_read_is_what_the_read_tells() {
    let world = World::new(StoreBounds { gather: CLOSING, read: CLOSING, ..QUICK }).await;
    assert!(world.store.commit(vec![put("a", "old"), put("b", "old")]).await);
    world.switches.set(Mood::Hangs, Mood::Well);
    let reads = async { tokio::join!(world.store.get("a"), world.store.get("b"), world.store.get("c")) };
    let writes = async {
        drop(world.store.write(vec![put("a", "new"), delete("b"), put("c", "new")]));
        loop {
            world.switches.released.notify_waiters();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let (a, b, c) = tokio::select! { biased; read = reads => read, () = writes => unreachable!() };
    assert_eq!((a.as_deref(), b, c.as_deref()), (Some("new"), None, Some("new")));
    world.switches.set(Mood::Well, Mood::Well);
    world.store.close(CLOSING).await;
}

#[tokio::test]
async fn a_hanging_backend_stalls_one_read_and_then_none() {
    let world = World::new(StoreBounds { commit: Duration::from_secs(60), ..QUICK }).await;
    assert!(world.store.write(vec![put("a", "1")]).await);
    world.switches.set(Mood::Hangs, Mood::Hangs);
    assert_eq!(world.store.get("a").await, None);
    let begun = Instant::now();
    for _ in 0..1_000 {
        assert_eq!(world.store.get("a").await, None);
    }
    assert!(begun.elapsed() < QUICK.read, "a thousand reads together took {:?}", begun.elapsed());
    world.switches.set(Mood::Well, Mood::Well);
    world.switches.released.notify_waiters();
    world.until(false).await;
    assert_eq!(world.store.get("a").await.as_deref(), Some("1"));
    world.store.close(CLOSING).await;
}

#[tokio::test]
async fn writes_that_still_can_be_read_are_read_while_degraded() {
    let world = World::new(QUICK).await;
    assert!(world.store.write(vec![put("a", "1")]).await);
    world.switches.set(Mood::Well, Mood::Fails);
    assert!(!world.store.write(vec![put("b", "1")]).await);
    assert_eq!(world.store.scan("", 10).await.part(), [row("a", "1"), row("b", "1")]);
    world.switches.set(Mood::Well, Mood::Well);
    world.store.close(CLOSING).await;
}

#[tokio::test]
async fn a_late_commit_is_awaited_and_never_overtaken() {
    let world = World::new(QUICK).await;
    world.switches.set(Mood::Well, Mood::Hangs);
    assert!(!world.store.write(vec![put("a", "old")]).await);
    assert!(!world.store.write(vec![put("a", "new")]).await);
    world.switches.set(Mood::Well, Mood::Well);
    // The first commit still hangs, so no other may have been applied, regardless of the number of retries.
    tokio::time::sleep(QUICK.retry_most * 5).await;
    assert_eq!(world.switches.applied.load(Ordering::SeqCst), 0);
    world.switches.released.notify_waiters();
    world.until(false).await;
    assert_eq!(world.close_and_read().await, [row("a", "new")]);
}

#[tokio::test]
async fn memory_is_bounded_while_degraded_and_histories_go_first() {
    let world = World::new(QUICK).await;
    world.switches.set(Mood::Well, Mood::Fails);
    assert!(!world.store.write(vec![put("staffai:turn:d:first", "kept")]).await);
    for n in 0..1_000 {
        drop(world.store.write(vec![put(&format!("discord_context:{n:04}:1"), "x")]));
    }
    let waiting = world.store.shared.lock().overlay.len();
    assert_eq!(waiting, QUICK.entries);
    assert_eq!(world.store.get("staffai:turn:d:first").await.as_deref(), Some("kept"));
    world.switches.set(Mood::Well, Mood::Well);
    world.until(false).await;
    let rows = world.close_and_read().await;
    assert_eq!(rows.len(), QUICK.entries);
    assert_eq!(rows[0], row("discord_context:0901:1", "x"));
    assert_eq!(rows[99], row("staffai:turn:d:first", "kept"));
}

#[tokio::test]
async fn what_memory_drops_is_never_called_durable() {
    let world = World::new(QUICK).await;
    let writes: Vec<_> = (0..=QUICK.entries).map(|n| put(&format!("discord_context:{n}:1"), "x")).collect();
    assert!(!world.store.write(writes).await);
    assert!(!world.degraded());
    let kept = world.close_and_read().await;
    assert_eq!(kept.len(), QUICK.entries);
}

#[tokio::test]
async fn writes_that_gather_share_a_commit() {
    let world = World::new(StoreBounds { gather: Duration::from_millis(200), ..QUICK }).await;
    let writes: Vec<_> = (0..50).map(|n| world.store.write(vec![put(&format!("k{n:02}"), "x")])).collect();
    assert!(futures_util::future::join_all(writes).await.into_iter().all(|durable| durable));
    assert!(world.switches.applied.load(Ordering::SeqCst) <= 2);
    assert_eq!(world.close_and_read().await.len(), 50);
}

#[tokio::test]
async fn what_is_waited_for_does_not_wait_for_company() {
    let world = World::new(StoreBounds { gather: Duration::from_secs(60 * 60), ..QUICK }).await;
    let joined = world.store.write(vec![put("a", "1")]);
    assert!(world.store.commit(vec![put("b", "1")]).await);
    assert!(joined.await, "pending writes join it");
    world.close_and_read().await;
}

#[tokio::test]
async fn a_dropped_future_changes_nothing() {
    let world = World::new(QUICK).await;
    drop(world.store.write(vec![put("a", "1")]));
    assert_eq!(world.close_and_read().await, [row("a", "1")]);
}

#[tokio::test]
async fn closing_a_hanging_store_takes_no_longer_than_allowed() {
    let world = World::new(StoreBounds { commit: Duration::from_secs(60), ..QUICK }).await;
    world.switches.set(Mood::Well, Mood::Hangs);
    let write = world.store.write(vec![put("a", "1")]);
    let begun = Instant::now();
    world.store.close(Duration::from_millis(100)).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(!write.await);
}

#[tokio::test]
async fn the_writer_sweeps_again_and_again() {
    let world = World::new(StoreBounds { sweep: Duration::from_millis(10), ..QUICK }).await;
    assert!(world.store.write(vec![put_for("a", "1", 1), put_for("b", "1", 60)]).await);
    world.clock.advance(Duration::from_secs(2));
    let swept = async {
        while world.switches.swept.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(CLOSING, swept).await.expect("the sweep happens");
    world.store.close(CLOSING).await;
}

#[tokio::test]
async fn increments_of_an_outage_are_merged_back_once() {
    for mood in [Mood::Fails, Mood::Breaks, Mood::Panics, Mood::LosesAnswers] {
        let world = World::new(QUICK).await;
        assert!(world.store.write(vec![add("a", 5)]).await);
        world.switches.set(Mood::Well, mood);
        for _ in 0..3 {
            assert!(!world.store.write(vec![add("a", 1), add("b", 2)]).await, "{mood:?}");
            // Some of these writes are in doubt by then, some are later.
            tokio::time::sleep(QUICK.retry_most).await;
        }
        world.switches.set(Mood::Well, Mood::Well);
        world.until(false).await;
        assert!(world.store.write(vec![add("a", 1)]).await);
        assert_eq!(world.store.get("a").await.as_deref(), Some("9"), "{mood:?}");
        assert_eq!(world.close_and_read().await, [row("a", "9"), row("b", "6")], "{mood:?}");
    }
}

#[tokio::test]
async fn a_late_commit_counts_once() {
    let world = World::new(QUICK).await;
    world.switches.set(Mood::Well, Mood::Hangs);
    assert!(!world.store.write(vec![add("a", 1)]).await);
    assert!(!world.store.write(vec![add("a", 1)]).await);
    world.switches.set(Mood::Well, Mood::Well);
    world.switches.released.notify_waiters();
    world.until(false).await;
    assert_eq!(world.close_and_read().await, [row("a", "2")]);
}

#[tokio::test]
async fn a_counter_tells_what_is_known_while_the_backend_is_away() {
    let world = World::new(QUICK).await;
    assert!(world.store.write(vec![add("a", 5)]).await);
    world.switches.set(Mood::Well, Mood::Fails);
    assert!(!world.store.write(vec![add("a", 1)]).await);
    assert_eq!(world.store.get("a").await.as_deref(), Some("6"));
    assert_eq!(world.store.scan("", 10).await.part(), [row("a", "6")]);
    world.switches.set(Mood::Fails, Mood::Fails);
    assert_eq!(world.store.get("a").await.as_deref(), Some("1"));
    world.switches.set(Mood::Well, Mood::Well);
    world.until(false).await;
    assert_eq!(world.close_and_read().await, [row("a", "6")]);
}

#[tokio::test]
async fn limits_hold_whatever_the_backend_does_and_are_merged_back() {
    use domain::ids::{Door, TurnId};
    use domain::limits::{Decision, LimitStep, Member, Reservation};
    let ask = |number: usize| {
        let limits = limits::Limits { messages: 3, tokens: 1_000 };
        let turn = TurnId::new(Door::new("d"), number.to_string());
        let reservation = Reservation { turn, tokens: 5, lease: Duration::from_secs(9), limits, exempt: false };
        let (member, window) = (Member::new("5:7"), Duration::from_secs(600));
        limits::Request::of_member(member, window, LimitStep::Reserve(reservation))
    };
    for mood in [Mood::Fails, Mood::Breaks, Mood::Hangs, Mood::Panics] {
        let world = World::new(QUICK).await;
        assert_eq!(world.store.step(ask(0)).await, Decision::Admitted);
        assert!(world.store.write(vec![put("a", "1")]).await);
        world.switches.set(mood, mood);
        let admitted: Vec<_> = (1..6).map(|number| world.store.step(ask(number)).now_or_never().unwrap()).collect();
        assert_eq!(admitted.iter().filter(|answer| **answer == Decision::Admitted).count(), 2, "{mood:?}");
        world.until(true).await;
        world.switches.set(Mood::Well, Mood::Well);
        world.switches.released.notify_waiters();
        world.until(false).await;
        let rows = world.close_and_read().await;
        let (key, text) = rows.last().unwrap();
        assert_eq!(key, "token_rl:5:7");
        assert_eq!(serde_json::from_str::<Vec<String>>(text).unwrap().len(), 3, "{mood:?}");
    }
}

/// A backend whose scans take many steps.
struct Slow {
    steps: u32,
    each: Duration,
}

#[async_trait]
impl Backend for Slow {
    async fn get(&self, _key: &str) -> Result<Option<String>, BackendError> {
        Ok(None)
    }

    async fn scan_many(&self, prefixes: &[&str], _: usize, steps: &Steps) -> Result<FoundRows, BackendError> {
        for _ in 0..self.steps {
            tokio::time::sleep(self.each).await;
            steps.done();
        }
        Ok(Scanned::new(vec![vec![row("a", "1")]; prefixes.len()], true))
    }

    async fn apply(&self, _batch: Batch) -> Result<Vec<Range>, BackendError> {
        Ok(Vec::new())
    }

    async fn copy(&self, _to: mpsc::Sender<StoredRow>) -> Result<(), BackendError> {
        Ok(())
    }

    async fn close(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_makes_steps_may_take_long_and_one_that_makes_none_fails() {
    let scan = QUICK.scan;
    for (steps, each, rows, ready) in [(8, scan / 4, 1, true), (1, scan * 2, 0, false)] {
        let open = move || Ok(Slow { steps, each });
        let store = Resilient::start_with(open, Arc::new(TestClock::default()), QUICK).await.unwrap();
        let scanned = store.scan("", 10).await;
        assert_eq!(scanned.is_complete(), rows == 1, "{steps} steps of {each:?}");
        assert_eq!(scanned.part().len(), rows, "{steps} steps of {each:?}");
        assert_eq!(store.status() == StoreStatus::Ready, ready, "{:?}", store.status());
    }
}

#[tokio::test(start_paused = true)]
async fn one_member_leaves_room_for_the_scans_of_others_and_a_wait_is_no_failure() {
    let each = QUICK.scan / 2;
    let open = move || Ok(Slow { steps: 8, each });
    let store = Resilient::start_with(open, Arc::new(TestClock::default()), QUICK).await.unwrap();
    let (one, other) = (Person::new(Door::new("d"), "1"), Person::new(Door::new("d"), "2"));
    let begun = tokio::time::Instant::now();
    let took = async |person: Option<&Person>| {
        assert!(store.scan_many(&["a", "b"], 10, person).await.is_complete());
        begun.elapsed().as_millis() / (each * 8).as_millis()
    };
    let many = futures_util::future::join_all((0..6).map(|_| took(Some(&one))));
    let own = futures_util::future::join_all((0..6).map(|_| took(None)));
    let (mut many, other, own) = tokio::join!(many, took(Some(&other)), own);
    many.sort_unstable();
    assert_eq!((other, many, own), (1, vec![1, 2, 3, 4, 5, 6], vec![1, 1, 2, 2, 3, 3]));
    assert_eq!(store.status(), StoreStatus::Ready);
}
