//! From rows to running actors, in two steps: first all handles are made, then each row of the tree is turned into a child that
//! knows its neighbours by handle. Nobody looks a name up while the program runs.

mod doors;
mod handles;
mod tools;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use self::handles::Handles;
use crate::commands::{CommandParts, Commands};
use crate::config_watcher::{ConfigWatcher, Files};
use crate::conversations::Conversations;
use crate::desk::Ways;
use crate::door::{DoorRecord, Doors};
use crate::gateway::Gateway;
use crate::journal::Journal;
use crate::llm_dispatcher::LlmDispatcher;
use crate::messages::config_watcher::ConfigWatcherMsg;
use crate::messages::conversations::ConversationsMsg;
use crate::messages::journal::{JournalMsg, Recovered};
use crate::observation::audit::Audit;
use crate::observation::board::Board;
use crate::observation::timeline::Timeline;
use crate::observation::turn_events::TurnEvents;
use crate::ops::Ops;
use crate::presence_scheduler;
use crate::rate_limiter::RateLimiter;
use crate::reporter::Reporter;
use crate::restriction_sweeper::RestrictionSweeper;
use crate::runtime::roster::Roster;
use crate::runtime::supervisor::{self, Actor, ActorContext, ChildSpec, Crash, Shared};
use crate::services::facts::FactKeeper;
use crate::services::in_flight::InFlight;
use crate::services::restricted::Restricted;
use crate::services::running::{ExitSender, Live};
use crate::services::toolbox::Toolbox;
use crate::tool_cache::BuiltIn;
use crate::tree::{ActorKind, Name, ROOT, Row, TREE};
use crate::turn::{ATTACHMENT_KIB_MAX, TurnParts};
use domain::ids::Door;
use domain::tool::server::Tooling;
use ports::{Clock, Dice, Faults, Limiter, Listener, Renderer, Store, ToolProviders, ToolServers, Turns, Vitals};

/// Everything that the tree is built from.
pub struct Parts {
    /// What this process runs with.
    pub live: Live,
    /// The files behind it.
    pub files: Arc<dyn Files>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub dice: Arc<dyn Dice>,
    /// Injected failure; none in production.
    pub faults: Arc<dyn Faults>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// Counts what members, places and programs use.
    pub limiter: Arc<dyn Limiter>,
    /// The journal's records in it.
    pub turns: Arc<dyn Turns>,
    /// All doors.
    pub doors: Doors,
    /// The door whose ids stand in the settings: where reports go, and where we are shown with a status.
    pub home: Door,
    /// Draws formulas.
    pub renderer: Arc<dyn Renderer>,
    /// The addresses of the actors, made before the edges that speak to them.
    pub handles: Handles,
    /// Serves the pages.
    pub listener: Arc<dyn Listener>,
    /// Serve the same at further addresses.
    pub listeners: Vec<Arc<dyn Listener>>,
    /// How everything is, as the listener tells it.
    pub vitals: Arc<dyn Vitals>,
    /// Who lives; the listener reads it.
    pub roster: Arc<Roster>,
    /// How the parts are; the listener reads it.
    pub board: Arc<Board>,
    /// How the tool servers are, for the commands about them; the listener reads it.
    pub tooling: Arc<RwLock<Tooling>>,
    /// When the last turns did what; the listener reads it.
    pub timeline: Arc<Timeline>,
    /// What happens to turns; edges with clients that read along read it.
    pub events: TurnEvents,
    /// The tools that there are now.
    pub toolbox: Arc<Toolbox>,
    /// What this program offers itself.
    pub built_in: BuiltIn,
    /// What members told us to keep.
    pub facts: Arc<FactKeeper>,
    /// What was called for whom, and who decided about it.
    pub audit: Arc<Audit>,
    /// Connects to tool servers.
    pub servers: Arc<dyn ToolServers>,
    /// Where processes that provide tools are heard; none where no such place is configured.
    pub providers: Option<Arc<dyn ToolProviders>>,
    /// Told when the process must end.
    pub exit: ExitSender,
}

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// All that was begun is answered and posted.
    pub finished: bool,
    /// Turns that stay in the journal for the next start; none when the journal did not say.
    pub left: Option<usize>,
}

/// A running tree.
pub struct Tree {
    handles: Handles,
    in_flight: Arc<InFlight>,
    board: Arc<Board>,
    root: ractor::ActorCell,
    ended: JoinHandle<()>,
}

impl Tree {
    /// Starts everything.
    ///
    /// # Errors
    /// The settings know nothing of a door, or an actor's first start failed so often that the root gave up.
    pub async fn start(parts: Parts) -> Result<Self, Crash> {
        parts.doors.check(&parts.live.now(), &parts.home)?;
        let handles = parts.handles.clone();
        let in_flight = Arc::new(InFlight::default());
        let journal = handles.journal.clone();
        let shared = Arc::new(Shared {
            faults: Arc::clone(&parts.faults),
            dice: Arc::clone(&parts.dice),
            roster: Arc::clone(&parts.roster),
            // A journal that is down offers everything when it is back.
            recovered: Box::new(move |stats| {
                let recovered = Recovered { kind: stats.kind, scope: stats.scope.clone() };
                let _ = journal.cast(JournalMsg::ActorRecovered(recovered));
            }),
        });
        let board = Arc::clone(&parts.board);
        let wiring = Wiring::new(parts, handles.clone(), Arc::clone(&in_flight));
        let children = wiring.children(&TREE);
        let (root, ended) = supervisor::start_root(&TREE, &handles.root, Root, children, shared).await?;
        Ok(Self { handles, in_flight, board, root, ended })
    }

    /// Waits until the root ends: only when it gave up.
    pub async fn gave_up(&mut self) {
        // A join error means that the root is gone as well.
        let _ = (&mut self.ended).await;
    }

    /// Takes nothing new, and waits until what is in flight is answered and posted, at most `within`. Whatever is left then
    /// stays in the journal, as does what came meanwhile.
    pub async fn drain(&self, within: Duration) -> Drained {
        let deadline = Instant::now() + within;
        let mut drained = Drained { finished: false, left: None };
        self.board.drain();
        // An actor that is down holds nothing to be drained.
        let _ = self.handles.journal.cast(JournalMsg::Drain);
        let _ = self.handles.conversations.cast(ConversationsMsg::Drain);
        while Instant::now() < deadline {
            let running = self.in_flight.now();
            let left = self.handles.journal.call(JournalMsg::Left, Duration::from_secs(1)).await.ok();
            drained.left = left.map(|left| left.open);
            let delivered = left.is_some_and(|left| left.undelivered == 0);
            if running == 0 && delivered && self.in_flight.now() == 0 {
                return Drained { finished: true, ..drained };
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drained
    }

    /// Reads the configuration again, as when a file changed.
    pub fn reload(&self) -> impl Fn() + Send + use<> {
        let watcher = self.handles.config_watcher.clone();
        move || {
            // A watcher that is down reads everything when it is back.
            let _ = watcher.cast(ConfigWatcherMsg::Reload);
        }
    }

    /// Stops all actors in the reverse of their start order, within the root's deadline; who is left then is killed.
    pub async fn stop(self) {
        self.stop_within(TREE.stop_within).await;
    }

    /// The same within a shorter time.
    pub async fn stop_within(self, within: Duration) {
        if self.root.drain_and_wait(Some(within.min(TREE.stop_within))).await.is_err() {
            self.root.kill();
        }
        tracing::info!(event = "actor.stopped", actor = ROOT, "actor stopped");
    }
}

/// The root does nothing but supervise.
struct Root;

impl Actor for Root {
    type Msg = Infallible;
    type Event = Infallible;
    type State = ();

    fn start(&self, _ctx: &mut ActorContext<Self>) -> Result<(), Crash> {
        Ok(())
    }

    async fn handle(&self, _ctx: &mut ActorContext<Self>, message: Infallible, (): &mut ()) -> Result<(), Crash> {
        match message {}
    }

    async fn event(&self, _ctx: &mut ActorContext<Self>, event: Infallible, (): &mut ()) -> Result<(), Crash> {
        match event {}
    }
}

/// What the actors are made of: the parts, their handles, and what outlives single actors.
struct Wiring {
    parts: Parts,
    handles: Handles,
    turn_parts: Arc<TurnParts>,
    open_turns: Arc<Semaphore>,
    model_permits: Arc<Semaphore>,
    presence: presence_scheduler::Slot,
    restricted: Arc<Restricted>,
}

impl Wiring {
    fn new(parts: Parts, handles: Handles, in_flight: Arc<InFlight>) -> Self {
        let running = parts.live.now();
        let settings = &running.settings;
        let turn_parts = Arc::new(TurnParts {
            live: parts.live.clone(),
            store: Arc::clone(&parts.store),
            clock: Arc::clone(&parts.clock),
            dice: Arc::clone(&parts.dice),
            dispatcher: handles.llm_dispatcher.clone(),
            outboxes: handles.outboxes.clone(),
            doors: parts.doors.clone(),
            attachment_kib: Arc::new(Semaphore::new(ATTACHMENT_KIB_MAX)),
            journal: handles.journal.clone(),
            facts: Arc::clone(&parts.facts),
            forgotten: parts.facts.forgotten(),
            rate_limiter: handles.rate_limiter.clone(),
            in_flight,
            timeline: Arc::clone(&parts.timeline),
            busy: Arc::default(),
            closed: Arc::default(),
            interjections: Arc::default(),
            events: parts.events.clone(),
            toolbox: Arc::clone(&parts.toolbox),
            tool_use: Arc::default(),
            allowances: Arc::default(),
            audit: Arc::clone(&parts.audit),
            clean_calls: Arc::clone(&parts.built_in.clean_calls),
        });
        let open_turns = Arc::new(Semaphore::new(settings.turn.open));
        let model_permits = Arc::new(Semaphore::new(settings.llm.concurrent));
        parts.timeline.limit("open turns", settings.turn.open, Arc::clone(&open_turns));
        parts.timeline.limit("model calls", settings.llm.concurrent, Arc::clone(&model_permits));
        Self {
            parts,
            handles,
            turn_parts,
            open_turns,
            model_permits,
            presence: Arc::default(),
            restricted: Arc::default(),
        }
    }

    /// The children of a row that it has from the start.
    fn children(&self, row: &'static Row) -> Vec<ChildSpec> {
        row.children.iter().flat_map(|row| self.initial(row)).collect()
    }

    /// The actors of a row that run from the start, each with its own children: one, or of a template those instances that are
    /// known by then.
    fn initial(&self, row: &'static Row) -> Vec<ChildSpec> {
        let below = self.children(row);
        let Handles {
            root,
            ops,
            journal,
            outboxes,
            rate_limiter,
            restriction_sweeper,
            tools,
            tool_cache,
            approvals,
            providers: listener,
            llm_dispatcher,
            conversations,
            presence_scheduler,
            commands,
            reporter,
            timers,
            config_watcher,
            gateway,
            discord,
            identify_queue,
        } = &self.handles;
        let only = match row.kind {
            ActorKind::Root => ChildSpec::new(row, root, Root, below),
            ActorKind::Ops => ChildSpec::new(row, ops, self.ops(), below),
            ActorKind::Listener => return self.listeners(row),
            ActorKind::Journal => ChildSpec::new(row, journal, self.journal(), below),
            ActorKind::Outbox => {
                let records = self.parts.doors.iter();
                let of = |record: &DoorRecord| {
                    ChildSpec::new(row, outboxes.of(&record.door), self.outbox(record), below.clone())
                };
                return records.map(of).collect();
            }
            ActorKind::Source => {
                return self.parts.doors.iter().filter_map(|record| self.source(row, record)).collect();
            }
            ActorKind::RateLimiter => ChildSpec::new(row, rate_limiter, self.rate_limiter(), below),
            ActorKind::RestrictionSweeper => {
                ChildSpec::new(row, restriction_sweeper, self.restriction_sweeper(), below)
            }
            ActorKind::Tools => ChildSpec::new(row, tools, self.tools(row), below),
            ActorKind::ToolCache => ChildSpec::new(row, tool_cache, self.tool_cache(), below),
            ActorKind::Approvals => ChildSpec::new(row, approvals, self.approvals(), below),
            ActorKind::Providers => match &self.parts.providers {
                Some(providers) => ChildSpec::new(row, listener, self.providers(providers), below),
                None => return Vec::new(),
            },
            ActorKind::LlmDispatcher => ChildSpec::new(row, llm_dispatcher, self.llm_dispatcher(), below),
            ActorKind::Conversations => ChildSpec::new(row, conversations, self.conversations(row), below),
            ActorKind::PresenceScheduler => ChildSpec::new(row, presence_scheduler, self.presence_scheduler(), below),
            ActorKind::Commands => ChildSpec::new(row, commands, self.commands(), below),
            ActorKind::Reporter => ChildSpec::new(row, reporter, self.reporter(), below),
            ActorKind::Timers => ChildSpec::new(row, timers, self.timers(), below),
            ActorKind::ConfigWatcher => ChildSpec::new(row, config_watcher, self.config_watcher(), below),
            ActorKind::Gateway => ChildSpec::new(row, gateway, self.gateway(), below),
            // The branch is there for a door that has shards.
            ActorKind::Discord => match self.discord(row) {
                Some(actor) => ChildSpec::new(row, discord, actor, below),
                None => return Vec::new(),
            },
            ActorKind::IdentifyQueue => match self.identify_queue() {
                Some(actor) => ChildSpec::new(row, identify_queue, actor, below),
                None => return Vec::new(),
            },
            // Their supervisors start them when they know of which there shall be one.
            ActorKind::Conversation | ActorKind::Mcp | ActorKind::Shard => return Vec::new(),
        };
        vec![only]
    }

    fn ops(&self) -> Ops {
        Ops {
            listener: Arc::clone(&self.parts.listener),
            roster: Arc::clone(&self.parts.roster),
            vitals: Arc::clone(&self.parts.vitals),
        }
    }

    fn journal(&self) -> Journal {
        Journal {
            turns: Arc::clone(&self.parts.turns),
            store: Arc::clone(&self.parts.store),
            clock: Arc::clone(&self.parts.clock),
            live: self.parts.live.clone(),
            rate_limiter: self.handles.rate_limiter.clone(),
            approvals: self.handles.approvals.clone(),
            conversations: self.handles.conversations.clone(),
            outboxes: self.handles.outboxes.clone(),
            forgotten: Arc::clone(&self.turn_parts.forgotten),
            timeline: Arc::clone(&self.parts.timeline),
            events: self.parts.events.clone(),
            in_flight: Arc::clone(&self.turn_parts.in_flight),
        }
    }

    fn rate_limiter(&self) -> RateLimiter {
        RateLimiter {
            limiter: Arc::clone(&self.parts.limiter),
            store: Arc::clone(&self.parts.store),
            clock: Arc::clone(&self.parts.clock),
            live: self.parts.live.clone(),
            conversations: self.handles.conversations.clone(),
            journal: self.handles.journal.clone(),
            sweeper: self.handles.restriction_sweeper.clone(),
            outboxes: self.handles.outboxes.clone(),
            timeline: Arc::clone(&self.parts.timeline),
        }
    }

    fn restriction_sweeper(&self) -> RestrictionSweeper {
        RestrictionSweeper {
            restricted: Arc::clone(&self.restricted),
            store: Arc::clone(&self.parts.store),
            clock: Arc::clone(&self.parts.clock),
            live: self.parts.live.clone(),
            outboxes: self.handles.outboxes.clone(),
        }
    }

    fn llm_dispatcher(&self) -> LlmDispatcher {
        LlmDispatcher {
            live: self.parts.live.clone(),
            permits: Arc::clone(&self.model_permits),
            board: Arc::clone(&self.parts.board),
            timeline: Arc::clone(&self.parts.timeline),
        }
    }

    fn conversations(&self, row: &'static Row) -> Conversations {
        Conversations { template: template(row), parts: Arc::clone(&self.turn_parts) }
    }

    fn ways(&self) -> Ways {
        let Parts { dice, events, .. } = &self.parts;
        Ways { outboxes: self.handles.outboxes.clone(), dice: Arc::clone(dice), events: events.clone() }
    }

    fn commands(&self) -> Commands {
        let parts = &self.parts;
        let parts = CommandParts {
            live: parts.live.clone(),
            home: parts.home.clone(),
            store: Arc::clone(&parts.store),
            clock: Arc::clone(&parts.clock),
            vitals: Arc::clone(&parts.vitals),
            registers: parts.doors.names(|door| door.registers_commands),
            ways: self.ways(),
            journal: self.handles.journal.clone(),
            rate_limiter: self.handles.rate_limiter.clone(),
            config_watcher: self.handles.config_watcher.clone(),
            presence_scheduler: self.handles.presence_scheduler.clone(),
            forgotten: Arc::clone(&self.turn_parts.forgotten),
            facts: Arc::clone(&parts.facts),
            in_flight: Arc::clone(&self.turn_parts.in_flight),
            tooling: Arc::clone(&self.parts.tooling),
            toolbox: Arc::clone(&self.parts.toolbox),
            tools: self.handles.tools.clone(),
            approvals: self.handles.approvals.clone(),
            allowances: Arc::clone(&self.turn_parts.allowances),
        };
        Commands { parts: Arc::new(parts) }
    }

    fn reporter(&self) -> Reporter {
        Reporter {
            live: self.parts.live.clone(),
            store: Arc::clone(&self.parts.store),
            clock: Arc::clone(&self.parts.clock),
            door: self.parts.home.clone(),
            outbox: self.handles.outboxes.of(&self.parts.home).clone(),
            timeline: Arc::clone(&self.parts.timeline),
        }
    }

    fn config_watcher(&self) -> ConfigWatcher {
        ConfigWatcher {
            files: Arc::clone(&self.parts.files),
            live: self.parts.live.clone(),
            store: Arc::clone(&self.parts.store),
            tools: self.handles.tools.clone(),
        }
    }

    fn gateway(&self) -> Gateway {
        Gateway {
            live: self.parts.live.clone(),
            permits: Arc::clone(&self.open_turns),
            journal: self.handles.journal.clone(),
            sweeper: self.handles.restriction_sweeper.clone(),
            approvals: self.handles.approvals.clone(),
            outboxes: self.handles.outboxes.clone(),
            busy: Arc::clone(&self.turn_parts.busy),
            clock: Arc::clone(&self.parts.clock),
            commands: self.handles.commands.clone(),
            events: self.parts.events.clone(),
            board: Arc::clone(&self.parts.board),
            store: Arc::clone(&self.parts.store),
            interjections: Arc::clone(&self.turn_parts.interjections),
            facts: Arc::clone(&self.parts.facts),
            restricted: Arc::clone(&self.restricted),
        }
    }
}

/// The template below a row; the row itself where there is none, which the tree's tests rule out.
fn template(row: &'static Row) -> &'static Row {
    row.children.iter().find(|child| matches!(child.name, Name::Template { .. })).unwrap_or(row)
}

#[cfg(test)]
mod tests;
