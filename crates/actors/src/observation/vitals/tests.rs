use super::*;
use crate::runtime::handle::Handle;
use crate::testing::{live, place, real, usual};
use crate::tree::Scope;
use ports::Input;
use ports::testing::{MemoryStore, ScriptedModels};

fn actors(many: usize) -> Vec<Arc<Stats>> {
    let of = |kind, above, scope| Arc::clone(Handle::<()>::new(real(kind), above, scope).stats());
    let branch = [of(ActorKind::Root, "", Scope::One), of(ActorKind::Conversations, ROOT, Scope::One)];
    let leaves = (0..many)
        .map(|number| of(ActorKind::Conversation, "staffai/conversations", Scope::Place(place(&number.to_string()))));
    branch.into_iter().chain(leaves).collect()
}

/// Nanoseconds of CPU time of this thread, which do not depend on the load of the machine.
fn thread_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ran| ran.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn the_tree_of_20_000_actors_takes_as_long_for_each_as_that_of_a_few() {
    let best = |many: usize| {
        let actors = actors(many);
        let once = || {
            let begun = thread_time();
            let tree = tree_of(&actors, usize::MAX);
            let took = thread_time() - begun;
            assert_eq!((tree.children.len(), tree.children[0].children.len()), (1, many));
            took
        };
        (0..5).map(|_| once()).min().unwrap_or_default()
    };
    let (few, many) = (best(1_000), best(20_000));
    // The kernel counts in ticks, so short times can read as zero. Twenty times the actors may take twenty times as
    // long, plus the sorting; visiting all actors for each actor takes 400 times as long.
    assert!(many <= few.max(1_500_000) * 100, "{few} ns for 1,000, {many} ns for 20,000");
}

#[tokio::test]
async fn of_20_000_actors_of_one_kind_a_few_have_a_row_and_one_stands_for_the_rest() {
    let actors = actors(20_000);
    for stats in &actors {
        stats.enter(LifeState::Running);
        stats.handled.store(3, Ordering::Relaxed);
    }
    let whole = tree_of(&actors, usize::MAX);
    let tree = tree_of(&actors, 60);
    let (all, shown) = (&whole.children[0].children, &tree.children[0].children);
    assert_eq!((&shown[..60], shown.len()), (&all[..60], 61));
    let rest = shown.last().unwrap();
    assert_eq!((rest.name.as_str(), rest.path.as_str()), ("conversation:*", "staffai/conversations/conversation:*"));
    assert_eq!((rest.many, rest.handled, rest.state.as_str()), (Some(19_940), 3 * 19_940, "running"));
    let written = serde_json::to_vec(&tree).unwrap();
    assert!(written.len() < 64 * 1024, "{} bytes", written.len());
    // Of the actors without a row, those that are not running are shown.
    let last = actors.iter().find(|stats| *stats.path == *all[19_999].path).unwrap();
    last.failed("no");
    last.enter(LifeState::Restarting);
    let told = tree_of(&actors, 60).children[0].children[60].clone();
    assert_eq!((told.state.as_str(), told.last_error.as_deref()), ("restarting", Some("no")));
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_hangs_or_waits_long_for_its_restart_is_named() {
    let roster = Roster::default();
    let of = |kind| Arc::clone(Handle::<()>::new(real(kind), ROOT, Scope::One).stats());
    let (hung, failed, well) = (of(ActorKind::Journal), of(ActorKind::Gateway), of(ActorKind::Ops));
    for stats in [&hung, &failed, &well] {
        stats.enter(LifeState::Running);
        roster.enter(Arc::clone(stats));
    }
    hung.begin(Input::Message(None), "Work");
    failed.failed("no");
    failed.enter(LifeState::Restarting);
    assert!(unwell(&roster).is_empty());
    tokio::time::sleep(Duration::from_secs(6)).await;
    let named = unwell(&roster);
    let named: Vec<_> = named.iter().map(|actor| (actor.actor.as_str(), actor.state.as_str(), actor.for_s)).collect();
    assert_eq!(named, [("staffai/gateway", "restarting", 6), ("staffai/journal", "hung", 6)]);
    let tree = tree_of(&roster.all(), usize::MAX);
    let shown: Vec<_> = tree.children.iter().map(|node| (node.name.as_str(), node.state.as_str())).collect();
    assert_eq!(shown, [("ops", "running"), ("journal", "hung"), ("gateway", "restarting")]);
}

#[tokio::test]
async fn an_optional_part_never_changes_the_status_and_the_last_model_of_a_door_does() {
    let (board, store) = (Board::default(), MemoryStore::new());
    // The first row falls back to the second.
    let running = live(&[], Arc::new(ScriptedModels::new(&["main", "spare"]))).now();
    let condition = || {
        let (status, parts) = condition(&board, &store, &running);
        let down = parts.into_iter().filter(|part| !part.state.up);
        let down: Vec<String> =
            down.map(|part| format!("{}{}", part.name, if part.optional { "?" } else { "" })).collect();
        (status, down.join(" "))
    };
    board.up(PartKind::Shard, "discord:0");
    assert_eq!(condition(), (Status::Ready, String::new()));
    board.down(PartKind::McpServer, "notes", "gone");
    board.down(PartKind::Model, "spare", "gone");
    assert_eq!(condition(), (Status::Ready, "spare? notes?".to_owned()));
    board.up(PartKind::Model, "spare");
    board.down(PartKind::Model, "main", "gone");
    assert_eq!(condition(), (Status::Ready, "main? notes?".to_owned()), "its fallback answers");
    board.down(PartKind::Model, "spare", "gone");
    assert_eq!(condition(), (Status::Degraded, "main spare notes?".to_owned()), "no row is left");
    board.up(PartKind::Model, "main");
    assert_eq!(condition().0, Status::Ready);
    store.degraded.store(true, Ordering::SeqCst);
    assert_eq!(condition(), (Status::Degraded, "store spare? notes?".to_owned()));
    store.degraded.store(false, Ordering::SeqCst);
    board.down(PartKind::Shard, "discord:1", "cut");
    assert_eq!(condition(), (Status::Degraded, "discord:1 spare? notes?".to_owned()));
    board.down(PartKind::Custody, "discord", "another process owns its turns");
    assert_eq!(condition().0, Status::Down, "another process acts");
}

#[tokio::test]
async fn a_connection_that_was_lost_is_down_and_not_starting_again() {
    let (board, store, running) = (Board::default(), MemoryStore::new(), usual().now());
    let status = || condition(&board, &store, &running).0;
    board.starting(PartKind::Shard, "discord:0");
    assert_eq!(status(), Status::Starting);
    board.up(PartKind::Shard, "discord:0");
    assert_eq!(status(), Status::Ready);
    board.down(PartKind::Shard, "discord:0", "cut");
    assert_eq!(status(), Status::Down);
    board.starting(PartKind::Shard, "discord:0");
    assert_eq!(status(), Status::Down, "a shard that crashed was connected before");
}
