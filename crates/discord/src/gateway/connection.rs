//! One value of the gateway library as one connection, with the deadlines that the library does not have.
//!
//! Frames come uncompressed: the library's decompressor turns round for ever on data behind the end of a stream, which
//! no deadline could stop, and the filter before the parser needs the text anyway.
//!
//! The upgrade to a WebSocket carries no `User-Agent`: `Shard::poll_connect` of `twilight-gateway` 0.18 builds its request by itself, with
//! an address, limits and a TLS connector that are private, and takes neither headers nor an open connection. IDENTIFY names us.

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
use ports::{AfterClose, Closed, IdentifyPermit, Session, Shard};

/// The system that this program was built for, as IDENTIFY names it.
const SYSTEM: &str = if cfg!(windows) {
    "windows"
} else if cfg!(target_os = "macos") {
    "macos"
} else {
    "linux"
};

/// The longest wait from dialling to the peer's first words.
const HELLO_WITHIN: Duration = Duration::from_secs(20);
/// The longest wait for a session after we asked for it; each replayed event starts it anew.
const SESSION_WITHIN: Duration = Duration::from_secs(60);
/// Heartbeat intervals are believed up to this long.
const MAX_HEARTBEAT: Duration = Duration::from_secs(120);
/// What is added to two heartbeat intervals before a silent peer counts as dead.
const GRACE: Duration = Duration::from_secs(1);
/// How often the library is asked for a socket before it has to rest. A handshake needs about as many.
const ASKS: u32 = 6;
/// Half of the first such rest; each is twice as long as the one before, up to some seconds.
const REST: Duration = Duration::from_millis(25);
/// The longest reason of a failed connection, in characters.
const MAX_REASON: usize = 200;

/// Where and how to connect.
pub(super) struct Plan {
    pub(super) shard: Shard,
    pub(super) address: String,
    pub(super) resume_address: Option<String>,
    pub(super) session: Option<Session>,
    pub(super) intents: Intents,
    /// What IDENTIFY says of how we are shown.
    pub(super) presence: Option<Value>,
}

/// One text frame.
pub(super) struct Frame {
    pub(super) text: String,
    /// The library below could read what it needs of it.
    pub(super) understood: bool,
}

/// An open connection.
pub(super) struct Connection {
    library: Box<twilight_gateway::Shard<Waiting>>,
    /// The same connection at the usual address, for when no hello comes from the address to resume at.
    spare: Option<Config<Waiting>>,
    id: ShardId,
    /// Where the library leaves its request to identify.
    waiting: Waiting,
    permit: IdentifyPermit,
    /// A request to identify that waits for its permit.
    asked: Option<(oneshot::Sender<()>, BoxFuture<'static, bool>)>,
    /// The longest silence of a live peer.
    patience: Duration,
    /// Without a frame until then the peer counts as dead.
    silent: Instant,
    /// No session until then: the handshake is stuck. None while nothing is owed.
    stuck: Option<Instant>,
    resuming: bool,
    dial: Dial,
    /// The peer said hello.
    greeted: bool,
}

impl Plan {
    /// Prepares a connection; it is dialled with the first wait for a frame.
    ///
    /// # Errors
    /// There is no such shard.
    pub(super) fn open(self, access: &Access, permit: IdentifyPermit) -> Result<Connection, Closed> {
        let Some(id) = ShardId::new_checked(self.shard.number, self.shard.total) else {
            let reason = format!("there is no shard {} of {}", self.shard.number, self.shard.total);
            return Err(close::closed(AfterClose::Fatal, reason));
        };
        let waiting = Waiting::default();
        let mut builder = ConfigBuilder::new(bare_token(access).to_owned(), self.intents)
            .queue(waiting.clone())
            .proxy_url(self.address);
        // Types of a crate below the library, so they are made from their form on the wire.
        let properties = json!({"os": SYSTEM, "browser": USER_AGENT, "device": USER_AGENT});
        if let Ok(properties) = serde_json::from_value(properties) {
            builder = builder.identify_properties(properties);
        }
        let resuming = self.session.is_some();
        if let Some(session) = self.session {
            builder = builder.session(twilight_gateway::Session::new(session.sequence, session.id));
        }
        // What the library cannot read is left out; it is sent when the session is there.
        if let Some(presence) = self.presence.and_then(|presence| serde_json::from_value(presence).ok()) {
            builder = builder.presence(presence);
        }
        let mut config = builder.build();
        let mut spare = None;
        if let Some(address) = self.resume_address {
            spare = Some(config.clone());
            config = ConfigBuilder::from(config).resume_url(address).build();
        }
        let start = Instant::now() + HELLO_WITHIN;
        Ok(Connection {
            library: Box::new(twilight_gateway::Shard::with_config(id, config)),
            spare,
            id,
            waiting,
            permit,
            asked: None,
            patience: HELLO_WITHIN,
            silent: start,
            stuck: Some(start),
            resuming,
            dial: Dial::default(),
            greeted: false,
        })
    }
}

impl Connection {
    /// The next text frame. Dropping this future loses nothing.
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

    /// Dials the usual address once when the other one brought no hello, for any reason.
    fn turn_to_spare(&mut self) -> bool {
        if self.greeted {
            return false;
        }
        let Some(config) = self.spare.take() else { return false };
        *self.library = twilight_gateway::Shard::with_config(self.id, config);
        self.dial = Dial::default();
        self.silent = Instant::now() + HELLO_WITHIN;
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
                // A panic in the library ends this connection only.
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

    /// Sends a payload as soon as the library lets it: heartbeats go first, and there may be 120 sends a minute.
    pub(super) fn send(&self, payload: String) {
        self.library.send(payload);
    }

    /// HELLO came, with the heartbeat interval.
    pub(super) fn hello(&mut self, interval: Duration) {
        self.greeted = true;
        self.patience = interval.min(MAX_HEARTBEAT) * 2 + GRACE;
        self.silent = Instant::now() + self.patience;
        // A resume is sent at once; an identify waits for its permit, for as long as that takes.
        self.stuck = self.resuming.then(|| Instant::now() + SESSION_WITHIN);
    }

    /// An event of the session came, the one that settles it or another.
    pub(super) fn event(&mut self, settles: bool) {
        if settles {
            self.stuck = None;
        } else if self.stuck.is_some() {
            self.stuck = Some(Instant::now() + SESSION_WITHIN);
        }
    }

    /// The permit was decided.
    fn identify(&mut self, allowed: bool) -> Result<(), Closed> {
        let Some((request, _)) = self.asked.take() else {
            return Ok(());
        };
        if !allowed {
            return Err(close::closed(AfterClose::Identify, "nobody allows this shard to identify any more"));
        }
        self.stuck = Some(Instant::now() + SESSION_WITHIN);
        // The receiver is gone when the connection ended meanwhile, which the next frame reports.
        let _ = request.send(());
        Ok(())
    }

    /// What the library brought; none when it is nothing to act on.
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
        // The library's way to take an error apart loses its source.
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
            "the peer never said hello"
        } else if self.silent <= Instant::now() {
            "the peer fell silent"
        } else {
            "the peer gave no session"
        })
    }
}

/// What is known of opening the socket.
#[derive(Default)]
struct Dial {
    /// The socket was open once.
    opened: bool,
    /// How often the library was asked before that.
    asked: u32,
    /// It is not asked again before this.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Dial {
    /// How long the library rests now: mostly not at all, and longer each time.
    fn rest(&mut self) -> Option<Duration> {
        self.asked = self.asked.saturating_add(1);
        let rests = (self.asked / ASKS).min(7);
        self.asked.is_multiple_of(ASKS).then(|| REST * (1 << rests))
    }
}

/// What caused an error, from the outside to the root.
fn reasons(error: &dyn Error) -> String {
    let (mut causes, mut next) = (Vec::new(), error.source());
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    if causes.is_empty() { "no reason given".to_owned() } else { causes.join(": ").chars().take(MAX_REASON).collect() }
}

/// What the library brings next.
///
/// When the peer just hangs up, the library says nothing and dials anew within the same call. Once the socket was seen
/// open, that is taken as the end. A peer that hangs up in the very moment of opening may never be seen so, and the
/// library would dial as fast as it can until the peer's time to say hello is over; so it has to rest in between.
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
            // The library's own wake-up is lost on a pause, so the end of the pause has to be one.
            if pause.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
            dial.pause = Some(pause);
        }
        Poll::Pending
    })
    .await
}

/// The library's request to identify, left for the connection to find. The library hands over a channel and goes on
/// only when something comes through it.
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

/// The intents that we need and no others.
pub(super) fn intents(direct_messages: bool, reactions: bool) -> Intents {
    let mut intents = Intents::GUILDS | Intents::GUILD_MESSAGES | Intents::MESSAGE_CONTENT;
    intents.set(Intents::DIRECT_MESSAGES, direct_messages);
    intents.set(Intents::GUILD_MESSAGE_REACTIONS, reactions);
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
        while rested < HELLO_WITHIN {
            rested += dial.rest().unwrap_or_default();
        }
        // Each dial takes at least two asks.
        assert!(dial.asked / 2 <= 40, "{}", dial.asked);
    }
}
