use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use super::*;
use crate::intake::GatewayIntake;
use crate::testing::{DOOR, LEAF, Stage, at, row, settle};
use domain::restart::Backoff;
use ports::testing::FixedDice;

/// A platform that counts its open and begun connections.
#[derive(Default)]
struct Platform {
    /// The reason for which it rejects the bot permanently.
    refuses: Option<&'static str>,
    open: AtomicUsize,
    begun: AtomicUsize,
}

/// Counts a connection down when it is dropped.
struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl EventSource for Platform {
    async fn run(&self, _intake: Arc<dyn Intake>, serving: Box<dyn Fn() + Send + Sync>) -> SourceError {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if let Some(reason) = self.refuses {
            return SourceError::Refused(reason.to_owned());
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        let _open = Open(&self.open);
        serving();
        std::future::pending().await
    }

    fn pauses(&self) -> Backoff {
        Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(1) }
    }
}

fn actor(platform: &Arc<Platform>, board: &Arc<Board>, fenced: watch::Receiver<Vec<Range>>) -> SourceActor {
    SourceActor {
        door: DOOR,
        part: Part { kind: PartKind::Door, name: DOOR.as_str().to_owned() },
        source: Arc::clone(platform) as _,
        intake: Arc::new(GatewayIntake { gateway: at("gateway") }),
        dice: Arc::new(FixedDice::new(0.5)),
        board: Arc::clone(board),
        exit: None,
        fenced,
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_leaves_its_platform_for_good_when_another_process_owns_its_door() {
    let (platform, board) = (Arc::new(Platform::default()), Arc::new(Board::default()));
    let (fence, fenced) = watch::channel(Vec::new());
    let actor = actor(&platform, &board, fenced);
    let mut stage = Stage::new();
    stage.actor(row(LEAF), &at("source"), actor);
    let _tree = stage.go().await;
    let state = || board.parts().into_iter().find(|(kind, ..)| *kind == PartKind::Door).map(|(.., state)| state.up);
    settle().await;
    assert_eq!((platform.open.load(Ordering::SeqCst), state()), (1, Some(true)));

    fence.send_replace(vec![Range::Door(Door::new("other"))]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((platform.open.load(Ordering::SeqCst), state()), (1, Some(true)), "another door was lost");

    fence.send_replace(vec![Range::Door(DOOR)]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((platform.open.load(Ordering::SeqCst), state()), (0, Some(false)));
    assert_eq!(platform.begun.load(Ordering::SeqCst), 1, "it does not come back");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_process_at_the_home_door_alone() {
    for is_home in [true, false] {
        let platform = Arc::new(Platform { refuses: Some("bad token"), ..Platform::default() });
        let (board, (exit, mut exited)) = (Arc::new(Board::default()), watch::channel(None));
        let (_fence, fenced) = watch::channel(Vec::new());
        let actor = SourceActor { exit: is_home.then(|| Arc::new(exit)), ..actor(&platform, &board, fenced) };
        let mut stage = Stage::new();
        stage.actor(row(LEAF), &at("source"), actor);
        let _tree = stage.go().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let asked = exited.borrow_and_update().clone();
        assert_eq!(asked, is_home.then(|| Exit::Refused("bad token".to_owned())));
        let (.., state) = board.parts().into_iter().find(|(kind, ..)| *kind == PartKind::Door).unwrap();
        assert_eq!((state.up, state.last_error.as_deref()), (false, Some("bad token")));
        assert_eq!(platform.begun.load(Ordering::SeqCst), 1, "the token stays refused");
    }
}
