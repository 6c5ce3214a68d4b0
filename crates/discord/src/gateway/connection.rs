//! One connection of the gateway library, with the deadlines that the library lacks.
//!
//! Frames are not compressed: the library's decompressor loops forever on data after the end of a stream, which no
//! timeout could stop. Also the filter before the parser needs the text.
//!
//! The WebSocket upgrade carries no `User-Agent`: `Shard::poll_connect` of `twilight-gateway` 0.18 builds the request
//! itself from a private address, limits and TLS connector, and accepts neither headers nor an open connection.
//! IDENTIFY names the bot.

use std::error::Error;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use twilight_gateway::error::{ReceiveMessageError, ReceiveMessageErrorType};
use twilight_gateway::queue::Queue;
use twilight_gateway::{Config, ConfigBuilder, Intents, Message, ShardId, ShardState};

use crate::Access;
use crate::close;
use crate::rest::{USER_AGENT, bare_token};
use ports::{AfterClose, Closed, GatewaySession, IdentifyPermit, Shard};

/// The operating system of this build, as sent with IDENTIFY.
const SYSTEM: &str = if cfg!(windows) {
    "windows"
} else if cfg!(target_os = "macos") {
    "macos"
} else {
    "linux"
};

/// The timeout from dialling to the peer's HELLO.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout from requesting a session to receiving it; each replayed event restarts it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest accepted heartbeat interval.
const MAX_HEARTBEAT: Duration = Duration::from_secs(120);
/// The grace period added to two heartbeat intervals before a silent peer counts as dead.
const GRACE: Duration = Duration::from_secs(1);
/// The number of polls of the library without an open socket before a pause. A handshake needs about as many.
const ASKS: u32 = 6;
/// Half of the first pause; each pause is twice the previous one, up to some seconds.
const REST: Duration = Duration::from_millis(25);
/// The longest reason of a failed connection, in characters.
const MAX_REASON: usize = 200;

/// The target and the parameters of a connection.
pub(super) struct Plan {
    pub(super) shard: Shard,
    pub(super) address: String,
    pub(super) resume_address: Option<String>,
    pub(super) session: Option<GatewaySession>,
    pub(super) intents: Intents,
    pub(super) presence: Option<Value>,
}

pub(super) struct Frame {
    pub(super) text: String,
    /// True if the gateway library could read the parts that it needs.
    pub(super) understood: bool,
}

pub(super) struct Connection {
    library: Box<twilight_gateway::Shard<Waiting>>,
    /// The same connection at the usual address, used if the resume address brings no HELLO.
    spare: Option<Config<Waiting>>,
    id: ShardId,
    /// The slot for the library's request to identify.
    waiting: Waiting,
    permit: IdentifyPermit,
    /// A request to identify that is waiting for its permit.
    asked: Option<(oneshot::Sender<()>, BoxFuture<'static, bool>)>,
    /// The longest silence of a live peer.
    patience: Duration,
    /// The deadline of the next frame, after which the peer counts as dead.
    silent: Instant,
    /// The deadline of the session, after which the handshake counts as stuck. `None` while no session is pending.
    stuck: Option<Instant>,
    resuming: bool,
    dial: Dial,
    /// True after HELLO.
    greeted: bool,
}

impl Plan {
    /// Prepares a connection; the first wait for a frame dials it.
    ///
    /// # Errors
    /// The shard does not exist.
    pub(super) fn open(self, access: &Access, permit: IdentifyPermit) -> Result<Connection, Closed> {
        let Some(id) = ShardId::new_checked(self.shard.number, self.shard.total) else {
            let reason = format!("there is no shard {} of {}", self.shard.number, self.shard.total);
            return Err(close::closed(AfterClose::Fatal, reason));
        };
        let waiting = Waiting::default();
        let mut builder = ConfigBuilder::new(bare_token(access).to_owned(), self.intents)
            .queue(waiting.clone())
            .proxy_url(self.address);
        // These types belong to a dependency of the library, so they are created from their wire format.
        let properties = json!({"os": SYSTEM, "browser": USER_AGENT, "device": USER_AGENT});
        if let Ok(properties) = serde_json::from_value(properties) {
            builder = builder.identify_properties(properties);
        }
        let resuming = self.session.is_some();
        if let Some(session) = self.session {
            builder = builder.session(twilight_gateway::Session::new(session.sequence, session.id));
        }
        // A presence that the library cannot parse is omitted and sent once the session exists.
        if let Some(presence) = self.presence.and_then(|presence| serde_json::from_value(presence).ok()) {
            builder = builder.presence(presence);
        }
        let mut config = builder.build();
        let mut spare = None;
        if let Some(address) = self.resume_address {
            spare = Some(config.clone());
            config = ConfigBuilder::from(config).resume_url(address).build();
        }
        let start = Instant::now() + HELLO_TIMEOUT;
        Ok(Connection {
            library: Box::new(twilight_gateway::Shard::with_config(id, config)),
            spare,
            id,
            waiting,
            permit,
            asked: None,
            patience: HELLO_TIMEOUT,
            silent: start,
            stuck: Some(start),
            resuming,
            dial: Dial::default(),
            greeted: false,
        })
    }
}

impl Connection {
    /// Returns the next text frame. Cancel-safe.
    ///
    /// # Errors
    /// The connection ended, or the peer is dead.
    pub(super) async fn frame(&mut self) -> Result<Frame, Closed> {
        loop {
            match self.next_frame().await {
                Err(closed) if closed.next == AfterClose::Resume && self.turn_to_spare() => {}
                frame => return frame,
            }
        }
    }

    /// Dials the usual address once if the resume address brought no HELLO, for any reason.
    fn turn_to_spare(&mut self) -> bool {
        if self.greeted {
            return false;
        }
        let Some(config) = self.spare.take() else { return false };
        *self.library = twilight_gateway::Shard::with_config(self.id, config);
        self.dial = Dial::default();
        self.silent = Instant::now() + HELLO_TIMEOUT;
        self.stuck = Some(self.silent);
        true
    }

    async fn next_frame(&mut self) -> Result<Frame, Closed> {
        loop {
            if let Some(request) = self.waiting.take() {
                self.asked = Some((request, (self.permit)()));
            }
            let deadline = self.stuck.map_or(self.silent, |stuck| stuck.min(self.silent));
            let asked = &mut self.asked;
            let permit = async {
                match asked {
                    Some((_, permit)) => permit.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                allowed = permit => self.identify(allowed)?,
                // A panic in the library ends only this connection.
                item = AssertUnwindSafe(next(&mut self.library, &mut self.dial)).catch_unwind() => match item {
                    Ok(item) => {
                        if let Some(frame) = self.heard(item)? {
                            return Ok(frame);
                        }
                    }
                    Err(_) => return Err(resume("the gateway library panicked")),
                },
                () = sleep_until(deadline) => return Err(self.dead()),
            }
        }
    }

    /// Queues a payload. The library sends heartbeats first and at most 120 payloads a minute.
    pub(super) fn send(&self, payload: String) {
        self.library.send(payload);
    }

    pub(super) fn hello(&mut self, interval: Duration) {
        self.greeted = true;
        self.patience = interval.min(MAX_HEARTBEAT) * 2 + GRACE;
        self.silent = Instant::now() + self.patience;
        // A resume is sent at once; an identify waits for its permit without a timeout here.
        self.stuck = self.resuming.then(|| Instant::now() + SESSION_TIMEOUT);
    }

    /// Processes an event of the session; `settles` is true if it completes the handshake.
    pub(super) fn event(&mut self, settles: bool) {
        if settles {
            self.stuck = None;
        } else if self.stuck.is_some() {
            self.stuck = Some(Instant::now() + SESSION_TIMEOUT);
        }
    }

    /// Processes the decision on the permit.
    fn identify(&mut self, allowed: bool) -> Result<(), Closed> {
        let Some((request, _)) = self.asked.take() else {
            return Ok(());
        };
        if !allowed {
            return Err(close::closed(AfterClose::Identify, "the permit to identify was withdrawn"));
        }
        self.stuck = Some(Instant::now() + SESSION_TIMEOUT);
        // The receiver is gone if the connection ended in the meantime; the next frame reports that.
        let _ = request.send(());
        Ok(())
    }

    /// Processes a message of the library; returns `None` if there is nothing to act on.
    fn heard(&mut self, item: Option<Result<Message, ReceiveMessageError>>) -> Result<Option<Frame>, Closed> {
        match item {
            Some(Ok(Message::Text(text))) => {
                self.silent = Instant::now() + self.patience;
                Ok(Some(Frame { text, understood: true }))
            }
            Some(Ok(Message::Close(frame))) => Err(match frame {
                Some(frame) => close::by_code(Some(frame.code), &frame.reason),
                None => close::by_code(None, ""),
            }),
            Some(Err(error)) => self.failed(&error),
            None => Err(close::by_code(None, "")),
        }
    }

    fn failed(&mut self, error: &ReceiveMessageError) -> Result<Option<Frame>, Closed> {
        // The library's conversion of an error drops its source.
        if let ReceiveMessageErrorType::Deserializing { event } = error.kind() {
            self.silent = Instant::now() + self.patience;
            return Ok(Some(Frame { text: event.clone(), understood: false }));
        }
        let what = match error.kind() {
            ReceiveMessageErrorType::Reconnect => "the gateway could not be reached",
            _ => "the gateway library failed",
        };
        Err(resume(format!("{what}: {}", reasons(error))))
    }

    fn dead(&self) -> Closed {
        resume(if !self.greeted {
            "the peer sent no HELLO in time"
        } else if self.silent <= Instant::now() {
            "the peer stopped sending"
        } else {
            "the peer sent no session in time"
        })
    }
}

#[derive(Default)]
struct Dial {
    /// True once the socket was open.
    opened: bool,
    /// The number of polls before that.
    asked: u32,
    /// The pause before the next poll.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Dial {
    /// Returns how long the library pauses now: usually not at all, and longer each time.
    fn rest(&mut self) -> Option<Duration> {
        self.asked = self.asked.saturating_add(1);
        let rests = (self.asked / ASKS).min(7);
        self.asked.is_multiple_of(ASKS).then(|| REST * (1 << rests))
    }
}

/// Returns the causes of an error, from the outermost to the root.
fn reasons(error: &dyn Error) -> String {
    let (mut causes, mut next) = (Vec::new(), error.source());
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    if causes.is_empty() { "no reason given".to_owned() } else { causes.join(": ").chars().take(MAX_REASON).collect() }
}

/// Returns the next item of the library.
///
/// If the peer closes the connection, the library reports nothing and dials again within the same call. Once the socket
/// was seen open, that counts as the end. If the peer closes at the moment of opening, the open socket may never be
/// seen, and the library would dial in a tight loop until the HELLO timeout; the pauses prevent that.
async fn next(
    library: &mut twilight_gateway::Shard<Waiting>,
    dial: &mut Dial,
) -> Option<Result<Message, ReceiveMessageError>> {
    poll_fn(|context| {
        if let Some(pause) = &mut dial.pause {
            ready!(pause.as_mut().poll(context));
            dial.pause = None;
        }
        let item = library.poll_next_unpin(context);
        let open = !matches!(library.state(), ShardState::Disconnected { .. });
        if item.is_ready() || open {
            dial.opened |= open;
            return item;
        }
        if dial.opened {
            return Poll::Ready(None);
        }
        if let Some(rest) = dial.rest() {
            let mut pause = Box::pin(sleep(rest));
            // The library's own wake-up is lost during a pause, so the end of the pause wakes the task.
            if pause.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
            dial.pause = Some(pause);
        }
        Poll::Pending
    })
    .await
}

/// The library's request to identify, stored for the connection. The library provides a channel and continues only when
/// a message arrives on it.
#[derive(Debug, Clone, Default)]
struct Waiting(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl Waiting {
    fn take(&self) -> Option<oneshot::Sender<()>> {
        self.0.lock().take()
    }
}

impl Queue for Waiting {
    fn enqueue(&self, _shard: u32) -> oneshot::Receiver<()> {
        let (request, granted) = oneshot::channel();
        *self.0.lock() = Some(request);
        granted
    }
}

/// The minimal set of gateway intents.
pub(super) fn intents(direct_messages: bool, reactions: bool, voice: bool) -> Intents {
    let mut intents = Intents::GUILDS | Intents::GUILD_MESSAGES | Intents::MESSAGE_CONTENT;
    intents.set(Intents::DIRECT_MESSAGES, direct_messages);
    intents.set(Intents::GUILD_MESSAGE_REACTIONS, reactions);
    intents.set(Intents::GUILD_VOICE_STATES, voice);
    intents
}

fn resume(reason: impl Into<String>) -> Closed {
    close::closed(AfterClose::Resume, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_hangs_up_while_opening_is_not_stormed() {
        let mut dial = Dial::default();
        let mut rested = Duration::ZERO;
        while rested < HELLO_TIMEOUT {
            rested += dial.rest().unwrap_or_default();
        }
        // Each dial takes at least two polls.
        assert!(dial.asked / 2 <= 40, "{}", dial.asked);
    }
}
