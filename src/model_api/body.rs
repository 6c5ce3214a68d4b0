//! Bodies of requests: bounded each and together, and read without holding a thread for long.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::failure::Failure;

/// The longest body, in bytes.
pub(super) const BODY_MAX: usize = 1024 * 1024;
/// How long a request waits for the room that it needs.
const ROOM_WITHIN: Duration = Duration::from_secs(3);
/// A body that is longer is read on a thread for blocking work.
const LONG: usize = 32 * 1024;

/// Reads a body as JSON. The permit holds the room that it takes.
pub(super) async fn read<T: DeserializeOwned + Send + 'static>(
    room: &Arc<Semaphore>,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, OwnedSemaphorePermit), Failure> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let most = length.unwrap_or(BODY_MAX);
    if most > BODY_MAX {
        return Err(Failure::TooLarge(BODY_MAX));
    }
    let kib = u32::try_from(most / 1024 + 1).unwrap_or(u32::MAX);
    let permit = timeout(ROOM_WITHIN, Arc::clone(room).acquire_many_owned(kib)).await;
    let Ok(Ok(permit)) = permit else {
        return Err(Failure::Busy("too many long conversations at once; try again in a moment".to_owned()));
    };
    let bytes = to_bytes(body, BODY_MAX).await.map_err(|_| Failure::TooLarge(BODY_MAX))?;
    let parse = move || serde_json::from_slice::<T>(&bytes).map_err(|error| Failure::bad("", error.to_string()));
    let read = if most > LONG {
        let gone = |_| Failure::Internal("the request was not read".to_owned());
        tokio::task::spawn_blocking(parse).await.map_err(gone)?
    } else {
        parse()
    };
    Ok((read?, permit))
}
