//! Tools of other processes, over NATS. A process that announces its tools becomes a tool server with its own actor,
//! circuit breaker, pins and rights. `wire.rs` has the subjects and payloads.
//!
//! ```text
//!   provider                                  NATS                                    this program
//!     │ <──────────────────────────── staffai.tools.discover ────────────────────────────── │  at startup
//!     │ ── staffai.tools.announce {provider, instance, tools} ─────────────────────────────▶ │
//!     │ ── staffai.tools.heartbeat {provider, instance} ── every 5 s ──────────────────────▶ │  removed after 15 s without
//!     │ <── staffai.tools.call.<provider> {call, tool, arguments, deadline_ms} ─ request ─── │
//!     │ ── the result, to the inbox of the request ────────────────────────────────────────▶ │
//!     │ <── staffai.tools.cancel.<provider> {call} ── when the caller gave up ────────────── │
//!     │ ── staffai.tools.withdraw {provider, instance} ────────────────────────────────────▶ │
//! ```
//!
//! Instances of one provider share its calls as a queue group. The accounts and permissions of the NATS server decide
//! which clients may publish on these subjects. A provider's own statements about side effects are not trusted.

mod provider;
mod roster;
mod wire;

#[cfg(test)]
mod fuzz;

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Message};
use async_trait::async_trait;
use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::provider::Provider;
use self::roster::Roster;
use self::wire::Heard;
use super::failure::{Failure, MESSAGE_MAX, one_line, root_cause};
use nats::inlet::{Arrival, Bounds, Dropped, Inlet};
use nats::{self, Current, LOST, NatsSession};
use ports::tools::{ConnectError, ServerEntry, Transport};
use ports::{AnnouncedSink, ToolProviders, ToolServer};
use telemetry::events::{PROVIDERS_LISTENING, PROVIDERS_ODD};

/// The interval of checking for providers without heartbeats.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two discovery requests, and between two log lines about unusable announcements.
const PAUSE: Duration = Duration::from_secs(1);
/// The bounds of the messages that wait to be read.
const WAITING: Bounds = Bounds { messages: 128, bytes: 16 * 1024 * 1024, longest: wire::ANNOUNCEMENT_MAX };
/// The size in bytes above which a payload is parsed on a blocking thread.
const READ_HERE: usize = 32 * 1024;

/// Parses a payload of `bytes` bytes without blocking other tasks.
async fn read<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    if bytes <= READ_HERE {
        return work();
    }
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// The processes that provide tools over one NATS.
pub struct NatsProviders {
    url: SecretString,
    roster: Arc<Mutex<Roster>>,
    session: Mutex<Option<NatsSession>>,
}

impl NatsProviders {
    /// Creates the providers at this address, which may contain credentials. Does not connect yet.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self { url, roster: Arc::default(), session: Mutex::new(None) }
    }

    /// Returns the tool server of an announced provider.
    pub(super) fn connect(&self, entry: &ServerEntry) -> Result<Arc<dyn ToolServer>, ConnectError> {
        let session = self.session.lock().clone().filter(|session| !session.lost.is_cancelled());
        let unreachable = |why: &str| Failure::Unreachable(why.to_owned()).of_connect();
        let session = session.ok_or_else(|| unreachable("there is no connection to NATS"))?;
        let known = self.roster.lock().known(&entry.name);
        let known = known.ok_or_else(|| unreachable("the process that provides it is gone"))?;
        Ok(Arc::new(Provider::new(entry.name.clone(), session, Arc::clone(&self.roster), known)))
    }

    /// Connects, sends a discovery request, and listens until the connection is lost.
    async fn session(&self, announced: &AnnouncedSink) -> Result<(), String> {
        let session = nats::connect(&self.url).await?;
        let client = &session.client;
        let (mut asked, mut odd) = (Pace::default(), Pace::default());
        let failed = |error: &dyn std::error::Error| root_cause(error);
        let heard = client.subscribe(wire::HEARD).await.map_err(|error| failed(&error))?;
        let mut heard = Inlet::new(vec![heard], WAITING, wire::is_heard);
        self.roster.lock().all_alive(Instant::now());
        let _current = Current::new(&self.session, &session);
        client.publish(wire::DISCOVER, "{}".into()).await.map_err(|error| failed(&error))?;
        tracing::info!(event = PROVIDERS_LISTENING, "listening for processes that provide tools");
        self.tell(announced);
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                arrival = heard.next() => {
                    let Some(arrival) = arrival else { return Err("the subscription ended".to_owned()) };
                    self.hear(client, arrival, (&mut asked, &mut odd), announced).await;
                }
                _ = look.tick() => {
                    if self.roster.lock().forget_silent(Instant::now()) {
                        self.tell(announced);
                    }
                }
                () = session.lost.cancelled() => return Err(LOST.to_owned()),
            }
        }
    }

    async fn hear(
        &self,
        client: &Client,
        arrival: Arrival,
        (asked, odd): (&mut Pace, &mut Pace),
        announced: &AnnouncedSink,
    ) {
        let read = match arrival {
            Arrival::Message(Message { subject, payload, .. }, _held) => {
                read(payload.len(), move || wire::heard(&subject, &payload)).await
            }
            Arrival::TooLong(Dropped { subject, .. }) => Err(wire::too_long(&subject)),
            Arrival::Crowded(Dropped { subject, .. }) => {
                Err(format!("{subject}: messages arrive faster than they are read"))
            }
        };
        let told = match read {
            Ok(Heard::Announced(announcement)) => self.roster.lock().announced(*announcement, Instant::now()),
            Ok(Heard::Alive(instance)) => {
                let known = self.roster.lock().alive(&instance, Instant::now());
                if !known && asked.is_due() {
                    // The announcement was lost, or sent before this program started. If this request is lost too, the
                    // next heartbeat triggers another.
                    let _ = client.publish(wire::DISCOVER, "{}".into()).await;
                }
                Ok(false)
            }
            Ok(Heard::Withdrawn(instance)) => Ok(self.roster.lock().withdrawn(&instance)),
            Ok(Heard::Other) => Ok(false),
            Err(why) => Err(why),
        };
        match told {
            Ok(true) => self.tell(announced),
            Err(why) if odd.is_due() => {
                let reason = one_line(&why, MESSAGE_MAX);
                tracing::warn!(event = PROVIDERS_ODD, reason, "the announcement of a process is ignored");
            }
            Ok(false) | Err(_) => {}
        }
    }

    fn tell(&self, announced: &AnnouncedSink) {
        let names = self.roster.lock().names();
        announced(names.into_iter().map(|name| ServerEntry::new(name, Transport::Provider)).collect());
    }
}

/// Limits an action that many messages can trigger to once per [`PAUSE`].
#[derive(Default)]
struct Pace(Option<Instant>);

impl Pace {
    fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= PAUSE);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}

#[async_trait]
impl ToolProviders for NatsProviders {
    async fn listen(&self, announced: AnnouncedSink) -> String {
        self.session(&announced).await.err().unwrap_or_default()
    }
}
