//! The answer of an images endpoint: one picture, or what went wrong.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::prices::Usage;
use crate::client::parsed;
use domain::tool::Image;

/// Maximum size of a picture, in bytes.
const IMAGE_BYTES: usize = 4 * 1024 * 1024;

/// An answer of the endpoint.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    data: Option<Vec<Made<'a>>>,
    error: Option<Value>,
    usage: Option<Value>,
}

/// A picture in an answer, as text that is not copied.
#[derive(Deserialize)]
struct Made<'a> {
    #[serde(borrow)]
    b64_json: Option<Encoded<'a>>,
}

/// A text that is borrowed if it has no escapes. Serde borrows a [`Cow`] only directly in a field.
#[derive(Deserialize)]
#[serde(transparent)]
struct Encoded<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns the picture in an answer, with its tokens.
///
/// # Errors
/// What the answer says about the failure.
pub(super) fn read(body: &[u8]) -> Result<(Image, Option<Usage>), String> {
    let answer: Answer<'_> = parsed(body)?;
    let usage = answer.usage.as_ref().and_then(Usage::of);
    let Some(encoded) =
        answer.data.into_iter().flatten().next().and_then(|made| made.b64_json).map(|Encoded(text)| text)
    else {
        let error = answer.error.unwrap_or_default();
        let words = error.get("message").unwrap_or(&error).as_str();
        return Err(words.unwrap_or("its answer contains no picture").to_owned());
    };
    let bytes = STANDARD.decode(encoded.as_bytes()).map_err(|_| "its picture is not encoded in base64".to_owned())?;
    if bytes.len() > IMAGE_BYTES {
        return Err(format!("its picture is longer than {IMAGE_BYTES} bytes"));
    }
    let pixels = domain::attachment::Pixels::of(&bytes).map_err(|_| "its answer is no picture".to_owned())?;
    Ok((Image { mime: pixels.mime.to_owned(), bytes: bytes.into() }, usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_picture_says_why() {
        let long = format!(r#"{{"data": [{{"b64_json": "{}"}}]}}"#, STANDARD.encode(vec![0; IMAGE_BYTES + 1]));
        let many = format!(r#"{{"error": [{}0]}}"#, r#"{"a":0},"#.repeat(700_000));
        for (answer, reason) in [
            ("<html>", "its answer is not JSON"),
            ("{}", "its answer contains no picture"),
            (r#"{"data": [{"url": "http://169.254.169.254/"}]}"#, "its answer contains no picture"),
            (r#"{"error": {"message": "billing limit"}}"#, "billing limit"),
            (r#"{"error": "no such model"}"#, "no such model"),
            (r#"{"data": [{"b64_json": "%%%"}]}"#, "its picture is not encoded in base64"),
            (r#"{"data": [{"b64_json": "PGh0bWw+"}]}"#, "its answer is no picture"),
            (&long, "its picture is longer than 4194304 bytes"),
            (&many, "its answer has too many values"),
        ] {
            assert_eq!(read(answer.as_bytes()).unwrap_err(), reason);
        }
    }
}
