//! Why there is no file, or no picture.

use async_trait::async_trait;

use super::Attachments;

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

/// A door that takes no files.
pub struct NoFiles;

#[async_trait]
impl Attachments for NoFiles {
    async fn fetch(&self, _url: &str, _most: usize) -> Result<Vec<u8>, FetchError> {
        Err(FetchError::Foreign)
    }
}

/// Why there is no picture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDrawn {
    /// It cannot be drawn, for this reason.
    #[error("{0}")]
    Unable(String),
    /// It took too long, or others took all the time.
    #[error("it took too long")]
    Late,
}

impl NotDrawn {
    /// The label in logs, which quotes nothing.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unable(_) => "it cannot be drawn",
            Self::Late => "it took too long",
        }
    }
}
