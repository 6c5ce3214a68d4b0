//! Unsolicited data of a server: notifications, comments, blank lines, and text that is not a message. All of it is
//! rate-limited; a server that exceeds a rate is disconnected.

use parking_lot::Mutex;
use tokio::time::Instant;

use super::bucket::Bucket;

/// The burst, in seconds of the rate.
const BURST_SECONDS: f64 = 10.0;
/// The messages of one server per second.
const MESSAGES: f64 = 2_000.0;
/// The number of lines without a message that count as one message: comments, blank lines, names and ids of events.
const LINES_A_MESSAGE: f64 = 4.0;
/// The bytes of one server per second while no request is pending. The deadline of a pending request is the bound
/// otherwise.
const BYTES: f64 = 8.0 * 1024.0 * 1024.0;

/// The counters of one server.
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
    /// Counts bytes, and lines that are not messages.
    ///
    /// # Errors
    /// The reason to disconnect the server.
    #[expect(clippy::cast_precision_loss, reason = "a piece of a stream is far below 2^52 bytes")]
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

    /// Records that the last counted message answers a request.
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
