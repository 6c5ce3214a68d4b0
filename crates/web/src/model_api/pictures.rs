//! Pictures in requests: as `data:` URLs or in base64, decoded while the body is read, and only for rows that see.

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
use domain::given::Conversation;
use domain::model::Row;

/// The most pictures of a conversation.
const PICTURES_MAX: usize = 16;
/// The most bytes of all pictures of a conversation.
const ALL_BYTES_MAX: usize = 5 << 20;
/// The most bytes of the text of a conversation and its tools.
pub(super) const TEXT_MAX: usize = 1 << 20;
/// The level of detail that is no wish of the client.
const DEFAULT_DETAIL: &str = "auto";
/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A picture as a request holds it. It is decoded where the body is read, which is a thread for blocking work if the body is long.
#[derive(Debug)]
pub(super) struct WirePicture {
    /// The picture, or why it is refused.
    pub picture: Result<Picture, String>,
    /// The client asks for a level of detail.
    pub has_detail: bool,
}

/// The forms in which clients write it: chat completions as an object, responses and Ollama as a text.
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

/// The picture in a `data:` URL or a text in base64.
fn decoded(url: &str) -> Result<Picture, String> {
    let scheme = url.get(..8).unwrap_or(url).to_ascii_lowercase();
    if scheme.starts_with("http://") || scheme.starts_with("https://") {
        return Err("addresses of pictures are not fetched here; send the picture itself as a data: URL".to_owned());
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
    let bytes = BASE64.decode(text).map_err(|_| "holds no base64 that can be decoded".to_owned())?;
    if bytes.len() > most {
        return Err(too_long());
    }
    match Pixels::of(&bytes) {
        Ok(Pixels { mime, .. }) => Ok(Picture { about: String::new(), mime, bytes: Arc::from(bytes) }),
        Err(Unread::Pixels) => Err("has too many pixels, or is too long for its width".to_owned()),
        Err(_) => Err("is no PNG, JPEG, GIF or WebP picture".to_owned()),
    }
}

/// The pictures at a place of a request.
///
/// # Errors
/// One of them cannot be used.
pub(super) fn read(pictures: Vec<WirePicture>, place: &str) -> Result<Vec<Picture>, Failure> {
    pictures.into_iter().map(|given| given.picture.map_err(|why| Failure::bad(place, why))).collect()
}

impl ModelApi {
    /// Checks that a conversation is within the bounds of text and pictures, and that the row sees the pictures.
    ///
    /// # Errors
    /// It is not, or the row does not.
    pub(super) fn check_size(&self, caller: &Caller, conversation: &Conversation) -> Result<(), Failure> {
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

    /// The keys of the rows that may answer a conversation, fallbacks included; empty for all. With pictures only those that see.
    pub(super) fn answering(&self, caller: &Caller, conversation: &Conversation) -> Vec<String> {
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
        // A header of a picture of 9,000 by 1 pixels.
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
