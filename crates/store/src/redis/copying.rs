//! A copy of all texts of a server, however many, each as of the moment of its read. Keys of other types are skipped: they
//! are limit windows, which expire within a minute.

use std::time::Duration;

use ::redis::{RedisResult, cmd};
use tokio::sync::mpsc;

use super::pool::Link;
use super::scanning::Names;
use super::text;
use ports::StoredRow;

/// Sends each text with its expiry, possibly more than once if the server moves its keys meanwhile. Stops when the receiver is
/// dropped.
pub async fn copy(link: &mut Link, to: &mpsc::Sender<StoredRow>) -> RedisResult<()> {
    let mut names = Names::new(link, "*".to_owned()).await?;
    while let Some(keys) = names.next(link).await? {
        // A cluster requires a separate command for each key.
        for key in keys {
            let value: Result<Option<Vec<u8>>, _> = cmd("GET").arg(&key).query_async(link).await;
            let value = match value {
                Ok(Some(value)) => text(value),
                Ok(None) => continue,
                Err(error) if error.code() == Some("WRONGTYPE") => continue,
                Err(error) => return Err(error),
            };
            // Negative: it has no expiry, or was removed in the meantime.
            let left: i64 = cmd("PTTL").arg(&key).query_async(link).await?;
            let ttl = u64::try_from(left).ok().map(Duration::from_millis);
            if to.send(StoredRow { key, value, ttl }).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
