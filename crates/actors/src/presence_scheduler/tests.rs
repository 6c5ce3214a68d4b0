use super::*;
use crate::llm_dispatcher::LlmDispatcher;
use crate::model_permits::ModelPermits;
use crate::observation::board::PartKind;
use crate::observers::Observers;
use crate::testing::{DOOR, LEAF, Stage, Tree, at, live, row, settle};
use domain::ids::Timestamp;
use ports::testing::{ManualClock, MemoryStore, Say, ScriptedModels};

use tokio::sync::Semaphore;

/// Mood, kind and text.
type Seen = (Mood, Option<(ActivityKind, String)>);

struct World {
    scheduler: Handle<PresenceMsg>,
    models: Arc<ScriptedModels>,
    board: Arc<Board>,
    permits: Arc<Semaphore>,
    shown: watch::Receiver<Option<Presence>>,
    _tree: Tree,
}

/// A scheduler of an open door, with these variables.
async fn world(variables: &[(&str, &str)], says: Vec<Say>) -> World {
    let models = Arc::new(ScriptedModels::new(&["main"]));
    for say in says {
        models.say(say);
    }
    let live = live(variables, Arc::clone(&models) as _);
    let (scheduler, dispatcher) = (at("presence_scheduler"), at("llm_dispatcher"));
    let board: Arc<Board> = Arc::default();
    board.up(PartKind::Shard, "discord:0");
    let permits = Arc::new(Semaphore::new(live.now().settings.llm.concurrent));
    let slot: Slot = Arc::default();
    let shown = slot.subscribe();
    let mut stage = Stage::new();
    let actor = LlmDispatcher {
        live: live.clone(),
        permits: ModelPermits::new(Arc::clone(&permits)),
        board: Arc::clone(&board),
        observers: Observers::default(),
    };
    stage.actor(row(LEAF), &dispatcher, actor);
    let clock = Arc::new(ManualClock::new());
    let actor = PresenceScheduler {
        door: DOOR,
        live,
        clock,
        board: Arc::clone(&board),
        store: Arc::new(MemoryStore::new()),
        dispatcher,
        slot,
    };
    stage.actor(row(LEAF), &scheduler, actor);
    World { scheduler, models, board, permits, shown, _tree: stage.go().await }
}

impl World {
    /// The presence after this time: mood, kind and text.
    async fn after(&mut self, time: Duration) -> Option<Seen> {
        tokio::time::sleep(time).await;
        settle().await;
        let shown = self.shown.borrow_and_update().clone()?;
        Some((shown.mood, shown.line.map(|line| (line.kind, line.text.to_string()))))
    }

    fn asked(&self) -> usize {
        self.models.asked.lock().len()
    }
}

fn online(kind: ActivityKind, text: &str) -> Seen {
    (Mood::Online, Some((kind, text.to_owned())))
}

const INTERVAL: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn lines_are_written_in_turn_and_failures_keep_the_old_one() {
    let bad = Say::Fail(ports::ModelErrorKind::Provider);
    let says = vec![Say::Text("chess"), bad, Say::Text(" ** "), Say::Text("a @here bell")];
    let mut world = world(&[], says).await;
    assert_eq!(world.after(SOON).await, Some(online(ActivityKind::Playing, "chess")));
    assert_eq!(world.after(INTERVAL).await, Some(online(ActivityKind::Playing, "chess")));
    assert_eq!(world.asked(), 2);
    assert_eq!(world.after(INTERVAL).await, Some(online(ActivityKind::Playing, "chess")));
    assert_eq!(world.after(INTERVAL).await, Some(online(ActivityKind::Custom, "a here bell")));
    assert_eq!(world.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_line_can_be_asked_for() {
    let mut world = world(&[], vec![Say::Text("one"), Say::Text("two")]).await;
    assert_eq!(world.after(SOON).await, Some(online(ActivityKind::Playing, "one")));
    world.scheduler.cast(PresenceMsg::Refresh).unwrap();
    assert_eq!(world.after(Duration::from_millis(10)).await, Some(online(ActivityKind::Listening, "two")));
}

#[tokio::test(start_paused = true)]
async fn an_interval_of_nothing_turns_it_off() {
    let mut world = world(&[("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0")], vec![]).await;
    assert_eq!(world.after(INTERVAL * 3).await, None);
    assert_eq!(world.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn outside_its_hours_it_is_idle_also_when_degraded_and_without_lines() {
    for interval in ["0", "300"] {
        let variables = [
            ("ACTIVITY_UPDATE_INTERVAL_SECONDS", interval),
            ("ACTIVITY_SCHEDULE_ENABLED", "true"),
            ("ACTIVITY_ACTIVE_START_HOUR_UTC", "9"),
            ("ACTIVITY_ACTIVE_END_HOUR_UTC", "10"),
        ];
        let mut world = world(&variables, vec![Say::Text("tea")]).await;
        world.board.down(PartKind::Model, "main", "refused");
        assert_eq!(world.after(SOON).await, Some((Mood::Idle, None)), "{interval}");
        assert_eq!(world.asked(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn outside_its_hours_it_is_idle_and_writes_nothing() {
    // The tests begin at 08:00 UTC on a Friday.
    let begin = Schedule { start: 8, end: 9, days: vec![4] };
    assert!(begin.is_active(crate::testing::BEGINNING));
    assert!(!begin.is_active(Timestamp(crate::testing::BEGINNING.0 - 1)));
    let variables = [
        ("ACTIVITY_SCHEDULE_ENABLED", "true"),
        ("ACTIVITY_ACTIVE_START_HOUR_UTC", "9"),
        ("ACTIVITY_ACTIVE_END_HOUR_UTC", "10"),
        ("ACTIVITY_ACTIVE_DAYS_UTC", "4"),
    ];
    let mut world = world(&variables, vec![Say::Text("tea")]).await;
    assert_eq!(world.after(SOON).await, Some((Mood::Idle, None)));
    assert_eq!(world.asked(), 0);
    assert_eq!(world.after(Duration::from_secs(3_600)).await, Some(online(ActivityKind::Playing, "tea")));
    assert_eq!(world.after(Duration::from_secs(3_600)).await, Some((Mood::Idle, None)));
}

#[tokio::test(start_paused = true)]
async fn while_something_is_wrong_it_says_so_and_comes_back() {
    let mut world = world(&[], vec![Say::Text("chess")]).await;
    assert_eq!(world.after(SOON).await, Some(online(ActivityKind::Playing, "chess")));
    world.board.down(PartKind::Model, "main", "gone");
    let unwell = Some((Mood::Busy, Some((ActivityKind::Custom, notice::unwell().to_owned()))));
    assert_eq!(world.after(SOON).await, unwell);
    world.board.up(PartKind::Model, "main");
    assert_eq!(world.after(SOON).await, Some(online(ActivityKind::Playing, "chess")));
    world.board.drain();
    assert_eq!(
        world.after(INTERVAL * 2).await,
        Some(online(ActivityKind::Playing, "chess")),
        "nothing is written any more"
    );
    assert_eq!(world.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_takes_no_permit_that_a_member_may_need() {
    let mut world = world(&[("STAFFAI_LLM__CONCURRENT", "8")], vec![Say::Text("chess")]).await;
    let held = Arc::clone(&world.permits).acquire_many_owned(6).await.unwrap();
    assert_eq!(world.after(INTERVAL).await, None, "the last two are kept");
    assert_eq!(world.asked(), 0);
    drop(held);
    assert_eq!(world.after(AGAIN_AFTER + SOON).await, Some(online(ActivityKind::Playing, "chess")));
}
