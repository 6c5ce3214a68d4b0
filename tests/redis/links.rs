//! Links of accounts: two processes on one server.

use std::sync::Arc;

use actors::services::basics::Basics;
use actors::services::links::{Linker, refresh};
use actors::services::running::Live;
use domain::ids::{Door, Person};
use domain::keys;
use domain::people::{LinkRefusal, Linked};
use ports::{AccountLinks, NoFaults, StoreStatus};
use staffai::app::reload;
use staffai::app::system::{SystemClock, SystemDice};

use crate::server::Server;
use crate::support::{launch, put, soon, store};

fn account(door: &'static str, id: &str) -> Person {
    Person::new(Door::new(door), id)
}

/// A process in which members and operators may link accounts.
async fn linker(server: &Server) -> Linker {
    // Another test of this process may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let environment = [
        ("DISCORD_BOT_TOKEN", "token"),
        ("LITELLM_API_URL", "http://127.0.0.1:9"),
        ("LITELLM_MODEL", "scripted"),
        ("STAFFAI_MEMBERS__LINKING", "members"),
    ];
    let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let live = Live::new(reload::running(launch(&environment, Arc::new(NoFaults)).configured).unwrap());
    let store = Arc::new(store(&server.url()).await);
    Linker { basics: Basics { live, store, clock: Arc::new(SystemClock), dice: Arc::new(SystemDice) } }
}

#[tokio::test]
async fn a_code_that_is_entered_in_two_processes_at_once_links_once() {
    let server = Server::start();
    let (one, other) = (linker(&server).await, linker(&server).await);
    for round in 0..20 {
        let id = round.to_string();
        let code = one.new_code(&account("discord", &id)).await.unwrap();
        let (laptop, phone) = (account("api", &format!("laptop-{id}")), account("slack", &format!("phone-{id}")));
        let (first, second) = tokio::join!(one.redeem(&laptop, &code), other.redeem(&phone, &code));
        let linked = [&first, &second].into_iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(linked, 1, "{first:?} {second:?}");
        let refused = first.err().or(second.err());
        assert_eq!(refused, Some(LinkRefusal::Code), "the code is used up");
        let stored = one.basics.store.get(keys::LINKS).await.unwrap();
        assert_eq!(stored.matches(&format!("\"discord:{id}\"")).count(), 1, "{stored}");
    }
    let codes = one.basics.store.get(keys::LINK_CODES).await.unwrap();
    assert!(codes.contains("\"codes\":[]"), "{codes}");
}

#[tokio::test]
async fn links_that_two_processes_make_at_once_are_all_kept_and_seen_by_both() {
    let server = Server::start();
    let (one, other) = (linker(&server).await, linker(&server).await);
    let links = |linker: &Linker, from: usize| {
        let linker = Linker { basics: linker.basics.clone() };
        async move {
            for number in from..from + 20 {
                let id = number.to_string();
                linker.link(&account("discord", &id), &account("api", &id)).await.unwrap();
            }
        }
    };
    tokio::join!(links(&one, 0), links(&other, 20));
    for linker in [&one, &other] {
        refresh(&linker.basics.live, &*linker.basics.store).await;
        assert_eq!(linker.list().await.len(), 40);
        let seven = account("api", "7");
        assert_eq!(linker.basics.live.linked(&seven).lead(&seven), &account("discord", "7"));
    }
    one.unlink(&account("api", "7")).await.unwrap();
    refresh(&other.basics.live, &*other.basics.store).await;
    assert_eq!(other.basics.live.linked(&account("discord", "7")), Linked::default());
}

#[tokio::test]
async fn while_the_store_is_away_links_stay_and_none_is_made() {
    let mut server = Server::start();
    let linker = linker(&server).await;
    let (ada, key) = (account("discord", "7"), account("api", "laptop"));
    linker.link(&ada, &key).await.unwrap();
    server.kill();
    assert!(!soon(linker.basics.store.write(vec![put("x", "1")])).await);
    assert_ne!(linker.basics.store.status(), StoreStatus::Ready);
    refresh(&linker.basics.live, &*linker.basics.store).await;
    assert_eq!(linker.basics.live.linked(&key).lead(&key), &ada, "links that were read stay in force");
    assert_eq!(linker.unlink(&key).await, Err(LinkRefusal::Away));
    assert_eq!(linker.new_code(&ada).await, Err(LinkRefusal::Away));
    assert_eq!(soon(linker.redeem(&key, "AAAA-BBBB-CCCC")).await, Err(LinkRefusal::Away));
}
