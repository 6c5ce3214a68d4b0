//! Replies that arrive without their parent message.

use super::*;

/// A member replies to this message, which is not included, in a place where the bot may answer or may not.
fn reply_to(connection: &Connection, to: &str, may_answer: bool) {
    let mut posted = mention("10", "7", "42");
    posted.mentions_us = false;
    posted.may_answer = may_answer;
    posted.reply_to = Some(Quoted { id: MessageId::new(DOOR, to), seen: None });
    let incoming = Box::new(Incoming::Posted(posted));
    connection.events.send(StreamEvent::Incoming { sequence: 2, incoming }).unwrap();
}

/// Returns if the parent message was identified as the bot's own when the reply was sent on.
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
