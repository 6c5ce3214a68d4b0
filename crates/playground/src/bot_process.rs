//! The port to the process of the bot: orders that it takes from the page, and what it counted.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// What can be done to an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strike {
    /// It panics.
    Crash,
    /// Its handler does not come back.
    Freeze,
    /// It gets more messages than it can handle at once.
    Flood,
}

/// A model of such a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The server's address.
    pub url: String,
    /// The model's name there.
    pub model: String,
}

/// What the bot's own process has to do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BotOrder {
    /// Does this to the actor at this path.
    Strike(String, Strike),
    /// Lets the store fail.
    StoreDown,
    /// Asks this model from now on; none is the one that it was started with.
    AskModel(Option<Choice>),
}

/// The process of the bot.
#[async_trait]
pub trait BotProcess: Send + Sync {
    /// Hands an order to it.
    ///
    /// # Errors
    /// See [`Refused`].
    async fn order(&self, order: BotOrder) -> Result<(), Refused>;

    /// Ends it at once. It is started again.
    ///
    /// # Errors
    /// See [`Refused`].
    fn kill(&self) -> Result<(), Refused>;

    /// What it counted, over all its lives.
    fn counted(&self) -> Counted;
}

/// What was seen of the bot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Counted {
    /// Failures of its actors, and ends of its process that nobody told it to.
    pub crashes: u64,
    /// Turns that were closed without an answer or an apology.
    pub lost: u64,
    /// Messages that were answered twice.
    pub doubled: u64,
}

/// Why an order was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// There is no such actor, or it waits for its restart, or it is the root.
    #[error("no actor of that path runs now")]
    NotRunning,
    /// What was ordered before is not handled yet.
    #[error("this actor has enough to do")]
    Flooded,
    /// The model is a real one.
    #[error("only the demo model can be told to fail")]
    NoDemo,
    /// The bot's process does not run, or does not listen yet.
    #[error("the bot is away just now")]
    Away,
}
