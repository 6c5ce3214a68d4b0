//! The inputs of a start, and the reasons why it fails.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::app::configured::Configured;
use crate::app::reload::Watched;
use ports::{Clock, Dice, Documents, Faults, Observer, TurnLog};
use telemetry::tally::Tally;

/// The inputs of a start.
pub struct Launch {
    /// The settings and their variables, as read at first.
    pub configured: Configured,
    /// Rereads the configuration. `None` rereads only the files that the settings name.
    pub reread: Option<Watched>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The random source.
    pub dice: Arc<dyn Dice>,
    /// Injects faults; does nothing in production.
    pub faults: Arc<dyn Faults>,
    /// Reads documents that members attach.
    pub documents: Arc<dyn Documents>,
    /// True if only the terminal's door is open and no platform is contacted.
    pub alone: bool,
    /// Further readers of events.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Returns the page of metrics.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// The counts of this process.
    pub tally: Arc<Tally>,
    /// The last lines of the log.
    pub logged: Arc<dyn TurnLog>,
    /// Ends the start of a process that stands by.
    pub stop: CancellationToken,
}

/// The reason why a start failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Settings or files are wrong. Each mistake is a sentence with its place and fix.
    #[error("{}", .0.join("\n"))]
    Configuration(Vec<String>),
    /// Another process uses the data directory.
    #[error("{0}")]
    InUse(String),
    /// The tree could not start.
    #[error("{0}")]
    Tree(String),
    /// The process stood by and received the request to end.
    #[error("the process stood by and was stopped")]
    Stopped,
}
