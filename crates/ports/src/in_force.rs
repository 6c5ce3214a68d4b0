//! The current configuration, as read by doors and changed by operators.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Models;
use domain::api_key::ApiKey;
use domain::ids::{Person, Place};
use domain::overview::Usage;
use domain::tool::usable::UsableTool;
use domain::webhook::Webhook;

/// The API keys of programs. Each call returns immediately.
pub trait Keys: Send + Sync {
    /// True if no key was ever configured or created, so only this machine may connect.
    fn are_unused(&self) -> bool;

    /// Returns the presented key if it is valid.
    fn holder(&self, presented: &str) -> Option<Arc<ApiKey>>;

    /// True while this key is valid and its rights are unchanged.
    fn still_opens(&self, key: &ApiKey) -> bool;
}

/// The currently configured webhooks.
pub trait Webhooks: Send + Sync {
    /// Returns the webhook with this name; a reload replaces it.
    fn webhook(&self, name: &str) -> Option<Arc<Webhook>>;
}

/// The currently configured models.
pub trait ModelsInForce: Send + Sync {
    /// Returns the models; a reload replaces them.
    fn models(&self) -> Arc<dyn Models>;
}

/// Members' usage and limits.
#[async_trait]
pub trait UsageOf: Send + Sync {
    /// Returns this person's usage in this place, within a few seconds. Without limits if the limiter did not
    /// respond.
    async fn usage(&self, person: &Person, place: &Place) -> Usage;
}

/// The available tools.
#[async_trait]
pub trait ToolsOf: Send + Sync {
    /// Returns the tools that this person may use in this place, by name, with the same decision as in a turn. In the
    /// first moments of a process, this waits for the stored lists of its servers.
    async fn tools(&self, person: &Person, place: &Place) -> Vec<UsableTool>;
}

/// The view of the running program for programs and operators, and changes by operators.
#[async_trait]
pub trait Console: Send + Sync {
    /// Returns the names of the selectable prompt profiles.
    fn profiles(&self) -> Vec<String>;

    /// Changes one property of a model row. The change is stored, and takes effect within seconds.
    ///
    /// # Errors
    /// The reason why nothing changed.
    async fn change_row(&self, row: &str, change: RowChange) -> Result<(), String>;
}

/// One property of a model row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowChange {
    /// True to offer tools.
    Tools(bool),
    /// The timeout of its calls, at least one second.
    Timeout(Duration),
}
