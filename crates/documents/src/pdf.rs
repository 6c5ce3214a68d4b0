//! PDF files: the text of each page. The library stops with a panic at pages that it does not understand; such a page is
//! read once more without its layout.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{ConvertToFmt, Document, Error, OutputError, PlainTextOutput, output_doc_page};

use super::output::{Limited, Output};
use domain::attachment::Unread;

/// Maximum number of pages that are read.
const PAGES_MAX: usize = 1_000;

/// Reads a file. Returns the number of pages.
///
/// # Errors
/// The file is damaged, has a password, or has no text, such as a scan.
pub(crate) fn read(bytes: &[u8], output: &mut Output) -> Result<usize, Unread> {
    let mut document = Document::load_mem(bytes).map_err(|error| refusal(&error))?;
    if document.is_encrypted() {
        // Many files have only a password for changes, and open with an empty one.
        document.decrypt("").map_err(|_| Unread::Protected)?;
    }
    let pages = document.get_pages().len();
    if pages == 0 {
        return Err(Unread::Damaged);
    }
    let mut has_text = false;
    for (number, _) in (1..).zip(0..pages.min(PAGES_MAX)) {
        if output.is_full() {
            break;
        }
        let (text, is_cut) = page(&document, number, output.room());
        has_text |= !text.is_empty();
        output.heading(2, &format!("Page {number}"));
        output.line(if text.is_empty() { "(no text)" } else { &text });
        if is_cut {
            output.cut();
        }
    }
    if pages > PAGES_MAX {
        output.cut();
    }
    if has_text { Ok(pages) } else { Err(Unread::NoText) }
}

fn refusal(error: &Error) -> Unread {
    match error {
        Error::Decryption(_) | Error::InvalidPassword | Error::UnsupportedSecurityHandler(_) => Unread::Protected,
        _ => Unread::Damaged,
    }
}

/// Returns the text of a page, and true if it is only the part that fits.
fn page(document: &Document, number: u32, most: usize) -> (String, bool) {
    let laid_out = catch_unwind(AssertUnwindSafe(|| {
        let mut text = Limited::new(most.saturating_add(1).saturating_mul(4));
        match output_doc_page(document, &mut PlainTextOutput::new(&mut text), number) {
            Ok(()) => Some((text.text, false)),
            // The text so far fills the room.
            Err(OutputError::FormatError(_)) => Some((text.text, true)),
            Err(_) => None,
        }
    }));
    let plain = || catch_unwind(AssertUnwindSafe(|| document.extract_text(&[number]).ok())).ok().flatten();
    let (text, is_cut) = laid_out.ok().flatten().or_else(|| Some((plain()?, false))).unwrap_or_default();
    (tidy(&text), is_cut)
}

/// Removes blank lines, and blanks at the ends of lines.
fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    lines.join("\n")
}

impl<'a> ConvertToFmt for &'a mut Limited {
    type Writer = &'a mut Limited;

    fn convert(self) -> Self::Writer {
        self
    }
}
