//! Documents: files whose text a separate process reads, because their formats are complex and their senders untrusted.

use serde::{Deserialize, Serialize};

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentText {
    /// The kind of document.
    pub kind: DocumentKind,
    /// The number of its pages, sheets or slides; 0 for a kind without them.
    pub parts: usize,
    /// The text, with Markdown headings and tables.
    pub text: String,
    /// True if the document has more text.
    pub cut: bool,
    /// True if it contains macros. They are neither run nor shown.
    pub macros: bool,
}

/// A kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    /// A PDF file.
    Pdf,
    /// A Word document.
    Word,
    /// A spreadsheet of Excel or `OpenDocument`.
    Sheets,
    /// A `PowerPoint` presentation.
    Slides,
}

impl DocumentText {
    /// Describes the document for a model, such as `PDF, 3 pages`.
    #[must_use]
    pub fn about(&self) -> String {
        let (name, part) = match self.kind {
            DocumentKind::Pdf => ("PDF", "page"),
            DocumentKind::Word => ("Word document", ""),
            DocumentKind::Sheets => ("spreadsheet", "sheet"),
            DocumentKind::Slides => ("presentation", "slide"),
        };
        let parts = match self.parts {
            0 => String::new(),
            1 => format!(", 1 {part}"),
            many => format!(", {many} {part}s"),
        };
        let macros = if self.macros { ", with macros, which were not run" } else { "" };
        format!("{name}{parts}{macros}")
    }
}

/// The outer format of a file that may be a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// PDF.
    Pdf,
    /// A ZIP archive, as in current office formats.
    Zip,
    /// A compound file, as in older office formats and in office files with a password.
    Compound,
}

/// The bytes at the beginning of a file in which the mark of a PDF may be; readers accept as many before it.
const PDF_MARK_WITHIN: usize = 1_024;

/// The bytes at which the mark of a PDF begins in a file that claims to be text: a text may mention the mark further on.
const BEGIN: usize = 8;

impl Container {
    /// Returns the format of a file that claims to be text, decided by its very first bytes.
    #[must_use]
    pub fn of_text(bytes: &[u8]) -> Option<Self> {
        Self::of(&bytes[..bytes.len().min(BEGIN)])
    }

    /// Returns the format of a file, decided by its first bytes; `None` if it can be no document.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let begin = &bytes[..bytes.len().min(PDF_MARK_WITHIN)];
        if bytes.starts_with(b"PK\x03\x04") {
            Some(Self::Zip)
        } else if bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") {
            Some(Self::Compound)
        } else if memchr::memmem::find(begin, b"%PDF-").is_some() {
            Some(Self::Pdf)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide_what_a_file_is() {
        for (bytes, container) in [
            (&b"%PDF-1.7\n"[..], Some(Container::Pdf)),
            (b"\xef\xbb\xbf\r\n%PDF-1.4", Some(Container::Pdf)),
            (b"PK\x03\x04\x14\0", Some(Container::Zip)),
            (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", Some(Container::Compound)),
            (b"about PK and PDF", None),
            (b"", None),
        ] {
            assert_eq!(Container::of(bytes), container, "{bytes:?}");
        }
        let late = [vec![b' '; 2_000], b"%PDF-1.7".to_vec()].concat();
        assert_eq!(Container::of(&late), None);
    }

    #[test]
    fn a_document_is_described_with_its_parts_and_macros() {
        let text = |kind, parts, macros| DocumentText { kind, parts, text: String::new(), cut: false, macros }.about();
        assert_eq!(text(DocumentKind::Pdf, 3, false), "PDF, 3 pages");
        assert_eq!(text(DocumentKind::Word, 0, false), "Word document");
        assert_eq!(text(DocumentKind::Sheets, 1, true), "spreadsheet, 1 sheet, with macros, which were not run");
        assert_eq!(text(DocumentKind::Slides, 12, false), "presentation, 12 slides");
    }
}
