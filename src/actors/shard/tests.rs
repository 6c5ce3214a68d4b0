use serde_json::json;

use super::catch_up::CATCH_UPS;
use super::connection::LASTED;
use super::unsettled::AGAIN_AFTER;
use super::*;
use crate::actors::receipt::Receipt;
use crate::actors::roster::Roster;
use crate::actors::running::Exit;
use crate::actors::testing::log::Log;
use crate::actors::testing::pictures::Sketches;
use crate::actors::testing::ports::{
    Connection, Connections, FixedDice, Go, ManualClock, MemoryStore, ScriptedModels, ScriptedPoster, ScriptedSource,
    UNTOLD,
};
use crate::actors::testing::{BEGINNING, DOOR, Inbox, LEAF, Stage, Tree, at, live, mention, place, row, settle, usual};
use crate::domain::ids::MessageId;
use crate::domain::incoming::Quoted;
use crate::ports::{AfterClose, Closed, PostError, PostRequest};

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
    faults: Arc<crate::actors::testing::ports::ScriptedFaults>,
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
        presence: tokio::sync::watch::channel(None).1,
        door: DOOR,
        source: Arc::new(source),
        store: Arc::clone(&store) as _,
        clock: Arc::new(ManualClock::new()),
        began: BEGINNING,
        dice: Arc::clone(&dice),
        live,
        board: Arc::clone(&board),
        gateway: gateway.clone(),
        outbox: outbox.clone(),
        identify_queue: at("identify_queue"),
        exit: Arc::new(exit),
    };
    let mut stage = Stage::new();
    let (roster, faults) = (Arc::clone(&stage.roster), Arc::clone(&stage.faults));
    let heard = stage.probe(&gateway);
    let pacer = Arc::new(parking_lot::Mutex::new(crate::actors::outbox::Pacer::new(50, 1000)));
    let posting = crate::actors::outbox::Outbox {
        poster: Arc::clone(&poster) as _,
        pacer,
        closed: Arc::default(),
        live: usual(),
        dice,
        renderer: Arc::new(Sketches),
        journal: at("journal"),
        events: crate::actors::turn_events::TurnEvents::default(),
    };
    stage.actor(row(LEAF), &outbox, posting);
    stage.actor(row(LEAF), &shard, ShardActor { shard: Shard { number: 0, total: 1 }, parts });
    let tree = stage.go().await;
    World { gateway: heard, connections, board, store, poster, exit: exited, shard, faults, tree, _roster: roster }
}

impl World {
    /// The next event that the gateway gets, with its receipt.
    async fn event(&mut self) -> Option<(String, Receipt)> {
        match self.gateway.now().await? {
            GatewayMsg::Received(incoming, _, receipt) => match *incoming {
                Incoming::Posted(posted) => Some((posted.id.id, receipt)),
                Incoming::Deleted(message) => Some((message.id, receipt)),
                Incoming::Reacted(place) => Some((place.id, receipt)),
                Incoming::Command(command) => Some((command.callback.id.id, receipt)),
                Incoming::Typing(_) => None,
            },
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
    let session = Session { id: "s".into(), sequence: 1, resume_url: None, service: None, total: 1 };
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
    world.faults.inject("staffai/shard:0", crate::ports::Fault::Panic);
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

// === Catching up ===

fn told(world: &World, connection: &Connection, guild: &str, to: &str) {
    let newest = vec![(place(to), Timestamp(BEGINNING.0 + 1_000_000))];
    connection.events.send(StreamEvent::Places { sequence: 2, guild: guild.into(), newest }).unwrap();
    assert!(!world.shard.stats().path.is_empty());
}

fn missed(world: &World, id: &str, seconds_ago: u64) {
    let mut posted = mention(id, "7", "42");
    posted.at = Timestamp(BEGINNING.0 - seconds_ago * 1000);
    world.poster.messages.lock().push(posted);
}

fn marked(seconds_ago: u64) -> MemoryStore {
    let store = MemoryStore::new();
    store.put(GUILD_MARK.into(), (BEGINNING.0 - seconds_ago * 1000).to_string());
    store
}

#[tokio::test(start_paused = true)]
async fn what_was_posted_since_the_watermark_is_read_back() {
    let mut world = world(marked(100)).await;
    for (id, seconds_ago) in [("10", 200), ("11", 50), ("12", 10)] {
        missed(&world, id, seconds_ago);
    }
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    for expected in ["11", "12"] {
        let (id, receipt) = world.event().await.unwrap();
        assert_eq!(id, expected);
        receipt.settle();
    }
    assert!(world.event().await.is_none());
    world.saved().await;
    assert_eq!(world.mark(), Some(BEGINNING.0 - 10_000));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_the_start_does_not_hide_a_gap() {
    let mut world = world(marked(100)).await;
    world.store.degraded.store(true, std::sync::atomic::Ordering::SeqCst);
    missed(&world, "11", 50);
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    assert!(world.event().await.is_none(), "nobody knows yet where the gap begins");
    world.store.degraded.store(false, std::sync::atomic::Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.event().await.unwrap().0, "11");
}

#[tokio::test(start_paused = true)]
async fn while_a_store_fails_for_long_no_live_message_moves_the_watermark_past_a_gap() {
    let mut world = world(marked(100)).await;
    let degraded = |now| world.store.degraded.store(now, std::sync::atomic::Ordering::SeqCst);
    degraded(true);
    missed(&world, "11", 50);
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    tokio::time::sleep(Duration::from_secs(200)).await;
    posted(&connection, 7, "20");
    let (id, receipt) = world.event().await.unwrap();
    assert_eq!(id, "20", "the gap is not known yet");
    receipt.settle();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.mark(), Some(BEGINNING.0 - 100_000));
    world.store.degraded.store(false, std::sync::atomic::Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(70)).await;
    let (id, receipt) = world.event().await.unwrap();
    assert_eq!(id, "11");
    receipt.settle();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(world.mark().is_some_and(|mark| mark >= BEGINNING.0));
}

#[tokio::test(start_paused = true)]
async fn what_is_older_than_anybody_waits_for_is_not_read_back() {
    let mut world = world(marked(100_000)).await;
    missed(&world, "10", 16 * 60);
    missed(&world, "11", 14 * 60);
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    assert_eq!(world.event().await.unwrap().0, "11");
    assert!(world.event().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fresh_install_replays_nothing_and_begins_its_watermark() {
    let mut world = world(MemoryStore::new()).await;
    missed(&world, "10", 10);
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    assert!(world.event().await.is_none(), "it was said before this process began");
    assert!(world.mark().is_some_and(|mark| mark >= BEGINNING.0));
}

#[tokio::test(start_paused = true)]
async fn what_a_process_missed_that_was_killed_in_its_first_moments_is_read_back() {
    let store = MemoryStore::new();
    // All that is durable of it is that it listened.
    store.put("staffai:watermark:discord".to_owned(), (BEGINNING.0 - 60_000).to_string());
    let mut world = world(store).await;
    missed(&world, "10", 90);
    missed(&world, "11", 30);
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    assert_eq!(world.event().await.unwrap().0, "11");
    assert!(world.event().await.is_none(), "it was said before anybody listened");
}

#[tokio::test(start_paused = true)]
async fn that_somebody_listens_is_durable_before_anything_is_heard() {
    let mut world = world(MemoryStore::new()).await;
    let _connection = world.connections.next().await;
    assert_eq!(world.store.entries.lock().get("staffai:watermark:discord"), Some(&BEGINNING.0.to_string()));
}

#[tokio::test(start_paused = true)]
async fn only_a_few_communities_are_read_back_at_once() {
    let store = MemoryStore::new();
    for guild in 0..20 {
        store.put(format!("staffai:watermark:discord:{guild}"), BEGINNING.0.to_string());
    }
    let mut world = world(store).await;
    let connection = world.connections.next().await;
    ready(&connection);
    for guild in 0..20 {
        world.poster.slow(place(&guild.to_string()), Duration::from_secs(2));
        told(&world, &connection, &guild.to_string(), &guild.to_string());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.poster.requests.lock().len(), CATCH_UPS);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.poster.requests.lock().len(), 20, "and all in the end");
}

#[tokio::test(start_paused = true)]
async fn while_a_gap_is_read_back_the_stored_session_stays_before_it() {
    let mut world = world(marked(100)).await;
    missed(&world, "11", 50);
    world.poster.slow(place("42"), Duration::from_secs(10));
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    posted(&connection, 3, "20");
    let (id, receipt) = world.event().await.unwrap();
    assert_eq!(id, "20");
    receipt.settle();
    let sequence = |world: &World| world.store.json(SESSION).unwrap()["sequence"].clone();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(sequence(&world), 1, "it is being read");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(sequence(&world), 1, "it is read, and nobody owns it yet");
    let (id, receipt) = world.event().await.unwrap();
    assert_eq!(id, "11");
    receipt.settle();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(sequence(&world), 3);
}

// === What a resumed session does not tell ===

fn from_the_untold(connection: &Connection, sequence: u64, id: &str) {
    let mut posted = mention(id, "7", "42");
    posted.guild = Some(UNTOLD.to_owned());
    let incoming = Box::new(Incoming::Posted(posted));
    connection.events.send(StreamEvent::Incoming { sequence, incoming }).unwrap();
}

fn learnt(world: &World) -> usize {
    world.poster.count(|request| matches!(request, PostRequest::FetchGuild { .. }))
}

#[tokio::test(start_paused = true)]
async fn messages_of_an_unknown_community_wait_in_order_until_it_was_read_once() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    from_the_untold(&connection, 2, "10");
    from_the_untold(&connection, 3, "11");
    posted(&connection, 4, "12");
    for id in ["12", "10", "11"] {
        let (told, receipt) = world.event().await.unwrap();
        assert_eq!(told, id);
        receipt.settle();
    }
    assert_eq!(learnt(&world), 4);
    from_the_untold(&connection, 5, "13");
    assert_eq!(world.event().await.unwrap().0, "13");
    assert_eq!(learnt(&world), 4, "what could not be read is not read again and again");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_deleted_while_it_waits_is_not_handed_on() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    let retry_after = surroundings::WITHIN * 2;
    world.poster.read_goes(Go::Fail(PostError::Limited { retry_after, global: true }));
    from_the_untold(&connection, 2, "10");
    from_the_untold(&connection, 3, "11");
    let incoming = Box::new(Incoming::Deleted(MessageId::new(DOOR, "10")));
    connection.events.send(StreamEvent::Incoming { sequence: 4, incoming }).unwrap();
    let (told, deleted) = world.event().await.unwrap();
    assert_eq!(told, "10", "the deletion itself");
    deleted.settle();
    tokio::time::sleep(surroundings::WITHIN).await;
    let (told, receipt) = world.event().await.unwrap();
    assert_eq!(told, "11");
    receipt.settle();
    assert!(world.event().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_community_that_cannot_be_read_go_on_after_a_while() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    let retry_after = surroundings::WITHIN * 2;
    world.poster.read_goes(Go::Fail(PostError::Limited { retry_after, global: true }));
    from_the_untold(&connection, 2, "10");
    assert!(world.event().await.is_none(), "it waits");
    tokio::time::sleep(surroundings::WITHIN).await;
    let (told, receipt) = world.event().await.unwrap();
    assert_eq!(told, "10");
    receipt.settle();
}

#[tokio::test(start_paused = true)]
async fn more_than_one_page_of_a_channel_is_read_back() {
    let mut world = world_with(marked(600), live_with("STAFFAI_CATCH_UP__PER_CHANNEL", "250")).await;
    for number in 0..300 {
        missed(&world, &(1_000 + number).to_string(), 500 - number);
    }
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    let mut read = Vec::new();
    while let Some((id, receipt)) = world.event().await {
        receipt.settle();
        read.push(id);
    }
    assert_eq!(read, (1_050..1_300).map(|id| id.to_string()).collect::<Vec<_>>(), "the newest of them, in their order");
    assert_eq!(histories(&world), 3);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_back_that_is_older_than_answers_are_surely_remembered() {
    let mut world = world_with(marked(100_000), live_with("STAFFAI_CATCH_UP__AGE", "24h")).await;
    missed(&world, "10", keys::CLOSED_TURN_TTL.as_secs());
    missed(&world, "11", keys::CATCH_UP_AGE_MAX.as_secs() - 1);
    let connection = world.connections.next().await;
    ready(&connection);
    told(&world, &connection, "5", "42");
    assert_eq!(world.event().await.unwrap().0, "11");
    assert!(world.event().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_was_read_back_is_not_read_again_after_a_reconnect() {
    let mut world = world(marked(100)).await;
    missed(&world, "11", 50);
    world.poster.slow(place("43"), Duration::from_secs(10));
    let connection = world.connections.next().await;
    ready(&connection);
    let newest = |seconds_ago: u64| Timestamp(BEGINNING.0 - seconds_ago * 1000);
    let tell = |connection: &Connection, newest: Newest| {
        connection.events.send(StreamEvent::Places { sequence: 2, guild: "5".into(), newest }).unwrap();
    };
    tell(&connection, vec![(place("42"), newest(50)), (place("43"), newest(60))]);
    let (id, receipt) = world.event().await.unwrap();
    assert_eq!(id, "11");
    receipt.settle();
    close(&connection, AfterClose::Identify);
    let connection = world.connections.next().await;
    ready(&connection);
    missed(&world, "12", 1);
    tell(&connection, vec![(place("42"), newest(1)), (place("43"), newest(60))]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (id, _receipt) = world.event().await.unwrap();
    assert_eq!(id, "12", "what came since is read");
    assert!(world.event().await.is_none(), "and nothing twice");
    assert_eq!(histories(&world), 3, "a place without anything new is not asked for again");
}

fn histories(world: &World) -> usize {
    world.poster.count(|request| matches!(request, PostRequest::History { .. }))
}

// === Replies that come without the message that they are about ===

/// Somebody replies to this message, which did not come along, where we may answer or not.
fn reply_to(connection: &Connection, to: &str, may_answer: bool) {
    let mut posted = mention("10", "7", "42");
    posted.mentions_us = false;
    posted.may_answer = may_answer;
    posted.reply_to = Some(Quoted { id: MessageId::new(DOOR, to), seen: None });
    let incoming = Box::new(Incoming::Posted(posted));
    connection.events.send(StreamEvent::Incoming { sequence: 2, incoming }).unwrap();
}

/// Whether the message that it is about was known to be ours when it was handed on.
async fn handed_on(world: &mut World) -> Option<bool> {
    let Some(GatewayMsg::Received(incoming, _, receipt)) = world.gateway.now().await else { panic!("nothing came") };
    receipt.settle();
    let Incoming::Posted(posted) = *incoming else { panic!("no message") };
    posted.reply_to.unwrap().seen.map(|seen| seen.ours)
}

#[tokio::test(start_paused = true)]
async fn what_a_reply_is_about_is_read_once_when_it_did_not_come_along() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    world.poster.earlier("9", &place("42"), &MessageId::new(DOOR, "8"), "Aye.");
    reply_to(&connection, "9", true);
    assert_eq!(handed_on(&mut world).await, Some(true));
    reply_to(&connection, "5", true);
    assert_eq!(handed_on(&mut world).await, None, "it is gone");
    reply_to(&connection, "9", false);
    assert_eq!(handed_on(&mut world).await, None, "it would not be answered, and may not even be read");
    assert_eq!(world.poster.count(|request| matches!(request, PostRequest::Fetch { .. })), 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_does_not_overtake_an_earlier_one_of_its_member_that_waits() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    world.poster.earlier("9", &place("42"), &MessageId::new(DOOR, "8"), "Aye.");
    world.poster.slow(place("42"), Duration::from_secs(2));
    reply_to(&connection, "9", true);
    posted(&connection, 3, "11");
    posted(&connection, 4, "12");
    let mut other = mention("13", "8", "42");
    other.at = Timestamp(BEGINNING.0 + 5);
    let incoming = Box::new(Incoming::Posted(other));
    connection.events.send(StreamEvent::Incoming { sequence: 5, incoming }).unwrap();
    let mut order = Vec::new();
    for _ in 0..2 {
        while let Some((id, receipt)) = world.event().await {
            receipt.settle();
            order.push(id);
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    assert_eq!(order, ["13", "10", "11", "12"], "others wait for nothing");
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
    world.faults.inject("staffai/shard:0", crate::ports::Fault::Panic);
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
