//! One connection to a NATS server: its login, its bounds and the signal of its end.

pub mod chat_service;
pub mod inlet;

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use domain::restart::Backoff;
use telemetry::events::NATS_ODD;

/// The message for a lost connection.
pub const LOST: &str = "the connection to NATS is lost";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The most buffered messages of one subscription; further ones are dropped. An [`inlet::Inlet`] also bounds their bytes.
const WAITING_MAX: usize = 128;
/// The most buffered requests of one subscription until each is accepted or refused.
const REQUESTS_MAX: usize = 8_192;
/// The most outgoing requests that wait for the connection.
const SENDING_MAX: usize = 256;

/// The backoff before reconnecting. A single address on the operator's own network may be tried often.
pub const RECONNECT: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(3) };

/// The least time between two log lines about the same problem.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Counts events that may occur many thousand times a second, so that one log line per [`TOLD_EVERY`] reports them all.
#[derive(Default)]
struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// Counts one event. If a log line is due, returns the number of events since the last line.
    fn count(&self, now: Instant) -> Option<u64> {
        let (told, times) = &mut *self.0.lock();
        *times += 1;
        if told.is_some_and(|told| now.duration_since(told) < TOLD_EVERY) {
            return None;
        }
        *told = Some(now);
        Some(std::mem::take(times))
    }
}

/// One connection and its state. Cheap to clone.
#[derive(Clone)]
pub struct NatsSession {
    /// The client of the connection.
    pub client: Client,
    /// Cancelled when the connection ends, which also stops the library's own reconnects. Users then open a new
    /// session, so that each of them detects the loss.
    pub lost: CancellationToken,
}

/// Connects with the credentials in the address.
///
/// # Errors
/// Why the connection failed, in one line without a secret.
pub async fn connect(url: &SecretString) -> Result<NatsSession, String> {
    connect_with(url, WAITING_MAX).await
}

/// Connects a door, which owes a reply to each request of a burst.
///
/// # Errors
/// Why the connection failed, in one line without a secret.
pub async fn connect_for_requests(url: &SecretString) -> Result<NatsSession, String> {
    connect_with(url, REQUESTS_MAX).await
}

async fn connect_with(url: &SecretString, waiting: usize) -> Result<NatsSession, String> {
    let lost = CancellationToken::new();
    let ended = lost.clone();
    let (overrun, refused) = (Arc::new(Seldom::default()), Arc::new(Seldom::default()));
    let heard = move |event: Event| {
        let (ended, overrun, refused) = (ended.clone(), Arc::clone(&overrun), Arc::clone(&refused));
        async move {
            match event {
                Event::Disconnected | Event::Closed | Event::Draining | Event::LameDuckMode => ended.cancel(),
                Event::SlowConsumer(_) => {
                    if let Some(times) = overrun.count(Instant::now()) {
                        tracing::warn!(
                            event = NATS_ODD,
                            times,
                            "messages arrive faster than they are read, and some are dropped"
                        );
                    }
                }
                Event::ServerError(error) => {
                    if let Some(times) = refused.count(Instant::now()) {
                        let reason: String = error.to_string().chars().take(200).collect();
                        tracing::warn!(event = NATS_ODD, reason, times, "NATS reports an error");
                    }
                }
                Event::Connected | Event::ClientError(_) => {}
            }
        }
    };
    let server: ServerAddr = url.expose_secret().parse().map_err(|_| "the address is not a NATS address".to_owned())?;
    let options = match (server.username(), server.password()) {
        (Some(user), Some(password)) => ConnectOptions::with_user_and_password(plain(user), plain(password)),
        (Some(token), None) => ConnectOptions::with_token(plain(token)),
        (None, _) => ConnectOptions::new(),
    };
    let options = options
        .name("staffai")
        .connection_timeout(CONNECT_TIMEOUT)
        .request_timeout(None)
        .subscription_capacity(waiting)
        .client_capacity(SENDING_MAX)
        .event_callback(heard);
    let place = format!("NATS at {}:{}", server.host(), server.port());
    let connected = timeout(CONNECT_TIMEOUT, options.connect(server)).await;
    let connected = connected.map_err(|_| format!("{place}: no connection within {} s", CONNECT_TIMEOUT.as_secs()))?;
    connected.map(|client| NatsSession { client, lost }).map_err(|error| format!("{place}: {error}"))
}

/// Publishes a connection for requests and removes it on drop: the library reconnects as long as a client exists.
pub struct Current<'a>(&'a Mutex<Option<NatsSession>>);

impl<'a> Current<'a> {
    /// Makes `session` the current one.
    #[must_use]
    pub fn new(present: &'a Mutex<Option<NatsSession>>, session: &NatsSession) -> Self {
        *present.lock() = Some(session.clone());
        Self(present)
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

/// Decodes a percent-encoded part of an address.
fn plain(part: &str) -> String {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_the_same_event_is_one_line_in_ten_seconds() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.count(start), Some(1));
        assert!((0..100_000).all(|_| seldom.count(start + TOLD_EVERY / 2).is_none()));
        assert_eq!(seldom.count(start + TOLD_EVERY), Some(100_001));
    }
}
