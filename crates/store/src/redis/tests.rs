use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use self::server::Server;
use super::lease::{ALONE_TERM, Lease, LeaseAnswer, LeaseFault, SHARED_FOR, TERM};
use super::opener::Opener;
use super::*;
use crate::Ticket;
use crate::resilient::Resilient;
use crate::suite::{self, Bench, CLOSING, Opened, TestClock, add, add_for, delete, put, put_for, row};
use domain::ids::Door;
use domain::ownership::{Portion, Portions};
use ports::{OwnedStore as _, Pace, Peers as _, Replaced, Store as _, Stored, Unreadable, WriteOutcome};
use proptest::prelude::*;

#[path = "../../../../tests/redis/server.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
pub mod server;

/// The server's time is real, so keys are not read shortly before their expiry.
const EDGE: Duration = Duration::from_secs(5);

/// Shortens every TTL on the server by this many milliseconds.
const AGE: &str = "for _, key in ipairs(redis.call('KEYS', '*')) do \
                       local left = redis.call('PTTL', key) \
                       if left > 0 then redis.call('PEXPIRE', key, left - tonumber(ARGV[1])) end \
                   end";

fn opener(server: &Server) -> Opener {
    Opener::new(&SecretString::from(server.url())).unwrap()
}

fn bench(server: &Arc<Server>) -> Bench {
    let clock = Arc::new(TestClock::default());
    let (there, used) = (Arc::clone(server), Arc::clone(&clock));
    let open = move || {
        let (opener, clock) = (opener(&there), Arc::clone(&used));
        let opened = async move {
            let store = Resilient::start_with(move || opener.open(), clock, bounds()).await.unwrap();
            Box::new(store) as Box<dyn Opened>
        };
        Box::pin(opened) as futures_util::future::BoxFuture<'static, _>
    };
    let there = Arc::clone(server);
    let pass = move |by: Duration| {
        clock.advance(by);
        there.words::<()>(&["EVAL", AGE, "0", &by.as_millis().to_string()]);
    };
    Bench { pass: Box::new(pass), edge: EDGE, open: Box::new(open) }
}

macro_rules! behaves {
    ($($name:ident),+) => {$(
        #[tokio::test]
        async fn $name() {
            let server = Arc::new(Server::start());
            suite::$name(bench(&server)).await;
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

/// Another program wrote them.
#[tokio::test]
async fn a_value_that_is_not_text_is_not_absent_and_never_lost() {
    let server = Server::start();
    let opener = opener(&server);
    let store = Resilient::start_with(move || opener.open(), Arc::new(TestClock::default()), bounds()).await.unwrap();
    let _: i64 = server.ask("HSET discord_context:1:1 role user");
    let _: Option<String> = server.words(&["EVAL", "redis.call('SET', 'discord_context:1:2', '\\255')", "0"]);
    for key in ["discord_context:1:1", "discord_context:1:2"] {
        assert_eq!(store.read(key).await, Stored::Unreadable(Unreadable::NotText), "{key}");
        assert!(store.write(vec![Write::Join { key: key.to_owned(), value: "[]".to_owned(), ttl: None }]).await);
        assert_eq!(store.read(key).await, Stored::Value("[]".to_owned()), "{key}");
    }
    assert_eq!(store.read("discord_context:1:3").await, Stored::Absent);
    let aside = domain::keys::quarantine("discord_context:1:1");
    assert_eq!(server.ask::<String>(&format!("HGET {aside} role")), "user");
    assert!((1..=604_800).contains(&server.ask::<i64>(&format!("TTL {aside}"))));
    let aside = domain::keys::quarantine("discord_context:1:2");
    assert_eq!(server.ask::<Vec<u8>>(&format!("GET {aside}")), [255]);
    assert_eq!(store.status(), ports::StoreStatus::Ready);
    store.close(CLOSING).await;
}

#[tokio::test]
async fn a_prefix_is_taken_literally() {
    let server = Server::start();
    let store = opener(&server).open().unwrap();
    for prefix in ["*", "?", "[ab]", "[^a]", "\\", "a\\*", "^", "a-b", "{a}"] {
        let key = format!("{prefix}:1");
        store
            .apply(["aa:1", "b:1", "x:1", "^:1", "a*:1", &key].map(|key| put(key, "v")).to_vec().into())
            .await
            .unwrap();
        assert_eq!(
            store.scan(&format!("{prefix}:"), 10, &Steps::default()).await.unwrap(),
            [row(&key, "v")],
            "{prefix}"
        );
    }
    store.close().await;
}

#[tokio::test]
async fn several_prefixes_are_found_in_one_pass() {
    let server = Server::start();
    let store = opener(&server).open().unwrap();
    let kinds = ["one:7:", "two:7:", "none:7:"];
    let mut writes: Vec<_> = (0..3 * scanning::PAGE).map(|n| put(&format!("other:{n}"), "v")).collect();
    writes.extend(["one:7:b", "one:7:a", "two:7:a", "two:77:a", "one:8:7:a"].map(|key| put(key, "v")));
    store.apply(Batch::from(writes)).await.unwrap();
    let passes = || -> usize {
        let told: String = server.words(&["INFO", "commandstats"]);
        let scans = told.lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls="));
        scans.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    };
    let found = store.scan_many(&kinds, 10, &Steps::default()).await.unwrap();
    let wanted = vec![vec![row("one:7:a", "v"), row("one:7:b", "v")], vec![row("two:7:a", "v")], Vec::new()];
    assert_eq!(found, Scanned::new(wanted, true));
    let pages = passes();
    store.scan("one:7:", 10, &Steps::default()).await.unwrap();
    assert_eq!(passes(), pages * 2, "as many pages as for one prefix");
    store.close().await;
}

#[tokio::test]
async fn a_scan_finds_the_first_of_more_keys_than_a_page_has() {
    let server = Server::start();
    let store = opener(&server).open().unwrap();
    let keys: Vec<String> = (0..3 * scanning::PAGE).map(|n| format!("k{n:05}")).collect();
    store.apply(Batch::from(keys.iter().map(|key| put(key, "v")).collect::<Vec<_>>())).await.unwrap();
    let _: i64 = server.ask("DEL k00001");
    let _: i64 = server.ask("RPUSH k00001 other");
    let mut wanted: Vec<_> = keys.iter().map(|key| row(key, "v")).collect();
    wanted.remove(1);
    assert_eq!(store.scan("k", scanning::FETCH + 7, &Steps::default()).await.unwrap(), wanted[..scanning::FETCH + 7]);
    assert_eq!(store.scan("k", usize::MAX, &Steps::default()).await.unwrap(), wanted);
    store.close().await;
}

#[tokio::test]
async fn what_is_no_text_is_passed_on_or_left_out() {
    let server = Server::start();
    let store = opener(&server).open().unwrap();
    let mut somebody = server.connection();
    cmd("SET").arg("a").arg(b"\xff\x00x".as_slice()).exec(&mut somebody).unwrap();
    cmd("SET").arg(b"a\xff".as_slice()).arg("v").exec(&mut somebody).unwrap();
    assert!(matches!(store.get("a").await, Err(BackendError::NotText(_))));
    assert_eq!(store.scan("a", 10, &Steps::default()).await.unwrap(), [row("a", "\u{fffd}\0x")]);
    store.close().await;
}

#[tokio::test]
async fn lives_of_any_length_are_taken() {
    let server = Server::start();
    let store = opener(&server).open().unwrap();
    let of = |key: &str, ttl: Duration| Write::Put { key: key.into(), value: "v".into(), ttl: Some(ttl) };
    let writes =
        vec![put("gone", "old"), of("gone", Duration::ZERO), of("long", Duration::MAX), put_for("ten", "v", 10)];
    store.apply(writes.into()).await.unwrap();
    assert_eq!(store.scan("", 10, &Steps::default()).await.unwrap(), [row("long", "v"), row("ten", "v")]);
    let left: i64 = server.ask("PTTL ten");
    assert!((5_000..=10_000).contains(&left), "{left}");
    assert!(server.ask::<i64>("PTTL long") > 1_000_000_000);
    store.apply(vec![put("ten", "for ever")].into()).await.unwrap();
    assert_eq!(server.ask::<i64>("PTTL ten"), -1);
    store.close().await;
}

#[tokio::test]
async fn a_refused_batch_leaves_nothing_behind() {
    let server = Server::start();
    let store = opener(&server).open().unwrap();
    store.apply(vec![put("a", "1")].into()).await.unwrap();
    let _: () = server.ask("CONFIG SET maxmemory 1");
    let error = store.apply(vec![delete("a"), put("b", "2")].into()).await.unwrap_err();
    let BackendError::Failed(text) = error else { panic!("{error:?}") };
    assert!(text.contains("out of memory") && text.contains(&server.address().to_string()), "{text}");
    let _: () = server.ask("CONFIG SET maxmemory 0");
    assert_eq!(store.scan("", 10, &Steps::default()).await.unwrap(), [row("a", "1")]);
    let many: Vec<_> = (0..1_000).map(|n| put(&n.to_string(), "v")).collect();
    let _: () = server.ask("CONFIG SET maxmemory 1");
    let text = store.apply(Batch::from(many)).await.unwrap_err().to_string();
    assert!(text.len() < 300, "{text}");
    store.close().await;
    assert!(store.get("a").await.is_err());
}

#[tokio::test]
async fn a_batch_that_is_applied_again_counts_once() {
    let server = Server::start();
    let store = opener(&server).open().unwrap();
    let batch = |writer: &str, number| Batch {
        writes: vec![add("a", 2), add_for("b", 3, 60), put("c", "x")],
        ticket: Some(Ticket { writer: writer.into(), number }),
        ..Batch::default()
    };
    for (writer, number, sum) in [("one", 1, "2"), ("one", 1, "2"), ("two", 1, "4"), ("one", 1, "4"), ("one", 2, "6")] {
        store.apply(batch(writer, number)).await.unwrap();
        assert_eq!(store.get("a").await.unwrap().as_deref(), Some(sum), "{writer} {number}");
    }
    assert_eq!(store.get("b").await.unwrap().as_deref(), Some("9"));
    assert!((1..=60).contains(&server.ask::<i64>("TTL b")));
    assert!(server.ask::<i64>("TTL staffai:applied:one") > 3_600);
    store.close().await;
}

#[tokio::test]
async fn keys_of_other_types_become_counters() {
    let server = Server::start();
    let store = opener(&server).open().unwrap();
    let _: i64 = server.ask("RPUSH list x");
    let _: i64 = server.ask("ZADD set 1 x");
    let _: i64 = server.ask("HSET hash x 1");
    let _: () = server.ask("SET zeros 007");
    let _: () = server.ask("SET large 123456789012345678901234567890");
    let keys = ["hash", "large", "list", "set", "zeros"];
    store.apply(keys.map(|key| add_for(key, 7, 60)).to_vec().into()).await.unwrap();
    assert_eq!(store.scan("", 10, &Steps::default()).await.unwrap(), keys.map(|key| row(key, "7")));
    store.close().await;
}

#[tokio::test]
async fn a_full_server_counts_nothing_and_then_once() {
    let server = Server::start();
    let store = opener(&server).open().unwrap();
    let batch = Batch {
        writes: vec![add("a", 2)],
        ticket: Some(Ticket { writer: "one".into(), number: 1 }),
        ..Batch::default()
    };
    let _: () = server.ask("CONFIG SET maxmemory 1");
    store.apply(batch.clone()).await.unwrap_err();
    let _: () = server.ask("CONFIG SET maxmemory 0");
    assert_eq!(store.get("a").await.unwrap(), None);
    store.apply(batch).await.unwrap();
    assert_eq!(store.get("a").await.unwrap().as_deref(), Some("2"));
    store.close().await;
}

#[tokio::test]
async fn of_two_processes_the_second_one_fences_the_first() {
    let server = Arc::new(Server::start());
    let bench = bench(&server);
    let range = Range::Door(Door::new("d"));
    let (one, other) = ((bench.open)().await, (bench.open)().await);
    one.own(vec![range.clone()]);
    one.owned().await;
    assert_eq!(one.write_under(&range, vec![put("a", "one"), add("n", 1)], Pace::Now).await, WriteOutcome::Durable);
    other.own(vec![range.clone()]);
    other.owned().await;
    assert!(one.token(&range) < other.token(&range));
    let late = one.write_under(&range, vec![put("a", "one, late"), add("n", 10)], Pace::Now);
    assert_eq!(late.await, WriteOutcome::Fenced);
    assert_eq!(
        other.write_under(&range, vec![put("b", "other"), add("n", 100)], Pace::Now).await,
        WriteOutcome::Durable
    );
    for store in [one, other] {
        assert_eq!(store.get("a").await.as_deref(), Some("one"));
        assert_eq!(store.get("n").await.as_deref(), Some("101"));
        store.close(CLOSING).await;
    }
}

#[tokio::test]
async fn an_owner_that_writes_nothing_learns_of_the_next_one_with_its_next_sweep() {
    let server = Arc::new(Server::start());
    let open = || async {
        let opener = opener(&server);
        let limits = StoreBounds { sweep: Duration::from_millis(50), ..super::bounds() };
        Resilient::start_with(move || opener.open(), Arc::new(TestClock::default()), limits).await.unwrap()
    };
    let range = Range::Door(Door::new("d"));
    let (one, other) = (open().await, open().await);
    one.own(vec![range.clone()]);
    one.owned().await;
    let mut fenced = one.fenced();
    assert!(fenced.borrow_and_update().is_empty());
    other.own(vec![range.clone()]);
    fenced.changed().await.unwrap();
    assert_eq!(*fenced.borrow(), [range]);
    one.close(CLOSING).await;
    other.close(CLOSING).await;
}

#[tokio::test]
async fn a_new_owner_fences_the_former_one_after_the_server_lost_its_data() {
    let server = Arc::new(Server::start());
    let bench = bench(&server);
    let range = Range::Door(Door::new("d"));
    let (former, new) = ((bench.open)().await, (bench.open)().await);
    former.own(vec![range.clone()]);
    former.owned().await;
    assert_eq!(server.ask::<String>("FLUSHALL"), "OK");
    new.own(vec![range.clone()]);
    new.owned().await;
    assert_eq!(former.write_under(&range, vec![put("a", "1")], Pace::Now).await, WriteOutcome::Fenced);
    assert_eq!(new.write_under(&range, vec![put("a", "2")], Pace::Now).await, WriteOutcome::Durable);
    former.close(CLOSING).await;
    new.close(CLOSING).await;
}

fn lease(server: &Server, name: &str) -> Lease {
    Lease::new(opener(server).open().unwrap(), name.to_owned())
}

async fn take(lease: &Lease, stands_by: bool) -> LeaseAnswer {
    lease.take(stands_by).await.unwrap()
}

const fn held(awaited: bool) -> LeaseAnswer {
    LeaseAnswer::Held { awaited }
}

fn elsewhere(holder: &str) -> LeaseAnswer {
    LeaseAnswer::Elsewhere(holder.to_owned())
}

#[tokio::test]
async fn one_process_holds_the_lease_and_learns_that_another_one_waits() {
    let server = Server::start();
    let [one, two, three] = ["one", "two", "three"].map(|name| lease(&server, name));
    assert_eq!((take(&one, false).await, take(&one, false).await), (held(false), held(false)));
    assert_eq!((take(&two, true).await, take(&one, false).await), (elsewhere("one"), held(true)));
    three.release().await.unwrap();
    assert_eq!(take(&three, true).await, elsewhere("one"), "only its holder releases it");
    one.release().await.unwrap();
    assert_eq!((take(&two, true).await, take(&one, true).await), (held(true), elsewhere("two")));
    one.release().await.unwrap();
    assert_eq!(take(&two, false).await, held(false), "a process that ended waits no longer");
    assert_eq!(server.ask::<u32>("DEL staffai:lease"), 1);
    assert_eq!(server.ask::<String>("SET staffai:lease words"), "OK");
    assert_eq!(take(&two, false).await, held(false), "a record of another type is replaced");
    two.release().await.unwrap();
    assert_eq!(take(&three, true).await, elsewhere(""), "it did not stand by then, and the holder may be back");
}

#[tokio::test]
async fn a_term_ends_by_the_clock_of_the_server() {
    let server = Server::start();
    let [one, two] = ["one", "two"].map(|name| lease(&server, name));
    assert_eq!(take(&one, false).await, held(false));
    let begun = tokio::time::Instant::now();
    while take(&two, true).await == elsewhere("one") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() + Duration::from_millis(100) >= TERM);
    assert_eq!(take(&one, false).await, elsewhere("two"));
}

#[tokio::test]
async fn a_term_of_a_clock_that_was_set_back_ends_after_one_term() {
    let server = Server::start();
    let two = lease(&server, "two");
    let [seconds, _] = <[u64; 2]>::try_from(server.ask::<Vec<u64>>("TIME")).unwrap();
    let later = (seconds + 3_600) * 1_000;
    assert_eq!(server.ask::<u32>(&format!("HSET staffai:lease holder gone until {later}")), 2);
    assert_eq!(take(&two, true).await, elsewhere("gone"));
    tokio::time::sleep(TERM).await;
    assert_eq!(take(&two, true).await, held(false));
}

#[tokio::test]
async fn the_holder_renews_a_lease_that_the_server_lost_before_another_process_takes_it() {
    let server = Server::start();
    let [one, two] = ["one", "two"].map(|name| lease(&server, name));
    assert_eq!((take(&one, false).await, take(&two, true).await), (held(false), elsewhere("one")));
    assert_eq!(server.ask::<String>("FLUSHALL"), "OK");
    assert_eq!((take(&two, true).await, take(&one, false).await), (elsewhere(""), held(true)));
    assert_eq!(server.ask::<String>("FLUSHALL"), "OK");
    assert_eq!(take(&two, true).await, elsewhere(""));
    tokio::time::sleep(TERM).await;
    assert_eq!(take(&two, true).await, held(false), "no holder came");
}

#[tokio::test]
async fn one_data_directory_has_the_right_to_start_alone() {
    let server = Server::start();
    let process = lease(&server, "process");
    let [one, two] = ["one", "two"].map(|name| process.alone(name.to_owned()));
    assert_eq!(take(&process, false).await, held(false), "the lease of the active process is another one");
    assert_eq!((take(&one, false).await, take(&one, false).await), (held(false), held(false)));
    assert_eq!(take(&two, false).await, elsewhere("one"));
    let left: u64 = server.ask("PTTL staffai:alone");
    assert!(u128::from(left) > ALONE_TERM.saturating_sub(EDGE).as_millis(), "{left}");
    one.release().await.unwrap();
    assert_eq!((take(&two, false).await, take(&one, false).await), (held(false), elsewhere("two")));
}

/// Timeout of a step on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn divided(server: &Server, name: &str, ranges: u32) -> Lease {
    lease(server, name).divided(ranges)
}

/// Returns the ranges that this process holds now, or the holder of what it asked for.
async fn range(lease: &Lease, stands_by: bool) -> Result<Vec<u32>, String> {
    match take(lease, stands_by).await {
        LeaseAnswer::Held { .. } => Ok(lease.portions().iter().map(|portion| portion.number).collect()),
        LeaseAnswer::Elsewhere(holder) => Err(holder),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with an answer")]
fn only(number: u32) -> Result<Vec<u32>, String> {
    Ok(vec![number])
}

/// Returns the names of the holders of all ranges.
async fn holders(lease: &Lease) -> Vec<Option<String>> {
    lease.ranges().await.unwrap().into_iter().map(|range| range.holder).collect()
}

fn named(names: &[Option<&str>]) -> Vec<Option<String>> {
    names.iter().map(|name| name.map(str::to_owned)).collect()
}

#[tokio::test]
async fn each_range_has_one_holder_and_a_spare_process_takes_the_first_free_one() {
    let server = Server::start();
    let [one, two, three] = ["one", "two", "three"].map(|name| divided(&server, name, 2));
    assert_eq!(
        (range(&one, false).await, range(&two, false).await, range(&one, false).await),
        (only(0), only(1), only(0))
    );
    assert_eq!((take(&one, false).await, one.portions()), (held(false), Portions::none(2).with(0)));
    let full = Err("the division into 2 ranges".to_owned());
    assert_eq!((range(&three, false).await, range(&three, true).await), (full.clone(), full.clone()));
    assert!(three.has_division("the division into 2 ranges") && !three.has_division("one"));
    assert_eq!((take(&one, false).await, take(&two, false).await), (held(true), held(true)));
    assert_eq!(holders(&three).await, named(&[Some("one"), Some("two")]));
    three.release().await.unwrap();
    assert_eq!(take(&two, false).await, held(false), "a process that ended waits no longer");
    assert_eq!(range(&three, true).await, full, "only its holder releases a range");
    two.release().await.unwrap();
    assert_eq!(holders(&three).await, named(&[Some("one"), None]));
    assert_eq!((range(&three, true).await, take(&one, false).await), (only(1), held(false)));
    assert_eq!(range(&two, true).await, Err("three".to_owned()), "its range has another holder");
}

#[tokio::test]
async fn a_range_whose_holder_is_silent_is_free_after_its_term_and_the_others_stay() {
    let server = Server::start();
    let [one, two, three] = ["one", "two", "three"].map(|name| divided(&server, name, 2));
    assert_eq!((range(&one, false).await, range(&two, false).await), (only(0), only(1)));
    let begun = tokio::time::Instant::now();
    while range(&three, true).await.is_err() {
        assert_eq!(range(&one, false).await, only(0));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() + Duration::from_millis(100) >= TERM && begun.elapsed() < TERM * 2);
    assert_eq!((range(&two, false).await, range(&one, false).await), (Err("three".to_owned()), only(0)));
    assert_eq!(holders(&one).await, named(&[Some("one"), Some("three")]));
}

#[tokio::test]
async fn a_range_of_a_clock_that_was_set_back_is_free_after_one_term() {
    let server = Server::start();
    let [one, two, three] = ["one", "two", "three"].map(|name| divided(&server, name, 2));
    assert_eq!((range(&one, false).await, range(&two, false).await), (only(0), only(1)));
    assert!(range(&three, true).await.is_err());
    // All times in the record are those of a clock that was an hour ahead.
    let ahead = "for _, field in ipairs({'until', 'until:0', 'until:1', 'next'}) do \
                     redis.call('HINCRBY', KEYS[1], field, 3600000) end";
    server.words::<()>(&["EVAL", ahead, "1", domain::keys::LEASE]);
    let begun = tokio::time::Instant::now();
    while range(&three, true).await.is_err() {
        assert_eq!(range(&one, false).await, only(0));
        assert!(begun.elapsed() < TERM * 2, "the range of a dead process is free after one term");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(holders(&one).await, named(&[Some("one"), Some("three")]));
}

#[tokio::test]
async fn no_process_of_another_division_holds_anything_beside_one() {
    let server = Server::start();
    let [one, two] = ["one", "two"].map(|name| divided(&server, name, 2));
    let (whole, third) = (lease(&server, "whole"), divided(&server, "third", 3));
    assert_eq!((range(&one, false).await, range(&two, false).await), (only(0), only(1)));
    let division = elsewhere("the division into 2 ranges");
    assert_eq!((take(&whole, true).await, take(&third, true).await), (division.clone(), division.clone()));
    one.release().await.unwrap();
    assert_eq!((take(&whole, true).await, take(&third, false).await), (division.clone(), division), "two still acts");
    two.release().await.unwrap();
    // It stood by when the last range was released.
    assert_eq!((take(&whole, true).await, whole.portions()), (held(true), Portions::WHOLE));
    assert!(third.ranges().await.unwrap().is_empty());
    assert_eq!((take(&third, true).await, take(&one, false).await), (elsewhere("whole"), elsewhere("whole")));
    whole.release().await.unwrap();
    assert_eq!((range(&third, true).await, range(&divided(&server, "fourth", 3), true).await), (only(0), only(1)));
    assert_eq!(take(&whole, false).await, elsewhere("the division into 3 ranges"));
    assert_eq!(holders(&whole).await, named(&[Some("third"), Some("fourth"), None]));
}

#[tokio::test]
async fn processes_that_stand_by_divide_the_work_after_the_term_of_another_division_or_of_a_lost_record() {
    let server = Server::start();
    let (whole, processes) = (lease(&server, "whole"), [divided(&server, "one", 2), divided(&server, "two", 2)]);
    for lost in [false, true] {
        assert_eq!(take(&whole, false).await, held(false));
        if lost {
            assert_eq!(server.ask::<String>("FLUSHALL"), "OK");
        }
        let begun = tokio::time::Instant::now();
        let mut ranges = [None, None];
        while ranges.contains(&None) {
            for (process, range) in processes.iter().zip(&mut ranges) {
                let LeaseAnswer::Held { .. } = take(process, true).await else { continue };
                *range = process.portions().iter().next().map(|portion| portion.number);
            }
            assert!(begun.elapsed() < TERM + Duration::from_millis(500), "{ranges:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        ranges.sort_unstable();
        assert!(ranges == [Some(0), Some(1)] && begun.elapsed() + Duration::from_millis(100) >= TERM);
        assert_eq!(take(&whole, true).await, elsewhere("the division into 2 ranges"));
        for process in &processes {
            process.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn holders_renew_ranges_that_the_server_lost_before_another_process_takes_one() {
    let server = Server::start();
    let [one, two, three] = ["one", "two", "three"].map(|name| divided(&server, name, 2));
    assert_eq!((range(&one, false).await, range(&two, false).await), (only(0), only(1)));
    assert_eq!(one.agree_on_shards(4).await, Ok(4));
    assert_eq!(server.ask::<String>("FLUSHALL"), "OK");
    assert_eq!(range(&three, true).await, Err(String::new()));
    assert_eq!(range(&one, false).await, only(0));
    assert!(range(&three, true).await.is_err(), "the second holder may come");
    assert_eq!((range(&two, false).await, two.agree_on_shards(6).await), (only(1), Ok(4)));
    assert_eq!(server.ask::<String>("FLUSHALL"), "OK");
    assert_eq!(range(&one, false).await, only(0));
    while range(&three, true).await.is_err() {
        assert_eq!(range(&one, false).await, only(0));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(range(&two, false).await, Err("three".to_owned()));
}

#[tokio::test]
async fn of_a_record_that_the_server_lost_all_released_ranges_are_free_immediately() {
    let server = Server::start();
    let [one, two, three, four, five] = ["one", "two", "three", "four", "five"].map(|name| divided(&server, name, 3));
    let taken = [range(&one, false).await, range(&two, false).await, range(&three, false).await];
    assert_eq!(taken, [only(0), only(1), only(2)]);
    assert_eq!(server.ask::<String>("FLUSHALL"), "OK");
    let begun = tokio::time::Instant::now();
    let renewed = [range(&one, false).await, range(&two, false).await, range(&three, false).await];
    assert_eq!(renewed, taken);
    one.release().await.unwrap();
    two.release().await.unwrap();
    let spares = [range(&four, true).await, range(&five, true).await];
    assert!(begun.elapsed() < TERM, "the holders of the lost record may still come");
    assert_eq!(spares, [only(0), only(1)]);
}

#[tokio::test]
async fn many_processes_that_start_at_once_hold_different_ranges() {
    let server = Server::start();
    let processes: Vec<_> = (0..24).map(|number| divided(&server, &format!("p{number}"), 16)).collect();
    let taken = futures_util::future::join_all(processes.iter().map(|process| range(process, false))).await;
    let mut ranges: Vec<u32> = taken.into_iter().flatten().flatten().collect();
    ranges.sort_unstable();
    assert_eq!(ranges, (0..16).collect::<Vec<_>>());
}

/// The longest time of a move.
const MOVE_MAX: Duration = Duration::from_secs(10);

/// Renews the leases of these processes until it holds, and checks that no range has two holders.
async fn renew_until(processes: &[&Lease], what: &str, holds: impl Fn() -> bool) {
    let begun = tokio::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        for process in processes {
            take(process, process.portions().is_empty()).await;
        }
        let held: u32 = processes.iter().map(|process| process.portions().count()).sum();
        let all = processes.iter().flat_map(|process| process.portions().iter()).map(|portion| portion.number);
        assert_eq!(all.collect::<std::collections::HashSet<_>>().len(), held as usize, "one holder for each range");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the number of ranges of each process.
fn counts(processes: &[&Lease]) -> Vec<u32> {
    processes.iter().map(|process| process.portions().count()).collect()
}

/// Lets each process in turn give one range away until none has to; returns the number of moves.
async fn balance(processes: &[&Lease]) -> usize {
    let mut moves = 0;
    loop {
        let mut given = Vec::new();
        for process in processes {
            if let Some(portion) = process.give(MOVE_MAX).await.unwrap() {
                given.push((process, portion));
            }
        }
        let Some((process, portion)) = given.pop() else { return moves };
        assert!(given.is_empty(), "one range moves at a time");
        process.release_one(portion).await.unwrap();
        let held = || counts(processes).iter().sum::<u32>() == portion.of;
        renew_until(processes, "the range has a new holder", held).await;
        moves += 1;
    }
}

#[tokio::test]
async fn a_process_takes_the_ranges_for_which_no_other_one_stands_by() {
    let server = Server::start();
    let [one, two, spare] = ["one", "two", "spare"].map(|name| divided(&server, name, 5));
    assert_eq!((range(&one, false).await, range(&one, false).await), (only(0), only(0)), "others may start, too");
    let begun = tokio::time::Instant::now();
    renew_until(&[&one], "it takes all of them", || one.portions().count() == 5).await;
    assert!(begun.elapsed() + Duration::from_millis(100) >= TERM);
    assert!(range(&two, true).await.is_err());
    one.release().await.unwrap();
    assert_eq!((range(&two, true).await, range(&spare, true).await), (only(0), only(1)));
    renew_until(&[&two, &spare], "each takes a share", || counts(&[&two, &spare]).iter().sum::<u32>() == 5).await;
    assert!(counts(&[&two, &spare]).iter().all(|count| *count > 0));
    // Of two processes that end, both ranges are taken by the last one.
    let [survivor] = ["survivor"].map(|name| divided(&server, name, 5));
    assert!(range(&survivor, true).await.is_err());
    renew_until(&[&survivor], "it takes the first free one", || !survivor.portions().is_empty()).await;
    renew_until(&[&survivor], "it takes all of them", || survivor.portions().count() == 5).await;
    let moves: u64 = survivor.ranges().await.unwrap().iter().map(|range| range.moves).sum();
    assert_eq!(moves, 5, "each range moved once since the division began");
}

#[tokio::test]
async fn ranges_move_one_at_a_time_until_all_processes_have_an_equal_share() {
    let server = Server::start();
    let [one, two, three] = ["one", "two", "three"].map(|name| divided(&server, name, 8));
    range(&one, false).await.unwrap();
    renew_until(&[&one], "it takes all of them", || one.portions().count() == 8).await;
    assert_eq!(balance(&[&one]).await, 0, "there is no other process");
    assert!(range(&two, true).await.is_err());
    assert_eq!((balance(&[&one, &two]).await, counts(&[&one, &two])), (4, vec![4, 4]));
    assert!(range(&three, true).await.is_err());
    assert_eq!(balance(&[&one, &two, &three]).await, 2);
    let mut shares = counts(&[&one, &two, &three]);
    shares.sort_unstable();
    assert_eq!(shares, [2, 3, 3]);
    assert!(one.portions().is_first(), "the first range stays");

    // A range that is given to a process which ended is free for the others after one term.
    two.release().await.unwrap();
    renew_until(&[&one, &three], "they share its ranges", || counts(&[&one, &three]) == [4, 4]).await;
    let late = divided(&server, "late", 8);
    assert!(range(&late, true).await.is_err());
    let mut given = Vec::new();
    for process in [&one, &three] {
        given.extend(process.give(MOVE_MAX).await.unwrap().map(|portion| (process, portion)));
    }
    let (process, portion) = given.pop().unwrap();
    process.release_one(portion).await.unwrap();
    let begun = tokio::time::Instant::now();
    let all = || counts(&[&one, &three]).iter().sum::<u32>() == 8;
    renew_until(&[&one, &three], "one of them takes it again", all).await;
    assert!(begun.elapsed() + Duration::from_millis(100) >= TERM, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn processes_agree_on_shards_while_one_runs_and_share_the_buckets_of_identifies() {
    let server = Server::start();
    let [one, two] = ["one", "two"].map(|name| divided(&server, name, 2));
    assert!(one.agree_on_shards(4).await.is_err(), "it holds no range");
    assert_eq!((range(&one, false).await, range(&two, false).await), (only(0), only(1)));
    assert_eq!((one.agree_on_shards(4).await, two.agree_on_shards(6).await), (Ok(4), Ok(4)));
    one.release().await.unwrap();
    assert_eq!(two.agree_on_shards(8).await, Ok(4), "it still runs");

    let pause = Duration::from_millis(300);
    assert_eq!(one.reserve_identify(0, pause).await, Ok(Duration::ZERO));
    assert_eq!(two.reserve_identify(1, pause).await, Ok(Duration::ZERO));
    let rest = two.reserve_identify(0, pause).await.unwrap();
    assert!(!rest.is_zero() && rest <= pause, "{rest:?}");
    tokio::time::sleep(rest + Duration::from_millis(20)).await;
    assert_eq!(two.reserve_identify(0, pause).await, Ok(Duration::ZERO));
}

#[tokio::test]
async fn damaged_records_of_a_division_hang_and_mislead_no_process() {
    let server = Server::start();
    let one = divided(&server, "one", 2);
    let doors = [Door::new("d")];
    // Four thousand million ranges would take days.
    assert_eq!(server.ask::<u32>("SADD staffai:divisions 4000000000 some 0 3"), 4);
    tokio::time::timeout(PATIENCE, one.end_other_divisions(&doors)).await.expect("it ends").unwrap();
    assert!(
        server.ask::<bool>("SISMEMBER staffai:divisions 2") && !server.ask::<bool>("SISMEMBER staffai:divisions 3")
    );
    assert_eq!(server.ask::<String>("SET staffai:divisions text"), "OK");
    one.end_other_divisions(&doors).await.unwrap();
    assert!(server.ask::<bool>("SISMEMBER staffai:divisions 2"));

    assert_eq!(range(&one, false).await, only(0));
    for shards in ["3", "4000000000"] {
        let _: u32 = server.ask(&format!("HSET staffai:lease shards {shards}"));
        let refused = one.agree_on_shards(4).await.unwrap_err();
        assert!(refused.contains(shards), "{refused}");
    }

    // A mark without an end, and one that ends too late.
    let pause = Duration::from_millis(300);
    for mark in ["SET staffai:identify:7 1", "SET staffai:identify:7 1 EX 86400"] {
        assert_eq!(server.ask::<String>(mark), "OK");
        assert_eq!(one.reserve_identify(7, pause).await, Ok(pause));
        tokio::time::sleep(pause + Duration::from_millis(20)).await;
        assert_eq!(one.reserve_identify(7, pause).await, Ok(Duration::ZERO));
    }
}

#[tokio::test]
async fn the_terms_of_another_division_end_before_a_new_one_begins() {
    let server = Arc::new(Server::start());
    let bench = bench(&server);
    let door = Door::new("d");
    let mut owners: Vec<(Box<dyn Opened>, Vec<Range>)> = Vec::new();
    // Each division ends the terms of those before it, also of those that it did not follow directly.
    for ranges in [1, 2, 3, 1, 2] {
        let process = divided(&server, "one", ranges);
        process.end_other_divisions(std::slice::from_ref(&door)).await.unwrap();
        let owned: Vec<_> = (0..ranges).map(|number| Portion { number, of: ranges }.range(door.clone())).collect();
        let store = (bench.open)().await;
        store.own(owned.clone());
        store.owned().await;
        for range in &owned {
            assert_eq!(store.write_under(range, vec![put("a", "now")], Pace::Now).await, WriteOutcome::Durable);
        }
        for (earlier, owned) in &owners {
            for range in owned {
                assert_eq!(earlier.write_under(range, vec![put("a", "late")], Pace::Now).await, WriteOutcome::Fenced);
            }
        }
        owners.push((store, owned));
    }
    let (store, owned) = owners.pop().unwrap();
    divided(&server, "two", 2).end_other_divisions(std::slice::from_ref(&door)).await.unwrap();
    let again = store.write_under(&owned[0], vec![put("a", "still")], Pace::Now).await;
    assert_eq!(again, WriteOutcome::Durable, "a process ends no term of its own division");
    store.close(CLOSING).await;
    for (store, _) in owners {
        store.close(CLOSING).await;
    }
}

#[tokio::test]
async fn processes_share_the_first_secret_and_read_reports_of_each_other() {
    let server = Server::start();
    let [one, two] = ["one", "two"].map(|name| lease(&server, name));
    let shared = async |lease: &Lease, new: &str| {
        lease.shared_secret(&SecretString::from(new.to_owned())).await.unwrap().expose_secret().to_owned()
    };
    assert_eq!((shared(&one, "a").await, shared(&two, "b").await), ("a".to_owned(), "a".to_owned()));
    let left: u64 = server.ask("PTTL staffai:forwarding");
    assert!(u128::from(left) > SHARED_FOR.saturating_sub(EDGE).as_millis(), "{left}");
    // A backup copies text, and this record is none.
    assert_eq!(server.ask::<String>("TYPE staffai:forwarding"), "hash");
    assert_eq!(server.ask::<String>("FLUSHALL"), "OK");
    assert_eq!((shared(&two, "b").await, shared(&one, "a").await), ("b".to_owned(), "b".to_owned()));
    assert_eq!(two.report_of("one").await, Ok(None));
    one.report("{}").await.unwrap();
    assert_eq!(two.report_of("one").await, Ok(Some("{}".to_owned())));
}

#[tokio::test]
async fn a_server_whose_rights_forbid_the_lease_is_told_from_one_that_is_away() {
    let mut server = Server::start();
    assert_eq!(server.ask::<String>("ACL SETUSER default -eval"), "OK");
    assert!(matches!(lease(&server, "one").take(false).await, Err(LeaseFault::Refused(_))));
    server.kill();
    assert!(matches!(lease(&server, "one").take(false).await, Err(LeaseFault::Away(_))));
}

#[tokio::test]
async fn a_token_that_no_server_issued_does_not_lock_owners_out() {
    let server = Arc::new(Server::start());
    let bench = bench(&server);
    let range = Range::Door(Door::new("d"));
    for absurd in ["1e308", "9007199254740993", "nan", "inf", "words"] {
        assert_eq!(server.ask::<String>(&format!("SET staffai:term:d {absurd}")), "OK");
        let owner = (bench.open)().await;
        owner.own(vec![range.clone()]);
        owner.owned().await;
        assert_eq!(owner.write_under(&range, vec![put("a", absurd)], Pace::Now).await, WriteOutcome::Durable);
        owner.close(CLOSING).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn of_two_owners_only_the_newest_acts(acts in suite::acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start();
            let store = opener(&server).open().unwrap();
            suite::only_the_newest_owner_acts(&store, &acts).await;
            store.close().await;
        });
    }
}

#[tokio::test]
async fn processes_count_together() {
    let server = Arc::new(Server::start());
    let bench = bench(&server);
    let stores = [(bench.open)().await, (bench.open)().await];
    let adds = (0..200).map(|n| stores[n % 2].write(vec![add("a", 1)]));
    assert!(futures_util::future::join_all(adds).await.into_iter().all(|durable| durable));
    for store in stores {
        assert_eq!(store.get("a").await.as_deref(), Some("200"));
        store.close(CLOSING).await;
    }
}

#[tokio::test]
async fn a_value_that_two_processes_replace_keeps_the_changes_of_both() {
    let server = Arc::new(Server::start());
    let bench = bench(&server);
    let stores = [(bench.open)().await, (bench.open)().await];
    let add = |n: usize| {
        let store = &stores[n % 2];
        ports::replace(&**store, "a", move |text| Some(format!("{} {n}", text.unwrap_or_default())))
    };
    assert!(futures_util::future::join_all((0..8).map(add)).await.iter().all(|end| *end == Replaced::Done));
    for store in stores {
        let text = store.get("a").await.unwrap();
        let mut all: Vec<&str> = text.split_whitespace().collect();
        all.sort_unstable();
        assert_eq!(all, ["0", "1", "2", "3", "4", "5", "6", "7"]);
        store.close(CLOSING).await;
    }
}

#[test]
fn a_server_of_a_cluster_says_what_to_configure() {
    for reply in ["MOVED 3999 127.0.0.1:6381", "CLUSTERDOWN Hash slot not served"] {
        let value = ::redis::parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap();
        let said = describe(value.extract_error().unwrap_err());
        assert!(said.contains("REDIS_URL") && said.contains("redis-cluster://") && said.ends_with(reply), "{said}");
    }
}
