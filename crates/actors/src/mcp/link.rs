//! The connection of one server's actor: its state, and the tasks that use it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::starts::Starts;
use super::{CallSign, LIST_TIMEOUT, McpActor, McpEvent, is_silence};
use crate::messages::mcp::ServerCall;
use crate::observers::Observers;
use crate::runtime::supervisor::ActorContext;
use domain::breaker::Breaker;
use domain::happening::{Happening, ServerChange, ServerRequest};
use domain::ids::{Person, TurnId};
use domain::tool::{CallError, CallErrorKind, ServerName};
use ports::tools::{Listing, ServerEntry};
use ports::{ToolServer, ToolServers};

/// The number of a connection attempt. Events of earlier attempts are stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempt(u64);

impl Attempt {
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The state of the connection.
#[expect(clippy::large_enum_variant, reason = "an actor has one, and it is connected nearly always")]
pub(super) enum Link {
    /// Connecting; these calls are queued.
    Connecting(Vec<ServerCall>),
    /// Connected.
    Up(Up),
    /// Disconnected for this reason; a new attempt follows after a backoff.
    Waiting(String),
}

/// Reports the requests to one server.
#[derive(Clone)]
pub(super) struct Requests {
    pub server: ServerName,
    pub observers: Observers,
}

impl Requests {
    fn ended(&self, request: ServerRequest<'_>, error: Option<&'static str>, begun: Instant) {
        let change = ServerChange::Requested { request, error, took: begun.elapsed() };
        self.observers.tell(&Happening::Server(&self.server, change));
    }
}

/// An established connection.
pub(super) struct Up {
    pub server: Arc<dyn ToolServer>,
    pub since: Instant,
    requests: Requests,
    /// The circuit breaker of calls, by turns without an answer and their members.
    calls: Breaker<Option<TurnId>, Option<Person>>,
    list: List,
    /// Held by each call in progress.
    working: Arc<()>,
    /// Ends the tasks of the connection, and the connection itself, on drop.
    ended: DropGuard,
}

/// The state of reading the list.
enum List {
    /// Idle; the next read may start at this time.
    Idle(Instant),
    /// A read is in progress; `again`: the list changed since its start.
    Reading { again: bool },
    /// A read follows when the pause is over.
    Due,
}

impl Up {
    pub(super) fn new(server: Arc<dyn ToolServer>, requests: Requests) -> Self {
        let (since, calls, working) = (Instant::now(), Breaker::default(), Arc::default());
        let ended = CancellationToken::new().drop_guard();
        Self { server, since, requests, calls, list: List::Idle(since), working, ended }
    }

    /// Reports changes of the list, debounced, and the end of the connection.
    pub(super) fn watch(&self, ctx: &mut ActorContext<McpActor>, attempt: Attempt, debounce: Duration) {
        let (mut changes, events) = (self.server.changes(), ctx.events());
        let changed = async move {
            while changes.changed().await.is_ok() {
                sleep(debounce).await;
                changes.borrow_and_update();
                if events.send(McpEvent::Changed(attempt)).is_err() {
                    return;
                }
            }
        };
        ctx.background(self.until_it_ends(changed));
        let (server, events) = (Arc::clone(&self.server), ctx.events());
        let lost = async move {
            let reason = server.closed().await;
            // An actor that ended ignores this event.
            events.tell(McpEvent::Lost(attempt, reason));
        };
        ctx.background(self.until_it_ends(lost));
    }

    /// Runs work that ends with the connection.
    fn until_it_ends<W: Future<Output = ()>>(&self, work: W) -> impl Future<Output = ()> + use<W> {
        let ended = self.ended.token().clone();
        async move {
            // The work also ends if nothing can report the end of the connection any more.
            let _ = ended.run_until_cancelled_owned(work).await;
        }
    }

    /// Starts a read, as the pause before it is over.
    pub(super) fn due(&mut self, ctx: &mut ActorContext<McpActor>, attempt: Attempt) {
        if matches!(self.list, List::Due) {
            self.list = List::Idle(Instant::now());
            self.refresh(ctx, attempt);
        }
    }

    /// Reads the list, now or after the pause since the last read; a read in progress is followed by another one.
    pub(super) fn refresh(&mut self, ctx: &mut ActorContext<McpActor>, attempt: Attempt) {
        match &mut self.list {
            List::Reading { again } => *again = true,
            List::Due => {}
            List::Idle(from) if *from > Instant::now() => {
                ctx.after(from.saturating_duration_since(Instant::now()), McpEvent::Due(attempt));
                self.list = List::Due;
            }
            List::Idle(_) => {
                self.list = List::Reading { again: false };
                let (server, requests) = (Arc::clone(&self.server), self.requests.clone());
                let panicked = move |panic| {
                    McpEvent::Listed(attempt, Err(CallError::new(CallErrorKind::Failed, panic)), Duration::ZERO)
                };
                ctx.task(
                    async move {
                        let begun = Instant::now();
                        let result = list(&*server, &requests).await;
                        McpEvent::Listed(attempt, result, begun.elapsed())
                    },
                    panicked,
                );
            }
        }
    }

    /// Records that the list was read. Returns the delay of the next read if the list changed meanwhile.
    pub(super) fn listed(&mut self, pause: Duration) -> Option<Duration> {
        let again = matches!(self.list, List::Reading { again: true });
        self.list = if again { List::Due } else { List::Idle(Instant::now() + pause) };
        again.then_some(pause)
    }

    /// True if calls are in progress. Their deadlines detect a failure then: a sequential server cannot answer a ping
    /// meanwhile.
    pub(super) fn works(&self) -> bool {
        Arc::strong_count(&self.working) > 1
    }

    pub(super) fn ping(&self, ctx: &mut ActorContext<McpActor>, attempt: Attempt) {
        let (server, requests) = (Arc::clone(&self.server), self.requests.clone());
        ctx.task(
            async move {
                let begun = Instant::now();
                let result = server.ping().await;
                requests.ended(ServerRequest::Ping, kind(&result), begun);
                McpEvent::Pinged(attempt, result)
            },
            move |panic| McpEvent::Pinged(attempt, Err(CallError::new(CallErrorKind::Failed, panic))),
        );
    }

    /// Runs one call as a task. The call is cancelled if its caller stops waiting.
    pub(super) fn call(&self, ctx: &mut ActorContext<McpActor>, attempt: Attempt, call: ServerCall) {
        let (server, events, requests) = (Arc::clone(&self.server), ctx.events(), self.requests.clone());
        let (ended, working) = (self.ended.token().clone(), Arc::clone(&self.working));
        ctx.background(async move {
            let ServerCall { request, pin: _, progress, permit, mut reply } = call;
            let begun = Instant::now();
            let result = tokio::select! {
                biased;
                () = reply.closed() => return,
                result = server.step(&request, progress) => result,
                () = ended.cancelled() => {
                    let server = &requests.server;
                    let message = format!("the connection to {server} was lost; whether the call ran is unknown");
                    Err(CallError::new(CallErrorKind::Lost, message))
                }
            };
            requests.ended(ServerRequest::Call(&request.name), kind(&result), begun);
            let silent = result.as_ref().is_err_and(|error| is_silence(error.kind, begun.elapsed()));
            let whose = request.on_behalf.map(|whose| (whose.turn, whose.person));
            let sign =
                if silent { CallSign::Silent(whose) } else { CallSign::Answered(whose.map(|(_, person)| person)) };
            drop(working);
            // An actor that ended ignores this event.
            events.tell(McpEvent::Called(attempt, sign));
            drop(permit);
            let _ = reply.send(result);
        });
    }

    /// True if a call may be sent now. After a pause, one trial call is permitted, and its result decides about further
    /// calls.
    pub(super) fn takes_call(&mut self, person: Option<&Person>) -> bool {
        self.calls.allow(&person.cloned(), self.since.elapsed())
    }

    /// True if a call or a trial call may be sent.
    pub(super) fn may_try(&self) -> bool {
        !self.calls.refuses(self.since.elapsed())
    }

    /// Records the end of a call. Returns true if this opens the circuit breaker.
    pub(super) fn called(&mut self, sign: CallSign) -> bool {
        let now = self.since.elapsed();
        // The return value below shows a change of state.
        let _ = match sign {
            CallSign::Answered(person) => self.calls.succeeded(person, now),
            CallSign::Silent(whose) => {
                let (turn, person) = whose.unzip();
                self.calls.failed(turn, person, now)
            }
        };
        self.calls.refuses(now)
    }
}

/// Connects and reads the first list.
pub(super) async fn connect(
    servers: &dyn ToolServers,
    entry: &ServerEntry,
    starts: &Starts,
    requests: &Requests,
) -> Result<(Arc<dyn ToolServer>, Listing), String> {
    let place = starts.place(entry).await;
    let (begun, bound) = (Instant::now(), entry.connect_bound());
    // The edge enforces this bound itself; the outer timeout protects the actor.
    let connecting = timeout(bound + Duration::from_secs(1), servers.connect(entry, entry.connect_timeout()));
    let connected = place.during(connecting).await.map_err(|_| format!("no connection within {bound:?}"))?;
    requests.ended(ServerRequest::Initialize, connected.as_ref().err().map(|error| error.kind.as_str()), begun);
    let server = connected.map_err(|error| error.to_string())?;
    let listing = list(&*server, requests).await.map_err(|error| error.message)?;
    Ok((server, listing))
}

async fn list(server: &dyn ToolServer, requests: &Requests) -> Result<Listing, CallError> {
    let begun = Instant::now();
    let late = || CallError::new(CallErrorKind::Timeout, format!("the list was not there within {LIST_TIMEOUT:?}"));
    let result = timeout(LIST_TIMEOUT, server.list()).await.unwrap_or_else(|_| Err(late()));
    requests.ended(ServerRequest::List, kind(&result), begun);
    result
}

fn kind<T>(result: &Result<T, CallError>) -> Option<&'static str> {
    result.as_ref().err().map(|error| error.kind.as_str())
}
