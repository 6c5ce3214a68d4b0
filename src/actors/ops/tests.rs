use super::*;
use crate::actors::handle::Handle;
use crate::actors::testing::log::Log;
use crate::actors::testing::ports::ScriptedListener;
use crate::actors::testing::{LEAF, Stage, at, place, real, row, settle};
use crate::actors::tree::{ActorKind, Scope};

fn conversation(id: &str) -> Handle<()> {
    Handle::new(real(ActorKind::Conversation), "staffai/conversations", Scope::Place(place(id)))
}

#[tokio::test(start_paused = true)]
async fn every_minute_each_actor_has_a_line_and_conversations_one_together() {
    let (log, ops) = (Log::capture(), at("ops"));
    let mut stage = Stage::new();
    let (roster, listener) = (Arc::clone(&stage.roster), Arc::new(ScriptedListener::default()));
    stage.actor(row(LEAF), &ops, Ops { listener, roster: Arc::clone(&roster) });
    let _tree = stage.go().await;
    for (place, handled) in [("42", 3), ("43", 4)] {
        let handle = conversation(place);
        handle.stats().handled.store(handled, Ordering::Relaxed);
        handle.stats().enter(LifeState::Running);
        roster.enter(Arc::clone(handle.stats()));
    }
    tokio::time::sleep(HEALTH_EVERY * 2).await;
    settle().await;
    let lines = log.of("actor.health");
    let actors: Vec<&str> = lines.iter().map(|line| line["actor"].as_str()).collect();
    let once = ["staffai", "staffai/conversations/conversation", "staffai/ops"];
    assert_eq!(actors, [once, once].concat());
    let conversations = &lines[1];
    assert_eq!((conversations["count"].as_str(), conversations["handled"].as_str()), ("2", "7"));
    assert_eq!(conversations["state"], "running");
    assert!(!lines.iter().flatten().any(|(_, value)| value.contains("discord:4")), "no channel is named");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_fails_is_started_again() {
    let (log, ops) = (Log::capture(), at("ops"));
    let mut stage = Stage::new();
    let listener = Arc::new(ScriptedListener::default());
    listener.failures.store(2, Ordering::SeqCst);
    let actor = Ops { listener: Arc::clone(&listener) as _, roster: Arc::clone(&stage.roster) };
    stage.actor(row(LEAF), &ops, actor);
    let _tree = stage.go().await;
    tokio::time::sleep(LISTEN_AGAIN * 5).await;
    assert_eq!(listener.begun.load(Ordering::SeqCst), 3);
    assert_eq!(log.column("ops.unreachable", "reason"), ["the address is in use"; 2]);
}

#[test]
fn a_kind_runs_when_all_of_it_run_and_shows_its_last_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().start_paused(true).enable_time().build().unwrap();
    let _guard = runtime.enter();
    let handles = ["42", "43"].map(conversation);
    handles[0].stats().enter(LifeState::Running);
    handles[1].stats().enter(LifeState::Restarting);
    handles[1].stats().failed("no");
    let stats: Vec<Arc<Stats>> = handles.iter().map(|handle| Arc::clone(handle.stats())).collect();
    let sums = sums(&stats);
    let sum = &sums["staffai/conversations/conversation"];
    assert_eq!((sum.count, sum.running, sum.last_error.as_deref()), (2, 1, Some("no")));
}
