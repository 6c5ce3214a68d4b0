//! The text of PDF and office files. Their formats are complex and their senders untrusted, so a child process of this
//! program reads each file, within limits of the kernel.
//!
//! | file | contains |
//! |---|---|
//! | `process.rs` | starts the child, and turns its end into a reason |
//! | `child.rs` | the child: its limits, its input and output |
//! | `pdf.rs`, `sheets.rs`, `word.rs`, `slides.rs` | one kind of document each |
//! | `archive.rs` | members of a ZIP archive, within bounds |
//! | `flow.rs` | paragraphs and tables of XML, for Word documents and presentations |
//! | `output.rs` | the bounded text |
//!
//! [`read`] is a pure function. Libraries below it may panic, loop or allocate without a bound, so that only the child
//! calls it.

mod archive;
pub mod child;
mod flow;
mod output;
mod pdf;
pub mod process;
mod sheets;
mod slides;
mod word;

use self::archive::Archive;
use self::output::Output;
use domain::attachment::Unread;
use domain::document::{Container, DocumentKind, DocumentText};

/// Reads the text of a document, at most `most` Unicode scalar values of it. The content decides the kind, not a name.
///
/// # Errors
/// The reason why there is no text.
pub fn read(bytes: &[u8], most: usize) -> Result<DocumentText, Unread> {
    let mut output = Output::new(most);
    let (kind, parts, macros) = match Container::of(bytes).ok_or(Unread::Mismatch)? {
        Container::Pdf => (DocumentKind::Pdf, pdf::read(bytes, &mut output)?, false),
        Container::Compound => (DocumentKind::Sheets, sheets::read_compound(bytes, &mut output)?, false),
        Container::Zip => {
            let mut archive = Archive::open(bytes)?;
            let kind = archive.kind()?;
            let parts = match kind {
                DocumentKind::Word => word::read(&mut archive, &mut output)?,
                DocumentKind::Slides => slides::read(&mut archive, &mut output)?,
                DocumentKind::Sheets | DocumentKind::Pdf => sheets::read(&archive, bytes, &mut output)?,
            };
            (kind, parts, archive.has_macros())
        }
    };
    let (text, cut) = output.done();
    if text.is_empty() {
        return Err(Unread::NoText);
    }
    Ok(DocumentText { kind, parts, text, cut, macros })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod fuzz;
