//! Data that a resumed session lacks is read over the request API.

use super::*;

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
    let (told, receipt) = world.event().await.unwrap();
    assert_eq!(told, "13");
    receipt.settle();
    assert_eq!(learnt(&world), 4, "what could not be read is not read again and again");
    tokio::time::sleep(surroundings::AGAIN).await;
    from_the_untold(&connection, 6, "14");
    assert_eq!(world.event().await.unwrap().0, "14");
    assert_eq!(learnt(&world), 8, "it is read again after a while");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_may_be_in_a_thread_of_an_unknown_channel_uses_no_tools() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    let send = |sequence: u64, id: &str, place: &str| {
        let mut posted = mention(id, "7", place);
        posted.draw = Some(domain::manners::Draw { consider: 0.0, deliver: 0.0 });
        let incoming = Box::new(Incoming::Posted(posted));
        connection.events.send(StreamEvent::Incoming { sequence, incoming }).unwrap();
    };
    let retry_after = surroundings::TIMEOUT * 2;
    world.poster.read_goes(Go::Fail(PostError::Limited { retry_after, scope: ports::LimitScope::Global }));
    send(2, "10", UNPLACED);
    send(3, "11", UNPLACED);
    send(4, "12", "42");
    for (id, tools) in [("12", true), ("10", false), ("11", false)] {
        let (incoming, receipt) = world.received().await.unwrap();
        let Incoming::Posted(posted) = incoming else { panic!("{incoming:?}") };
        assert_eq!((&*posted.id.id, posted.tools, posted.draw.is_some()), (id, tools, tools));
        receipt.settle();
        if id == "12" {
            tokio::time::sleep(surroundings::TIMEOUT).await;
        }
    }
    let places = world.poster.count(
        |request| matches!(request, PostRequest::FetchGuild { aspect: ports::GuildField::Place(place), .. } if &*place.id == UNPLACED),
    );
    assert_eq!(places, 1, "the place is read once for both messages");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_deleted_while_it_waits_is_not_handed_on() {
    let mut world = world(MemoryStore::new()).await;
    let connection = world.connections.next().await;
    ready(&connection);
    let retry_after = surroundings::TIMEOUT * 2;
    world.poster.read_goes(Go::Fail(PostError::Limited { retry_after, scope: ports::LimitScope::Global }));
    from_the_untold(&connection, 2, "10");
    from_the_untold(&connection, 3, "11");
    let incoming = Box::new(Incoming::Deleted(Deletion::of(MessageId::new(DOOR, "10"))));
    connection.events.send(StreamEvent::Incoming { sequence: 4, incoming }).unwrap();
    let (told, deleted) = world.event().await.unwrap();
    assert_eq!(told, "10", "the deletion itself");
    deleted.settle();
    tokio::time::sleep(surroundings::TIMEOUT).await;
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
    let retry_after = surroundings::TIMEOUT * 2;
    world.poster.read_goes(Go::Fail(PostError::Limited { retry_after, scope: ports::LimitScope::Global }));
    from_the_untold(&connection, 2, "10");
    assert!(world.event().await.is_none(), "it waits");
    tokio::time::sleep(surroundings::TIMEOUT).await;
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
