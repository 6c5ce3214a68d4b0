use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::Access;
use domain::gate::{ApprovalDecision, Click, ClickRefusal};
use domain::ids::Person;
use domain::incoming::Incoming;
use ports::testing::ManualClock;
use ports::{Intake, NotAccepted};

/// Accepts events while it is open.
struct Door(watch::Receiver<bool>);

#[async_trait]
impl Intake for Door {
    async fn accept(&self, _incoming: Incoming, _us: Person) -> Result<(), NotAccepted> {
        self.0.clone().wait_for(|open| *open).await.map(drop).map_err(|_| NotAccepted)
    }

    async fn decide(&self, _click: Click) -> Result<ApprovalDecision, ClickRefusal> {
        Err(ClickRefusal::NotRecorded)
    }
}

fn account() -> Account {
    let text = |text: &str| text.to_owned();
    Account { user: text("UBOT"), bot: None, team: text("T1"), name: text("staffai"), workspace: text("w") }
}

/// Returns a connection with this intake, and its other end.
async fn link(intake: Door) -> (Link, Work, WebSocketStream<tokio::io::DuplexStream>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    let access = Access {
        api_url: "http://127.0.0.1:9".to_owned(),
        bot_token: SecretString::from("xoxb-1"),
        app_token: SecretString::from("xapp-1"),
    };
    let slack = Slack::new(&access, Arc::new(ManualClock::new())).unwrap();
    let work = Work {
        slack: Arc::new(slack),
        us: account(),
        intake: Arc::new(intake),
        names: Arc::new([]),
        lottery: None,
        replaced: CancellationToken::new(),
        refresh: mpsc::channel(1).0,
    };
    let ours: Box<dyn Duplex> = Box::new(ours);
    let socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
    (Link { socket, lasts: None }, work, WebSocketStream::from_raw_socket(theirs, Role::Server, None).await)
}

fn envelope(number: usize) -> Message {
    let item = json!({"type": "message", "channel": "C1", "ts": "1.5"});
    let event = json!({"type": "reaction_added", "user": "U1", "item_user": "UBOT", "item": item});
    let payload = json!({"type": "event_callback", "event": event});
    Message::text(json!({"envelope_id": number.to_string(), "type": "events_api", "payload": payload}).to_string())
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_events_wait_for_their_record_is_not_deaf() {
    let (open, door) = watch::channel(false);
    let (link, work, mut slack) = link(Door(door)).await;
    let link = tokio::spawn(link.run(work));
    let all = TAKEN_AT_ONCE + 20;
    for number in 0..all {
        slack.send(envelope(number)).await.unwrap();
    }
    // Slack reads on, and answers pings.
    let acknowledged = tokio::spawn(async move {
        let mut acknowledged = 0;
        while let Some(Ok(message)) = slack.next().await {
            if let Message::Text(text) = message {
                let frame: Value = serde_json::from_str(&text).unwrap();
                acknowledged += usize::from(frame["envelope_id"].is_string());
            }
            if acknowledged == all {
                break;
            }
        }
        acknowledged
    });
    tokio::time::sleep(SILENT * 3).await;
    assert!(!link.is_finished());
    open.send_replace(true);
    assert_eq!(acknowledged.await.unwrap(), all);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_frame_ends() {
    let (_open, door) = watch::channel(true);
    let (link, work, slack) = link(Door(door)).await;
    let begun = Instant::now();
    assert_eq!(link.run(work).await, "the peer is silent");
    assert_eq!(begun.elapsed(), SILENT);
    drop(slack);
}

#[tokio::test]
async fn a_long_frame_is_read_on_another_thread() {
    let (_open, door) = watch::channel(true);
    let (link, work, mut slack) = link(Door(door)).await;
    let link = tokio::spawn(link.run(work));
    let event = json!({"type": "message", "channel": "C1", "ts": "later", "blocks": vec![json!({"a": 0}); 300_000]});
    let payload = json!({"type": "event_callback", "event": event}).to_string();
    let frame = format!(r#"{{"envelope_id": "e1", "type": "events_api", "payload": {payload}}}"#);
    assert!(frame.len() > IN_PLACE_MAX && frame.len() < FRAME_BYTES);
    let ran_on = std::thread::current().id();
    let (others, acknowledged) = (Arc::new(std::sync::atomic::AtomicU64::new(0)), CancellationToken::new());
    let other = tokio::spawn({
        let (others, acknowledged) = (Arc::clone(&others), acknowledged.clone());
        async move {
            while !acknowledged.is_cancelled() {
                others.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            std::thread::current().id()
        }
    });
    slack.send(Message::text(frame)).await.unwrap();
    let sent = others.load(std::sync::atomic::Ordering::Relaxed);
    let Some(Ok(Message::Text(answer))) = slack.next().await else { panic!("an acknowledgement") };
    acknowledged.cancel();
    assert!(answer.contains("e1"));
    let between = others.load(std::sync::atomic::Ordering::Relaxed) - sent;
    assert!(between > 1_000, "others ran {between} times on this thread meanwhile");
    assert_eq!(other.await.unwrap(), ran_on);
    link.abort();
}
