//! The traits between actors and edges, without wire types. Each marked section below is one subject: time and chance,
//! faults, store, tools, events, requests, posts, files, audit, pages. The modules contain the data types of
//! these traits, and further traits:
//!
//! | module | traits of |
//! |---|---|
//! | `turns` | custody of turns |
//! | `models`, `clean_calls`, `tools` | models, model calls of tools, tools of other processes |
//! | `members`, `in_force` | data that people change, the configuration in force |
//! | `metering` | the cost of work outside of turns |
//! | `observer`, `turn_events` | events inside the process, event streams of places |
//! | `vitals`, `turn_detail`, `open_gates` | pages of operators |
//! | `peers`, `processes` | several processes |
//! | `voice_calls` | voice channels |

mod blocking;
mod clean_calls;
mod connection;
mod delta;
mod fault;
mod files;
mod in_force;
mod lottery;
mod members;
mod metering;
mod model_error;
mod models;
mod observer;
mod open_gates;
mod peers;
pub mod processes;
mod requests;
pub mod samples;
mod scanned;
pub mod shares;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tools;
pub mod turn_detail;
mod turn_events;
mod turns;
pub mod vitals;
pub mod voice_calls;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use self::blocking::{Panicked, blocking, work_in_place};
pub use self::clean_calls::{CleanCalls, CleanQuestion};
pub use self::connection::{
    AccessScope, Advice, AfterClose, CaughtUp, Closed, GatewaySession, Missed, Missing, Shard, SourceError, StreamEvent,
};
pub use self::delta::{Delta, DeltaSink};
pub use self::fault::{Fault, Input, NoFaults, Origin, Subject};
pub use self::files::{FetchError, FileTexts, NoDocuments, NoFiles, NotDrawn, NotRead, SentFile};
pub use self::in_force::{Console, Keys, ModelsInForce, RowChange, ToolsOf, UsageOf, Webhooks};
pub use self::lottery::Lottery;
pub use self::members::{AccountLinks, Facts, MemberSettings, PromptSections};
pub use self::metering::{
    Bill, EmbeddingAsk, Meter, Metering, NotEmbedded, PaidWork, WorkMetering, WorkPayer, WorkRefused, WorkReservation,
    micros,
};
pub use self::model_error::{ModelError, ModelErrorKind};
pub use self::requests::{
    Bucket, GuildField, HistoryRange, LimitScope, PlaceKind, PostError, PostReply, PostRequest, PostResult,
};
pub use self::scanned::{Row, Scanned};
pub use self::tools::{AnnouncedSink, ToolProviders};
use self::tools::{ConnectError, Listing, Progress, ServerEntry, ServerInfo};
pub use self::turn_events::{Batch, Reading, TurnEventLog, TurnEventReader};
pub use self::turns::{Adopted, OwnedStore, Pace, Turns, WriteOutcome};
pub use self::writes::{Keeping, Replaced, StoreStatus, Stored, StoredRow, Unreadable, Write, is_forgotten, replace};
pub use self::{models::Models, observer::Observer, open_gates::OpenGates, peers::Peers, processes::Processes};
pub use self::{turn_detail::TurnLog, vitals::Vitals};
use domain::arm_figures::ArmFigures;
use domain::audit::AuditFilter;
use domain::daily::DayUse;
use domain::document::DocumentText;
use domain::experiment::Trial;
use domain::gate::{ApprovalDecision, Click, ClickRefusal};
use domain::ids::{MessageId, Person, Place, Timestamp};
use domain::incoming::{Incoming, Posted};
use domain::limits;
use domain::outgoing::Capabilities;
use domain::presence::Presence;
use domain::restart::Backoff;
use domain::tool::begun::{CallReply, Step};
use domain::tool::outline::Outline;
use domain::tool::{CallError, CallErrorKind, ToolRequest, ToolResult};

// === Time and chance ===

/// Wall-clock time. Monotonic waits use tokio's clock.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// A random source.
pub trait Dice: Send + Sync {
    /// Returns a number in `[0, 1)`.
    fn roll(&self) -> f64;
}

// === Injected failure ===

/// Fault injection: consulted before each message of any actor. Production has no faults.
pub trait Faults: Send + Sync {
    /// Returns the fault for the next message or event of the actor at this path.
    fn before(&self, path: &str, input: Input) -> Option<Fault>;

    /// Returns a channel of faults for the actor life that begins at this path. Each is handled as an external event,
    /// even if the actor receives nothing else. `None` if there will never be any.
    fn ordered(&self, _path: &str) -> Option<mpsc::Receiver<Fault>> {
        None
    }

    /// Returns the switch for backend faults of the store. `None` if there will never be any.
    fn store(&self) -> Option<StoreFault> {
        None
    }
}

/// Decides at each step whether the store's backend fails.
pub type StoreFault = Arc<dyn Fn() -> bool + Send + Sync>;

// === Store ===

/// A key-value store of texts with TTL. Reads see every earlier write, durable or not. A failing backend causes no
/// error here: the store continues in memory, logs `store.degraded`, and merges when the backend recovers. Every wait
/// has a deadline of the store's own, also if the backend hangs.
pub trait Store: Send + Sync {
    /// Reads a key. During an outage, a counter contains only the increments made since it began.
    fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Stored>;

    /// Returns the readable value of a key, for a caller to which an unreadable one is the same as none.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { self.read(key).await.value() })
    }

    /// Announces that these keys will be read soon, once each. A store on a server may read them in one batch with
    /// the next request. A prefetched value expires within moments.
    fn read_ahead(&self, _keys: Vec<String>) {}

    /// Returns the live keys with this prefix and their values, ordered by key; at most `limit`. Incomplete if the store
    /// did not return all of these.
    fn scan<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Scanned> {
        Box::pin(async move { self.scan_many(&[prefix], limit, None).await.only() })
    }

    /// Like [`Self::scan`], for several prefixes in one pass, at most `limit` rows of each. A pass may visit every key of a
    /// server. Few passes run at once; of those for members, one person has at most half.
    fn scan_many<'a>(
        &'a self,
        prefixes: &'a [&'a str],
        limit: usize,
        person: Option<&'a Person>,
    ) -> BoxFuture<'a, Scanned<Vec<Vec<Row>>>>;

    /// Applies the writes atomically and in order, visible on return. The future resolves to true when they are
    /// durable, to false if a degraded store holds them in memory. Dropping it has no effect.
    fn write(&self, writes: Vec<Write>) -> BoxFuture<'static, bool>;

    /// Like [`Self::write`], for a caller that waits: not delayed for group commit.
    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'static, bool> {
        self.write(writes)
    }

    /// Like [`Self::write`], but the future resolves when the writes are sent to the backend, or held in memory
    /// during an outage. Later reads from a server are sent together with them or after them, never long before.
    fn send(&self, writes: Vec<Write>) -> BoxFuture<'static, ()> {
        drop(self.write(writes));
        Box::pin(ready(()))
    }

    /// Compare-and-swap without expiry: sets the key if its value equals `seen` (`None`: absent). Of concurrent calls
    /// with one expected value, in any process, exactly one succeeds. Only for keys without other writers.
    fn replace<'a>(&'a self, key: &'a str, seen: Option<&'a str>, value: &'a str) -> BoxFuture<'a, Replaced>;

    /// Returns the status of the store.
    fn status(&self) -> StoreStatus;

    /// Sends every live key, from one snapshot if the backend supports it, after all earlier writes are durable.
    /// Stops early when the receiver is dropped.
    ///
    /// # Errors
    /// A sentence that states why the copy is incomplete.
    fn copy(&self, _to: mpsc::Sender<StoredRow>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(ready(Err("this store cannot be copied".to_owned())))
    }

    /// Returns the known risks in the settings of the server behind the store.
    fn keeping(&self) -> Keeping {
        Keeping::default()
    }

    /// Waits, at most `within`, until all writes are durable, and closes the backend. False if some are not.
    fn close(&self, within: Duration) -> BoxFuture<'_, bool>;
}

/// Counts the usage of members, places and programs, and decides what they may still use.
pub trait Limiter: Send + Sync {
    /// Performs one step of [`domain::limits`] atomically; consecutive steps for one account in order. During an outage
    /// the same rules apply to the known data. Returns at once without a server, else within the limiter's deadline.
    fn step(&self, request: limits::Request) -> BoxFuture<'static, limits::Decision>;
}

/// Creates backups of all stored data.
pub trait Backups: Send + Sync {
    /// Starts a backup. Its text arrives in chunks; without its last line it is incomplete.
    fn begin(&self) -> mpsc::Receiver<Vec<u8>>;
}

// === Tools ===

/// Connects to tool servers.
#[async_trait]
pub trait ToolServers: Send + Sync {
    /// Opens one connection with its handshake, in at most `within`; one attempt. Failure or drop releases it.
    ///
    /// # Errors
    /// See [`ConnectError`].
    async fn connect(&self, entry: &ServerEntry, within: Duration) -> Result<Arc<dyn ToolServer>, ConnectError>;
}

/// A session with a connected tool server. Dropping the last handle closes it in the background.
#[async_trait]
pub trait ToolServer: Send + Sync {
    /// Returns the server's description of itself.
    fn info(&self) -> &ServerInfo;

    /// Lists all tools, page by page, within the edge's bounds of time, count and bytes.
    ///
    /// # Errors
    /// See [`CallError`].
    async fn list(&self) -> Result<Listing, CallError>;

    /// Makes one call, bounded by its deadline. Dropping the future cancels the call at the server. It is resent only
    /// after a lost session, and only if its effect allows it.
    ///
    /// # Errors
    /// See [`CallError`].
    async fn call(&self, request: &ToolRequest, progress: Option<ProgressSink>) -> Result<ToolResult, CallError>;

    /// Makes one step of a call. Sources without further steps finish each call at once. Otherwise like
    /// [`ToolServer::call`].
    ///
    /// # Errors
    /// See [`CallError`].
    async fn step(&self, request: &ToolRequest, progress: Option<ProgressSink>) -> Result<CallReply, CallError> {
        if request.step == Step::First {
            return self.call(request, progress).await.map(CallReply::Result);
        }
        Err(CallError::new(CallErrorKind::NotFound, format!("{} does not continue calls", request.name)))
    }

    /// Returns the databases that this tool reaches, as last read, after a moment at most; `None` for other tools.
    async fn outline(&self, _tool: &str) -> Option<Arc<Outline>> {
        None
    }

    /// Returns the timeout of one call of this tool; `None` for the usual one.
    fn timeout(&self, _tool: &str) -> Option<Duration> {
        None
    }

    /// Checks that the server responds, within the edge's own deadline.
    ///
    /// # Errors
    /// See [`CallError`].
    async fn ping(&self) -> Result<(), CallError>;

    /// Returns a counter that grows when the server's tool list may have changed; several changes may be one step.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Waits until the connection is lost, and returns the reason as text. A lost connection stays lost.
    async fn closed(&self) -> String;

    /// Closes the session and its process group in order, bounded by the edge's own deadline.
    async fn close(&self);
}

/// The receiver of a call's progress. Called between two reads, so it must be fast.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

// === Events in ===

/// The event source of a door, on any platform.
#[async_trait]
pub trait EventSource: Send + Sync {
    /// Runs one connection to the platform and passes each event to `intake`, until the connection ends; the caller
    /// runs it again after a pause. Calls `serving` when the connection delivers events. The source must redeliver
    /// events that were not accepted. Dropping the future closes the connection.
    async fn run(&self, intake: Arc<dyn Intake>, serving: Box<dyn Fn() + Send + Sync>) -> SourceError;

    /// Returns the backoff between connections.
    fn pauses(&self) -> Backoff;

    /// Reads the messages that may not have been delivered, and passes them to `intake`.
    ///
    /// # Errors
    /// The reason why no place could be read.
    async fn catch_up(&self, _missed: &Missed, _intake: Arc<dyn Intake>) -> Result<CaughtUp, String> {
        Ok(CaughtUp::default())
    }
}

// === Events in, from a sharded platform ===

/// The event source of a platform (Discord) that splits events among shards, limits identifies, and resumes sessions.
#[async_trait]
pub trait ShardedSource: Send + Sync {
    /// Returns the platform's advice for connecting.
    ///
    /// # Errors
    /// A permanent refusal, or a temporary failure.
    async fn advice(&self) -> Result<Advice, SourceError>;

    /// Returns the bot's account. `None` before the first advice.
    fn us(&self) -> Option<Person>;

    /// Adds the known facts about its place to a message: parent, language, the bot's permissions. Returns the facts
    /// to read with [`PostRequest::FetchGuild`], if any: a resumed session does not repeat them, and no session
    /// announces all threads. While a fact is missing, a message without a parent may be one of a thread.
    fn complete(&self, posted: &mut Posted) -> Option<Missing>;

    /// Opens one connection. It identifies only after `permit` resolves; resuming needs no permit. While connected,
    /// it keeps the bot's presence equal to `shown`, within the platform's limits.
    fn connect(
        &self,
        shard: Shard,
        session: Option<GatewaySession>,
        permit: IdentifyPermit,
        shown: PresenceUpdates,
    ) -> Box<dyn EventStream>;
}

/// The presence to show. `None`: the platform's default.
pub type PresenceUpdates = watch::Receiver<Option<Presence>>;

/// Resolves when a shard may identify; false if that will never be allowed.
pub type IdentifyPermit = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// One connection of a shard. Dropping it closes the socket; a resumable session stays resumable.
#[async_trait]
pub trait EventStream: Send {
    /// Waits for the next event, at most for the platform's heartbeat timeout. [`StreamEvent::Closed`] is the last.
    async fn next(&mut self) -> StreamEvent;
}

// === Requests in ===

/// The entry for doors that serve requests instead of reading a platform's events.
#[async_trait]
pub trait Intake: Send + Sync {
    /// Notes that the platform delivered an event, which may not concern the bot.
    fn noted(&self) {}

    /// Passes on an event; `us` is the bot's account there. Resolves when it is durably accepted or needs no owner.
    ///
    /// # Errors
    /// The event was not accepted, and nothing of it was stored.
    async fn accept(&self, incoming: Incoming, us: Person) -> Result<(), NotAccepted>;

    /// Decides a waiting tool call. Resolves when the decision is durable.
    ///
    /// # Errors
    /// The reason why it was not accepted.
    async fn decide(&self, click: Click) -> Result<ApprovalDecision, ClickRefusal>;
}

/// The error for an event that was not accepted and of which nothing was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not taken")]
pub struct NotAccepted;

// === Messages out ===

/// A door's request API. One attempt each; the outbox is responsible for order, budgets and retries.
#[async_trait]
pub trait Poster: Send + Sync {
    /// Returns the abilities of the platform.
    fn capabilities(&self) -> Capabilities;

    /// Returns the community of a place, as far as it is known. The refusals of its places count together.
    fn community(&self, _place: &Place) -> Option<String> {
        None
    }

    /// Returns the kind of a place, as far as it is known without a message from it.
    fn kind(&self, _place: &Place) -> PlaceKind {
        PlaceKind::Channel
    }

    /// Reserves an edit of a draft in this place; false if the limits that all places share have no room now.
    /// Edits that finish an answer need no reservation.
    fn admits_draft(&self, _place: &Place) -> bool {
        true
    }

    /// True if the platform shows this message as unfinished, although it may have the whole text: one more edit
    /// finishes it.
    fn is_unfinished(&self, _message: &MessageId) -> bool {
        false
    }

    /// Performs one request, bounded by the poster's own timeout.
    ///
    /// # Errors
    /// See [`PostError`].
    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError>;
}

// === Files and pictures ===

/// Downloads of message attachments.
#[async_trait]
pub trait Attachments: Send + Sync {
    /// Downloads a file of at most `most` bytes, from the door's own file servers only. One attempt, with a timeout.
    ///
    /// # Errors
    /// See [`FetchError`].
    async fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError>;
}

/// Reads documents, such as PDF files.
#[async_trait]
pub trait Documents: Send + Sync {
    /// Reads the text of a document, at most `most` Unicode scalar values of it. Bounded in time and memory; dropping the
    /// future ends the work.
    ///
    /// # Errors
    /// See [`NotRead`].
    async fn read(&self, bytes: Vec<u8>, most: usize) -> Result<DocumentText, NotRead>;
}

/// Renders content that platforms cannot show. Works in memory only, without files or network.
pub trait Renderer: Send + Sync {
    /// Renders a LaTeX formula for a post in this place as PNG, bounded in time and size. No place holds all of the
    /// renderer.
    ///
    /// # Errors
    /// The formula could not be rendered; it is then shown as text.
    fn formula<'a>(&'a self, place: &'a Place, formula: &'a str) -> BoxFuture<'a, Result<Vec<u8>, NotDrawn>>;
}

// === Audit ===

/// The audit log of tool calls and decisions.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Returns the stored lines that match, oldest first, each one JSON object. Their number is bounded per day.
    async fn lines(&self, wanted: &AuditFilter) -> Vec<String>;
}

/// The questions recorded for a replay.
#[async_trait]
pub trait RecordedQuestions: Send + Sync {
    /// Returns their texts, at most [`domain::recorded::RECORDED_MAX`]. Bounded by the store's deadlines.
    async fn questions(&self) -> Vec<String>;
}

/// The usage per day.
#[async_trait]
pub trait UseByDay: Send + Sync {
    /// Returns the last days, today first, at most [`domain::daily::DAYS_MAX`]. Bounded by the store's deadlines.
    async fn days(&self, many: usize) -> Vec<DayUse>;

    /// Returns the figures of all arms of experiments, by name. Bounded by the store's deadlines.
    async fn experiments(&self) -> Vec<(Trial, ArmFigures)>;
}

// === Pages ===

/// An HTTP listener.
#[async_trait]
pub trait Listener: Send + Sync {
    /// Serves until `stop` is cancelled.
    ///
    /// # Errors
    /// The address could not be bound, or the listener failed.
    async fn serve(&self, stop: CancellationToken) -> Result<(), String>;
}
