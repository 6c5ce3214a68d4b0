//! What a server sends without being asked: notices, comments, blank lines, and words that are no messages. All of it has a rate;
//! a server that goes beyond it is disconnected.

use parking_lot::Mutex;
use tokio::time::Instant;

use super::bucket::Bucket;

/// Seconds for which a server may send more than its rate in one go.
const BURST_SECONDS: f64 = 10.0;
/// Messages of one server a second.
const MESSAGES: f64 = 2_000.0;
/// Lines that are no messages and count as one: comments, blank lines, the names and ids of events.
const LINES_A_MESSAGE: f64 = 4.0;
/// Bytes of one server a second while no request of ours waits for its answer. While one waits, its deadline is the bound.
const BYTES: f64 = 8.0 * 1024.0 * 1024.0;

/// What one server has sent.
pub(super) struct Unasked(Mutex<Rates>);

struct Rates {
    messages: Bucket,
    bytes: Bucket,
}

impl Default for Unasked {
    fn default() -> Self {
        let of = |rate: f64| Bucket::new(rate, rate * BURST_SECONDS);
        Self(Mutex::new(Rates { messages: of(MESSAGES), bytes: of(BYTES) }))
    }
}

impl Unasked {
    /// Counts bytes, and lines that are no messages.
    ///
    /// # Errors
    /// The reason to disconnect the server.
    #[expect(clippy::cast_precision_loss, reason = "a piece of a stream is far below the bound of exact numbers")]
    pub(super) fn bytes(&self, bytes: usize, lines: usize) -> Result<(), String> {
        let (mut rates, now) = (self.0.lock(), Instant::now());
        if !rates.bytes.take(bytes as f64, now) {
            let mebibytes = BYTES / 1024.0 / 1024.0;
            return Err(format!("it sent more than {mebibytes} MiB a second without being asked and was disconnected"));
        }
        if rates.messages.take(lines as f64 / LINES_A_MESSAGE, now) { Ok(()) } else { Err(too_many()) }
    }

    /// Counts one message.
    ///
    /// # Errors
    /// The reason to disconnect the server.
    pub(super) fn message(&self) -> Result<(), String> {
        if self.0.lock().messages.take(1.0, Instant::now()) { Ok(()) } else { Err(too_many()) }
    }

    /// The message that was counted last answers a request of ours.
    pub(super) fn was_asked(&self) {
        self.0.lock().messages.give_back(1.0);
    }
}

fn too_many() -> String {
    format!("it sent more than {MESSAGES} messages a second without being asked and was disconnected")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_within_its_rate_is_never_disconnected() {
        let unasked = Unasked::default();
        for _ in 0..10_000 {
            for _ in 0..50 {
                unasked.message().unwrap();
                unasked.message().unwrap();
                unasked.was_asked();
            }
            unasked.bytes(100 * 1024, 100).unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_beyond_its_rate_is_disconnected_after_ten_seconds_worth() {
        fn flood(one: impl Fn(&Unasked) -> Result<(), String>) -> (u32, String) {
            let unasked = Unasked::default();
            (0..100_000).find_map(|count| one(&unasked).err().map(|reason| (count, reason))).unwrap()
        }
        let (count, reason) = flood(Unasked::message);
        assert!(count == 20_000 && reason.contains("2000 messages a second"), "{count} {reason}");
        let (count, reason) = flood(|unasked| unasked.bytes(1, 1));
        assert!(count == 80_000 && reason.contains("2000 messages a second"), "{count} {reason}");
        let (count, reason) = flood(|unasked| unasked.bytes(64 * 1024, 0));
        assert!(count == 1_280 && reason.contains("8 MiB a second"), "{count} {reason}");
    }
}
