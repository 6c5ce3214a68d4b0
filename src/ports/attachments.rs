//! Files that came with messages.

use async_trait::async_trait;

/// Where they are read from.
#[async_trait]
pub trait Attachments: Send + Sync {
    /// The file behind an address that a door told, if it is at most this many bytes long. One attempt, bounded by a timeout
    /// of its own; only servers that the door itself keeps files on are ever asked.
    ///
    /// # Errors
    /// See [`FetchError`].
    async fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError>;
}

/// Why a file cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The address is none of the door's own.
    #[error("the address is not one of the door's own")]
    Foreign,
    /// The file is longer than asked for.
    #[error("the file is longer than it was said to be")]
    TooLong,
    /// The server answered with another status than success; redirects count as such.
    #[error("the server answered with status {0}")]
    Gone(u16),
    /// No connection, or it broke, or it took too long.
    #[error("{0}")]
    Lost(String),
}
