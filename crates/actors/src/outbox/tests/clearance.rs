//! Answers whose turns another process may own.

use futures_util::FutureExt;
use tokio::sync::{oneshot, watch};

use super::*;
use crate::messages::clearance::{self, Clearance};
use domain::ownership::Range;
use ports::WriteOutcome;
use ports::testing::DOOR;

/// A pending record, and the sender of its result.
struct Record {
    outcome: Option<oneshot::Sender<WriteOutcome>>,
    fenced: watch::Sender<Vec<Range>>,
    clearance: Clearance,
}

impl Record {
    fn new() -> Self {
        let (outcome, kept) = oneshot::channel();
        let fenced = watch::Sender::default();
        let kept = clearance::shared(kept.map(|kept| kept.unwrap_or(WriteOutcome::InMemory)).boxed());
        let clearance = Clearance::new(kept, Range::Door(DOOR), fenced.subscribe());
        Self { outcome: Some(outcome), fenced, clearance }
    }

    fn is(&mut self, kept: WriteOutcome) {
        if kept == WriteOutcome::Fenced {
            self.fence();
        }
        self.outcome.take().unwrap().send(kept).unwrap();
    }

    fn fence(&self) {
        self.fenced.send_modify(|fenced| fenced.push(Range::Door(DOOR)));
    }
}

fn deliver(world: &World, id: &str, text: &str, record: &Record) {
    let turn = turn(id, "7", "42");
    let deliver = OutboxMsg::Deliver {
        person: turn.person.clone(),
        outgoing: turn.reply_with(text),
        since: turn.at,
        turn: turn.id,
        check: false,
        others: Vec::new(),
        nonce_until: None,
        drafted: false,
        refused: None,
        rescue: None,
        clearance: record.clearance.clone(),
    };
    world.outbox.cast(deliver).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_posted_once_its_record_is_accepted() {
    for kept in [WriteOutcome::Durable, WriteOutcome::InMemory] {
        let (mut world, mut record) = (world().await, Record::new());
        deliver(&world, "10", "hello", &record);
        settle().await;
        assert_eq!(world.creates(), 0, "its record is on the way");
        record.is(kept);
        assert_eq!(world.told().await, ("10".to_owned(), Ok(1)));
        assert_eq!(world.poster.ours(&place("42")), ["hello"]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_posted_for_a_turn_that_another_process_owns() {
    let (mut world, mut record) = (world().await, Record::new());
    deliver(&world, "10", "hello", &record);
    world.deliver("11", "42", "behind it");
    settle().await;
    record.is(WriteOutcome::Fenced);
    assert_eq!(world.told().await, ("11".to_owned(), Ok(1)), "the next answer of the place is not held up");
    assert_eq!(world.poster.ours(&place("42")), ["behind it"]);
    assert!(world.journal.now().await.is_none(), "the journal hears of it from the store");
}

#[tokio::test(start_paused = true)]
async fn a_courier_that_tries_again_stops_once_another_process_owns_the_turn() {
    let (mut world, mut record) = (world().await, Record::new());
    record.is(WriteOutcome::Durable);
    world.poster.post_goes(transient());
    deliver(&world, "10", "hello", &record);
    settle().await;
    assert_eq!(world.creates(), 1);
    record.fence();
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert_eq!(world.creates(), 1);
    assert!(world.journal.now().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_stands_of_an_answer_is_left_to_its_new_owner() {
    let (mut world, record) = (world().await, Record::new());
    world.poster.slow(place("42"), Duration::from_secs(2));
    world.deliver("10", "42", "hello");
    deliver(&world, "11", "never", &record);
    settle().await;
    for id in ["10", "11"] {
        world.outbox.cast(OutboxMsg::Release { place: place("42"), turn: turn(id, "7", "42").id }).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.poster.ours(&place("42")), ["hello"], "what was on its way is not removed");
    assert!(world.journal.now().await.is_none());
}
