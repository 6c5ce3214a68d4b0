//! In-memory ports for tests.

#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    reason = "what a script does is said by its name"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::vitals::{Configuration, Readiness, Status, TreeNode, Turns};
use crate::{
    Advice, Clock, Delta, DeltaSink, Dice, EventStream, Fault, Faults, GatewaySession, HistoryRange, IdentifyPermit,
    Input, Limiter, Listener, Missing, ModelError, ModelErrorKind, Models, OwnedStore, Pace, PlaceKind, PostError,
    PostReply, PostRequest, PostResult, Poster, PresenceUpdates, Replaced, Scanned, Shard, ShardedSource, SourceError,
    Store, StoreStatus, Stored, StoredRow, StreamEvent, Unreadable, Vitals, Write, WriteOutcome,
};
use domain::completion::{Completion, Finish, Request, Usage};
use domain::counter::Counter;
use domain::hosted::HostedUse;
use domain::ids::{Door, MessageId, Person, Place, Timestamp};
use domain::incoming::{Author, AuthorKind, Posted, Quoted, WantedModels};
use domain::limits;
use domain::limits::member_windows::MemberWindows;
use domain::model::Row;
use domain::outgoing::{Capabilities, Piece};
use domain::ownership::{FencingToken, Range};

/// The platform in tests.
pub const DOOR: Door = Door::new("discord");
/// Longer than any timeout of the program.
pub const LONG: Duration = Duration::from_secs(100_000);
/// The wall-clock time at the start of tests.
pub const BEGINNING: Timestamp = Timestamp(1_800_000_000_000);

/// Returns a member with this id.
pub fn person(id: &str) -> Person {
    Person::new(DOOR, id)
}

/// Returns the bot's account.
pub fn us() -> Person {
    person("1")
}

/// Runs all tasks as far as possible without advancing the time.
pub async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

// === Time, chance, failure ===

/// A wall clock that follows tokio's clock.
pub struct ManualClock {
    origin: Instant,
}

impl ManualClock {
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.origin.elapsed().as_millis()).unwrap();
        Timestamp(BEGINNING.0 + passed)
    }
}

/// Dice with a constant result.
pub struct FixedDice(f64);

impl FixedDice {
    pub const fn new(roll: f64) -> Self {
        Self(roll)
    }
}

impl Dice for FixedDice {
    fn roll(&self) -> f64 {
        self.0
    }
}

/// The faults of actors by path, each injected once.
#[derive(Default)]
pub struct ScriptedFaults {
    planned: Mutex<HashMap<String, VecDeque<Fault>>>,
    /// The channels of actors that accept ordered faults. `None` if no actor does.
    orders: Mutex<Option<HashMap<String, mpsc::Sender<Fault>>>>,
}

impl ScriptedFaults {
    /// Injects this fault at the next message of the actor at this path.
    pub fn inject(&self, path: &str, fault: Fault) {
        self.planned.lock().entry(path.to_owned()).or_default().push_back(fault);
    }

    /// Makes actors that start from now on accept ordered faults.
    pub fn take_orders(&self) {
        *self.orders.lock() = Some(HashMap::new());
    }

    /// Sends a fault to the actor at this path. False if the actor accepts none.
    pub fn order(&self, path: &str, fault: Fault) -> bool {
        let orders = self.orders.lock();
        orders.as_ref().and_then(|orders| orders.get(path)).is_some_and(|order| order.try_send(fault).is_ok())
    }
}

impl Faults for ScriptedFaults {
    fn before(&self, path: &str, _input: Input) -> Option<Fault> {
        self.planned.lock().get_mut(path).and_then(VecDeque::pop_front)
    }

    fn ordered(&self, path: &str) -> Option<mpsc::Receiver<Fault>> {
        let (order, ordered) = mpsc::channel(2_000);
        self.orders.lock().as_mut()?.insert(path.to_owned(), order);
        Some(ordered)
    }
}

// === Store ===

/// An in-memory store with controllable durability.
pub struct MemoryStore {
    pub entries: Mutex<BTreeMap<String, String>>,
    durable: watch::Sender<bool>,
    /// The number of next scans that panic.
    pub broken_scans: AtomicUsize,
    /// The number of next scans that return nothing of what there is.
    pub short_scans: AtomicUsize,
    /// The number of passes over the keys.
    pub scans: AtomicUsize,
    /// True if the store fails and finds no data.
    pub degraded: AtomicBool,
    /// The number of next reads that fail before the store recovers.
    pub failing_reads: AtomicUsize,
    /// The keys that cannot be read, although the store works.
    pub unreadable: Mutex<BTreeSet<String>>,
    /// The number of next replacements that lose to a concurrent change.
    pub lost_replaces: AtomicUsize,
    /// The limit windows.
    pub book: Mutex<MemberWindows>,
    /// True if decisions about limits are released. While false, they wait.
    answering: watch::Sender<bool>,
    clock: ManualClock,
    /// The ranges that another process took over.
    fenced: watch::Sender<Vec<Range>>,
    /// True if another process may write to it.
    pub shared: AtomicBool,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self {
            entries: Mutex::default(),
            durable: watch::channel(true).0,
            broken_scans: AtomicUsize::new(0),
            short_scans: AtomicUsize::new(0),
            scans: AtomicUsize::new(0),
            degraded: AtomicBool::new(false),
            failing_reads: AtomicUsize::new(0),
            unreadable: Mutex::default(),
            lost_replaces: AtomicUsize::new(0),
            book: Mutex::default(),
            answering: watch::channel(true).0,
            clock: ManualClock::new(),
            fenced: watch::Sender::default(),
            shared: AtomicBool::new(false),
        }
    }

    /// Takes a range over, as another process would.
    pub fn fence(&self, range: Range) {
        self.fenced.send_modify(|fenced| fenced.push(range));
    }

    /// Releases or holds decisions about limits.
    pub fn answering(&self, answering: bool) {
        self.answering.send_replace(answering);
    }

    pub fn durable(&self, durable: bool) {
        self.durable.send_replace(durable);
    }

    pub fn put(&self, key: String, value: impl Into<String>) {
        self.entries.lock().insert(key, value.into());
    }

    pub fn json(&self, key: &str) -> Option<Value> {
        self.entries.lock().get(key).map(|text| serde_json::from_str(text).unwrap())
    }
}

impl Store for MemoryStore {
    fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Stored> {
        let fails = self.failing_reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let fails = fails.is_ok() || self.degraded.load(Ordering::SeqCst) || self.unreadable.lock().contains(key);
        let value = self.entries.lock().get(key).cloned();
        let read = if fails { Stored::Unreadable(Unreadable::NoAnswer) } else { value.into() };
        async move { read }.boxed()
    }

    fn scan_many<'a>(
        &'a self,
        prefixes: &'a [&'a str],
        limit: usize,
        _person: Option<&'a Person>,
    ) -> BoxFuture<'a, Scanned<Vec<Vec<crate::Row>>>> {
        let broken = self.broken_scans.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let short = self.short_scans.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let complete = short.is_err() && !self.degraded.load(Ordering::SeqCst);
        let entries = self.entries.lock();
        let rows_of = |prefix: &&str| {
            let live = entries.iter().filter(|(key, _)| key.starts_with(prefix));
            live.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let found = prefixes.iter().map(|prefix| if complete { rows_of(prefix) } else { Vec::new() }).collect();
        let found = Scanned::new(found, complete);
        self.scans.fetch_add(1, Ordering::SeqCst);
        async move {
            assert!(broken.is_err(), "the scan broke");
            found
        }
        .boxed()
    }

    fn copy(&self, to: mpsc::Sender<StoredRow>) -> BoxFuture<'_, Result<(), String>> {
        let entries = self.entries.lock().clone();
        async move {
            for (key, value) in entries {
                to.send(StoredRow { key, value, ttl: None }).await.map_err(|error| error.to_string())?;
            }
            Ok(())
        }
        .boxed()
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'static, bool> {
        let mut entries = self.entries.lock();
        for write in writes {
            match write {
                Write::Put { key, value, .. } | Write::Join { key, value, .. } => entries.insert(key, value),
                Write::Delete { key } => entries.remove(&key),
                Write::Add { key, by, .. } => {
                    let before = entries.get(&key).and_then(|text| Counter::read(text)).unwrap_or_default();
                    entries.insert(key, before.plus(by).to_string())
                }
            };
        }
        let mut durable = self.durable.subscribe();
        let kept = !self.degraded.load(Ordering::SeqCst);
        async move { durable.wait_for(|durable| *durable).await.is_ok() && kept }.boxed()
    }

    fn replace<'a>(&'a self, key: &'a str, seen: Option<&'a str>, value: &'a str) -> BoxFuture<'a, Replaced> {
        let mut entries = self.entries.lock();
        let lost = self.lost_replaces.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let replaced = if self.degraded.load(Ordering::SeqCst) {
            Replaced::Away
        } else if lost.is_ok() {
            Replaced::Other
        } else if entries.get(key).map(String::as_str) == seen {
            entries.insert(key.to_owned(), value.to_owned());
            Replaced::Done
        } else {
            Replaced::Other
        };
        async move { replaced }.boxed()
    }

    fn status(&self) -> StoreStatus {
        let degraded = self.degraded.load(Ordering::SeqCst) || self.failing_reads.load(Ordering::SeqCst) > 0;
        if degraded { StoreStatus::Degraded("down".to_owned()) } else { StoreStatus::Ready }
    }

    fn close(&self, _within: Duration) -> BoxFuture<'_, bool> {
        async { true }.boxed()
    }
}

impl Limiter for MemoryStore {
    fn step(&self, request: limits::Request) -> BoxFuture<'static, limits::Decision> {
        let answer = self.book.lock().decide(self.clock.now(), &request);
        let mut answering = self.answering.subscribe();
        async move {
            let _ = answering.wait_for(|answering| *answering).await;
            answer
        }
        .boxed()
    }
}

impl OwnedStore for MemoryStore {
    fn own(&self, _ranges: Vec<Range>) {}

    fn owned(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    fn leave(&self, _ranges: Vec<Range>) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    fn token(&self, _range: &Range) -> FencingToken {
        FencingToken(1)
    }

    fn write_under(&self, range: &Range, writes: Vec<Write>, _pace: Pace) -> BoxFuture<'static, WriteOutcome> {
        if self.fenced.borrow().contains(range) {
            return async { WriteOutcome::Fenced }.boxed();
        }
        let (durable, fenced, range) = (self.write(writes), self.fenced.subscribe(), range.clone());
        async move {
            let durable = durable.await;
            match fenced.borrow().contains(&range) {
                true => WriteOutcome::Fenced,
                false if durable => WriteOutcome::Durable,
                false => WriteOutcome::InMemory,
            }
        }
        .boxed()
    }

    fn fenced(&self) -> watch::Receiver<Vec<Range>> {
        self.fenced.subscribe()
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::SeqCst)
    }
}

// === Models ===

/// The scripted behavior of a model.
pub enum Say {
    Text(&'static str),
    /// This unchanged text, without the form of a typed reply.
    Plain(&'static str),
    Fail(ModelErrorKind),
    /// Streams this text and never ends.
    Flows(&'static str),
    Panic,
}

/// Models that answer from a script, then always with the same answer.
pub struct ScriptedModels {
    rows: Vec<Row>,
    /// The provider of each row that shares one.
    providers: HashMap<&'static str, &'static str>,
    script: Mutex<VecDeque<Say>>,
    /// The rows asked, each with the last text of the request.
    pub asked: Mutex<Vec<(String, String)>>,
    takes: Mutex<Duration>,
    pub at_once: AtomicUsize,
    pub most_at_once: AtomicUsize,
}

impl ScriptedModels {
    /// Creates rows; the first falls back to the others in order.
    pub fn new(keys: &[&str]) -> Self {
        let rows = keys.iter().enumerate().map(|(index, key)| Row {
            stream: false,
            fallback: if index == 0 { keys[1..].iter().map(|key| (*key).to_owned()).collect() } else { Vec::new() },
            ..Row::new(*key, Duration::from_secs(60))
        });
        Self {
            rows: rows.collect(),
            providers: HashMap::new(),
            script: Mutex::default(),
            asked: Mutex::default(),
            takes: Mutex::default(),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        }
    }

    /// Sets the providers of rows.
    #[must_use]
    pub fn with_providers(self, providers: &[(&'static str, &'static str)]) -> Self {
        Self { providers: providers.iter().copied().collect(), ..self }
    }

    pub fn say(&self, say: Say) {
        self.script.lock().push_back(say);
    }

    /// Sets the duration of each answer from now on.
    pub fn takes(&self, time: Duration) {
        *self.takes.lock() = time;
    }
}

fn said(content: String) -> Completion {
    let (refusal, calls) = (None, Vec::new());
    Completion {
        content,
        refusal,
        calls,
        finish: Finish::Stop,
        usage: Usage::default(),
        hosted: HostedUse::default(),
        raw: Value::Null.into(),
    }
}

#[async_trait]
impl Models for ScriptedModels {
    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn provider<'a>(&'a self, row: &'a str) -> &'a str {
        self.providers.get(row).copied().unwrap_or(row)
    }

    async fn complete(&self, row: &str, request: &Request) -> Result<Completion, ModelError> {
        let text = request.messages.last().map(|item| item.content.clone()).unwrap_or_default();
        self.asked.lock().push((row.to_owned(), text));
        let say = self.script.lock().pop_front().unwrap_or(Say::Text("fine"));
        let takes = *self.takes.lock();
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(takes).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        match say {
            Say::Text(text) => Ok(said(json!({ "type": "text", "response": text, "data": "" }).to_string())),
            Say::Plain(text) => Ok(said(text.to_owned())),
            Say::Fail(kind) => Err(ModelError::new(kind, "scripted")),
            Say::Flows(_) => std::future::pending().await,
            Say::Panic => panic!("the model panicked"),
        }
    }

    async fn stream(&self, row: &str, request: &Request, heard: DeltaSink) -> Result<Completion, ModelError> {
        if let Some(Say::Flows(text)) = self.script.lock().front() {
            heard(Delta::Text(text));
        }
        self.complete(row, request).await
    }
}

// === Posts ===

/// The scripted result of a request, instead of success.
#[derive(Clone)]
pub enum Go {
    Fail(PostError),
    /// It takes effect, but the answer is lost.
    LoseAnswer,
    Panic,
    /// It takes effect, then the poster panics.
    PanicAfter,
    /// The member is absent.
    Absent,
    /// Success, with this many requests left in the bucket for this long.
    Leaves(u32, Duration),
}

/// True for requests that are refused.
type Refuses = fn(&PostRequest) -> bool;

/// An in-memory channel service that remembers nonces, with a script for the next requests.
pub struct ScriptedPoster {
    /// All requests with their times.
    pub requests: Mutex<Vec<(Instant, PostRequest)>>,
    /// All messages, of the bot and of others.
    pub messages: Mutex<Vec<Posted>>,
    nonces: Mutex<HashMap<String, MessageId>>,
    posts: Mutex<VecDeque<Go>>,
    reads: Mutex<VecDeque<Go>>,
    roles: Mutex<VecDeque<Go>>,
    typing: Mutex<VecDeque<Go>>,
    slow: Mutex<HashMap<Place, Duration>>,
    /// The requests that are refused with a 5xx status.
    pub refuses: Mutex<Option<Refuses>>,
    /// A place where each request fails with this error.
    pub fails_in: Mutex<Option<(Place, PostError)>>,
    /// The communities of places.
    pub communities: Mutex<HashMap<Place, String>>,
    /// The kinds of places that are no channels.
    pub kinds: Mutex<HashMap<Place, PlaceKind>>,
    /// The content of each of the bot's messages besides its text.
    pub carried: Mutex<HashMap<MessageId, Piece>>,
    /// The abilities of the platform.
    pub shows: Mutex<Capabilities>,
}

impl ScriptedPoster {
    pub fn new() -> Self {
        Self {
            requests: Mutex::default(),
            messages: Mutex::default(),
            nonces: Mutex::default(),
            posts: Mutex::default(),
            reads: Mutex::default(),
            roles: Mutex::default(),
            typing: Mutex::default(),
            slow: Mutex::default(),
            refuses: Mutex::default(),
            fails_in: Mutex::default(),
            communities: Mutex::default(),
            kinds: Mutex::default(),
            carried: Mutex::default(),
            shows: Mutex::new(Capabilities::text_only(100)),
        }
    }

    /// Scripts the next post or edit.
    pub fn post_goes(&self, go: Go) {
        self.posts.lock().push_back(go);
    }

    /// Scripts the next read.
    pub fn read_goes(&self, go: Go) {
        self.reads.lock().push_back(go);
    }

    /// Scripts the next change of a role.
    pub fn role_goes(&self, go: Go) {
        self.roles.lock().push_back(go);
    }

    /// Scripts the next typing indicator or reaction.
    pub fn courtesy_goes(&self, go: Go) {
        self.typing.lock().push_back(go);
    }

    /// Sets the duration of requests to this place.
    pub fn slow(&self, place: Place, time: Duration) {
        self.slow.lock().insert(place, time);
    }

    /// Returns the texts of the bot's messages in one place, in order.
    pub fn ours(&self, place: &Place) -> Vec<String> {
        let ours = |posted: &&Posted| posted.place == *place && posted.author.kind == AuthorKind::Ourselves;
        self.messages.lock().iter().filter(ours).map(|posted| posted.text.clone()).collect()
    }

    /// Returns the number of requests of one kind so far.
    pub fn count(&self, kind: impl Fn(&PostRequest) -> bool) -> usize {
        self.requests.lock().iter().filter(|(_, request)| kind(request)).count()
    }

    /// Adds a message that the bot posted before a restart.
    pub fn earlier(&self, id: &str, place: &Place, answers: &MessageId, text: &str) {
        let reply_to = Some(Quoted { id: answers.clone(), seen: None });
        self.messages.lock().push(ours(MessageId::new(DOOR, id), place.clone(), reply_to, text.to_owned()));
    }

    /// Forgets all nonces, as a platform does after some minutes.
    pub fn forget_nonces(&self) {
        self.nonces.lock().clear();
    }

    fn create(&self, place: &Place, piece: &Piece, reply_to: Option<&MessageId>, nonce: &str) -> MessageId {
        assert!(nonce.len() <= 25, "{nonce}");
        if let Some(known) = self.nonces.lock().get(nonce) {
            return known.clone();
        }
        let mut messages = self.messages.lock();
        let id = MessageId::new(DOOR, (9000 + messages.len()).to_string());
        let reply_to = reply_to.map(|id| Quoted { id: id.clone(), seen: None });
        messages.push(ours(id.clone(), place.clone(), reply_to, piece.text.clone()));
        self.carried.lock().insert(id.clone(), piece.clone());
        self.nonces.lock().insert(nonce.to_owned(), id.clone());
        id
    }

    fn perform_now(&self, request: &PostRequest) -> PostResult {
        match request {
            PostRequest::Create { place, piece, reply_to, nonce } => {
                PostResult::Message(self.create(place, piece, reply_to.as_ref(), nonce))
            }
            PostRequest::Edit { message, piece, .. } => {
                let mut messages = self.messages.lock();
                if let Some(posted) = messages.iter_mut().find(|posted| posted.id == *message) {
                    posted.text.clone_from(&piece.text);
                }
                self.carried.lock().insert(message.clone(), piece.clone());
                PostResult::Message(message.clone())
            }
            PostRequest::Delete { message, .. } => {
                self.messages.lock().retain(|posted| posted.id != *message);
                PostResult::Done
            }
            PostRequest::Typing { .. }
            | PostRequest::React { .. }
            | PostRequest::AddRole(_)
            | PostRequest::RemoveRole(_)
            | PostRequest::RegisterCommands(_)
            | PostRequest::Defer(_)
            | PostRequest::OpenForm { .. }
            | PostRequest::Respond { .. }
            | PostRequest::Suggest { .. }
            | PostRequest::FetchGuild { .. } => PostResult::Done,
            // Every member has one role, with the id of the member.
            PostRequest::Roles(member) => PostResult::Roles(vec![member.person.id.to_string()]),
            PostRequest::History { place, range, limit } => {
                let number = |id: &MessageId| id.id.parse::<u64>().unwrap_or(0);
                let within = |posted: &&Posted| match range {
                    HistoryRange::Newest => true,
                    HistoryRange::After(id) => number(&posted.id) > number(id),
                    HistoryRange::Before(id) => number(&posted.id) < number(id),
                };
                let messages = self.messages.lock();
                let mut there: Vec<Posted> =
                    messages.iter().filter(|posted| posted.place == *place).filter(within).cloned().collect();
                let limit = usize::from(*limit);
                match range {
                    HistoryRange::After(_) => there.truncate(limit),
                    HistoryRange::Newest | HistoryRange::Before(_) => {
                        drop(there.drain(..there.len().saturating_sub(limit)));
                    }
                }
                PostResult::Messages(there)
            }
            PostRequest::Fetch { message, .. } => {
                let messages = self.messages.lock();
                PostResult::Messages(messages.iter().filter(|posted| posted.id == *message).cloned().collect())
            }
        }
    }
}

fn ours(id: MessageId, place: Place, reply_to: Option<Quoted>, text: String) -> Posted {
    let author = Author {
        person: us(),
        name: "staffai".to_owned(),
        roles: Vec::new(),
        joined: None,
        kind: AuthorKind::Ourselves,
    };
    let guild = Some("5".to_owned());
    Posted {
        id,
        place,
        parent: None,
        guild,
        author,
        text,
        mentions_us: false,
        reply_to,
        attachments: Vec::new(),
        locale: None,
        may_answer: true,
        at: BEGINNING,
        draw: None,
        tools: true,
        given: None,
        models: WantedModels::default(),
        lineage: None,
    }
}

#[async_trait]
impl Poster for ScriptedPoster {
    fn capabilities(&self) -> Capabilities {
        *self.shows.lock()
    }

    fn community(&self, place: &Place) -> Option<String> {
        self.communities.lock().get(place).cloned()
    }

    fn kind(&self, place: &Place) -> PlaceKind {
        self.kinds.lock().get(place).cloned().unwrap_or(PlaceKind::Channel)
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        self.requests.lock().push((Instant::now(), request.clone()));
        let (place, script) = match request {
            PostRequest::Create { place, .. } | PostRequest::Edit { place, .. } | PostRequest::Delete { place, .. } => {
                (Some(place), Some(&self.posts))
            }
            PostRequest::History { place, .. } | PostRequest::Fetch { place, .. } => (Some(place), Some(&self.reads)),
            PostRequest::Typing { place } | PostRequest::React { place, .. } => (Some(place), Some(&self.typing)),
            PostRequest::Roles(_) | PostRequest::AddRole(_) | PostRequest::RemoveRole(_) => (None, Some(&self.roles)),
            PostRequest::RegisterCommands(_) | PostRequest::Suggest { .. } => (None, None),
            PostRequest::FetchGuild { .. } => (None, Some(&self.reads)),
            PostRequest::Defer(_) | PostRequest::OpenForm { .. } | PostRequest::Respond { .. } => {
                (None, Some(&self.posts))
            }
        };
        let takes = place.and_then(|place| self.slow.lock().get(place).copied()).unwrap_or_default();
        tokio::time::sleep(takes).await;
        if self.refuses.lock().is_some_and(|refuses| refuses(request)) {
            return Err(PostError::Unsure("discord answered 503".to_owned()));
        }
        let fails = self.fails_in.lock().as_ref().filter(|(in_place, _)| place == Some(in_place)).cloned();
        if let Some((_, error)) = fails {
            return Err(error);
        }
        let go = script.and_then(|script| script.lock().pop_front());
        match go {
            Some(Go::Fail(error)) => Err(error),
            Some(Go::LoseAnswer) => {
                self.perform_now(request);
                Err(PostError::Unsure("the answer was lost".to_owned()))
            }
            Some(Go::Panic) => panic!("the poster panicked"),
            Some(Go::Absent) => Ok(PostReply { result: PostResult::Absent, bucket: None }),
            Some(Go::PanicAfter) => {
                self.perform_now(request);
                panic!("the poster panicked")
            }
            Some(Go::Leaves(remaining, reset_after)) => {
                let bucket = Some(crate::Bucket { id: None, remaining, reset_after });
                Ok(PostReply { result: self.perform_now(request), bucket })
            }
            None => Ok(PostReply { result: self.perform_now(request), bucket: None }),
        }
    }
}

// === Events ===

/// One connection that a shard opened.
pub struct Connection {
    pub shard: Shard,
    pub session: Option<GatewaySession>,
    pub permit: IdentifyPermit,
    /// The events that the test sends on it.
    pub events: mpsc::UnboundedSender<StreamEvent>,
}

/// A platform whose connections are passed to the test.
pub struct ScriptedSource {
    advice: Mutex<VecDeque<Result<Advice, SourceError>>>,
    pub asked: AtomicUsize,
    /// The number of messages of a broken place.
    completed: AtomicUsize,
    connected: mpsc::UnboundedSender<Connection>,
}

/// The connections in the order of opening.
pub struct Connections(mpsc::UnboundedReceiver<Connection>);

impl Connections {
    pub async fn next(&mut self) -> Connection {
        tokio::time::timeout(LONG, self.0.recv()).await.expect("no shard connected").expect("the source ended")
    }

    /// Waits for the next connection without a timeout. `None` when no shard can connect any more.
    pub async fn ever(&mut self) -> Option<Connection> {
        self.0.recv().await
    }

    pub async fn now(&mut self) -> Option<Connection> {
        settle().await;
        self.0.try_recv().ok()
    }
}

pub const ADVICE: Advice =
    Advice { shards: 1, max_concurrency: 1, remaining: 1000, reset_after: Duration::from_secs(86_400) };

impl ScriptedSource {
    pub fn new() -> (Self, Connections) {
        let (connected, connections) = mpsc::unbounded_channel();
        (
            Self { advice: Mutex::default(), asked: AtomicUsize::new(0), completed: AtomicUsize::new(0), connected },
            Connections(connections),
        )
    }

    /// Scripts the next advice, before the default one.
    pub fn advise(&self, advice: Result<Advice, SourceError>) {
        self.advice.lock().push_back(advice);
    }
}

#[async_trait]
impl ShardedSource for ScriptedSource {
    async fn advice(&self) -> Result<Advice, SourceError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.advice.lock().pop_front().unwrap_or(Ok(ADVICE))
    }

    fn us(&self) -> Option<Person> {
        Some(us())
    }

    fn complete(&self, posted: &mut Posted) -> Option<Missing> {
        let broken = &*posted.place.id == BROKEN && self.completed.fetch_add(1, Ordering::SeqCst) == 0;
        assert!(!broken, "the first message of a broken place");
        let untold = posted.guild.as_deref() == Some(UNTOLD);
        let untold = untold.then_some(Missing::Community);
        untold.or((&*posted.place.id == UNPLACED).then_some(Missing::Place))
    }

    fn connect(
        &self,
        shard: Shard,
        session: Option<GatewaySession>,
        permit: IdentifyPermit,
        _shown: PresenceUpdates,
    ) -> Box<dyn EventStream> {
        let (events, stream) = mpsc::unbounded_channel();
        let _ = self.connected.send(Connection { shard, session, permit, events });
        Box::new(ScriptedStream(stream))
    }
}

/// A community without any facts in the scripted source.
pub const UNTOLD: &str = "untold";

/// The id of a place whose first message makes the scripted source panic.
pub const BROKEN: &str = "broken";

/// The id of a place without any facts in the scripted source.
pub const UNPLACED: &str = "unplaced";

struct ScriptedStream(mpsc::UnboundedReceiver<StreamEvent>);

#[async_trait]
impl EventStream for ScriptedStream {
    async fn next(&mut self) -> StreamEvent {
        match self.0.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

// === Pages ===

/// A listener that fails as often as configured, then serves.
#[derive(Default)]
pub struct ScriptedListener {
    pub failures: AtomicUsize,
    pub begun: AtomicUsize,
}

#[async_trait]
impl Listener for ScriptedListener {
    async fn serve(&self, stop: CancellationToken) -> Result<(), String> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let fails = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if fails.is_ok() {
            return Err("the address is in use".to_owned());
        }
        stop.cancelled().await;
        Ok(())
    }
}

// === Health ===

/// A running program without any other state.
pub struct NoVitals;

impl Vitals for NoVitals {
    fn alive(&self) -> bool {
        true
    }

    fn readiness(&self) -> Readiness {
        let configuration = Configuration { version: String::new(), rejected: None };
        Readiness {
            status: Status::Ready,
            version: String::new(),
            range: None,
            configuration,
            parts: Vec::new(),
            actors: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn tree(&self, _of_a_kind: usize) -> TreeNode {
        unreachable!()
    }

    fn turns(&self) -> Turns {
        Turns { accepted: 0, newest: Vec::new(), spent: Vec::new(), today: None, limits: Vec::new() }
    }
}
