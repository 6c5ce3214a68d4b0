//! What a connection to a door brings, how it ends, and what is needed to take it up again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use domain::ids::{Place, Timestamp};
use domain::incoming::Incoming;

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
    /// The service that the session is with, as the door's configuration names it. Sessions are resumed nowhere else; without it, which
    /// is so in records of earlier versions, at the usual address alone.
    #[serde(default)]
    pub service: Option<String>,
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
    /// The places of one community and the newest message in each, sent after a fresh session began.
    Places {
        /// Its place in the session's order.
        sequence: u64,
        /// The community.
        guild: String,
        /// Its places, each with the moment of its newest message as far as the platform says; that may lag behind.
        newest: Vec<(Place, Timestamp)>,
    },
    /// What we may do in one place, or in any place of the platform, may have changed.
    AccessChanged(Option<Place>),
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
