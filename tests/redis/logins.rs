//! Logins and encryption.

use ports::Store;
use secrecy::SecretString;
use store::redis::opener::Opener;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::server::Server;
use crate::support::{Log, PATIENCE, put, reason, recovered, soon, store, until};

/// The first byte of an encrypted conversation.
const HANDSHAKE: u8 = 0x16;

#[tokio::test]
async fn a_wrong_password_is_told_without_a_password() {
    let log = Log::listen();
    let server = Server::start_with(&["--requirepass", "right-word"]);
    for (login, told) in [("", "NOAUTH"), (":wrong-word@", "REDIS_PASSWORD"), ("me:wrong-word@", "REDIS_PASSWORD")] {
        let store = store(&format!("redis://{login}{}/0", server.address())).await;
        let reason = reason(&store).expect("it cannot log in");
        assert!(reason.contains(told) && reason.contains("login"), "{reason}");
        assert!(!soon(store.write(vec![put("a", "1")])).await);
        assert_eq!(soon(store.get("a")).await.as_deref(), Some("1"));
    }
    let store = store(&format!("redis://:right-word@{}/0", server.address())).await;
    assert!(soon(store.write(vec![put("a", "2")])).await);
    assert_eq!(reason(&store), None);
    assert!(log.mentions("login") && !log.mentions("wrong-word") && !log.mentions("right-word"));
}

#[tokio::test]
async fn a_password_that_is_put_right_at_the_server_is_enough() {
    let server = Server::start();
    let store = store(&format!("redis://:some-word@{}/0", server.address())).await;
    assert!(reason(&store).is_some());
    let () = server.ask("CONFIG SET requirepass some-word");
    recovered(&store).await;
}

#[tokio::test]
async fn databases_are_apart() {
    let server = Server::start();
    let (zero, three) = (store(&server.url()).await, store(&format!("redis://{}/3", server.address())).await);
    assert!(soon(three.write(vec![put("a", "3")])).await);
    assert_eq!(soon(zero.get("a")).await, None);
    assert_eq!(soon(three.get("a")).await.as_deref(), Some("3"));
}

#[tokio::test]
async fn an_encrypted_address_says_nothing_in_the_clear() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("rediss://:some-word@{}/0", listener.local_addr().unwrap());
    let heard = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut first = vec![0; 4_096];
        let length = socket.read(&mut first).await.unwrap();
        first.truncate(length);
        first
    });
    let store = store(&url).await;
    let heard = timeout(PATIENCE, heard).await.unwrap().unwrap();
    assert_eq!(heard[0], HANDSHAKE);
    assert!(!heard.windows(9).any(|window| window == b"some-word"));
    until("the store is degraded", || reason(&store).is_some()).await;
}

#[test]
fn a_wrong_address_is_told_without_the_address() {
    let refused = |url: &str| Opener::new(&SecretString::from(url.to_owned())).err();
    for url in ["redis://", "redis://:some-word@host:port/0", "some-word"] {
        let told = refused(url).expect(url);
        assert!(!told.contains("some-word"), "{told}");
    }
    for (url, feature, built) in [
        ("redis-cluster://:some-word@a,b", "redis-cluster", cfg!(feature = "redis-cluster")),
        ("redis-sentinel://:some-word@a,b/0#main", "redis-sentinel", cfg!(feature = "redis-sentinel")),
    ] {
        let told = refused(url);
        assert_eq!(told.is_none(), built, "{told:?}");
        assert!(told.is_none_or(|told| told.contains(feature) && !told.contains("some-word")));
    }
}
