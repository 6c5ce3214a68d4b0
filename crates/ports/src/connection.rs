//! Connections to a door: events, ends, and the state needed to resume.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use domain::ids::{Place, Timestamp};
use domain::incoming::Incoming;

/// One shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// Its index, from zero.
    pub number: u32,
    /// The number of shards.
    pub total: u32,
}

/// The platform's advice for connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// The number of shards to run.
    pub shards: u32,
    /// The number of shards that may identify at once, every five seconds.
    pub max_concurrency: u32,
    /// The number of identifies left until the reset.
    pub remaining: u32,
    /// The time until the identify budget resets.
    pub reset_after: Duration,
}

/// A session that a restarted shard or process can resume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewaySession {
    /// The platform's session id.
    pub id: String,
    /// The last event that was durably accepted.
    pub sequence: u64,
    /// The address for resuming. `None`: the default address.
    pub resume_url: Option<String>,
    /// The service of the session, as named in the door's configuration. A session is resumed only there; without it,
    /// as in records of earlier versions, only at the default address.
    #[serde(default)]
    pub service: Option<String>,
    /// The number of shards at that time. A session with another number cannot be resumed.
    pub total: u32,
}

/// The error of a request for connection advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Permanent refusal; the text states the reason and the fix.
    #[error("{0}")]
    Refused(String),
    /// Temporary failure.
    #[error("{0}")]
    Unreachable(String),
}

/// The facts that a message lacks, and that a request can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// All facts about its community.
    Community,
    /// Its place: a channel, or a thread of an unknown channel.
    Place,
}

/// The places where the bot's permissions may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessScope {
    /// All places of this community.
    Community(String),
    /// One place.
    Place(Place),
}

/// An event of a connection.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// A new session began.
    Ready(GatewaySession),
    /// The old session continues; all missed events have been or will be replayed.
    Resumed,
    /// An event that may concern the bot.
    Incoming {
        /// Its sequence number in the session.
        sequence: u64,
        /// The event.
        incoming: Box<Incoming>,
    },
    /// Events up to this one did not concern the bot.
    Passed {
        /// The last sequence number among them.
        sequence: u64,
    },
    /// The places of one community with their newest messages, sent after a new session began.
    Places {
        /// Its sequence number in the session.
        sequence: u64,
        /// The community.
        guild: String,
        /// Its places, each with the time of its newest message, as far as the platform reports it; that may lag
        /// behind.
        newest: Vec<(Place, Timestamp)>,
    },
    /// The bot's permissions may have changed there.
    AccessChanged(AccessScope),
    /// The connection ended.
    Closed(Closed),
}

/// The end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The reason, for the log.
    pub reason: String,
    /// The permitted next step.
    pub next: AfterClose,
}

/// The step permitted after a closed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterClose {
    /// Resume the session.
    Resume,
    /// Begin a new session.
    Identify,
    /// None: the platform refuses permanently.
    Fatal,
}

/// The messages that a catch-up reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missed {
    /// Those of all places since this time.
    Everywhere(Timestamp),
    /// Those of these places, each since its time.
    In(Vec<(Place, Timestamp)>),
}

/// The result of a catch-up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// The number of messages that were passed on.
    pub messages: u64,
    /// The places that could not be read completely, each with the reason.
    pub unread: Vec<(Place, String)>,
}
