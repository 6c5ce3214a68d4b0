//! A turn that may have run a tool with side effects is not started again.

use super::*;
use crate::testing::LONG;

fn doubtful() -> String {
    notice::apology(Apology::MayHaveActed, Locale::English).to_owned()
}

/// Asks the journal for permission to act on behalf of a turn, in a task.
fn acts(world: &World, id: &str) -> tokio::task::JoinHandle<Option<bool>> {
    let (journal, id) = (world.journal.clone(), turn_id(id));
    tokio::spawn(async move { journal.call(|reply| JournalMsg::Acts(id, reply), LONG).await.ok() })
}

#[tokio::test(start_paused = true)]
async fn what_acted_is_not_offered_again_by_the_next_life() {
    let mut world = world(MemoryStore::new()).await;
    let (acting, reading) = (turn("10", "7", "42"), turn("11", "8", "42"));
    world.accept(&acting);
    world.accept(&reading);
    settle().await;
    while world.rate_limiter.now().await.is_some() {}
    assert_eq!(acts(&world, "10").await.unwrap(), Some(true));
    assert_eq!(world.store.json(&keys::turn(&turn_id("10"))).unwrap()["acted"], true);
    world.faults.inject("staffai/journal", Fault::Panic);
    world.accept(&turn("12", "9", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("11"), "only what changed nothing begins anew");
    assert_eq!(world.offered().await, None);
    assert_eq!(world.delivery().await, Some(("10".into(), doubtful(), true)));
}

#[tokio::test(start_paused = true)]
async fn nor_when_its_conversation_crashed() {
    let mut world = world(MemoryStore::new()).await;
    world.accept(&turn("10", "7", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    assert_eq!(acts(&world, "10").await.unwrap(), Some(true));
    world.recovered(ActorKind::Conversations, Scope::One);
    assert_eq!(world.offered().await.as_deref(), Some("cancel 10"));
    assert_eq!(world.delivery().await.map(|(_, text, _)| text), Some(doubtful()));
}

#[tokio::test(start_paused = true)]
async fn the_answer_waits_for_the_disk_and_nothing_runs_for_what_is_answered() {
    let mut world = world(MemoryStore::new()).await;
    world.accept(&turn("10", "7", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    world.store.durable(false);
    let asked = acts(&world, "10");
    settle().await;
    assert!(!asked.is_finished(), "what is not on disk can be lost");
    world.store.durable(true);
    assert_eq!(asked.await.unwrap(), Some(true));
    world.answered(&turn("10", "7", "42"), "done");
    assert_eq!(acts(&world, "10").await.unwrap(), None);
    assert_eq!(acts(&world, "99").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn an_old_one_is_told_the_truth_as_well() {
    let mut old = turn("10", "7", "42");
    old.at.0 -= 16 * 60 * 1000;
    let custody = Custody::Open(OpenTurn { acted: true, ..OpenTurn::new(Arc::new(old.clone()), None) });
    let record = (keys::turn(&old.id), serde_json::to_string(&custody).unwrap());
    let mut world = world(with(vec![record])).await;
    assert_eq!(world.delivery().await, Some(("10".into(), doubtful(), true)));
    assert_eq!(world.offered().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_was_started_again_waits_for_the_answer_of_what_still_runs() {
    let mut world = world(MemoryStore::new()).await;
    let acting = turn("10", "7", "42");
    world.accept(&acting);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    let flight = world.in_flight.enter(&acting.id);
    assert_eq!(acts(&world, "10").await.unwrap(), Some(true));
    world.faults.inject("staffai/journal", Fault::Panic);
    world.accept(&turn("12", "9", "42"));
    settle().await;
    assert_eq!((world.offered().await, world.delivery().await), (None, None), "its task lives");
    world.answered(&acting, "done");
    drop(flight);
    assert_eq!(world.delivery().await.map(|(id, text, _)| (id, text)), Some(("10".into(), "done".into())));
    assert_eq!(world.in_flight.now(), 0);
}
