//! What is in force at this moment, for doors that ask and for operators who change it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Models;
use domain::api_key::ApiKey;
use domain::ids::{Person, Place};
use domain::overview::Usage;
use domain::tool::usable::UsableTool;
use domain::webhook::Webhook;

/// The keys that open doors for programs. Each call returns at once.
pub trait Keys: Send + Sync {
    /// None was ever set or made: this machine alone may ask.
    fn are_unused(&self) -> bool;

    /// The key that somebody presents, while it is in force.
    fn holder(&self, presented: &str) -> Option<Arc<ApiKey>>;

    /// True while this key is in force and opens what it opened when it was presented.
    fn still_opens(&self, key: &ApiKey) -> bool;
}

/// The webhooks that are configured at this moment.
pub trait Webhooks: Send + Sync {
    /// The webhook of this name; a reload replaces it.
    fn webhook(&self, name: &str) -> Option<Arc<Webhook>>;
}

/// The models that are configured at this moment.
pub trait ModelsInForce: Send + Sync {
    /// The models; a reload replaces them.
    fn models(&self) -> Arc<dyn Models>;
}

/// What members used, and how they stand against their limits.
#[async_trait]
pub trait UsageOf: Send + Sync {
    /// What this person used where they speak in this place. Within a few seconds; without a standing when nobody could be asked.
    async fn usage(&self, person: &Person, place: &Place) -> Usage;
}

/// The tools that there are.
#[async_trait]
pub trait ToolsOf: Send + Sync {
    /// The tools that may be used for this person where they speak in this place, as a turn of theirs would be decided, by name. In
    /// the first moment of a process the stored lists of its servers are waited for.
    async fn tools(&self, person: &Person, place: &Place) -> Vec<UsableTool>;
}

/// What programs and operators see, and operators change, of the running program.
#[async_trait]
pub trait Console: Send + Sync {
    /// The names of the profiles of prompts that messages may ask for.
    fn profiles(&self) -> Vec<String>;

    /// Changes one thing about a model row. It is kept, and in force within seconds.
    ///
    /// # Errors
    /// Why it was not changed.
    async fn change_row(&self, row: &str, change: RowChange) -> Result<(), String>;
}

/// One thing about a model row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowChange {
    /// Whether it is offered tools.
    Tools(bool),
    /// How long a call of it may take, at least a second.
    Timeout(Duration),
}
