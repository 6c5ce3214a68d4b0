//! A journal whose mailbox was full.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_journal_that_refused_an_answer_offers_the_turn_again() {
    let mut world = world(MemoryStore::new()).await;
    let (unheard, posted, running) = (turn("10", "7", "42"), turn("11", "8", "43"), turn("12", "9", "44"));
    for turn in [&unheard, &posted, &running] {
        world.accept(turn);
        assert_eq!(world.offered().await.as_deref(), Some(turn.id.id.as_ref()));
    }
    world.answered(&posted, "fine");
    assert_eq!(world.delivery().await, Some(("11".to_owned(), "fine".to_owned(), false)));
    let _flight = world.in_flight.enter(&running.id);

    for _ in 0..world.journal.mailbox().capacity {
        world.journal.cast(JournalMsg::Undelivered(turn_id("99"))).unwrap();
    }
    let answer = answer(&unheard, "lost");
    world.journal.tell(JournalMsg::Answered(unheard.id.clone(), Box::new(answer)));
    world.journal.tell(JournalMsg::Undeliverable(posted.id.clone(), Unposted::Nothing));
    assert_eq!(world.journal.stats().refused.load(Ordering::Relaxed), 2);
    tokio::time::sleep(Duration::from_millis(1)).await;

    assert_eq!(world.offered().await.as_deref(), Some("10"), "its answer was refused");
    assert_eq!(world.offered().await, None, "a task works on the other one, and its answer is not lost");
    assert_eq!(world.delivery().await, Some(("11".to_owned(), "fine".to_owned(), true)), "its end was refused");
    world.delivered("11");
    world.answered(&unheard, "found again");
    assert_eq!(world.delivery().await, Some(("10".to_owned(), "found again".to_owned(), false)));
}
