//! Children started and stopped while the program runs.

use super::*;

fn dynamic(name: &str, notes: &Notes) -> (Handle<Do>, ChildSpec) {
    let handle = below("staffai/a", name);
    let spec = ChildSpec::new(permanent(), &handle, Worker::noting(notes), Vec::new());
    (handle, spec)
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_started_twice_lives_once() {
    let (a, _b, notes, _tree) = two(PATIENT).await;
    notes.take();
    let (first, spec) = dynamic("x", &notes);
    a.cast(Do::Start(spec)).unwrap();
    let (second, spec) = dynamic("x", &notes);
    a.cast(Do::Start(spec)).unwrap();
    settle().await;
    assert_eq!(notes.take(), ["start staffai/a/x"]);
    assert_eq!((lives(&first).await, lives(&second).await), (Ok(1), Err(CallError::Down)));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_was_stopped_makes_room_at_once() {
    let (a, _b, notes, _tree) = two(PATIENT).await;
    notes.take();
    let (first, spec) = dynamic("x", &notes);
    a.cast(Do::Start(spec)).unwrap();
    a.cast(Do::Drop("staffai/a/x")).unwrap();
    let (second, spec) = dynamic("x", &notes);
    a.cast(Do::Start(spec)).unwrap();
    settle().await;
    assert_eq!(notes.take(), ["start staffai/a/x", "stop staffai/a/x", "start staffai/a/x"]);
    assert_eq!((lives(&first).await, lives(&second).await), (Err(CallError::Down), Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn the_children_of_a_failed_actor_die_with_it_and_leave_the_roster() {
    let (log, notes, a) = (Log::capture(), Notes::default(), at("a"));
    let mut stage = Stage::new();
    let roster = Arc::clone(&stage.roster);
    let slow = row(TreeRow { backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(2) }, ..LEAF });
    stage.actor(slow, &a, Worker::noting(&notes));
    let _tree = stage.go().await;
    let (x, spec) = dynamic("x", &notes);
    a.cast(Do::Start(spec)).unwrap();
    settle().await;
    let paths = || roster.all().iter().map(|stats| stats.path.to_string()).collect::<Vec<_>>();
    assert_eq!(paths(), ["staffai", "staffai/a", "staffai/a/x"]);
    a.cast(Do::Fail("no")).unwrap();
    settle().await;
    assert_eq!(paths(), ["staffai", "staffai/a"], "at once, not at the restart");
    assert_eq!((state(&x), is_down(&x)), (LifeState::Stopped, true));
    assert_eq!(log.column("actor.stopped", "actor"), ["staffai/a/x"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(paths(), ["staffai", "staffai/a"]);
}
