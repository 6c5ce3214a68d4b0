//! What a tool gave back: untrusted data, cut to its bounds.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

/// Bytes of text that a result is cut to unless configured otherwise.
pub const RESULT_BYTES: usize = 65_536;

/// The bounds of one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultLimits {
    /// Bytes of text that are shown, at least 1.
    pub shown: usize,
    /// Bytes of text that are kept whole beside what is shown, so that the rest can be paged through.
    pub kept: usize,
    /// Images that are kept; the others are told of in words.
    pub images: usize,
    /// Bytes of one image; a larger one is told of in words.
    pub image_bytes: usize,
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self { shown: RESULT_BYTES, kept: 1024 * 1024, images: 4, image_bytes: 4 * 1024 * 1024 }
    }
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// The parts in the order of the source.
    pub parts: Vec<Part>,
    /// The tool ran and failed; the parts say why.
    pub is_error: bool,
    /// What was cut; none when everything is in the parts.
    pub cut: Option<Cut>,
}

/// One part of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// Data that has no text beside it.
    Structured(Arc<Value>),
    /// A picture.
    Image(Image),
    /// The address of something that the source can be asked for.
    Link(Link),
    /// The text of a resource.
    Resource {
        /// Its address at the source.
        uri: String,
        /// The text.
        text: String,
    },
    /// Something that cannot be shown, in words, such as a sound.
    Omitted(String),
}

/// A picture in a result.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// The media type that the source told.
    pub mime: String,
    /// The file as it is.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("mime", &self.mime).field("bytes", &self.bytes.len()).finish()
    }
}

/// The address of something at the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The address.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is about; none when the source did not say.
    pub description: Option<String>,
}

/// What is missing from the parts of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of the whole text; when the source sent more than one message may have, an estimate.
    pub bytes: u64,
    /// The whole text, to be paged through; none when it is longer than what is kept.
    pub whole: Option<Arc<str>>,
}

impl ToolResult {
    /// A result that is nothing but this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())], ..Self::default() }
    }

    /// The failure of a tool in these words.
    pub fn failure(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// The pictures, in order.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.parts.iter().filter_map(|part| match part {
            Part::Image(image) => Some(image),
            _ => None,
        })
    }

    /// All parts as one text: a line for what is no text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            if !text.is_empty() {
                text.push('\n');
            }
            // Writing into a string cannot fail.
            let _ = match part {
                Part::Text(own) => write!(text, "{own}"),
                Part::Structured(value) => write!(text, "{value}"),
                Part::Image(image) => write!(text, "[image: {}, {} bytes]", image.mime, image.bytes.len()),
                Part::Link(Link { uri, name, description: Some(about) }) => {
                    write!(text, "[link: {name} <{uri}>: {about}]")
                }
                Part::Link(Link { uri, name, description: None }) => write!(text, "[link: {name} <{uri}>]"),
                Part::Resource { uri, text: own } => write!(text, "[resource: {uri}]\n{own}"),
                Part::Omitted(about) => write!(text, "[{about}]"),
            };
        }
        text
    }

    /// The same within its bounds: a text that is too long keeps its head and its tail with a line between them that says what
    /// is missing, and images beyond the bounds become words.
    #[must_use]
    pub fn within(mut self, limits: ResultLimits) -> Self {
        let mut images = 0;
        for part in &mut self.parts {
            let Part::Image(image) = part else { continue };
            images += 1;
            if images > limits.images || image.bytes.len() > limits.image_bytes {
                *part = Part::Omitted(format!("image left out: {}, {} bytes", image.mime, image.bytes.len()));
            }
        }
        let text = self.to_text();
        if text.len() <= limits.shown {
            return self;
        }
        let bytes = self.cut.as_ref().map_or(text.len() as u64, |cut| cut.bytes.max(text.len() as u64));
        let shown = head_and_tail(&text, limits.shown, bytes);
        let complete = self.cut.is_none() && text.len() <= limits.kept;
        let pictures = self.parts.into_iter().filter(|part| matches!(part, Part::Image(_)));
        let parts = std::iter::once(Part::Text(shown)).chain(pictures).collect();
        Self { parts, is_error: self.is_error, cut: Some(Cut { bytes, whole: complete.then(|| text.into()) }) }
    }
}

/// Bytes that the line about a cut takes at most.
const MARKER_BYTES: usize = 64;

/// The first three quarters and the last quarter of `most` bytes of a text, cut between characters, with a line between them.
fn head_and_tail(text: &str, most: usize, bytes: u64) -> String {
    let room = most.saturating_sub(MARKER_BYTES);
    let head = &text[..text.floor_char_boundary(room - room / 4)];
    let tail = &text[text.ceil_char_boundary(text.len() - room / 4)..];
    let missing = bytes.saturating_sub((head.len() + tail.len()) as u64);
    let shown = format!("{head}\n[... {missing} of {bytes} bytes left out ...]\n{tail}");
    if shown.len() <= most { shown } else { text[..text.floor_char_boundary(most)].to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(shown: usize, kept: usize) -> ResultLimits {
        ResultLimits { shown, kept, images: 1, image_bytes: 10 }
    }

    #[test]
    fn what_fits_is_left_alone() {
        let result = ToolResult::text("short");
        assert_eq!(result.clone().within(limits(5, 5)), result);
    }

    #[test]
    fn a_long_text_keeps_head_and_tail_and_can_be_paged() {
        let whole = format!("begin{}end", "ä".repeat(1_000));
        let cut = ToolResult::text(whole.clone()).within(limits(400, 10_000));
        let text = cut.to_text();
        assert!(text.len() <= 400 && text.starts_with("beginä") && text.ends_with("äend"), "{text}");
        assert!(text.contains(" of 2008 bytes left out ...]"), "{text}");
        assert_eq!(cut.cut.unwrap().whole.as_deref(), Some(&*whole));
        let lost = ToolResult::text(whole).within(limits(400, 1_000));
        assert_eq!(lost.cut, Some(Cut { bytes: 2_008, whole: None }));
    }

    #[test]
    fn tiny_bounds_still_hold() {
        for shown in 1..200 {
            let cut = ToolResult::text("ä".repeat(500)).within(limits(shown, 0));
            assert!(cut.to_text().len() <= shown, "{shown}");
        }
    }

    #[test]
    fn images_beyond_the_bounds_become_words() {
        let image = |bytes: usize| Part::Image(Image { mime: "image/png".into(), bytes: vec![0; bytes].into() });
        let result = ToolResult { parts: vec![image(10), image(10), image(11)], ..ToolResult::default() };
        let kept = result.within(limits(1_000, 0));
        assert_eq!(kept.images().count(), 1);
        assert!(kept.to_text().contains("[image left out: image/png, 11 bytes]"), "{}", kept.to_text());
        assert_eq!(kept.cut, None);
    }
}
