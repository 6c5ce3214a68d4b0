//! The Discord door: one gateway connection at a time as a stream of neutral events, and one request at a time over
//! its request API. Nothing here retries, waits for budgets or remembers turns: actors decide that. No type of
//! Discord's wire leaves this module.

use secrecy::SecretString;

use domain::ids::Door;

pub mod gateway;

pub mod rest;

pub mod attachments;

pub mod events;

pub mod interactions;

pub mod prefilter;

pub mod close;

mod address;

mod frame;

mod links;

pub mod message;

pub mod rights;

mod threads;

#[cfg(test)]
mod testing;

/// The name of this door in ids, keys, labels and logs.
pub const DOOR: Door = Door::new("discord");

/// The longest message that a bot may post, in Unicode scalar values.
pub const TEXT_LIMIT: usize = 2000;

/// How to reach Discord.
#[derive(Debug, Clone)]
pub struct Access {
    /// Where the request API is, such as `https://discord.com`; `/api/v10` is added.
    pub api_url: String,
    /// The bot token, with or without the word `Bot` before it.
    pub token: SecretString,
    /// Plain `http` and `ws` are also taken for hosts other than this machine.
    pub allow_insecure: bool,
}

/// The settings do not lead to Discord. The text never holds the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAccess {
    /// The address cannot be used.
    #[error("the address '{address}' cannot be used: {reason}")]
    Address {
        /// The address as it was given.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The token cannot be sent.
    #[error("the bot token is empty or has characters that no token has")]
    Token,
    /// The HTTP client could not be made.
    #[error("the http client could not be made: {0}")]
    Client(String),
}
