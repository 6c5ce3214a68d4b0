use std::sync::atomic::Ordering;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::intake::GatewayIntake;
use crate::testing::{DOOR, LEAF, Stage, Tree, at, row, usual};
use domain::restart::Backoff;
use ports::testing::{FixedDice, ManualClock, MemoryStore};
use ports::{Clock, SourceError, Store};

/// A platform whose catch-ups are scripted.
#[derive(Default)]
struct Platform {
    /// The catch-ups so far.
    asked: Mutex<Vec<Missed>>,
    /// True if no place can be read.
    fails: Mutex<bool>,
    /// A place that cannot be read.
    unreadable: Mutex<Option<Place>>,
    /// Ends catch-ups that wait for it.
    holds: Mutex<Option<Arc<Notify>>>,
}

#[async_trait]
impl EventSource for Platform {
    async fn run(&self, _intake: Arc<dyn Intake>, _serving: Box<dyn Fn() + Send + Sync>) -> SourceError {
        std::future::pending().await
    }

    fn pauses(&self) -> Backoff {
        Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(1) }
    }

    async fn catch_up(&self, missed: &Missed, _intake: Arc<dyn Intake>) -> Result<CaughtUp, String> {
        self.asked.lock().push(missed.clone());
        let held = self.holds.lock().clone();
        if let Some(held) = held {
            held.notified().await;
        }
        if *self.fails.lock() {
            return Err("unreachable".to_owned());
        }
        let unread = self.unreadable.lock().iter().map(|place| (place.clone(), "broken".to_owned())).collect();
        Ok(CaughtUp { messages: 1, unread })
    }
}

struct World {
    platform: Arc<Platform>,
    board: Arc<Board>,
    store: Arc<MemoryStore>,
    _tree: Tree,
}

impl World {
    async fn begin(store: Arc<MemoryStore>) -> Self {
        let (platform, board, clock) =
            (Arc::new(Platform::default()), Arc::new(Board::default()), Arc::new(ManualClock::new()));
        let actor = Slack {
            door: DOOR,
            source: Arc::clone(&platform) as _,
            intake: Arc::new(GatewayIntake { gateway: at("gateway") }),
            board: Arc::clone(&board),
            basics: Basics {
                live: usual(),
                store: Arc::clone(&store) as _,
                clock: Arc::clone(&clock) as _,
                dice: Arc::new(FixedDice::new(0.5)),
            },
        };
        let mut stage = Stage::new();
        stage.actor(row(LEAF), &at("slack"), actor);
        Self { platform, board, store, _tree: stage.go().await }
    }

    async fn passes(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn mark(&self) -> Option<u64> {
        self.store.get(&keys::watermark(&DOOR, "sockets")).await.and_then(|text| text.parse().ok())
    }

    /// Returns the starts of the catch-ups of all channels.
    fn starts(&self) -> Vec<Timestamp> {
        let start = |missed: &Missed| if let Missed::Everywhere(since) = missed { Some(*since) } else { None };
        self.platform.asked.lock().iter().filter_map(start).collect()
    }

    /// Returns the number of catch-ups of this place alone.
    fn alone(&self, place: &Place) -> usize {
        let is_alone =
            |missed: &&Missed| matches!(missed, Missed::In(places) if places.len() == 1 && places[0].0 == *place);
        self.platform.asked.lock().iter().filter(is_alone).count()
    }
}

/// A store with a watermark of now, and that time.
async fn known() -> (Arc<MemoryStore>, Timestamp) {
    let (store, begun) = (Arc::new(MemoryStore::new()), ManualClock::new().now());
    let (key, value) = (keys::watermark(&DOOR, "sockets"), begun.0.to_string());
    assert!(store.write(vec![Write::Put { key, value, ttl: None }]).await);
    (store, begun)
}

fn name() -> String {
    format!("{DOOR}:0")
}

#[tokio::test(start_paused = true)]
async fn a_new_workspace_is_not_read_back_and_a_known_one_is_after_each_gap() {
    let store = Arc::new(MemoryStore::new());
    let world = World::begin(Arc::clone(&store)).await;
    world.board.up(PartKind::Socket, &name());
    world.passes(Duration::from_secs(60)).await;
    assert_eq!(world.starts(), [], "earlier messages were not for the bot");
    let marked = world.mark().await.unwrap();

    world.board.down(PartKind::Socket, &name(), "cut");
    world.passes(Duration::from_secs(60)).await;
    assert!(world.mark().await.unwrap() - marked < 30_000, "nothing is received meanwhile");
    let marked = world.mark().await.unwrap();
    world.board.up(PartKind::Socket, &name());
    world.passes(Duration::from_secs(5)).await;
    assert_eq!(world.starts(), [Timestamp(marked)]);
    assert!(world.mark().await.unwrap() > marked);
}

#[tokio::test(start_paused = true)]
async fn a_failed_catch_up_is_repeated_from_the_same_time() {
    let (store, begun) = known().await;
    let world = World::begin(store).await;
    *world.platform.fails.lock() = true;
    world.board.up(PartKind::Socket, &name());
    world.passes(Duration::from_secs(300)).await;
    let starts = world.starts();
    assert!((3..=6).contains(&starts.len()) && starts.iter().all(|start| *start == begun), "{starts:?}");
    assert_eq!(world.mark().await, Some(begun.0), "the gap is still open");
    *world.platform.fails.lock() = false;
    world.passes(Duration::from_secs(300)).await;
    assert_eq!(world.starts().len(), starts.len() + 1);
    assert!(world.mark().await > Some(begun.0));
}

#[tokio::test(start_paused = true)]
async fn a_gap_during_a_catch_up_is_read_back_too() {
    let (store, begun) = known().await;
    let world = World::begin(store).await;
    let hold = Arc::new(Notify::new());
    *world.platform.holds.lock() = Some(Arc::clone(&hold));
    world.board.up(PartKind::Socket, &name());
    world.passes(Duration::from_secs(5)).await;
    assert_eq!(world.starts(), [begun]);
    // Between two looks.
    world.board.down(PartKind::Socket, &name(), "cut");
    world.passes(Duration::from_millis(100)).await;
    world.board.up(PartKind::Socket, &name());
    world.passes(Duration::from_secs(60)).await;
    *world.platform.holds.lock() = None;
    hold.notify_one();
    world.passes(Duration::from_secs(5)).await;
    let starts = world.starts();
    assert!(starts.len() == 2 && starts[1] < Timestamp(begun.0 + 5_000), "{starts:?}");
    world.passes(Duration::from_secs(60)).await;
    assert_eq!(world.starts().len(), 2, "everything is received");
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_cannot_be_read_is_tried_alone_with_growing_pauses_also_after_a_restart() {
    let (store, begun) = known().await;
    let world = World::begin(Arc::clone(&store)).await;
    let place = Place::new(DOOR, "C1");
    *world.platform.unreadable.lock() = Some(place.clone());
    world.board.up(PartKind::Socket, &name());
    world.passes(Duration::from_secs(300)).await;
    assert_eq!(world.starts(), [begun], "the other channels are read once");
    assert!((3..=6).contains(&world.alone(&place)), "{:?}", world.platform.asked);
    assert!(world.mark().await > Some(begun.0), "the other channels go on");
    drop(world);

    let again = World::begin(Arc::clone(&store)).await;
    again.board.up(PartKind::Socket, &name());
    again.passes(Duration::from_secs(10)).await;
    assert_eq!(again.alone(&place), 1);
    again.passes(Duration::from_secs(300)).await;
    assert_eq!(again.alone(&place), 1, "it is read");
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_is_never_read_is_given_up_once_its_messages_are_too_old_to_answer() {
    let (store, _) = known().await;
    let world = World::begin(store).await;
    let place = Place::new(DOOR, "C1");
    *world.platform.unreadable.lock() = Some(place.clone());
    world.board.up(PartKind::Socket, &name());
    world.passes(Duration::from_secs(3_600)).await;
    let tries = world.alone(&place);
    world.passes(Duration::from_secs(3_600)).await;
    assert_eq!(world.alone(&place), tries);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_delays_the_catch_up() {
    let (store, begun) = known().await;
    store.degraded.store(true, Ordering::SeqCst);
    let world = World::begin(Arc::clone(&store)).await;
    world.board.up(PartKind::Socket, &name());
    world.passes(Duration::from_secs(60)).await;
    assert_eq!(world.platform.asked.lock().len(), 0);
    store.degraded.store(false, Ordering::SeqCst);
    world.passes(Duration::from_secs(10)).await;
    assert_eq!(world.starts(), [begun]);
}
