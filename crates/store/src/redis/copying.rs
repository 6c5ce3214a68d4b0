//! A copy of all texts of a server, each as it is at the moment it is read. Keys of other types are left out: they are windows of
//! limits, which are over within a minute.

use std::time::Duration;

use ::redis::{RedisResult, cmd};
use tokio::sync::mpsc;

use super::pool::Link;
use super::{FETCH, keys, text};
use crate::Steps;
use ports::StoredRow;

/// Sends each text with its end. Ends early when nothing receives any more.
pub async fn copy(link: &mut Link, to: &mpsc::Sender<StoredRow>) -> RedisResult<()> {
    let all: Vec<String> = keys(link, "", &Steps::default()).await?.into_iter().collect();
    for keys in all.chunks(FETCH) {
        // A cluster answers commands about several keys one by one.
        for key in keys {
            let value: Result<Option<Vec<u8>>, _> = cmd("GET").arg(key).query_async(link).await;
            let value = match value {
                Ok(Some(value)) => text(value),
                Ok(None) => continue,
                Err(error) if error.code() == Some("WRONGTYPE") => continue,
                Err(error) => return Err(error),
            };
            // Negative: it has no end, or is gone since.
            let left: i64 = cmd("PTTL").arg(key).query_async(link).await?;
            let ttl = u64::try_from(left).ok().map(Duration::from_millis);
            if to.send(StoredRow { key: key.clone(), value, ttl }).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
