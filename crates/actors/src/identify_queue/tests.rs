use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::services::own_ranges::OwnRanges;
use crate::testing::{Inbox, LEAF, Stage, Tree, at, row, settle};
use domain::ownership::Portion;
use ports::testing::{ADVICE, FixedDice, ScriptedSource};

struct World {
    queue: Handle<IdentifyQueueMsg>,
    source: Arc<ScriptedSource>,
    discord: Inbox<DiscordMsg>,
    exit: tokio::sync::watch::Receiver<Option<Exit>>,
    board: Arc<Board>,
    _tree: Tree,
}

async fn world(shards: Option<u32>, advice: Vec<Result<Advice, SourceError>>) -> World {
    divided(shards, advice, Portion::WHOLE, None).await
}

async fn divided(
    shards: Option<u32>,
    advice: Vec<Result<Advice, SourceError>>,
    portion: Portion,
    peers: Option<Arc<dyn Peers>>,
) -> World {
    let (source, _) = ScriptedSource::new();
    for advice in advice {
        source.advise(advice);
    }
    let (queue, discord, source) = (at("identify_queue"), at("discord"), Arc::new(source));
    let (exit, exited) = tokio::sync::watch::channel(None);
    let mut stage = Stage::new();
    let heard = stage.probe(&discord);
    let dice = Arc::new(FixedDice::new(0.5));
    let board = Arc::new(Board::default());
    let actor = IdentifyQueue {
        door: Door::new("discord"),
        source: Arc::clone(&source) as _,
        shards,
        ranges: OwnRanges::new(portion.into()),
        peers,
        discord,
        dice,
        board: Arc::clone(&board),
        exit: Arc::new(exit),
    };
    stage.actor(row(LEAF), &queue, actor);
    World { queue, source, discord: heard, exit: exited, board, _tree: stage.go().await }
}

impl World {
    /// Requests an identify for this shard; resolves with the time of the permission.
    fn ask(&self, number: u32) -> tokio::task::JoinHandle<Instant> {
        let queue = self.queue.clone();
        tokio::spawn(async move {
            let shard = Shard { number, total: 16 };
            let day = Duration::from_secs(100_000);
            assert_eq!(queue.call(|reply| IdentifyQueueMsg::Identify(shard, reply), day).await, Ok(true));
            Instant::now()
        })
    }
}

fn total(message: &DiscordMsg) -> u32 {
    match message {
        DiscordMsg::StartShards(total) => *total,
        DiscordMsg::Follow(_) => panic!("no range changes here"),
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_shards_as_configured_or_advised_are_started() {
    for (configured, expected) in [(None, 3), (Some(2), 2)] {
        let mut world = world(configured, vec![Ok(Advice { shards: 3, ..ADVICE })]).await;
        let total = total(&world.discord.next().await);
        assert_eq!(total, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn each_group_identifies_once_in_its_time() {
    let world = world(None, vec![Ok(Advice { max_concurrency: 2, ..ADVICE })]).await;
    let begun = Instant::now();
    let asked: Vec<_> = (0..6).map(|number| world.ask(number)).collect();
    let mut waits = Vec::new();
    for asked in asked {
        waits.push((asked.await.unwrap() - begun).as_millis());
    }
    let every = IDENTIFY_EVERY.as_millis();
    for (wait, expected) in waits.iter().zip([0, 0, every, every, 2 * every, 2 * every]) {
        assert!(wait.abs_diff(expected) < 20, "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_daily_budget_is_never_passed() {
    let reset_after = Duration::from_secs(3600);
    let world = world(None, vec![Ok(Advice { max_concurrency: 16, remaining: 2, reset_after, ..ADVICE })]).await;
    let begun = Instant::now();
    let mut waits = Vec::new();
    for asked in (0..4).map(|number| world.ask(number)).collect::<Vec<_>>() {
        waits.push((asked.await.unwrap() - begun).as_secs());
    }
    assert_eq!(waits, [0, 0, 3600, 3600]);
}

/// The other processes: they agreed on a number of shards, and identified in the bucket 1 a moment ago.
struct Others {
    agreed: u32,
    /// The requests without an answer before the first one with an answer.
    unanswered: AtomicU32,
    free_at: Mutex<HashMap<u32, Instant>>,
}

impl Others {
    fn new(agreed: u32, unanswered: u32) -> Arc<Self> {
        let free_at = Mutex::new([(1, Instant::now() + Duration::from_secs(3))].into());
        Arc::new(Self { agreed, unanswered: AtomicU32::new(unanswered), free_at })
    }

    fn answers(&self) -> Result<(), String> {
        let answers = |left: u32| left.checked_sub(1);
        match self.unanswered.fetch_update(Ordering::SeqCst, Ordering::SeqCst, answers) {
            Ok(_) => Err("no answer".to_owned()),
            Err(_) => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl Peers for Others {
    async fn agree_on_shards(&self, proposed: u32) -> Result<u32, String> {
        self.answers()?;
        assert_eq!(proposed % 2, 0, "each range has as many shards");
        Ok(self.agreed)
    }

    async fn reserve_identify(&self, bucket: u32, pause: Duration) -> Result<Duration, String> {
        self.answers()?;
        let (mut free_at, now) = (self.free_at.lock(), Instant::now());
        let free = free_at.get(&bucket).copied().unwrap_or(now);
        if free <= now {
            free_at.insert(bucket, now + pause);
        }
        Ok(free.saturating_duration_since(now))
    }
}

#[tokio::test(start_paused = true)]
async fn processes_agree_on_the_shards_and_share_each_bucket() {
    let advice = Advice { shards: 5, max_concurrency: 2, ..ADVICE };
    let (others, portion) = (Others::new(8, 2), Portion { number: 1, of: 2 });
    let begun = Instant::now();
    let mut world = divided(None, vec![Ok(advice)], portion, Some(others)).await;
    let total = total(&world.discord.next().await);
    assert!(total == 8 && begun.elapsed() >= RESERVE_AGAIN * 2, "{total}");
    let begun = Instant::now();
    let mut waits = Vec::new();
    for asked in [1, 3, 2].map(|number| world.ask(number)) {
        waits.push((asked.await.unwrap() - begun).as_millis());
    }
    // Bucket 1 is free after the identify of the other process, bucket 0 at once.
    let free = Duration::from_secs(3).saturating_sub(RESERVE_AGAIN * 2).as_millis();
    for (wait, expected) in waits.iter().zip([free, free + IDENTIFY_EVERY.as_millis(), 0]) {
        assert!(wait.abs_diff(expected) < 20, "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_stopped_waiting_takes_nobodys_turn() {
    let world = world(None, Vec::new()).await;
    world.ask(0).await.unwrap();
    let gone = world.ask(1);
    settle().await;
    gone.abort();
    settle().await;
    let begun = Instant::now();
    world.ask(2).await.unwrap();
    assert!(begun.elapsed() <= IDENTIFY_EVERY + Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_platform_is_asked_again_with_growing_pauses() {
    let down = || Err(SourceError::Unreachable("no route".into()));
    let mut world = world(None, (0..10).map(|_| down()).collect()).await;
    let begun = Instant::now();
    world.discord.next().await;
    assert_eq!(world.source.asked.load(Ordering::SeqCst), 11);
    let why = world.board.parts().into_iter().find_map(|(.., state)| state.last_error);
    assert_eq!(why.as_deref(), Some("no route"), "readiness tells why no shard was ever started");
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(60) && took < Duration::from_secs(200), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_good_ends_the_process() {
    let mut world = world(None, vec![Err(SourceError::Refused("bad token".into()))]).await;
    settle().await;
    assert_eq!(*world.exit.borrow_and_update(), Some(Exit::Refused("bad token".into())));
    assert!(world.discord.within(Duration::from_secs(600)).await.is_none());
    assert_eq!(world.source.asked.load(Ordering::SeqCst), 1);
}
