//! A local Slack: one workspace with members, channels and one app, over real sockets. It delivers each event to any
//! open connection, again until it is acknowledged, and breaks where a story wants.
//!
//! Sources: `docs.slack.dev/apis/events-api/using-socket-mode`, `docs.slack.dev/reference/methods`.

mod connections;

mod methods;

mod streaming;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use parking_lot::Mutex;
use ports::Clock;
use serde_json::{Value, json};
use staffai::app::system::SystemClock;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub const BOT_TOKEN: &str = "xoxb-of-the-bot";
pub const APP_TOKEN: &str = "xapp-of-the-app";
pub const BOT: &str = "UBOT";
pub const TEAM: &str = "T0WORK";

/// A message.
#[derive(Debug, Clone)]
pub struct Message {
    pub channel: String,
    pub ts: String,
    pub thread: Option<String>,
    pub user: String,
    pub text: String,
    pub blocks: Value,
    pub metadata: Value,
    /// The number of edits.
    pub edits: usize,
    /// Its file.
    pub file: Value,
    /// The start of its stream, while it is open.
    pub streams: Option<Instant>,
}

/// A message of a member, by its place in Slack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Said {
    pub channel: String,
    pub ts: String,
    /// The timestamp of the first message of its thread.
    pub root: String,
}

/// An event that waits for its acknowledgement.
#[derive(Debug, Clone)]
struct Pending {
    kind: &'static str,
    payload: Value,
    attempts: u32,
    next: Instant,
    /// The connection that has it.
    socket: Option<u64>,
}

/// An open connection.
struct Open {
    frames: mpsc::UnboundedSender<Frame>,
    /// True if it neither reads nor writes any more, without being closed.
    half_open: watch::Sender<bool>,
}

/// What a connection shall do.
enum Frame {
    Text(String),
    Close,
}

#[derive(Default)]
struct State {
    messages: Vec<Message>,
    last_ts: u64,
    sockets: HashMap<u64, Open>,
    /// The numbers of connections ever opened.
    opened: u64,
    most_open: usize,
    tickets: HashSet<u64>,
    pending: HashMap<String, Pending>,
    /// Each acknowledgement: true if it came on the connection that delivered its envelope last.
    acks: Vec<bool>,
    calls: Vec<(String, HashMap<String, String>)>,
    /// The faults of the next calls of a method.
    faults: HashMap<String, VecDeque<Fault>>,
    /// The most calls of a method in a time, as a tier has it.
    tiers: HashMap<String, (usize, Duration)>,
    times: HashMap<String, VecDeque<Instant>>,
    /// The announced life of a connection, in seconds.
    life: u64,
    /// The time after which an event is delivered again.
    retry_after: Duration,
    whispers: Vec<Value>,
    /// The scopes of the bot's token; all if empty.
    scopes: String,
    files: HashMap<String, Vec<u8>>,
    /// The time after which a stream is closed; `None` for a workspace without streams.
    streams: Option<Duration>,
    /// The notices that one member saw.
    notices: Vec<HashMap<String, String>>,
    /// The user groups and their members.
    groups: BTreeMap<String, Vec<String>>,
    /// The triggers of dialogues that are not open yet, with their time and member.
    triggers: HashMap<String, (Instant, String)>,
    /// The open dialogues with their members.
    views: Vec<(String, Value)>,
    /// The answers to interactions.
    payloads: Vec<Value>,
}

/// The fault of a call.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The call takes effect, and its answer is lost.
    LostAnswer,
    /// The call takes effect, and there is no answer.
    NoAnswer,
    /// 429 with this delay in seconds.
    Limited(u64),
    /// An error that Slack names.
    Named(&'static str),
    /// A status without Slack's words.
    Status(u16),
}

/// The service.
#[derive(Clone)]
pub struct Service {
    state: Arc<Mutex<State>>,
    changed: Arc<watch::Sender<u64>>,
    url: String,
    envelopes: Arc<AtomicU64>,
}

impl Service {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State { life: 18_060, retry_after: Duration::from_secs(2), ..State::default() };
        let service = Self {
            state: Arc::new(Mutex::new(state)),
            changed: Arc::new(watch::Sender::new(0)),
            url,
            envelopes: Arc::default(),
        };
        let app = Router::new()
            .route("/api/{method}", post(methods::call).get(methods::call))
            .route("/link", get(connections::open))
            .route("/files/{name}", get(methods::file))
            .route("/upload/{name}", post(methods::upload))
            .with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let redelivers = service.clone();
        tokio::spawn(async move { redelivers.redeliver().await });
        service
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    fn change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    // === Members ===

    /// Writes a message in a channel; `@bot` mentions the bot.
    pub fn says(&self, user: &str, channel: &str, text: &str) -> Said {
        self.writes(user, channel, None, text, Value::Null)
    }

    /// Writes a message with a file; an address without a host is one of this service.
    pub fn sends(&self, user: &str, channel: &str, text: &str, name: &str, url: &str) -> Said {
        let url = if url.starts_with('/') { format!("{}{url}", self.url) } else { url.to_owned() };
        let file = json!({"name": name, "mimetype": "text/plain", "size": 19, "url_private_download": url});
        self.writes(user, channel, None, text, file)
    }

    /// Returns the files that the bot sent to this conversation: the content of each.
    pub fn sent_files(&self, channel: &str) -> Vec<String> {
        let calls = self.calls("files.completeUploadExternal");
        let to_channel = calls.iter().filter(|arguments| arguments["channel_id"] == channel);
        let named = to_channel.filter_map(|arguments| serde_json::from_str::<Value>(&arguments["files"]).ok());
        let state = self.state.lock();
        let content = |files: Value| state.files.get(&format!("/upload/{}", files[0]["id"].as_str()?)).cloned();
        named.filter_map(content).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
    }

    /// Returns the content of an uploaded file.
    pub fn stored(&self, name: &str) -> Vec<u8> {
        self.state.lock().files.get(&format!("/upload/{name}")).cloned().unwrap_or_default()
    }

    /// Stores a file.
    pub fn puts(&self, path: &str, content: &[u8]) {
        self.state.lock().files.insert(path.to_owned(), content.to_vec());
    }

    /// Writes a message in the thread of another.
    pub fn replies(&self, user: &str, to: &Said, text: &str) -> Said {
        self.writes(user, &to.channel, Some(&to.root), text, Value::Null)
    }

    /// Writes a message in a channel that is this old, and delivers its events now.
    pub fn said_before(&self, user: &str, channel: &str, text: &str, age: Duration) -> Said {
        let seconds = SystemClock.now().0 / 1_000 - age.as_secs();
        self.writes_at(Some(format!("{seconds}.000100")), (user, channel, None), text, Value::Null)
    }

    fn writes(&self, user: &str, channel: &str, thread: Option<&str>, text: &str, file: Value) -> Said {
        self.writes_at(None, (user, channel, thread), text, file)
    }

    fn writes_at(
        &self,
        ts: Option<String>,
        (user, channel, thread): (&str, &str, Option<&str>),
        text: &str,
        file: Value,
    ) -> Said {
        let text = text.replace("@bot", &format!("<@{BOT}>"));
        let message = {
            let mut state = self.state.lock();
            let ts = ts.unwrap_or_else(|| state.next_ts());
            let message = Message {
                channel: channel.to_owned(),
                ts,
                thread: thread.map(str::to_owned),
                user: user.to_owned(),
                text,
                blocks: Value::Null,
                metadata: Value::Null,
                edits: 0,
                file,
                streams: None,
            };
            state.messages.push(message.clone());
            message
        };
        self.deliver_message(&message);
        let root = message.thread.clone().unwrap_or_else(|| message.ts.clone());
        Said { channel: message.channel, ts: message.ts, root }
    }

    /// Delivers the events of a message: a mention has two.
    fn deliver_message(&self, message: &Message) {
        let mut event = message.wire();
        event["channel"] = message.channel.clone().into();
        event["channel_type"] = if message.channel.starts_with('D') { "im" } else { "channel" }.into();
        event["type"] = "message".into();
        self.deliver(event.clone());
        if message.text.contains(&format!("<@{BOT}>")) && !message.channel.starts_with('D') {
            event["type"] = "app_mention".into();
            event.as_object_mut().unwrap().remove("channel_type");
            self.deliver(event);
        }
    }

    /// Delivers the events of a message once more, as new envelopes.
    pub fn repeats(&self, said: &Said) {
        let message = self.message(said).expect("the message stands");
        self.deliver_message(&message);
    }

    /// Deletes a message of a member.
    pub fn deletes(&self, said: &Said) {
        self.state.lock().messages.retain(|message| message.ts != said.ts);
        let event =
            json!({"type": "message", "subtype": "message_deleted", "channel": said.channel, "deleted_ts": said.ts});
        self.deliver(event);
    }

    /// Presses a button of a message of the bot.
    pub fn presses(&self, user: &str, message: &Message, label: &str) {
        let blocks = message.blocks.as_array().cloned().unwrap_or_default();
        let elements = blocks.iter().filter_map(|block| block["elements"].as_array()).flatten();
        let button = elements.into_iter().find(|button| button["text"]["text"] == label);
        let button = button.unwrap_or_else(|| panic!("no button {label} in {}", message.blocks));
        let payload = json!({
            "type": "block_actions",
            "user": {"id": user, "team_id": TEAM},
            "container": {"type": "message", "channel_id": message.channel, "message_ts": message.ts, "thread_ts": message.thread},
            "actions": [{"action_id": button["action_id"], "value": button["value"], "action_ts": self.state.lock().next_ts()}],
            "response_url": format!("{}/api/response_url", self.url),
        });
        self.send("interactive", payload);
    }

    /// Runs a slash command in a channel.
    pub fn runs(&self, user: &str, channel: &str, text: &str) {
        let payload = json!({
            "command": "/staffai", "text": text, "user_id": user, "channel_id": channel, "team_id": TEAM,
            "response_url": format!("{}/api/response_url", self.url),
            "trigger_id": format!("{}.trigger", self.state.lock().next_ts()),
        });
        self.send("slash_commands", payload);
    }

    /// Uses the shortcut on a message.
    pub fn uses_shortcut(&self, user: &str, on: &Message) {
        let trigger = {
            let mut state = self.state.lock();
            let trigger = format!("{}.trigger", state.next_ts());
            state.triggers.insert(trigger.clone(), (Instant::now(), user.to_owned()));
            trigger
        };
        let mut message = on.wire();
        message["text"] = on.text.clone().into();
        self.send(
            "interactive",
            json!({
                "type": "message_action", "callback_id": "ask", "trigger_id": trigger, "user": {"id": user},
                "channel": {"id": on.channel}, "message": message, "message_ts": on.ts,
            }),
        );
    }

    /// Submits the newest dialogue with this question.
    pub fn submits(&self, question: &str) {
        let (user, mut view) = self.state.lock().views.last().cloned().expect("a dialogue is open");
        view["state"] = json!({"values": {"ask": {"ask": {"type": "plain_text_input", "value": question}}}});
        self.send("interactive", json!({"type": "view_submission", "user": {"id": user}, "view": view}));
    }

    /// Returns the number of dialogues that were opened.
    pub fn dialogues(&self) -> usize {
        self.state.lock().views.len()
    }

    /// Returns the answers to interactions.
    pub fn payloads(&self) -> Vec<Value> {
        self.state.lock().payloads.clone()
    }

    /// Returns the notices that one member saw.
    pub fn notices(&self) -> Vec<HashMap<String, String>> {
        self.state.lock().notices.clone()
    }

    /// Puts members into a user group.
    pub fn groups(&self, group: &str, users: &[&str]) {
        self.state.lock().groups.insert(group.to_owned(), users.iter().map(|user| (*user).to_owned()).collect());
    }

    // === Events ===

    /// Delivers an event.
    #[expect(clippy::needless_pass_by_value, reason = "stories write the event in place")]
    pub fn deliver(&self, event: Value) {
        let id = format!("Ev{}", self.envelopes.load(Ordering::SeqCst));
        self.send("events_api", json!({"type": "event_callback", "team_id": TEAM, "event_id": id, "event": event}));
    }

    fn send(&self, kind: &'static str, payload: Value) {
        let id = format!("envelope-{}", self.envelopes.fetch_add(1, Ordering::SeqCst));
        let pending = Pending { kind, payload, attempts: 0, next: Instant::now(), socket: None };
        self.state.lock().pending.insert(id, pending);
        self.change();
    }

    /// Gives due events to a connection, for ever.
    async fn redeliver(&self) {
        let mut changes = self.changed.subscribe();
        loop {
            self.state.lock().give();
            let _ = tokio::time::timeout(Duration::from_millis(20), changes.changed()).await;
        }
    }

    // === Faults ===

    /// Breaks the next call of a method; several are used one after the other.
    pub fn breaks(&self, method: &str, fault: Fault) {
        self.state.lock().faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// Limits the calls of a method, as a tier of Slack does.
    pub fn limits(&self, method: &str, many: usize, within: Duration) {
        self.state.lock().tiers.insert(method.to_owned(), (many, within));
    }

    /// Accepts streaming calls, and closes each stream after this time.
    pub fn streams(&self, lasts: Duration) {
        self.state.lock().streams = Some(lasts);
    }

    /// Gives the bot's token these scopes alone.
    pub fn grants(&self, scopes: &str) {
        scopes.clone_into(&mut self.state.lock().scopes);
    }

    /// Announces this life of connections.
    pub fn life(&self, seconds: u64) {
        self.state.lock().life = seconds;
    }

    /// Forgets all events that are not delivered yet, as Slack does after some minutes.
    pub fn forgets(&self) {
        self.state.lock().pending.clear();
    }

    /// Asks each connection to be replaced, for this reason.
    pub fn disconnects(&self, reason: &str) {
        let frame = json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "local"}}).to_string();
        for open in self.state.lock().sockets.values() {
            let _ = open.frames.send(Frame::Text(frame.clone()));
        }
    }

    /// Sends a frame on one connection.
    pub fn sends_frame(&self, frame: &str) {
        let state = self.state.lock();
        let open = state.sockets.values().next().expect("a connection is open");
        let _ = open.frames.send(Frame::Text(frame.to_owned()));
    }

    /// Closes each connection.
    pub fn hangs_up(&self) {
        for open in self.state.lock().sockets.values() {
            let _ = open.frames.send(Frame::Close);
        }
    }

    /// Lets each open connection go silent without closing it.
    pub fn goes_silent(&self) {
        for open in self.state.lock().sockets.values() {
            open.half_open.send_replace(true);
        }
    }

    // === What was seen ===

    pub fn message(&self, said: &Said) -> Option<Message> {
        self.state.lock().messages.iter().find(|message| message.ts == said.ts).cloned()
    }

    /// Returns the bot's messages in the thread of a message, after it.
    pub fn answers(&self, said: &Said) -> Vec<Message> {
        let state = self.state.lock();
        let in_thread = |message: &&Message| {
            message.user == BOT && message.channel == said.channel && message.thread.as_deref() == Some(&said.root)
        };
        state.messages.iter().filter(in_thread).filter(|message| message.ts > said.ts).cloned().collect()
    }

    /// Returns all messages of the bot.
    pub fn spoken(&self) -> Vec<Message> {
        self.state.lock().messages.iter().filter(|message| message.user == BOT).cloned().collect()
    }

    /// Returns for each acknowledgement if it came on the connection of its envelope.
    pub fn acks(&self) -> Vec<bool> {
        self.state.lock().acks.clone()
    }

    /// Returns the number of events without an acknowledgement.
    pub fn unacknowledged(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Returns the calls of a method.
    pub fn calls(&self, method: &str) -> Vec<HashMap<String, String>> {
        let state = self.state.lock();
        state.calls.iter().filter(|(name, _)| name == method).map(|(_, arguments)| arguments.clone()).collect()
    }

    /// Returns the number of open connections, of connections ever opened, and the most that were open at once.
    pub fn connections(&self) -> (usize, u64, usize) {
        let state = self.state.lock();
        (state.sockets.len(), state.opened, state.most_open)
    }

    /// Returns the private answers so far.
    pub fn whispers(&self) -> Vec<Value> {
        self.state.lock().whispers.clone()
    }
}

impl State {
    /// Returns a timestamp that no message has, by the clock.
    fn next_ts(&mut self) -> String {
        let now = SystemClock.now().0 * 1_000;
        self.last_ts = (self.last_ts + 1).max(now);
        format!("{}.{:06}", self.last_ts / 1_000_000, self.last_ts % 1_000_000)
    }

    fn give(&mut self) {
        let mut numbers: Vec<u64> = self.sockets.keys().copied().collect();
        if numbers.is_empty() {
            return;
        }
        numbers.sort_unstable();
        let now = Instant::now();
        for (id, pending) in &mut self.pending {
            if pending.next > now {
                continue;
            }
            let turn =
                usize::try_from(pending.attempts).unwrap() + id.len() + usize::from(*id.as_bytes().last().unwrap());
            let number = numbers[turn % numbers.len()];
            let mut frame = json!({
                "envelope_id": id, "type": pending.kind, "payload": pending.payload, "accepts_response_payload": false,
            });
            if pending.kind == "events_api" {
                frame["retry_attempt"] = pending.attempts.into();
                frame["retry_reason"] = if pending.attempts > 0 { "timeout" } else { "" }.into();
            }
            pending.attempts += 1;
            pending.next = now + self.retry_after;
            pending.socket = Some(number);
            let _ = self.sockets[&number].frames.send(Frame::Text(frame.to_string()));
        }
    }
}

impl Message {
    /// Returns it as Slack shows it.
    fn wire(&self) -> Value {
        let mut wire = json!({"type": "message", "user": self.user, "text": self.text, "ts": self.ts});
        if let Some(thread) = &self.thread {
            wire["thread_ts"] = thread.clone().into();
        }
        if !self.file.is_null() {
            wire["subtype"] = "file_share".into();
            wire["files"] = json!([self.file]);
        }
        if self.user == BOT {
            wire["bot_id"] = "BBOT".into();
            wire["metadata"] = self.metadata.clone();
        }
        wire
    }
}
