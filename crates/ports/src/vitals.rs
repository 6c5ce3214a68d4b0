//! What is told about the whole program, as plain data that is shown as JSON.

mod turns;

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use self::turns::{Counted, Limit, Spend, Step, StepCost, Today, TurnTimes, Turns, WantedTurns};
use super::samples::Samples;
use super::turn_detail::TurnDetail;
use domain::ids::Timestamp;
use domain::tool::server::Tooling;

/// The state of the whole program. Each call returns at once what is known; none of them waits.
pub trait Vitals: Send + Sync {
    /// The root supervisor lives.
    fn alive(&self) -> bool;

    /// Whether messages are answered now, and how each part is.
    fn readiness(&self) -> Readiness;

    /// The living tree, from its root. Of actors of one kind below one supervisor so many have a row of their own, those above the
    /// others in the order of paths; one row stands for the rest. Actors with children always have their own.
    fn tree(&self, of_a_kind: usize) -> TreeNode;

    /// The actor at this path in detail, if there is one.
    fn actor(&self, _path: &str) -> Option<ActorDetail> {
        None
    }

    /// The time lines of the last turns, what was spent, and how much of each bound is in use.
    fn turns(&self) -> Turns;

    /// The turn of this number in detail, while it is among those whose time lines are known.
    fn turn(&self, _number: u64) -> Option<TurnDetail> {
        None
    }

    /// A member wished to be forgotten: what is kept of texts is dropped.
    fn forget_texts(&self) {}

    /// Takes a sample of the tree and the counters; to be called at equal distances.
    fn sample(&self) {}

    /// Reads what earlier lives of the program left. None where there is nothing to read, or it was read.
    fn recall(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// The program stops as it should; this is written down.
    fn stops(&self) {}

    /// The samples of the last minutes that were taken after this moment.
    fn samples(&self, _after: Timestamp) -> Samples {
        Samples::default()
    }

    /// How the tool servers are, and what they offer.
    fn tooling(&self) -> Tooling {
        Tooling::default()
    }

    /// Memory in use by this process, in bytes; none where the system does not say.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Processor time that this process used so far; none where the system does not say.
    fn cpu(&self) -> Option<Duration> {
        None
    }

    /// Time since the root supervisor started.
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
}

/// Whether messages are answered now, and how each part is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// The whole.
    pub status: Status,
    /// The program's version.
    pub version: String,
    /// The configuration in force.
    pub configuration: Configuration,
    /// The parts: doors, shards, store, models, MCP servers.
    pub parts: Vec<Part>,
    /// Actors that hang, or that failed and have waited for their restart for some seconds; at most twenty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<UnwellActor>,
    /// What works and can still cost something, each a sentence with its fix: model rows that are disabled, what the store can lose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An actor that does not work now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnwellActor {
    /// Its place in the tree; of conversations what all have in common.
    pub actor: String,
    /// `hung` or `restarting`.
    pub state: String,
    /// For how long, in seconds.
    pub for_s: u64,
    /// Its last failure, if any; never a secret.
    pub last_error: Option<String>,
}

/// The configuration in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// Names its content: the same content has the same version.
    pub version: String,
    /// Why the files as they are now were rejected, if they were; never a secret.
    pub rejected: Option<String>,
}

/// How something is, from well to gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All is well.
    Ready,
    /// It answers, but something it would like to have is missing.
    Degraded,
    /// It is well and waits for another process to leave the work to it.
    Standby,
    /// It is not there yet.
    Starting,
    /// It finishes what it has and takes nothing new.
    Draining,
    /// It does not work.
    Down,
}

impl Status {
    /// The word for it, the same as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Standby => "standby",
            Self::Starting => "starting",
            Self::Draining => "draining",
            Self::Down => "down",
        }
    }

    /// Counts as able to serve.
    #[must_use]
    pub const fn serves(self) -> bool {
        match self {
            Self::Ready | Self::Degraded | Self::Standby => true,
            Self::Starting | Self::Draining | Self::Down => false,
        }
    }
}

/// How one part is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What it is: `door`, `shard`, `store`, `model`, `mcp_server` or `place`.
    pub kind: String,
    /// Which one.
    pub name: String,
    /// How it is.
    pub status: Status,
    /// Since when it is so.
    #[serde(serialize_with = "as_rfc3339")]
    pub since: Timestamp,
    /// How often it was restarted.
    pub restarts: u64,
    /// Its last failure, if any; never a secret.
    pub last_error: Option<String>,
    /// The bot serves without it: its failure leaves the status of the whole as it is. Left out when false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// One actor of the living tree and those below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreeNode {
    /// Its own name, such as `shard:0`.
    pub name: String,
    /// Its place in the tree, such as `staffai/discord/shard:0`.
    pub path: String,
    /// What it does now: `starting`, `running`, `hung`, `restarting` or `stopped`.
    pub state: String,
    /// How often it was restarted.
    pub restarts: u64,
    /// Messages that wait for it.
    pub mailbox: u64,
    /// Messages that were refused because its mailbox was full, over all restarts.
    pub refused: u64,
    /// Messages and events from outside that it handled, over all restarts; not those of its own timers.
    pub handled: u64,
    /// Seconds since its last start.
    pub uptime_s: u64,
    /// The backoff of its last restart, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// How long it was away at its last restart, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_ms: Option<u64>,
    /// Its last failure, if any; never a secret.
    pub last_error: Option<String>,
    /// How many actors of one kind this stands for, when these have no row of their own; none for one actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub many: Option<u64>,
    /// Those it supervises, in start order.
    pub children: Vec<TreeNode>,
}

/// One actor in detail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActorDetail {
    /// Its place in the tree.
    pub path: String,
    /// What it does now: `starting`, `running`, `hung`, `restarting` or `stopped`.
    pub state: String,
    /// For how many seconds it has been running, restarting or stopped.
    pub for_s: u64,
    /// Messages that wait for it.
    pub mailbox: u64,
    /// Messages and events from outside that it handled, over all restarts.
    pub handled: u64,
    /// How often it was restarted.
    pub restarts: u64,
    /// For how many milliseconds it has handled what it handles now; none while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handling_ms: Option<u64>,
    /// Its row of the tree.
    pub row: Option<ActorRow>,
    /// Its last failures, the newest first; at most sixteen.
    pub failures: Vec<ActorFailure>,
}

/// What the tree says of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActorRow {
    /// What it is for.
    pub role: String,
    /// When it is started again, and how often its children may fail.
    pub restart: String,
    /// How long it waits before it is started again.
    pub backoff: String,
    /// How long one of its handlers may run, in milliseconds.
    pub handles_within_ms: u64,
    /// What is done about a handler that runs longer: `logged`, or `killed and restarted`.
    pub on_hang: String,
    /// How long its orderly stop may take, in milliseconds.
    pub stop_within_ms: u64,
}

/// A failure of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActorFailure {
    /// When it was.
    #[serde(serialize_with = "as_rfc3339")]
    pub at: Timestamp,
    /// Why; never a secret.
    pub error: String,
    /// How long its supervisor waited before it started the actor again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// How long it was away, in milliseconds; none while it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_ms: Option<u64>,
}

/// The moment in RFC 3339, in UTC with milliseconds. A moment that no calendar holds is shown as the epoch.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    let moment = i64::try_from(at.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    format!("{:.3}", moment.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn as_rfc3339<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*at))
}

fn of_rfc3339<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let moment: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
    Ok(Timestamp(u64::try_from(moment.as_millisecond()).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_with_exactly_three_decimals() {
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(1_767_225_600_005)), "2026-01-01T00:00:00.005Z");
        assert_eq!(rfc3339(Timestamp(u64::MAX)), "1970-01-01T00:00:00.000Z");
    }
}
