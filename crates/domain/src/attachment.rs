//! Attachments: which files are read and how the model sees them. The type of a file is decided by its bytes; the
//! sender's claims only decide whether the file is fetched. A file that is not read is named, with the reason.

mod text;
mod view;

use std::sync::Arc;

use imagesize::ImageType;
use serde::{Deserialize, Serialize};

use super::completion::{Accepts, Picture};
pub use text::text;
pub use view::{Enclosed, FileText, FileView, PdfView, named, pdf, remembered, rooms};

/// Maximum number of files of one message; the rest are ignored.
pub const MAX_ATTACHMENTS: usize = 10;

/// A file of a message, as the sender and the platform describe it. Its real type is known only from its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The file name.
    pub name: String,
    /// The claimed media type.
    pub mime: Option<String>,
    /// The claimed length in bytes.
    pub size: u64,
    /// The address at the platform.
    pub url: String,
    /// The claimed width of a picture, in pixels.
    pub width: Option<u32>,
    /// The claimed height of a picture, in pixels.
    pub height: Option<u32>,
}

impl Attachment {
    /// Describes a file without a name and an address.
    #[must_use]
    pub fn of_bytes(mime: Option<String>, bytes: usize) -> Self {
        let size = u64::try_from(bytes).unwrap_or(u64::MAX);
        Self { name: String::new(), mime, size, url: String::new(), width: None, height: None }
    }

    /// True if it claims to be a picture.
    #[must_use]
    pub fn claims_picture(&self) -> bool {
        Claim::of(self) == Claim::Picture
    }
}

/// Maximum number of pictures of one question, including those of a quoted message.
pub const MAX_PICTURES: usize = 4;

/// The largest picture, in bytes. Encoded as text, it stays below the 5 MB that some providers accept.
pub const MAX_PICTURE_BYTES: u64 = 3_584 << 10;

/// The largest total of all pictures of one question, in bytes.
pub const MAX_PICTURES_BYTES: u64 = 2 * MAX_PICTURE_BYTES;

/// The longest side of a picture, in pixels.
pub const MAX_SIDE: usize = 8_000;

/// Maximum number of pixels of a picture.
pub const MAX_PIXELS: usize = 36_000_000;

/// The largest ratio of a picture's long side to its short side.
pub const MAX_RATIO: usize = 20;

/// Maximum number of texts and documents of one question.
pub const MAX_READ: usize = 4;

/// The largest total of all texts and documents of one question, in bytes.
pub const MAX_READ_BYTES: u64 = 8 << 20;

/// The largest text file, in bytes.
pub const MAX_TEXT_BYTES: u64 = 1 << 20;

/// The largest text that is decoded in one go on a task, in bytes; a larger one needs a thread for blocking work.
pub const SLICE_BYTES: usize = 16 << 10;

/// The most Unicode scalar values of files that an operator may admit for one question.
pub const MAX_CHARACTERS: usize = 200_000;

/// Picture formats that models accept: type, media type, file extensions.
const PICTURES: [(ImageType, &str, &[&str]); 4] = [
    (ImageType::Png, "image/png", &["png"]),
    (ImageType::Jpeg, "image/jpeg", &["jpg", "jpeg"]),
    (ImageType::Gif, "image/gif", &["gif"]),
    (ImageType::Webp, "image/webp", &["webp"]),
];

/// Text media types that do not begin with `text/`.
const TEXTS: [&str; 10] = [
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/x-javascript",
    "application/x-sh",
    "application/sql",
    "application/x-ndjson",
];

/// Documents: media types and file extensions. Which one a file is, and if it is one, is decided by its bytes.
const DOCUMENTS: [(&str, &str); 12] = [
    ("application/pdf", "pdf"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-word.document.macroenabled.12", "docm"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.ms-excel.sheet.macroenabled.12", "xlsm"),
    ("application/vnd.ms-excel.sheet.binary.macroenabled.12", "xlsb"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.ms-powerpoint.presentation.macroenabled.12", "pptm"),
    ("application/vnd.openxmlformats-officedocument.presentationml.slideshow", "ppsx"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.template", "dotx"),
];

/// Media types that say nothing about the content.
const NO_CLAIM: [&str; 2] = ["", "application/octet-stream"];

/// The remaining allowance of one question.
#[derive(Debug, Clone)]
pub struct AttachmentAllowance {
    /// The parts that at least one candidate model accepts.
    accepts: Accepts,
    /// True if texts and documents are read.
    reads: bool,
    pictures: usize,
    picture_bytes: u64,
    read: usize,
    read_bytes: u64,
}

/// Approximate tokens of one picture; providers count 85 to several thousand.
pub const PICTURE_TOKENS: u64 = 1_000;

/// Approximate bytes of text per token.
const BYTES_A_TOKEN: u64 = 4;

/// Estimates the upper bound of tokens for these files, if the model accepts pictures. All texts and documents together
/// have at most `characters`.
#[must_use]
pub fn estimate<'a>(files: impl IntoIterator<Item = &'a Attachment>, characters: usize) -> u64 {
    let mut allowance = AttachmentAllowance::new(Accepts { pictures: true, pdf: false }, characters);
    let most = u64::try_from(characters).unwrap_or(u64::MAX);
    let (mut pictures, mut read) = (0_u64, 0_u64);
    for file in files {
        match allowance.plan(file) {
            Plan::Picture => pictures += PICTURE_TOKENS,
            Plan::Text => read = read.saturating_add(file.size),
            // The text of a compressed document may be longer than the file.
            Plan::Document | Plan::Pdf => read = most,
            Plan::Name(_) => {}
        }
    }
    pictures + read.min(most) / BYTES_A_TOKEN
}

/// The decision about one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Fetch it as a picture.
    Picture,
    /// Fetch it as text.
    Text,
    /// Fetch it as a document.
    Document,
    /// Fetch it as a PDF file, for models that accept it and with its text for others.
    Pdf,
    /// Only name it, for this reason.
    Name(Unread),
}

/// The reason why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unread {
    /// A picture, but no candidate model accepts pictures.
    Blind,
    /// The question has too many files.
    TooMany,
    /// The file exceeds the size limit or its claimed size.
    TooLarge,
    /// Files of this type are not read.
    Kind,
    /// The content does not match the name.
    Mismatch,
    /// The picture has too many pixels or an extreme shape.
    Pixels,
    /// The download failed or timed out.
    Unreachable,
    /// Too many files are being read for other turns.
    Busy,
    /// The document is protected by a password.
    Protected,
    /// The document is damaged.
    Damaged,
    /// The document unpacks to more than is read.
    Unpacked,
    /// Reading the document takes too much time or memory.
    Complex,
    /// The document contains no text, such as a scan.
    NoText,
    /// The member may not read this resource of a tool server.
    Denied,
    /// Reading this resource of a tool server requires an approval.
    NeedsApproval,
    /// The member has used up the calls that read resources.
    Limited,
    /// The tool server does not know this resource.
    Unknown,
    /// No tool server with resources has this name.
    NoServer,
}

impl Unread {
    /// Returns the log label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blind => "blind",
            Self::TooMany => "too_many",
            Self::TooLarge => "too_large",
            Self::Kind => "kind",
            Self::Mismatch => "mismatch",
            Self::Pixels => "pixels",
            Self::Unreachable => "unreachable",
            Self::Busy => "busy",
            Self::Protected => "protected",
            Self::Damaged => "damaged",
            Self::Unpacked => "unpacked",
            Self::Complex => "complex",
            Self::NoText => "no_text",
            Self::Denied => "denied",
            Self::NeedsApproval => "needs_approval",
            Self::Limited => "limited",
            Self::Unknown => "unknown",
            Self::NoServer => "no_server",
        }
    }

    /// Returns the reason shown to the model.
    #[must_use]
    pub const fn because(self) -> &'static str {
        match self {
            Self::Blind => "you cannot see pictures",
            Self::TooMany => "too many files were sent at once",
            Self::TooLarge => "it is too large",
            Self::Kind => "files of this kind cannot be opened here",
            Self::Mismatch => "what it holds is not what its name says",
            Self::Pixels => "it has too many pixels or an extreme shape",
            Self::Unreachable => "it could not be fetched",
            Self::Busy => "too many files are being read right now",
            Self::Protected => "it is protected by a password",
            Self::Damaged => "it is damaged or incomplete",
            Self::Unpacked => "it unpacks to far more data than may be read",
            Self::Complex => "reading it takes too much time or memory",
            Self::NoText => "it contains no text, only pictures or nothing at all",
            Self::Denied => "this member may not read it here",
            Self::NeedsApproval => {
                "a person has to approve this first: call the tool read_resource of its server, which asks for the approval"
            }
            Self::Limited => "this member may read no more of it for now",
            Self::Unknown => "its tool server does not have it",
            Self::NoServer => "no tool server of this name has resources",
        }
    }
}

impl AttachmentAllowance {
    /// Returns the full allowance of one question, for models that accept these parts, whose texts and documents have at most `characters`.
    #[must_use]
    pub const fn new(accepts: Accepts, characters: usize) -> Self {
        Self {
            accepts,
            reads: characters > 0,
            pictures: MAX_PICTURES,
            picture_bytes: MAX_PICTURES_BYTES,
            read: MAX_READ,
            read_bytes: MAX_READ_BYTES,
        }
    }

    /// Decides about the next file by its claims. The caller must not fetch more than the claimed size.
    pub fn plan(&mut self, file: &Attachment) -> Plan {
        match Claim::of(file) {
            Claim::Picture if !self.accepts.pictures => Plan::Name(Unread::Blind),
            Claim::Picture if file.size == 0 || file.size > MAX_PICTURE_BYTES => Plan::Name(Unread::TooLarge),
            Claim::Picture if self.pictures == 0 || file.size > self.picture_bytes => Plan::Name(Unread::TooMany),
            Claim::Picture => {
                self.pictures -= 1;
                self.picture_bytes -= file.size;
                Plan::Picture
            }
            Claim::Text | Claim::Nothing | Claim::Document if !self.reads => Plan::Name(Unread::Kind),
            Claim::Text | Claim::Nothing if file.size > MAX_TEXT_BYTES => Plan::Name(Unread::TooLarge),
            Claim::Document if file.size > MAX_READ_BYTES => Plan::Name(Unread::TooLarge),
            Claim::Text | Claim::Nothing | Claim::Document if self.read == 0 || file.size > self.read_bytes => {
                Plan::Name(Unread::TooMany)
            }
            claim @ (Claim::Text | Claim::Nothing | Claim::Document) => {
                self.read -= 1;
                self.read_bytes -= file.size;
                match claim {
                    Claim::Document if self.accepts.pdf && claims_pdf(file) => Plan::Pdf,
                    Claim::Document => Plan::Document,
                    _ => Plan::Text,
                }
            }
            Claim::Other => Plan::Name(Unread::Kind),
        }
    }
}

/// True if a document claims to be a PDF file.
fn claims_pdf(file: &Attachment) -> bool {
    let [(mime, ending), ..] = DOCUMENTS;
    let claimed = file.mime.as_deref().unwrap_or_default().trim().to_ascii_lowercase();
    claimed.starts_with(mime) || file.name.to_ascii_lowercase().ends_with(&format!(".{ending}"))
}

/// The claimed type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Picture,
    Text,
    Document,
    Nothing,
    Other,
}

impl Claim {
    fn of(file: &Attachment) -> Self {
        let mime = file.mime.as_deref().unwrap_or_default().split(';').next().unwrap_or_default();
        let mime = mime.trim().to_ascii_lowercase();
        if NO_CLAIM.contains(&mime.as_str()) {
            let ending = file.name.rsplit_once('.').map_or(String::new(), |(_, ending)| ending.to_ascii_lowercase());
            let picture = PICTURES.iter().any(|(.., endings)| endings.contains(&ending.as_str()));
            let document = DOCUMENTS.iter().any(|(_, known)| *known == ending);
            return match (picture, document) {
                (true, _) => Self::Picture,
                (_, true) => Self::Document,
                _ => Self::Nothing,
            };
        }
        if PICTURES.iter().any(|(_, known, _)| *known == mime) || mime == "image/jpg" {
            Self::Picture
        } else if mime.starts_with("text/") || TEXTS.contains(&mime.as_str()) {
            Self::Text
        } else if DOCUMENTS.iter().any(|(known, _)| *known == mime) {
            Self::Document
        } else {
            Self::Other
        }
    }
}

/// Reads the fetched bytes of a picture.
///
/// # Errors
/// They are no picture, or one with too many pixels.
pub fn picture(file: &Attachment, bytes: Vec<u8>) -> Result<FileView, Unread> {
    let Pixels { mime, width, height, .. } = Pixels::of(&bytes)?;
    let about = format!("{} ({mime}, {width} x {height} pixels)", view::name(file));
    Ok(FileView::Picture(Picture { about, mime, bytes: Arc::from(bytes) }))
}

/// The format of a picture, read from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pixels {
    /// The media type.
    pub mime: &'static str,
    /// The usual file extension.
    pub ending: &'static str,
    width: usize,
    height: usize,
}

impl Pixels {
    /// Reads the format and the size of a picture.
    ///
    /// # Errors
    /// The format is unknown, or the picture has too many pixels.
    pub fn of(bytes: &[u8]) -> Result<Self, Unread> {
        let kind = imagesize::image_type(bytes).map_err(|_| Unread::Mismatch)?;
        let (_, mime, endings) = PICTURES.iter().find(|(known, ..)| *known == kind).ok_or(Unread::Mismatch)?;
        let imagesize::ImageSize { width, height } = imagesize::blob_size(bytes).map_err(|_| Unread::Mismatch)?;
        let (short, long) = (width.min(height), width.max(height));
        let fits =
            short > 0 && long <= MAX_SIDE && width.saturating_mul(height) <= MAX_PIXELS && long / short <= MAX_RATIO;
        let ending = endings.first().copied().unwrap_or_default();
        if fits { Ok(Self { mime, ending, width, height }) } else { Err(Unread::Pixels) }
    }
}

#[cfg(test)]
mod tests;
