//! Gaps that open while another one is read back, and places that cannot be read back.

use super::*;

const DIRECT_MARK: &str = "staffai:watermark:discord:%direct";
const UNREAD: &str = "staffai:watermark:discord:unread:0";

/// Returns a time relative to the beginning, in seconds.
fn second(at: i64) -> Timestamp {
    Timestamp(BEGINNING.0.checked_add_signed(at * 1_000).unwrap())
}

fn missed_in(world: &World, id: &str, of: &str, at: i64) {
    let mut posted = mention(id, "7", of);
    posted.at = second(at);
    world.poster.messages.lock().push(posted);
}

/// Announces the community with these places, each with the time of its newest message.
fn announced(connection: &Connection, places: &[(&str, i64)]) {
    let newest = places.iter().map(|(id, at)| (place(id), second(*at))).collect();
    connection.events.send(StreamEvent::Places { sequence: 2, guild: "5".into(), newest }).unwrap();
}

fn fails_in(world: &World, id: Option<&str>) {
    let error = || PostError::Unsure("discord answered 503".to_owned());
    *world.poster.fails_in.lock() = id.map(|id| (place(id), error()));
}

/// Returns the number of requests for the history of a place.
fn reads_of(world: &World, id: &str) -> usize {
    let wanted = place(id);
    let is_it = |request: &PostRequest| matches!(request, PostRequest::History { place, .. } if *place == wanted);
    world.poster.count(is_it)
}

/// Settles all events that the gateway receives; returns their ids.
async fn settled(world: &mut World) -> Vec<String> {
    let mut ids = Vec::new();
    while let Some((id, receipt)) = world.event().await {
        receipt.settle();
        ids.push(id);
    }
    ids
}

async fn passes(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The next process at the same store. Its platform has no messages yet.
async fn next_process(world: World) -> World {
    let store = MemoryStore::new();
    store.entries.lock().clone_from(&world.store.entries.lock());
    drop(world);
    super::world(store).await
}

#[tokio::test(start_paused = true)]
async fn a_gap_during_a_catch_up_is_read_back_too() {
    let mut world = world(marked(100)).await;
    missed_in(&world, "10", "42", -50);
    missed_in(&world, "11", "43", -60);
    world.poster.slow(place("43"), Duration::from_secs(10));
    let connection = world.connections.next().await;
    ready(&connection);
    announced(&connection, &[("42", -50), ("43", -60)]);
    assert_eq!(settled(&mut world).await, ["10"], "the second place is being read");
    close(&connection, AfterClose::Identify);
    missed_in(&world, "20", "42", 1);
    missed_in(&world, "21", "43", 2);
    passes(15).await;
    assert_eq!(settled(&mut world).await, ["11", "21"], "the catch-up ended before the next session");
    world.saved().await;
    assert!(world.mark() < Some(second(1).0), "the mention in the first place is not read yet: {:?}", world.mark());
    let connection = world.connections.next().await;
    ready(&connection);
    announced(&connection, &[("42", 1), ("43", 2)]);
    passes(15).await;
    let read = settled(&mut world).await;
    assert!(read.contains(&"20".to_owned()), "{read:?}");
    world.saved().await;
    assert_eq!(world.mark(), Some(second(2).0));
}

#[tokio::test(start_paused = true)]
async fn a_live_message_before_its_community_is_announced_moves_no_watermark() {
    let mut world = world(marked(100)).await;
    let connection = world.connections.next().await;
    ready(&connection);
    posted(&connection, 2_000, "20");
    assert_eq!(settled(&mut world).await, ["20"]);
    world.saved().await;
    assert_eq!(world.mark(), Some(second(-100).0), "the gap is not known yet");
    missed_in(&world, "11", "42", -50);
    announced(&connection, &[("42", -50)]);
    assert_eq!(settled(&mut world).await, ["11"]);
    world.saved().await;
    assert_eq!(world.mark(), Some(second(2).0));
}

#[tokio::test(start_paused = true)]
async fn a_direct_message_that_was_read_back_moves_no_watermark_and_a_live_one_does() {
    let store = MemoryStore::new();
    store.put(DIRECT_MARK.to_owned(), second(-100).0.to_string());
    store.put("staffai:active:discord:%direct:99".to_owned(), second(-200).0.to_string());
    let mut running = crate::testing::running(&[], Arc::new(ScriptedModels::new(&["main"])));
    running.doors.get_mut(&DOOR).unwrap().triage.direct_messages = true;
    let mut world = world_with(store, Live::new(running)).await;
    missed_in(&world, "10", "99", -50);
    let mark = |world: &World| world.store.entries.lock().get(DIRECT_MARK).and_then(|mark| mark.parse().ok());
    let connection = world.connections.next().await;
    ready(&connection);
    assert_eq!(settled(&mut world).await, ["10"]);
    world.saved().await;
    assert_eq!(mark(&world), Some(second(-100).0), "no session announces the newest direct message");
    let mut direct = mention("12", "7", "99");
    (direct.guild, direct.at) = (None, second(3));
    let incoming = Box::new(Incoming::Posted(direct));
    connection.events.send(StreamEvent::Incoming { sequence: 4, incoming }).unwrap();
    assert_eq!(settled(&mut world).await, ["12"]);
    world.saved().await;
    assert_eq!(mark(&world), Some(second(3).0));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_cannot_be_read_delays_no_other_one_and_is_read_later() {
    let (log, mut world) = (Log::capture(), world(marked(100)).await);
    missed_in(&world, "10", "42", -50);
    missed_in(&world, "11", "43", -40);
    fails_in(&world, Some("42"));
    let connection = world.connections.next().await;
    ready(&connection);
    announced(&connection, &[("42", -50), ("43", -40)]);
    passes(10).await;
    assert_eq!(settled(&mut world).await, ["11"]);
    passes(120).await;
    assert_eq!(world.mark(), Some(second(-40).0), "the other places go on");
    assert_eq!(log.column("gateway.caught_up", "level"), ["WARN", "INFO"], "each place is reported once");
    let tries = reads_of(&world, "42");
    assert!((6..=24).contains(&tries), "the pauses grow: {tries}");
    fails_in(&world, None);
    passes(300).await;
    let (id, receipt) = world.event().await.unwrap();
    assert_eq!(id, "10");
    world.saved().await;
    assert!(world.store.json(UNREAD).is_some(), "the message has no durable owner yet");
    receipt.settle();
    world.saved().await;
    world.saved().await;
    assert_eq!(world.store.json(UNREAD), None);
    let tries = reads_of(&world, "42");
    passes(3_600).await;
    assert_eq!(reads_of(&world, "42"), tries, "it is read");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_hangs_delays_the_next_one_by_at_most_half_a_minute() {
    let mut world = world(marked(100)).await;
    missed_in(&world, "10", "42", -50);
    missed_in(&world, "11", "43", -40);
    world.poster.slow(place("42"), Duration::from_secs(1_000));
    let connection = world.connections.next().await;
    ready(&connection);
    announced(&connection, &[("42", -50), ("43", -40)]);
    passes(30).await;
    assert_eq!(settled(&mut world).await, ["11"]);
    world.poster.slow(place("42"), Duration::ZERO);
    passes(120).await;
    assert_eq!(settled(&mut world).await, ["10"]);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_cannot_be_read_is_read_by_the_next_process_and_after_a_crash() {
    let mut world = world(marked(100)).await;
    missed_in(&world, "10", "42", -50);
    fails_in(&world, Some("42"));
    let connection = world.connections.next().await;
    ready(&connection);
    announced(&connection, &[("42", -50), ("43", -40)]);
    passes(10).await;
    posted(&connection, 3, "12");
    assert_eq!(settled(&mut world).await, ["12"]);
    world.saved().await;
    assert_eq!(world.mark(), Some(BEGINNING.0 + 3), "the watermark has passed the unread message");

    let mut world = next_process(world).await;
    missed_in(&world, "10", "42", -50);
    let connection = world.connections.next().await;
    assert!(connection.session.is_some(), "the session is resumed, and announces nothing");
    connection.events.send(StreamEvent::Resumed).unwrap();
    passes(5).await;
    let (id, _without_an_owner) = world.event().await.unwrap();
    assert_eq!(id, "10");
    passes(5).await;
    world.faults.inject("staffai/shard:0", ports::Fault::Panic);
    let connection = world.connections.next().await;
    connection.events.send(StreamEvent::Resumed).unwrap();
    passes(5).await;
    assert_eq!(settled(&mut world).await, ["10"]);
    passes(5).await;
    assert_eq!(world.store.json(UNREAD), None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_hides_no_unread_place() {
    let mut world = world(marked(100)).await;
    fails_in(&world, Some("42"));
    let connection = world.connections.next().await;
    ready(&connection);
    announced(&connection, &[("42", -50)]);
    passes(10).await;
    assert!(world.store.json(UNREAD).is_some());

    world.store.degraded.store(true, std::sync::atomic::Ordering::SeqCst);
    world.faults.inject("staffai/shard:0", ports::Fault::Panic);
    let connection = world.connections.next().await;
    ready(&connection);
    passes(10).await;
    fails_in(&world, None);
    missed_in(&world, "10", "42", -50);
    assert!(settled(&mut world).await.is_empty(), "its gap is not known yet");
    world.store.degraded.store(false, std::sync::atomic::Ordering::SeqCst);
    passes(10).await;
    assert_eq!(settled(&mut world).await, ["10"]);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_never_read_is_given_up_once_its_messages_are_too_old_to_answer() {
    let (log, mut world) = (Log::capture(), world(marked(100)).await);
    fails_in(&world, Some("42"));
    let connection = world.connections.next().await;
    ready(&connection);
    announced(&connection, &[("42", -50)]);
    passes(1_000).await;
    assert_eq!(log.column("gateway.dropped", "reason"), ["too old"]);
    assert_eq!(world.store.json(UNREAD), None);
    let tries = reads_of(&world, "42");
    passes(3_600).await;
    assert_eq!(reads_of(&world, "42"), tries);
}

#[tokio::test(start_paused = true)]
async fn unread_places_are_bounded_and_read_a_few_at_a_time() {
    let (log, mut world) = (Log::capture(), world(marked(100)).await);
    world.poster.refuses.lock().replace(|request| matches!(request, PostRequest::History { .. }));
    let connection = world.connections.next().await;
    ready(&connection);
    let places: Vec<String> = (0..1_010).map(|id: u32| (100_000 + id).to_string()).collect();
    announced(&connection, &places.iter().map(|id| (id.as_str(), -50)).collect::<Vec<_>>());
    while log.of("gateway.dropped").is_empty() {
        passes(60).await;
    }
    let stored = world.store.json(UNREAD).unwrap();
    assert!(stored["5"].as_object().unwrap().len() <= 1_000);
}

#[tokio::test(start_paused = true)]
async fn messages_beyond_the_number_that_is_read_back_are_reported() {
    let log = Log::capture();
    let mut world = world_with(marked(600), live_with("STAFFAI_CATCH_UP__PER_CHANNEL", "250")).await;
    for number in 0..300 {
        missed(&world, &(1_000 + number).to_string(), 500 - number);
    }
    for number in 0..200 {
        missed_in(&world, &(2_000 + number).to_string(), "43", -50);
    }
    let connection = world.connections.next().await;
    ready(&connection);
    announced(&connection, &[("42", -50), ("43", -50)]);
    assert_eq!(settled(&mut world).await.len(), 450);
    let warnings = log.of("gateway.caught_up").into_iter().filter(|line| line["level"] == "WARN");
    let places: Vec<String> = warnings.map(|line| line["place"].clone()).collect();
    assert_eq!(places, [place("42").to_string()]);
}

#[tokio::test(start_paused = true)]
async fn a_catch_up_that_panics_counts_its_places_as_unread_and_reads_them_later() {
    let (log, mut world) = (Log::capture(), world(marked(100)).await);
    missed_in(&world, "10", BROKEN, -50);
    missed_in(&world, "11", "43", -60);
    let connection = world.connections.next().await;
    ready(&connection);
    announced(&connection, &[(BROKEN, -50), ("43", -60)]);
    assert!(settled(&mut world).await.is_empty());
    world.saved().await;
    let stored = world.store.json(UNREAD).unwrap()["5"].clone();
    assert_eq!(stored.as_object().unwrap().len(), 2, "{stored}");
    passes(30).await;
    let mut read = settled(&mut world).await;
    read.sort();
    assert_eq!(read, ["10", "11"]);
    world.saved().await;
    assert_eq!((world.store.json(UNREAD), world.mark()), (None, Some(second(-50).0)));
    assert!(log.column("gateway.unread", "reason").iter().all(|reason| reason.contains("panicked")));
}
