use tokio::time::Instant;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};

use std::time::Duration;

use super::super::DOOR;
use super::super::testing::{TOKEN, access, answer, serve};
use super::{
    Advice, AfterClose, Arc, Closed, EventStream, Gateway, GatewaySession, IdentifyPermit, Incoming, Interests,
    Missing, Mutex, PresenceUpdates, Rest, Shard, ShardedSource, SourceError, StreamEvent, close,
};
use domain::experiment::Vote;
use domain::ids::{MessageId, Person, Place, Timestamp};
use domain::incoming::Reaction;
use domain::presence::{ActivityKind, Line, Mood, Presence};
use ports::AccessScope;

const ONE: Shard = Shard { number: 0, total: 1 };
/// A heartbeat interval that never elapses in a test.
const SLOW: u64 = 45_000;

/// A scripted gateway.
struct Peer {
    listener: TcpListener,
    address: String,
    /// The address of the request API.
    service: Mutex<String>,
}

impl Peer {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("ws://{}", listener.local_addr().unwrap());
        Self { listener, address, service: Mutex::default() }
    }

    async fn source(&self, interests: Interests) -> Gateway {
        let told = json!({"url": format!("{}/", self.address), "shards": 3, "session_start_limit":
            {"total": 1000, "remaining": 990, "reset_after": 60_000, "max_concurrency": 2}});
        let me = json!({"id": "1", "username": "staffai"});
        let (base, _) = serve(vec![answer(200, "", &told.to_string()), answer(200, "", &me.to_string())]).await;
        let access = access(&base);
        self.service.lock().clone_from(&access.api_url);
        let gateway = Gateway::new(access.clone(), interests, Arc::new(Rest::new(&access).unwrap()));
        let advice = gateway.advice().await.unwrap();
        let expected = Advice { shards: 3, max_concurrency: 2, remaining: 990, reset_after: Duration::from_secs(60) };
        assert_eq!(advice, expected);
        gateway
    }

    async fn accept(&self) -> Wire {
        loop {
            let (socket, _) = self.listener.accept().await.unwrap();
            // After a peer closed the connection, the library may begin to dial before it can be stopped.
            if let Ok(socket) = tokio_tungstenite::accept_async(socket).await {
                return Wire(socket);
            }
        }
    }

    /// Accepts a connection, sends HELLO and reads the request for a session.
    async fn greet(&self, interval: u64) -> (Wire, Value) {
        let mut wire = self.accept().await;
        wire.hello(interval).await;
        let asked = wire.hear().await;
        (wire, asked)
    }

    /// Opens a connection with a new session; returns it and the later events of the stream.
    async fn session(&self, gateway: &Gateway) -> (Wire, mpsc::UnboundedReceiver<StreamEvent>) {
        let mut told = listen(gateway.connect(ONE, None, allowed(), unshown()));
        let (mut wire, _) = self.greet(SLOW).await;
        wire.dispatch(
            "READY",
            1,
            &json!({"session_id": "abc", "resume_gateway_url": self.address, "user": {"id": "1"}}),
        )
        .await;
        assert_eq!(told.recv().await.unwrap(), StreamEvent::Ready(self.kept(1)));
        (wire, told)
    }

    fn kept(&self, sequence: u64) -> GatewaySession {
        GatewaySession {
            id: "abc".to_owned(),
            sequence,
            resume_url: Some(self.address.clone()),
            service: Some(self.service.lock().clone()),
            total: 1,
        }
    }
}

struct Wire(WebSocketStream<TcpStream>);

impl Wire {
    async fn send(&mut self, text: impl Into<String>) {
        self.0.send(Message::text(text.into())).await.unwrap();
    }

    async fn hello(&mut self, interval: u64) {
        self.send(json!({"t": null, "s": null, "op": 10, "d": {"heartbeat_interval": interval}}).to_string()).await;
    }

    async fn dispatch(&mut self, kind: &str, sequence: u64, data: &Value) {
        self.send(format!(r#"{{"t":"{kind}","s":{sequence},"op":0,"d":{data}}}"#)).await;
    }

    /// Sends a message by Ann that mentions these accounts.
    async fn message(&mut self, sequence: u64, id: u64, mentions: &[u64]) {
        let mentions: Vec<Value> = mentions.iter().map(|id| json!({"id": id.to_string(), "username": "x"})).collect();
        let data = json!({"id": id.to_string(), "channel_id": "500", "guild_id": "400", "content": "hi",
            "mentions": mentions, "author": {"id": "777", "username": "ann"}});
        self.dispatch("MESSAGE_CREATE", sequence, &data).await;
    }

    /// Returns the next payload of the bot.
    async fn hear(&mut self) -> Value {
        serde_json::from_str(self.0.next().await.unwrap().unwrap().to_text().unwrap()).unwrap()
    }

    async fn close(&mut self, code: u16) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: "".into() };
        self.0.close(Some(frame)).await.unwrap();
    }
}

fn allowed() -> IdentifyPermit {
    Box::new(|| Box::pin(async { true }))
}

fn listen(mut stream: Box<dyn EventStream>) -> mpsc::UnboundedReceiver<StreamEvent> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let event = stream.next().await;
            let last = matches!(event, StreamEvent::Closed(_));
            if tell.send(event).is_err() || last {
                return;
            }
        }
    });
    told
}

async fn closed(told: &mut mpsc::UnboundedReceiver<StreamEvent>) -> Closed {
    loop {
        match told.recv().await.unwrap() {
            StreamEvent::Closed(closed) => return closed,
            StreamEvent::Passed { .. } => {}
            other => panic!("{other:?} instead of the end"),
        }
    }
}

/// Returns the sequence number and the id of the next message.
async fn incoming(told: &mut mpsc::UnboundedReceiver<StreamEvent>) -> (u64, String) {
    loop {
        match told.recv().await.unwrap() {
            StreamEvent::Incoming { sequence, incoming } => match *incoming {
                Incoming::Posted(posted) => return (sequence, posted.id.id.into()),
                Incoming::Deleted(deletion) => return (sequence, format!("deleted {}", deletion.message.id)),
                Incoming::Reacted(reaction) => return (sequence, format!("reacted {}", reaction.place.id)),
                Incoming::Command(command) => return (sequence, format!("command {}", command.name)),
                Incoming::Typing(typing) => return (sequence, format!("typing {}", typing.name)),
                Incoming::Dialogue(step) => return (sequence, format!("dialogue of {}", step.caller.name)),
                Incoming::Decision(click) => return (sequence, format!("decision {}", click.gate)),
                Incoming::Fired(fire) => return (sequence, format!("fired {}", fire.id)),
                Incoming::Interrupted(heard) => return (sequence, format!("interrupted {}", heard.message)),
            },
            StreamEvent::Passed { .. } => {}
            other => panic!("{other:?} instead of a message"),
        }
    }
}

#[tokio::test]
async fn it_identifies_exactly_so_and_only_when_allowed() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (allow, gate) = watch::channel(false);
    let permit: IdentifyPermit = Box::new(move || {
        let mut gate = gate.clone();
        Box::pin(async move { gate.wait_for(|open| *open).await.is_ok() })
    });
    let _told = listen(gateway.connect(Shard { number: 2, total: 4 }, None, permit, unshown()));
    let mut wire = peer.accept().await;
    wire.hello(SLOW).await;
    // The requested heartbeat arrives first, so nothing was sent while the permit was pending.
    wire.send(r#"{"op":1,"d":null}"#).await;
    assert_eq!(wire.hear().await["op"], 1);
    allow.send(true).unwrap();
    let mut asked = wire.hear().await;
    let properties = asked["d"]["properties"].take();
    assert!(properties["os"].is_string(), "{properties}");
    assert!(properties["browser"].as_str().unwrap().starts_with("DiscordBot ("), "{properties}");
    let expected = json!({"op": 2, "d": {
        "token": format!("Bot {TOKEN}"), "intents": 1 | (1 << 9) | (1 << 15), "shard": [2, 4], "compress": false,
        "large_threshold": 50, "presence": null, "properties": null,
    }});
    for (key, value) in expected["d"].as_object().unwrap() {
        assert_eq!(&asked["d"][key], value, "{key}");
    }
}

#[tokio::test]
async fn direct_messages_are_asked_for_only_when_wanted() {
    let peer = Peer::new().await;
    let interests = Interests { direct_messages: true, ..Interests::default() };
    let gateway = peer.source(interests).await;
    let mut told = listen(gateway.connect(ONE, None, allowed(), unshown()));
    let (mut wire, asked) = peer.greet(SLOW).await;
    assert_eq!(asked["d"]["intents"], 1 | (1 << 9) | (1 << 12) | (1 << 15));
    wire.dispatch("MESSAGE_CREATE", 2, &json!({"id": "6", "channel_id": "5", "author": {"id": "7", "username": "a"}}))
        .await;
    assert_eq!(incoming(&mut told).await, (2, "6".to_owned()));
}

#[tokio::test]
async fn a_cut_session_is_resumed_where_it_was() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (mut wire, mut told) = peer.session(&gateway).await;
    wire.message(2, 60, &[1]).await;
    wire.message(3, 61, &[]).await;
    assert_eq!(incoming(&mut told).await, (2, "60".to_owned()));
    assert_eq!(told.recv().await.unwrap(), StreamEvent::Passed { sequence: 3 });
    drop(wire);
    assert_eq!(closed(&mut told).await.next, AfterClose::Resume);

    // Panics on a request for a permit: resuming needs none.
    let never: IdentifyPermit = Box::new(|| panic!("asked for a permit"));
    let mut told = listen(gateway.connect(ONE, Some(peer.kept(3)), never, unshown()));
    let (mut wire, asked) = peer.greet(SLOW).await;
    let expected = json!({"op": 6, "d": {"token": format!("Bot {TOKEN}"), "session_id": "abc", "seq": 3}});
    assert_eq!(asked, expected);
    wire.message(4, 62, &[1]).await;
    wire.dispatch("RESUMED", 5, &json!({})).await;
    assert_eq!(incoming(&mut told).await, (4, "62".to_owned()));
    assert_eq!(told.recv().await.unwrap(), StreamEvent::Resumed);
    assert_eq!(told.recv().await.unwrap(), StreamEvent::Passed { sequence: 5 });
}

#[tokio::test]
async fn an_unusable_address_to_resume_at_gives_way_to_the_usual_one() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = format!("ws://{}", nobody.local_addr().unwrap());
    drop(nobody);
    for address in ["not an address", "ws://10.1.2.3", "http://127.0.0.1", "wss://", refused.as_str()] {
        let session = GatewaySession { resume_url: Some(address.to_owned()), ..peer.kept(7) };
        let _told = listen(gateway.connect(ONE, Some(session), allowed(), unshown()));
        let (_wire, asked) = peer.greet(SLOW).await;
        assert_eq!((&asked["op"], &asked["d"]["seq"]), (&json!(6), &json!(7)), "{address}");
    }
}

#[tokio::test]
async fn an_address_to_resume_at_that_says_no_hello_gives_way_to_the_usual_one() {
    let (peer, mute) = (Peer::new().await, Peer::new().await);
    let gateway = peer.source(Interests::default()).await;
    let session = GatewaySession { resume_url: Some(mute.address.clone()), ..peer.kept(7) };
    let mut told = listen(gateway.connect(ONE, Some(session), allowed(), unshown()));
    drop(mute.accept().await);
    let (wire, asked) = tokio::select! {
        greeted = peer.greet(SLOW) => greeted,
        end = told.recv() => panic!("the usual address was not tried: {end:?}"),
    };
    assert_eq!((&asked["op"], &asked["d"]["seq"]), (&json!(6), &json!(7)));
    drop(wire);
    let StreamEvent::Closed(closed) = told.recv().await.unwrap() else { panic!("it went on") };
    assert_eq!(closed.next, AfterClose::Resume);
}

#[tokio::test]
async fn a_session_of_another_number_of_shards_is_not_resumed() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let session = GatewaySession { total: 2, ..peer.kept(7) };
    let _told = listen(gateway.connect(ONE, Some(session), allowed(), unshown()));
    assert_eq!(peer.greet(SLOW).await.1["op"], 2);
}

#[tokio::test]
async fn a_session_with_another_service_is_not_resumed_and_one_with_an_unknown_one_not_elsewhere() {
    let (peer, elsewhere) = (Peer::new().await, Peer::new().await);
    let gateway = peer.source(Interests::default()).await;
    let resume_url = Some(elsewhere.address.clone());
    let foreign = GatewaySession {
        service: Some("https://other.example".to_owned()),
        resume_url: resume_url.clone(),
        ..peer.kept(7)
    };
    let _told = listen(gateway.connect(ONE, Some(foreign), allowed(), unshown()));
    assert_eq!(peer.greet(SLOW).await.1["op"], 2);
    let unknown = GatewaySession { service: None, resume_url, ..peer.kept(7) };
    let _told = listen(gateway.connect(ONE, Some(unknown), allowed(), unshown()));
    assert_eq!(peer.greet(SLOW).await.1["op"], 6, "at the usual address");
}

#[tokio::test]
async fn why_a_connection_ended_is_told() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (mut wire, mut told) = peer.session(&gateway).await;
    let frame = CloseFrame { code: CloseCode::from(4000), reason: "the shard restarts".into() };
    wire.0.close(Some(frame)).await.unwrap();
    assert_eq!(closed(&mut told).await.reason, "discord met an unknown error (code 4000: the shard restarts)");
    drop(peer.listener);
    let mut told = listen(gateway.connect(ONE, None, allowed(), unshown()));
    let reason = closed(&mut told).await.reason;
    assert!(reason.starts_with("the gateway could not be reached: ") && reason.contains("refused"), "{reason}");
}

#[tokio::test]
async fn an_address_that_ready_names_wrongly_is_forgotten() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let mut told = listen(gateway.connect(ONE, None, allowed(), unshown()));
    let (mut wire, _) = peer.greet(SLOW).await;
    let ready = json!({"session_id": "abc", "resume_gateway_url": "ws://far.example", "user": {"id": "1"}});
    wire.dispatch("READY", 1, &ready).await;
    let expected = GatewaySession { resume_url: None, ..peer.kept(1) };
    assert_eq!(told.recv().await.unwrap(), StreamEvent::Ready(expected));
}

#[tokio::test]
async fn an_unreadable_ready_ends_the_connection() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    for ready in [json!({"session_id": "abc", "user": {"id": "1"}}), json!({"resume_gateway_url": peer.address})] {
        let mut told = listen(gateway.connect(ONE, None, allowed(), unshown()));
        let (mut wire, _) = peer.greet(SLOW).await;
        wire.dispatch("READY", 1, &ready).await;
        assert_eq!(closed(&mut told).await.next, AfterClose::Identify);
    }
}

#[tokio::test]
async fn close_codes_lead_where_they_must() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let cases = [
        (1000, AfterClose::Resume),
        (1001, AfterClose::Resume),
        (4000, AfterClose::Resume),
        (4004, AfterClose::Fatal),
        (4007, AfterClose::Identify),
        (4009, AfterClose::Identify),
        (4013, AfterClose::Fatal),
        (4014, AfterClose::Fatal),
    ];
    for (code, next) in cases {
        let (mut wire, mut told) = peer.session(&gateway).await;
        wire.close(code).await;
        let expected = Closed { next, ..close::by_code(Some(code), "") };
        assert_eq!(closed(&mut told).await, expected);
    }
    let (mut wire, mut told) = peer.session(&gateway).await;
    wire.0.close(None).await.unwrap();
    assert_eq!(closed(&mut told).await, close::by_code(None, ""));
}

#[tokio::test]
async fn operations_that_end_the_connection_do() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let cases = [
        (r#"{"op":7,"d":null}"#, AfterClose::Resume),
        (r#"{"op":9,"d":true}"#, AfterClose::Resume),
        (r#"{"op":9,"d":false}"#, AfterClose::Identify),
        (r#"{"op":9}"#, AfterClose::Identify),
    ];
    for (frame, next) in cases {
        let (mut wire, mut told) = peer.session(&gateway).await;
        wire.send(frame).await;
        assert_eq!(closed(&mut told).await.next, next, "{frame}");
    }
}

#[tokio::test]
async fn bad_frames_are_skipped_and_the_stream_lives_on() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (mut wire, mut told) = peer.session(&gateway).await;
    let deep = format!(r#"{{"t":"MESSAGE_CREATE","s":3,"op":0,"d":{}"#, "[".repeat(10_000));
    let giant = format!(r#"{{"t":"MESSAGE_CREATE","s":4,"op":0,"d":{{"content":"<@1>{}"}}}}"#, "x".repeat(8 << 20));
    let frames = [
        "",
        "{",
        "[]",
        "null",
        "\u{0}",
        r#"{"op":0}"#,
        r#"{"op":0,"t":"READY","s":"x","d":{}}"#,
        r#"{"op":300,"d":1}"#,
        r#"{"t":"MESSAGE_CREATE","s":2,"op":0,"d":{"id":"1"}}"#,
        r#"{"t":5,"s":2,"op":0,"d":1}"#,
        &deep,
        &giant,
    ];
    for frame in frames {
        wire.send(frame).await;
    }
    // Garbage, and a complete compressed stream followed by more data.
    for data in [vec![1, 2, 3, 0, 0, 0xff, 0xff], vec![0x78, 0x9c, 3, 0, 0, 0, 0, 1, 0, 0, 0xff, 0xff]] {
        wire.0.send(Message::binary(data)).await.unwrap();
    }
    wire.message(5, 60, &[1]).await;
    assert_eq!(incoming(&mut told).await, (5, "60".to_owned()));
    // Invalid UTF-8 cannot be skipped: the WebSocket protocol requires closing the connection.
    wire.0.send(Message::Frame(bad_text())).await.unwrap();
    assert_eq!(closed(&mut told).await.next, AfterClose::Resume);
}

fn bad_text() -> Frame {
    Frame::message(vec![0xc3, 0x28], OpCode::Data(Data::Text), true)
}

#[tokio::test]
async fn a_heartbeat_interval_of_nothing_ends_the_connection_only() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let mut told = listen(gateway.connect(ONE, None, allowed(), unshown()));
    let mut wire = peer.accept().await;
    // The gateway library panics on this interval.
    wire.hello(0).await;
    assert_eq!(closed(&mut told).await.next, AfterClose::Resume);
}

#[tokio::test]
async fn chatter_is_told_of_in_few_words_and_bulk_deletions_in_order() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (mut wire, mut told) = peer.session(&gateway).await;
    for sequence in 2..=301 {
        wire.message(sequence, 1000 + sequence, &[]).await;
    }
    wire.dispatch("MESSAGE_DELETE_BULK", 302, &json!({"ids": ["8", "9"], "channel_id": "5"})).await;
    wire.dispatch("MESSAGE_DELETE", 303, &json!({"id": "10", "channel_id": "5"})).await;
    let guild = json!({"id": "400", "channels": [{"id": "500", "type": 0, "last_message_id": "60"}]});
    wire.dispatch("GUILD_CREATE", 304, &guild).await;
    assert_eq!(incoming(&mut told).await, (301, "deleted 8".to_owned()));
    assert_eq!(incoming(&mut told).await, (302, "deleted 9".to_owned()));
    assert_eq!(incoming(&mut told).await, (303, "deleted 10".to_owned()));
    let expected = StreamEvent::Places {
        sequence: 304,
        guild: "400".to_owned(),
        newest: vec![(Place::new(DOOR, "500"), Timestamp(1_420_070_400_000))],
    };
    assert_eq!(told.recv().await.unwrap(), expected);
    let everywhere = || StreamEvent::AccessChanged(AccessScope::Community("400".to_owned()));
    assert_eq!(told.recv().await.unwrap(), everywhere());
    let role = json!({"guild_id": "400", "role": {"id": "7", "permissions": "0"}});
    wire.dispatch("GUILD_ROLE_UPDATE", 305, &role).await;
    assert_eq!(told.recv().await.unwrap(), everywhere());
    let channel = json!({"id": "500", "guild_id": "400", "type": 0, "permission_overwrites": []});
    wire.dispatch("CHANNEL_UPDATE", 306, &channel).await;
    let here = AccessScope::Place(Place::new(DOOR, "500"));
    while told.recv().await.unwrap() != StreamEvent::AccessChanged(here.clone()) {}
}

#[tokio::test]
async fn messages_in_threads_name_the_channel_above_once_it_was_told() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (mut wire, mut told) = peer.session(&gateway).await;
    let thread = |id: &str| json!({"id": id, "type": 11, "parent_id": "500"});
    wire.dispatch("GUILD_CREATE", 2, &json!({"id": "400", "threads": [thread("601")]})).await;
    wire.dispatch("THREAD_CREATE", 3, &thread("602")).await;
    wire.dispatch("THREAD_LIST_SYNC", 3, &json!({"guild_id": "400", "threads": [thread("603"), {"id": "odd"}]})).await;
    wire.dispatch("GUILD_UPDATE", 3, &json!({"id": "400", "preferred_locale": "de"})).await;
    let mut parents = Vec::new();
    for (sequence, channel) in [(4, "601"), (5, "602"), (6, "603"), (7, "500")] {
        let message = json!({"id": (9000 + sequence).to_string(), "channel_id": channel, "content": "ahoy",
            "mentions": [{"id": "1", "username": "x"}], "author": {"id": "777", "username": "ann"}});
        wire.dispatch("MESSAGE_CREATE", sequence, &message).await;
    }
    while parents.len() < 4 {
        if let StreamEvent::Incoming { incoming, .. } = told.recv().await.unwrap()
            && let Incoming::Posted(mut posted) = *incoming
        {
            gateway.complete(&mut posted);
            parents.push(posted.parent.map(|parent| parent.id.to_string()));
        }
    }
    let above = Some("500".to_owned());
    assert_eq!(parents, [above.clone(), above.clone(), above, None]);
    assert_eq!(gateway.shared.rest.threads.locale("400").as_deref(), Some("de"));
}

#[tokio::test]
async fn a_thread_that_was_deleted_or_never_told_of_is_no_known_place() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (mut wire, mut told) = peer.session(&gateway).await;
    let guild = json!({"id": "400", "channels": [{"id": "500", "type": 0}],
        "threads": [{"id": "601", "type": 11, "parent_id": "500"}, {"id": "602", "type": 11, "parent_id": "500"}]});
    wire.dispatch("GUILD_CREATE", 2, &guild).await;
    wire.dispatch("THREAD_DELETE", 3, &json!({"id": "602", "guild_id": "400", "type": 11, "parent_id": "500"})).await;
    for (sequence, channel) in [(4, "500"), (5, "601"), (6, "602"), (7, "603")] {
        let message = json!({"id": (9000 + sequence).to_string(), "channel_id": channel, "guild_id": "400",
            "content": "ahoy", "mentions": [{"id": "1"}], "author": {"id": "777", "username": "ann"}});
        wire.dispatch("MESSAGE_CREATE", sequence, &message).await;
    }
    let mut missing = Vec::new();
    while missing.len() < 4 {
        if let StreamEvent::Incoming { incoming, .. } = told.recv().await.unwrap()
            && let Incoming::Posted(mut posted) = *incoming
        {
            missing.push((gateway.complete(&mut posted), posted.parent.is_some()));
        }
    }
    let unknown = (Some(Missing::Place), false);
    assert_eq!(missing, [(None, false), (None, true), unknown, unknown]);
}

#[tokio::test]
async fn lone_surrogates_end_neither_a_session_nor_a_message() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (mut wire, mut told) = peer.session(&gateway).await;
    let message = |content: &str, id: u64| {
        format!(
            r#"{{"t":"MESSAGE_CREATE","s":{id},"op":0,"d":{{"id":"{id}","channel_id":"500","content":"{content}","mentions":[{{"id":"1"}}],"author":{{"id":"777","username":"\\ud83d"}}}}}}"#
        )
    };
    wire.send(message("<@1> \\ud800", 3)).await;
    wire.send(message("<@1> ahoy", 4)).await;
    assert_eq!(incoming(&mut told).await, (3, "3".to_owned()));
    assert_eq!(incoming(&mut told).await, (4, "4".to_owned()));
}

#[tokio::test]
async fn a_peer_that_answers_no_heartbeat_is_left_resumably() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let mut told = listen(gateway.connect(ONE, Some(peer.kept(7)), allowed(), unshown()));
    let start = Instant::now();
    let (mut wire, _) = peer.greet(200).await;
    assert_eq!(wire.hear().await, json!({"op": 1, "d": 7}));
    assert_eq!(closed(&mut told).await.next, AfterClose::Resume);
    assert!(start.elapsed() < Duration::from_millis(2 * 200 + 1000), "{:?}", start.elapsed());
    // No close code is sent, so that the session can be resumed.
    assert!(!matches!(wire.0.next().await, Some(Ok(Message::Close(Some(_))))));
}

#[tokio::test]
async fn a_peer_that_never_says_hello_is_left() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let mut told = listen(gateway.connect(ONE, None, allowed(), unshown()));
    let mut wire = peer.accept().await;
    wire.dispatch("TYPING_START", 1, &json!({})).await;
    assert_eq!(told.recv().await.unwrap(), StreamEvent::Passed { sequence: 1 });
    // From here on, only the deadline can fire.
    tokio::time::pause();
    assert_eq!(closed(&mut told).await, close::closed(AfterClose::Resume, "the peer sent no HELLO in time"));
}

#[tokio::test]
async fn a_permit_that_never_comes_ends_the_stream() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let mut told = listen(gateway.connect(ONE, None, Box::new(|| Box::pin(async { false })), unshown()));
    let mut wire = peer.accept().await;
    wire.hello(SLOW).await;
    assert_eq!(closed(&mut told).await.next, AfterClose::Identify);
}

#[tokio::test]
async fn a_dropped_stream_ends_without_a_code() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let mut stream = gateway.connect(ONE, Some(peer.kept(7)), allowed(), unshown());
    let (mut wire, _) = tokio::select! {
        greeted = peer.greet(SLOW) => greeted,
        event = stream.next() => panic!("{event:?}"),
    };
    drop(stream);
    assert!(!matches!(wire.0.next().await, Some(Ok(_))));
}

#[tokio::test]
async fn a_shard_beyond_the_total_is_refused() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let mut stream = gateway.connect(Shard { number: 4, total: 4 }, None, allowed(), unshown());
    for _ in 0..2 {
        let StreamEvent::Closed(end) = stream.next().await else { panic!("it is open") };
        assert_eq!(end.next, AfterClose::Fatal);
    }
}

#[tokio::test]
async fn a_refused_token_is_told_as_final_and_other_failures_are_not() {
    let refusal = answer(401, "", r#"{"message":"401: Unauthorized","code":0}"#);
    let (base, _) = serve(vec![refusal.clone(), refusal, answer(503, "", "")]).await;
    let access = access(&base);
    let gateway = Gateway::new(access.clone(), Interests::default(), Arc::new(Rest::new(&access).unwrap()));
    let Err(SourceError::Refused(reason)) = gateway.advice().await else { panic!("taken") };
    assert!(reason.contains("DISCORD_BOT_TOKEN") && !reason.contains(TOKEN), "{reason}");
    let StreamEvent::Closed(end) = gateway.connect(ONE, None, allowed(), unshown()).next().await else {
        panic!("open")
    };
    assert_eq!(end.next, AfterClose::Fatal);
    assert!(matches!(gateway.advice().await, Err(SourceError::Unreachable(_))));
    // The listener is closed.
    let StreamEvent::Closed(end) = gateway.connect(ONE, None, allowed(), unshown()).next().await else {
        panic!("open")
    };
    assert_eq!(end.next, AfterClose::Resume);
    assert!(!format!("{gateway:?} {end:?}").contains(TOKEN));
}

#[tokio::test]
async fn a_gateway_elsewhere_in_plain_text_is_not_dialled() {
    let told = json!({"url": "ws://far.example", "shards": 1, "session_start_limit":
        {"total": 1000, "remaining": 990, "reset_after": 60_000, "max_concurrency": 1}});
    let (base, _) = serve(vec![answer(200, "", &told.to_string())]).await;
    let access = access(&base);
    let gateway = Gateway::new(access.clone(), Interests::default(), Arc::new(Rest::new(&access).unwrap()));
    let Err(SourceError::Unreachable(reason)) = gateway.advice().await else { panic!("taken") };
    assert!(reason.contains("not encrypted"), "{reason}");
}

#[tokio::test]
async fn a_peer_that_hangs_up_while_opening_is_dialled_in_moderation() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let mut stream = gateway.connect(ONE, None, allowed(), unshown());
    let mut dials = 0;
    let hang_up = async {
        loop {
            let (socket, _) = peer.listener.accept().await.unwrap();
            dials += 1;
            drop(tokio_tungstenite::accept_async(socket).await);
        }
    };
    let second = tokio::time::sleep(Duration::from_secs(1));
    tokio::select! {
        () = hang_up => {}
        event = stream.next() => assert!(matches!(event, StreamEvent::Closed(_)), "{event:?}"),
        () = second => {}
    }
    assert!((1..=20).contains(&dials), "{dials}");
}

fn unshown() -> PresenceUpdates {
    watch::channel(None).1
}

fn line(text: &str) -> Presence {
    let line = Line { kind: ActivityKind::Playing, text: text.into() };
    Presence { mood: Mood::Online, line: Some(line) }
}

#[tokio::test]
async fn how_we_are_shown_comes_with_identify_and_changes_follow() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (slot, shown) = watch::channel(Some(line("chess")));
    let _told = listen(gateway.connect(ONE, None, allowed(), shown.clone()));
    let (mut wire, asked) = peer.greet(SLOW).await;
    assert_eq!(asked["d"]["presence"]["activities"][0]["name"], "chess");
    // Changes before there is a session are deferred.
    slot.send_replace(Some(line("go")));
    wire.send(r#"{"op":1,"d":null}"#).await;
    assert_eq!(wire.hear().await["op"], 1);
    let ready = json!({"session_id": "abc", "resume_gateway_url": peer.address, "user": {"id": "1"}});
    wire.dispatch("READY", 1, &ready).await;
    let activity = |name: &str| json!({"name": name, "type": 0});
    let change = |name: &str| json!({"op": 3, "d": {"since": null, "activities": [activity(name)], "status": "online", "afk": false}});
    assert_eq!(wire.hear().await, change("go"));
    drop(wire);

    // A resumed session still shows it; only a change is sent.
    let _told = listen(gateway.connect(ONE, Some(peer.kept(1)), allowed(), shown));
    let (mut wire, asked) = peer.greet(SLOW).await;
    assert_eq!(asked["op"], 6);
    wire.dispatch("RESUMED", 2, &json!({})).await;
    wire.send(r#"{"op":1,"d":null}"#).await;
    assert_eq!(wire.hear().await["op"], 1);
    slot.send_replace(Some(line("bridge")));
    assert_eq!(wire.hear().await, change("bridge"));
}

#[tokio::test]
async fn reactions_are_asked_for_only_when_wanted_and_told_only_of_our_messages() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests { reactions: true, ..Interests::default() }).await;
    let mut told = listen(gateway.connect(ONE, None, allowed(), unshown()));
    let (mut wire, asked) = peer.greet(SLOW).await;
    assert_eq!(asked["d"]["intents"], 1 | (1 << 9) | (1 << 10) | (1 << 15));
    for (sequence, user, author) in [(2, "7", "8"), (3, "1", "1"), (4, "7", "1")] {
        let reaction = json!({"user_id": user, "channel_id": "5", "message_id": "6", "guild_id": "4",
            "message_author_id": author, "emoji": {"id": null, "name": "👍🏽"}});
        wire.dispatch("MESSAGE_REACTION_ADD", sequence, &reaction).await;
    }
    loop {
        match told.recv().await.unwrap() {
            StreamEvent::Incoming { sequence, incoming } => {
                let place = Place::new(DOOR, "5");
                let (message, by) = (MessageId::new(DOOR, "6"), Person::new(DOOR, "7"));
                let reaction = Reaction { place, message, by, vote: Some(Vote::Up) };
                assert_eq!((sequence, *incoming), (4, Incoming::Reacted(reaction)));
                break;
            }
            StreamEvent::Passed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_long_frame_is_read_elsewhere_and_keeps_its_place() {
    let peer = Peer::new().await;
    let gateway = peer.source(Interests::default()).await;
    let (mut wire, mut told) = peer.session(&gateway).await;
    wire.message(2, 60, &[1]).await;
    let data = json!({"id": "61", "channel_id": "500", "guild_id": "400", "content": "x".repeat(2 * super::IN_PLACE_MAX),
        "mentions": [{"id": "1", "username": "x"}], "author": {"id": "777", "username": "ann"}});
    wire.dispatch("MESSAGE_CREATE", 3, &data).await;
    wire.message(4, 62, &[1]).await;
    for (sequence, id) in [(2, "60"), (3, "61"), (4, "62")] {
        assert_eq!(incoming(&mut told).await, (sequence, id.to_owned()));
    }
}
