//! A copy of all texts of a server, each as of the moment of its read. Keys of other types are skipped: they are limit
//! windows, which expire within a minute.

use std::time::Duration;

use ::redis::{RedisResult, cmd};
use tokio::sync::mpsc;

use super::pool::Link;
use super::scanning::{FETCH, keys};
use super::text;
use crate::Steps;
use ports::StoredRow;

/// Sends each text with its expiry. Stops when the receiver is dropped.
pub async fn copy(link: &mut Link, to: &mpsc::Sender<StoredRow>) -> RedisResult<()> {
    let all: Vec<String> = keys(link, &[""], &Steps::default()).await?.of.into_iter().flatten().collect();
    for keys in all.chunks(FETCH) {
        // A cluster requires a separate command for each key.
        for key in keys {
            let value: Result<Option<Vec<u8>>, _> = cmd("GET").arg(key).query_async(link).await;
            let value = match value {
                Ok(Some(value)) => text(value),
                Ok(None) => continue,
                Err(error) if error.code() == Some("WRONGTYPE") => continue,
                Err(error) => return Err(error),
            };
            // Negative: it has no expiry, or was removed in the meantime.
            let left: i64 = cmd("PTTL").arg(key).query_async(link).await?;
            let ttl = u64::try_from(left).ok().map(Duration::from_millis);
            if to.send(StoredRow { key: key.clone(), value, ttl }).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
