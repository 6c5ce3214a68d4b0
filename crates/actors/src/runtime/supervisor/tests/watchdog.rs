//! Hanging handlers.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_logged_and_its_actor_restarted_where_the_row_says_so() {
    for (on_hang, expected) in [(OnHang::Restart, LifeState::Running), (OnHang::Log, LifeState::Running)] {
        let (log, a) = (Log::capture(), at("a"));
        let mut stage = Stage::new();
        stage.actor(row(TreeRow { on_hang, ..LEAF }), &a, Worker::default());
        let _tree = stage.go().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(log.of("actor.hung").is_empty(), "an actor that waits for its next message does not hang");
        a.cast(Do::Hang).unwrap();
        tokio::time::sleep(LEAF.handler_timeout).await;
        assert!(log.of("actor.hung").is_empty() && !a.stats().is_hung());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let [hung] = &log.of("actor.hung")[..] else { panic!("{:?}", log.of("actor.hung")) };
        assert_eq!((hung["actor"].as_str(), hung["handling"].as_str()), ("staffai/a", "message"));
        assert_eq!(hung["action"], on_hang.as_str());
        assert_eq!(state(&a), expected);
        if on_hang == OnHang::Restart {
            assert_eq!((lives(&a).await, last_error(&a).as_str()), (Ok(2), "killed"));
        } else {
            assert!(a.stats().is_hung(), "it is shown as long as it hangs");
            assert_eq!(lives(&a).await, Err(CallError::Timeout));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_handler_that_runs_on_is_reported_once_more() {
    let handle: Handle<Do> = at("a");
    let (stats, grace) = (handle.stats(), Duration::from_secs(1));
    stats.begin(Input::Message(None), "Work");
    assert_eq!(stats.look(grace), None);
    tokio::time::sleep(Duration::from_millis(5_500)).await;
    assert_eq!(stats.look(grace), Some(Hung::Overdue(Input::Message(None), Duration::from_millis(5_500))));
    assert_eq!(stats.look(grace), None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(stats.look(grace), Some(Hung::Blocked(Duration::from_millis(6_500))));
    assert_eq!(stats.look(grace), None);
}
