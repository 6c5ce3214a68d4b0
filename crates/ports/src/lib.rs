//! The whole outer surface on one page. Actors drive these; edges implement them; nothing of a wire shows through.
//! What they take and give, as plain data, is below this module.

mod clean_calls;
mod connection;
mod fault;
mod files;
mod in_force;
mod metering;
mod model_error;
mod requests;
pub mod samples;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tools;
pub mod turn_detail;
mod turn_events;
mod turns;
pub mod vitals;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use self::clean_calls::{CleanCalls, CleanQuestion};
pub use self::connection::{Advice, AfterClose, Closed, Session, Shard, SourceError, StreamEvent};
pub use self::fault::{Fault, Input, NoFaults, Origin, Subject};
pub use self::files::{FetchError, NoFiles, NotDrawn};
pub use self::in_force::{Console, Keys, ModelsInForce, RowChange, ToolsOf, UsageOf, Webhooks};
pub use self::metering::{EmbeddingAsk, NotEmbedded};
pub use self::model_error::{ModelError, ModelErrorKind};
pub use self::requests::{Bucket, GuildField, HistoryRange, PostError, PostReply, PostRequest, PostResult};
use self::tools::{ConnectError, Listing, Progress, ServerEntry, ServerInfo};
pub use self::turn_detail::TurnLog;
pub use self::turn_events::{Batch, Reading, TurnEventLog, TurnEventReader};
pub use self::turns::{Adopted, Kept, OwnedStore, Pace, Turns};
pub use self::vitals::Vitals;
pub use self::writes::{Backups, Keeping, Replaced, StoreStatus, StoredRow, Write, replace};
use domain::audit::Wanted;
use domain::completion::{Completion, Request};
use domain::daily::DayUse;
use domain::embedding::{EmbeddingRequest, Embeddings};
use domain::fact::{FactId, Found, NotKept, Remembered};
use domain::gate::{Click, Decision, Refusal};
use domain::ids::{Person, Timestamp};
use domain::incoming::{Incoming, Posted};
use domain::limits;
use domain::model::Row;
use domain::outgoing::Capabilities;
use domain::presence::Presence;
use domain::prompt::sections::{Change, Section};
use domain::restart::Backoff;
use domain::tool::outline::Outline;
use domain::tool::{CallError, OnBehalf, ToolRequest, ToolResult};

// === Time and chance ===

/// Wall-clock time. Monotonic waits use tokio's clock.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// A source of chance.
pub trait Dice: Send + Sync {
    /// A number in `[0, 1)`.
    fn roll(&self) -> f64;
}

// === Injected failure ===

/// Asked by the generic wrapper before each message, so that failure can be injected into any actor. Production never fails.
pub trait Faults: Send + Sync {
    /// What the actor at this path shall do instead of handling its next message or event.
    fn before(&self, path: &str, input: Input) -> Option<Fault>;

    /// Faults for the life that the actor at this path begins now, each handled as an event from outside, also while nothing else
    /// reaches the actor. None when there never are any.
    fn ordered(&self, _path: &str) -> Option<mpsc::Receiver<Fault>> {
        None
    }

    /// Whether the backend of the store fails now; none when it never fails by order.
    fn store(&self) -> Option<StoreFault> {
        None
    }
}

/// Says at each step whether the backend of the store shall fail.
pub type StoreFault = Arc<dyn Fn() -> bool + Send + Sync>;

// === Store ===

/// Text by key, with a life. Reads see every write that was begun before them, durable or not. A failing backend never
/// shows as an error here: the store goes on in memory, says `store.degraded`, and merges back when it recovers. Every wait
/// ends within a deadline of the store's own, also while the backend hangs.
pub trait Store: Send + Sync {
    /// The value of a live key. While the backend is away a counter has only what was added since.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Option<String>>;

    /// These keys are about to be asked for, each once: a store on a server may begin to read them together with what is sent next. What
    /// is read so is used within moments, or read again.
    fn read_ahead(&self, _keys: Vec<String>) {}

    /// All live keys that begin with `prefix` and their values, by key; at most `limit`.
    fn scan<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Vec<(String, String)>>;

    /// Applies the writes as one, in order. They are visible when this returns; the future resolves when they are durable
    /// (`true`) or when the store is degraded and holds them in memory (`false`). Dropping the future changes nothing.
    fn write(&self, writes: Vec<Write>) -> BoxFuture<'static, bool>;

    /// As [`Self::write`], for what is waited for: it is made durable without waiting for more to join it.
    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'static, bool> {
        self.write(writes)
    }

    /// As [`Self::write`]; the future resolves when the writes are on their way to the backend, or wait in memory because it is away.
    /// What is read of a server after that goes out together with them or behind them, never long before.
    fn send(&self, writes: Vec<Write>) -> BoxFuture<'static, ()> {
        drop(self.write(writes));
        Box::pin(ready(()))
    }

    /// Sets a key, without an end, if it holds what the caller saw: none for no value. Of several that replace one value at the same
    /// moment, in this process or another, one is done. Only keys that are never written otherwise may be replaced.
    fn replace<'a>(&'a self, key: &'a str, seen: Option<&'a str>, value: &'a str) -> BoxFuture<'a, Replaced>;

    /// How the store is.
    fn status(&self) -> StoreStatus;

    /// Sends every living key, all of one moment where the backend can, once all that was written before is durable. Ends early when
    /// nothing receives any more.
    ///
    /// # Errors
    /// Why not everything was sent, as a sentence.
    fn copy(&self, _to: mpsc::Sender<StoredRow>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(ready(Err("this store cannot be copied".to_owned())))
    }

    /// What the settings of the server behind it can lose or break, as far as it is known.
    fn keeping(&self) -> Keeping {
        Keeping::default()
    }

    /// Waits, at most `within`, until everything written is durable, and closes the backend. False when something was not.
    fn close(&self, within: Duration) -> BoxFuture<'_, bool>;
}

// === Limits ===

/// Counts what members, places and programs use, and decides what they may still use.
pub trait Limiter: Send + Sync {
    /// Does one step by the law of [`domain::limits`], as one atomic operation. Steps about one account that are begun one after
    /// the other are done in that order. A failing backend changes nothing about the law: the limiter decides by what it knows.
    /// The answer is there at once where no server has to be asked, and else within the limiter's own deadline.
    fn step(&self, request: limits::Request) -> BoxFuture<'static, limits::Decision>;
}

// === Model ===

/// The configured models.
#[async_trait]
pub trait Models: Send + Sync {
    /// The rows, the default one first.
    fn rows(&self) -> &[Row];

    /// Whether the provider of this row takes tools at present: false for a while after it refused them.
    fn takes_tools(&self, _row: &str) -> bool {
        true
    }

    /// One completion by the row of this key. One attempt, no hidden retries; bounded by the row's timeout.
    ///
    /// # Errors
    /// See [`ModelError`].
    async fn complete(&self, row: &str, request: &Request) -> Result<Completion, ModelError>;

    /// The same, with the deltas of the answer where the row and its provider can stream. Deltas before a failure are not
    /// taken back; together they are the beginning of the completion's content.
    ///
    /// # Errors
    /// See [`ModelError`].
    async fn stream(&self, row: &str, request: &Request, _heard: DeltaSink) -> Result<Completion, ModelError> {
        self.complete(row, request).await
    }

    /// Vectors by the embedding model of this row. One attempt, bounded by the row's timeout.
    ///
    /// # Errors
    /// See [`ModelError`]; a row without such a model is one.
    async fn embed(&self, row: &str, _request: &EmbeddingRequest) -> Result<Embeddings, ModelError> {
        let why = format!("the row {row} has no embedding model");
        Err(ModelError::new(ModelErrorKind::Unsupported, why))
    }
}

/// Work of models beside turns. It counts in the limits and in the ledger as that of turns does.
#[async_trait]
pub trait Metering: Send + Sync {
    /// Makes vectors, within five minutes.
    ///
    /// # Errors
    /// See [`NotEmbedded`].
    async fn embed(&self, ask: EmbeddingAsk) -> Result<Embeddings, NotEmbedded>;

    /// The most tokens that the limits let this person use within the window; none where nothing is refused.
    fn most_tokens(&self, person: &Person) -> Option<u64>;

    /// How long the limits refuse this person from now on; none when they do not, or for good.
    async fn refused_for(&self, person: &Person) -> Option<Duration>;
}

/// The sink of the deltas of a growing answer, in order. Called between two reads from the network, so it must not take
/// long.
pub type DeltaSink = Arc<dyn Fn(Delta<'_>) + Send + Sync>;

/// A piece of a growing answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// Text that people may read.
    Text(&'a str),
    /// So many characters that they may not: thoughts, arguments of tools.
    Hidden(usize),
}

impl Delta<'_> {
    /// Its length in characters.
    #[must_use]
    pub fn chars(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::Hidden(chars) => *chars,
        }
    }
}

// === Tools ===

/// Connects to tool servers.
#[async_trait]
pub trait ToolServers: Send + Sync {
    /// One connection with its handshake, within `within`. One attempt; what was begun is gone when it fails or is dropped.
    ///
    /// # Errors
    /// See [`ConnectError`].
    async fn connect(&self, entry: &ServerEntry, within: Duration) -> Result<Arc<dyn ToolServer>, ConnectError>;
}

/// Where other processes say that they provide tools.
#[async_trait]
pub trait ToolProviders: Send + Sync {
    /// Listens until there is no connection, and says why there is none. `announced` is told of all that there are, as entries of
    /// tool servers, once it listens and whenever there are others. Dropping the future ends the connection.
    async fn listen(&self, announced: AnnouncedSink) -> String;
}

/// Told which processes provide tools. Called between two reads, so it must not take long.
pub type AnnouncedSink = Arc<dyn Fn(Vec<ServerEntry>) + Send + Sync>;

/// One connected tool server and its session. Dropping the last handle closes it in the background.
#[async_trait]
pub trait ToolServer: Send + Sync {
    /// What the server said of itself.
    fn info(&self) -> &ServerInfo;

    /// All tools, page by page, within the edge's own bounds of time, count and bytes.
    ///
    /// # Errors
    /// See [`CallError`].
    async fn list(&self) -> Result<Listing, CallError>;

    /// One call, ended by its deadline whatever the server does. Dropping the future cancels the call at the server. It is sent
    /// a second time only after a lost session, and only when its effect allows it.
    ///
    /// # Errors
    /// See [`CallError`].
    async fn call(&self, request: &ToolRequest, progress: Option<ProgressSink>) -> Result<ToolResult, CallError>;

    /// Returns the databases that this tool reaches, as they were read last, after a moment at most; `None` for every other tool.
    async fn outline(&self, _tool: &str) -> Option<Arc<Outline>> {
        None
    }

    /// Asks for a sign of life, within the edge's own deadline.
    ///
    /// # Errors
    /// See [`CallError`].
    async fn ping(&self) -> Result<(), CallError>;

    /// A count that grows when the server's list of tools may have changed; many changes may be one step.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Resolves, with the reason in words, when the connection is lost; a lost connection stays lost.
    async fn closed(&self) -> String;

    /// Ends the session in order, and the process group with it; bounded by the edge's own deadline.
    async fn close(&self);
}

/// The sink of the progress of a call. Called between two reads, so it must not take long.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

// === Facts ===

/// What members told us to keep. Who asks, and where the answer is read, is part of each request and decides what is found. Bounded
/// by the deadlines of the store.
#[async_trait]
pub trait Facts: Send + Sync {
    /// Keeps a fact of the one who asks, told in their place. The same words told again there are the same fact.
    ///
    /// # Errors
    /// See [`NotKept`].
    async fn remember(&self, asked: &OnBehalf, text: &str) -> Result<Remembered, NotKept>;

    /// The facts of the one who asks that may be found in their place and fit these words best; without words those told last.
    ///
    /// # Errors
    /// See [`NotKept`].
    async fn search(&self, asked: &OnBehalf, query: &str) -> Result<Found, NotKept>;

    /// Forgets a fact of the one who asks, if it may be found in their place. False when there is none.
    ///
    /// # Errors
    /// See [`NotKept`].
    async fn forget(&self, asked: &OnBehalf, fact: &FactId) -> Result<bool, NotKept>;
}

// === Prompts ===

/// The sections of prompts. Bounded by the deadlines of the store.
#[async_trait]
pub trait PromptSections: Send + Sync {
    /// All sections, by name, as they are in force, for whoever asked.
    ///
    /// # Errors
    /// Why they are not shown, in words for who asked.
    async fn sections(&self, asked: &OnBehalf) -> Result<Vec<Section>, String>;

    /// The instructions that a model gets for a question of this caller in this place, assembled: the persona with its sections,
    /// what holds for every persona, and the form of the answer. `name` is the caller's name as others see it.
    ///
    /// # Errors
    /// Why they are not shown, in words for the caller.
    async fn assembled(&self, asked: &OnBehalf, name: &str) -> Result<String, String>;

    /// Changes a section for whoever asked; the number of its version.
    ///
    /// # Errors
    /// Why nothing changed, in words for who asked.
    async fn change(&self, asked: &OnBehalf, name: &str, change: &Change) -> Result<u32, String>;
}

// === Events in ===

/// Where the events of a door come from, whatever its platform.
#[async_trait]
pub trait EventSource: Send + Sync {
    /// Keeps one connection to the platform and hands each event to `intake`, until the connection ends; it is called again
    /// after a pause. `serving` is called once the connection brings events. An event that was not accepted is the source's
    /// to hand over again. Dropping the future closes the connection.
    async fn run(&self, intake: Arc<dyn Intake>, serving: Box<dyn Fn() + Send + Sync>) -> SourceError;

    /// The pauses before a connection that ended is begun again.
    fn pauses(&self) -> Backoff;
}

// === Events in, from a platform that divides them among shards ===

/// Where the events come from when a platform (Discord) divides them among shards, lets them identify by its advice, and
/// resumes their sessions.
#[async_trait]
pub trait ShardedSource: Send + Sync {
    /// What the platform advises for connecting.
    ///
    /// # Errors
    /// A refusal for good, or a failure that may pass.
    async fn advice(&self) -> Result<Advice, SourceError>;

    /// Our own account; none until the platform was asked for its advice.
    fn us(&self) -> Option<Person>;

    /// Adds to a message what the platform told of its place: the place above it, the language, our rights. False while nothing
    /// was told of its community: a session that was resumed tells nothing of what it told before ([`PostRequest::FetchGuild`]).
    fn complete(&self, posted: &mut Posted) -> bool;

    /// One connection. The stream identifies only after `permit` resolved; resuming needs none. While it lives, it keeps what
    /// the platform shows of us to what is `shown`, within the platform's bounds.
    fn connect(
        &self,
        shard: Shard,
        session: Option<Session>,
        permit: IdentifyPermit,
        shown: PresenceUpdates,
    ) -> Box<dyn EventStream>;
}

/// How we are to be shown to people; none leaves it to the platform.
pub type PresenceUpdates = watch::Receiver<Option<Presence>>;

/// Resolves when a shard may identify; an error means that nobody will ever allow it.
pub type IdentifyPermit = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// One connection of a shard. Dropping it closes the socket; a resumable session stays resumable.
#[async_trait]
pub trait EventStream: Send {
    /// The next thing that happened. Never waits longer than the platform's heartbeats allow for a dead peer.
    /// After [`StreamEvent::Closed`] the stream is spent.
    async fn next(&mut self) -> StreamEvent;
}

// === Requests in ===

/// The way in for doors that serve requests, instead of reading events of a platform.
#[async_trait]
pub trait Intake: Send + Sync {
    /// Hands an event on; `us` is our own account at that door. Resolves when the event is durably taken or needs no owner.
    ///
    /// # Errors
    /// It was not taken, and nothing of it was kept.
    async fn accept(&self, incoming: Incoming, us: Person) -> Result<(), NotAccepted>;

    /// Decides about a call that waits. Resolves when the decision is on record.
    ///
    /// # Errors
    /// Why it was not taken, in words for whoever decided.
    async fn decide(&self, click: Click) -> Result<Decision, Refusal>;
}

/// An event was not taken, and nothing of it was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not taken")]
pub struct NotAccepted;

// === Messages out ===

/// What a door can be asked to do over its request API. One attempt each; order, budgets and retries are the outbox's.
#[async_trait]
pub trait Poster: Send + Sync {
    /// What the platform can show.
    fn capabilities(&self) -> Capabilities;

    /// Performs one request, bounded by the poster's own timeout.
    ///
    /// # Errors
    /// See [`PostError`].
    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError>;
}

// === Files and pictures ===

/// Where the files that came with messages are read from.
#[async_trait]
pub trait Attachments: Send + Sync {
    /// The file behind an address that came over a door, if it is at most this many bytes long. One attempt, bounded by a timeout
    /// of its own; only servers that the door itself keeps files on are ever asked.
    ///
    /// # Errors
    /// See [`FetchError`].
    async fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError>;
}

/// Draws what no platform shows by itself. Work in memory alone: no file is read and no address is asked.
pub trait Renderer: Send + Sync {
    /// A formula in LaTeX as a PNG picture, bounded in time and size.
    ///
    /// # Errors
    /// There is no picture; the formula is shown as text then.
    fn formula<'a>(&'a self, formula: &'a str) -> BoxFuture<'a, Result<Vec<u8>, NotDrawn>>;
}

// === Audit ===

/// What was called for whom, and who decided about it.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// The lines that are wanted, the oldest first, each one JSON object. As many as are kept, which is bounded for each day.
    async fn lines(&self, wanted: &Wanted) -> Vec<String>;
}

/// What was used on each day.
#[async_trait]
pub trait UseByDay: Send + Sync {
    /// The use of the last days, today first, at most [`domain::daily::DAYS_MAX`]. Bounded by the deadlines of the store.
    async fn days(&self, many: usize) -> Vec<DayUse>;
}

// === Pages ===

/// Something that listens for HTTP.
#[async_trait]
pub trait Listener: Send + Sync {
    /// Serves until `stop` is cancelled.
    ///
    /// # Errors
    /// The address could not be bound, or the listener broke.
    async fn serve(&self, stop: CancellationToken) -> Result<(), String>;
}
