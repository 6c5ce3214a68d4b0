use serde_json::{Value, json};

use super::*;

fn us() -> Account {
    let text = |text: &str| text.to_owned();
    Account {
        user: text("UBOT"),
        bot: Some(text("BBOT")),
        team: text("T1"),
        name: text("staffai"),
        workspace: text("w"),
    }
}

fn envelope(event: &Value) -> String {
    let payload = json!({"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event});
    json!({"envelope_id": "e1", "type": "events_api", "retry_attempt": 2, "retry_reason": "timeout", "payload": payload})
        .to_string()
}

#[test]
fn a_retry_is_read_like_a_first_delivery() {
    let text = envelope(&json!({"type": "message", "user": "U1", "text": "hi", "ts": "1.5", "channel": "C1"}));
    let Frame::Envelope { id, retry: 2, content: Ok(Content::Posted(wire)) } = read(&text, &us()) else {
        panic!("{:?}", read(&text, &us()));
    };
    assert_eq!((id.as_str(), wire.root(), wire.is_direct()), ("e1", "1.5", false));
}

#[test]
fn a_mention_and_the_message_beside_it_have_one_id() {
    let of = |kind| {
        let event = json!({"type": kind, "user": "U1", "text": "<@UBOT> hi", "ts": "1.5", "channel": "C1"});
        match read(&envelope(&event), &us()) {
            Frame::Envelope { content: Ok(Content::Posted(wire)), .. } => ids::message(&wire.channel, &wire.ts),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(of("app_mention"), of("message"));
}

#[test]
fn deletions_name_the_message() {
    let deleted = json!({"type": "message", "subtype": "message_deleted", "channel": "C1", "deleted_ts": "1.5"});
    let tombstone = json!({"type": "message", "subtype": "message_changed", "channel": "C1",
        "message": {"subtype": "tombstone", "ts": "1.5"}});
    for event in [deleted, tombstone] {
        let text = envelope(&event);
        let Frame::Envelope { content: Ok(Content::Deleted(message)), .. } = read(&text, &us()) else {
            panic!("{event}");
        };
        assert_eq!(message, ids::message("C1", "1.5"));
    }
}

#[test]
fn what_cannot_be_read_keeps_its_envelope() {
    for event in [
        json!({"type": "message", "channel": "C1", "ts": "later", "text": "x"}),
        json!({"type": "message", "channel": 7, "ts": "1.5"}),
        json!({"type": "message", "channel": "C1&x", "ts": "1.5"}),
        json!({"type": "message", "subtype": "message_deleted", "channel": "C1"}),
        json!(7),
    ] {
        let text = envelope(&event);
        let Frame::Envelope { id, content: Err(_), .. } = read(&text, &us()) else { panic!("{event}") };
        assert_eq!(id, "e1");
    }
    let odd = json!({"envelope_id": "e1", "type": {"not": "text"}, "payload": []}).to_string();
    assert!(matches!(read(&odd, &us()), Frame::Envelope { content: Err(_), .. }));
    assert!(matches!(read("not json", &us()), Frame::Other));
}

#[test]
fn frames_of_the_connection_are_told_apart() {
    let hello = json!({"type": "hello", "num_connections": 1, "debug_info": {"approximate_connection_time": 18060}});
    assert!(matches!(read(&hello.to_string(), &us()), Frame::Hello(Some(18_060))));
    let bye = json!({"type": "disconnect", "reason": "refresh_requested"}).to_string();
    assert!(matches!(read(&bye, &us()), Frame::Disconnect(reason) if reason == "refresh_requested"));
}

proptest::proptest! {
    #[test]
    fn any_frame_yields_a_value(text in "[{}\\[\\]\",:a-z0-9_ ]{0,200}") {
        let _ = read(&text, &us());
    }
}

#[test]
fn reactions_to_our_messages_are_read_with_their_vote() {
    let of = |author: &str, user: &str, reaction: &str| {
        let item = json!({"type": "message", "channel": "C1", "ts": "1.5"});
        let event =
            json!({"type": "reaction_added", "user": user, "reaction": reaction, "item_user": author, "item": item});
        match read(&envelope(&event), &us()) {
            Frame::Envelope { content: Ok(Content::Reacted(reaction)), .. } => Some(reaction),
            Frame::Envelope { content: Ok(Content::Other), .. } => None,
            other => panic!("{other:?}"),
        }
    };
    let reaction = of("UBOT", "U1", "+1::skin-tone-2").unwrap();
    assert_eq!((reaction.message, reaction.by), (ids::message("C1", "1.5"), ids::person("U1")));
    assert_eq!((reaction.place, reaction.vote), (ids::channel("C1"), Some(Vote::Up)));
    assert_eq!(of("UBOT", "U1", "heart").unwrap().vote, None);
    assert_eq!((of("U2", "U1", "+1"), of("UBOT", "UBOT", "+1"), of("UBOT", "not an id!", "+1")), (None, None, None));
}

#[test]
fn direct_conversations_with_one_member_or_several_are_no_channels() {
    let of = |fields: Value| -> Wire {
        let mut wire = json!({"type": "message", "channel": "G1", "user": "U1", "ts": "1.0"});
        wire.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(wire).unwrap()
    };
    for (fields, is) in [
        (json!({"channel_type": "channel"}), true),
        (json!({"channel_type": "group"}), true),
        (json!({"channel_type": "im"}), false),
        (json!({"channel_type": "mpim"}), false),
        (json!({"channel": "C1"}), true),
        (json!({"channel": "D1"}), false),
        (json!({}), false),
    ] {
        assert_eq!(of(fields.clone()).is_in_channel(), is, "{fields}");
    }
}

#[test]
fn very_many_values_in_a_message_are_not_kept() {
    let many = vec![json!({"a": 0}); 100_000];
    let metadata = json!({"event_type": "x", "event_payload": {"list": many}});
    let event = json!({"type": "message", "user": "U1", "text": "hi", "ts": "1.5", "channel": "C1",
        "metadata": metadata, "files": many});
    let Frame::Envelope { content: Ok(Content::Posted(wire)), .. } = read(&envelope(&event), &us()) else {
        panic!("a message");
    };
    assert_eq!((wire.text.as_str(), wire.files.len()), ("hi", FILES_MAX));
    assert!(wire.metadata.unwrap().event_payload.is_empty());
}
