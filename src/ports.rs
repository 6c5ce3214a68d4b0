//! The whole outer surface on one page. Actors drive these; edges implement them; nothing of a wire shows through.

pub mod attachments;

mod model_error;

pub mod pictures;

pub mod vitals;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::model_error::{ModelError, ModelErrorKind};
pub use self::pictures::{NotDrawn, Renderer};
use crate::domain::command::{Callback, Choice, Spec};
use crate::domain::completion::{Completion, Request};
use crate::domain::ids::{MessageId, Person, Place, Timestamp};
use crate::domain::incoming::{Incoming, Posted};
use crate::domain::ledger::Increment;
use crate::domain::limits;
use crate::domain::model::Row;
use crate::domain::outgoing::{Capabilities, Piece};
use crate::domain::presence::Presence;
use crate::domain::restriction::{Appointment, Member};

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
    /// What the actor at this path shall do instead of handling its next message.
    fn before(&self, path: &str) -> Option<Fault>;
}

/// An injected failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Panic in the handler.
    Panic,
    /// Return an error from the handler.
    Error,
}

/// No failure at all.
pub struct NoFaults;

impl Faults for NoFaults {
    fn before(&self, _path: &str) -> Option<Fault> {
        None
    }
}

// === Store ===

/// One change to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets a key; it vanishes after `ttl`, or never when that is none.
    Put {
        /// The key.
        key: String,
        /// The text.
        value: String,
        /// Its life from now on.
        ttl: Option<Duration>,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: String,
    },
    /// Adds to the whole number that a key holds; what holds none counts as zero, and a value of any other kind is replaced.
    /// Increments of several processes add up. Each is counted once, also when it was made while the backend was away and
    /// when the backend's answer was lost.
    Add {
        /// The key.
        key: String,
        /// How much.
        by: i64,
        /// Its life from now on; none leaves the life as it is. It may end up to a sixteenth earlier.
        ttl: Option<Duration>,
    },
}

impl From<Increment> for Write {
    fn from(Increment { key, by, ttl }: Increment) -> Self {
        Self::Add { key, by, ttl }
    }
}

/// Text by key, with a life. Reads see every write that was begun before them, durable or not. A failing backend never
/// shows as an error here: the store goes on in memory, says `store.degraded`, and merges back when it recovers.
pub trait Store: Send + Sync {
    /// The value of a live key. While the backend is away a counter tells only what was added since.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Option<String>>;

    /// All live keys that begin with `prefix` and their values, by key; at most `limit`.
    fn scan<'a>(&'a self, prefix: &'a str, limit: usize) -> BoxFuture<'a, Vec<(String, String)>>;

    /// Applies the writes as one, in order. They are visible when this returns; the future resolves when they are durable
    /// (`true`) or when the store is degraded and holds them in memory (`false`). Dropping the future changes nothing.
    fn write(&self, writes: Vec<Write>) -> BoxFuture<'static, bool>;

    /// Does one step about a member's limits, by the law of [`crate::domain::limits`]. Steps about one member that are begun one
    /// after the other are done in that order. A failing backend changes nothing about the law: it goes on by what is known
    /// here. The answer is there at once where no server has to be asked, and else within the store's own deadline.
    fn limit(&self, request: limits::Request) -> BoxFuture<'static, limits::Answer>;

    /// How the store is.
    fn status(&self) -> StoreStatus;

    /// Waits, at most `within`, until everything written is durable, and closes the backend.
    fn close(&self, within: Duration) -> BoxFuture<'_, ()>;
}

/// How the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreStatus {
    /// The backend answers.
    Ready,
    /// The backend fails, for this reason; memory serves.
    Degraded(String),
}

// === Model ===

/// The configured models.
#[async_trait]
pub trait Models: Send + Sync {
    /// The rows, the default one first.
    fn rows(&self) -> &[Row];

    /// One completion by the row of this key. One attempt, no hidden retries; bounded by the row's timeout.
    ///
    /// # Errors
    /// See [`ModelError`].
    async fn complete(&self, row: &str, request: &Request) -> Result<Completion, ModelError>;

    /// The same, telling the answer's text as it grows where the row and its provider can stream. What was told before a
    /// failure is not taken back; what was told is the beginning of the completion's content.
    ///
    /// # Errors
    /// See [`ModelError`].
    async fn stream(&self, row: &str, request: &Request, _heard: Heard) -> Result<Completion, ModelError> {
        self.complete(row, request).await
    }
}

/// Who is told the text of a growing answer, piece by piece and in order. Called between two reads from the network, so it
/// must not take long.
pub type Heard = Arc<dyn Fn(&str) + Send + Sync>;

// === Events in ===

/// Where a shard's events come from.
#[async_trait]
pub trait EventSource: Send + Sync {
    /// What the platform advises for connecting.
    ///
    /// # Errors
    /// A refusal for good, or a failure that may pass.
    async fn advice(&self) -> Result<Advice, SourceError>;

    /// Our own account; none until the platform was asked for its advice.
    fn us(&self) -> Option<Person>;

    /// The tag of the language that a community prefers, as far as the platform told it.
    fn locale(&self, _guild: &str) -> Option<String> {
        None
    }

    /// One connection. The stream identifies only after `permit` resolved; resuming needs none. While it lives, it keeps what
    /// the platform shows of us to what is `shown`, within the platform's bounds.
    fn connect(
        &self,
        shard: Shard,
        session: Option<Session>,
        permit: IdentifyPermit,
        shown: Shown,
    ) -> Box<dyn EventStream>;
}

/// How we are to be shown to people; none leaves it to the platform.
pub type Shown = watch::Receiver<Option<Presence>>;

/// Resolves when a shard may identify; an error means that nobody will ever allow it.
pub type IdentifyPermit = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// One shard of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// Its number, from zero.
    pub number: u32,
    /// How many there are.
    pub total: u32,
}

/// What the platform advises for connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// How many shards to run.
    pub shards: u32,
    /// How many shards may identify at once, every five seconds.
    pub max_concurrency: u32,
    /// How many identifies are left until the reset.
    pub remaining: u32,
    /// When the budget of identifies starts anew.
    pub reset_after: Duration,
}

/// A session that can be resumed: by a restarted shard, or by a restarted process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The platform's session id.
    pub id: String,
    /// The last event that is safely taken.
    pub sequence: u64,
    /// Where to resume; none means the usual address.
    pub resume_url: Option<String>,
    /// How many shards there were: a session of another number of shards is worthless.
    pub total: u32,
}

/// Why the platform could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It refuses us for good; the text says why and where to mend it.
    #[error("{0}")]
    Refused(String),
    /// It may work later.
    #[error("{0}")]
    Unreachable(String),
}

/// One connection to a door's events. Dropping it closes the socket; a resumable session stays resumable.
#[async_trait]
pub trait EventStream: Send {
    /// The next thing that happened. Never waits longer than the platform's heartbeats allow for a dead peer.
    /// After [`StreamEvent::Closed`] the stream is spent.
    async fn next(&mut self) -> StreamEvent;
}

/// What a connection brings.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// A fresh session began.
    Ready(Session),
    /// The old session goes on; everything missed has been or will be replayed.
    Resumed,
    /// Something that may be for us.
    Incoming {
        /// Its place in the session's order.
        sequence: u64,
        /// What happened.
        incoming: Box<Incoming>,
    },
    /// Events up to this one were not for us.
    Passed {
        /// The last of them.
        sequence: u64,
    },
    /// The places of one community and the newest message in each, told after a fresh session began.
    Places {
        /// Its place in the session's order.
        sequence: u64,
        /// The community.
        guild: String,
        /// Places where something was ever posted, each with the moment of its newest message.
        newest: Vec<(Place, Timestamp)>,
    },
    /// The connection ended.
    Closed(Closed),
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Why, for the log.
    pub reason: String,
    /// What may follow.
    pub next: AfterClose,
}

/// What may follow a closed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterClose {
    /// Resume the session.
    Resume,
    /// Begin a new session.
    Identify,
    /// Nothing: the platform refuses us for good.
    Fatal,
}

// === Requests in ===

/// The way in for doors that are asked, instead of being told by a platform.
#[async_trait]
pub trait Intake: Send + Sync {
    /// Hands an event on; `us` is our own account at that door. Resolves when the event is durably taken or needs no owner.
    ///
    /// # Errors
    /// It was not taken, and nothing of it was kept.
    async fn accept(&self, incoming: Incoming, us: Person) -> Result<(), NotAccepted>;
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

    /// Nothing more will be posted about this trigger. Doors whose readers wait for the end tell them.
    fn delivered(&self, _place: &Place, _trigger: &MessageId) {}
}

/// One request to a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostRequest {
    /// Posts a message. The same nonce within some minutes gives the first message back instead of a second one.
    Create {
        /// Where.
        place: Place,
        /// What it carries.
        piece: Piece,
        /// The message that it replies to; if that is gone, the post still goes out.
        reply_to: Option<MessageId>,
        /// At most 25 characters.
        nonce: String,
    },
    /// Replaces everything that one of our messages carries.
    Edit {
        /// Where.
        place: Place,
        /// Which.
        message: MessageId,
        /// What it carries from then on.
        piece: Piece,
    },
    /// Shows that we are typing, for about ten seconds.
    Typing {
        /// Where.
        place: Place,
    },
    /// Reads messages after one, oldest first.
    History {
        /// Where.
        place: Place,
        /// Only messages after this one; none reads the newest.
        after: Option<MessageId>,
        /// At most 100.
        limit: u8,
    },
    /// Reads one message.
    Fetch {
        /// Where.
        place: Place,
        /// Which.
        message: MessageId,
    },
    /// Offers these commands to members and no others. Nothing is changed where they are offered already.
    RegisterCommands(Vec<Spec>),
    /// Says, to whoever ran a command alone, that its answer will come. Answered by [`PostResult::Already`] when somebody has
    /// said so before.
    Defer(Callback),
    /// Answers a command, to whoever ran it alone, in the place of what [`PostRequest::Defer`] said. Repeating it changes
    /// nothing.
    Respond {
        /// The command.
        to: Callback,
        /// The answer.
        piece: Piece,
    },
    /// Offers choices to somebody who is typing a command.
    Suggest {
        /// What is typed.
        to: Callback,
        /// The choices, the best first.
        choices: Vec<Choice>,
    },
    /// Reads the roles of somebody. Answered by [`PostResult::Absent`] when they are not there any more.
    Roles(Member),
    /// Gives a role to somebody, who may hold it already.
    AddRole(Appointment),
    /// Takes a role from somebody, who need not hold it.
    RemoveRole(Appointment),
}

/// The answer to a request, and what the platform said of its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct PostReply {
    /// What came back.
    pub result: PostResult,
    /// The rate-limit bucket as the response's headers tell it.
    pub bucket: Option<Bucket>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub enum PostResult {
    /// Nothing but success.
    Done,
    /// It was done before; nothing was done now.
    Already,
    /// The posted or edited message.
    Message(MessageId),
    /// Messages, oldest first.
    Messages(Vec<Posted>),
    /// Ids of roles.
    Roles(Vec<String>),
    /// The person, or the whole community, is not there any more.
    Absent,
}

/// A rate-limit bucket as the platform tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Requests left in it.
    pub remaining: u32,
    /// Time until it is full again.
    pub reset_after: Duration,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Too many requests: wait.
    #[error("rate limited for {retry_after:?}")]
    RateLimited {
        /// How long.
        retry_after: Duration,
        /// All routes are closed, not just this one.
        global: bool,
    },
    /// The platform refuses this request for good.
    #[error("refused with status {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The platform's words, capped.
        message: String,
    },
    /// We may not reply to messages there; the same without a reply may work.
    #[error("replies are refused: {0}")]
    NoReply(String),
    /// It may work later; it may even have worked and only the answer was lost.
    #[error("{0}")]
    Transient(String),
}

// === Pages ===

/// Something that listens for HTTP.
#[async_trait]
pub trait Listener: Send + Sync {
    /// Serves until told to stop.
    ///
    /// # Errors
    /// The address could not be bound, or the listener broke.
    async fn serve(&self, stop: CancellationToken) -> Result<(), String>;
}

// === Health ===

pub use self::vitals::Vitals;
