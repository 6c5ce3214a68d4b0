//! A server that dies, hangs, refuses, loses data, or has invalid data. None of it is an error for the store's callers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ports::{Store, Write};
use secrecy::SecretString;
use staffai::app::system::SystemClock;
use store::redis;
use store::redis::opener::Opener;
use store::resilient::{Resilient, StoreBounds};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::server::Server;
use crate::support::{Log, PATIENCE, put, reason, recovered, row, soon, store, until};

/// Common to all failures: `old` is durable before. Meanwhile writes are kept in memory and read from there, and no
/// call takes long. Afterwards everything is merged.
async fn survives(server: &mut Server, ill: impl FnOnce(&mut Server), well: impl FnOnce(&mut Server), refuses: bool) {
    let log = Log::listen();
    let store = store(&server.url()).await;
    assert!(soon(store.write(vec![put("old", "1"), put("both", "1"), put("deleted", "1")])).await);

    ill(server);
    let changes = vec![put("new", "2"), put("both", "2"), Write::Delete { key: "deleted".into() }];
    assert!(!soon(store.write(changes)).await);
    assert_eq!(soon(store.get("new")).await.as_deref(), Some("2"));
    assert_eq!(soon(store.get("both")).await.as_deref(), Some("2"));
    assert_eq!(soon(store.get("deleted")).await, None);
    // A server that only refuses writes is still read.
    let old = soon(store.get("old")).await;
    assert_eq!(old.is_some(), refuses, "{old:?}");
    let rows = soon(store.scan("", 10)).await.part();
    let known = [row("both", "2"), row("new", "2"), row("old", "1")];
    assert_eq!(rows, known[..if refuses { 3 } else { 2 }]);
    assert!(!soon(store.write(vec![put("later", "3")])).await);

    well(server);
    recovered(&store).await;
    assert!(soon(store.write(vec![put("last", "4")])).await);
    let all = [row("both", "2"), row("last", "4"), row("later", "3"), row("new", "2"), row("old", "1")];
    assert_eq!(soon(store.scan("", 10)).await.part(), all);
    let (both, later): (String, String) = (server.ask("GET both"), server.ask("GET later"));
    assert_eq!((both.as_str(), later.as_str()), ("2", "3"));
    assert_eq!(server.ask::<i64>("EXISTS deleted"), 0);
    log.is_of_one_illness();
    store.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn killed_and_restarted() {
    let mut server = Server::start();
    survives(&mut server, Server::kill, Server::restart, false).await;
}

#[tokio::test]
async fn frozen_and_thawed() {
    let mut server = Server::start();
    survives(&mut server, |server| server.freeze(), |server| server.thaw(), false).await;
}

#[tokio::test]
async fn out_of_memory() {
    let ill = |server: &mut Server| server.ask("CONFIG SET maxmemory 1");
    let well = |server: &mut Server| server.ask("CONFIG SET maxmemory 0");
    survives(&mut Server::start(), ill, well, true).await;
}

#[tokio::test]
async fn a_replica_of_a_dead_master() {
    let closed = Server::down(&[]);
    let ill = |server: &mut Server| server.ask(&format!("REPLICAOF 127.0.0.1 {}", closed.address().port()));
    let well = |server: &mut Server| server.ask("REPLICAOF NO ONE");
    survives(&mut Server::start(), ill, well, true).await;
}

#[tokio::test]
async fn too_few_replicas() {
    let ill = |server: &mut Server| server.ask("CONFIG SET min-replicas-to-write 1");
    let well = |server: &mut Server| server.ask("CONFIG SET min-replicas-to-write 0");
    survives(&mut Server::start(), ill, well, true).await;
}

#[tokio::test]
async fn down_at_the_start() {
    let log = Log::listen();
    let mut server = Server::down(&[]);
    let store = soon(store(&server.url())).await;
    let told = reason(&store).expect("it says that the server is down");
    assert!(told.contains(&server.address().to_string()), "{told}");
    assert!(!soon(store.write(vec![put("a", "1")])).await);
    assert_eq!(soon(store.get("a")).await.as_deref(), Some("1"));
    assert_eq!(soon(store.get("b")).await, None);
    server.restart();
    recovered(&store).await;
    assert_eq!(server.ask::<String>("GET a"), "1");
    log.is_of_one_illness();
}

/// Many restarts in a row: no earlier connection interferes, and no acknowledged write is lost.
#[tokio::test]
async fn killed_again_and_again() {
    let mut server = Server::start();
    let store = store(&server.url()).await;
    for round in 0..5 {
        let key = format!("key{round}");
        assert!(soon(store.write(vec![put(&key, "before")])).await);
        server.kill();
        assert!(!soon(store.write(vec![put(&key, "while"), put(&format!("{key}x"), "while")])).await);
        server.restart();
        recovered(&store).await;
        assert_eq!(server.ask::<String>(&format!("GET {key}")), "while");
    }
    assert_eq!(soon(store.scan("key", 100)).await.part().len(), 10);
}

#[tokio::test]
async fn everything_flushed() {
    let log = Log::listen();
    let server = Server::start();
    let store = store(&server.url()).await;
    assert!(soon(store.write(vec![put("a", "1")])).await);
    let () = server.ask("FLUSHALL");
    assert_eq!(soon(store.get("a")).await, None);
    assert_eq!(soon(store.scan("", 10)).await.part(), []);
    assert!(soon(store.write(vec![put("a", "2")])).await);
    assert_eq!(soon(store.get("a")).await.as_deref(), Some("2"));
    assert_eq!(log.count("store.degraded"), 0);
}

#[tokio::test]
async fn a_server_of_a_cluster_is_found_by_its_first_request() {
    let server = Server::start_with(&["--cluster-enabled", "yes"]);
    let store = store(&server.url()).await;
    let told = reason(&store).expect("it says that this is a cluster");
    for part in ["GET", "REDIS_URL", "redis-cluster://"] {
        assert!(told.contains(part), "{told}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_replaced_and_the_request_repeated() {
    let log = Log::listen();
    let server = Server::start();
    let store = store(&server.url()).await;
    assert!(soon(store.write(vec![put("a", "1")])).await);
    for round in 0..5 {
        let _: i64 = server.ask("CLIENT KILL TYPE normal");
        assert_eq!(soon(store.get("a")).await.as_deref(), Some("1"));
        let _: i64 = server.ask("CLIENT KILL TYPE normal");
        assert!(soon(store.write(vec![put("b", &round.to_string())])).await);
    }
    assert_eq!(log.count("store.degraded"), 0);
    let connections = server.ask::<String>("CLIENT LIST TYPE normal").lines().count();
    assert!(connections <= 3, "one is shared, one is the test's own: {connections}");
}

/// A NAT on the way drops a connection silently: neither side is notified, and requests get no answer.
#[tokio::test]
async fn a_connection_that_died_in_silence_is_replaced_while_callers_give_up_early() {
    let server = Server::start();
    let name = Name::of(server.address()).await;
    let store = store(&format!("redis://{}/0", name.address)).await;
    assert!(soon(store.write(vec![put("a", "1")])).await);
    name.swallows_what_there_is();
    let silent = Instant::now();
    // Constant requests never leave the connection idle, and are given up before the connection's own deadline.
    assert_eq!(soon(store.get("b")).await, None);
    while reason(&store).is_some() {
        let _ = soon(store.get("b")).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(silent.elapsed() < Duration::from_secs(5), "{:?}", reason(&store));
    }
    assert_eq!(soon(store.get("a")).await.as_deref(), Some("1"));
    assert!(soon(store.write(vec![put("b", "2")])).await);
}

/// Batched writes are flushed with the next request.
#[tokio::test]
async fn what_waits_to_be_written_goes_along_with_what_is_read() {
    let server = Server::start();
    let opener = Opener::new(&SecretString::from(server.url())).unwrap();
    let limits = StoreBounds { gather: Duration::from_secs(600), ..redis::bounds() };
    let store = Resilient::start_with(move || opener.open(), Arc::new(SystemClock), limits).await.unwrap();
    let written = store.write(vec![put("a", "1")]);
    assert_eq!(soon(store.get("b")).await, None);
    assert!(soon(written).await);
    assert_eq!(server.ask::<String>("GET a"), "1");
}

/// A read of others' data is ordered after earlier writes, without awaiting their answer.
#[tokio::test]
async fn what_is_read_after_something_was_sent_is_read_behind_it() {
    let server = Server::start();
    let opener = Opener::new(&SecretString::from(server.url())).unwrap();
    let limits = StoreBounds { gather: Duration::from_secs(600), ..redis::bounds() };
    let store = Resilient::start_with(move || opener.open(), Arc::new(SystemClock), limits).await.unwrap();
    for round in 0..20 {
        let value = round.to_string();
        let mut sent = store.send(vec![put("a", &value)]);
        assert!(timeout(Duration::from_millis(10), &mut sent).await.is_err(), "nothing was sent yet");
        let behind = async {
            sent.await;
            // Not from memory: another key, which the server has if it has the first one.
            let _ = store.get("c").await;
            server.ask::<String>("GET a")
        };
        assert_eq!(in_company(&store, behind).await, value);
    }
    server.freeze();
    let sent = store.send(vec![put("a", "frozen")]);
    in_company(&store, sent).await;
    server.thaw();
}

/// Runs something under concurrent reads. A single read may follow directly after the last write, and then flushes
/// nothing.
async fn in_company<T>(store: &Resilient<redis::Redis>, what: impl Future<Output = T>) -> T {
    let company = async {
        loop {
            drop(timeout(Duration::from_millis(10), store.get("b")).await);
        }
    };
    select! {
        () = company => unreachable!("it reads for ever"),
        done = soon(what) => done,
    }
}

/// A prefetched value is used once, and not after the key was written.
#[tokio::test]
async fn what_was_read_ahead_is_never_older_than_what_was_written_since() {
    let server = Server::start();
    let (store, other) = (store(&server.url()).await, store(&server.url()).await);
    for round in 0..20 {
        let (before, after) = (format!("{round} before"), format!("{round} after"));
        assert!(soon(other.write(vec![put("a", &before)])).await);
        store.read_ahead(vec!["a".to_owned(), "a".to_owned()]);
        assert_eq!(soon(store.get("a")).await, Some(before));
        store.read_ahead(vec!["a".to_owned()]);
        assert!(soon(store.write(vec![put("a", &after)])).await);
        assert_eq!(soon(store.get("a")).await, Some(after));
        store.read_ahead(vec!["a".to_owned()]);
        assert!(soon(other.write(vec![put("a", "elsewhere")])).await);
        tokio::time::sleep(Duration::from_millis(5 * round)).await;
        until_read(&store, "a", "elsewhere").await;
    }
}

async fn until_read(store: &impl Store, key: &str, value: &str) {
    let begun = Instant::now();
    while soon(store.get(key)).await.as_deref() != Some(value) {
        assert!(begun.elapsed() < PATIENCE);
    }
}

/// The Python bot's data is read unchanged, and keys of other types are replaced.
#[tokio::test]
async fn keys_of_the_python_bot() {
    let log = Log::listen();
    let server = Server::start();
    let history = r#"[{"role": "user", "content": "hé", "timestamp": 1700000000.25}]"#;
    let () = server.words(&["SET", "discord_context:7:42", history, "EX", "1800"]);
    let _: i64 = server.ask("RPUSH msg_rl:1:7 1700000000.25");
    let _: i64 = server.ask("ZADD discord_context:7:43 1 x");
    let store = store(&server.url()).await;
    assert_eq!(soon(store.get("discord_context:7:42")).await.as_deref(), Some(history));
    assert_eq!(soon(store.get("discord_context:7:43")).await, None);
    assert_eq!(soon(store.scan("", 10)).await.part(), [row("discord_context:7:42", history)]);
    let life = Some(Duration::from_secs(60));
    let write = Write::Put { key: "discord_context:7:43".into(), value: "[]".into(), ttl: life };
    assert!(soon(store.write(vec![write, Write::Delete { key: "msg_rl:1:7".into() }])).await);
    assert_eq!(server.ask::<String>("GET discord_context:7:43"), "[]");
    assert!((1..=60).contains(&server.ask::<i64>("TTL discord_context:7:43")));
    assert_eq!(server.ask::<i64>("EXISTS msg_rl:1:7"), 0);
    assert_eq!((reason(&store), log.count("store.degraded")), (None, 0));
}

/// After a failover the name leads to another server, while the old one still answers on old connections and refuses
/// writes.
#[tokio::test]
async fn failed_over_to_another_server() {
    let log = Log::listen();
    let (first, second) = (Server::start(), Server::start());
    let name = Name::of(first.address()).await;
    let store = store(&format!("redis://{}/0", name.address)).await;
    assert!(soon(store.write(vec![put("a", "1")])).await);
    *name.target.lock() = second.address();
    let () = first.ask("REPLICAOF 127.0.0.1 1");
    drop(store.write(vec![put("b", "2")]));
    until("the other server has it", || second.ask::<Option<String>>("GET b").is_some()).await;
    recovered(&store).await;
    assert!(soon(store.write(vec![put("c", "3")])).await);
    assert_eq!(second.ask::<String>("GET c"), "3");
    log.is_of_one_illness();
}

/// An address whose new connections lead to its current target.
struct Name {
    address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    /// Cancelled to make the current connections silent while they stay open.
    silent: Arc<Mutex<CancellationToken>>,
    serving: JoinHandle<()>,
}

impl Name {
    async fn of(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = Arc::new(Mutex::new(target));
        let now = Arc::clone(&target);
        let silent = Arc::new(Mutex::new(CancellationToken::new()));
        let silences = Arc::clone(&silent);
        let serving = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (target, silent) = (*now.lock(), silences.lock().clone());
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(target).await else { return };
                    let carried = tokio::io::copy_bidirectional(&mut near, &mut far);
                    if silent.run_until_cancelled(carried).await.is_none() {
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self { address, target, silent, serving }
    }

    /// Makes the current connections silent while they stay open; new ones work.
    fn swallows_what_there_is(&self) {
        std::mem::take(&mut *self.silent.lock()).cancel();
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
