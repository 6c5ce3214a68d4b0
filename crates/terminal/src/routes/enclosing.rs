//! Reads a submitted message with its files. Memory for long bodies is reserved before they are read.

use std::fmt;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Parts;
use super::submit::{Submit, TEXT_MAX};
use super::typed::InputRefusal;
use crate::DOOR;
use domain::api_key::Caller;
use domain::attachment::{Attachment, MAX_ATTACHMENTS};
use domain::ids::Person;
use domain::incoming::Incoming;
use ports::shares::Share;
use ports::{SentFile, blocking};

/// Maximum size of a body without a reservation of memory, in bytes.
const SHORT_MAX: usize = 64 * 1024;
/// Maximum size of a body, in bytes; most of it is files in base64.
const BODY_MAX: usize = 8 << 20;
/// Maximum length of the claims about a file, in bytes.
const CLAIM_MAX: usize = 256;

/// A file of a submitted message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedFile {
    /// The file name, at most 256 bytes.
    pub name: String,
    /// The media type, such as `application/pdf`. Without it, the end of the name counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The content; base64 in JSON.
    #[serde(serialize_with = "encoded", deserialize_with = "decoded")]
    pub data: Vec<u8>,
}

/// Reads attachments. Of those beyond the permitted number, only one is kept.
pub(super) fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SubmittedFile>, D::Error> {
    struct Few;

    impl<'de> Visitor<'de> for Few {
        type Value = Vec<SubmittedFile>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of attachments")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<SubmittedFile>, A::Error> {
            let mut files = Vec::new();
            while files.len() <= MAX_ATTACHMENTS
                && let Some(file) = list.next_element()?
            {
                files.push(file);
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(files)
        }
    }

    deserializer.deserialize_seq(Few)
}

fn encoded<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn decoded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct Encoded;

    impl Visitor<'_> for Encoded {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        // A text that the parser lends is not copied.
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
            STANDARD.decode(text).map_err(|_| E::custom("data of an attachment is not valid base64"))
        }
    }

    deserializer.deserialize_str(Encoded)
}

/// A submitted message, and the memory permit of its files if it has any.
pub(super) struct Received {
    pub body: Submit,
    pub room: Option<Share>,
}

/// Reads a message.
///
/// # Errors
/// The refusal: a wrong form or size, or no memory for its files now.
pub(super) async fn receive(
    parts: &Parts,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<Received, InputRefusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !is_json(kind) {
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON, with Content-Type: application/json"));
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let most = length.unwrap_or(SHORT_MAX);
    let too_long = || refusal(StatusCode::PAYLOAD_TOO_LARGE, "the message is too long");
    if most > BODY_MAX {
        discard(body).await;
        return Err(too_long());
    }
    let person = Person::new(DOOR, caller.name());
    let busy = || refusal(StatusCode::SERVICE_UNAVAILABLE, "too many files at once; try again in a moment");
    let reserve = async |bytes: usize| parts.sessions.room_of_files(&person, bytes).await.ok_or_else(busy);
    let mut room = if most > SHORT_MAX { Some(reserve(most).await?) } else { None };
    let bytes = to_bytes(body, most).await.map_err(|_| too_long())?;
    let read = bytes.len();
    let parse = move || Json::<Submit>::from_bytes(&bytes);
    let parsed = if read > SHORT_MAX {
        blocking(parse).await.map_err(|_| refusal(StatusCode::INTERNAL_SERVER_ERROR, "the message was not read"))?
    } else {
        parse()
    };
    let Json(body) = parsed.map_err(|rejection| refusal(rejection.status(), &rejection.body_text()))?;
    if body.text.len() > TEXT_MAX {
        return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, "the text is too long"));
    }
    check(&body.attachments).map_err(|why| refusal(StatusCode::BAD_REQUEST, &why))?;
    if body.attachments.is_empty() {
        room = None;
    } else if room.is_none() {
        room = Some(reserve(read).await?);
    }
    Ok(Received { body, room })
}

/// Reads a body that is refused, up to twice its bound: clients that fail to send the rest do not read the refusal.
async fn discard(body: Body) {
    let (mut parts, mut read) = (body.into_data_stream(), 0);
    while read < 2 * BODY_MAX
        && let Some(Ok(part)) = parts.next().await
    {
        read += part.len();
    }
}

fn refusal(status: StatusCode, why: &str) -> InputRefusal {
    (status, why.to_owned())
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn check(files: &[SubmittedFile]) -> Result<(), String> {
    if files.len() > MAX_ATTACHMENTS {
        return Err(format!("send at most {MAX_ATTACHMENTS} attachments"));
    }
    let long = |file: &SubmittedFile| {
        file.name.len() > CLAIM_MAX || file.media_type.as_ref().is_some_and(|kind| kind.len() > CLAIM_MAX)
    };
    if files.iter().any(long) {
        return Err(format!("names and media types of attachments have at most {CLAIM_MAX} bytes"));
    }
    Ok(())
}

/// Holds the files of a message for its turn. A command has none.
pub(super) fn attach(parts: &Parts, incoming: &mut Incoming, files: Vec<SubmittedFile>, room: Option<Share>) {
    let (Incoming::Posted(posted), Some(room)) = (incoming, room) else { return };
    let sent = |SubmittedFile { name, media_type, data }| SentFile {
        file: Attachment { name, ..Attachment::of_bytes(media_type, data.len()) },
        bytes: data,
    };
    posted.attachments = parts.sessions.hold_files(posted, files.into_iter().map(sent).collect(), room);
}
