//! The generic actor of the tree: it runs a behaviour, supervises children, and keeps the records of both.
//!
//! A behaviour (the [`Actor`] trait) only handles messages. This module adds the counters, the tracing span, injected
//! faults, monitored tasks that are aborted with the actor, and the children with their restart policy. The whole
//! program spawns actors in one place, `spawn_child` below.
//!
//! *Restart intensity* is counted for each child. A restart counts if the previous life failed at its start, at an
//! event of its own, or because it gave up its children. A restart does not count if the life failed while it handled
//! external input: a message, or an event with [`Origin::Outside`]. Such failures lead to longer backoff instead, so no
//! sender can make a supervisor give up.
//!
//! *Poison messages.* A message that is redelivered after a loss has a subject ([`Actor::subject`]), the same each
//! time. The third failure at one subject makes it poison: for some minutes the supervisor passes it to
//! [`Actor::give_up`] and not to the handler. The count survives restarts because the actor's [`Stats`] hold it.
//!
//! *Watchdog.* Each supervisor checks its children once a second. It logs a handler that exceeds the time limit of its
//! row, and if the row says so, it kills and restarts the child. A kill takes effect at the handler's next await: a
//! handler that blocks its thread cannot be ended, and the log says so.

mod children;
mod injected;
mod watch;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use self::children::{Children, Siblings, Timer};
use self::watch::Watch;
use crate::observers::Observers;
use crate::runtime::handle::{Address, Envelope, Handle, Next, Slot, Stats};
use crate::runtime::named::Named;
use crate::runtime::roster::Roster;
use crate::tree::TreeRow;
use domain::happening::ActorChange;
use domain::panic;
use ports::{Dice, Faults, Input, Origin, Subject};

/// The backpressure limit of streaming tasks: such a task adds an event only while the mailbox holds fewer messages and
/// events.
pub(crate) const STREAMED_MAX: usize = 1_000;

/// The interval at which such a task checks a full mailbox again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The reason of a crash: the supervisor restarts the actor by its policy. Expected failures are values in messages
/// instead.
pub type Crash = ActorProcessingErr;

/// The behaviour of an actor. The value holds the actor's arguments and is reused for each restart; all mutable data is
/// in the state and is lost in a crash.
pub trait Actor: Sized + Send + Sync + 'static {
    /// The messages that other actors may send.
    type Msg: Named + Send + 'static;
    /// The events of the actor's own timers and tasks; no other actor can send them.
    type Event: Send + 'static;
    /// The data that the actor holds between messages.
    type State: Send + 'static;

    /// Creates the state. Does not await; longer initialization runs as a task that reports back.
    ///
    /// # Errors
    /// A [`Crash`] counts as a failure of the actor.
    fn start(&self, ctx: &mut ActorContext<Self>) -> Result<Self::State, Crash>;

    /// Handles one message.
    ///
    /// # Errors
    /// A [`Crash`] ends this life of the actor.
    fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), Crash>> + Send;

    /// Handles one event of the actor itself.
    ///
    /// # Errors
    /// A [`Crash`] ends this life of the actor.
    fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: Self::Event,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), Crash>> + Send;

    /// Returns the subject of a message that is redelivered after a loss, by its sender or by the journal.
    fn subject(_message: &Self::Msg) -> Option<Subject> {
        None
    }

    /// Returns the origin of an event.
    fn origin(_event: &Self::Event) -> Origin {
        Origin::Own
    }

    /// Ends a message at which this actor failed repeatedly, without handling it. The default drops the message, which
    /// returns receipts and fails calls. An external event is always dropped.
    fn give_up(&self, _ctx: &mut ActorContext<Self>, _message: Self::Msg, _state: &mut Self::State) {}

    /// Runs once after a full mailbox refused messages, as soon as at most half of it is in use. An actor that receives
    /// some state by messages sent once requests that state again here, as it does at its start.
    fn overflowed(&self, _ctx: &mut ActorContext<Self>, _state: &mut Self::State) {}

    /// Runs on an orderly stop, after the mailbox is drained and the children are stopped; never after a crash.
    fn stop(&self, _me: &mut ActorContext<Self>, _state: &mut Self::State) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// The services that all supervisors of one tree share.
pub struct Shared {
    /// The observers to which supervisors report the lives of their actors.
    pub observers: Observers,
    /// The source of injected faults, consulted before each message.
    pub faults: Arc<dyn Faults>,
    /// The source of jitter for restarts.
    pub dice: Arc<dyn Dice>,
    /// The registry of running actors.
    pub roster: Arc<Roster>,
    /// Called for each failed actor, after it runs again or is given up.
    pub recovered: Box<dyn Fn(&Stats) + Send + Sync>,
}

/// The sender that an actor's own timers and tasks use to reach its mailbox, for one life of the actor.
pub struct EventSender<A: Actor> {
    actor: ActorRef<Envelope<A::Msg, A::Event>>,
    stats: Arc<Stats>,
}

impl<A: Actor> Clone for EventSender<A> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), stats: Arc::clone(&self.stats) }
    }
}

/// The life of the actor is over: its events are no longer handled.
#[derive(Debug)]
pub struct LifeOver;

impl<A: Actor> EventSender<A> {
    /// Puts an event into the mailbox, even if it is full: the timers and tasks of the actor bound the number of
    /// events.
    ///
    /// # Errors
    /// The life of the actor that created this sender is over; the event is dropped.
    pub fn send(&self, event: A::Event) -> Result<(), LifeOver> {
        self.actor.cast(Envelope::Event(event, Slot::take(&self.stats))).map_err(|_| LifeOver)
    }

    /// Puts an event into the mailbox and ignores the end of this life: the next life starts its timers and tasks
    /// again.
    pub fn tell(&self, event: A::Event) {
        drop(self.send(event));
    }

    /// Puts an event of a streaming task into the mailbox. Applies backpressure: it first waits until fewer than
    /// [`STREAMED_MAX`] messages and events are queued, which slows the peer of the connection. The watchdog bounds
    /// this wait: it ends a hanging handler.
    ///
    /// # Errors
    /// See [`EventSender::send`].
    pub async fn send_when_there_is_room(&self, event: A::Event) -> Result<(), LifeOver> {
        while self.stats.depth.load(Ordering::Relaxed) >= STREAMED_MAX {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.send(event)
    }
}

/// The capabilities of an actor besides handling messages: sending events to itself, monitored tasks, and children.
pub struct ActorContext<A: Actor> {
    handle: Handle<A::Msg>,
    events: EventSender<A>,
    tasks: JoinSet<()>,
    children: Children,
    stop_self: bool,
}

impl<A: Actor> ActorContext<A> {
    /// Returns the actor's own address, for actors that it creates.
    #[must_use]
    pub fn handle(&self) -> &Handle<A::Msg> {
        &self.handle
    }

    /// Returns a sender for tasks and receipts of the actor that report more than one event.
    #[must_use]
    pub fn events(&self) -> EventSender<A> {
        self.events.clone()
    }

    /// Returns the actor's path in the tree.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.handle.stats().path
    }

    /// Sends an event to the actor itself after a delay.
    pub fn after(&mut self, delay: Duration, event: A::Event) {
        let events = self.events.clone();
        self.spawn(async move {
            tokio::time::sleep(delay).await;
            events.tell(event);
        });
    }

    /// Runs a task beside the mailbox. Its result arrives as an event; a panic arrives as the event that `on_panic`
    /// makes of its text. The task is aborted when this actor ends.
    pub fn task<F, P>(&mut self, work: F, on_panic: P)
    where
        F: Future<Output = A::Event> + Send + 'static,
        P: FnOnce(String) -> A::Event + Send + 'static,
    {
        let events = self.events.clone();
        self.spawn(async move {
            let event = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(event) => event,
                Err(payload) => on_panic(panic::text(payload.as_ref())),
            };
            events.tell(event);
        });
    }

    /// Runs a task beside the mailbox without a report. It is aborted when this actor ends.
    pub fn background(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn(work);
    }

    /// Starts a child from a template of the tree. If a child of the same name runs already, it is kept.
    ///
    /// # Errors
    /// A [`Crash`] if children fail more often than this actor's restart intensity allows.
    pub async fn start_child(&mut self, spec: ChildSpec) -> Result<(), Crash> {
        self.children.add(spec).await
    }

    /// Stops a child in order and removes it, so that another child of its name can start at once. Waits at most for
    /// the stop timeout of the child's row, then kills the child.
    pub async fn stop_child(&mut self, path: &str) {
        self.children.remove(path).await;
    }

    /// Requests an orderly stop of this actor after the current message.
    #[cfg_attr(not(test), allow(dead_code, reason = "part of the interface of every actor"))]
    pub fn stop_self(&mut self) {
        self.stop_self = true;
    }

    /// Records the start of a handler and counts it, unless the input is poison or a fault is injected in its place.
    async fn begin(&self, input: Input, kind: &'static str) -> Result<Next, Crash> {
        let stats = self.handle.stats();
        if stats.begin(input, kind) == Next::GiveUp {
            stats.tell(&self.children.shared.observers, ActorChange::Poisoned(input.as_str()));
            return Ok(Next::GiveUp);
        }
        if let Some(fault) = self.children.shared.faults.before(self.path(), input) {
            injected::fail(fault).await?;
        }
        // The count excludes the actor's own timers: their ticks would hide its real load.
        if input.is_outside() {
            stats.handled.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Next::Handle)
    }

    fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        // Boxed, so that a finished task holds almost no memory until it is joined, which may be much later.
        self.tasks.spawn(Box::pin(work).in_current_span());
    }
}

/// The start of one child and the row that supervises it.
#[derive(Clone)]
pub struct ChildSpec {
    row: &'static TreeRow,
    address: Arc<dyn Address>,
    start: Starter,
}

type Starter =
    Arc<dyn Fn(ActorCell, Arc<Shared>) -> BoxFuture<'static, Result<ActorCell, ractor::SpawnErr>> + Send + Sync>;

impl ChildSpec {
    /// Returns the spec of a child that runs `actor` at `handle`, with its own children.
    pub fn new<A: Actor>(row: &'static TreeRow, handle: &Handle<A::Msg>, actor: A, children: Vec<ChildSpec>) -> Self {
        let actor = Arc::new(actor);
        let address = handle.clone();
        let start: Starter = Arc::new({
            let handle = handle.clone();
            move |supervisor, shared| {
                let args = StartArgs { row, handle: handle.clone(), children: children.clone(), shared };
                let node = Node { actor: Arc::clone(&actor) };
                async move { spawn_child(node, args, Some(supervisor)).await.map(|(cell, _)| cell) }.boxed()
            }
        });
        Self { row, address: Arc::new(address), start }
    }

    /// Returns the path of the child.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.stats().path
    }

    fn stats(&self) -> &Arc<Stats> {
        self.address.stats()
    }
}

/// Starts the root of a tree. The join handle completes when the root ends: on request, or because it gave up.
///
/// # Errors
/// The root's own start failed.
pub async fn start_root<A: Actor>(
    row: &'static TreeRow,
    handle: &Handle<A::Msg>,
    actor: A,
    children: Vec<ChildSpec>,
    shared: Arc<Shared>,
) -> Result<(ActorCell, tokio::task::JoinHandle<()>), Crash> {
    shared.roster.enter(Arc::clone(handle.stats()));
    let args = StartArgs { row, handle: handle.clone(), children, shared: Arc::clone(&shared) };
    let node = Node { actor: Arc::new(actor) };
    let root = spawn_child(node, args, None).await?;
    handle.stats().tell(&shared.observers, ActorChange::Started);
    Ok(root)
}

#[expect(clippy::disallowed_methods, reason = "this is the one place where actors are spawned")]
async fn spawn_child<A: Actor>(
    node: Node<A>,
    args: StartArgs<A>,
    supervisor: Option<ActorCell>,
) -> Result<(ActorCell, tokio::task::JoinHandle<()>), ractor::SpawnErr> {
    let (actor, join) = match supervisor {
        Some(supervisor) => ractor::Actor::spawn_linked(None, node, args, supervisor).await?,
        None => ractor::Actor::spawn(None, node, args).await?,
    };
    Ok((actor.get_cell(), join))
}

// === The generic actor ===

struct Node<A: Actor> {
    actor: Arc<A>,
}

impl<A: Actor> Node<A> {
    /// Notifies the actor that a full mailbox has room again.
    fn overflowed(&self, ctx: &mut ActorContext<A>, state: &mut A::State) {
        let stats = ctx.handle.stats();
        let (capacity, refused) = (stats.mailbox.capacity, stats.refused.load(Ordering::Relaxed));
        stats.tell(&ctx.children.shared.observers, ActorChange::Overflowed { capacity, refused });
        self.actor.overflowed(ctx, state);
    }
}

struct StartArgs<A: Actor> {
    row: &'static TreeRow,
    handle: Handle<A::Msg>,
    children: Vec<ChildSpec>,
    shared: Arc<Shared>,
}

struct NodeState<A: Actor> {
    ctx: ActorContext<A>,
    state: A::State,
    span: tracing::Span,
}

impl<A: Actor> ractor::Actor for Node<A> {
    type Msg = Envelope<A::Msg, A::Event>;
    type State = NodeState<A>;
    type Arguments = StartArgs<A>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        args: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let stats = Arc::clone(args.handle.stats());
        args.handle.connect(myself.clone());
        let events = EventSender { actor: myself.clone(), stats: Arc::clone(&stats) };
        let span = tracing::info_span!("actor", actor = %stats.path);
        let (cell, following) = (myself.get_cell(), myself.clone());
        let children = Children {
            row: args.row,
            own: Arc::clone(&stats),
            shared: args.shared,
            cell,
            timer: Box::new(move |delay, timer| {
                drop(myself.send_after(delay, move || match timer {
                    Timer::Revive(path) => Envelope::Revive(path),
                    Timer::Look => Envelope::Look,
                }));
            }),
            list: Siblings::default(),
            watch: Watch::default(),
            born: Instant::now(),
        };
        let ordered = children.shared.faults.ordered(&stats.path);
        let mut ctx = ActorContext { handle: args.handle, events, tasks: JoinSet::new(), children, stop_self: false };
        if let Some(ordered) = ordered {
            ctx.background(injected::follow(following, stats, ordered));
        }
        let state = span.in_scope(|| self.actor.start(&mut ctx))?;
        for spec in args.children {
            ctx.children.add(spec).await?;
        }
        Ok(NodeState { ctx, state, span })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        envelope: Self::Msg,
        node: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let NodeState { ctx, state, span } = node;
        match envelope {
            Envelope::Revive(path) => return ctx.children.revive(&path).await,
            Envelope::Look => {
                ctx.children.look();
                return Ok(());
            }
            Envelope::Fault(fault, _slot) => match ctx.begin(Input::Event(Origin::Outside(None)), "fault").await? {
                Next::Handle => injected::fail(fault).instrument(span.clone()).await?,
                Next::GiveUp => {}
            },
            Envelope::Message(message, _slot) => {
                match ctx.begin(Input::Message(A::subject(&message)), message.name()).await? {
                    Next::Handle => self.actor.handle(ctx, message, state).instrument(span.clone()).await?,
                    Next::GiveUp => span.in_scope(|| self.actor.give_up(ctx, message, state)),
                }
            }
            Envelope::Event(event, _slot) => match ctx.begin(Input::Event(A::origin(&event)), "event").await? {
                Next::Handle => self.actor.event(ctx, event, state).instrument(span.clone()).await?,
                Next::GiveUp => drop(event),
            },
        }
        ctx.handle.stats().done();
        if ctx.handle.stats().overflow_is_over() {
            span.in_scope(|| self.overflowed(ctx, state));
        }
        if ctx.stop_self {
            myself.stop(None);
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        node: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        node.ctx.children.notice(event).await
    }

    async fn post_stop(&self, _myself: ActorRef<Self::Msg>, node: &mut Self::State) -> Result<(), ActorProcessingErr> {
        let NodeState { ctx, state, span } = node;
        ctx.children.stop_all().await;
        // The state of an ended actor travels to its supervisor; its tasks must not live that long.
        ctx.tasks.shutdown().await;
        self.actor.stop(ctx, state).instrument(span.clone()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
