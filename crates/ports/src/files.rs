//! Files of programs, and errors of downloads, documents and renderings.

use async_trait::async_trait;

use super::{Attachments, Documents};
use domain::attachment::{Attachment, Unread};
use domain::document::DocumentText;
use domain::ids::Person;

/// The error of a download.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The address does not belong to the door.
    #[error("the address is not one of the door's own")]
    Foreign,
    /// The file exceeds the requested size.
    #[error("the file is longer than it was said to be")]
    TooLong,
    /// The server answered with this status, redirects included.
    #[error("the server answered with status {0}")]
    Gone(u16),
    /// The connection failed, broke or timed out.
    #[error("{0}")]
    Lost(String),
}

/// A door without files.
pub struct NoFiles;

#[async_trait]
impl Attachments for NoFiles {
    async fn fetch(&self, _url: &str, _most: usize) -> Result<Vec<u8>, FetchError> {
        Err(FetchError::Foreign)
    }
}

/// A file that a program sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentFile {
    /// The file as the program describes it, with its length.
    pub file: Attachment,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Reads files of programs that supply their whole conversation.
#[async_trait]
pub trait FileTexts: Send + Sync {
    /// Returns the files as a model reads them, in order, one block of text each, within the bounds of one question of a
    /// member. Texts and documents only. Bounded in time and memory; dropping the future ends the work.
    ///
    /// # Errors
    /// The index of the first file that is not read, and the reason.
    async fn texts(&self, person: &Person, files: Vec<SentFile>) -> Result<Vec<String>, (usize, Unread)>;
}

#[async_trait]
impl FileTexts for NoFiles {
    async fn texts(&self, _person: &Person, _files: Vec<SentFile>) -> Result<Vec<String>, (usize, Unread)> {
        Err((0, Unread::Kind))
    }
}

/// The error of reading a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRead {
    /// The reason, for members.
    pub why: Unread,
    /// The cause, for the log.
    pub reason: Option<String>,
}

impl NotRead {
    /// Creates an error with a cause.
    pub fn new(why: Unread, reason: impl Into<String>) -> Self {
        Self { why, reason: Some(reason.into()) }
    }
}

impl From<Unread> for NotRead {
    fn from(why: Unread) -> Self {
        Self { why, reason: None }
    }
}

/// Reads no documents.
pub struct NoDocuments;

#[async_trait]
impl Documents for NoDocuments {
    async fn read(&self, _bytes: Vec<u8>, _most: usize) -> Result<DocumentText, NotRead> {
        Err(Unread::Kind.into())
    }
}

/// The error of a rendering.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDrawn {
    /// It cannot be rendered, for this reason.
    #[error("{0}")]
    Unable(String),
    /// It timed out, or waited too long for others.
    #[error("it took too long")]
    Late,
}

impl NotDrawn {
    /// Returns the log label, without any content.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Unable(_) => "it cannot be drawn",
            Self::Late => "it took too long",
        }
    }
}
