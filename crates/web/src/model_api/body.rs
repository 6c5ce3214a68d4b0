//! Reads request bodies with bounds on each and on all together, without blocking the executor.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use super::failure::Failure;
use super::room::{Room, RoomReservation};
use domain::api_key::Caller;

/// Maximum size of a body that cannot hold pictures or has no declared length, in bytes.
pub(super) const BODY_MAX: usize = 1024 * 1024;
/// Maximum size of a conversation, in bytes; most of it is pictures in base64.
pub(super) const CONVERSATION_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of JSON values of a body: each takes many times the memory of its text.
const VALUES_MAX: usize = 50_000;
/// Size from which a body is parsed on a thread for blocking work, in bytes.
const LONG: usize = 32 * 1024;

/// Reads a JSON body of at most [`BODY_MAX`] bytes, and reserves memory for it.
pub(super) async fn read<T: DeserializeOwned + Send + 'static>(
    room: &Arc<Room>,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, RoomReservation), Failure> {
    read_up_to(BODY_MAX, room, caller, headers, body).await
}

/// Reads a conversation of at most [`CONVERSATION_MAX`] bytes.
pub(super) async fn read_conversation<T: DeserializeOwned + Send + 'static>(
    room: &Arc<Room>,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, RoomReservation), Failure> {
    read_up_to(CONVERSATION_MAX, room, caller, headers, body).await
}

async fn read_up_to<T: DeserializeOwned + Send + 'static>(
    longest: usize,
    room: &Arc<Room>,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, RoomReservation), Failure> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    // Memory is reserved before the body is read; a body without a length may not reserve all of it.
    let most = length.unwrap_or(BODY_MAX);
    if most > longest {
        return Err(Failure::TooLarge(longest));
    }
    let mut taken = room.take(caller.name(), kib(most)).await?;
    let bytes = to_bytes(body, most).await.map_err(|_| Failure::TooLarge(most))?;
    taken.shrink(kib(bytes.len()));
    Ok((parsed(bytes).await?, taken))
}

/// Parses JSON with a bounded number of values.
///
/// # Errors
/// It is not valid JSON, or has too many values.
pub(super) async fn parsed<T: DeserializeOwned + Send + 'static>(bytes: Bytes) -> Result<T, Failure> {
    let is_long = bytes.len() > LONG;
    let parse = move || {
        if values(&bytes) > VALUES_MAX {
            return Err(Failure::bad("", format!("holds more than {VALUES_MAX} values; send fewer")));
        }
        serde_json::from_slice::<T>(&bytes).map_err(|error| Failure::bad("", error.to_string()))
    };
    if is_long {
        let gone = |_| Failure::Internal("the request was not read".to_owned());
        tokio::task::spawn_blocking(parse).await.map_err(gone)?
    } else {
        parse()
    }
}

/// Converts bytes to KiB, rounded up.
pub(super) fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX)
}

/// Returns an upper bound of the number of values in a JSON text: each is preceded by one of these characters outside
/// of strings.
fn values(text: &[u8]) -> usize {
    let (mut count, mut inside, mut escaped) = (1, false, false);
    for byte in text {
        match (inside, *byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => inside = !inside,
            (false, b',' | b':' | b'[' | b'{') => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, count) in
            [("7", 1), (r#"{"a": 1}"#, 3), (r#"[1, [2], {"b,:[": "\\\"{[,:"}]"#, 7), (r#""a \" b, c""#, 1)]
        {
            assert_eq!(values(text.as_bytes()), count, "{text}");
        }
    }
}
