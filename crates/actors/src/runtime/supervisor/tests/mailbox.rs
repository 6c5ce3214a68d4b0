//! Mailboxes respect the capacity of their row.

use super::*;
use crate::tree::{Mailbox, Name, ROOT, Scope, WhenFull};

/// Returns a worker with a mailbox of this capacity, and its notes. The watchdog kills it when it hangs.
async fn bounded(capacity: usize, when_full: WhenFull) -> (Handle<Do>, Notes, crate::testing::Tree) {
    let mailbox = Mailbox { capacity, when_full };
    let row = row(TreeRow { name: Name::Fixed("a"), mailbox, on_hang: OnHang::Restart, ..LEAF });
    let (a, notes) = (Handle::new(row, ROOT, Scope::One), Notes::default());
    let mut stage = Stage::new();
    stage.actor(row, &a, Worker::noting(&notes));
    let tree = stage.go().await;
    settle().await;
    notes.take();
    (a, notes, tree)
}

/// Returns the number of messages in the mailbox, and the number refused because it was full.
fn counts(handle: &Handle<Do>) -> (usize, u64) {
    let stats = handle.stats();
    (stats.queued.load(Ordering::Relaxed), stats.refused.load(Ordering::Relaxed))
}

fn note(text: &str) -> Do {
    Do::Note(text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_gives_messages_back_and_counts_them() {
    let (a, notes, _tree) = bounded(3, WhenFull::Refuse).await;
    for text in ["1", "2", "3"] {
        a.cast(note(text)).unwrap();
    }
    let Err(Refused::Full(Do::Note(back))) = a.cast(note("4")) else { panic!("there was no room") };
    assert_eq!((back.as_str(), counts(&a)), ("4", (3, 1)));
    assert_eq!(lives(&a).await, Err(CallError::Full));
    a.tell(note("5"));
    assert_eq!(counts(&a), (3, 3));
    settle().await;
    assert_eq!(notes.take(), ["1", "2", "overflowed", "3"], "the actor is told once, when half of it is free");
    assert_eq!((lives(&a).await, counts(&a)), (Ok(1), (0, 3)));
    settle().await;
    assert!(notes.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_counts_are_exact_across_a_crash_that_throws_a_full_mailbox_away() {
    let (a, notes, _tree) = bounded(3, WhenFull::Refuse).await;
    a.cast(Do::Hang).unwrap();
    settle().await;
    let taken = (0..10).filter(|number| a.cast(note(&number.to_string())).is_ok()).count();
    assert_eq!((taken, counts(&a)), (2, (3, 8)));
    tokio::time::sleep(LEAF.handler_timeout + Duration::from_secs(2)).await;
    assert_eq!((state(&a), counts(&a), a.stats().depth.load(Ordering::Relaxed)), (LifeState::Running, (0, 8), 0));
    assert_eq!(notes.take(), ["start staffai/a"], "a new life asks for what it needs, so it is not told");
    a.cast(note("again")).unwrap();
    settle().await;
    assert_eq!((notes.take().as_slice(), counts(&a)), (["again".to_owned()].as_slice(), (0, 8)));
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_waits_already_is_dropped_and_counted() {
    let (a, notes, _tree) = bounded(2, WhenFull::Drop).await;
    for text in ["1", "2", "3", "4"] {
        a.cast(note(text)).unwrap();
    }
    assert_eq!(counts(&a), (2, 2));
    settle().await;
    assert_eq!(notes.take(), ["1", "overflowed", "2"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_its_own_are_not_refused() {
    let (a, notes, _tree) = bounded(1, WhenFull::Refuse).await;
    for _ in 0..10 {
        a.cast(Do::Later(Duration::from_secs(1))).unwrap();
        settle().await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((notes.take().len(), counts(&a)), (10, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_reads_without_end_waits_for_room() {
    let (a, notes, _tree) = bounded(3, WhenFull::Refuse).await;
    a.cast(Do::Reads(3 * STREAMED_MAX)).unwrap();
    settle().await;
    assert_eq!(a.stats().depth.load(Ordering::Relaxed), 0);
    assert_eq!(notes.take().len(), STREAMED_MAX, "as much as fits is handled");
    a.cast(Do::Hang).unwrap();
    tokio::time::sleep(LEAF.handler_timeout / 2).await;
    assert_eq!(a.stats().depth.load(Ordering::Relaxed), STREAMED_MAX);
}
