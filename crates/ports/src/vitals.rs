//! The state of the program, as plain data for JSON.

mod turns;

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use self::turns::{Counted, Limit, Moments, Spend, Step, StepCost, Today, TurnTimes, Turns, WantedTurns};
use super::samples::Samples;
use super::turn_detail::TurnDetail;
use domain::ids::{Person, Timestamp};
use domain::tool::server::Tooling;

/// The state of the whole program. Each call returns immediately.
pub trait Vitals: Send + Sync {
    /// True if the root supervisor is running.
    fn alive(&self) -> bool;

    /// Returns the reason why the tree makes no progress although it runs, if that is so. Only a new process helps then.
    fn stuck(&self) -> Option<String> {
        None
    }

    /// Returns whether messages are answered now, and the status of each part.
    fn readiness(&self) -> Readiness;

    /// Returns the supervision tree. Of the actors of one kind below one supervisor, at most `of_a_kind` have rows of
    /// their own, the first by path; one row stands for the rest. Actors with children always have a row.
    fn tree(&self, of_a_kind: usize) -> TreeNode;

    /// Returns details of the actor at this path, if it exists.
    fn actor(&self, _path: &str) -> Option<ActorDetail> {
        None
    }

    /// Returns the timelines of recent turns, spending, and the use of each bound.
    fn turns(&self) -> Turns;

    /// Returns details of the turn with this number, while its timeline is stored.
    fn turn(&self, _number: u64) -> Option<TurnDetail> {
        None
    }

    /// Drops the ids of this member's turns, after the member ran `/forget`, and the recent texts and log lines of all
    /// turns, which may contain the member's words. The future ends when the records in the store are changed.
    fn forget(&self, _member: &Person) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    /// Takes a sample of the tree and the counters. Call it at a fixed interval.
    fn sample(&self) {}

    /// Reads the records of earlier processes. `None` if there are none, or they were read.
    fn recall(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// Records an orderly stop of the program.
    fn stops(&self) {}

    /// Returns the recent samples taken after this time.
    fn samples(&self, _after: Timestamp) -> Samples {
        Samples::default()
    }

    /// Returns the status and the tools of the tool servers.
    fn tooling(&self) -> Tooling {
        Tooling::default()
    }

    /// Returns the time for which the oldest accepted turn has waited for its start: zero if none waits.
    fn lag(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the memory of this process in bytes. `None` if the system does not report it.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Returns the CPU time of this process. `None` if the system does not report it.
    fn cpu(&self) -> Option<Duration> {
        None
    }

    /// Returns the time since the root supervisor started.
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
}

/// The readiness of the program, with the status of each part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// The overall status.
    pub status: Status,
    /// The version of the program.
    pub version: String,
    /// The range that this process holds of a divided bot, such as `0/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// The current configuration.
    pub configuration: Configuration,
    /// The parts: doors, shards, store, models, MCP servers.
    pub parts: Vec<Part>,
    /// Actors that are hung, or that failed and have been waiting for their restart for some seconds; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<UnwellActor>,
    /// Risks without a current failure, each a sentence with its fix: disabled model rows, data that the store can
    /// lose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An actor that does not work now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnwellActor {
    /// Its path; for conversations, their common prefix.
    pub actor: String,
    /// `hung` or `restarting`.
    pub state: String,
    /// The time in this state, in seconds.
    pub for_s: u64,
    /// Its last failure, if any; never a secret.
    pub last_error: Option<String>,
}

/// The current configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// A version derived from the content: equal content has the same version.
    pub version: String,
    /// The reason why the current files were rejected, if they were; never a secret.
    pub rejected: Option<String>,
}

/// The status of a part, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Fully working.
    Ready,
    /// Working, but without some desired function.
    Degraded,
    /// Working, and waiting to take over from another process.
    Standby,
    /// Not started yet.
    Starting,
    /// Completing its work, and accepting none.
    Draining,
    /// Not working.
    Down,
}

impl Status {
    /// Returns the word, as in JSON.
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

    /// True if it can serve.
    #[must_use]
    pub const fn serves(self) -> bool {
        match self {
            Self::Ready | Self::Degraded | Self::Standby => true,
            Self::Starting | Self::Draining | Self::Down => false,
        }
    }
}

/// The status of one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The kind: `door`, `shard`, `socket`, `store`, `model`, `mcp_server` or `place`.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The status.
    pub status: Status,
    /// The time of the last change of status.
    #[serde(serialize_with = "as_rfc3339")]
    pub since: Timestamp,
    /// The number of restarts.
    pub restarts: u64,
    /// Its last failure, if any; never a secret.
    pub last_error: Option<String>,
    /// The time of its last event, for a connection that received one. Omitted otherwise.
    #[serde(serialize_with = "as_rfc3339_if_any", skip_serializing_if = "Option::is_none")]
    pub last_event: Option<Timestamp>,
    /// True if the bot works without it, so that its failure does not change the overall status. Omitted if false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// One actor of the supervision tree, with its children.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TreeNode {
    /// Its name, such as `shard:0`.
    pub name: String,
    /// Its path, such as `staffai/discord/shard:0`.
    pub path: String,
    /// The state: `starting`, `running`, `hung`, `restarting` or `stopped`.
    pub state: String,
    /// The number of restarts.
    pub restarts: u64,
    /// Messages in its mailbox.
    pub mailbox: u64,
    /// Messages refused because its mailbox was full, over all restarts.
    pub refused: u64,
    /// Messages and events from outside handled over all restarts, without those of its own timers.
    pub handled: u64,
    /// Seconds since its last start.
    pub uptime_s: u64,
    /// The backoff of its last restart, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// The downtime of its last restart, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_ms: Option<u64>,
    /// Its last failure, if any; never a secret.
    pub last_error: Option<String>,
    /// The time of the last event of its connection. Omitted for an actor without one.
    #[serde(serialize_with = "as_rfc3339_if_any", skip_serializing_if = "Option::is_none")]
    pub last_event: Option<Timestamp>,
    /// The number of actors of one kind that this row stands for. `None` for one actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub many: Option<u64>,
    /// Its children, in start order.
    pub children: Vec<TreeNode>,
}

/// One actor in detail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActorDetail {
    /// Its path.
    pub path: String,
    /// The state: `starting`, `running`, `hung`, `restarting` or `stopped`.
    pub state: String,
    /// The time in this state, in seconds.
    pub for_s: u64,
    /// Messages in its mailbox.
    pub mailbox: u64,
    /// Messages and events from outside handled over all restarts.
    pub handled: u64,
    /// The number of restarts.
    pub restarts: u64,
    /// The time in its handlers over all restarts, in microseconds. A handler that waits counts as busy.
    pub busy_us: u64,
    /// The last messages and events from outside, newest first; at most eight.
    pub last: Vec<HandledInput>,
    /// The duration of the current handler in milliseconds. `None` while it is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handling_ms: Option<u64>,
    /// Its row of the tree.
    pub row: Option<ActorRow>,
    /// Its last failures, newest first; at most 16.
    pub failures: Vec<ActorFailure>,
}

/// A message or an event that an actor handled. It has no content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandledInput {
    /// The kind of message, `event` for an event from outside, or `fault` for an injected one.
    pub kind: String,
    /// The time since its handler began, in milliseconds.
    pub ago_ms: u64,
    /// The duration of its handler, in microseconds. `None` while it runs, or if the actor failed at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_us: Option<u64>,
}

/// The configuration of an actor in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActorRow {
    /// Its purpose.
    pub role: String,
    /// The restart policy, and the allowed failures of its children.
    pub restart: String,
    /// The backoff before a restart.
    pub backoff: String,
    /// The handler timeout, in milliseconds.
    pub handles_within_ms: u64,
    /// The action on a hung handler: `logged`, or `killed and restarted`.
    pub on_hang: String,
    /// The stop timeout, in milliseconds.
    pub stop_within_ms: u64,
}

/// A failure of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActorFailure {
    /// The time.
    #[serde(serialize_with = "as_rfc3339")]
    pub at: Timestamp,
    /// The error; never a secret.
    pub error: String,
    /// The backoff before the restart, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// The downtime in milliseconds. `None` while it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_ms: Option<u64>,
}

/// Formats a time as RFC 3339, in UTC with milliseconds. Times outside of the calendar are shown as the epoch.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    let moment = i64::try_from(at.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    format!("{:.3}", moment.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn as_rfc3339<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*at))
}

#[expect(clippy::ref_option, reason = "serde asks for a reference")]
fn as_rfc3339_if_any<S: serde::Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(rfc3339).serialize(serializer)
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
