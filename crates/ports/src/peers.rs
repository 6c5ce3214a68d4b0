//! The processes among which the work of one bot is divided.

use std::time::Duration;

use async_trait::async_trait;

/// The agreements between the processes of a division. A failed request may be repeated.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Returns the number of connections to the platform on which all processes agree: the first proposal, as long as
    /// any of them runs.
    ///
    /// # Errors
    /// There is no answer, as a sentence; the caller must not connect.
    async fn agree_on_shards(&self, proposed: u32) -> Result<u32, String>;

    /// Reserves the next identify in a bucket. Zero: this process may identify now, and no process may do so again until
    /// `pause` is over. Otherwise the time to wait before the next request.
    ///
    /// # Errors
    /// There is no answer, as a sentence; the caller must not identify.
    async fn reserve_identify(&self, bucket: u32, pause: Duration) -> Result<Duration, String>;
}
