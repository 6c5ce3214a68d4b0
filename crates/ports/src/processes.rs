//! The processes that share a store, for the pages of operators.

use std::time::Duration;

use async_trait::async_trait;

use domain::ids::Timestamp;
use domain::ownership::Portion;

/// One process, by its last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessReport {
    /// Its name: the machine, the number of the process and a random part.
    pub name: String,
    /// `active`, `standby`, `gone` (it ended or is paused, and its report is kept for some seconds), or `unknown` (it
    /// reports in a form of another version).
    pub state: &'static str,
    /// The rest of the report; `None` if the state is `unknown`.
    pub details: Option<ProcessDetails>,
}

/// The report of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessDetails {
    /// The version of the program.
    pub version: String,
    /// The time at which the process entered its state.
    pub since: Timestamp,
    /// The address of its HTTP listener.
    pub address: String,
    /// The host and port at which other processes reach it; `None` if it takes no requests from them.
    pub reached_at: Option<String>,
    /// The time for which its oldest turn waits for its start; zero if none waits, and for earlier versions.
    pub lag: Duration,
}

/// A range of a divided bot, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRange {
    /// The range.
    pub portion: Portion,
    /// The name of the process that holds it; `None` if no process does.
    pub holder: Option<String>,
    /// The time for which that process has held it.
    pub age: Duration,
    /// The number of times that it moved to another process since the division began.
    pub moves: u64,
}

/// The processes that share a store, and the division of their work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The reports of the processes, at most 1,000, ordered by name: none if the store serves one process alone.
    pub processes: Vec<ProcessReport>,
    /// The ranges in their order; none if one process does all the work.
    pub ranges: Vec<HeldRange>,
}

/// The processes that share the store of this one.
#[async_trait]
pub trait Processes: Send + Sync {
    /// Returns their reports and ranges; `None` if the store does not answer.
    async fn list(&self) -> Option<Cluster>;
}
