//! The port to the bot's process: orders from the page, and the bot's counters.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// The ways to strike an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strike {
    /// It panics.
    Crash,
    /// Its handler never returns.
    Freeze,
    /// Its mailbox is flooded.
    Flood,
}

/// A model of a local model server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The server's address.
    pub url: String,
    /// The model's name there.
    pub model: String,
}

/// An order for the bot's process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BotOrder {
    /// Strikes the actor at this path.
    Strike(String, Strike),
    /// Makes the store fail.
    StoreDown,
    /// Uses this model from now on; `None` for the one configured at the start.
    AskModel(Option<Choice>),
}

/// The bot's process.
#[async_trait]
pub trait BotProcess: Send + Sync {
    /// Sends an order to it.
    ///
    /// # Errors
    /// See [`OrderRefusal`].
    async fn order(&self, order: BotOrder) -> Result<(), OrderRefusal>;

    /// Kills it. It is restarted.
    ///
    /// # Errors
    /// See [`OrderRefusal`].
    fn kill(&self) -> Result<(), OrderRefusal>;

    /// Returns its counters, summed over restarts.
    fn counted(&self) -> Counted;
}

/// Counters of the bot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Counted {
    /// Failures of its actors, and unexpected ends of its process.
    pub crashes: u64,
    /// Turns that were closed without an answer or an apology.
    pub lost: u64,
    /// Messages that were answered twice.
    pub doubled: u64,
}

/// The reason why an order was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderRefusal {
    /// The actor does not exist, is about to restart, or is the root.
    #[error("no actor runs at this path")]
    NotRunning,
    /// Earlier orders are still pending.
    #[error("earlier orders for this actor are pending")]
    Flooded,
    /// The model is not the demo model.
    #[error("only the demo model can be told to fail")]
    NoDemo,
    /// The bot's process is not running or not listening yet.
    #[error("the bot is restarting")]
    Away,
}
