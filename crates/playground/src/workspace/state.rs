//! The state of a workspace. Each collection has a bound; the oldest entries leave first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Arguments, BOT, Fault, Message, OTHER_BOT, Options, Person};

/// The member who administers this workspace.
const OWN_ADMIN: &str = "UADMIN";
/// A member of shared channels who administers another workspace.
pub const FOREIGN_ADMIN: &str = "UFOREIGN";
/// The maximum number of messages.
const MESSAGES: usize = 2_000;
/// The maximum number of messages for single members.
const WHISPERS: usize = 500;
/// The maximum number of events without an acknowledgement.
const PENDING: usize = 4_096;
/// The maximum number of stored files, and their total size in bytes.
const FILES: (usize, usize) = (256, 32 << 20);
/// The maximum number of unused triggers, tickets, and open dialogues, of each.
const UNUSED: usize = 256;
/// The announced life of a connection, in seconds.
const LIFE: u64 = 18_060;
/// The time after which an event is delivered again.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// An event that waits for its acknowledgement.
#[derive(Debug, Clone)]
pub struct Pending {
    pub kind: &'static str,
    pub payload: Value,
    /// The number of the app that gets it.
    pub app: usize,
    pub attempts: usize,
    pub next: Instant,
    /// The connection that has it, and the time of its last delivery.
    pub socket: Option<u64>,
    pub given: Instant,
}

/// An open connection.
pub struct Open {
    /// The number of its app.
    pub app: usize,
    pub frames: mpsc::Sender<Frame>,
    /// True if it neither reads nor writes any more, without being closed.
    pub silent: watch::Sender<bool>,
}

/// An order for a connection.
pub enum Frame {
    Text(String),
    Close,
}

/// The calls and answers of the bot, for tests.
#[derive(Default)]
pub struct Recorded {
    /// The most entries of each list.
    most: usize,
    pub calls: VecDeque<(String, Arguments)>,
    /// Each acknowledgement: true if it came on the connection that delivered its envelope last.
    pub acks: VecDeque<bool>,
    /// The time of each from the last delivery of its envelope to its acknowledgement.
    pub ack_times: VecDeque<Duration>,
    /// The answers to interactions.
    pub payloads: VecDeque<Value>,
    /// The largest number of connections at once.
    pub most_open: usize,
    /// How often the last connection ended.
    pub deserted: usize,
}

impl Recorded {
    pub fn call(&mut self, method: &str, arguments: &Arguments) {
        let entry = (method.to_owned(), arguments.clone());
        keep(&mut self.calls, entry, self.most);
    }

    pub fn ack(&mut self, on_its_socket: bool, took: Option<Duration>, payload: Option<Value>) {
        keep(&mut self.acks, on_its_socket, self.most);
        if let Some(took) = took {
            keep(&mut self.ack_times, took, self.most);
        }
        if let Some(payload) = payload {
            keep(&mut self.payloads, payload, self.most);
        }
    }
}

/// A message that one member alone sees.
#[derive(Debug, Clone)]
pub struct Whisper {
    /// The member.
    pub user: String,
    /// The channel.
    pub channel: String,
    /// Its timestamp.
    pub ts: String,
    /// The fields of the call, or the body of the response.
    pub body: Value,
    /// True if it is the response to an interaction or a command.
    pub response: bool,
}

/// A dialogue.
#[derive(Debug, Clone)]
pub struct View {
    /// The member who sees it.
    pub user: String,
    /// Its content, with its id.
    pub content: Value,
    /// The reasons to correct fields, by the names of their blocks; null for none.
    pub errors: Value,
    /// False once it is closed.
    pub open: bool,
}

pub struct State {
    pub options: Options,
    pub messages: VecDeque<Message>,
    pub whispers: VecDeque<Whisper>,
    last_ts: u64,
    pub sockets: HashMap<u64, Open>,
    /// The number of connections ever opened.
    pub opened: u64,
    /// The unused tickets with the numbers of their apps.
    tickets: HashMap<u64, usize>,
    issued: u64,
    /// Events by the id of their envelope.
    pub pending: BTreeMap<u64, Pending>,
    pub recorded: Recorded,
    /// The faults of the next calls of a method.
    pub faults: HashMap<String, VecDeque<Fault>>,
    /// The most calls of a method in a time, as a tier has it.
    pub tiers: HashMap<String, (usize, Duration)>,
    times: HashMap<String, VecDeque<Instant>>,
    /// The announced life of a connection, in seconds.
    pub life: u64,
    /// The scopes of the bot's token; all if empty.
    pub scopes: String,
    files: VecDeque<(String, Vec<u8>)>,
    /// The number of files ever announced.
    announced: u64,
    /// The user groups and their members.
    pub groups: BTreeMap<String, Vec<String>>,
    /// The triggers of dialogues that are not open yet, with their time and member.
    triggers: VecDeque<(String, Instant, String)>,
    /// The dialogues, the newest last.
    pub views: VecDeque<View>,
    /// The last dialogue that a member sent.
    pub sent: Option<Value>,
    /// The bot's pages in the app home, by member.
    pub homes: BTreeMap<String, Value>,
    /// The status of the bot in a thread: channel, thread and words.
    pub status: Option<(String, String, String)>,
}

impl State {
    pub fn new(options: Options) -> Self {
        Self {
            recorded: Recorded { most: options.recorded, ..Recorded::default() },
            options,
            messages: VecDeque::new(),
            whispers: VecDeque::new(),
            last_ts: 0,
            sockets: HashMap::new(),
            opened: 0,
            tickets: HashMap::new(),
            issued: 0,
            pending: BTreeMap::new(),
            faults: HashMap::new(),
            tiers: HashMap::new(),
            times: HashMap::new(),
            life: LIFE,
            scopes: String::new(),
            files: VecDeque::new(),
            announced: 0,
            groups: BTreeMap::new(),
            triggers: VecDeque::new(),
            views: VecDeque::new(),
            sent: None,
            homes: BTreeMap::new(),
            status: None,
        }
    }

    /// Returns a timestamp that no message has, by the clock.
    pub fn next_ts(&mut self) -> String {
        let now = (self.options.clock)() * 1_000;
        self.last_ts = (self.last_ts + 1).max(now);
        format!("{}.{:06}", self.last_ts / 1_000_000, self.last_ts % 1_000_000)
    }

    /// Adds a message. One of the bot ends its status in the thread.
    pub fn add(&mut self, message: Message) {
        let ends = |(channel, thread, _): &(String, String, String)| {
            message.user == BOT && message.channel == *channel && message.thread.as_deref() == Some(thread)
        };
        if self.status.as_ref().is_some_and(ends) {
            self.status = None;
        }
        keep(&mut self.messages, message, MESSAGES);
    }

    /// Adds a message for one member.
    pub fn whisper(&mut self, whisper: Whisper) {
        keep(&mut self.whispers, whisper, WHISPERS);
    }

    /// Returns a member.
    pub fn person(&self, id: &str) -> Person {
        let known = self.options.people.iter().find(|person| person.id == id);
        known.cloned().unwrap_or_else(|| Person {
            id: id.to_owned(),
            name: format!("name of {id}"),
            admin: [OWN_ADMIN, FOREIGN_ADMIN].contains(&id),
        })
    }

    /// Issues a ticket for one connection. Earlier ones are dropped if too many are unused.
    pub fn ticket(&mut self, app: usize) -> u64 {
        if self.tickets.len() >= UNUSED {
            self.tickets.clear();
        }
        self.issued += 1;
        self.tickets.insert(self.issued, app);
        self.issued
    }

    /// Uses a ticket up: returns the number of its app.
    pub fn uses_ticket(&mut self, ticket: u64) -> Option<usize> {
        self.tickets.remove(&ticket)
    }

    /// Issues a trigger for one dialogue.
    pub fn trigger(&mut self, user: &str) -> String {
        let trigger = format!("{}.trigger", self.next_ts());
        keep(&mut self.triggers, (trigger.clone(), Instant::now(), user.to_owned()), UNUSED);
        trigger
    }

    /// Uses a trigger up: returns its time and its member.
    pub fn uses_trigger(&mut self, trigger: &str) -> Option<(Instant, String)> {
        let at = self.triggers.iter().position(|(known, ..)| known == trigger)?;
        self.triggers.remove(at).map(|(_, at, user)| (at, user))
    }

    /// Opens a dialogue, and returns it with its id.
    pub fn shows(&mut self, user: String, mut view: Value) -> Value {
        self.issued += 1;
        view["id"] = format!("V{}", self.issued).into();
        keep(&mut self.views, View { user, content: view.clone(), errors: Value::Null, open: true }, UNUSED);
        view
    }

    /// Replaces the content of an open dialogue. Returns false if there is none with this id.
    pub fn replaces(&mut self, id: &str, mut content: Value) -> bool {
        let Some(known) = self.views.iter_mut().find(|known| known.content["id"] == id && known.open) else {
            return false;
        };
        content["id"] = id.into();
        (known.content, known.errors) = (content, Value::Null);
        true
    }

    /// Applies the answer to a sent dialogue: it shows errors, or other content, or closes.
    pub fn answers(&mut self, id: &str, answer: Option<&Value>) {
        match answer.and_then(|answer| answer["response_action"].as_str().zip(Some(answer))) {
            Some(("errors", answer)) => {
                if let Some(known) = self.views.iter_mut().find(|known| known.content["id"] == id) {
                    known.errors = answer["errors"].clone();
                }
            }
            Some(("update", answer)) => {
                self.replaces(id, answer["view"].clone());
            }
            Some(_) | None => {
                if let Some(known) = self.views.iter_mut().find(|known| known.content["id"] == id) {
                    known.open = false;
                }
            }
        }
    }

    /// Returns the number of the next file.
    pub fn next_file(&mut self) -> u64 {
        self.announced += 1;
        self.announced
    }

    /// Stores a file.
    pub fn store(&mut self, path: String, content: Vec<u8>) {
        self.files.retain(|(known, _)| *known != path);
        keep(&mut self.files, (path, content), FILES.0);
        while self.files.iter().map(|(_, content)| content.len()).sum::<usize>() > FILES.1 {
            self.files.pop_front();
        }
    }

    /// Returns a file.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.files.iter().find(|(known, _)| known == path).map(|(_, content)| content.clone())
    }

    /// Counts a call against the tier of its method. Returns the delay in seconds if it exceeds the tier.
    pub fn over(&mut self, method: &str) -> Option<u64> {
        let (many, within) = self.tiers.get(method).copied()?;
        let (now, times) = (Instant::now(), self.times.entry(method.to_owned()).or_default());
        times.retain(|at| now.duration_since(*at) < within);
        if times.len() >= many {
            return Some(1);
        }
        times.push_back(now);
        None
    }

    /// Adds an event that waits for its acknowledgement.
    pub fn await_ack(&mut self, envelope: u64, app: usize, (kind, payload): (&'static str, Value)) {
        if self.pending.len() >= PENDING {
            self.pending.pop_first();
        }
        let now = Instant::now();
        let pending = Pending { kind, payload, app, attempts: 0, next: now, socket: None, given: now };
        self.pending.insert(envelope, pending);
    }

    /// Gives each due event to one of the connections.
    pub fn give(&mut self) {
        let mut all: Vec<(u64, usize)> = self.sockets.iter().map(|(number, open)| (*number, open.app)).collect();
        all.sort_unstable();
        let now = Instant::now();
        for (id, pending) in &mut self.pending {
            if pending.next > now {
                continue;
            }
            let of_app = all.iter().filter(|(_, app)| *app == pending.app);
            let numbers: Vec<u64> = of_app.map(|(number, _)| *number).collect();
            if numbers.is_empty() {
                continue;
            }
            let turn = pending.attempts + usize::try_from(*id).unwrap_or_default();
            let number = numbers[turn % numbers.len()];
            let mut frame = json!({
                "envelope_id": format!("envelope-{id}"), "type": pending.kind, "payload": pending.payload,
                "accepts_response_payload": false,
            });
            if pending.kind == "events_api" {
                frame["retry_attempt"] = pending.attempts.into();
                frame["retry_reason"] = if pending.attempts > 0 { "timeout" } else { "" }.into();
            }
            pending.attempts += 1;
            pending.next = now + RETRY_AFTER;
            (pending.socket, pending.given) = (Some(number), now);
            if let Some(open) = self.sockets.get(&number) {
                // A connection that does not read gets it at the next attempt.
                let _ = open.frames.try_send(Frame::Text(frame.to_string()));
            }
        }
    }
}

impl Message {
    /// Returns a message of the bot.
    pub fn of_bot(channel: String, ts: String, thread: Option<String>, text: String) -> Self {
        Self {
            channel,
            ts,
            thread,
            user: BOT.to_owned(),
            text,
            blocks: Value::Null,
            metadata: Value::Null,
            edits: 0,
            file: Value::Null,
            streamed: false,
            streams: None,
        }
    }

    /// Returns it as Slack shows it.
    pub fn wire(&self) -> Value {
        let mut wire = json!({"type": "message", "user": self.user, "text": self.text, "ts": self.ts});
        if let Some(thread) = &self.thread {
            wire["thread_ts"] = thread.clone().into();
        }
        if !self.file.is_null() {
            wire["subtype"] = "file_share".into();
            wire["files"] = json!([self.file]);
        }
        if let Some(bot) = bot_of(&self.user) {
            wire["bot_id"] = bot.into();
            wire["metadata"] = self.metadata.clone();
        }
        wire
    }
}

/// Returns the id of a bot user as a bot; `None` for a member.
pub fn bot_of(user: &str) -> Option<&'static str> {
    match user {
        BOT => Some("BBOT"),
        OTHER_BOT => Some("BOTHER"),
        _ => None,
    }
}

fn keep<T>(list: &mut VecDeque<T>, entry: T, most: usize) {
    if most == 0 {
        return;
    }
    while list.len() >= most {
        list.pop_front();
    }
    list.push_back(entry);
}
