//! Catch-up reads the messages of a gap.

use super::*;

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
    // The only durable record of that process is the time at which it began to listen.
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
async fn communities_with_many_places_let_others_go_on() {
    const MANY: u32 = 100;
    let store = MemoryStore::new();
    for guild in 0..=CATCH_UPS {
        store.put(format!("staffai:watermark:discord:{guild}"), BEGINNING.0.to_string());
    }
    let mut world = world(store).await;
    let connection = world.connections.next().await;
    ready(&connection);
    let newest = |place| (place, Timestamp(BEGINNING.0 + 1_000_000));
    for guild in 0..u32::try_from(CATCH_UPS).unwrap() {
        let places = (0..MANY).map(|number| place(&(1_000 + guild * MANY + number).to_string()));
        let newest =
            places.inspect(|place| world.poster.slow(place.clone(), Duration::from_secs(1))).map(newest).collect();
        connection.events.send(StreamEvent::Places { sequence: 2, guild: guild.to_string(), newest }).unwrap();
    }
    told(&world, &connection, &CATCH_UPS.to_string(), "42");
    let wanted = place("42");
    let reads_it =
        move |request: &PostRequest| matches!(request, PostRequest::History { place, .. } if *place == wanted);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.poster.count(reads_it), 1, "it waits for a few pages of others");
    tokio::time::sleep(Duration::from_secs(200)).await;
    let all = usize::try_from(MANY).unwrap() * CATCH_UPS + 1;
    assert_eq!(world.poster.count(|request| matches!(request, PostRequest::History { .. })), all, "each is read once");
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

/// Makes the platform report an old time for the newest messages of these places.
fn stale(connection: &Connection, places: std::ops::Range<u32>) {
    let newest = places.map(|id| (place(&id.to_string()), Timestamp(u64::from(id)))).collect();
    connection.events.send(StreamEvent::Places { sequence: 2, guild: "5".into(), newest }).unwrap();
}

#[tokio::test(start_paused = true)]
async fn where_members_spoke_to_us_lately_is_read_back_whatever_the_platform_says() {
    let store = marked(100);
    store.put("staffai:active:discord:5:42".to_owned(), (BEGINNING.0 - 3_600_000).to_string());
    let mut world = world(store).await;
    missed(&world, "11", 50);
    let connection = world.connections.next().await;
    ready(&connection);
    stale(&connection, 0..1_000);
    assert_eq!(world.event().await.unwrap().0, "11");
    let read = world.poster.count(|request| matches!(request, PostRequest::History { .. }));
    assert_eq!(read, 9, "that place, and the newest of the others");
}

#[tokio::test(start_paused = true)]
async fn the_newest_places_are_read_back_whatever_the_platform_says() {
    let mut world = world(marked(100)).await;
    missed(&world, "11", 50);
    let connection = world.connections.next().await;
    ready(&connection);
    stale(&connection, 30..45);
    assert_eq!(world.event().await.unwrap().0, "11");
}

#[tokio::test(start_paused = true)]
async fn where_members_speak_to_us_is_written_down() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    for (sequence, id) in [(2, "10"), (3, "11")] {
        posted(&connection, sequence, id);
    }
    let mut direct = mention("12", "7", "99");
    (direct.guild, direct.at) = (None, BEGINNING);
    let incoming = Box::new(Incoming::Posted(direct));
    connection.events.send(StreamEvent::Incoming { sequence: 4, incoming }).unwrap();
    for _ in 0..3 {
        world.event().await.unwrap().1.settle();
    }
    world.saved().await;
    let entries = world.store.entries.lock();
    let noted: Vec<&String> = entries.keys().filter(|key| key.starts_with("staffai:active:")).collect();
    let guild = entries.get("staffai:active:discord:5:42");
    assert!(noted.len() <= 2 && guild.is_some(), "{noted:?}");
}
