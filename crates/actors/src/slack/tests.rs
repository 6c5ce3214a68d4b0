use async_trait::async_trait;
use parking_lot::Mutex;

use super::*;
use crate::intake::GatewayIntake;
use crate::testing::{DOOR, LEAF, Stage, Tree, at, row, usual};
use domain::restart::Backoff;
use ports::testing::{FixedDice, ManualClock, MemoryStore};
use ports::{Clock, SourceError, Store};

/// A platform whose catch-ups are scripted.
#[derive(Default)]
struct Platform {
    /// The starts of catch-ups.
    since: Mutex<Vec<Timestamp>>,
    fails: Mutex<bool>,
}

#[async_trait]
impl EventSource for Platform {
    async fn run(&self, _intake: Arc<dyn Intake>, _serving: Box<dyn Fn() + Send + Sync>) -> SourceError {
        std::future::pending().await
    }

    fn pauses(&self) -> Backoff {
        Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(1) }
    }

    async fn catch_up(&self, since: Timestamp, _intake: Arc<dyn Intake>) -> Result<u64, String> {
        self.since.lock().push(since);
        if *self.fails.lock() { Err("unreachable".to_owned()) } else { Ok(1) }
    }
}

struct World {
    platform: Arc<Platform>,
    board: Arc<Board>,
    clock: Arc<ManualClock>,
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
        Self { platform, board, clock, store, _tree: stage.go().await }
    }

    async fn passes(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn mark(&self) -> Option<u64> {
        self.store.get(&keys::watermark(&DOOR, "sockets")).await.and_then(|text| text.parse().ok())
    }

    fn starts(&self) -> Vec<Timestamp> {
        self.platform.since.lock().clone()
    }
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
    let store = Arc::new(MemoryStore::new());
    let key = keys::watermark(&DOOR, "sockets");
    let world = World::begin(Arc::clone(&store)).await;
    let begun = world.clock.now();
    let value = begun.0.to_string();
    assert!(store.write(vec![Write::Put { key, value, ttl: None }]).await);
    *world.platform.fails.lock() = true;
    world.board.up(PartKind::Socket, &name());
    world.passes(Duration::from_secs(40)).await;
    assert_eq!(world.starts(), [begun, begun]);
    assert_eq!(world.mark().await, Some(begun.0), "the gap is still open");
    *world.platform.fails.lock() = false;
    world.passes(Duration::from_secs(40)).await;
    assert_eq!(world.starts(), [begun; 3]);
    assert!(world.mark().await > Some(begun.0));
}
