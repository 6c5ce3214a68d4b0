//! The bot's presence on the connections of one shard: sent with IDENTIFY, then on each change, at most five times a
//! minute. The gateway library counts these sends against the connection's limit and sends heartbeats first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use domain::presence::{ActivityKind, Line, Mood, Pace, Presence};
use ports::PresenceUpdates;

/// State shared by the connections of all shards.
#[derive(Debug)]
pub(super) struct Displays {
    origin: Instant,
    shards: Mutex<HashMap<u32, Known>>,
}

impl Default for Displays {
    fn default() -> Self {
        Self { origin: Instant::now(), shards: Mutex::default() }
    }
}

/// The presence shown on one shard, as far as known. A resumed session keeps it.
#[derive(Debug, Default)]
struct Known {
    last: Option<Presence>,
    pace: Pace,
}

/// The presence shown on one connection.
pub(super) struct Display {
    all: Arc<Displays>,
    shard: u32,
    wanted: PresenceUpdates,
    /// The presence sent with IDENTIFY.
    first: Option<Presence>,
    /// True while there is a session: changes can be sent.
    open: bool,
    /// True once the sender is dropped: the presence stays unchanged.
    settled: bool,
}

impl Display {
    pub(super) fn new(all: Arc<Displays>, shard: u32, wanted: PresenceUpdates) -> Self {
        let first = wanted.borrow().clone();
        Self { all, shard, wanted, first, open: false, settled: false }
    }

    /// Returns the presence for IDENTIFY; `None` omits it.
    pub(super) fn first(&self) -> Option<Value> {
        self.first.as_ref().map(payload)
    }

    /// Records that a new session began: it shows the presence of IDENTIFY.
    pub(super) fn began(&mut self) {
        self.open = true;
        let first = self.first.clone();
        self.with(|known, now| {
            if first.is_some() {
                known.pace.note(now);
            }
            known.last = first;
        });
    }

    pub(super) fn resumed(&mut self) {
        self.open = true;
    }

    /// Returns the next change as soon as it may be sent. Cancel-safe.
    pub(super) async fn due(&mut self) -> Value {
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let next = match &wanted {
                Some(presence) if self.open => self.with(|known, now| known.next(presence, now)),
                _ => Next::Nothing,
            };
            let wait = match next {
                Next::Send => return wanted.as_ref().map(payload).unwrap_or_default(),
                Next::Wait(wait) => Some(wait),
                Next::Nothing => None,
            };
            let slept = async {
                match wait {
                    Some(wait) => sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            let changed = async {
                if self.settled || self.wanted.changed().await.is_err() {
                    self.settled = true;
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = slept => {}
                () = changed => {}
            }
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Known, Duration) -> T) -> T {
        let mut shards = self.all.shards.lock();
        change(shards.entry(self.shard).or_default(), self.all.origin.elapsed())
    }
}

enum Next {
    Send,
    Wait(Duration),
    Nothing,
}

impl Known {
    /// Returns the next action for showing `wanted`. A change to be sent counts as shown.
    fn next(&mut self, wanted: &Presence, now: Duration) -> Next {
        if self.last.as_ref() == Some(wanted) {
            return Next::Nothing;
        }
        match self.pace.take(now) {
            Ok(()) => {
                self.last = Some(wanted.clone());
                Next::Send
            }
            Err(wait) => Next::Wait(wait),
        }
    }
}

pub(super) fn operation(presence: &Value) -> String {
    json!({"op": 3, "d": presence}).to_string()
}

fn payload(presence: &Presence) -> Value {
    let status = match presence.mood {
        Mood::Online => "online",
        Mood::Idle => "idle",
        Mood::Busy => "dnd",
    };
    let activities: Vec<Value> = presence.line.iter().map(activity).collect();
    json!({"since": null, "activities": activities, "status": status, "afk": false})
}

fn activity(line: &Line) -> Value {
    match line.kind {
        ActivityKind::Playing => json!({"name": &*line.text, "type": 0}),
        ActivityKind::Listening => json!({"name": &*line.text, "type": 2}),
        ActivityKind::Watching => json!({"name": &*line.text, "type": 3}),
        // Discord shows the state of such an activity and requires this name.
        ActivityKind::Custom => json!({"name": "Custom Status", "type": 4, "state": &*line.text}),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    fn line(text: &str) -> Presence {
        Presence { mood: Mood::Online, line: Some(Line { kind: ActivityKind::Custom, text: text.into() }) }
    }

    async fn sent(display: &mut Display, within: Duration) -> Option<String> {
        let due = tokio::time::timeout(within, display.due()).await.ok()?;
        Some(due["activities"][0]["state"].as_str().unwrap().to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn identify_says_it_and_changes_follow_five_a_minute() {
        let (slot, wanted) = watch::channel(Some(line("0")));
        let all = Arc::new(Displays::default());
        let mut display = Display::new(Arc::clone(&all), 0, wanted.clone());
        assert_eq!(display.first().unwrap()["activities"][0]["state"], "0");
        slot.send_replace(Some(line("1")));
        assert_eq!(sent(&mut display, Duration::from_secs(600)).await, None, "there is no session yet");
        display.began();
        for n in 1..5 {
            slot.send_replace(Some(line(&n.to_string())));
            assert_eq!(sent(&mut display, Duration::ZERO).await, Some(n.to_string()));
        }
        assert_eq!(sent(&mut display, Duration::from_secs(600)).await, None, "nothing changed");
        for n in 5..10 {
            slot.send_replace(Some(line(&n.to_string())));
            assert!(sent(&mut display, Duration::ZERO).await.is_some());
        }
        slot.send_replace(Some(line("passed over")));
        slot.send_replace(Some(line("10")));
        assert_eq!(sent(&mut display, Duration::from_secs(64)).await, None);
        assert_eq!(sent(&mut display, Duration::from_secs(2)).await.as_deref(), Some("10"), "only the newest");
    }

    #[tokio::test(start_paused = true)]
    async fn a_resumed_session_is_told_only_what_it_does_not_show() {
        let (slot, wanted) = watch::channel(Some(line("a")));
        let all = Arc::new(Displays::default());
        let mut first = Display::new(Arc::clone(&all), 0, wanted.clone());
        first.began();
        let mut second = Display::new(Arc::clone(&all), 0, wanted.clone());
        second.resumed();
        assert_eq!(sent(&mut second, Duration::from_secs(600)).await, None);
        slot.send_replace(Some(line("b")));
        let mut third = Display::new(Arc::clone(&all), 0, wanted.clone());
        third.resumed();
        assert_eq!(sent(&mut third, Duration::ZERO).await.as_deref(), Some("b"));
        let mut other = Display::new(all, 1, wanted);
        other.resumed();
        assert_eq!(sent(&mut other, Duration::ZERO).await.as_deref(), Some("b"), "every shard has its own");
    }

    #[tokio::test]
    async fn the_library_understands_what_identify_says() {
        for (mood, kind) in [Mood::Online, Mood::Idle, Mood::Busy].into_iter().zip(ActivityKind::ALL) {
            let shown = Presence { mood, line: Some(Line { kind, text: "x".into() }) };
            let builder = twilight_gateway::ConfigBuilder::new(String::new(), twilight_gateway::Intents::empty());
            drop(builder.presence(serde_json::from_value(payload(&shown)).unwrap()).build());
        }
        let idle = payload(&Presence { mood: Mood::Idle, line: None });
        assert_eq!(idle, json!({"since": null, "activities": [], "status": "idle", "afk": false}));
    }
}
