//! A server that hangs is given up soon, a slow one is awaited, and settings that risk data loss are reported.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use domain::ids::{Door, Person, TurnId};
use domain::limits::{Decision, LimitStep, Limits, Member, Request, Reservation};
use ports::{Limiter, Scanned, Store, StoredRow, Write};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

use crate::server::Server;
use crate::support::{Log, put, reason, recovered, row, soon, store, until};

/// The goal for requests in progress when a server stops answering.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(250);

fn reserve(number: usize) -> Request {
    let turn = TurnId::new(Door::new("d"), number.to_string());
    let (lease, limits) = (Duration::from_secs(30), Limits { messages: 100_000, tokens: 100_000_000 });
    let step = LimitStep::Reserve(Reservation { turn, tokens: 1, lease, limits, exempt: false });
    Request::of_member(Member::new("5:7"), Duration::from_secs(60), step)
}

/// Reads, decides and commits until the server's usual latency is known.
async fn usual(store: &(impl Store + Limiter), rounds: usize) {
    for round in 0..rounds {
        let _ = soon(store.get(&format!("k{round}"))).await;
        assert_eq!(soon(store.step(reserve(round))).await, Decision::Admitted);
        assert!(soon(store.commit(vec![put("a", &round.to_string())])).await, "round {round}: {:?}", reason(store));
    }
}

#[tokio::test]
async fn what_is_under_way_when_a_server_hangs_waits_a_quarter_of_a_second_at_most() {
    for part in ["read", "decision", "commit"] {
        let server = Server::start();
        let store = store(&server.url()).await;
        usual(&store, 150).await;
        server.freeze();
        let begun = Instant::now();
        match part {
            "read" => drop(store.get("unread").await),
            "decision" => assert_eq!(store.step(reserve(9_999)).await, Decision::Admitted),
            _ => assert!(!store.commit(vec![put("b", "1")]).await),
        }
        let took = begun.elapsed();
        assert!(took < LEAVE_TIMEOUT, "a {part} took {took:?}");
        assert!(reason(&store).is_some(), "and memory serves from here on");
        server.thaw();
        recovered(&store).await;
        usual(&store, 10).await;
        store.close(Duration::from_secs(5)).await;
    }
}

/// Proxies a server with this additional latency.
async fn far_away(target: SocketAddr, by: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(far) = TcpStream::connect(target).await else { return };
                let ((mut ask, mut told), (mut answer, mut send)) = (near.into_split(), far.into_split());
                tokio::spawn(async move { tokio::io::copy(&mut ask, &mut send).await });
                let (late, mut due) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
                tokio::spawn(async move {
                    while let Some((at, bytes)) = due.recv().await {
                        tokio::time::sleep_until(at).await;
                        if told.write_all(&bytes).await.is_err() {
                            return;
                        }
                    }
                });
                let mut bytes = vec![0; 16 * 1024];
                while let Ok(read @ 1..) = answer.read(&mut bytes).await {
                    let _ = late.send((Instant::now() + by, bytes[..read].to_vec()));
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_slow_server_that_works_is_never_called_down() {
    let (log, server) = (Log::listen(), Server::start());
    let address = far_away(server.address(), Duration::from_millis(90)).await;
    let store = store(&format!("redis://{address}/0")).await;
    usual(&store, 60).await;
    assert_eq!((reason(&store), log.count("store.degraded")), (None, 0));
}

#[tokio::test]
async fn many_scans_of_a_large_server_wait_for_each_other_and_the_store_stays_ready() {
    let (log, server) = (Log::listen(), Server::start());
    server.words::<()>(&["EVAL", "for n = 1, 20000 do redis.call('SET', 'other:' .. n, '1') end", "0"]);
    server.words::<()>(&["SET", "wanted", "1"]);
    let address = far_away(server.address(), Duration::from_millis(90)).await;
    let store = store(&format!("redis://{address}/0")).await;
    let person = |number: usize| Person::new(Door::new("d"), format!("{number}"));
    let own = futures_util::future::join_all((0..4).map(|_| store.scan("wanted", 10)));
    let members = futures_util::future::join_all((0..4).map(|number| {
        let (store, person) = (&store, person(number));
        async move { store.scan_many(&["wanted"], 10, Some(&person)).await.only() }
    }));
    let (own, members) = tokio::join!(own, members);
    let wanted = Scanned::new(vec![row("wanted", "1")], true);
    assert!(own.iter().chain(&members).all(|found| *found == wanted), "{own:?} {members:?}");
    assert_eq!((reason(&store), log.count("store.degraded")), (None, 0));
    store.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn what_the_settings_of_a_server_can_lose_or_break_is_known() {
    let log = Log::listen();
    let server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let known = store(&server.url()).await;
    until("it is asked", || known.keeping().loses.is_some_and(|loses| loses.contains("up to 1 second"))).await;
    assert_eq!((known.keeping().breaks, log.count("store.keeping")), (None, 1));
    known.close(Duration::from_secs(5)).await;

    let evicting = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let server = Server::start_with(&[&["--appendonly", "yes", "--appendfsync", "always"][..], &evicting].concat());
    let known = store(&server.url()).await;
    until("it is asked", || known.keeping().breaks.is_some_and(|breaks| breaks.contains("allkeys-lru"))).await;
    assert_eq!((known.keeping().loses, reason(&known)), (None, None));
    assert!(log.mentions("maxmemory-policy"));

    // A server that refuses the query of its settings is used like any other.
    let server = Server::start_with(&["--rename-command", "CONFIG", ""]);
    let known = store(&server.url()).await;
    assert!(soon(known.write(vec![put("a", "1")])).await);
    sleep(Duration::from_millis(50)).await;
    assert_eq!((known.keeping(), reason(&known)), (ports::Keeping::default(), None));
}

#[tokio::test]
async fn a_copy_of_a_server_has_each_text_with_its_end() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let life = Some(Duration::from_secs(60));
    let ends = Write::Put { key: "ends".into(), value: "2".into(), ttl: life };
    assert!(soon(store.write(vec![put("stays", "1"), ends])).await);
    // More than a server returns at once.
    let many = (1000..3500).map(|number| put(&format!("n{number}"), "3")).collect();
    assert!(soon(store.write(many)).await);
    let _: i64 = server.ask("RPUSH msg_rl:1:7 1700000000.25");
    let (to, mut rows) = tokio::sync::mpsc::channel(1);
    let take = async {
        let mut taken = BTreeMap::new();
        while let Some(StoredRow { key, value, ttl }) = rows.recv().await {
            taken.insert(key, (value, ttl.map(|ttl| ttl > Duration::from_secs(50) && Some(ttl) <= life)));
        }
        taken
    };
    let (copied, mut taken) = tokio::join!(store.copy(to), take);
    assert_eq!(copied, Ok(()));
    assert_eq!(taken.remove("ends"), Some(("2".into(), Some(true))));
    assert_eq!(taken.remove("stays"), Some(("1".into(), None)));
    let many: Vec<String> = (1000..3500).map(|number| format!("n{number}")).collect();
    assert!(taken.keys().eq(&many), "{} of {} keys", taken.len(), many.len());
    server.freeze();
    let _ = soon(store.get("unread")).await;
    let (to, _rows) = tokio::sync::mpsc::channel(1);
    assert!(soon(store.copy(to)).await.is_err_and(|why| why.contains("a copy of memory alone would be incomplete")));
    server.thaw();
}
