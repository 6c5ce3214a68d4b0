mod catching_up;
mod gaps;
mod quoted;
mod resumed;

use serde_json::json;

use super::catch_up::CATCH_UPS;
use super::connection::LASTED;
use super::unsettled::{AGAIN_AFTER, UNSETTLED_MAX};
use super::*;
use crate::messages::receipt::Receipt;
use crate::observers::Observers;
use crate::runtime::roster::Roster;
use crate::services::basics::Basics;
use crate::services::running::{Exit, Live};
use crate::testing::log::Log;
use crate::testing::pictures::Sketches;
use crate::testing::{
    BEGINNING, DOOR, Inbox, LEAF, Stage, Tree, at, live, mention, message, place, row, settle, usual,
};
use domain::ids::MessageId;
use domain::incoming::{Deletion, Incoming, Posted, Quoted};
use ports::testing::{
    BROKEN, Connection, Connections, FixedDice, Go, ManualClock, MemoryStore, ScriptedModels, ScriptedPoster,
    ScriptedSource, UNPLACED, UNTOLD,
};
use ports::{AfterClose, Closed, Dice, PostError, PostRequest};

const GUILD_MARK: &str = "staffai:watermark:discord:5";
const SESSION: &str = "staffai:session:discord:0";

struct World {
    gateway: Inbox<GatewayMsg>,
    connections: Connections,
    board: Arc<Board>,
    store: Arc<MemoryStore>,
    poster: Arc<ScriptedPoster>,
    exit: tokio::sync::watch::Receiver<Option<Exit>>,
    shard: Handle<Infallible>,
    faults: Arc<ports::testing::ScriptedFaults>,
    tree: Tree,
    _roster: Arc<Roster>,
}

async fn world(store: MemoryStore) -> World {
    world_with(store, usual()).await
}

fn live_with(name: &str, value: &str) -> Live {
    live(&[(name, value)], Arc::new(ScriptedModels::new(&["main"])))
}

async fn world_with(store: MemoryStore, live: Live) -> World {
    let (source, connections) = ScriptedSource::new();
    let (shard, gateway, outbox) = (at("shard:0"), at("gateway"), at("outbox:discord"));
    let (store, poster) = (Arc::new(store), Arc::new(ScriptedPoster::new()));
    let dice: Arc<dyn Dice> = Arc::new(FixedDice::new(0.5));
    let (exit, exited) = tokio::sync::watch::channel(None);
    let board = Arc::new(Board::default());
    let parts = ShardParts {
        observers: Observers::default(),
        presence: tokio::sync::watch::channel(None).1,
        door: DOOR,
        source: Arc::new(source),
        basics: Basics {
            live,
            store: Arc::clone(&store) as _,
            clock: Arc::new(ManualClock::new()),
            dice: Arc::clone(&dice),
        },
        began: BEGINNING,
        board: Arc::clone(&board),
        gateway: gateway.clone(),
        outbox: outbox.clone(),
        identify_queue: at("identify_queue"),
        exit: Arc::new(exit),
    };
    let mut stage = Stage::new();
    let (roster, faults) = (Arc::clone(&stage.roster), Arc::clone(&stage.faults));
    let heard = stage.probe(&gateway);
    let pacer = Arc::new(parking_lot::Mutex::new(crate::outbox::Pacer::new(50, 1000)));
    let posting = crate::outbox::Outbox {
        door: crate::testing::DOOR,
        board: Arc::default(),
        poster: Arc::clone(&poster) as _,
        pacer,
        closed: Arc::default(),
        live: usual(),
        dice,
        renderer: Arc::new(Sketches),
        journal: at("journal"),
        events: crate::observation::turn_events::TurnEvents::default(),
        observers: Observers::default(),
    };
    stage.actor(row(LEAF), &outbox, posting);
    stage.actor(row(LEAF), &shard, ShardActor { shard: Shard { number: 0, total: 1 }, parts });
    let tree = stage.go().await;
    World { gateway: heard, connections, board, store, poster, exit: exited, shard, faults, tree, _roster: roster }
}

impl World {
    /// Returns the next event that the gateway receives, with its receipt.
    async fn event(&mut self) -> Option<(String, Receipt)> {
        match self.gateway.now().await? {
            GatewayMsg::Decide(..) => None,
            GatewayMsg::Received(incoming, _, receipt) => match *incoming {
                Incoming::Posted(posted) => Some((posted.id.id.into(), receipt)),
                Incoming::Deleted(deletion) => Some((deletion.message.id.into(), receipt)),
                Incoming::Reacted(reaction) => Some((reaction.place.id.into(), receipt)),
                Incoming::Command(command) => Some((command.callback.id.id.into(), receipt)),
                Incoming::Typing(_)
                | Incoming::Dialogue(_)
                | Incoming::Decision(_)
                | Incoming::Fired(_)
                | Incoming::Interrupted(_) => None,
            },
        }
    }

    /// Returns the next event that the gateway receives, as it is.
    async fn received(&mut self) -> Option<(Incoming, Receipt)> {
        match self.gateway.now().await? {
            GatewayMsg::Decide(..) => None,
            GatewayMsg::Received(incoming, _, receipt) => Some((*incoming, receipt)),
        }
    }

    async fn saved(&self) -> u64 {
        tokio::time::sleep(SAVE_EVERY + Duration::from_millis(1)).await;
        self.store.json(SESSION).map_or(0, |session| session["sequence"].as_u64().unwrap())
    }

    fn mark(&self) -> Option<u64> {
        self.store.entries.lock().get(GUILD_MARK).map(|text| text.parse().unwrap())
    }
}

fn ready(connection: &Connection) {
    let session = GatewaySession { id: "s".into(), sequence: 1, resume_url: None, service: None, total: 1 };
    connection.events.send(StreamEvent::Ready(session)).unwrap();
}

fn posted(connection: &Connection, sequence: u64, id: &str) {
    let mut posted = mention(id, "7", "42");
    posted.at = Timestamp(BEGINNING.0 + sequence);
    let incoming = Box::new(Incoming::Posted(posted));
    connection.events.send(StreamEvent::Incoming { sequence, incoming }).unwrap();
}

fn close(connection: &Connection, next: AfterClose) {
    connection.events.send(StreamEvent::Closed(Closed { reason: "cut".into(), next })).unwrap();
}

fn marked(seconds_ago: u64) -> MemoryStore {
    let store = MemoryStore::new();
    store.put(GUILD_MARK.into(), (BEGINNING.0 - seconds_ago * 1000).to_string());
    store
}

fn missed(world: &World, id: &str, seconds_ago: u64) {
    let mut posted = mention(id, "7", "42");
    posted.at = Timestamp(BEGINNING.0 - seconds_ago * 1000);
    world.poster.messages.lock().push(posted);
}

fn told(world: &World, connection: &Connection, guild: &str, to: &str) {
    let newest = vec![(place(to), Timestamp(BEGINNING.0 + 1_000_000))];
    connection.events.send(StreamEvent::Places { sequence: 2, guild: guild.into(), newest }).unwrap();
    assert!(!world.shard.stats().path.is_empty());
}

// === Custody ===

#[tokio::test(start_paused = true)]
async fn the_stored_sequence_never_passes_an_event_that_nobody_owns() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    for (sequence, id) in [(2, "10"), (3, "11"), (4, "12")] {
        posted(&connection, sequence, id);
    }
    let (first, second) = (world.event().await.unwrap().1, world.event().await.unwrap().1);
    connection.events.send(StreamEvent::Passed { sequence: 9 }).unwrap();
    assert_eq!(world.saved().await, 1);
    second.settle();
    assert_eq!(world.saved().await, 1, "the first one is still open");
    first.settle();
    assert_eq!(world.saved().await, 3);
    world.event().await.unwrap().1.settle();
    assert_eq!(world.saved().await, 9);
}

#[tokio::test(start_paused = true)]
async fn the_watermark_stays_behind_an_older_message_that_nobody_owns() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    posted(&connection, 2, "10");
    posted(&connection, 3, "11");
    let (first, second) = (world.event().await.unwrap().1, world.event().await.unwrap().1);
    second.settle();
    world.saved().await;
    assert_eq!(world.mark(), Some(BEGINNING.0 + 1));
    first.settle();
    world.saved().await;
    assert_eq!(world.mark(), Some(BEGINNING.0 + 3));
}

#[tokio::test(start_paused = true)]
async fn a_returned_event_is_handed_on_again_a_bounded_number_of_times() {
    let (log, mut world) = (Log::capture(), world(MemoryStore::new()).await);
    let connection = world.connections.next().await;
    ready(&connection);
    posted(&connection, 2, "10");
    let mut handed_on = 0;
    while log.of("turn.shed").is_empty() {
        while let Some((id, receipt)) = world.event().await {
            assert_eq!(id, "10");
            drop(receipt);
            handed_on += 1;
        }
        tokio::time::sleep(AGAIN_AFTER[0]).await;
    }
    assert_eq!(handed_on, 1 + AGAIN_AFTER.len());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.event().await.is_none());
    assert_eq!(log.column("turn.shed", "where"), ["shard"]);
    assert_eq!(world.saved().await, 2, "what was given up holds nothing back");
}

#[tokio::test(start_paused = true)]
async fn messages_of_one_community_leave_room_for_those_of_another() {
    let (log, mut world) = (Log::capture(), world(MemoryStore::new()).await);
    let connection = world.connections.next().await;
    ready(&connection);
    let mut unsettled = Vec::new();
    for number in 0..UNSETTLED_MAX as u64 {
        posted(&connection, 2 + number, &(100 + number).to_string());
        if number % 100 == 99 {
            while let Some((_, receipt)) = world.event().await {
                unsettled.push(receipt);
            }
        }
    }
    assert_eq!(unsettled.len(), UNSETTLED_MAX / 2);
    assert_eq!(log.column("turn.shed", "where"), ["shard"], "sheds are summed up");
    let other = Posted { guild: Some("6".to_owned()), at: BEGINNING, ..mention("9", "8", "43") };
    let incoming = Box::new(Incoming::Posted(other));
    connection.events.send(StreamEvent::Incoming { sequence: 20_000, incoming }).unwrap();
    assert_eq!(world.event().await.map(|(id, _)| id).as_deref(), Some("9"));
    drop(unsettled);
}

#[tokio::test(start_paused = true)]
async fn deletions_of_one_community_leave_room_for_messages_and_deletions_of_another() {
    let (log, mut world) = (Log::capture(), world(MemoryStore::new()).await);
    let connection = world.connections.next().await;
    ready(&connection);
    let mut unsettled = Vec::new();
    let deleted = |number: u64, guild: &str| {
        let deletion = Deletion { message: message(&number.to_string()), guild: Some(guild.to_owned()) };
        let incoming = Box::new(Incoming::Deleted(deletion));
        connection.events.send(StreamEvent::Incoming { sequence: number, incoming }).unwrap();
    };
    for number in 2..2 + UNSETTLED_MAX as u64 {
        deleted(number, "5");
        if number % 100 == 99 {
            while let Some((_, receipt)) = world.event().await {
                unsettled.push(receipt);
            }
        }
    }
    assert_eq!(log.column("turn.shed", "where"), ["shard"]);
    deleted(20_000, "6");
    assert_eq!(world.event().await.map(|(id, _)| id).as_deref(), Some("20000"));
    assert_eq!(unsettled.len(), UNSETTLED_MAX / 2);
}

// === Connections ===

#[tokio::test(start_paused = true)]
async fn a_cut_connection_is_resumed_at_once_from_what_is_safe() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    assert!(connection.session.is_none());
    ready(&connection);
    posted(&connection, 7, "10");
    let held = world.event().await.unwrap();
    tokio::time::sleep(LASTED).await;
    close(&connection, AfterClose::Resume);
    let again = world.connections.now().await.expect("it waits");
    assert_eq!(again.session.map(|session| (session.id, session.sequence)), Some(("s".into(), 6)));
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_platform_forgot_is_begun_anew() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    assert_eq!(world.saved().await, 1);
    close(&connection, AfterClose::Identify);
    assert!(world.connections.next().await.session.is_none());
    assert!(world.store.json(SESSION).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stored_session_that_is_over_is_no_trouble() {
    let (log, store) = (Log::capture(), MemoryStore::new());
    store.put(SESSION.into(), json!({"id": "old", "sequence": 5, "resume_url": null, "total": 1}).to_string());
    let mut world = world(store).await;
    let connection = world.connections.next().await;
    assert!(connection.session.is_some());
    close(&connection, AfterClose::Identify);
    let connection = world.connections.next().await;
    assert!(connection.session.is_none());
    ready(&connection);
    close(&connection, AfterClose::Identify);
    world.connections.next().await;
    assert_eq!(log.column("gateway.closed", "message"), ["the stored session is over", "connection closed"]);
}

#[tokio::test(start_paused = true)]
async fn failing_connections_back_off_to_a_bound() {
    let mut world = world(MemoryStore::new()).await;
    let mut waits = Vec::new();
    for _ in 0..8 {
        let connection = world.connections.next().await;
        close(&connection, AfterClose::Resume);
        let begun = Instant::now();
        settle().await;
        let next = world.connections.next().await;
        waits.push(begun.elapsed().as_millis());
        close(&next, AfterClose::Resume);
    }
    assert_eq!(waits[0], 0, "the first time at once");
    assert!(waits[1] >= 1000 && waits[2] > waits[1], "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 15_001), "half of the cap: {waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_platform_that_lets_us_in_and_throws_us_out_is_not_asked_without_pause() {
    let mut world = world(MemoryStore::new()).await;
    let begun = Instant::now();
    for _ in 0..10 {
        let connection = world.connections.next().await;
        connection.events.send(StreamEvent::Resumed).unwrap();
        close(&connection, AfterClose::Resume);
    }
    world.connections.next().await;
    assert!(begun.elapsed() > Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_good_ends_the_process() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    close(&connection, AfterClose::Fatal);
    settle().await;
    assert_eq!(*world.exit.borrow(), Some(Exit::Refused("cut".into())));
    assert!(world.connections.now().await.is_none());
    assert!(world.exit.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_stored_session_is_resumed_unless_the_number_of_shards_changed() {
    for (total, resumed) in [(1, true), (2, false)] {
        let store = MemoryStore::new();
        store.put(SESSION.into(), json!({"id": "old", "sequence": 5, "resume_url": null, "total": total}).to_string());
        let mut world = world(store).await;
        let connection = world.connections.next().await;
        assert_eq!(connection.session.map(|session| session.sequence), resumed.then_some(5));
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_resumes_from_the_stored_session() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    posted(&connection, 2, "10");
    let (_, receipt) = world.event().await.unwrap();
    assert_eq!(world.saved().await, 1);
    world.faults.inject("staffai/shard:0", ports::Fault::Panic);
    receipt.settle();
    let again = world.connections.next().await;
    assert_eq!(again.session.map(|session| session.sequence), Some(1), "the platform replays the event");
    assert!(connection.events.is_closed(), "the old connection is gone");
}

#[tokio::test(start_paused = true)]
async fn an_orderly_stop_writes_the_session_down() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    connection.events.send(StreamEvent::Passed { sequence: 30 }).unwrap();
    settle().await;
    world.tree.root.drain_and_wait(None).await.unwrap();
    assert_eq!(world.store.json(SESSION).unwrap()["sequence"], 30);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_down_does_not_let_a_shard_identify() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    assert!(!(connection.permit)().await);
}

// === What health tells ===

fn door(world: &World) -> (bool, Option<String>) {
    let parts = world.board.parts();
    let (.., state) = parts.into_iter().find(|(kind, ..)| *kind == PartKind::Shard).unwrap();
    (state.up, state.last_error)
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_crashed_is_down_before_it_is_back() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    settle().await;
    assert_eq!(door(&world), (true, None));
    world.faults.inject("staffai/shard:0", ports::Fault::Panic);
    connection.events.send(StreamEvent::Passed { sequence: 3 }).unwrap();
    world.connections.next().await;
    let (up, error) = door(&world);
    assert_eq!((up, error.as_deref()), (false, Some("the shard failed")));
}

// === How a session ends ===

#[tokio::test(start_paused = true)]
async fn after_a_lost_session_a_new_one_begins_within_seconds_and_the_backoff_anew() {
    let (log, store) = (Log::capture(), MemoryStore::new());
    store.put(SESSION.into(), json!({"id": "old", "sequence": 5, "resume_url": null, "total": 1}).to_string());
    let mut world = world(store).await;
    for _ in 0..6 {
        close(&world.connections.next().await, AfterClose::Resume);
    }
    close(&world.connections.next().await, AfterClose::Identify);
    close(&world.connections.next().await, AfterClose::Identify);
    close(&world.connections.next().await, AfterClose::Resume);
    world.connections.next().await;
    let waits: Vec<u64> = log.column("gateway.closed", "again_in_ms").iter().map(|ms| ms.parse().unwrap()).collect();
    assert_eq!(waits[5..8], [15_000, 3_000, 3_000], "{waits:?}");
    assert!(waits[8] <= 2_000, "{waits:?}");
    let next = log.column("gateway.closed", "next");
    assert_eq!(next[5..], ["Resume", "Identify", "Identify", "Identify"], "without a session nothing is resumed");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_are_lost_as_soon_as_they_begin_are_begun_ever_later() {
    let (log, mut world) = (Log::capture(), world(MemoryStore::new()).await);
    for _ in 0..8 {
        let connection = world.connections.next().await;
        ready(&connection);
        close(&connection, AfterClose::Identify);
    }
    world.connections.next().await;
    let waits: Vec<u64> = log.column("gateway.closed", "again_in_ms").iter().map(|ms| ms.parse().unwrap()).collect();
    assert_eq!((waits[0], waits[7]), (3_000, 15_000), "{waits:?}");
}
