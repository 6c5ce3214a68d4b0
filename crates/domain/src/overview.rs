//! The data of `/status` and `/usage`.

use std::time::Duration;

use crate::ledger::Sums;
use crate::limits::Standing;

/// The status of the whole bot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overview {
    /// The state in one word, such as `ready`.
    pub status: String,
    /// The program's version.
    pub version: String,
    /// The name of the configuration in force.
    pub configuration: String,
    /// The reason why the current files were rejected; `None` if they were accepted.
    pub rejected: Option<String>,
    /// The time since the start.
    pub uptime: Duration,
    /// The parts that are down, each with its last failure.
    pub down: Vec<(String, String)>,
    /// The number of connected shards and of all shards.
    pub shards: (usize, usize),
    /// The available model rows, and those that are paused.
    pub models: (Vec<String>, Vec<String>),
    /// True if the store is available.
    pub store: bool,
    /// The fullest mailboxes that are not empty, each with its length.
    pub queues: Vec<(String, u64)>,
    /// The bounds: name, current use and maximum.
    pub bounds: Vec<(String, u64, u64)>,
    /// The number of turns in progress.
    pub in_flight: usize,
    /// The number of accepted turns since the start.
    pub accepted: u64,
    /// The number of restarts of all actors since the start.
    pub restarts: u64,
    /// The actors with the most restarts, each with its number.
    pub restarted: Vec<(String, u64)>,
    /// The memory in use, in bytes; `None` if the system does not report it.
    pub memory: Option<u64>,
    /// The limits of messages and tokens per member, and their window.
    pub limits: (u64, u64, Duration),
}

/// A member's standing against the limits, and their usage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// The standing; `None` if the limiter did not answer.
    pub standing: Option<Standing>,
    /// The usage, independent of the limits.
    pub sums: Sums,
}
