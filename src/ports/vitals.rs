//! What is told about the whole program, as plain data that is shown as JSON.

use serde::Serialize;

use crate::domain::ids::Timestamp;

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
    /// What it is: `door`, `shard`, `store`, `model` or `mcp_server`.
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
}

/// One actor of the living tree and those below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreeNode {
    /// Its own name, such as `shard:0`.
    pub name: String,
    /// Its place in the tree, such as `staffai/discord/shard:0`.
    pub path: String,
    /// What it does now, such as `running` or `backing_off`.
    pub state: String,
    /// How often it was restarted.
    pub restarts: u64,
    /// Messages that wait for it.
    pub mailbox: u64,
    /// Messages it handled, over all restarts.
    pub handled: u64,
    /// Seconds since its last start.
    pub uptime_s: u64,
    /// Its last failure, if any; never a secret.
    pub last_error: Option<String>,
    /// Those it supervises, in start order.
    pub children: Vec<TreeNode>,
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
