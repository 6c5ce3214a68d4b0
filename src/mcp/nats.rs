//! Tools of other processes, over NATS. A process announces what it provides, and from then on is one more tool server: it has an
//! actor, a breaker, pins and rights like any other. The subjects and payloads are those of `wire.rs`.
//!
//! ```text
//!   provider                                  NATS                                    this program
//!     │ <──────────────────────────── staffai.tools.discover ────────────────────────────── │  at its start
//!     │ ── staffai.tools.announce {provider, instance, tools} ─────────────────────────────▶ │
//!     │ ── staffai.tools.heartbeat {provider, instance} ── every 5 s ──────────────────────▶ │  silent for 15 s: gone
//!     │ <── staffai.tools.call.<provider> {call, tool, arguments, deadline_ms} ─ request ─── │
//!     │ ── the result, to the inbox of the request ────────────────────────────────────────▶ │
//!     │ <── staffai.tools.cancel.<provider> {call} ── when nobody waits any more ─────────── │
//!     │ ── staffai.tools.withdraw {provider, instance} ────────────────────────────────────▶ │
//! ```
//!
//! Several instances of one provider share its calls as a queue group. Who may publish on these subjects is decided by the accounts
//! and permissions of the NATS server; what a provider says of side effects is not believed.

mod provider;
mod roster;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, Message, ServerAddr};
use async_trait::async_trait;
use futures_util::StreamExt;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use self::provider::Provider;
use self::roster::Roster;
use self::wire::Heard;
use super::failure::{Failure, MESSAGE_MAX, one_line, root_cause};
use crate::ports::tools::{ConnectError, ServerEntry, Transport};
use crate::ports::{AnnouncedSink, ToolProviders, ToolServer};

/// How long connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether providers are still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Messages of one subscription that may wait for us; what comes then is lost, and heard again with the next announcement.
const WAITING_MAX: usize = 128;
/// Requests of ours that may wait for the connection.
const SENDING_MAX: usize = 256;
/// A longer announcement is read on a thread for blocking work.
const READ_HERE: usize = 32 * 1024;

/// What is said of a connection that ended.
const LOST: &str = "the connection to NATS is lost";

/// One connection, and whether it still is.
#[derive(Clone)]
struct Session {
    client: Client,
    /// Cancelled when it ends.
    lost: CancellationToken,
}

/// The processes that provide tools over one NATS.
pub struct NatsProviders {
    url: SecretString,
    roster: Arc<Mutex<Roster>>,
    session: Mutex<Option<Session>>,
}

impl NatsProviders {
    /// The providers at this address, which may hold a login. Nothing is connected yet.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self { url, roster: Arc::default(), session: Mutex::new(None) }
    }

    /// The tool server of a provider that was announced.
    pub(super) fn connect(&self, entry: &ServerEntry) -> Result<Arc<dyn ToolServer>, ConnectError> {
        let session = self.session.lock().clone().filter(|session| !session.lost.is_cancelled());
        let unreachable = |why: &str| Failure::Unreachable(why.to_owned()).of_connect();
        let session = session.ok_or_else(|| unreachable("there is no connection to NATS"))?;
        let known = self.roster.lock().known(&entry.name);
        let known = known.ok_or_else(|| unreachable("the process that provides it is gone"))?;
        Ok(Arc::new(Provider::new(entry.name.clone(), session, Arc::clone(&self.roster), known)))
    }

    /// Connects, asks who is there, and listens until the connection is lost.
    async fn session(&self, announced: &AnnouncedSink) -> Result<(), String> {
        let (client, lost) = connect(&self.url).await?;
        let failed = |error: &dyn std::error::Error| root_cause(error);
        let mut heard = client.subscribe(wire::HEARD).await.map_err(|error| failed(&error))?;
        self.roster.lock().all_alive(Instant::now());
        *self.session.lock() = Some(Session { client: client.clone(), lost: lost.clone() });
        client.publish(wire::DISCOVER, "{}".into()).await.map_err(|error| failed(&error))?;
        tracing::info!(event = "providers.listening", "listening for processes that provide tools");
        self.tell(announced);
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = heard.next() => {
                    let Some(message) = message else { return Err("the subscription ended".to_owned()) };
                    self.hear(&client, message, announced).await;
                }
                _ = look.tick() => {
                    if self.roster.lock().forget_silent(Instant::now()) {
                        self.tell(announced);
                    }
                }
                () = lost.cancelled() => return Err(LOST.to_owned()),
            }
        }
    }

    async fn hear(&self, client: &Client, message: Message, announced: &AnnouncedSink) {
        let Message { subject, payload, .. } = message;
        let read = if payload.len() > READ_HERE {
            let read = tokio::task::spawn_blocking(move || wire::heard(&subject, &payload)).await;
            read.unwrap_or_else(|error| Err(error.to_string()))
        } else {
            wire::heard(&subject, &payload)
        };
        let changed = match read {
            Ok(Heard::Announced(announcement)) => self.roster.lock().announced(*announcement, Instant::now()),
            Ok(Heard::Alive(instance)) => {
                let known = self.roster.lock().alive(&instance, Instant::now());
                if !known {
                    // Its announcement was lost, or is older than we are. If this is lost too, its next sign of life asks again.
                    let _ = client.publish(wire::DISCOVER, "{}".into()).await;
                }
                false
            }
            Ok(Heard::Withdrawn(instance)) => self.roster.lock().withdrawn(&instance),
            Ok(Heard::Other) => false,
            Err(why) => {
                let reason = one_line(&why, MESSAGE_MAX);
                tracing::warn!(event = "providers.odd", reason, "what a process announced cannot be read");
                false
            }
        };
        if changed {
            self.tell(announced);
        }
    }

    fn tell(&self, announced: &AnnouncedSink) {
        let names = self.roster.lock().names();
        announced(names.into_iter().map(|name| ServerEntry::new(name, Transport::Provider)).collect());
    }
}

#[async_trait]
impl ToolProviders for NatsProviders {
    async fn listen(&self, announced: AnnouncedSink) -> String {
        self.session(&announced).await.err().unwrap_or_default()
    }
}

/// A connection, and the word of its end. The library's own attempts to connect again end with the client: its actor begins anew,
/// so that everybody sees that it is gone.
async fn connect(url: &SecretString) -> Result<(Client, CancellationToken), String> {
    let lost = CancellationToken::new();
    let ended = lost.clone();
    let heard = move |event: Event| {
        let ended = ended.clone();
        async move {
            match event {
                Event::Disconnected | Event::Closed | Event::Draining | Event::LameDuckMode => {
                    ended.cancel();
                }
                Event::SlowConsumer(_) => {
                    tracing::warn!(event = "providers.odd", "announcements come faster than they are read");
                }
                Event::ServerError(error) => {
                    let reason = one_line(&error.to_string(), MESSAGE_MAX);
                    tracing::warn!(event = "providers.odd", reason, "NATS refuses something");
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
        .subscription_capacity(WAITING_MAX)
        .client_capacity(SENDING_MAX)
        .event_callback(heard);
    let connected = timeout(CONNECT_WITHIN, options.connect(server)).await;
    let connected = connected.map_err(|_| format!("no connection within {} s", CONNECT_WITHIN.as_secs()))?;
    connected.map(|client| (client, lost)).map_err(|error| root_cause(&error))
}

/// A part of an address as it was meant.
fn plain(part: &str) -> String {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// Whether there is a NATS at this address that lets us in.
///
/// # Errors
/// Why there is none, in one line without a secret.
pub async fn check(url: &SecretString) -> Result<(), String> {
    connect(url).await.map(drop)
}
