//! The one generic actor of the tree: it runs a behaviour, supervises its children, and does the bookkeeping for both.
//!
//! A behaviour (the [`Actor`] trait) only handles messages. Around it stand the counts, the span, injected faults, the
//! monitored tasks that die with it, and the children with their restart law. Actors are spawned in one place in the whole
//! program, `spawn_child` below.
//!
//! *Restart intensity* is counted for each child. A restart counts when the life before it failed at its start, at an event of
//! its own, or because it gave up its children. It does not count when the life failed while it handled what somebody outside
//! decides: a message, or an event with [`Origin::Outside`]. Such failures back off further instead, so no sender can make a
//! supervisor give up.
//!
//! *Poison messages.* A message that is sent again when it was lost has a subject ([`Actor::subject`]), the same each time. The
//! third failure at one subject makes it poison: from then on, for some minutes, it is handed to [`Actor::give_up`] and not to the
//! handler. The count outlives restarts, since it stands in the actor's [`Stats`].
//!
//! *Watchdog.* Each supervisor looks at its children once a second. A handler that runs longer than its row allows is logged, and
//! where the row says so the child is killed and restarted. A kill takes effect at the handler's next await: a handler that
//! blocks its thread cannot be ended, and the log says so.

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
use crate::runtime::handle::{Address, Envelope, Handle, Next, Slot, Stats};
use crate::runtime::roster::Roster;
use crate::tree::Row;
use domain::panic;
use ports::{Dice, Faults, Input, Origin, Subject};

/// The most messages and events in a mailbox before a task that reads without end puts one more event into it.
pub(crate) const STREAMED_MAX: usize = 1_000;

/// The time that such a task waits before it looks at a full mailbox again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A reason to crash: the supervisor restarts the actor by its policy. Expected failure is a value in a message instead.
pub type Crash = ActorProcessingErr;

/// The behaviour of an actor. The value itself holds its arguments and is used again for each restart; all that changes lives
/// in the state and is lost in a crash.
pub trait Actor: Sized + Send + Sync + 'static {
    /// What others may send it.
    type Msg: Send + 'static;
    /// What its own timers and tasks tell it; nobody else can.
    type Event: Send + 'static;
    /// What it holds between messages.
    type State: Send + 'static;

    /// Makes the state. Awaits nothing; longer beginnings are tasks that report back.
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

    /// Handles one event of its own.
    ///
    /// # Errors
    /// A [`Crash`] ends this life of the actor.
    fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: Self::Event,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), Crash>> + Send;

    /// What a message is about, if it comes again when it was lost: its sender repeats it, or the journal does.
    fn subject(_message: &Self::Msg) -> Option<Subject> {
        None
    }

    /// Where an event comes from.
    fn origin(_event: &Self::Event) -> Origin {
        Origin::Own
    }

    /// Ends a message that failed this actor again and again, without handling it. Dropping it, which is what happens unless an
    /// actor knows better, returns receipts and answers calls. An event from outside is dropped in any case.
    fn give_up(&self, _ctx: &mut ActorContext<Self>, _message: Self::Msg, _state: &mut Self::State) {}

    /// Called once after messages were refused because the mailbox was full, as soon as at most half of it is taken. An actor that
    /// learns something by being told once asks for it again here, as it does when it starts.
    fn overflowed(&self, _ctx: &mut ActorContext<Self>, _state: &mut Self::State) {}

    /// Called on an orderly stop, after the mailbox was drained and the children were stopped; never after a crash.
    fn stop(&self, _me: &mut ActorContext<Self>, _state: &mut Self::State) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// What all supervisors of one tree share.
pub struct Shared {
    /// Asked before each message.
    pub faults: Arc<dyn Faults>,
    /// Jitter of restarts.
    pub dice: Arc<dyn Dice>,
    /// Who lives.
    pub roster: Arc<Roster>,
    /// Called for each actor that failed, after it runs again or is given up.
    pub recovered: Box<dyn Fn(&Stats) + Send + Sync>,
}

/// The way of an actor's own timers and tasks into its mailbox, for one life of it.
pub struct EventSender<A: Actor> {
    actor: ActorRef<Envelope<A::Msg, A::Event>>,
    stats: Arc<Stats>,
}

impl<A: Actor> Clone for EventSender<A> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), stats: Arc::clone(&self.stats) }
    }
}

/// The life of an actor is over: its events are handled no more.
#[derive(Debug)]
pub struct LifeOver;

impl<A: Actor> EventSender<A> {
    /// Puts an event into the mailbox, also into a full one: events are bounded by the timers and tasks that the actor started.
    ///
    /// # Errors
    /// The life of the actor that made this is over; the event is dropped.
    pub fn send(&self, event: A::Event) -> Result<(), LifeOver> {
        self.actor.cast(Envelope::Event(event, Slot::take(&self.stats))).map_err(|_| LifeOver)
    }

    /// The same for what the next life does not need: it starts its timers and tasks anew.
    pub fn tell(&self, event: A::Event) {
        drop(self.send(event));
    }

    /// The same for a task that reads without end: waits until fewer than [`STREAMED_MAX`] messages and events are in the mailbox, so
    /// that the sender at the other end of the connection is slowed down. The watchdog bounds the wait: it ends a handler that hangs.
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

/// What an actor may do besides handling messages: reach itself, run monitored tasks, have children.
pub struct ActorContext<A: Actor> {
    handle: Handle<A::Msg>,
    events: EventSender<A>,
    tasks: JoinSet<()>,
    children: Children,
    stop_self: bool,
}

impl<A: Actor> ActorContext<A> {
    /// Its own address, for actors that it makes.
    #[must_use]
    pub fn handle(&self) -> &Handle<A::Msg> {
        &self.handle
    }

    /// For tasks and receipts of its own that have more than one thing to tell.
    #[must_use]
    pub fn events(&self) -> EventSender<A> {
        self.events.clone()
    }

    /// Its path in the tree.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.handle.stats().path
    }

    /// Tells itself something after a while.
    pub fn after(&mut self, delay: Duration, event: A::Event) {
        let events = self.events.clone();
        self.spawn(async move {
            tokio::time::sleep(delay).await;
            events.tell(event);
        });
    }

    /// Runs work beside the mailbox; its result comes back as an event, a panic as the event made of its text. The work
    /// is aborted when this actor ends.
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

    /// Runs work beside the mailbox that reports to nobody. It is aborted when this actor ends.
    pub fn background(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn(work);
    }

    /// Starts a child from a template of the tree. A child of the same name that already lives stays.
    ///
    /// # Errors
    /// A [`Crash`] when children fail more often than this actor's intensity allows.
    pub async fn start_child(&mut self, spec: ChildSpec) -> Result<(), Crash> {
        self.children.add(spec).await
    }

    /// Stops a child in order and forgets it, so that another of its name can be started at once. Waits for the child, at
    /// most as long as its row allows; then it is killed.
    pub async fn stop_child(&mut self, path: &str) {
        self.children.remove(path).await;
    }

    /// Asks for an orderly stop of this actor once the present message is handled.
    #[cfg_attr(not(test), allow(dead_code, reason = "what any actor may ask of its runtime"))]
    pub fn stop_self(&mut self) {
        self.stop_self = true;
    }

    /// Something is about to be handled: it is counted, unless it is poison, or a fault is injected in its place.
    async fn begin(&self, input: Input) -> Result<Next, Crash> {
        let stats = self.handle.stats();
        if stats.begin(input) == Next::GiveUp {
            tracing::error!(
                event = "actor.poisoned", actor = %stats.path, input = input.as_str(),
                "it failed this actor again and again; it was given up"
            );
            metrics::counter!("staffai_poison_messages_total", "actor" => stats.label.to_string()).increment(1);
            return Ok(Next::GiveUp);
        }
        if let Some(fault) = self.children.shared.faults.before(self.path(), input) {
            injected::fail(fault).await?;
        }
        // Ticks of its own timers would hide how much it has to do.
        if input.is_outside() {
            stats.handled.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Next::Handle)
    }

    fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        // In a box, so that a task that has ended holds next to nothing until it is joined: that may be much later.
        self.tasks.spawn(Box::pin(work).in_current_span());
    }
}

/// How one child is started, and by which row of the tree it is supervised.
#[derive(Clone)]
pub struct ChildSpec {
    row: &'static Row,
    address: Arc<dyn Address>,
    start: Starter,
}

type Starter =
    Arc<dyn Fn(ActorCell, Arc<Shared>) -> BoxFuture<'static, Result<ActorCell, ractor::SpawnErr>> + Send + Sync>;

impl ChildSpec {
    /// A child that runs `actor` at `handle`, with its own children.
    pub fn new<A: Actor>(row: &'static Row, handle: &Handle<A::Msg>, actor: A, children: Vec<ChildSpec>) -> Self {
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

    fn stats(&self) -> &Arc<Stats> {
        self.address.stats()
    }
}

/// Starts the root of a tree. The join handle ends when the root does: by order, or because it gave up.
///
/// # Errors
/// The root's own start failed.
pub async fn start_root<A: Actor>(
    row: &'static Row,
    handle: &Handle<A::Msg>,
    actor: A,
    children: Vec<ChildSpec>,
    shared: Arc<Shared>,
) -> Result<(ActorCell, tokio::task::JoinHandle<()>), Crash> {
    shared.roster.enter(Arc::clone(handle.stats()));
    let args = StartArgs { row, handle: handle.clone(), children, shared };
    let node = Node { actor: Arc::new(actor) };
    let root = spawn_child(node, args, None).await?;
    tracing::info!(event = "actor.started", actor = %handle.stats().path, "actor started");
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

// === The node itself ===

struct Node<A: Actor> {
    actor: Arc<A>,
}

impl<A: Actor> Node<A> {
    /// There is room again in a mailbox that was full.
    fn overflowed(&self, ctx: &mut ActorContext<A>, state: &mut A::State) {
        let stats = ctx.handle.stats();
        tracing::warn!(
            event = "actor.overflowed", actor = %stats.path, capacity = stats.mailbox.capacity,
            refused = stats.refused.load(Ordering::Relaxed), "its mailbox was full; there is room again"
        );
        self.actor.overflowed(ctx, state);
    }
}

struct StartArgs<A: Actor> {
    row: &'static Row,
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
            Envelope::Fault(fault, _slot) => match ctx.begin(Input::Event(Origin::Outside(None))).await? {
                Next::Handle => injected::fail(fault).instrument(span.clone()).await?,
                Next::GiveUp => {}
            },
            Envelope::Message(message, _slot) => match ctx.begin(Input::Message(A::subject(&message))).await? {
                Next::Handle => self.actor.handle(ctx, message, state).instrument(span.clone()).await?,
                Next::GiveUp => span.in_scope(|| self.actor.give_up(ctx, message, state)),
            },
            Envelope::Event(event, _slot) => match ctx.begin(Input::Event(A::origin(&event))).await? {
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
        // An ended actor's state travels on to its supervisor; its tasks must not live as long as that.
        ctx.tasks.shutdown().await;
        self.actor.stop(ctx, state).instrument(span.clone()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
