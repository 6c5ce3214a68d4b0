//! Faults injected while an actor runs.

use super::*;

const A: &str = "staffai/a";
const DELAY: Duration = Duration::from_millis(1);

/// Returns an actor that accepts injected faults, and their source.
async fn one() -> (Handle<Do>, Arc<ports::testing::ScriptedFaults>, crate::testing::Tree) {
    let a = at("a");
    let mut stage = Stage::new();
    stage.faults.take_orders();
    let faults = Arc::clone(&stage.faults);
    stage.actor(row(TreeRow { on_hang: OnHang::Restart, ..LEAF }), &a, Worker::default());
    (a, faults, stage.go().await)
}

#[tokio::test(start_paused = true)]
async fn an_actor_to_which_nothing_is_sent_fails_when_it_is_ordered_to() {
    let (a, faults, _tree) = one().await;
    for (fault, error, restarts) in [(Fault::Panic, "injected panic", 1), (Fault::Error, "injected error", 2)] {
        assert!(faults.order(A, fault));
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!((state(&a), last_error(&a).as_str()), (LifeState::Running, error));
        assert_eq!(a.stats().restarts.load(Ordering::Relaxed), restarts);
        let life = a.stats().life();
        assert!(life.backoff.is_some() && life.outage >= life.backoff, "{life:?}");
    }
    assert_eq!(lives(&a).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn no_number_of_orders_makes_a_supervisor_give_up() {
    let (a, faults, tree) = one().await;
    for _ in 0..50 {
        while !faults.order(A, Fault::Panic) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        settle().await;
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!tree.ended.is_finished());
    assert_eq!(a.stats().restarts.load(Ordering::Relaxed), 50);
    assert_eq!(state(&a), LifeState::Running);
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_is_ordered_to_hang_is_killed_by_its_row() {
    let (a, faults, _tree) = one().await;
    assert!(faults.order(A, Fault::Hang));
    tokio::time::sleep(LEAF.handler_timeout + Duration::from_secs(5)).await;
    assert_eq!((state(&a), last_error(&a).as_str()), (LifeState::Running, "killed"));
}

#[tokio::test(start_paused = true)]
async fn a_flood_fills_the_mailbox_within_its_bound_and_passes() {
    let (a, faults, _tree) = one().await;
    for _ in 0..2_000 {
        assert!(faults.order(A, Fault::Delay(DELAY)));
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let depth = a.stats().depth.load(Ordering::Relaxed);
    assert!((500..=1_000).contains(&depth), "{depth} wait");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(a.stats().depth.load(Ordering::Relaxed), 0);
    assert_eq!(lives(&a).await, Ok(1), "it never failed");
}
