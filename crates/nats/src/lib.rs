//! One connection to a NATS server: its login, its bounds, and the word of its end. Edges decide what goes over it.

pub mod chat_service;

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use domain::restart::Backoff;

/// What is said of a connection that ended.
pub const LOST: &str = "the connection to NATS is lost";
/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Messages of one subscription that may wait for us; what comes then is lost.
const WAITING_MAX: usize = 128;
/// Requests of one subscription that may wait until each is taken or refused.
const REQUESTS_MAX: usize = 8_192;
/// Requests of ours that may wait for the connection.
const SENDING_MAX: usize = 256;

/// The pauses before a connection that ended is begun again. One address on the operator's own network may be tried often.
pub const RECONNECT: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(3) };

/// The pause between two log lines about the same trouble.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Counts events that may come many thousand times a second, so that one line in [`TOLD_EVERY`] tells of all.
#[derive(Default)]
struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// Counts one event. Returns how many there were since the last line when a line is due.
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

/// One connection, and whether it still is. Cheap to clone.
#[derive(Clone)]
pub struct Session {
    /// The way to the server.
    pub client: Client,
    /// Cancelled when the connection ends. The library's own attempts to connect again end with the client: whoever needs a
    /// connection begins anew, so that everybody sees that it is gone.
    pub lost: CancellationToken,
}

/// Connects; the login of the address is used.
///
/// # Errors
/// Why there is no connection, in one line without a secret.
pub async fn connect(url: &SecretString) -> Result<Session, String> {
    connect_with(url, WAITING_MAX).await
}

/// The same for a door, where each request of a burst is owed a reply.
///
/// # Errors
/// Why there is no connection, in one line without a secret.
pub async fn connect_for_requests(url: &SecretString) -> Result<Session, String> {
    connect_with(url, REQUESTS_MAX).await
}

async fn connect_with(url: &SecretString, waiting: usize) -> Result<Session, String> {
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
                            event = "nats.odd",
                            times,
                            "messages come faster than they are read, and some are lost"
                        );
                    }
                }
                Event::ServerError(error) => {
                    if let Some(times) = refused.count(Instant::now()) {
                        let reason: String = error.to_string().chars().take(200).collect();
                        tracing::warn!(event = "nats.odd", reason, times, "NATS refuses something");
                    }
                }
                Event::Connected | Event::ClientError(_) => {}
            }
        }
    };
    let server: ServerAddr = url.expose_secret().parse().map_err(|_| "the address is none of NATS".to_owned())?;
    let options = match (server.username(), server.password()) {
        (Some(user), Some(password)) => ConnectOptions::with_user_and_password(plain(user), plain(password)),
        (Some(token), None) => ConnectOptions::with_token(plain(token)),
        (None, _) => ConnectOptions::new(),
    };
    let options = options
        .name("staffai")
        .connection_timeout(CONNECT_WITHIN)
        .request_timeout(None)
        .subscription_capacity(waiting)
        .client_capacity(SENDING_MAX)
        .event_callback(heard);
    let place = format!("NATS at {}:{}", server.host(), server.port());
    let connected = timeout(CONNECT_WITHIN, options.connect(server)).await;
    let connected = connected.map_err(|_| format!("{place}: no connection within {} s", CONNECT_WITHIN.as_secs()))?;
    connected.map(|client| Session { client, lost }).map_err(|error| format!("{place}: {error}"))
}

/// Puts a connection where requests find it, and takes it away when this is dropped: the library goes on connecting as long as
/// somebody holds the client.
pub struct Current<'a>(&'a Mutex<Option<Session>>);

impl<'a> Current<'a> {
    /// `session` is the present one from here on.
    #[must_use]
    pub fn new(present: &'a Mutex<Option<Session>>, session: &Session) -> Self {
        *present.lock() = Some(session.clone());
        Self(present)
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

/// A part of an address as it was meant.
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
