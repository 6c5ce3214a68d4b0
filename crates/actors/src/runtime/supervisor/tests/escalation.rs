//! The failures that count against the restart intensity, those that do not, and the consequences.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_root_ends_when_its_children_fail_too_often() {
    let log = Log::capture();
    let (a, b, notes, tree) = two(Intensity { restarts: 2, period: Duration::from_secs(60) }).await;
    notes.take();
    for _ in 0..3 {
        a.cast(Do::Own("again")).unwrap();
        settle().await;
    }
    tree.ended.await.unwrap();
    assert_eq!(notes.take(), ["start staffai/a", "start staffai/a", "stop staffai/b"], "the others stop in order");
    assert!(is_down(&a) && is_down(&b));
    let [escalated] = &log.of("actor.escalated")[..] else { panic!("{:?}", log.of("actor.escalated")) };
    assert_eq!((escalated["actor"].as_str(), escalated["child"].as_str()), ("staffai", "staffai/a"));
    assert_eq!((escalated["restarts"].as_str(), escalated["period_s"].as_str()), ("2", "60"));
}

#[tokio::test(start_paused = true)]
async fn failures_escalate_to_the_parent_which_starts_its_branch_anew() {
    let (log, notes) = (Log::capture(), Notes::default());
    let (branch, leaf) = (at("branch"), below("staffai/branch", "leaf"));
    let mut stage = Stage::new();
    let recovered = Arc::clone(&stage.recovered);
    let below = vec![ChildSpec::new(permanent(), &leaf, Worker::noting(&notes), Vec::new())];
    let strict = row(TreeRow { intensity: Intensity { restarts: 1, period: Duration::from_secs(60) }, ..LEAF });
    stage.children.push(ChildSpec::new(strict, &branch, Worker::noting(&notes), below));
    let _tree = stage.go().await;
    notes.take();
    for _ in 0..2 {
        leaf.cast(Do::Own("no")).unwrap();
        settle().await;
    }
    assert_eq!(notes.take(), ["start staffai/branch/leaf", "start staffai/branch", "start staffai/branch/leaf"]);
    assert_eq!(log.column("actor.escalated", "actor"), ["staffai/branch"]);
    assert_eq!(last_error(&branch), "staffai/branch/leaf failed more often than staffai/branch allows");
    assert_eq!(*recovered.lock(), ["staffai/branch/leaf", "staffai/branch"]);
    assert_eq!(lives(&leaf).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn what_others_send_never_uses_up_the_intensity_and_backs_off_further() {
    for poison in [Do::Fail, Do::Panic, Do::Outside] {
        let (log, a) = (Log::capture(), at("a"));
        let mut stage = Stage::new();
        let backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(5) };
        stage.actor(row(TreeRow { backoff, ..LEAF }), &a, Worker::default());
        let mut tree = stage.start(Intensity { restarts: 2, period: Duration::from_secs(60) }).await;
        let mut waited = Vec::new();
        for _ in 0..8 {
            a.cast(poison("no")).unwrap();
            settle().await;
            let begun = Instant::now();
            while state(&a) != LifeState::Running {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            waited.push(begun.elapsed().as_millis() / 500);
        }
        assert!(futures_util::poll!(&mut tree.ended).is_pending());
        assert_eq!(waited, [1, 2, 4, 8, 16, 30, 30, 30], "half of the bound, in halves of a second");
        assert!(log.of("actor.escalated").is_empty());
        assert_eq!(lives(&a).await, Ok(9));
    }
}

#[tokio::test(start_paused = true)]
async fn children_are_counted_each_for_itself() {
    let (a, b, _notes, mut tree) = two(Intensity { restarts: 2, period: Duration::from_secs(60) }).await;
    for _ in 0..2 {
        a.cast(Do::Own("no")).unwrap();
        b.cast(Do::Own("no")).unwrap();
        settle().await;
    }
    assert!(futures_util::poll!(&mut tree.ended).is_pending());
    a.cast(Do::Own("no")).unwrap();
    tree.ended.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_fails_its_actor_three_times_is_given_up_and_others_are_not() {
    let log = Log::capture();
    let (a, _b, notes, _tree) = two(PATIENT).await;
    for expected in [2, 3, 4, 4, 4] {
        notes.take();
        a.cast(Do::Poison("x")).unwrap();
        settle().await;
        assert_eq!(lives(&a).await, Ok(expected));
    }
    assert_eq!(notes.take(), ["gave up x"]);
    assert_eq!(log.column("actor.poisoned", "actor"), ["staffai/a", "staffai/a"]);
    a.cast(Do::Poison("y")).unwrap();
    settle().await;
    assert_eq!(lives(&a).await, Ok(5), "another one is tried");
    tokio::time::sleep(Duration::from_secs(601)).await;
    a.cast(Do::Poison("x")).unwrap();
    settle().await;
    assert_eq!(lives(&a).await, Ok(6), "after a while it is tried again");
}
