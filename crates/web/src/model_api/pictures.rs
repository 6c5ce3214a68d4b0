//! Pictures in requests: `data:` URLs or base64, decoded while the body is parsed, and only for rows with vision.

use std::sync::Arc;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Deserializer};

use super::ModelApi;
use super::failure::Failure;
use domain::api_key::Caller;
use domain::attachment::{MAX_PICTURE_BYTES, Pixels, Unread};
use domain::completion::Picture;
use domain::given::GivenConversation;
use domain::model::Row;

/// Maximum number of pictures of a conversation.
const PICTURES_MAX: usize = 16;
/// Maximum size of all pictures of a conversation, in bytes.
const ALL_BYTES_MAX: usize = 5 << 20;
/// Maximum size of the text of a conversation and its tools, in bytes.
pub(super) const TEXT_MAX: usize = 1 << 20;
/// The level of detail that equals the default.
const DEFAULT_DETAIL: &str = "auto";
/// Some clients omit the padding.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A picture of a request. It is decoded while the body is parsed, on a thread for blocking work if the body is long.
#[derive(Debug)]
pub(super) struct WirePicture {
    /// The picture, or the reason why it is refused.
    pub picture: Result<Picture, String>,
    /// True if the client asks for a level of detail.
    pub has_detail: bool,
}

/// The formats of clients: an object in chat completions, a string in responses and Ollama.
#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Object { url: String, detail: Option<String> },
}

impl<'de> Deserialize<'de> for WirePicture {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (url, detail) = match Form::deserialize(deserializer)? {
            Form::Text(url) => (url, None),
            Form::Object { url, detail } => (url, detail),
        };
        let has_detail = detail.is_some_and(|detail| detail != DEFAULT_DETAIL);
        Ok(Self { picture: decoded(&url), has_detail })
    }
}

/// Decodes a `data:` URL or base64 text.
fn decoded(url: &str) -> Result<Picture, String> {
    let scheme = url.get(..8).unwrap_or(url).to_ascii_lowercase();
    if scheme.starts_with("http://") || scheme.starts_with("https://") {
        return Err("picture addresses are not fetched; send the picture itself as a data: URL".to_owned());
    }
    let text = match url.split_once(',') {
        Some((head, text)) if scheme.starts_with("data:") && head.ends_with(";base64") => text,
        None if !scheme.starts_with("data:") => url,
        _ => return Err("must be a data: URL with the picture in base64".to_owned()),
    };
    let most = usize::try_from(MAX_PICTURE_BYTES).unwrap_or(usize::MAX);
    let too_long = || format!("is longer than the {} KiB that a picture may have", most >> 10);
    if text.len() / 4 * 3 > most + 2 {
        return Err(too_long());
    }
    let bytes = BASE64.decode(text).map_err(|_| "is not valid base64".to_owned())?;
    if bytes.len() > most {
        return Err(too_long());
    }
    match Pixels::of(&bytes) {
        Ok(Pixels { mime, .. }) => Ok(Picture { about: String::new(), mime, bytes: Arc::from(bytes) }),
        Err(Unread::Pixels) => Err("has too many pixels, or is too long for its width".to_owned()),
        Err(_) => Err("is no PNG, JPEG, GIF or WebP picture".to_owned()),
    }
}

/// Returns the pictures of a field.
///
/// # Errors
/// One of them is invalid.
pub(super) fn read(pictures: Vec<WirePicture>, place: &str) -> Result<Vec<Picture>, Failure> {
    pictures.into_iter().map(|given| given.picture.map_err(|why| Failure::bad(place, why))).collect()
}

impl ModelApi {
    /// Checks the size of text and pictures, and that the row has vision if there are pictures.
    ///
    /// # Errors
    /// The bound that is exceeded, or the row without vision.
    pub(super) fn check_size(&self, caller: &Caller, conversation: &GivenConversation) -> Result<(), Failure> {
        if conversation.text_bytes() > TEXT_MAX {
            return Err(Failure::TooLarge(TEXT_MAX));
        }
        let (count, bytes) = conversation
            .pictures()
            .fold((0, 0_usize), |(count, bytes), picture| (count + 1, bytes.saturating_add(picture.bytes.len())));
        if count == 0 {
            return Ok(());
        }
        if count > PICTURES_MAX || bytes > ALL_BYTES_MAX {
            let most = ALL_BYTES_MAX >> 20;
            let why = format!("send at most {PICTURES_MAX} pictures of {most} MiB together; leave older ones out");
            return Err(Failure::bad("", why));
        }
        let row = self.row(caller, conversation.model.as_deref())?;
        if row.vision {
            return Ok(());
        }
        let (key, seeing) = (&row.key, self.seeing(caller).map(|row| format!("{:?}", row.key)).collect::<Vec<_>>());
        let ask = if seeing.is_empty() { String::new() } else { format!("ask {} instead, or ", seeing.join(" or ")) };
        let why = format!(
            "the model {key:?} takes no pictures; {ask}set \"vision\": true in its row of models.json if it can see"
        );
        Err(Failure::bad("", why))
    }

    /// Returns the keys of the rows that may answer a conversation, fallbacks included; empty for all. With pictures,
    /// only those with vision.
    pub(super) fn answering(&self, caller: &Caller, conversation: &GivenConversation) -> Vec<String> {
        if conversation.pictures().next().is_none() {
            return caller.rows().to_vec();
        }
        self.seeing(caller).map(|row| row.key).collect()
    }

    fn seeing(&self, caller: &Caller) -> impl Iterator<Item = Row> {
        self.rows(caller).into_iter().filter(|row| row.vision)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const GIF: &str = "R0lGODlhAQABAAAAACw=";

    fn of(value: &Value) -> WirePicture {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn pictures_are_read_in_the_forms_of_all_three_wires() {
        let url = format!("data:image/png;base64,{GIF}");
        for (form, has_detail) in [
            (json!({"url": url, "detail": "auto"}), false),
            (json!({"url": url, "detail": "high"}), true),
            (json!(url), false),
            (json!(GIF), false),
            (json!(GIF.trim_end_matches('=')), false),
        ] {
            let read = of(&form);
            assert_eq!(read.picture.unwrap().mime, "image/gif", "the bytes say what it is, not the client: {form}");
            assert_eq!(read.has_detail, has_detail);
        }
    }

    #[test]
    fn what_is_no_picture_is_refused_with_its_reason() {
        let long = "A".repeat(usize::try_from(MAX_PICTURE_BYTES).unwrap() / 3 * 4 + 8);
        // The header of a picture of 9,000 by 1 pixels.
        let wide = BASE64.encode(b"GIF89a\x28\x23\x01\x00\x00\x00\x00\x2c");
        for (text, why) in [
            ("https://example.org/cat.png", "not fetched"),
            ("HTTP://example.org/cat.png", "not fetched"),
            ("data:image/png,abc", "data: URL"),
            ("data:image/png;base64,***", "base64"),
            ("aGVsbG8gdGhlcmU=", "PNG"),
            ("", "PNG"),
            (long.as_str(), "longer"),
            (wide.as_str(), "pixels"),
        ] {
            let refused = of(&json!(text)).picture.unwrap_err();
            assert!(refused.contains(why), "{}: {refused}", &text[..text.len().min(40)]);
        }
    }
}
