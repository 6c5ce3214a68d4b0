//! A ZIP archive of a document: its members are counted and unpacked once, before anything interprets them, so that no
//! reader meets more than the bound.

use std::io::{self, BufReader, Cursor, Read};

use zip::ZipArchive;
use zip::read::ZipFile;

use domain::attachment::Unread;
use domain::document::DocumentKind;

/// Maximum number of members; a presentation with many pictures has some hundreds.
const MEMBERS_MAX: usize = 5_000;
/// The largest total of all members, unpacked, in bytes. Text in XML shrinks to about a tenth.
const UNPACKED_MAX: u64 = 64 << 20;
/// The member that contains the macros of a document.
const MACROS: &str = "vbaProject.bin";
/// The members by which a document is recognized.
const MARKS: [(&str, DocumentKind); 4] = [
    ("word/document.xml", DocumentKind::Word),
    ("ppt/presentation.xml", DocumentKind::Slides),
    ("xl/workbook.xml", DocumentKind::Sheets),
    ("xl/workbook.bin", DocumentKind::Sheets),
];
/// The media type of spreadsheets of `OpenDocument`, and of their templates.
const OPEN_SHEETS: &str = "application/vnd.oasis.opendocument.spreadsheet";

type Bytes<'a> = Cursor<&'a [u8]>;

/// The members of an archive.
pub(crate) struct Archive<'a>(ZipArchive<Bytes<'a>>);

impl<'a> Archive<'a> {
    /// Opens an archive and checks its bounds.
    ///
    /// # Errors
    /// It is damaged, has a password, or exceeds a bound.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Unread> {
        let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|_| Unread::Damaged)?;
        if archive.len() > MEMBERS_MAX {
            return Err(Unread::Unpacked);
        }
        let mut left = UNPACKED_MAX;
        for index in 0..archive.len() {
            if archive.by_index_raw(index).map_err(|_| Unread::Damaged)?.encrypted() {
                return Err(Unread::Protected);
            }
            let member = archive.by_index(index).map_err(|_| Unread::Damaged)?;
            // The sizes that an archive states may be wrong.
            let read = io::copy(&mut member.take(left + 1), &mut io::sink()).map_err(|_| Unread::Damaged)?;
            left = left.checked_sub(read).ok_or(Unread::Unpacked)?;
        }
        Ok(Self(archive))
    }

    /// Returns the kind of document, by its members.
    ///
    /// # Errors
    /// It is no document that is read.
    pub(crate) fn kind(&mut self) -> Result<DocumentKind, Unread> {
        if let Some((_, kind)) = MARKS.iter().find(|(name, _)| self.has(name)) {
            return Ok(*kind);
        }
        let mut media = String::new();
        if let Some(member) = self.member("mimetype") {
            member.take(200).read_to_string(&mut media).map_err(|_| Unread::Kind)?;
        }
        if media.starts_with(OPEN_SHEETS) { Ok(DocumentKind::Sheets) } else { Err(Unread::Kind) }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.index_for_name(name).is_some()
    }

    pub(crate) fn has_macros(&self) -> bool {
        self.0.file_names().flatten().any(|name| name.ends_with(MACROS))
    }

    /// Returns a member, unpacked while it is read.
    pub(crate) fn member(&mut self, name: &str) -> Option<BufReader<ZipFile<'_, Bytes<'a>>>> {
        self.0.by_name(name).ok().map(BufReader::new)
    }
}
