//! What this process runs with. A turn keeps the one it began with.

use std::sync::Arc;

use crate::config::Settings;
use crate::domain::prompt::Prompts;
use crate::domain::reply::Schema;
use crate::domain::triage::Rules;

/// Settings and the files that belong to them, read and checked together.
pub struct Running {
    /// The settings.
    pub settings: Settings,
    /// The prompts.
    pub prompts: Prompts,
    /// The form of a typed reply, compiled once.
    pub schema: Arc<Schema>,
    /// Who is answered, made of the settings.
    pub rules: Rules,
}

/// Why the process must end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// A needed service refused us for good, for this reason.
    Refused(String),
}

/// Where an actor says that the process must end.
pub type ExitSender = Arc<tokio::sync::watch::Sender<Option<Exit>>>;
