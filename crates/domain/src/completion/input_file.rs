//! Files for models that read them themselves.

use std::fmt;
use std::sync::Arc;

use super::PICTURE_CHARS;

/// The parts beside text that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accepts {
    /// Pictures.
    pub pictures: bool,
    /// PDF files.
    pub pdf: bool,
}

/// A PDF file for a model.
#[derive(Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Its file name, with the ending `.pdf`.
    pub name: String,
    /// Its name and its number of pages as text.
    pub about: String,
    /// The number of its pages; 0 if it is not known.
    pub pages: usize,
    /// The bytes of the file.
    pub bytes: Arc<[u8]>,
    /// The text for models that do not accept it: its own, or the reason why there is none.
    pub instead: String,
}

impl InputFile {
    /// Its media type.
    pub const MIME: &'static str = "application/pdf";

    /// Returns the approximate characters of text that cost as much: providers read the text and a picture of each page.
    #[must_use]
    pub fn chars(&self) -> usize {
        self.instead.chars().count() + self.pages.saturating_mul(PICTURE_CHARS)
    }
}

impl fmt::Debug for InputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputFile")
            .field("about", &self.about)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}
