use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::opener::Opener;
use super::tables::SWEEP_REMOVES;
use super::*;
use crate::OpenError;
use crate::resilient::Resilient;
use crate::suite::{self, Bench, CLOSING, Opened, TestClock, delete, put, put_for, row};
use ports::{Store, StoreStatus};
use proptest::prelude::*;

async fn start(dir: &Path, clock: &Arc<TestClock>) -> Result<Resilient<Embedded>, OpenError> {
    let opener = Opener::new(dir, clock.clone());
    Resilient::start(move || opener.open(), clock.clone()).await
}

fn bench(dir: &TempDir) -> Bench {
    let clock = Arc::new(TestClock::default());
    let (path, used) = (dir.path().to_owned(), clock.clone());
    let open = move || {
        let (path, clock) = (path.clone(), used.clone());
        let opened = async move { Box::new(start(&path, &clock).await.unwrap()) as Box<dyn Opened> };
        Box::pin(opened) as futures_util::future::BoxFuture<'static, _>
    };
    Bench { pass: Box::new(move |by| clock.advance(by)), edge: Duration::ZERO, open: Box::new(open) }
}

macro_rules! behaves {
    ($($name:ident),+) => {$(
        #[tokio::test]
        async fn $name() {
            let dir = TempDir::new().unwrap();
            suite::$name(bench(&dir)).await;
        }
    )+};
}

behaves!(
    limits_hold_over_reopening,
    accounts_hold_over_reopening,
    reads_see_earlier_writes,
    writes_keep_their_order,
    of_two_replacements_one_is_done,
    keys_vanish_at_the_end_of_their_life,
    scans_are_ordered_and_limited,
    writes_survive_reopening,
    increments_add_up,
    numbers_that_stand_together_add_up,
    tokens_rise_with_each_owner,
    writes_of_a_former_owner_are_refused_as_one,
    counters_vanish_at_the_end_of_their_life
);

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn of_two_owners_only_the_newest_acts(acts in suite::acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = TempDir::new().unwrap();
            let store = opener(dir.path()).0.open().unwrap();
            suite::only_the_newest_owner_acts(&store, &acts).await;
            store.close().await;
        });
    }
}

fn opener(dir: &Path) -> (Opener, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    (Opener::new(dir, clock.clone()), clock)
}

async fn rows(store: &Embedded) -> usize {
    use redb::ReadableTableMetadata;
    let count = |database: &Database, _| Ok(database.begin_read()?.open_table(VALUES)?.len()?);
    let inner = Arc::clone(&store.inner);
    store.call(move |database, _| inner.checkpoint(database, &mut inner.wal.lock())).await.unwrap();
    usize::try_from(store.call(count).await.unwrap()).unwrap()
}

#[tokio::test]
async fn the_sweep_removes_what_is_over_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    let (opener, clock) = opener(dir.path());
    let store = opener.open().unwrap();
    let mut writes: Vec<_> = (0..SWEEP_REMOVES).map(|n| put_for(&format!("k{n:05}"), "x", 10)).collect();
    writes.extend([
        put_for("later", "x", 11),
        put("never", "x"),
        put_for("changed", "x", 10),
        put_for("gone", "x", 10),
    ]);
    store.apply(writes.into()).await.unwrap();
    store.apply(vec![put_for("changed", "y", 20), delete("gone")].into()).await.unwrap();
    assert_eq!(rows(&store).await, SWEEP_REMOVES + 3);
    assert!(!store.sweep().await.unwrap(), "no row has expired");
    assert!(!store.sweep().await.unwrap(), "the cycle is complete");
    assert_eq!(rows(&store).await, SWEEP_REMOVES + 3);

    clock.advance(Duration::from_secs(10));
    store.apply(vec![put_for("k00007", "again", 20)].into()).await.unwrap();
    assert!(store.sweep().await.unwrap(), "many rows had expired, so the next sweep follows at once");
    assert_eq!(rows(&store).await, 4, "one was rewritten, and the last ones are not checked yet");
    assert!(!store.sweep().await.unwrap());
    assert_eq!(rows(&store).await, 4);
    store.apply(vec![delete("k00007")].into()).await.unwrap();
    assert_eq!(
        store.scan("", 10, &Steps::default()).await.unwrap(),
        [row("changed", "y"), row("later", "x"), row("never", "x")]
    );
    assert_eq!(store.get("gone").await, Ok(None));
    store.close().await;
    for key in ["never", "gone"] {
        assert!(matches!(store.get(key).await, Err(BackendError::Broken(_))));
    }
}

#[tokio::test]
async fn a_second_opening_is_told_that_the_directory_is_in_use() {
    let dir = TempDir::new().unwrap();
    let clock = Arc::new(TestClock::default());
    let first = start(dir.path(), &clock).await.unwrap();
    let Err(OpenError::InUse(text)) = start(dir.path(), &clock).await else { panic!("both opened it") };
    assert!(text.contains(dir.path().to_str().unwrap()) && text.contains("STAFFAI_DATA_DIR"), "{text}");
    assert!(first.write(vec![put("a", "1")]).await);
    first.close(CLOSING).await;
    start(dir.path(), &clock).await.unwrap().close(CLOSING).await;
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_what_we_make() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("deep/data");
    let store = opener(&data).0.open().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&data.join(FILE))), (0o700, 0o600));
    store.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_that_others_could_read_is_tightened() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    let store = opener(&data).0.open().unwrap();
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    store.close().await;
}

async fn is_put_aside(content: &[u8]) {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join(FILE), content).unwrap();
    let (opener, clock) = opener(dir.path());
    let store = opener.open().unwrap();
    store.apply(vec![put("a", "1")].into()).await.unwrap();
    assert_eq!(store.scan("", 10, &Steps::default()).await.unwrap(), [row("a", "1")]);
    store.close().await;
    let aside = dir.path().join(format!("{FILE}.corrupt-{}", clock.now().0));
    assert!(fs::read(aside).unwrap() == content, "the damaged file of {} bytes changed", content.len());
}

#[tokio::test]
async fn a_file_of_something_else_is_put_aside() {
    is_put_aside(&vec![b'?'; 100_000]).await;
    is_put_aside(b"short").await;
}

#[tokio::test]
async fn a_file_cut_short_is_put_aside() {
    let dir = TempDir::new().unwrap();
    let store = opener(dir.path()).0.open().unwrap();
    store
        .apply(Batch::from((0..2_000).map(|n| put(&format!("k{n}"), &"v".repeat(500))).collect::<Vec<_>>()))
        .await
        .unwrap();
    store.close().await;
    let whole = fs::read(dir.path().join(FILE)).unwrap();
    for length in [100, 4_096, whole.len() / 2] {
        is_put_aside(&whole[..length]).await;
    }
}

#[tokio::test]
async fn damaged_files_never_take_a_name_that_is_taken() {
    let dir = TempDir::new().unwrap();
    let (opener, clock) = opener(dir.path());
    for n in 0..3 {
        fs::write(dir.path().join(FILE), format!("damage {n}")).unwrap();
        opener.open().unwrap().close().await;
    }
    for n in 0..3 {
        let aside = dir.path().join(format!("{FILE}.corrupt-{}", clock.now().0 + n));
        assert_eq!(fs::read_to_string(aside).unwrap(), format!("damage {n}"));
    }
}

#[tokio::test]
async fn damage_found_in_use_is_put_aside_at_the_next_opening() {
    let dir = TempDir::new().unwrap();
    let (opener, clock) = opener(dir.path());
    let path = dir.path().join(FILE);
    let store = opener.open().unwrap();
    store
        .apply(Batch::from((0..2_000).map(|n| put(&format!("k{n}"), &"v".repeat(500))).collect::<Vec<_>>()))
        .await
        .unwrap();
    store.close().await;
    // Overwrites everything after the header, as a failing disk might.
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&vec![0xA5; usize::try_from(length).unwrap() - 4096]).unwrap();
    drop(file);

    // The damage may be detected on opening or on a read; the store is usable after at most one more opening.
    if let Ok(store) = opener.open() {
        if store.get("k7").await.is_err() {
            drop(store);
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        } else {
            store.close().await;
        }
    }
    let store = loop {
        match opener.open() {
            Ok(store) => break store,
            Err(OpenError::InUse(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    store.apply(vec![put("a", "1")].into()).await.unwrap();
    assert_eq!(store.scan("", 10, &Steps::default()).await.unwrap(), [row("a", "1")]);
    store.close().await;
    let aside = dir.path().join(format!("{FILE}.corrupt-{}", clock.now().0));
    assert_eq!(fs::metadata(aside).unwrap().len(), length);
}

#[tokio::test]
async fn a_bloated_file_shrinks_when_it_is_closed() {
    let dir = TempDir::new().unwrap();
    let (opener, _) = opener(dir.path());
    let store = opener.open().unwrap();
    let big = "x".repeat(100_000);
    store.apply(Batch::from((0..200).map(|n| put(&format!("k{n}"), &big)).collect::<Vec<_>>())).await.unwrap();
    store.apply(Batch::from((1..200).map(|n| delete(&format!("k{n}"))).collect::<Vec<_>>())).await.unwrap();
    let before = fs::metadata(dir.path().join(FILE)).unwrap().len();
    store.close().await;
    let after = fs::metadata(dir.path().join(FILE)).unwrap().len();
    assert!(before > 20_000_000 && after < before / 4, "{before} -> {after}");
    let store = opener.open().unwrap();
    assert_eq!(store.get("k0").await.unwrap(), Some(big));
    store.close().await;
}

#[tokio::test]
async fn a_directory_that_is_a_file_first_is_opened_and_merged_later() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    fs::write(&data, "in the way").unwrap();
    let clock = Arc::new(TestClock::default());
    let store = start(&data, &clock).await.unwrap();
    assert!(matches!(store.status(), StoreStatus::Degraded(reason) if reason.contains("data directory")));
    assert!(!store.write(vec![put("a", "1"), put_for("b", "1", 60), put("c", "1")]).await);
    assert!(!store.write(vec![put("a", "2"), delete("c")]).await);
    assert_eq!(store.scan("", 10).await.part(), [row("a", "2"), row("b", "1")]);

    clock.advance(Duration::from_secs(50));
    fs::remove_file(&data).unwrap();
    let ready = async {
        while store.status() != StoreStatus::Ready {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(CLOSING, ready).await.expect("the store recovers");
    assert!(store.write(vec![put("d", "1")]).await);
    store.close(CLOSING).await;

    let store = start(&data, &clock).await.unwrap();
    assert_eq!(store.scan("", 10).await.part(), [row("a", "2"), row("b", "1"), row("d", "1")]);
    clock.advance(Duration::from_secs(10));
    assert_eq!(store.get("b").await, None);
    store.close(CLOSING).await;
}

/// The number of durable writes before the process is killed.
const KILLED_AFTER: usize = 40;

/// The child process of the next test, which receives its directory on standard input. Not a test by itself.
#[tokio::test]
#[ignore = "run by acknowledged_writes_survive_a_kill"]
async fn child_that_writes_until_it_is_killed() {
    let mut dir = String::new();
    std::io::stdin().read_line(&mut dir).unwrap();
    if dir.trim().is_empty() {
        return;
    }
    let store = start(Path::new(dir.trim()), &Arc::new(TestClock::default())).await.unwrap();
    for n in 0.. {
        assert!(store.write(vec![put(&format!("{n:06}"), &n.to_string()), put("last", &n.to_string())]).await);
        println!("durable {n}");
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let dir = TempDir::new().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "embedded::tests::child_that_writes_until_it_is_killed"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{}", dir.path().display()).unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut told = Vec::new();
    let mut line = String::new();
    while told.len() < KILLED_AFTER && output.read_line(&mut line).unwrap() > 0 {
        told.extend(line.trim().rsplit_once("durable ").map(|(_, n)| n.parse::<usize>().unwrap()));
        line.clear();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let complete = rest.rfind('\n').map_or("", |end| &rest[..end]);
    told.extend(complete.lines().filter_map(|line| line.rsplit_once("durable ")?.1.parse::<usize>().ok()));
    assert!(told.len() >= KILLED_AFTER, "the child ended early: {told:?}");

    let store = start(dir.path(), &Arc::new(TestClock::default())).await.unwrap();
    for n in &told {
        assert_eq!(store.get(&format!("{n:06}")).await, Some(n.to_string()));
    }
    // A batch is applied completely or not at all: the last mark agrees with the last key.
    let keys = store.scan("0", 1_000_000).await.part();
    assert_eq!(store.get("last").await, keys.last().map(|(_, n)| n.clone()));
    store.close(CLOSING).await;
}

// === The write-ahead log ===

/// The files on disk at one moment, as another process would find them after a kill.
struct Killed {
    tables: Vec<u8>,
    log: Vec<u8>,
}

impl Killed {
    fn now(dir: &Path) -> Self {
        Self { tables: fs::read(dir.join(FILE)).unwrap(), log: fs::read(dir.join(LOG_FILE)).unwrap() }
    }

    /// Copies the files into a separate directory, with the log truncated to a length.
    fn left(&self, cut: usize) -> TempDir {
        let left = TempDir::new().unwrap();
        fs::write(left.path().join(FILE), &self.tables).unwrap();
        fs::write(left.path().join(LOG_FILE), &self.log[..cut]).unwrap();
        left
    }

    fn whole(&self) -> TempDir {
        self.left(self.log.len())
    }
}

/// Stops automatic checkpoints.
fn hold(store: &Embedded) {
    store.inner.checkpointing.store(true, Ordering::Release);
}

fn counting(number: u64, writes: Vec<Write>) -> Batch {
    Batch { writes, ticket: Some(Ticket { writer: "one".into(), number }), ..Batch::default() }
}

async fn all(store: &Embedded) -> Vec<(String, String)> {
    store.scan("", 100, &Steps::default()).await.unwrap()
}

/// Writes three batches; returns the rows before and after each.
async fn three_batches(store: &Embedded) -> [Vec<(String, String)>; 4] {
    let add = |key: &str, by: i64| Write::Add { key: key.into(), by: by.into(), ttl: None };
    let mut seen = [vec![], vec![], vec![], vec![]];
    seen[0] = all(store).await;
    store.apply(counting(1, vec![put("a", "1"), put("b", "ü"), add("n", 2)])).await.unwrap();
    seen[1] = all(store).await;
    store.apply(counting(2, vec![delete("b"), put_for("c", "3", 60), add("n", 3), add("old", 1)])).await.unwrap();
    seen[2] = all(store).await;
    store.apply(counting(3, vec![put("a", "4"), add("n", -1)])).await.unwrap();
    seen[3] = all(store).await;
    seen
}

#[tokio::test]
async fn wherever_a_crash_cuts_the_log_the_batches_before_it_hold_whole_and_once() {
    let dir = TempDir::new().unwrap();
    let store = opener(dir.path()).0.open().unwrap();
    hold(&store);
    store.apply(vec![put("old", "7"), put("kept", "k")].into()).await.unwrap();
    let inner = Arc::clone(&store.inner);
    store.call(move |database, _| inner.checkpoint(database, &mut inner.wal.lock())).await.unwrap();
    let seen = three_batches(&store).await;
    assert_eq!(seen[3], [row("a", "4"), row("c", "3"), row("kept", "k"), row("n", "4"), row("old", "8")]);

    let killed = Killed::now(dir.path());
    let mut last = 0;
    for cut in (0..=killed.log.len()).rev().step_by(5).collect::<Vec<_>>().into_iter().rev() {
        let left = killed.left(cut);
        let store = opener(left.path()).0.open().unwrap();
        let found = all(&store).await;
        let at = seen.iter().position(|seen| *seen == found).unwrap_or_else(|| panic!("cut at {cut}: {found:?}"));
        assert!(at >= last, "cut at {cut}");
        last = at;
    }
    assert_eq!(last, 3, "nothing is missing from a whole log");

    let left = killed.whole();
    for _ in 0..2 {
        let store = opener(left.path()).0.open().unwrap();
        assert_eq!(all(&store).await, seen[3], "reading the log twice changes nothing");
        store.apply(counting(3, vec![Write::Add { key: "n".into(), by: (-1).into(), ttl: None }])).await.unwrap();
        assert_eq!(store.get("n").await.unwrap().as_deref(), Some("4"), "a batch is counted once, over reopening too");
        store.close().await;
        assert_eq!(fs::metadata(left.path().join(LOG_FILE)).unwrap().len(), 0);
    }
}

#[tokio::test]
async fn the_log_moves_into_the_tables_by_itself_and_is_written_from_its_beginning_again() {
    let dir = TempDir::new().unwrap();
    let store = opener(dir.path()).0.open().unwrap();
    let log = || fs::read(dir.path().join(LOG_FILE)).unwrap();
    three_batches(&store).await;
    let before = (all(&store).await, log());
    tokio::time::timeout(CLOSING, async {
        while !store.inner.memtable.read().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the checkpoint needs no further write");
    assert_eq!(all(&store).await, before.0);
    hold(&store);
    store.apply(vec![put("z", "9")].into()).await.unwrap();
    let after = log();
    assert_eq!(after.len(), before.1.len(), "the space is reused");
    assert_ne!(after, before.1);
    let mut expected = before.0;
    expected.push(row("z", "9"));
    let left = Killed::now(dir.path()).whole();
    assert_eq!(all(&opener(left.path()).0.open().unwrap()).await, expected);
}

#[tokio::test]
async fn a_log_that_is_large_moves_at_once() {
    let dir = TempDir::new().unwrap();
    let store = opener(dir.path()).0.open().unwrap();
    store.apply(vec![put("large", &"x".repeat(5 * 1024 * 1024))].into()).await.unwrap();
    assert!(store.inner.memtable.read().is_empty());
    store.apply(Batch::from((0..10_000).map(|n| put(&format!("k{n}"), "")).collect::<Vec<_>>())).await.unwrap();
    assert!(store.inner.memtable.read().is_empty());
    assert_eq!(store.get("k9999").await.unwrap().as_deref(), Some(""));
}

#[tokio::test]
async fn a_file_of_the_version_before_is_read_and_a_log_that_is_not_its_own_is_not() {
    let dir = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    let store = opener(other.path()).0.open().unwrap();
    store.apply(vec![put("foreign", "x")].into()).await.unwrap();
    fs::copy(other.path().join(LOG_FILE), dir.path().join(LOG_FILE)).unwrap();
    {
        let database = Database::create(dir.path().join(FILE)).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(VALUES).unwrap().insert("a", (0, "1")).unwrap();
        transaction.open_table(ENDS).unwrap().insert((7, "a"), ()).unwrap();
        transaction.open_table(APPLIED).unwrap().insert("before", 3).unwrap();
        transaction.commit().unwrap();
    }
    let store = opener(dir.path()).0.open().unwrap();
    assert_eq!(all(&store).await, [row("a", "1")]);
    hold(&store);
    store.apply(vec![put("b", "2")].into()).await.unwrap();
    let left = Killed::now(dir.path()).whole();
    assert_eq!(all(&opener(left.path()).0.open().unwrap()).await, [row("a", "1"), row("b", "2")]);
}

#[tokio::test]
async fn a_copy_is_of_one_moment_while_others_write() {
    let dir = TempDir::new().unwrap();
    let store = Arc::new(Opener::new(dir.path(), Arc::new(TestClock::default())).open().unwrap());
    // Two keys at opposite ends that are only written together, with many between them.
    let pair = |round: usize| vec![put("a", &round.to_string()), put("z", &round.to_string())];
    store
        .apply((0..2_000).map(|key| put(&format!("k{key}"), "x")).chain(pair(0)).collect::<Vec<_>>().into())
        .await
        .unwrap();
    let writer = Arc::clone(&store);
    let writing = tokio::spawn(async move {
        for round in 1.. {
            writer.apply(vec![put("a", &round.to_string()), put("z", &round.to_string())].into()).await.unwrap();
        }
    });
    for _ in 0..5 {
        let (to, mut rows) = tokio::sync::mpsc::channel(1);
        let copying = Arc::clone(&store);
        let copied = tokio::spawn(async move { copying.copy(to).await });
        let mut kept = std::collections::BTreeMap::new();
        while let Some(row) = rows.recv().await {
            kept.insert(row.key, row.value);
        }
        copied.await.unwrap().unwrap();
        assert_eq!((kept.len(), &kept["a"]), (2_002, &kept["z"]));
    }
    // Dropping the receiver ends a copy.
    let (to, rows) = tokio::sync::mpsc::channel(1);
    drop(rows);
    store.copy(to).await.unwrap();
    writing.abort();
}
