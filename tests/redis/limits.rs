//! Limits on a real server: the same law as in process, for several concurrent processes, and through every failure of
//! the server.

use std::sync::Arc;
use std::time::Duration;

use domain::ids::{Door, Timestamp, TurnId};
use domain::limits::account::{Account, Scope, Share};
use domain::limits::member_windows::MemberWindows;
use domain::limits::window_log::{EntryState, WindowLog};
use domain::limits::{self, Cost, Decision, LimitStep, Limits, Member, Request, Reservation};
use futures_util::future::join_all;
use ports::Limiter;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use secrecy::SecretString;
use store::redis::Redis;
use store::redis::opener::Opener;
use store::{AccountsKnown, Backend, LimitDecision, LimitOutcome};

use crate::server::Server;
use crate::support::{Log as Said, reason, recovered, soon, store, until};

const MINUTE: Duration = Duration::from_secs(60);
const KEYS: [&str; 2] = ["msg_rl:5:7", "token_rl:5:7"];

fn turn(number: u32) -> TurnId {
    TurnId::new(Door::new("d"), number.to_string())
}

fn request(window: Duration, step: LimitStep) -> Request {
    Request::of_member(Member::new("5:7"), window, step)
}

fn reserve(window: Duration, number: u32, tokens: u64, limits: Limits) -> Request {
    let lease = Duration::from_secs(30);
    request(window, LimitStep::Reserve(Reservation { turn: turn(number), tokens, lease, limits, exempt: false }))
}

fn few(messages: u32) -> Limits {
    Limits { messages, tokens: 1_000_000 }
}

fn backend(server: &Server) -> Redis {
    Opener::new(&SecretString::from(server.url())).unwrap().open().unwrap()
}

async fn admits(store: &impl Limiter, number: u32, limits: Limits) -> bool {
    soon(store.step(reserve(MINUTE, number, 10, limits))).await == Decision::Admitted
}

async fn used(store: &impl Limiter) -> (u32, u64) {
    match soon(store.step(request(MINUTE, LimitStep::Read(few(1_000))))).await {
        Decision::Used(used) => (used.messages, used.tokens),
        other => panic!("{other:?}"),
    }
}

/// A random step. Turns are from a small set, so that they recur.
fn any_step(dice: &mut StdRng, window: Duration, number: u32, limits: Limits) -> Request {
    let some = number.saturating_sub(dice.random_range(0..12));
    let step = match dice.random_range(0..10) {
        0 => LimitStep::Read(limits),
        1 => LimitStep::Cancel(turn(some)),
        2..=4 => LimitStep::Settle(turn(some), dice.random_bool(0.8).then(|| dice.random_range(0..90))),
        _ => {
            let exempt = dice.random_bool(0.02);
            let (tokens, lease) = (dice.random_range(0..100), Duration::from_millis(dice.random_range(0..5_000)));
            LimitStep::Reserve(Reservation { turn: turn(some), tokens, lease, limits, exempt })
        }
    };
    request(window, step)
}

/// The script of the previous version, which has no sums. A process of that version may write concurrently.
const BEFORE: &str = include_str!("limits_before.lua");

/// Runs a step of the previous version; returns the server's time, if both versions treat the step alike.
fn before(server: &Server, asked: &Request, law: &WindowLog) -> Option<u64> {
    let none = Limits { messages: 0, tokens: 0 };
    let (word, limits, exempt, tokens, turn, lease) = match &asked.step {
        LimitStep::Reserve(ask) => {
            let tokens = if ask.exempt { ask.tokens } else { ask.tokens.min(ask.limits.tokens / 2 + 1) };
            let exempt = if ask.exempt { "1" } else { "0" };
            ("reserve", ask.limits, exempt, tokens.to_string(), Some(&ask.turn), ask.lease.as_millis())
        }
        LimitStep::Settle(turn, tokens) => ("settle", none, "0", (*tokens)?.to_string(), Some(turn), 0),
        LimitStep::Cancel(turn) => ("cancel", none, "0", String::new(), Some(turn), 0),
        LimitStep::Read(limits) => ("read", *limits, "0", String::new(), None, 0),
    };
    let turn = turn.map(limits::turn_part).unwrap_or_default();
    if law.entry(&turn).is_some_and(|entry| entry.state == EntryState::Estimated) {
        return None;
    }
    let (messages, allowed) = (limits.messages.to_string(), limits.tokens.to_string());
    let (window, lease) = (asked.window.as_millis().to_string(), lease.to_string());
    let words =
        ["EVAL", BEFORE, "2", KEYS[0], KEYS[1], word, &window, &messages, &allowed, exempt, &tokens, &turn, &lease];
    let mut words = words.to_vec();
    words.push("1000");
    let told: (String, u64, String, i64, u8, Vec<String>, Vec<String>) = server.words(&words);
    Some(told.1)
}

/// One process' knowledge of the lists.
#[derive(Default)]
struct Mirror {
    log: WindowLog,
    version: u64,
}

/// Makes one decision; the lists are sent only if this process does not know them.
async fn decide(process: &Redis, mirror: &mut Mirror, asked: &Request) -> (LimitDecision, bool) {
    let known = AccountsKnown { version: mirror.version, ..AccountsKnown::default() };
    let mut ruling = process.decide_limit(asked, &known).await.unwrap();
    if ruling == LimitOutcome::Lost {
        ruling = process.decide_limit(asked, &AccountsKnown::default()).await.unwrap();
    }
    let LimitOutcome::Decided(decision) = ruling else { panic!("lost without a claim") };
    mirror.version = decision.version;
    let told = decision.log.is_some();
    match &decision.log {
        Some(log) => mirror.log = log.clone(),
        None => drop(mirror.log.step(decision.now, asked)),
    }
    (decision, told)
}

/// Steps of two processes of this version and one of the previous version. Each answer, and the complete state of the
/// server, matches the law.
#[tokio::test]
async fn the_server_keeps_the_law() {
    let server = Server::start_with(&["--appendfsync", "no"]);
    for (seed, messages, tokens) in [(1, 6, 200), (2, 12, 100_000), (3, 0, 50), (4, 5, 0), (5, 30, 900), (6, 3, 60)] {
        println!("seed {seed}");
        let mut dice = StdRng::seed_from_u64(seed);
        let () = server.ask("FLUSHALL");
        let (processes, window) = ([backend(&server), backend(&server)], Duration::from_millis(40));
        let mut mirrors = [Mirror::default(), Mirror::default()];
        let (mut law, mut read_whole) = (WindowLog::default(), 0);
        for number in 0..5_000 {
            let asked = any_step(&mut dice, window, number, Limits { messages, tokens });
            if number % 1_000 > 800 && dice.random_bool(0.1) {
                if let Some(now) = before(&server, &asked, &law) {
                    law.step(Timestamp(now), &asked);
                }
                continue;
            }
            // Mostly the same process, as for most members.
            let which = usize::from(dice.random_bool(0.1));
            let (decision, told) = decide(&processes[which], &mut mirrors[which], &asked).await;
            let (answer, _) = law.step(decision.now, &asked);
            assert_eq!((decision.decision, &mirrors[which].log), (answer, &law), "{number}: {asked:?}");
            let used = law.used(None);
            assert_eq!(decision.used, (used.messages, used.tokens));
            read_whole += u32::from(told);
        }
        println!("of 5,000 decisions {read_whole} read the whole lists");
        assert!(messages == 0 || tokens == 0 || read_whole < 2_500);
    }
}

#[tokio::test]
async fn two_processes_never_admit_more_than_the_limit() {
    let server = Server::start();
    let stores = [store(&server.url()).await, store(&server.url()).await];
    let asked = (0..100).map(|number| admits(&stores[number as usize % 2], number, few(15)));
    let admitted = join_all(asked).await.into_iter().filter(|admitted| *admitted).count();
    assert_eq!(admitted, 15);
    assert_eq!((used(&stores[0]).await, used(&stores[1]).await), ((15, 150), (15, 150)));
    let lengths = KEYS.map(|key| server.ask::<usize>(&format!("LLEN {key}")));
    assert_eq!(lengths, [15, 15], "a refusal writes nothing");
    for key in KEYS {
        assert!((1..=60_000).contains(&server.ask::<i64>(&format!("PTTL {key}"))));
    }
    assert_eq!([reason(&stores[0]), reason(&stores[1])], [None, None]);
}

#[tokio::test]
async fn entries_have_the_form_of_the_python_bot_and_its_own_are_read() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let now: (u64, u64) = server.ask("TIME");
    let at = |ago: u64| format!("{}.25", now.0 - ago);
    let _: i64 = server.words(&["RPUSH", KEYS[0], &at(90), &at(30)]);
    let _: i64 = server.words(&["RPUSH", KEYS[1], &format!("{}:400", at(90)), &format!("{}:70", at(30))]);
    assert_eq!(used(&store).await, (1, 70));
    assert!(admits(&store, 1, few(2)).await);
    assert!(!admits(&store, 2, few(2)).await, "one of the Python bot's, one of ours");
    let [messages, tokens] = KEYS.map(|key| server.ask::<Vec<String>>(&format!("LRANGE {key} 0 -1")));
    assert_eq!(messages.len(), 2, "what has aged out is gone");
    assert_eq!(messages[0].parse(), at(30).parse::<f64>());
    let fields: Vec<&str> = tokens[1].split(':').collect();
    assert_eq!((fields.len(), fields[1], fields[2]), (4, "10", "d%3A1"));
    assert!(messages[1].starts_with(fields[0]) && fields[0].parse::<f64>().unwrap() >= 1_700_000_000.0);
    soon(store.step(request(MINUTE, LimitStep::Settle(turn(1), Some(33))))).await;
    let settled = server.ask::<Vec<String>>(&format!("LRANGE {} -1 -1", KEYS[1]));
    assert_eq!(settled, [format!("{}:33:d%3A1", fields[0])]);
}

#[tokio::test]
async fn messages_of_the_python_bot_in_the_same_moment_are_as_many_as_they_were() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let now: (u64, u64) = server.ask("TIME");
    let at = format!("{}.25", now.0 - 30);
    let _: i64 = server.words(&["RPUSH", KEYS[0], &at, &at, &at]);
    let _: i64 = server.words(&["RPUSH", KEYS[1], &format!("{at}:70"), &format!("{at}:70")]);
    assert_eq!(used(&store).await, (3, 140));
    assert!(!admits(&store, 1, few(3)).await);
    assert!(admits(&store, 1, few(4)).await);
    assert_eq!(used(&store).await, (4, 150));
}

#[tokio::test]
async fn keys_of_other_types_are_replaced_and_never_an_error() {
    let said = Said::listen();
    let server = Server::start();
    let store = store(&server.url()).await;
    let now: (u64, u64) = server.ask("TIME");
    // Real data of the Python bot: sorted sets, by time and, by mistake, by tokens.
    let (recent, score) = (format!("{}.5", now.0 - 5), format!("{}.5", now.0 - 5));
    let _: i64 = server.words(&["ZADD", KEYS[0], &score, &recent]);
    let _: i64 = server.words(&["ZADD", KEYS[1], "70", &format!("{recent}:70")]);
    assert_eq!(used(&store).await, (1, 70));
    assert_eq!(server.ask::<String>(&format!("TYPE {}", KEYS[0])), "zset", "looking changes nothing");
    assert!(!admits(&store, 1, few(1)).await);
    assert_eq!(server.ask::<String>(&format!("TYPE {}", KEYS[0])), "zset", "nor does a refusal");
    assert!(admits(&store, 1, few(2)).await);
    assert_eq!(KEYS.map(|key| server.ask::<String>(&format!("TYPE {key}"))), ["list", "list"]);
    assert_eq!(used(&store).await, (2, 80));

    let _: i64 = server.words(&["DEL", KEYS[0], KEYS[1]]);
    let store = self::store(&server.url()).await;
    let () = server.words(&["SET", KEYS[0], "nonsense"]);
    let _: i64 = server.words(&["RPUSH", KEYS[1], "x", "nan:3", "1:-5", ""]);
    assert!(admits(&store, 3, few(1)).await);
    assert_eq!(used(&store).await, (1, 10));
    assert_eq!(said.count("store.degraded"), 0);
}

#[tokio::test]
async fn a_clock_that_was_set_back_admits_no_turn_early_and_delays_none() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let now: (u64, u64) = server.ask("TIME");
    let ahead = format!("{}.0", now.0 + 3_600);
    let _: i64 = server.words(&["RPUSH", KEYS[0], &format!("{ahead}:t")]);
    let _: i64 = server.words(&["RPUSH", KEYS[1], &format!("{ahead}:70:t")]);
    let Decision::Refused(refusal) = soon(store.step(reserve(MINUTE, 1, 1, few(1)))).await else { panic!() };
    assert_eq!((refusal.cost, refusal.retry_after), (Cost::Messages, Some(MINUTE)));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let Decision::Refused(refusal) = soon(store.step(reserve(MINUTE, 1, 1, few(1)))).await else { panic!() };
    assert!(refusal.retry_after.unwrap() < MINUTE, "the wait gets shorter");
}

#[tokio::test]
async fn a_server_that_forgot_the_script_is_told_it_again() {
    let said = Said::listen();
    let server = Server::start();
    let store = store(&server.url()).await;
    assert!(admits(&store, 1, few(9)).await);
    let () = server.ask("SCRIPT FLUSH");
    assert!(admits(&store, 2, few(9)).await);
    let () = server.ask("FLUSHALL");
    assert!(admits(&store, 3, few(9)).await);
    assert_eq!((used(&store).await, said.count("store.degraded")), ((3, 30), 0));
}

#[tokio::test]
async fn sums_that_are_nonsense_are_made_again() {
    let said = Said::listen();
    let server = Server::start();
    let store = store(&server.url()).await;
    let sums = "staffai:limit:5:7";
    let mut number = 0;
    for nonsense in [
        vec!["DEL", sums],
        vec!["SET", sums, "x"],
        vec!["HSET", sums, "sum", "x"],
        vec!["HSET", sums, "sum", "\u{1}"],
        vec!["HDEL", sums, "sum"],
        // Another client wrote to the lists.
        vec!["RPUSH", KEYS[0], "1"],
        vec!["LPOP", KEYS[1]],
        vec!["RPOP", KEYS[1]],
    ] {
        let () = server.ask("FLUSHALL");
        let fresh = self::store(&server.url()).await;
        for _ in 0..2 {
            number += 1;
            assert!(admits(&fresh, number, few(3)).await);
        }
        let _: redis::Value = server.words(&nonsense);
        number += 1;
        assert!(admits(&fresh, number, few(4)).await, "{nonsense:?}");
        assert!(!admits(&fresh, number + 1, few(3)).await, "{nonsense:?}");
        let life: i64 = server.words(&["PTTL", sums]);
        assert!((1..=60_000).contains(&life), "{nonsense:?}: {life}");
    }
    drop(store);
    assert_eq!(said.count("store.degraded"), 0);
}

/// A user with the rights that the previous version needed.
#[tokio::test]
async fn a_user_without_the_right_to_hashes_has_limits_all_the_same() {
    let said = Said::listen();
    let server = Server::start();
    let _: redis::Value = server.words(&["ACL", "SETUSER", "few", "on", ">w", "~*", "+@all", "-@hash"]);
    let url = server.url().replacen("redis://", "redis://few:w@", 1);
    let store = store(&url).await;
    for number in 0..3 {
        assert!(admits(&store, number, few(3)).await);
    }
    assert!(!admits(&store, 4, few(3)).await);
    soon(store.step(request(MINUTE, LimitStep::Settle(turn(1), Some(33))))).await;
    assert_eq!((used(&store).await, said.count("store.degraded")), ((3, 53), 0));
    assert_eq!(server.ask::<i64>("EXISTS staffai:limit:5:7"), 0);
}

/// After any loss of data on the server, each process still has what it admitted: a limit of five admits five.
#[tokio::test]
async fn a_server_that_lost_everything_is_told_what_the_processes_know() {
    let server = Server::start();
    let stores = [store(&server.url()).await, store(&server.url()).await];
    for number in 0..3 {
        assert!(admits(&stores[0], number, few(5)).await);
    }
    assert!(admits(&stores[1], 10, few(5)).await);
    soon(stores[0].step(request(MINUTE, LimitStep::Settle(turn(1), Some(77))))).await;
    let () = server.ask("FLUSHALL");
    // The first process that asks knows three of the other's entries, and the second one knows all.
    assert!(admits(&stores[1], 11, few(5)).await);
    assert!(!admits(&stores[0], 20, few(5)).await);
    assert!(!admits(&stores[1], 21, few(5)).await);
    assert_eq!((used(&stores[0]).await, used(&stores[1]).await), ((5, 117), (5, 117)));

    let () = server.ask("FLUSHALL");
    let other = store(&server.url()).await;
    assert!(admits(&other, 30, few(5)).await, "a process that knows nothing goes first");
    assert!(!admits(&stores[0], 31, few(5)).await);
    until("all is told", || server.ask::<usize>(&format!("LLEN {}", KEYS[0])) >= 5).await;
    assert!(!admits(&other, 32, few(5)).await);
}

/// Checks that the limit continues from its cached state, and that decisions made meanwhile are merged when the server
/// is back.
async fn goes_on(server: &mut Server, ill: impl FnOnce(&mut Server), well: impl FnOnce(&mut Server)) {
    let said = Said::listen();
    let (ours, other) = (store(&server.url()).await, store(&server.url()).await);
    assert!(admits(&other, 1, few(5)).await && admits(&ours, 2, few(5)).await);
    assert!(admits(&ours, 3, few(5)).await);

    ill(server);
    assert!(admits(&ours, 4, few(5)).await, "two of five are left");
    assert!(admits(&ours, 4, few(5)).await, "the same turn is the same reservation");
    assert!(admits(&ours, 5, few(5)).await);
    assert!(!admits(&ours, 6, few(5)).await, "and the limit holds");
    soon(ours.step(request(MINUTE, LimitStep::Settle(turn(2), Some(77))))).await;
    soon(ours.step(request(MINUTE, LimitStep::Cancel(turn(3))))).await;
    assert_eq!(used(&ours).await, (4, 107));

    well(server);
    recovered(&ours).await;
    recovered(&other).await;
    assert_eq!(used(&other).await, (4, 107), "another process sees it");
    assert!(admits(&other, 7, few(5)).await);
    assert!(!admits(&ours, 8, few(5)).await);
    until("all is told", || server.ask::<usize>(&format!("LLEN {}", KEYS[0])) == 5).await;
    assert_eq!(said.count("store.recovered"), said.count("store.degraded"));
}

#[tokio::test]
async fn killed_and_restarted() {
    goes_on(&mut Server::start(), Server::kill, Server::restart).await;
}

#[tokio::test]
async fn frozen_and_thawed() {
    goes_on(&mut Server::start(), |server| server.freeze(), |server| server.thaw()).await;
}

#[tokio::test]
async fn out_of_memory() {
    let ill = |server: &mut Server| server.ask("CONFIG SET maxmemory 1");
    goes_on(&mut Server::start(), ill, |server| server.ask("CONFIG SET maxmemory 0")).await;
}

#[tokio::test]
async fn a_replica_of_a_dead_master() {
    let closed = Server::down(&[]);
    let ill = |server: &mut Server| server.ask(&format!("REPLICAOF 127.0.0.1 {}", closed.address().port()));
    goes_on(&mut Server::start(), ill, |server| server.ask("REPLICAOF NO ONE")).await;
}

#[tokio::test]
async fn a_server_down_at_the_start_does_not_disable_limits() {
    let mut server = Server::down(&[]);
    let store = soon(store(&server.url())).await;
    let asked = join_all((0..20).map(|number| admits(&store, number, few(3)))).await;
    assert_eq!(asked.into_iter().filter(|admitted| *admitted).count(), 3);
    server.restart();
    recovered(&store).await;
    assert_eq!(used(&store).await, (3, 30));
    assert_eq!(server.ask::<usize>(&format!("LLEN {}", KEYS[1])), 3);
}

#[tokio::test]
async fn a_long_list_is_bounded() {
    let server = Server::start_with(&["--appendfsync", "no"]);
    let store = Arc::new(store(&server.url()).await);
    let now: (u64, u64) = server.ask("TIME");
    let at = Timestamp(now.0 * 1_000 - 1_000);
    for chunk in 0..30_u64 {
        let members: Vec<String> = (0..100).map(|n| format!("{}.000:t{chunk}x{n}", at.0 / 1_000)).collect();
        let mut words = vec!["RPUSH", KEYS[0]];
        words.extend(members.iter().map(String::as_str));
        let _: i64 = server.words(&words);
    }
    assert!(!admits(&*store, 1, few(u32::MAX)).await, "a boundless limit counts as a thousand");
    let exempt = Reservation { turn: turn(2), tokens: 5, lease: MINUTE, limits: few(1), exempt: true };
    assert_eq!(soon(store.step(request(MINUTE, LimitStep::Reserve(exempt)))).await, Decision::Admitted);
    assert_eq!(server.ask::<usize>(&format!("LLEN {}", KEYS[0])), 1_000);
}

/// For steps about a member and accounts of every scope and cost, the server answers as the implementation in process.
#[tokio::test]
async fn the_server_keeps_the_law_of_accounts() {
    let server = Server::start_with(&["--appendfsync", "no"]);
    let process = backend(&server);
    for (seed, window) in [(1, Duration::from_secs(1)), (2, Duration::from_secs(60))] {
        let () = server.ask("FLUSHALL");
        let (mut dice, mut law) = (StdRng::seed_from_u64(seed), MemberWindows::default());
        for number in 0..3_000 {
            let limits = Limits { messages: 900, tokens: 1_000_000 };
            let mut asked = any_step(&mut dice, window, number, limits);
            asked.shares = any_shares(&mut dice, window, matches!(asked.step, LimitStep::Settle(_, None)));
            if dice.random_bool(0.2) && !asked.shares.is_empty() && !matches!(asked.step, LimitStep::Read(_)) {
                asked.member = None;
            }
            let answer = process.decide_limit(&asked, &AccountsKnown::default()).await.unwrap();
            let LimitOutcome::Decided(decision) = answer else { panic!("lost without a claim") };
            assert_eq!(decision.decision, law.decide(decision.now, &asked), "{number}: {asked:?}");
            let read = Request { shares: all_shares(window), ..request(window, LimitStep::Read(limits)) };
            let LimitOutcome::Decided(told) = process.decide_limit(&read, &AccountsKnown::default()).await.unwrap()
            else {
                panic!()
            };
            assert_eq!(told.decision, law.decide(told.now, &read), "{number}: {asked:?}");
        }
    }
}

fn all_shares(window: Duration) -> Vec<Share> {
    let of = |(at, (scope, cost)): (u64, (Scope, Cost))| {
        let account = Account { scope, cost, window, community: "5".into(), id: "x:1".into() };
        Share { account, limit: [4, 90, 2_000, 1_000_000, 0][usize::try_from(at % 5).unwrap()], amount: None }
    };
    let pairs = Scope::ALL.into_iter().flat_map(|scope| Cost::ALL.map(move |cost| (scope, cost)));
    (0..).zip(pairs).map(of).collect()
}

/// Returns random shares: mostly few accounts, more often those with large limits.
fn any_shares(dice: &mut StdRng, window: Duration, unknown: bool) -> Vec<Share> {
    let mut shares = all_shares(window);
    shares.retain(|share| dice.random_bool(if share.limit > 1_000 { 0.4 } else { 0.05 }));
    for share in &mut shares {
        let amount = if share.account.cost.is_counted() { 1 } else { dice.random_range(0..60) };
        share.amount = (!unknown).then_some(amount);
    }
    shares
}

/// Two processes never admit more than an account allows, and decisions made while the server was down count for both.
#[tokio::test]
async fn an_account_is_exact_over_processes_and_outages() {
    let mut server = Server::start();
    let stores = [store(&server.url()).await, store(&server.url()).await];
    let ask = |number: u32| {
        let account =
            Account { scope: Scope::Guild, cost: Cost::Dollars, window: MINUTE, community: "5".into(), id: "".into() };
        let shares = vec![Share { account, limit: 100, amount: Some(10) }];
        let mut asked = reserve(MINUTE, number, 1, few(900));
        (asked.member, asked.shares) = (Some(Member::new(format!("5:{number}"))), shares);
        asked
    };
    let asked = (0..50).map(|number| soon(stores[number as usize % 2].step(ask(number))));
    let admitted = join_all(asked).await.into_iter().filter(|answer| *answer == Decision::Admitted).count();
    assert_eq!(admitted, 10);
    let settle = |number, amount| {
        let mut settled = ask(number);
        settled.step = LimitStep::Settle(turn(number), Some(1));
        settled.shares[0].amount = Some(amount);
        settled
    };
    for number in 0..50 {
        soon(stores[0].step(settle(number, 4))).await;
    }
    server.kill();
    assert_eq!(soon(stores[0].step(ask(100))).await, Decision::Admitted, "it goes on by what it knows");
    server.restart();
    recovered(&stores[0]).await;
    recovered(&stores[1]).await;
    let mut more = 0;
    for number in 200..220 {
        more += u32::from(soon(stores[1].step(ask(number))).await == Decision::Admitted);
    }
    assert_eq!(more, 5, "40 of 100 are used, then 10 while it was away");
}
