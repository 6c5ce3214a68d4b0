//! Images returned by tools, as posted with the answer of their turn.

use super::Image;
use crate::attachment::{Attachment, Pixels};
use crate::ids::{Person, Timestamp};
use crate::incoming::{AuthorKind, Posted};
use crate::outgoing::{FILE_BYTES_MAX, File, Part};

/// The name of the built-in tool that edits pictures.
pub const EDIT_TOOL: &str = "edit_image";

/// The start of the file names of posted images.
const NAME: &str = "picture-";

/// The maximum number of images posted per turn.
pub const PICTURES_MAX: usize = 4;
/// The maximum total size of these images, in bytes.
pub const PICTURES_BYTES: usize = 8 * 1024 * 1024;

/// The result of adding an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureOutcome {
    /// The image will be posted.
    Added,
    /// The same image is already among those to be posted.
    Known,
    /// The image will not be posted.
    LeftOut,
}

/// The images of one turn.
#[derive(Debug, Default)]
pub struct Pictures {
    files: Vec<File>,
    bytes: usize,
}

impl Pictures {
    /// Adds an image of this tool if there is room and its bytes are an image, regardless of the declared media type.
    /// Equal images count once.
    pub fn take(&mut self, tool: &str, image: &Image) -> PictureOutcome {
        let bytes = image.bytes.len();
        if self.files.iter().any(|file| file.bytes == image.bytes) {
            return PictureOutcome::Known;
        }
        if !self.has_room(bytes) {
            return PictureOutcome::LeftOut;
        }
        let Ok(pixels) = Pixels::of(&image.bytes) else { return PictureOutcome::LeftOut };
        let name = format!("{NAME}{}.{}", self.files.len() + 1, pixels.ending);
        let file = File::new(name, pixels.mime, image.bytes.clone());
        self.files.push(File { description: format!("a picture from {tool}"), ..file });
        self.bytes += bytes;
        PictureOutcome::Added
    }

    /// True if there is room for an image of this size.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.files.len() < PICTURES_MAX && bytes <= FILE_BYTES_MAX && self.bytes + bytes <= PICTURES_BYTES
    }

    /// Returns the images as parts of an answer.
    #[must_use]
    pub fn to_parts(&self) -> Vec<Part> {
        self.files.iter().cloned().map(Part::File).collect()
    }
}

/// Returns the images of the bot's newest message that has some, among messages up to this time, oldest first. Messages
/// that are known to answer another person are skipped.
#[must_use]
pub fn newest(messages: &[Posted], person: &Person, until: Timestamp) -> Vec<Attachment> {
    let answers_another = |posted: &Posted| {
        let seen = posted.reply_to.as_ref().and_then(|quoted| quoted.seen.as_ref());
        seen.is_some_and(|seen| !seen.ours && seen.author != *person)
    };
    let is_image = |file: &&Attachment| file.name.starts_with(NAME) && file.claims_picture();
    let ours = messages
        .iter()
        .rev()
        .filter(|posted| posted.author.kind == AuthorKind::Ourselves && posted.at <= until && !answers_another(posted));
    let images = ours.map(|posted| posted.attachments.iter().filter(is_image).cloned().collect::<Vec<_>>());
    images.into_iter().find(|images| !images.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a GIF of this size, followed by these bytes.
    fn gif(width: u16, height: u16, behind: &[u8]) -> Image {
        let size = [width.to_le_bytes(), height.to_le_bytes()].concat();
        Image { mime: "image/png".to_owned(), bytes: [b"GIF89a", &*size, &[0; 16], behind].concat().into() }
    }

    fn names(pictures: &Pictures) -> Vec<String> {
        let name = |part| match part {
            Part::File(File { name, mime, .. }) => format!("{name} {mime}"),
            other => format!("{other:?}"),
        };
        pictures.to_parts().into_iter().map(name).collect()
    }

    #[test]
    fn a_picture_is_what_its_bytes_are() {
        let mut pictures = Pictures::default();
        assert_eq!(pictures.take("draw", &gif(2, 3, b"1")), PictureOutcome::Added);
        assert_eq!(pictures.take("draw", &gif(2, 3, b"1")), PictureOutcome::Known, "the same once more takes no room");
        let page = Image { mime: "image/png".to_owned(), bytes: b"<svg onload=alert(1)>".to_vec().into() };
        assert_eq!(pictures.take("draw", &page), PictureOutcome::LeftOut);
        assert_eq!(pictures.take("draw", &gif(60_000, 60_000, b"")), PictureOutcome::LeftOut, "a bomb");
        assert_eq!(names(&pictures), ["picture-1.gif image/gif"]);
    }

    #[test]
    fn pictures_are_bounded_in_number_and_bytes() {
        let mut pictures = Pictures::default();
        let taken = (0..6).filter(|n| pictures.take("draw", &gif(1, 1, &[*n])) == PictureOutcome::Added);
        assert_eq!(taken.count(), PICTURES_MAX);
        let mut pictures = Pictures::default();
        let large = |n: u8| gif(1, 1, &vec![n; 3 * 1024 * 1024]);
        assert_eq!((0..4).filter(|n| pictures.take("draw", &large(*n)) == PictureOutcome::Added).count(), 2);
        let larger = gif(1, 1, &vec![0; FILE_BYTES_MAX]);
        assert_eq!(Pictures::default().take("draw", &larger), PictureOutcome::LeftOut);
    }
}
