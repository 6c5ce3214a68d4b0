//! The bytes of files that came with messages, the newest of them.

use std::collections::VecDeque;

use bytes::Bytes;

use super::ids::MessageId;

/// The longest file, in bytes.
pub const FILE_BYTES: usize = 8 << 20;
/// All files together, in bytes; the oldest are forgotten first.
const KEPT_BYTES: usize = 64 << 20;
/// How many files are kept, so that many small ones are bounded as well.
const KEPT: usize = 1_000;

/// A file as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The name it was sent under.
    pub name: String,
    /// Its media type as the sender told it.
    pub kind: String,
    /// What it holds.
    pub bytes: Bytes,
    /// What it shows, in words.
    pub description: Option<String>,
}

impl File {
    /// The media type when this is a picture that every browser shows, seen from the bytes and not from what was told.
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

/// The files that are still known.
#[derive(Debug, Default)]
pub struct Files {
    kept: VecDeque<(MessageId, File)>,
    bytes: usize,
}

impl Files {
    /// Keeps a file under the id of its attachment; what is too old for the bounds goes.
    pub fn keep(&mut self, id: MessageId, file: File) {
        self.bytes += file.bytes.len();
        self.kept.push_back((id, file));
        while self.bytes > KEPT_BYTES || self.kept.len() > KEPT {
            let Some((_, oldest)) = self.kept.pop_front() else { return };
            self.bytes -= oldest.bytes.len();
        }
    }

    /// A file, unless it was forgotten.
    #[must_use]
    pub fn find(&self, id: MessageId) -> Option<&File> {
        self.kept.iter().find(|(known, _)| *known == id).map(|(_, file)| file)
    }
}
