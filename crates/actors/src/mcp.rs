//! mcp: maintains the connection to one tool server.
//!
//! Supervised by: tools (permanent).
//! Receives: calls from turns, refresh requests from tools; events from its timers and its tasks.
//! Sends: lists of tools to `tool_cache`; results to callers.
//! A restart loses: the connection and the calls in progress; the process of a server ends with its connection.
//!
//! The actor never blocks on I/O: connecting, reading lists, pings and calls are tasks. A call without a connection
//! fails immediately. Exception: if the first connection attempt started only seconds ago, the call is queued until it
//! completes, because the tools of a server are known from its last list before it is connected. A bounded number of
//! processes start at a time.

mod link;
mod published;
mod starts;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use self::link::{Attempt, Link, Requests, Up};
pub use self::published::Published;
pub use self::starts::Starts;
use crate::messages::mcp::{McpMsg, ServerCall};
use crate::messages::server_line::unavailable;
use crate::messages::tool_cache::ToolCacheMsg;
use crate::observers::Observers;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use domain::breaker;
use domain::happening::ServerChange;
use domain::ids::{Person, TurnId};
use domain::restart::Backoff;
use domain::tool::catalogue::Pin;
use domain::tool::server::ServerStatus;
use domain::tool::{CallError, CallErrorKind};
use ports::tools::{Listing, ServerEntry};
use ports::{Dice, ToolServer, ToolServers};

/// The age of a first connection attempt after which calls fail instead of being queued for it.
const CALLS_WAIT: Duration = Duration::from_secs(10);
/// The time between two progress reports of a start.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// The timeout of reading a list; the edge has the same bound.
const LIST_TIMEOUT: Duration = Duration::from_secs(11);
/// The backoff of reconnection attempts.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(60) };
/// The minimum lifetime of a connection that resets the backoff.
const LASTED: Duration = Duration::from_secs(10);
/// The number of consecutive failures after which the circuit breaker opens.
const OPEN_AFTER: u32 = 5;
/// The debounce time before a changed list is read.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// The pause before the next read of a list, as a multiple of the duration of the last read.
const LIST_SHARE: u32 = 10;
/// The interval at which the lists of servers without change notifications are read.
const RELIST_EVERY: Duration = Duration::from_secs(300);
/// A call that ended without an answer after less than this time does not count against the server.
const SILENCE: Duration = Duration::from_secs(5);
/// The interval of pings.
const PING_EVERY: Duration = Duration::from_secs(30);
/// The minimum time between two log lines about anomalies in a list.
const ODD_EVERY: Duration = Duration::from_secs(60);
/// The timeout of a regular end of a session; then its process is killed.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// A new connection, and the first list of its tools.
pub type Fresh = (Arc<dyn ToolServer>, Listing);

/// Connects to a server and reads the first list of its tools; each step has its own timeout. A process acquires a slot
/// of `starts` first. The observers receive the requests.
///
/// # Errors
/// Returns the problem and its fix.
pub async fn connect(
    servers: &dyn ToolServers,
    entry: &ServerEntry,
    starts: &Starts,
    observers: &Observers,
) -> Result<Fresh, String> {
    let requests = Requests { server: entry.name.clone(), observers: observers.clone() };
    link::connect(servers, entry, starts, &requests).await
}

/// Events from its timers and its tasks. Each names its connection attempt; events of earlier attempts are ignored.
pub enum McpEvent {
    /// The time to connect.
    Connect(Attempt),
    /// A task: connected, with the first list, or the reason of the failure.
    Connected(Attempt, Result<Box<Fresh>, String>),
    /// The time to report the progress of the attempt.
    Tell(Attempt),
    /// A task: the connection is lost.
    Lost(Attempt, String),
    /// A task: the list may have changed.
    Changed(Attempt),
    /// The debounce time of a list read is over.
    Due(Attempt),
    /// The time to read the list again.
    Relist(Attempt),
    /// A task: the list, or the error; and the duration of the read.
    Listed(Attempt, Result<Listing, CallError>, Duration),
    /// The time to send a ping.
    Ping(Attempt),
    /// A task: the result of a ping.
    Pinged(Attempt, Result<(), CallError>),
    /// A task: a call ended.
    Called(Attempt, CallSign),
    /// The pause of the circuit breaker is over: the next call decides if the breaker closes.
    HalfOpen(Attempt),
}

/// The result of a call as evidence about the server.
pub enum CallSign {
    /// The server answered, to this person.
    Answered(Option<Person>),
    /// The server did not answer, for this turn of this person.
    Silent(Option<(TurnId, Person)>),
}

/// The behaviour and its arguments.
pub struct McpActor {
    /// The server.
    pub entry: Arc<ServerEntry>,
    /// The connector.
    pub servers: Arc<dyn ToolServers>,
    /// The tool cache, which receives the lists.
    pub cache: Handle<ToolCacheMsg>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// The publisher of the server's status.
    pub published: Published,
    /// The slots for concurrent process starts.
    pub starts: Starts,
}

/// The state of the actor of a server.
pub struct McpState {
    /// The number of the current connection attempt.
    attempt: Attempt,
    /// The start of the last connection attempt.
    begun: Instant,
    /// The number of consecutive attempts that failed or did not last.
    failures: u32,
    link: Link,
    status: ServerStatus,
    odd: Odd,
}

/// The last log lines about an invalid or unreadable list.
#[derive(Default)]
struct Odd {
    told: Vec<String>,
    at: Option<Instant>,
}

impl Odd {
    /// True if these lines are to be logged: they differ from the last ones, and a minute has passed since.
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
    /// The elapsed time of the attempt, as text.
    fn progress(&self) -> String {
        format!("{} s", self.begun.elapsed().as_secs())
    }

    /// The reason for rejecting a call while the server starts.
    fn starting(&self) -> String {
        format!("it is starting: {} so far; try again later", self.progress())
    }

    /// Applies `work` to the connection, if there is one.
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
                // Dropping the last handle kills the remaining process.
                let _ = timeout(CLOSE_TIMEOUT, up.server.close()).await;
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
        let (starts, observers) = (self.starts.clone(), self.published.observers.clone());
        ctx.task(
            async move {
                let connected = connect(&*servers, &entry, &starts, &observers).await;
                McpEvent::Connected(attempt, connected.map(Box::new))
            },
            move |panic| McpEvent::Connected(attempt, Err(format!("connecting panicked: {panic}"))),
        );
    }

    /// Reports the elapsed time of the attempt. Rejects calls that were queued for too long.
    fn tell_progress(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState, attempt: Attempt) {
        let Link::Connecting(waiting) = &mut state.link else { return };
        let waiting = if state.begun.elapsed() >= CALLS_WAIT { std::mem::take(waiting) } else { Vec::new() };
        self.published.progress(&self.entry.name, Some(&state.progress()));
        self.refuse(waiting, &state.starting());
        ctx.after(TELL_EVERY, McpEvent::Tell(attempt));
    }

    fn connected(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState, (server, listing): Fresh) {
        let attempt = state.attempt;
        let requests = Requests { server: self.entry.name.clone(), observers: self.published.observers.clone() };
        let up = Up::new(server, requests);
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
                self.refuse([call], "the tool has changed; an operator must accept it with /refresh_tools");
            }
        }
        self.tell(state, listing);
        self.published.progress(&self.entry.name, None);
        self.publish(state, ServerStatus::Ready);
    }

    /// True if the call is for a tool in the server's current list.
    fn offers(&self, listing: &Listing, call: &ServerCall) -> bool {
        let same = |pin: &Pin| listing.tools.iter().any(|tool| tool.name == call.request.name && Pin::of(tool) == *pin);
        self.entry.trusted || call.pin.as_ref().is_none_or(same)
    }

    /// Rejects calls that were not sent.
    fn refuse(&self, calls: impl IntoIterator<Item = ServerCall>, why: &str) {
        for call in calls {
            // The caller may have stopped waiting.
            let _ = call.reply.send(Err(unavailable(&self.entry.name, why)));
        }
    }

    fn lost(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState, reason: String) {
        let lasted = matches!(&state.link, Link::Up(up) if up.since.elapsed() >= LASTED);
        state.failures = if lasted { 1 } else { state.failures.saturating_add(1) };
        // Pending events of this attempt are ignored from here on.
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
        // A list that is slow to read or changes constantly uses a bounded share of the time.
        let pause = (took * LIST_SHARE).clamp(DEBOUNCE, RELIST_EVERY);
        if let Some(wait) = up.listed(pause) {
            ctx.after(wait, McpEvent::Due(attempt));
        }
        match result {
            Ok(listing) => self.tell(state, listing),
            Err(error) => {
                if state.odd.is_news(std::slice::from_ref(&error.message)) {
                    self.published.tell(&self.entry.name, ServerChange::ListUnread(&error.message));
                }
            }
        }
    }

    /// Sends a list to the cache.
    fn tell(&self, state: &mut McpState, listing: Listing) {
        if state.odd.is_news(&listing.warnings) {
            for warning in &listing.warnings {
                self.published.tell(&self.entry.name, ServerChange::ListOdd(warning));
            }
        }
        self.published.tell(&self.entry.name, ServerChange::Listed(listing.tools.len()));
        // A cache that refuses this requests the servers again at its restart or once it has room; all lists are read
        // again then.
        self.cache.tell(ToolCacheMsg::Listed(self.entry.name.clone(), listing.tools));
    }

    fn call(&self, ctx: &mut ActorContext<McpActor>, state: &mut McpState, call: ServerCall) {
        let (starting, first) = (state.starting(), state.failures == 0 && state.begun.elapsed() < CALLS_WAIT);
        let why = match &mut state.link {
            Link::Up(up) => {
                if up.takes_call(call.request.on_behalf.as_ref().map(|whose| &whose.person)) {
                    return up.call(ctx, state.attempt, call);
                }
                "it left calls without an answer, and is left alone for some seconds"
            }
            // Their number is bounded by the permits for calls, and their wait by a timeout.
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

/// True if a failure means that the server did not respond, which counts against the server. A deadline that was short
/// because its turn had little time left does not count.
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
