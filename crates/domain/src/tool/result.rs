//! Results of tools: untrusted data, truncated to bounds.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

/// The default maximum text size of a result, in bytes.
pub const RESULT_BYTES: usize = 65_536;

/// The bounds of one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultLimits {
    /// Bytes of text that are shown, at least 1.
    pub shown: usize,
    /// Bytes of text that are kept in full beside the shown part, for paging.
    pub kept: usize,
    /// The maximum number of images; further images are described in words.
    pub images: usize,
    /// The maximum size of one image, in bytes; a larger one is described in words.
    pub image_bytes: usize,
    /// The maximum size of one binary resource that is kept, in bytes; 0 keeps none.
    pub blob_bytes: usize,
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self { shown: RESULT_BYTES, kept: 1024 * 1024, images: 4, image_bytes: 4 * 1024 * 1024, blob_bytes: 0 }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// The parts in the order of the source.
    pub parts: Vec<Part>,
    /// True if the tool ran and failed; the parts contain the reason.
    pub is_error: bool,
    /// The truncation; none if the parts are complete.
    pub cut: Option<Cut>,
}

/// One part of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// Data without a text form.
    Structured(Arc<Value>),
    /// An image.
    Image(Image),
    /// A link to a resource of the source.
    Link(Link),
    /// The text of a resource.
    Resource {
        /// The URI at the source.
        uri: String,
        /// The text.
        text: String,
    },
    /// A binary resource.
    Blob(Blob),
    /// A description of content that cannot be shown, such as audio.
    Omitted(String),
}

/// An image in a result.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// The media type declared by the source.
    pub mime: String,
    /// The content of the file.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("mime", &self.mime).field("bytes", &self.bytes.len()).finish()
    }
}

/// The content of a binary resource, such as a document.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// The URI at the source.
    pub uri: String,
    /// The media type declared by the source; none if it declared none.
    pub mime: Option<String>,
    /// The content.
    pub bytes: Arc<[u8]>,
}

impl Blob {
    /// Describes a binary resource in words.
    #[must_use]
    pub fn about(uri: &str, bytes: usize) -> String {
        format!("the resource {uri} is not text: {bytes} bytes")
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uri, mime, bytes } = self;
        f.debug_struct("Blob").field("uri", uri).field("mime", mime).field("bytes", &bytes.len()).finish()
    }
}

/// A link to a resource of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The URI.
    pub uri: String,
    /// The name.
    pub name: String,
    /// The description; none if the source gave none.
    pub description: Option<String>,
}

/// The truncated part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The size of the full text in bytes; an estimate if the source sent more than one message may hold.
    pub bytes: u64,
    /// The full text, for paging; none if it exceeds the maximum that is kept.
    pub whole: Option<Arc<str>>,
}

impl ToolResult {
    /// Builds a result of this text only.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())], ..Self::default() }
    }

    /// Builds a tool failure with this message.
    pub fn failure(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Returns the images, in order.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.parts.iter().filter_map(|part| match part {
            Part::Image(image) => Some(image),
            _ => None,
        })
    }

    /// Returns the binary resources, in order.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.parts.iter().filter_map(|part| match part {
            Part::Blob(blob) => Some(blob),
            _ => None,
        })
    }

    /// Returns all parts as one text, with one line for each part that is not text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            if !text.is_empty() {
                text.push('\n');
            }
            // Writing to a `String` is infallible.
            let _ = match part {
                Part::Text(own) => write!(text, "{own}"),
                Part::Structured(value) => write!(text, "{value}"),
                Part::Image(image) => write!(text, "[image: {}, {} bytes]", image.mime, image.bytes.len()),
                Part::Link(Link { uri, name, description: Some(about) }) => {
                    write!(text, "[link: {name} <{uri}>: {about}]")
                }
                Part::Link(Link { uri, name, description: None }) => write!(text, "[link: {name} <{uri}>]"),
                Part::Resource { uri, text: own } => write!(text, "[resource: {uri}]\n{own}"),
                Part::Blob(Blob { uri, bytes, .. }) => write!(text, "[{}]", Blob::about(uri, bytes.len())),
                Part::Omitted(about) => write!(text, "[{about}]"),
            };
        }
        text
    }

    /// Truncates the result to its bounds. A longer text keeps its head and tail, with a line between them that states
    /// the omission. Images beyond the bounds are replaced by descriptions.
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
        let binary = self.parts.into_iter().filter(|part| matches!(part, Part::Image(_) | Part::Blob(_)));
        let parts = std::iter::once(Part::Text(shown)).chain(binary).collect();
        Self { parts, is_error: self.is_error, cut: Some(Cut { bytes, whole: complete.then(|| text.into()) }) }
    }
}

/// The maximum size of the truncation line, in bytes.
const MARKER_BYTES: usize = 64;

/// Returns the first three quarters and the last quarter of `most` bytes of a text, split at character boundaries, with
/// a line between them.
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
        ResultLimits { shown, kept, images: 1, image_bytes: 10, blob_bytes: 0 }
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
