//! Another process takes over the turns of this one.

use super::*;
use crate::observation::board::PartKind;
use crate::testing::LONG;
use domain::ownership::Range;

fn range() -> Range {
    Range::Door(DOOR)
}

#[tokio::test(start_paused = true)]
async fn the_turns_of_a_range_that_is_lost_are_dropped_without_an_answer() {
    let log = Log::capture();
    let mut world = world(MemoryStore::new()).await;
    let (thinking, answered_turn) = (turn("10", "7", "42"), turn("11", "8", "42"));
    world.accept(&thinking);
    world.accept(&answered_turn);
    world.answered(&answered_turn, "hello");
    settle().await;
    assert_eq!(world.delivery().await, Some(("11".to_owned(), "hello".to_owned(), false)));
    let before = world.store.entries.lock().clone();

    world.store.fence(range());
    settle().await;
    assert_eq!(log.column("turn.fenced", "turn"), ["discord:10", "discord:11"]);
    let parts = world.board.parts();
    assert!(parts.iter().any(|(kind, name, state)| *kind == PartKind::Custody && name == "discord" && !state.up));
    let mut released = Vec::new();
    while let Some(message) = world.outbox.now().await {
        match message {
            OutboxMsg::Release { turn, .. } => released.push(turn.id.to_string()),
            _ => panic!("nothing is posted or removed"),
        }
    }
    assert_eq!(released, ["10", "11"]);
    let withdrawn = [world.offered().await, world.offered().await, world.offered().await, world.offered().await];
    assert_eq!(withdrawn.map(Option::unwrap), ["10", "11", "cancel 10", "cancel 11"]);
    assert!(world.events().contains(&("10".to_owned(), TurnUpdate::unanswered(Dropped::Fenced))));

    // Later messages about them change nothing and are not posted.
    world.answered(&thinking, "late");
    world.delivered("11");
    settle().await;
    assert!(world.outbox.now().await.is_none());
    assert_eq!(*world.store.entries.lock(), before);
    let id = thinking.id.clone();
    assert!(world.journal.call(|reply| JournalMsg::Acts(id, reply), LONG).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_turn_another_process_owns_is_neither_settled_nor_given_back() {
    let mut world = world(MemoryStore::new()).await;
    world.store.durable(false);
    world.accept(&turn("10", "7", "42"));
    settle().await;
    world.store.fence(range());
    world.store.durable(true);
    world.accept(&turn("11", "8", "42"));
    settle().await;
    assert!(world.receipts.try_recv().is_err());
    assert_eq!(world.store.json(&keys::turn(&turn_id("11"))), None);
    assert_eq!(world.permits.free(), 100, "the turns hold nothing");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_awaits_the_custody_of_an_event_is_refused_at_once_if_another_process_owns_its_turns() {
    let world = world(MemoryStore::new()).await;
    world.store.fence(range());
    let (told, outcome) = tokio::sync::oneshot::channel();
    let receipt = Receipt::awaited(Claim::default(), move |outcome| told.send(outcome).unwrap());
    let permit = world.permits.take(None).unwrap();
    let accepted = Accepted { turn: Arc::new(turn("10", "7", "42")), answer: None, permit, receipt };
    world.journal.cast(JournalMsg::Accept(Box::new(accepted))).unwrap();
    settle().await;
    assert_eq!(outcome.now_or_never(), Some(Ok(Told::Returned)));
}

#[tokio::test(start_paused = true)]
async fn where_another_process_may_write_an_answer_waits_for_its_record() {
    let mut world = world(MemoryStore::new()).await;
    world.store.shared.store(true, Ordering::SeqCst);
    let question = turn("10", "7", "42");
    world.accept(&question);
    settle().await;
    world.store.durable(false);
    world.answered(&question, "hello");
    settle().await;
    let Some(OutboxMsg::Deliver { clearance, .. }) = world.outbox.now().await else { panic!("it is delivered") };
    assert!(clearance.is_given().now_or_never().is_none(), "its record is on the way");
    world.store.durable(true);
    assert!(clearance.is_given().await && !clearance.is_lost());
    world.store.fence(range());
    assert!(clearance.is_lost() && !clearance.is_given().await);
}
