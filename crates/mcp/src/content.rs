//! Reads results of calls block by block, within bounds. Tolerates missing content, text only in the structured
//! content, a bare text or list, and unknown block types.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::frame::Oversized;
use super::lenient::{bounded, unescaped};
use domain::tool::{Blob, Cut, Image, Link, Part, ResultLimits, ToolResult};

/// The most blocks kept of one result; further ones are counted.
const BLOCKS_MAX: usize = 2_000;
/// The longest media type kept, in Unicode scalar values.
const MIME_CHARS: usize = 120;

/// Reads the result of a call.
///
/// # Errors
/// A sentence with the reason: the server requests an unsupported feature, or the result is unreadable.
pub(super) fn result(raw: &RawValue, limits: ResultLimits) -> Result<ToolResult, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
        #[serde(borrow, default)]
        structured_content: Option<&'a RawValue>,
        #[serde(default)]
        is_error: Option<bool>,
        #[serde(borrow, default)]
        result_type: Option<Cow<'a, str>>,
    }
    let text = raw.get();
    let mut gathered = Gathered::new(limits);
    if !text.starts_with('{') {
        gathered.content(raw)?;
        return Ok(gathered.finish(false));
    }
    let wire: Wire<'_> = serde_json::from_str(text).map_err(|error| format!("the result cannot be read: {error}"))?;
    match wire.result_type.as_deref() {
        None | Some("complete") => {}
        Some("input_required") => return Err("it asks for more input, which is offered for calls only".to_owned()),
        Some(other) => return Err(format!("the result type {other} is not supported")),
    }
    if let Some(content) = wire.content {
        gathered.content(content)?;
    }
    if !gathered.has_text() {
        let nothing_else = wire.content.is_none() && wire.is_error.is_none();
        match wire.structured_content {
            Some(structured) if structured.get() != "null" => gathered.structured(structured),
            None if nothing_else && text != "{}" => gathered.structured(raw),
            _ => {}
        }
    }
    Ok(gathered.finish(wire.is_error == Some(true)))
}

/// Returns the readable parts of an oversized answer: the texts in its head and tail.
pub(super) fn oversized(frame: &Oversized, limits: ResultLimits) -> ToolResult {
    let head = String::from_utf8_lossy(&frame.head);
    let head = head.find("\"text\":").map_or(&*head, |at| head[at + 7..].trim_start().trim_start_matches('"'));
    let tail = String::from_utf8_lossy(&frame.tail);
    let parts = vec![Part::Text(unescaped(head)), Part::Text(unescaped(&tail))];
    let result = ToolResult { parts, is_error: false, cut: Some(Cut { bytes: frame.bytes, whole: None }) };
    result.within(limits)
}

/// Reads a resource, the answer to `resources/read`.
///
/// # Errors
/// It is unreadable.
pub(super) fn resource(raw: &RawValue, limits: ResultLimits) -> Result<ToolResult, String> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow)]
        contents: &'a RawValue,
    }
    let wire: Wire<'_> =
        serde_json::from_str(raw.get()).map_err(|error| format!("the resource cannot be read: {error}"))?;
    let mut gathered = Gathered::new(limits);
    for content in bounded::<BLOCKS_MAX>(wire.contents.get().as_bytes()) {
        match serde_json::from_str::<WireResource<'_>>(content.get()) {
            Ok(resource) => gathered.resource(resource),
            Err(error) => gathered.push(Part::Omitted(format!("an unreadable part: {error}"))),
        }
    }
    Ok(gathered.finish(false))
}

/// Reads the messages of a prompt, the answer to `prompts/get`.
///
/// # Errors
/// It is unreadable.
pub(super) fn prompt(raw: &RawValue, limits: ResultLimits) -> Result<ToolResult, String> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        role: Cow<'a, str>,
        #[serde(borrow)]
        content: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow)]
        messages: &'a RawValue,
    }
    let wire: Wire<'_> =
        serde_json::from_str(raw.get()).map_err(|error| format!("the prompt cannot be read: {error}"))?;
    let mut gathered = Gathered::new(limits);
    for message in bounded::<BLOCKS_MAX>(wire.messages.get().as_bytes()) {
        let message: Message<'_> =
            serde_json::from_str(message.get()).map_err(|error| format!("the prompt cannot be read: {error}"))?;
        gathered.push(Part::Text(format!("{}:", message.role)));
        gathered.content(message.content)?;
    }
    Ok(gathered.finish(false))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireBlock<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    mime_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    resource: Option<WireResource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireResource<'a> {
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    mime_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    blob: Option<Cow<'a, str>>,
}

/// A text, copied only if it has escapes.
#[derive(Deserialize)]
struct Unescaped<'a>(#[serde(borrow)] Cow<'a, str>);

/// Parts within the bounds. Text beyond the bound is kept as a tail of bounded length.
struct Gathered {
    limits: ResultLimits,
    parts: Vec<Part>,
    images: usize,
    /// Bytes of all text so far.
    bytes: u64,
    /// Bytes of text in the parts.
    kept: usize,
    tail: VecDeque<String>,
    tail_bytes: usize,
    blocks: usize,
}

impl Gathered {
    fn new(limits: ResultLimits) -> Self {
        let (parts, tail) = (Vec::new(), VecDeque::new());
        Self { limits, parts, images: 0, bytes: 0, kept: 0, tail, tail_bytes: 0, blocks: 0 }
    }

    fn has_text(&self) -> bool {
        self.bytes > 0
    }

    /// Adds content: blocks, one block, or a bare text.
    fn content(&mut self, raw: &RawValue) -> Result<(), String> {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'[') => {
                let mut reader = serde_json::Deserializer::from_str(text);
                reader.deserialize_seq(Blocks(self)).map_err(|error| format!("the content cannot be read: {error}"))
            }
            Some(b'"') => {
                let text: Unescaped<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
                self.text(&text.0);
                Ok(())
            }
            Some(b'n') => Ok(()),
            _ => {
                self.block(raw);
                Ok(())
            }
        }
    }

    fn block(&mut self, raw: &RawValue) {
        self.blocks += 1;
        let Ok(block) = serde_json::from_str::<WireBlock<'_>>(raw.get()) else {
            self.structured(raw);
            return;
        };
        let WireBlock { kind, text, data, mime_type, uri, name, description, resource } = block;
        match (kind.as_deref(), text, data, resource) {
            (Some("text") | None, Some(text), _, _) => self.text(&text),
            (Some("image"), _, Some(data), _) => self.image(mime_type.as_deref().unwrap_or("image"), &data),
            (Some("audio"), _, Some(data), _) => {
                self.push(Part::Omitted(format!("sound left out: {} bytes", data.len() / 4 * 3)));
            }
            (Some("resource"), _, _, Some(resource)) => self.resource(resource),
            (Some("resource_link"), ..) => {
                let uri = uri.unwrap_or_default().into_owned();
                let name = name.map_or_else(|| uri.clone(), Cow::into_owned);
                self.push(Part::Link(Link { uri, name, description: description.map(Cow::into_owned) }));
            }
            (None, None, ..) => self.structured(raw),
            (Some(other), ..) => {
                let other: String = other.chars().take(40).collect();
                self.push(Part::Omitted(format!("a part of the type {other}, which cannot be shown")));
            }
        }
    }

    fn resource(&mut self, resource: WireResource<'_>) {
        let uri = resource.uri.unwrap_or_default().into_owned();
        match (resource.text, resource.blob, resource.mime_type) {
            (Some(text), ..) => self.push(Part::Resource { uri, text: text.into_owned() }),
            (None, Some(blob), Some(mime)) if mime.starts_with("image/") => self.image(&mime, &blob),
            (None, blob, mime) => self.blob(uri, mime.as_deref(), &blob.unwrap_or_default()),
        }
    }

    fn blob(&mut self, uri: String, mime: Option<&str>, data: &str) {
        let bytes = data.len() / 4 * 3;
        let fits = bytes > 0 && bytes <= self.limits.blob_bytes && self.parts.len() < BLOCKS_MAX;
        match fits.then(|| STANDARD.decode(data).ok()).flatten() {
            Some(bytes) => {
                let mime = mime.map(|mime| mime.chars().take(MIME_CHARS).collect());
                self.parts.push(Part::Blob(Blob { uri, mime, bytes: bytes.into() }));
            }
            None => self.push(Part::Omitted(Blob::about(&uri, bytes))),
        }
    }

    fn image(&mut self, mime: &str, data: &str) {
        self.images += 1;
        let bytes = data.len() / 4 * 3;
        let mime: String = mime.chars().take(MIME_CHARS).collect();
        if self.images > self.limits.images || bytes > self.limits.image_bytes {
            self.push(Part::Omitted(format!("image left out: {mime}, {bytes} bytes")));
            return;
        }
        match STANDARD.decode(data) {
            Ok(bytes) => self.parts.push(Part::Image(Image { mime, bytes: bytes.into() })),
            Err(_) => self.push(Part::Omitted(format!("image left out: {mime} with invalid base64"))),
        }
    }

    /// Adds structured data: parsed if it is short, otherwise as text, because a tree of eight megabytes would take
    /// hundreds.
    fn structured(&mut self, raw: &RawValue) {
        let short = raw.get().len() <= self.limits.shown && self.kept < self.limits.shown;
        let value = short.then(|| serde_json::from_str::<Value>(raw.get()).ok()).flatten();
        let Some(value) = value else { return self.text(raw.get()) };
        self.bytes += raw.get().len() as u64;
        self.kept += raw.get().len();
        self.parts.push(Part::Structured(Arc::new(value)));
    }

    /// Adds a text; copies only the kept part.
    fn text(&mut self, text: &str) {
        if self.fits(text.len()) {
            return self.push(Part::Text(text.to_owned()));
        }
        self.bytes += text.len() as u64;
        self.overflow(text);
    }

    /// True if a part of this length is kept whole.
    fn fits(&self, length: usize) -> bool {
        self.tail.is_empty() && self.kept + length <= self.most() && self.parts.len() < BLOCKS_MAX
    }

    fn most(&self) -> usize {
        self.limits.kept.max(self.limits.shown)
    }

    fn push(&mut self, part: Part) {
        let length = match &part {
            Part::Text(text) => text.len(),
            Part::Resource { uri, text } => uri.len() + text.len(),
            Part::Omitted(about) => about.len(),
            Part::Link(link) => link.uri.len() + link.name.len() + link.description.as_ref().map_or(0, String::len),
            Part::Structured(_) | Part::Image(_) | Part::Blob(_) => 0,
        };
        self.bytes += length as u64;
        if self.fits(length) {
            self.kept += length;
            self.parts.push(part);
            return;
        }
        self.overflow(&ToolResult { parts: vec![part], ..ToolResult::default() }.to_text());
    }

    /// Adds a text beyond the bound.
    fn overflow(&mut self, mut text: &str) {
        let most = self.most();
        if self.tail.is_empty() && self.kept < most {
            // The part that crosses the bound begins in the kept text and may end in the tail.
            let at = text.floor_char_boundary((most - self.kept).min(text.len()));
            let (kept, rest) = text.split_at(at);
            self.kept += kept.len();
            self.parts.push(Part::Text(kept.to_owned()));
            if rest.is_empty() {
                return;
            }
            text = rest;
        }
        let text = &text[text.ceil_char_boundary(text.len().saturating_sub(self.limits.shown))..];
        self.tail_bytes += text.len();
        self.tail.push_back(text.to_owned());
        while self.tail.len() > 1 && self.tail_bytes - self.tail[0].len() >= self.limits.shown {
            let gone = self.tail.pop_front();
            self.tail_bytes -= gone.map_or(0, |text| text.len());
        }
    }

    fn finish(mut self, is_error: bool) -> ToolResult {
        let cut = (!self.tail.is_empty()).then_some(Cut { bytes: self.bytes, whole: None });
        self.parts.extend(self.tail.into_iter().map(Part::Text));
        ToolResult { parts: self.parts, is_error, cut }.within(self.limits)
    }
}

/// Reads blocks one by one, so that memory is only used for the kept ones.
struct Blocks<'g>(&'g mut Gathered);

impl<'de> Visitor<'de> for Blocks<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of parts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<(), A::Error> {
        while self.0.blocks < BLOCKS_MAX {
            let Some(block) = blocks.next_element::<&RawValue>()? else { return Ok(()) };
            self.0.block(block);
        }
        let mut more = 0_u64;
        while blocks.next_element::<IgnoredAny>()?.is_some() {
            more += 1;
        }
        if more > 0 {
            self.0.push(Part::Omitted(format!("{more} more parts left out")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
