//! What `/status` and `/usage` tell, as plain data.

use std::time::Duration;

use crate::ledger::Sums;
use crate::limits::Standing;

/// How the whole bot is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overview {
    /// In one word, such as `ready`.
    pub status: String,
    /// The program's version.
    pub version: String,
    /// Names the configuration in force.
    pub configuration: String,
    /// Why the files as they are now were rejected.
    pub rejected: Option<String>,
    /// Since its start.
    pub uptime: Duration,
    /// Parts that are down, each with its last failure.
    pub down: Vec<(String, String)>,
    /// Shards that are connected, and all of them.
    pub shards: (usize, usize),
    /// Model rows that answer, and those that are left alone.
    pub models: (Vec<String>, Vec<String>),
    /// The store works.
    pub store: bool,
    /// The fullest mailboxes, those with something in them.
    pub queues: Vec<(String, u64)>,
    /// Bounds: what, how much is in use, how much there is.
    pub bounds: Vec<(String, u64, u64)>,
    /// Turns that are being answered now.
    pub in_flight: usize,
    /// Turns since the start.
    pub accepted: u64,
    /// Restarts of all actors since the start.
    pub restarts: u64,
    /// The actors that restarted most.
    pub restarted: Vec<(String, u64)>,
    /// Memory in use, in bytes, where the system tells.
    pub memory: Option<u64>,
    /// Messages and tokens for each member in the window.
    pub limits: (u64, u64, Duration),
}

/// Where a member stands against the limits and what they used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// Where they stand; none when nobody could be asked.
    pub standing: Option<Standing>,
    /// What they used, whatever the limits are.
    pub sums: Sums,
}
