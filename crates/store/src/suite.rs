//! The required behaviour of every store, regardless of its backend. Each function needs a new bench.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;

use domain::counter::Counter;
use domain::ids::{Door, Timestamp, TurnId};
use domain::keys;
use domain::limits::account::{Account, Scope, Share};
use domain::limits::{Cost, Decision, LimitStep, Limits, Member, Request, Reservation};
use domain::ownership::{FencingToken, Range, Term};
use ports::{Clock, Limiter, OwnedStore, Pace, Replaced, StoreStatus, Write, WriteOutcome, replace};
use proptest::prelude::*;

use crate::{Backend, Batch, OwnedWrites};

/// The timeout of closing a store in tests.
pub const CLOSING: Duration = Duration::from_secs(20);

/// A manually advanced clock.
pub struct TestClock(AtomicU64);

impl Default for TestClock {
    fn default() -> Self {
        Self(AtomicU64::new(1_700_000_000_000))
    }
}

impl TestClock {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A storage location on which stores can be opened one after another.
pub struct Bench {
    /// Advances the time of the stores and of the server behind them.
    pub pass: Box<dyn Fn(Duration)>,
    /// The time before its expiry at which a key is certainly live: zero if the test controls the time.
    pub edge: Duration,
    /// Opens a store on the same data as the previous one.
    pub open: Box<dyn Fn() -> BoxFuture<'static, Box<dyn Opened>>>,
}

/// An open store, with the ports that it implements.
pub trait Opened: OwnedStore + Limiter {}

impl<T: OwnedStore + Limiter> Opened for T {}

pub fn put(key: &str, value: &str) -> Write {
    Write::Put { key: key.into(), value: value.into(), ttl: None }
}

/// Sets a key with a TTL in seconds.
pub fn put_for(key: &str, value: &str, seconds: u64) -> Write {
    Write::Put { key: key.into(), value: value.into(), ttl: Some(Duration::from_secs(seconds)) }
}

pub fn delete(key: &str) -> Write {
    Write::Delete { key: key.into() }
}

pub fn add(key: &str, by: i64) -> Write {
    Write::Add { key: key.into(), by: by.into(), ttl: None }
}

/// Adds to a counter and sets its TTL in seconds.
pub fn add_for(key: &str, by: i64, seconds: u64) -> Write {
    Write::Add { key: key.into(), by: by.into(), ttl: Some(Duration::from_secs(seconds)) }
}

/// A row as returned by a scan.
pub fn row(key: &str, value: &str) -> (String, String) {
    (key.into(), value.into())
}

/// A read that begins after a write sees it, before and after it is durable.
pub async fn reads_see_earlier_writes(bench: Bench) {
    let store = (bench.open)().await;
    assert_eq!(store.get("a").await, None);
    let durable = store.write(vec![put("a", "1")]);
    assert_eq!(store.get("a").await.as_deref(), Some("1"));
    assert_eq!(store.scan("", 10).await.part(), [row("a", "1")]);
    assert!(durable.await);
    assert_eq!(store.get("a").await.as_deref(), Some("1"));

    drop(store.write(vec![delete("a")]));
    assert_eq!(store.get("a").await, None);
    assert_eq!(store.scan("", 10).await.part(), []);
    assert!(store.write(vec![put("b", "ü \0 \u{1F600}")]).await);
    assert_eq!(store.get("a").await, None);
    assert_eq!(store.get("b").await.as_deref(), Some("ü \0 \u{1F600}"));
    assert_eq!(store.status(), StoreStatus::Ready);
    store.close(CLOSING).await;
}

/// Only the caller that saw the current value replaces it, and concurrent changes are all kept.
pub async fn of_two_replacements_one_is_done(bench: Bench) {
    let store = (bench.open)().await;
    assert_eq!(store.replace("a", Some("0"), "1").await, Replaced::Other);
    assert_eq!(store.replace("a", None, "1").await, Replaced::Done);
    assert_eq!(store.replace("a", None, "2").await, Replaced::Other);
    assert_eq!(store.get("a").await.as_deref(), Some("1"));
    let store = &store;
    let add = |_| async move {
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        replace(&**store, "a", |text| Some((number(text) + 1).to_string())).await
    };
    let all = futures_util::future::join_all((0..8).map(add)).await;
    assert!(all.iter().all(|replaced| *replaced == Replaced::Done), "{all:?}");
    assert_eq!(store.get("a").await.as_deref(), Some("9"));
    store.close(CLOSING).await;
    assert_eq!(store.replace("a", Some("9"), "10").await, Replaced::Away);
}

/// Writes of one batch, and batches, are applied in order.
pub async fn writes_keep_their_order(bench: Bench) {
    let store = (bench.open)().await;
    assert!(store.write(vec![put("a", "1"), delete("a"), put("a", "2"), put("b", "1"), delete("b")]).await);
    let many: Vec<_> = (0..50).map(|n| store.write(vec![put("c", &n.to_string())])).collect();
    assert!(futures_util::future::join_all(many).await.into_iter().all(|durable| durable));
    store.close(CLOSING).await;

    let store = (bench.open)().await;
    assert_eq!(store.scan("", 10).await.part(), [row("a", "2"), row("c", "49")]);
    store.close(CLOSING).await;
}

/// A key expires at the end of its TTL, and a later write changes the TTL.
pub async fn keys_vanish_at_the_end_of_their_life(bench: Bench) {
    let store = (bench.open)().await;
    let writes = vec![put_for("a", "1", 10), put_for("b", "1", 10), put_for("c", "1", 10), put("d", "1")];
    assert!(store.write(writes).await);
    assert!(store.write(vec![put("b", "2"), put_for("c", "2", 30)]).await);
    (bench.pass)(Duration::from_millis(9_999).saturating_sub(bench.edge));
    assert_eq!(store.get("a").await.as_deref(), Some("1"));
    (bench.pass)(Duration::from_millis(1) + bench.edge);
    assert_eq!(store.get("a").await, None);
    assert_eq!(store.scan("", 10).await.part(), [row("b", "2"), row("c", "2"), row("d", "1")]);

    drop(store.write(vec![put_for("e", "1", 5)]));
    (bench.pass)(Duration::from_secs(5));
    assert_eq!(store.get("e").await, None);
    (bench.pass)(Duration::from_secs(15));
    store.close(CLOSING).await;

    let store = (bench.open)().await;
    assert_eq!(store.scan("", 10).await.part(), [row("b", "2"), row("d", "1")]);
    store.close(CLOSING).await;
}

/// A scan returns exactly the live keys with the prefix, by key, up to its limit, durable or not.
pub async fn scans_are_ordered_and_limited(bench: Bench) {
    let store = (bench.open)().await;
    let writes = ["p:3", "p:1", "o:9", "p:2", "p", "q:1", "p:ü"].map(|key| put(key, "old")).to_vec();
    assert!(store.write(writes).await);
    let expected = [row("p:1", "old"), row("p:2", "old"), row("p:3", "old"), row("p:ü", "old")];
    assert_eq!(store.scan("p:", 10).await.part(), expected);
    assert_eq!(store.scan("p:", 2).await.part(), expected[..2]);
    assert_eq!(store.scan("p:", 0).await.part(), []);
    assert_eq!(store.scan("x", 10).await.part(), []);

    let durable = store.write(vec![delete("p:1"), put("p:2", "new"), put("p:0", "new"), delete("p:3")]);
    let expected = [row("p:0", "new"), row("p:2", "new"), row("p:ü", "old")];
    assert_eq!(store.scan("p:", 10).await.part(), expected);
    assert_eq!(store.scan("p:", 3).await.part(), expected);
    assert_eq!(store.scan("p:", 1).await.part(), expected[..1]);
    assert!(durable.await);
    assert_eq!(store.scan("p:", 3).await.part(), expected);
    store.close(CLOSING).await;
}

/// Durable writes survive reopening; so do those that were pending when the store was closed.
pub async fn writes_survive_reopening(bench: Bench) {
    let store = (bench.open)().await;
    assert!(store.write(vec![put("a", "1")]).await);
    let begun = store.write(vec![put("b", "2"), delete("a")]);
    store.close(CLOSING).await;
    assert!(begun.await);
    assert!(!store.write(vec![put("c", "3")]).await);

    let store = (bench.open)().await;
    assert_eq!(store.scan("", 10).await.part(), [row("b", "2")]);
    store.close(CLOSING).await;
}

/// Increments add up, are visible at once and after reopening, and replace text that is not a number.
pub async fn increments_add_up(bench: Bench) {
    let store = (bench.open)().await;
    let written = vec![put("n:number", "40"), put("n:words", "forty"), put("n:float", "4.5"), put("n:gone", "7")];
    assert!(store.write(written).await);
    drop(store.write(vec![add("n:number", 1), add("n:number", 1), add("n:words", 3), add("n:float", 4)]));
    drop(store.write(vec![add("n:new", 5), add("n:less", -5), delete("n:gone"), add("n:gone", 1)]));
    let expected = [
        row("n:float", "4"),
        row("n:gone", "1"),
        row("n:less", "-5"),
        row("n:new", "5"),
        row("n:number", "42"),
        row("n:words", "3"),
    ];
    assert_eq!(store.get("n:number").await.as_deref(), Some("42"));
    assert_eq!(store.scan("n:", 10).await.part(), expected);
    let many: Vec<_> = (0..50).map(|_| store.write(vec![add("n:many", 2)])).collect();
    assert!(futures_util::future::join_all(many).await.into_iter().all(|durable| durable));
    assert_eq!(store.get("n:many").await.as_deref(), Some("100"));
    assert!(store.write(vec![add("n:new", 1), put("n:new", "x"), add("n:many", 1), delete("n:many")]).await);
    assert_eq!((store.get("n:new").await.as_deref(), store.get("n:many").await), (Some("x"), None));
    assert!(store.write(vec![add("n:new", 2)]).await);
    store.close(CLOSING).await;

    let store = (bench.open)().await;
    drop(store.write(vec![add("n:number", 1)]));
    assert_eq!(store.get("n:number").await.as_deref(), Some("43"));
    assert_eq!(store.get("n:new").await.as_deref(), Some("2"));
    store.close(CLOSING).await;
}

/// Counters of several numbers add up separately, regardless of the previous value.
pub async fn numbers_that_stand_together_add_up(bench: Bench) {
    let together = |key: &str, numbers| Write::Add { key: key.into(), by: Counter(numbers), ttl: None };
    let store = (bench.open)().await;
    let written = vec![
        put("n:one", "40"),
        put("n:many", "1 0 -7 2"),
        put("n:words", "1 two"),
        put("n:long", "9876543210123456789"),
        put("n:seven", "1 2 3 4 5 6 7"),
    ];
    assert!(store.write(written).await);
    for key in ["n:one", "n:many", "n:words", "n:long", "n:seven", "n:new"] {
        assert!(store.write(vec![together(key, [2, 0, 7, 0, 1_000_000_000_000, 0])]).await);
    }
    assert!(store.write(vec![add("n:many", 5), together("n:new", [0, 0, 0, 0, 0, 9])]).await);
    store.close(CLOSING).await;

    let store = (bench.open)().await;
    let expected = [
        row("n:long", "2 0 7 0 1000000000000"),
        row("n:many", "8 0 0 2 1000000000000"),
        row("n:new", "2 0 7 0 1000000000000 9"),
        row("n:one", "42 0 7 0 1000000000000"),
        row("n:seven", "2 0 7 0 1000000000000"),
        row("n:words", "2 0 7 0 1000000000000"),
    ];
    assert_eq!(store.scan("n:", 10).await.part(), expected);
    store.close(CLOSING).await;
}

/// Each new owner of a range has a higher token than the previous one, and its writes succeed.
pub async fn tokens_rise_with_each_owner(bench: Bench) {
    let (mine, other) = (Range::Door(Door::new("d")), Range::Door(Door::new("e")));
    let mut newest = FencingToken::NONE;
    for life in 1..=3 {
        let store = (bench.open)().await;
        assert_eq!(store.token(&mine), FencingToken::NONE);
        store.own(vec![mine.clone(), other.clone()]);
        // Writes before the token is issued wait for it.
        let early = store.write_under(&mine, vec![put("early", &life.to_string())], Pace::Gathered);
        store.owned().await;
        assert!(store.token(&mine) > newest && store.token(&other) > newest);
        newest = store.token(&mine).max(store.token(&other));
        assert_eq!(early.await, WriteOutcome::Durable);
        let durable = store.write_under(&mine, vec![put("a", &life.to_string()), add("n", 1)], Pace::Gathered);
        assert_eq!(store.get("a").await, Some(life.to_string()));
        assert_eq!(durable.await, WriteOutcome::Durable);
        assert!(store.fenced().borrow().is_empty());
        store.close(CLOSING).await;
    }
}

/// Once a range has a newer owner, no part of a former owner's write has an effect; all other writes have.
pub async fn writes_of_a_former_owner_are_refused_as_one(bench: Bench) {
    let (mine, other) = (Range::Door(Door::new("d")), Range::Door(Door::new("e")));
    let store = (bench.open)().await;
    store.own(vec![mine.clone(), other.clone()]);
    store.owned().await;
    let first = vec![put("kept", "1"), put("deleted", "1"), add("n", 1)];
    assert_eq!(store.write_under(&mine, first, Pace::Now).await, WriteOutcome::Durable);
    // Another process takes the next token.
    assert!(store.write(vec![put(&keys::term(&mine), "4000000000000")]).await);
    let writes = || vec![put("kept", "2"), put("new", "2"), delete("deleted"), add("n", 10)];
    let refused = store.write_under(&mine, writes(), Pace::Gathered);
    let others = store.write_under(&other, vec![put("theirs", "2"), add("n", 100)], Pace::Gathered);
    let plain = store.write(vec![put("plain", "2"), add("n", 1_000)]);
    assert_eq!((refused.await, others.await, plain.await), (WriteOutcome::Fenced, WriteOutcome::Durable, true));
    assert_eq!(*store.fenced().borrow(), std::slice::from_ref(&mine));
    assert_eq!(store.write_under(&mine, writes(), Pace::Now).await, WriteOutcome::Fenced);
    let left = [row("deleted", "1"), row("kept", "1"), row("n", "1101"), row("plain", "2"), row("theirs", "2")];
    let ours = |rows: Vec<(String, String)>| -> Vec<_> {
        rows.into_iter().filter(|(key, _)| !key.starts_with("staffai:")).collect()
    };
    assert_eq!(ours(store.scan("", 20).await.part()), left);
    store.close(CLOSING).await;

    let store = (bench.open)().await;
    assert_eq!(ours(store.scan("", 20).await.part()), left);
    assert_eq!(store.get(&keys::term(&mine)).await.as_deref(), Some("4000000000000"));
    store.close(CLOSING).await;
}

/// A step of one of two owners of a range.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// It begins to own the range.
    Take(usize),
    /// It writes its token into a record.
    Put(usize, usize),
    /// It removes a record.
    Delete(usize, usize),
    /// It counts.
    Add(usize),
}

/// Two owners in any order.
pub fn acts() -> impl Strategy<Value = Vec<Act>> {
    let one = prop_oneof![
        (0..2_usize).prop_map(Act::Take),
        (0..2_usize, 0..3_usize).prop_map(|(owner, record)| Act::Put(owner, record)),
        (0..2_usize, 0..3_usize).prop_map(|(owner, record)| Act::Delete(owner, record)),
        (0..2_usize).prop_map(Act::Add),
    ];
    prop::collection::vec(one, 1..24)
}

/// An owner changes nothing after the other one has a newer token, and its last change is the last one with its token.
pub async fn only_the_newest_owner_acts(store: &impl Backend, acts: &[Act]) {
    let range = Range::Door(Door::new("d"));
    let (mut tokens, mut records, mut sum) = ([FencingToken::NONE; 2], [None::<String>, None, None], 0_u64);
    let name = |record: usize| format!("record {record}");
    for act in acts {
        let (owner, write) = match *act {
            Act::Take(owner) => {
                let newest = tokens[0].max(tokens[1]);
                tokens[owner] = store.take_token(&range).await.unwrap();
                assert!(tokens[owner] > newest, "{tokens:?} in {acts:?}");
                continue;
            }
            Act::Put(owner, record) => (owner, put(&name(record), &format!("{owner} {}", tokens[owner]))),
            Act::Delete(owner, record) => (owner, delete(&name(record))),
            Act::Add(owner) => (owner, add("sum", 1)),
        };
        let term = Term { range: range.clone(), token: tokens[owner] };
        let batch = Batch { owned: vec![OwnedWrites { term, writes: vec![write] }], ..Batch::default() };
        let refused = store.apply(batch).await.unwrap();
        let accepted = tokens[owner] >= tokens[1 - owner];
        assert_eq!(refused.is_empty(), accepted, "{act:?} of {tokens:?} in {acts:?}");
        if accepted {
            match *act {
                Act::Put(owner, record) => records[record] = Some(format!("{owner} {}", tokens[owner])),
                Act::Delete(_, record) => records[record] = None,
                Act::Add(_) => sum += 1,
                Act::Take(_) => {}
            }
        }
        for (record, value) in records.iter().enumerate() {
            assert_eq!(store.get(&name(record)).await.unwrap(), *value, "{act:?} of {tokens:?} in {acts:?}");
        }
        let counted = store.get("sum").await.unwrap().map_or(0, |text| text.parse::<u64>().unwrap());
        assert_eq!(counted, sum, "{act:?} of {tokens:?} in {acts:?}");
    }
}

/// A counter expires at the end of the TTL that was set last, and then starts again.
pub async fn counters_vanish_at_the_end_of_their_life(bench: Bench) {
    let store = (bench.open)().await;
    assert!(store.write(vec![add_for("a", 1, 16), put_for("b", "1", 16), put("c", "1")]).await);
    assert!(store.write(vec![add("b", 1), add_for("c", 1, 16)]).await);
    (bench.pass)(Duration::from_secs(8));
    assert!(store.write(vec![add_for("a", 1, 16)]).await);
    (bench.pass)(Duration::from_secs(8) + bench.edge);
    assert_eq!(store.get("a").await.as_deref(), Some("2"));
    assert_eq!((store.get("b").await, store.get("c").await), (None, None));
    (bench.pass)(Duration::from_secs(8));
    assert_eq!(store.get("a").await, None);
    assert!(store.write(vec![add("a", 5)]).await);
    assert_eq!(store.get("a").await.as_deref(), Some("5"));
    store.close(CLOSING).await;
}

/// Limits hold across reopening, and settled or cancelled entries stay so.
pub async fn limits_hold_over_reopening(bench: Bench) {
    let ask = |number: u32| {
        let turn = TurnId::new(Door::new("d"), number.to_string());
        let limits = Limits { messages: 3, tokens: 1_000 };
        let lease = Duration::from_secs(60);
        step(LimitStep::Reserve(Reservation { turn, tokens: 50, lease, limits, exempt: false }))
    };
    let turn = |number: u32| TurnId::new(Door::new("d"), number.to_string());
    let store = (bench.open)().await;
    for number in 0..3 {
        assert_eq!(store.step(ask(number)).await, Decision::Admitted);
    }
    assert!(matches!(store.step(ask(3)).await, Decision::Refused(_)));
    store.step(step(LimitStep::Settle(turn(0), Some(700)))).await;
    store.step(step(LimitStep::Cancel(turn(1)))).await;
    let used =
        |answer| if let Decision::Used(used) = answer { (used.messages, used.tokens) } else { panic!("{answer:?}") };
    let read = || step(LimitStep::Read(Limits { messages: 3, tokens: 1_000 }));
    assert_eq!(used(store.step(read()).await), (2, 750));
    store.close(CLOSING).await;

    let store = (bench.open)().await;
    assert_eq!(used(store.step(read()).await), (2, 750));
    assert_eq!(store.step(ask(2)).await, Decision::Admitted, "it has its reservation");
    store.step(step(LimitStep::Settle(turn(0), Some(5)))).await;
    assert_eq!(store.step(ask(4)).await, Decision::Admitted);
    assert!(matches!(store.step(ask(5)).await, Decision::Refused(_)));
    assert_eq!(used(store.step(read()).await), (3, 800));
    store.close(CLOSING).await;
}

/// Accounts hold across reopening, also without a server that decides.
pub async fn accounts_hold_over_reopening(bench: Bench) {
    let ask = |number: u32, step: fn(Reservation) -> LimitStep, amount| {
        let (window, community) = (Duration::from_secs(86_400), "5".into());
        let account = Account { scope: Scope::Channel, cost: Cost::Dollars, window, community, id: "a:b".into() };
        let turn = TurnId::new(Door::new("d"), number.to_string());
        let (limits, lease) = (Limits { messages: 9, tokens: 1_000 }, Duration::from_secs(60));
        let reservation = Reservation { turn, tokens: 5, lease, limits, exempt: false };
        let shares = vec![Share { account, limit: 100, amount: Some(amount) }];
        Request { shares, ..self::step(step(reservation)) }
    };
    let store = (bench.open)().await;
    assert_eq!(store.step(ask(1, LimitStep::Reserve, 30)).await, Decision::Admitted);
    store.step(ask(1, |ask| LimitStep::Settle(ask.turn, Some(5)), 70)).await;
    store.close(CLOSING).await;

    let store = (bench.open)().await;
    assert!(
        matches!(store.step(ask(2, LimitStep::Reserve, 40)).await, Decision::Refused(refusal) if !refusal.is_breach())
    );
    assert_eq!(store.step(ask(3, LimitStep::Reserve, 30)).await, Decision::Admitted);
    let Decision::Used(used) = store.step(ask(4, |ask| LimitStep::Read(ask.limits), 1)).await else { panic!() };
    assert_eq!((used.messages, used.accounts[0].used), (2, 100));
    store.close(CLOSING).await;
}

fn step(step: LimitStep) -> Request {
    Request::of_member(Member::new("5:7"), Duration::from_secs(600), step)
}
