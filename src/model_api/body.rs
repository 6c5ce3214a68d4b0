//! Bodies of requests: bounded each and together, and read without holding a thread for long.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use super::failure::Failure;
use super::room::{Room, Taken};
use crate::domain::api_key::Caller;

/// The longest body, in bytes.
pub(super) const BODY_MAX: usize = 1024 * 1024;
/// The most values in one: each takes many times the memory of its text.
const VALUES_MAX: usize = 50_000;
/// A body that is longer is read on a thread for blocking work.
const LONG: usize = 32 * 1024;

/// Reads a body as JSON, with the room that it takes.
pub(super) async fn read<T: DeserializeOwned + Send + 'static>(
    room: &Arc<Room>,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, Taken), Failure> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let most = length.unwrap_or(BODY_MAX);
    if most > BODY_MAX {
        return Err(Failure::TooLarge(BODY_MAX));
    }
    let mut taken = room.take(caller.name(), kib(most)).await?;
    let bytes = to_bytes(body, BODY_MAX).await.map_err(|_| Failure::TooLarge(BODY_MAX))?;
    taken.shrink(kib(bytes.len()));
    let is_long = bytes.len() > LONG;
    let parse = move || {
        if values(&bytes) > VALUES_MAX {
            return Err(Failure::bad("", format!("holds more than {VALUES_MAX} values; send fewer")));
        }
        serde_json::from_slice::<T>(&bytes).map_err(|error| Failure::bad("", error.to_string()))
    };
    let read = if is_long {
        let gone = |_| Failure::Internal("the request was not read".to_owned());
        tokio::task::spawn_blocking(parse).await.map_err(gone)?
    } else {
        parse()
    };
    Ok((read?, taken))
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX)
}

/// How many values a JSON text holds at most: outside of strings each stands behind one of these marks.
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
