use super::*;
use crate::DOOR;
use domain::ids::{Place, Timestamp};

fn filter() -> Filter {
    Filter::new(UserId::new(1), &[], false)
}

fn event(text: &str) -> (u64, &'static str, Event) {
    match read(text, &filter()) {
        Ok(Reading::Dispatch { sequence, kind, event }) => (sequence, kind, event),
        other => panic!("{text} was read as {other:?}"),
    }
}

#[test]
fn events_are_read_in_any_order_of_keys() {
    let message = r#"{"id":"6","channel_id":"5","author":{"id":"7","username":"a"},"mentions":[{"id":"1"}]}"#;
    for text in [
        format!(r#"{{"t":"MESSAGE_CREATE","s":3,"op":0,"d":{message}}}"#),
        format!(r#"{{"d":{message},"op":0,"s":3,"t":"MESSAGE_CREATE"}}"#),
        format!(" {{ \"op\" : 0, \"d\" : {message}, \"t\" : \"MESSAGE\\u005fCREATE\", \"s\" : 3 , \"x\" : [] }}"),
    ] {
        let (sequence, kind, event) = event(&text);
        assert_eq!((sequence, kind), (3, "message_create"));
        assert!(matches!(event, Event::Posted(posted) if posted.mentions_us));
    }
}

#[test]
fn a_lone_surrogate_costs_one_character_and_no_field() {
    let member = r#"{"nick":"A\ud83d","roles":["8"]}"#;
    let message = format!(
        r#"{{"id":"6","channel_id":"5","author":{{"id":"7","username":"a"}},"member":{member},"content":"<@1> \ud800hi \ud83d\ude00","mentions":[{{"id":"1"}}]}}"#
    );
    let (sequence, _, told) = event(&format!(r#"{{"t":"MESSAGE_CREATE","s":3,"op":0,"d":{message}}}"#));
    let Event::Posted(posted) = told else { panic!("{told:?}") };
    assert_eq!((sequence, posted.text.as_str()), (3, "<@1> \u{fffd}hi 😀"));
    assert_eq!((posted.author.name.as_str(), &*posted.author.roles), ("A\u{fffd}", ["8".to_owned()].as_slice()));
    let (_, _, told) = event(r#"{"t":"READY","s":1,"op":0,"d":{"session_id":"a\ud800","user":{"id":"1"}}}"#);
    assert!(
        matches!(told, Event::Ready(ready) if ready.session_id == "a\u{fffd}"),
        "the session is not begun again and again"
    );
}

#[test]
fn what_is_not_for_us_is_not_even_parsed() {
    // The data of both events is malformed and is not parsed.
    let (sequence, kind, told) = event(r#"{"t":"MESSAGE_CREATE","s":3,"op":0,"d":{"broken""#);
    assert!(matches!((sequence, kind, told), (3, "message_create", Event::Other)));
    let (sequence, kind, told) = event(r#"{"t":"SOMETHING_NEW","s":4,"op":0,"d":{"broken""#);
    assert!(matches!((sequence, kind, told), (4, "other", Event::Other)));
    let (_, _, told) = event(r#"{"op":0,"s":4,"t":"TYPING_START","d":null}"#);
    assert!(matches!(told, Event::Other));
}

#[test]
fn deletions_places_and_beginnings_are_read() {
    let (_, _, told) = event(r#"{"t":"MESSAGE_DELETE_BULK","s":3,"op":0,"d":{"ids":["8","9"],"channel_id":"5"}}"#);
    assert!(matches!(told, Event::Deleted(deleted) if deleted.messages.len() == 2));
    let (_, _, told) = event(
        r#"{"t":"GUILD_CREATE","s":3,"op":0,"d":{"id":"4","channels":[{"id":"5","type":0,"last_message_id":"60"}]}}"#,
    );
    assert!(
        matches!(told, Event::Places(told, _) if told.guild == "4" && told.newest == [(Place::new(DOOR, "5"), Timestamp(1_420_070_400_000))])
    );
    let (_, _, told) = event(r#"{"t":"THREAD_CREATE","s":3,"op":0,"d":{"id":"6","type":11,"parent_id":"5"}}"#);
    let (thread, parent) = (Place::new(DOOR, "6"), Place::new(DOOR, "5"));
    assert!(matches!(told, Event::Threads(told) if told.threads == [(thread, parent)]));
    let (_, _, told) = event(r#"{"t":"THREAD_DELETE","s":3,"op":0,"d":{"id":"6","type":11,"parent_id":"5"}}"#);
    assert!(matches!(told, Event::ThreadGone(thread) if thread == Place::new(DOOR, "6")));
    let (_, _, told) = event(r#"{"t":"THREAD_CREATE","s":3,"op":0,"d":{"id":"6","type":11}}"#);
    assert!(matches!(told, Event::Other));
    let (_, _, told) = event(r#"{"t":"GUILD_CREATE","s":3,"op":0,"d":{"id":"4","unavailable":true}}"#);
    assert!(matches!(told, Event::Other));
    let (_, _, told) = event(r#"{"t":"READY","s":1,"op":0,"d":{"session_id":"abc","user":{"id":"1"}}}"#);
    assert!(matches!(told, Event::Ready(ready) if ready.session_id == "abc" && ready.resume_gateway_url.is_none()));
    let (_, _, told) = event(r#"{"t":"RESUMED","s":9,"op":0,"d":{}}"#);
    assert!(matches!(told, Event::Resumed));
}

#[test]
fn operations_are_read() {
    let reading = |text| read(text, &filter()).unwrap();
    assert!(matches!(reading(r#"{"op":7,"d":null}"#), Reading::Reconnect));
    assert!(matches!(reading(r#"{"op":9,"d":true}"#), Reading::InvalidSession(true)));
    for gone in [r#"{"op":9,"d":false}"#, r#"{"op":9}"#, r#"{"op":9,"d":"true"}"#] {
        assert!(matches!(reading(gone), Reading::InvalidSession(false)), "{gone}");
    }
    let hello = reading(r#"{"t":null,"s":null,"op":10,"d":{"heartbeat_interval":41250}}"#);
    assert!(matches!(hello, Reading::Hello(interval) if interval == Duration::from_millis(41250)));
    for control in [r#"{"op":11}"#, r#"{"op":1,"d":null}"#, r#"{"op":200,"d":{}}"#] {
        assert!(matches!(reading(control), Reading::Control), "{control}");
    }
}

#[test]
fn broken_frames_are_dropped_with_a_reason() {
    let deep = format!("{}{}", r#"{"op":0,"s":3,"t":"READY","d":{"user":"#, "[".repeat(10_000));
    let cases = [
        ("", None, "EOF while parsing"),
        ("null", None, "invalid type: null"),
        (r#"{"s":1}"#, None, "missing field `op`"),
        (r#"{"op":"0"}"#, None, "invalid type: string …, expected u8"),
        (r#"{"op":0,"t":"READY","d":{}}"#, None, "missing field `s`"),
        (r#"{"op":0,"s":5,"d":{}}"#, Some(5), "missing field `t`"),
        (r#"{"op":0,"s":-5,"t":"READY","d":{}}"#, None, "invalid value: integer"),
        (r#"{"t":"MESSAGE_CREATE","s":3,"op":0,"d":{"id":"1"}}"#, Some(3), "missing field `channel_id`"),
        (r#"{"t":"MESSAGE_CREATE","s":3,"op":0,"d":{"id":"1","#, Some(3), "EOF while parsing"),
        (r#"{"t":"MESSAGE_DELETE","s":3,"op":0,"d":null}"#, Some(3), "invalid type: null"),
        (r#"{"op":10,"d":{"heartbeat_interval":"soon"}}"#, None, "invalid type: string …, expected u64"),
        (deep.as_str(), None, "EOF while parsing"),
    ];
    for (text, sequence, reason) in cases {
        let dropped = read(text, &filter()).unwrap_err();
        assert_eq!((dropped.sequence, dropped.kind), (sequence, "malformed"), "{text}");
        assert!(dropped.reason.starts_with(reason), "{text} was dropped for {}", dropped.reason);
        assert!(!dropped.begins);
    }
    let dropped = read(r#"{"t":"READY","s":1,"op":0,"d":{"user":{"id":"1"}}}"#, &filter()).unwrap_err();
    assert!(dropped.begins, "{dropped:?}");
}

#[test]
fn giant_frames_are_dropped_unseen_and_keep_their_place() {
    let padding = " ".repeat(MAX_FRAME);
    let dropped = read(&format!(r#"{{"t":"GUILD_CREATE","s":12,"op":0,"d":{{{padding}}}}}"#), &filter()).unwrap_err();
    assert_eq!((dropped.sequence, dropped.kind), (Some(12), "giant"));
    let dropped = read(&padding.repeat(2), &filter()).unwrap_err();
    assert_eq!((dropped.sequence, dropped.kind), (None, "giant"));
}

#[test]
fn reasons_never_hold_what_people_wrote() {
    let error = serde_json::from_str::<u8>(r#""my \" secret \" words""#).unwrap_err();
    let reason = reason(&error);
    assert!(!reason.contains("secret"), "{reason}");
    assert!(reason.contains("expected u8"), "{reason}");
}

fn dispatched(kind: &str, data: &str) -> String {
    format!(r#"{{"t":"{kind}","s":3,"op":0,"d":{data}}}"#)
}

/// A message for the bot that contains these fields.
fn message_with(more: &str) -> String {
    let data = r#"{"id":"6","channel_id":"5","author":{"id":"7","username":"a"},"mentions":[{"id":"1"}]"#;
    dispatched("MESSAGE_CREATE", &format!("{data},{more}}}"))
}

/// `count` items, numbered in descending order: the worst case for a sorted list.
fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(|number| one(1_000_000 - number)).collect::<Vec<_>>().join(",")
}

fn guild_of(size: usize) -> String {
    let each = size / 400;
    let overwrites = r#"[{"id":"4","type":0,"allow":"0","deny":"2048"},{"id":"9","type":1,"allow":"1024","deny":"0"}]"#;
    let channels = many(each, |id| {
        format!(r#"{{"id":"{id}","type":0,"last_message_id":"{id}","permission_overwrites":{overwrites}}}"#)
    });
    let threads = many(each, |id| format!(r#"{{"id":"{id}","type":11,"parent_id":"5"}}"#));
    let roles = many(each, |id| format!(r#"{{"id":"{id}","permissions":"3072"}}"#));
    let members = many(each, |id| format!(r#"{{"user":{{"id":"{id}"}},"roles":["4"]}}"#));
    let data = format!(
        r#"{{"id":"4","channels":[{channels}],"threads":[{threads}],"roles":[{roles}],"members":[{members}]}}"#
    );
    dispatched("GUILD_CREATE", &data)
}

#[test]
fn frames_of_every_kind_cost_in_proportion_to_their_length() {
    let frames = |size: usize| {
        let embed = r#"{"type":"rich","title":"x","fields":[{"name":"a","value":"b"}]}"#;
        vec![
            guild_of(size),
            message_with(&format!(r#""embeds":[{}]"#, many(size / 64, |_| embed.to_owned()))),
            message_with(&format!(r#""embeds":{}"#, "[".repeat(size))),
            message_with(&format!(r#""member":{}{}"#, "{\"a\":".repeat(size / 5), "[]")),
            message_with(&format!(r#""content":"{}""#, "\\u00e9".repeat(size / 6))),
            message_with(&format!(
                r#""attachments":[{}]"#,
                many(size / 32, |id| format!(r#"{{"filename":"{id}","size":1,"url":"u"}}"#))
            )),
            dispatched("MESSAGE_DELETE_BULK", &format!(r#"{{"ids":[{}]}}"#, many(size / 10, |id| format!("\"{id}\"")))),
            dispatched(
                "THREAD_LIST_SYNC",
                &format!(r#"{{"threads":[{}]}}"#, many(size / 32, |id| format!(r#"{{"id":"{id}","type":11}}"#))),
            ),
            format!("{{\"op\":0,{}", " ".repeat(size)),
            "{\"t\":".repeat(size / 5),
        ]
    };
    cost::grows_linearly(4 * 1024, frames, |frames| {
        for frame in &frames {
            drop(read(frame, &filter()));
        }
    });
}

#[test]
fn the_longest_frame_that_is_read_in_place_fits_a_slice() {
    cost::fits_a_slice(crate::gateway::IN_PLACE_MAX, guild_of, |frame| drop(read(&frame, &filter())));
}
