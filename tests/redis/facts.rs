//! Members' facts: the same laws on the embedded store and on a real server.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use actors::services::facts::FactKeeper;
use domain::fact::{Bounds, NotKept};
use domain::ids::{Door, Person, Place};
use domain::tool::OnBehalf;
use domain::tool::testing::on_behalf;
use ports::{Clock, Facts, Store};
use staffai::app::system::SystemClock;
use store::embedded::opener::Opener;
use store::resilient::Resilient;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::server::Server;
use crate::support::store;

const DOOR: Door = Door::new("discord");
/// Longer than the TTL of a cached absence.
const LOOKS_AGAIN: Duration = Duration::from_secs(31);
const BOUNDS: Bounds = Bounds { facts: 100, bytes: 500, total: 10_000, ttl: Duration::from_secs(3_600) };

fn keeper(store: &Arc<dyn Store>) -> Arc<FactKeeper> {
    Arc::new(FactKeeper::new(Arc::clone(store), Arc::new(SystemClock), || BOUNDS))
}

/// Asks in a place as a member.
fn asks(who: &str, place: &str, parent: Option<&str>) -> OnBehalf {
    let place_of = |id: &str| Place::new(DOOR, id);
    let parent = parent.map(place_of);
    OnBehalf { parent, at: SystemClock.now(), ..on_behalf(Person::new(DOOR, who), place_of(place)) }
}

async fn finds(keeper: &FactKeeper, asked: &OnBehalf, query: &str) -> Vec<String> {
    keeper.search(asked, query).await.unwrap().facts.into_iter().map(|fact| fact.text).collect()
}

/// Checks a law of two processes; the embedded store has only one.
async fn on_both<F: Future<Output = ()>>(law: impl Fn([Arc<dyn Store>; 2]) -> F) {
    let dir = TempDir::new().unwrap();
    let opener = Opener::new(dir.path(), Arc::new(SystemClock));
    let embedded: Arc<dyn Store> =
        Arc::new(Resilient::start(move || opener.open(), Arc::new(SystemClock)).await.unwrap());
    law([Arc::clone(&embedded), Arc::clone(&embedded)]).await;
    embedded.close(Duration::from_secs(10)).await;
    let server = Server::start();
    let (one, other) = (store(&server.url()).await, store(&server.url()).await);
    law([Arc::new(one), Arc::new(other)]).await;
}

#[tokio::test]
async fn words_find_the_facts_of_one_member_in_one_place() {
    on_both(|[store, other]| async move {
        let (here, there) = (asks("7", "42", None), asks("7", "43", None));
        let writes = keeper(&store);
        for text in ["My boat is the Heron", "I sold two boats", "Ich wohne in Köln", "猫が好きです"] {
            assert!(!writes.remember(&here, text).await.unwrap().before);
        }
        writes.remember(&there, "my other boat is secret").await.unwrap();
        writes.remember(&asks("8", "42", None), "Ben's boat is the Swan").await.unwrap();
        let keeper = keeper(&other);
        assert_eq!(finds(&keeper, &here, "BOAT").await, ["My boat is the Heron", "I sold two boats"]);
        assert_eq!(finds(&keeper, &here, "koln").await, ["Ich wohne in Köln"]);
        assert_eq!(finds(&keeper, &here, "猫").await, ["猫が好きです"]);
        assert_eq!(finds(&keeper, &there, "boat").await, ["my other boat is secret"]);
        assert_eq!(finds(&keeper, &asks("8", "42", None), "").await, ["Ben's boat is the Swan"]);
        let thread = asks("7", "50", Some("42"));
        assert_eq!(finds(&keeper, &thread, "heron").await, ["My boat is the Heron"]);
        keeper.remember(&thread, "told in the thread").await.unwrap();
        assert_eq!(finds(&keeper, &here, "thread").await, [""; 0]);
        assert_eq!(finds(&keeper, &asks("7", "51", Some("42")), "told").await, [""; 0]);
        assert_eq!(finds(&keeper, &asks("9", "42", None), "").await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_fact_is_kept_once_and_forgotten_for_good() {
    on_both(|[store, other]| async move {
        let here = asks("7", "42", None);
        let (one, other) = (keeper(&store), keeper(&other));
        let kept = one.remember(&here, "I like tea").await.unwrap();
        let again = other.remember(&here, "i like  TEA.").await.unwrap();
        assert_eq!((again.before, &again.id), (true, &kept.id));
        assert_eq!(one.search(&here, "tea").await.unwrap().all, 1);
        assert_eq!(other.forget(&asks("7", "43", None), &kept.id).await, Ok(false), "it was told elsewhere");
        assert_eq!(other.forget(&asks("8", "42", None), &kept.id).await, Ok(false), "it belongs to another member");
        assert_eq!(other.forget(&here, &kept.id).await, Ok(true));
        assert_eq!(one.search(&here, "").await.unwrap().all, 0);
        assert_eq!(one.remember(&here, "  ").await, Err(NotKept::Empty));
    })
    .await;
}

#[tokio::test]
async fn two_processes_keep_all_that_they_are_told_at_once() {
    on_both(|stores| async move {
        let here = asks("7", "42", None);
        let keepers = stores.each_ref().map(keeper);
        let told = (0..20).flat_map(|number| {
            keepers.iter().zip(["one", "other"]).map(move |(keeper, name)| (keeper, format!("{name} says {number}")))
        });
        let told: Vec<_> = told.collect();
        let kept = told.iter().map(|(keeper, text)| keeper.remember(&here, text));
        for kept in futures_util::future::join_all(kept).await {
            kept.unwrap();
        }
        let all = async || keepers[0].search(&here, "").await.unwrap().all;
        println!("{} of {} named before they are looked for again", all().await, told.len());
        for round in 1..=told.len() {
            if all().await == told.len() {
                break;
            }
            // Simulates a later time: with a paused clock a real server's answers would seem late.
            let later = Instant::now() + LOOKS_AGAIN * u32::try_from(round).unwrap();
            for keeper in &keepers {
                keeper.settle(later).await;
            }
        }
        assert_eq!(all().await, told.len());
    })
    .await;
}
