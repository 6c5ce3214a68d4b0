//! mcp: keeps the connection to one tool server.
//!
//! Supervised by: tools (permanent).
//! Receives: calls from turns, the wish to read the list again from tools; its timers, and what its tasks found.
//! Sends: lists of tools to `tool_cache`; answers to who called.
//! A restart loses: the connection and the calls under way; the process of a server ends with its connection.
//!
//! It awaits nothing in its mailbox: connecting, reading lists, signs of life and calls are tasks. A call that finds no
//! connection is answered at once, unless the first one has been under way for a few seconds only: it waits for that then, because the
//! tools of a server are known from its last list before it is there. Processes are started a few at a time.

mod link;
mod published;
mod starts;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use self::link::{Attempt, Link, Up};
pub use self::published::Published;
pub use self::starts::Starts;
use crate::messages::mcp::{McpMsg, ServerCall};
use crate::messages::server_line::unavailable;
use crate::messages::tool_cache::ToolCacheMsg;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use domain::breaker;
use domain::ids::{Person, TurnId};
use domain::restart::Backoff;
use domain::tool::catalogue::Pin;
use domain::tool::server::ServerStatus;
use domain::tool::{CallError, CallErrorKind};
use ports::tools::{Listing, ServerEntry};
use ports::{Dice, ToolServer, ToolServers};

/// The age of a first attempt to connect from which on calls do not wait for it.
const CALLS_WAIT: Duration = Duration::from_secs(10);
/// The time between two updates of how long a start has been under way.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How long reading a list may take; the edge has the same bound.
const LIST_WITHIN: Duration = Duration::from_secs(11);
/// Waits before a lost connection is begun again.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(60) };
/// How long a connection must last for the waits to start over.
const LASTED: Duration = Duration::from_secs(10);
/// Failures in a row after which a server counts as left alone.
const OPEN_AFTER: u32 = 5;
/// Pause before a changed list is read, in which more changes join the first.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// How many times as long as reading a list took, the next one waits.
const LIST_SHARE: u32 = 10;
/// How often lists are read of servers that do not tell of changes.
const RELIST_EVERY: Duration = Duration::from_secs(300);
/// A call that waited for less than this and got no answer says nothing of the server.
const SILENCE: Duration = Duration::from_secs(5);
/// How often a server is asked for a sign of life.
const PING_EVERY: Duration = Duration::from_secs(30);
/// How often what is odd about the list of a server is logged at most.
const ODD_EVERY: Duration = Duration::from_secs(60);
/// How long a session may take to end in order; then its process is killed.
const CLOSE_WITHIN: Duration = Duration::from_millis(1_500);

/// A connection that was just made, and the first list of its tools.
pub type Fresh = (Arc<dyn ToolServer>, Listing);

/// Connects to a server and reads the first list of its tools, each within its own bound. A process waits for its place among `starts`.
///
/// # Errors
/// What is wrong, and the fix.
pub async fn connect(servers: &dyn ToolServers, entry: &ServerEntry, starts: &Starts) -> Result<Fresh, String> {
    link::connect(servers, entry, starts, LIST_WITHIN).await
}

/// What its timers and its tasks tell it. Each names the attempt that it belongs to: what an earlier one tells is ignored.
pub enum McpEvent {
    /// Time to connect.
    Connect(Attempt),
    /// A task: connected, with the first list, or why not.
    Connected(Attempt, Result<Box<Fresh>, String>),
    /// Time to say how long the attempt has been under way.
    Tell(Attempt),
    /// A task: the connection is lost.
    Lost(Attempt, String),
    /// A task: the list may have changed.
    Changed(Attempt),
    /// The pause before a reading of the list is over.
    Due(Attempt),
    /// Time to read the list again.
    Relist(Attempt),
    /// A task: the list, or why it cannot be read; and how long that took.
    Listed(Attempt, Result<Listing, CallError>, Duration),
    /// Time for a sign of life.
    Ping(Attempt),
    /// A task: there was one, or why not.
    Pinged(Attempt, Result<(), CallError>),
    /// A task: a call ended.
    Called(Attempt, CallSign),
    /// No calls were sent for a while: the next one decides whether more are.
    HalfOpen(Attempt),
}

/// What a call that ended tells of the server.
pub enum CallSign {
    /// It answered.
    Answered,
    /// It did not, for this turn of this person.
    Silent(Option<(TurnId, Person)>),
}

/// The behaviour and its arguments.
pub struct McpActor {
    /// The server.
    pub entry: Arc<ServerEntry>,
    /// Connects.
    pub servers: Arc<dyn ToolServers>,
    /// Who is told of lists.
    pub cache: Handle<ToolCacheMsg>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// Where its status is shown.
    pub published: Published,
    /// The places of processes that start at once.
    pub starts: Starts,
}

/// What the actor of a server holds.
pub struct McpState {
    /// Counts attempts to connect.
    attempt: Attempt,
    /// When the last attempt to connect began.
    begun: Instant,
    /// Attempts that failed in a row, or did not last.
    failures: u32,
    link: Link,
    status: ServerStatus,
    odd: Odd,
}

/// What was logged last about a list that is odd or cannot be read.
#[derive(Default)]
struct Odd {
    told: Vec<String>,
    at: Option<Instant>,
}

impl Odd {
    /// True if these lines are to be logged: they are others than those before, and a minute has passed since.
    fn is_news(&mut self, lines: &[String]) -> bool {
        let soon = self.at.is_some_and(|at| at.elapsed() < ODD_EVERY);
        if lines.is_empty() || soon || lines == self.told {
            return false;
        }
        (self.told, self.at) = (lines.to_vec(), Some(Instant::now()));
        true
    }
}

impl McpState {
    /// How long the attempt has been under way.
    fn progress(&self) -> String {
        format!("{} s", self.begun.elapsed().as_secs())
    }

    /// Why no call is taken while the server starts.
    fn starting(&self) -> String {
        format!("it is starting: {} so far; try again later", self.progress())
    }

    /// Works on the connection, if there is one.
    fn with_link(&mut self, work: impl FnOnce(&mut Up)) {
        if let Link::Up(up) = &mut self.link {
            work(up);
        }
    }
}

impl Actor for McpActor {
    type Msg = McpMsg;
    type Event = McpEvent;
    type State = McpState;

    fn start(&self, ctx: &mut ActorContext<McpActor>) -> Result<McpState, Crash> {
        let status = ServerStatus::Starting;
        self.published.begins(&self.entry.name);
        let (attempt, link) = (Attempt::default(), Link::Connecting(Vec::new()));
        let mut state = McpState { attempt, begun: Instant::now(), failures: 0, link, status, odd: Odd::default() };
        self.connect(ctx, &mut state);
        Ok(state)
    }

    async fn handle(&self, ctx: &mut ActorContext<Self>, message: McpMsg, state: &mut McpState) -> Result<(), Crash> {
        match message {
            McpMsg::Call(call) => self.call(ctx, state, *call),
            McpMsg::Refresh => match &mut state.link {
                Link::Up(up) => up.refresh(ctx, state.attempt),
                Link::Waiting(_) => self.connect(ctx, state),
                Link::Connecting(_) => {}
            },
            McpMsg::Reachable => {
                if matches!(state.link, Link::Waiting(_)) {
                    self.connect(ctx, state);
                }
            }
        }
        Ok(())
    }

    async fn event(&self, ctx: &mut ActorContext<Self>, event: McpEvent, state: &mut McpState) -> Result<(), Crash> {
        if event.attempt() != state.attempt {
            return Ok(());
        }
        match event {
            McpEvent::Connect(_) => self.connect(ctx, state),
            McpEvent::Tell(attempt) => self.tell_progress(ctx, state, attempt),
            McpEvent::Connected(_, Ok(connected)) => self.connected(ctx, state, *connected),
            McpEvent::Connected(_, Err(reason)) | McpEvent::Lost(_, reason) => self.lost(ctx, state, reason),
            McpEvent::Pinged(attempt, Err(_)) if matches!(&state.link, Link::Up(up) if up.works()) => {
                ctx.after(PING_EVERY, McpEvent::Ping(attempt));
            }
            McpEvent::Pinged(_, Err(error)) => self.lost(ctx, state, format!("no sign of life: {error}")),
            McpEvent::Pinged(attempt, Ok(())) => ctx.after(PING_EVERY, McpEvent::Ping(attempt)),
            McpEvent::Changed(attempt) => state.with_link(|up| up.refresh(ctx, attempt)),
            McpEvent::Due(attempt) => state.with_link(|up| up.due(ctx, attempt)),
            McpEvent::Relist(attempt) => state.with_link(|up| {
                up.refresh(ctx, attempt);
                ctx.after(RELIST_EVERY, McpEvent::Relist(attempt));
            }),
            McpEvent::Listed(_, result, took) => self.listed(ctx, state, result, took),
            McpEvent::Ping(attempt) => match &state.link {
                Link::Up(up) if up.works() => ctx.after(PING_EVERY, McpEvent::Ping(attempt)),
                Link::Up(up) => up.ping(ctx, attempt),
                Link::Connecting(_) | Link::Waiting(_) => {}
            },
            McpEvent::Called(attempt, sign) => self.called(ctx, state, attempt, sign),
            McpEvent::HalfOpen(_) => {
                if matches!(&state.link, Link::Up(up) if up.may_try()) {
                    self.publish(state, ServerStatus::Ready);
                }
            }
        }
        Ok(())
    }

    async fn stop(&self, _ctx: &mut ActorContext<Self>, state: &mut McpState) {
        match std::mem::replace(&mut state.link, Link::Waiting(String::new())) {
            Link::Up(up) => {
                // Whatever is left after that is killed when the last handle is dropped.
                let _ = timeout(CLOSE_WITHIN, up.server.close()).await;
            }
            Link::Connecting(waiting) => self.refuse(waiting, "it was told to stop"),
            Link::Waiting(_) => {}
        }
        self.publish(state, ServerStatus::Stopped("it was told to stop".to_owned()));
        self.published.gone(&self.entry.name);
    }
}

impl McpEvent {
    const fn attempt(&self) -> Attempt {
        match self {
            Self::Connect(attempt)
            | Self::Connected(attempt, _)
            | Self::Tell(attempt)
            | Self::Lost(attempt, _)
            | Self::Changed(attempt)
            | Self::Due(attempt)
            | Self::Relist(attempt)
            | Self::Listed(attempt, ..)
            | Self::Ping(attempt)
            | Self::Pinged(attempt, _)
            | Self::Called(attempt, _)
            | Self::HalfOpen(attempt) => *attempt,
        }
    }
}

impl McpActor {
    fn connect(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState) {
        state.attempt = state.attempt.next();
        state.begun = Instant::now();
        state.link = Link::Connecting(Vec::new());
        let (servers, entry, attempt) = (Arc::clone(&self.servers), Arc::clone(&self.entry), state.attempt);
        ctx.after(TELL_EVERY, McpEvent::Tell(attempt));
        let starts = self.starts.clone();
        ctx.task(
            async move {
                let connected = connect(&*servers, &entry, &starts).await;
                McpEvent::Connected(attempt, connected.map(Box::new))
            },
            move |panic| McpEvent::Connected(attempt, Err(format!("connecting panicked: {panic}"))),
        );
    }

    /// Shows how long the attempt has been under way. Calls that waited for it long enough are refused.
    fn tell_progress(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState, attempt: Attempt) {
        let Link::Connecting(waiting) = &mut state.link else { return };
        let waiting = if state.begun.elapsed() >= CALLS_WAIT { std::mem::take(waiting) } else { Vec::new() };
        self.published.progress(&self.entry.name, Some(&state.progress()));
        self.refuse(waiting, &state.starting());
        ctx.after(TELL_EVERY, McpEvent::Tell(attempt));
    }

    fn connected(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState, (server, listing): Fresh) {
        let attempt = state.attempt;
        let up = Up::new(server);
        up.watch(ctx, attempt, DEBOUNCE);
        ctx.after(PING_EVERY, McpEvent::Ping(attempt));
        if !up.server.info().announces_changes {
            ctx.after(RELIST_EVERY, McpEvent::Relist(attempt));
        }
        let waiting = match std::mem::replace(&mut state.link, Link::Up(up)) {
            Link::Connecting(waiting) => waiting,
            Link::Up(_) | Link::Waiting(_) => Vec::new(),
        };
        for call in waiting {
            if self.offers(&listing, &call) {
                self.call(ctx, state, call);
            } else {
                self.refuse([call], "the tool is not what it was before; ask somebody who runs this bot to look at it");
            }
        }
        self.tell(state, listing);
        self.published.progress(&self.entry.name, None);
        self.publish(state, ServerStatus::Ready);
    }

    /// Whether a call is one of a tool as the server offers it now.
    fn offers(&self, listing: &Listing, call: &ServerCall) -> bool {
        let same = |pin: &Pin| listing.tools.iter().any(|tool| tool.name == call.request.name && Pin::of(tool) == *pin);
        self.entry.trusted || call.pin.as_ref().is_none_or(same)
    }

    /// Answers calls that were not sent.
    fn refuse(&self, calls: impl IntoIterator<Item = ServerCall>, why: &str) {
        for call in calls {
            // Who asked may have gone away.
            let _ = call.reply.send(Err(unavailable(&self.entry.name, why)));
        }
    }

    fn lost(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState, reason: String) {
        let lasted = matches!(&state.link, Link::Up(up) if up.since.elapsed() >= LASTED);
        state.failures = if lasted { 1 } else { state.failures.saturating_add(1) };
        // Events of this attempt that are still under way are ignored from here on.
        state.attempt = state.attempt.next();
        if let Link::Connecting(waiting) = std::mem::replace(&mut state.link, Link::Waiting(reason.clone())) {
            self.refuse(waiting, &reason);
        }
        self.published.progress(&self.entry.name, None);
        let wait = RECONNECT.delay(state.failures - 1, self.dice.roll());
        ctx.after(wait, McpEvent::Connect(state.attempt));
        let status =
            if state.failures >= OPEN_AFTER { ServerStatus::Open(reason) } else { ServerStatus::Degraded(reason) };
        self.publish(state, status);
    }

    fn listed(
        &self,
        ctx: &mut ActorContext<McpActor>,
        state: &mut McpState,
        result: Result<Listing, CallError>,
        took: Duration,
    ) {
        let attempt = state.attempt;
        let Link::Up(up) = &mut state.link else { return };
        // A list that takes long to read, or changes all the time, does not take all of the time.
        let pause = (took * LIST_SHARE).clamp(DEBOUNCE, RELIST_EVERY);
        if let Some(wait) = up.listed(pause) {
            ctx.after(wait, McpEvent::Due(attempt));
        }
        match result {
            Ok(listing) => self.tell(state, listing),
            Err(error) => {
                let (server, reason) = (&self.entry.name, error.message);
                if state.odd.is_news(std::slice::from_ref(&reason)) {
                    tracing::warn!(event = "mcp.listed", %server, reason, "the list of tools cannot be read; the last one stays");
                }
            }
        }
    }

    /// Hands a list on.
    fn tell(&self, state: &mut McpState, listing: Listing) {
        let (server, tools) = (&self.entry.name, listing.tools.len());
        if state.odd.is_news(&listing.warnings) {
            for warning in &listing.warnings {
                tracing::warn!(event = "mcp.listed", %server, warning, "the list of tools is odd");
            }
        }
        tracing::debug!(event = "mcp.listed", %server, tools, "the list of tools was read");
        // A cache that refuses this asks for the servers again when it restarts or has room, and then all lists are read again.
        self.cache.tell(ToolCacheMsg::Listed(self.entry.name.clone(), listing.tools));
    }

    fn call(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState, call: ServerCall) {
        let (starting, first) = (state.starting(), state.failures == 0 && state.begun.elapsed() < CALLS_WAIT);
        let why = match &mut state.link {
            Link::Up(up) => {
                if up.takes_call() {
                    return up.call(ctx, state.attempt, &self.entry.name, call);
                }
                "it left calls without an answer, and is left alone for some seconds"
            }
            // There are no more of them than places for calls, and they wait for a bounded time.
            Link::Connecting(waiting) if first => return waiting.push(call),
            Link::Connecting(_) => state.status.reason().unwrap_or(&starting),
            Link::Waiting(reason) => reason,
        };
        self.refuse([call], why);
    }

    fn called(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState, attempt: Attempt, sign: CallSign) {
        let Link::Up(up) = &mut state.link else { return };
        if up.called(sign) {
            ctx.after(breaker::OPEN_FOR, McpEvent::HalfOpen(attempt));
            let reason = "calls of several members got no answer".to_owned();
            self.publish(state, ServerStatus::Open(reason));
        } else if up.may_try() {
            self.publish(state, ServerStatus::Ready);
        }
    }

    fn publish(&self, state: &mut McpState, status: ServerStatus) {
        let before = std::mem::replace(&mut state.status, status);
        self.published.change(&self.entry.name, &before, &state.status);
    }
}

/// Whether a failure says that the server did not answer, which speaks of the server and not of the call. A deadline that was short
/// because its turn had no more time left says nothing of the server.
fn is_silence(kind: CallErrorKind, waited: Duration) -> bool {
    match kind {
        CallErrorKind::Lost | CallErrorKind::Malformed => true,
        CallErrorKind::Timeout => waited >= SILENCE,
        CallErrorKind::Unavailable
        | CallErrorKind::Unauthorized
        | CallErrorKind::Forbidden
        | CallErrorKind::NotFound
        | CallErrorKind::RateLimited
        | CallErrorKind::InvalidArguments
        | CallErrorKind::Failed
        | CallErrorKind::TooLarge => false,
    }
}

#[cfg(test)]
mod tests;
