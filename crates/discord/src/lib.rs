//! The Discord door: gateway connections as streams of neutral events, and single requests of the request API. This
//! crate does not retry, observe budgets or store turns: actors do. No wire type of Discord leaves it.

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

mod forms;

mod frame;

mod links;

mod surrogates;

pub mod message;

pub mod rights;

mod threads;

pub mod voice;

#[cfg(test)]
mod testing;

#[cfg(test)]
mod fuzz;

/// The name of this door in ids, keys, labels and logs.
pub const DOOR: Door = Door::new("discord");

/// The longest message of a bot, in Unicode scalar values.
pub const TEXT_LIMIT: usize = 2000;

/// The address and credentials for Discord.
#[derive(Debug, Clone)]
pub struct Access {
    /// The base address of the request API, such as `https://discord.com`; `/api/v10` is appended.
    pub api_url: String,
    /// The bot token, with or without the prefix `Bot`.
    pub token: SecretString,
    /// True if `http` and `ws` are allowed for hosts other than this machine.
    pub allow_insecure: bool,
}

/// Invalid access settings. The text never contains the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAccess {
    /// The address is invalid.
    #[error("the address '{address}' cannot be used: {reason}")]
    Address {
        /// The configured address.
        address: String,
        /// The reason.
        reason: &'static str,
    },
    /// The token contains characters that cannot be sent.
    #[error("the bot token is empty or has invalid characters")]
    Token,
    /// The HTTP client could not be created.
    #[error("the http client could not be created: {0}")]
    Client(String),
}
