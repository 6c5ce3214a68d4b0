//! A bounded cache of the newest files of messages.

use std::collections::VecDeque;

use bytes::Bytes;

use super::ids::MessageId;

/// Maximum size of a file, in bytes.
pub const FILE_BYTES: usize = 8 << 20;
/// Maximum size of all files, in bytes; the oldest are evicted first.
const KEPT_BYTES: usize = 64 << 20;
/// Maximum number of files.
const KEPT: usize = 1_000;

/// A file as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The file name.
    pub name: String,
    /// The media type given by the sender.
    pub kind: String,
    /// The content.
    pub bytes: Bytes,
    /// The alternative text.
    pub description: Option<String>,
}

impl File {
    /// Returns the media type if the content is a picture that every browser displays, by its bytes.
    #[must_use]
    pub fn picture(&self) -> Option<&'static str> {
        let bytes = &self.bytes;
        let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some("image/png")
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            Some("image/jpeg")
        } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
            Some("image/gif")
        } else {
            webp.then_some("image/webp")
        }
    }
}

/// The cached files.
#[derive(Debug, Default)]
pub struct Files {
    kept: VecDeque<(MessageId, File)>,
    bytes: usize,
}

impl Files {
    /// Adds a file under the id of its attachment, and evicts the oldest ones beyond the bounds.
    pub fn keep(&mut self, id: MessageId, file: File) {
        self.bytes += file.bytes.len();
        self.kept.push_back((id, file));
        while self.bytes > KEPT_BYTES || self.kept.len() > KEPT {
            let Some((_, oldest)) = self.kept.pop_front() else { return };
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Returns a file unless it was evicted.
    #[must_use]
    pub fn find(&self, id: MessageId) -> Option<&File> {
        self.kept.iter().find(|(known, _)| *known == id).map(|(_, file)| file)
    }
}
