//! Builds running actors from the rows in two steps: all handles are created first, then each row of the tree becomes
//! a child that holds its neighbours' handles. There is no lookup by name at run time.

mod doors;
mod handles;
pub mod parts;
mod ranges;
mod root;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use self::handles::Handles;
use self::parts::Parts;
pub use self::ranges::RangeMover;
use self::root::Root;
use crate::commands::{CommandParts, Commands};
use crate::config_watcher::ConfigWatcher;
use crate::conversations::Conversations;
use crate::desk::Ways;
use crate::door::DoorRecord;
use crate::gateway::Gateway;
use crate::journal::Journal;
use crate::llm_dispatcher::LlmDispatcher;
use crate::messages::config_watcher::ConfigWatcherMsg;
use crate::messages::journal::{JournalMsg, Recovered};
use crate::model_permits::ModelPermits;
use crate::observation::board::Board;
use crate::observation::instruments::Instruments;
use crate::observers::Observers;
use crate::ops::Ops;
use crate::presence_scheduler;
use crate::rate_limiter::RateLimiter;
use crate::reporter::Reporter;
use crate::restriction_sweeper::RestrictionSweeper;
use crate::runtime::supervisor::{self, ChildSpec, Crash, Shared};
use crate::services::in_flight::InFlight;
use crate::services::own_ranges::OwnRanges;
use crate::services::restricted::Restricted;
use crate::summaries::{Summaries, SummaryParts};
use crate::tool_cache::Remembered;
use crate::tree::{ActorKind, Name, Runs, TREE, TreeRow};
use crate::turn::ATTACHMENT_KIB_MAX;
use crate::turn::parts::{FileServices, Readers, SharedState, ToolServices, TurnParts};
use domain::happening::ActorChange;
use ports::Turns;
use ports::shares::Shares;

/// The result of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// True if every started turn was answered and posted.
    pub finished: bool,
    /// The turns that remain in the journal for the next start; `None` if the journal did not respond.
    pub left: Option<usize>,
}

/// A running tree.
pub struct Tree {
    handles: Handles,
    in_flight: Arc<InFlight>,
    board: Arc<Board>,
    observers: Observers,
    ranges: OwnRanges,
    turns: Arc<dyn Turns>,
    root: ractor::ActorCell,
    ended: JoinHandle<()>,
}

impl Tree {
    /// Starts the tree.
    ///
    /// # Errors
    /// Fails if the settings have no rules for a door, or if an actor's first start fails so often that the root gives
    /// up.
    pub async fn start(parts: Parts) -> Result<Self, Crash> {
        parts.doors.all.check(&parts.basics.live.now(), &parts.doors.home)?;
        let (handles, board) = (parts.handles.clone(), Arc::clone(&parts.observation.instruments.board));
        let (journal, wiring) = (handles.journal.clone(), Wiring::new(parts, handles.clone()));
        let observers = wiring.turn_parts.readers.observers.clone();
        let in_flight = Arc::clone(&wiring.turn_parts.shared.in_flight);
        let shared = Arc::new(Shared {
            observers: observers.clone(),
            faults: Arc::clone(&wiring.parts.process.faults),
            dice: Arc::clone(&wiring.parts.basics.dice),
            roster: Arc::clone(&wiring.parts.observation.instruments.roster),
            // A journal that refuses this offers every turn when it restarts or has room.
            recovered: Box::new(move |stats| {
                let Some(held) = TREE.find(stats.kind).and_then(|row| row.holds) else { return };
                journal.tell(JournalMsg::ActorRecovered(Recovered { held, scope: stats.scope.clone() }));
            }),
        });
        let children = wiring.children(&TREE);
        let (ranges, turns) = (wiring.parts.process.ranges.clone(), Arc::clone(&wiring.parts.records.turns));
        let (root, ended) = supervisor::start_root(&TREE, &handles.root, wiring.root(), children, shared).await?;
        Ok(Self { handles, in_flight, board, observers, ranges, turns, root, ended })
    }

    /// Waits until the root ends, which happens only if it gives up.
    pub async fn gave_up(&mut self) {
        // A join error also means that the root has ended.
        let _ = (&mut self.ended).await;
    }

    /// Accepts no new turns, and waits until the turns in flight are answered and posted, at most `within`. The
    /// remaining turns, and those that arrive meanwhile, stay in the journal.
    pub async fn drain(&self, within: Duration) -> Drained {
        let deadline = Instant::now() + within;
        let mut drained = Drained { finished: false, left: None };
        self.board.drain();
        let mut told = false;
        while Instant::now() < deadline {
            told = told || self.handles.drain();
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

    /// Returns a function that reloads the configuration, as after a change of a file.
    pub fn reload(&self) -> impl Fn() + Send + use<> {
        let watcher = self.handles.config_watcher.clone();
        move || {
            // A watcher that is down reads all files when it restarts.
            watcher.tell(ConfigWatcherMsg::Reload);
        }
    }

    /// Stops all actors in the reverse of their start order, within the root's deadline. Actors that are still running
    /// then are killed.
    pub async fn stop(self) {
        self.stop_within(TREE.stop_timeout).await;
    }

    /// Stops all actors within a shorter time.
    pub async fn stop_within(self, within: Duration) {
        if self.root.drain_and_wait(Some(within.min(TREE.stop_timeout))).await.is_err() {
            self.root.kill();
        }
        self.handles.root.stats().tell(&self.observers, ActorChange::Stopped(None));
    }
}

/// The input of the actors: the parts, their handles, and the state that survives restarts of single actors.
struct Wiring {
    parts: Parts,
    handles: Handles,
    turn_parts: Arc<TurnParts>,
    open_turns: Shares,
    model_permits: ModelPermits,
    presence: presence_scheduler::Slot,
    restricted: Arc<Restricted>,
    remembered: Remembered,
}

impl Wiring {
    fn new(parts: Parts, handles: Handles) -> Self {
        let running = parts.basics.live.now();
        let settings = &running.settings;
        let Instruments { timeline, .. } = &parts.observation.instruments;
        let clean_calls = Arc::clone(&parts.tools.built_in.clean_calls);
        let turn_parts = Arc::new(TurnParts {
            basics: parts.basics.clone(),
            neighbors: handles.neighbors(),
            readers: Readers {
                observers: parts.observation.observers(&parts.records.audit),
                events: parts.observation.events.clone(),
                timeline: Arc::clone(timeline),
            },
            tools: ToolServices::new(Arc::clone(&parts.tools.toolbox), Arc::clone(&parts.records.limiter), clean_calls),
            files: FileServices::new(parts.doors.all.clone(), ATTACHMENT_KIB_MAX, Arc::clone(&parts.doors.documents)),
            facts: Arc::clone(&parts.records.facts),
            shared: SharedState::default(),
        });
        let open_turns = Shares::new(timeline.limit("open turns", settings.turn.open));
        let model_permits = ModelPermits::new(timeline.limit("model calls", settings.llm.concurrent));
        let (presence, restricted, remembered) = Default::default();
        Self { parts, handles, turn_parts, open_turns, model_permits, presence, restricted, remembered }
    }

    /// Returns the initial children of a row.
    fn children(&self, row: &'static TreeRow) -> Vec<ChildSpec> {
        let here = row.children.iter().filter(|row| row.runs.is_for(self.parts.process.ranges.now()));
        here.flat_map(|row| self.initial(row)).collect()
    }

    /// Returns the outbox of each door.
    fn outboxes(&self, row: &'static TreeRow, below: &[ChildSpec]) -> Vec<ChildSpec> {
        let outbox = |record: &DoorRecord| {
            let handle = self.handles.outboxes.of(&record.door);
            ChildSpec::new(row, handle, self.outbox(record), below.to_vec())
        };
        self.parts.doors.all.iter().map(outbox).collect()
    }

    /// Returns the initial actors of a row, each with its own children: one, or, for a template, the instances known
    /// at that time.
    fn initial(&self, row: &'static TreeRow) -> Vec<ChildSpec> {
        let below = self.children(row);
        let Handles {
            root,
            ops,
            journal,
            rate_limiter,
            restriction_sweeper,
            tools,
            tool_cache,
            approvals,
            providers: listener,
            llm_dispatcher,
            conversations,
            summaries,
            presence_scheduler,
            commands,
            reporter,
            timers,
            config_watcher,
            gateway,
            discord,
            ..
        } = &self.handles;
        let only = match row.kind {
            ActorKind::Root => ChildSpec::new(row, root, self.root(), below),
            ActorKind::Ops => ChildSpec::new(row, ops, self.ops(), below),
            ActorKind::Listener => return self.listeners(row),
            ActorKind::Journal => ChildSpec::new(row, journal, self.journal(), below),
            ActorKind::Outbox => return self.outboxes(row, &below),
            ActorKind::Source => {
                return self.parts.doors.all.iter().filter_map(|record| self.source(row, record)).collect();
            }
            ActorKind::RateLimiter => ChildSpec::new(row, rate_limiter, self.rate_limiter(), below),
            ActorKind::RestrictionSweeper => {
                ChildSpec::new(row, restriction_sweeper, self.restriction_sweeper(), below)
            }
            ActorKind::Tools => ChildSpec::new(row, tools, self.tools(row), below),
            ActorKind::ToolCache => ChildSpec::new(row, tool_cache, self.tool_cache(), below),
            ActorKind::Approvals => ChildSpec::new(row, approvals, self.approvals(), below),
            ActorKind::Providers => match &self.parts.tools.providers {
                Some(providers) => ChildSpec::new(row, listener, self.providers(providers), below),
                None => return Vec::new(),
            },
            ActorKind::LlmDispatcher => ChildSpec::new(row, llm_dispatcher, self.llm_dispatcher(), below),
            ActorKind::Conversations => ChildSpec::new(row, conversations, self.conversations(row), below),
            ActorKind::Summaries => ChildSpec::new(row, summaries, self.summaries(), below),
            ActorKind::PresenceScheduler => ChildSpec::new(row, presence_scheduler, self.presence_scheduler(), below),
            ActorKind::Commands => ChildSpec::new(row, commands, self.commands(), below),
            ActorKind::Reporter => ChildSpec::new(row, reporter, self.reporter(), below),
            ActorKind::Timers => ChildSpec::new(row, timers, self.timers(), below),
            ActorKind::ConfigWatcher => ChildSpec::new(row, config_watcher, self.config_watcher(), below),
            ActorKind::Gateway => ChildSpec::new(row, gateway, self.gateway(), below),
            // The branch exists only for a door with sockets.
            ActorKind::Slack => return self.slack(row, &below),
            ActorKind::SlackSocket => return self.sockets(row),
            // The branch exists only for a door with shards.
            ActorKind::Discord => match self.discord(row) {
                Some(actor) => ChildSpec::new(row, discord, actor, below),
                None => return Vec::new(),
            },
            ActorKind::IdentifyQueue => match self.identify_queue() {
                Some(actor) => ChildSpec::new(row, &self.handles.identify_queue, actor, below),
                None => return Vec::new(),
            },
            // The branch exists only if the bot may join voice channels.
            ActorKind::Voices => match self.voices(row) {
                Some(actor) => ChildSpec::new(row, &self.handles.voices, actor, below),
                None => return Vec::new(),
            },
            // Their supervisors start the instances when they are known.
            ActorKind::Conversation | ActorKind::Mcp | ActorKind::Shard | ActorKind::Voice => return Vec::new(),
        };
        vec![only]
    }

    fn root(&self) -> Root {
        let first = TREE.children.iter().filter(|row| row.runs == Runs::InFirstRange);
        Root { ranges: self.parts.process.ranges.clone(), first: first.flat_map(|row| self.initial(row)).collect() }
    }

    fn ops(&self) -> Ops {
        Ops {
            listener: Arc::clone(&self.parts.pages.listener),
            roster: Arc::clone(&self.parts.observation.instruments.roster),
            vitals: Arc::clone(&self.parts.pages.vitals),
        }
    }

    fn journal(&self) -> Journal {
        Journal {
            turns: Arc::clone(&self.parts.records.turns),
            store: Arc::clone(&self.parts.basics.store),
            clock: Arc::clone(&self.parts.basics.clock),
            live: self.parts.basics.live.clone(),
            rate_limiter: self.handles.rate_limiter.clone(),
            approvals: self.handles.approvals.clone(),
            conversations: self.handles.conversations.clone(),
            outboxes: self.handles.outboxes.clone(),
            forgotten: Arc::clone(self.turn_parts.facts.forgotten()),
            board: Arc::clone(&self.parts.observation.instruments.board),
            observers: self.turn_parts.readers.observers.clone(),
            events: self.parts.observation.events.clone(),
            in_flight: Arc::clone(&self.turn_parts.shared.in_flight),
        }
    }

    fn rate_limiter(&self) -> RateLimiter {
        RateLimiter {
            limiter: Arc::clone(&self.parts.records.limiter),
            store: Arc::clone(&self.parts.basics.store),
            clock: Arc::clone(&self.parts.basics.clock),
            live: self.parts.basics.live.clone(),
            conversations: self.handles.conversations.clone(),
            journal: self.handles.journal.clone(),
            sweeper: self.handles.restriction_sweeper.clone(),
            outboxes: self.handles.outboxes.clone(),
            observers: self.turn_parts.readers.observers.clone(),
        }
    }

    fn restriction_sweeper(&self) -> RestrictionSweeper {
        RestrictionSweeper {
            ranges: self.parts.process.ranges.clone(),
            restricted: Arc::clone(&self.restricted),
            store: Arc::clone(&self.parts.basics.store),
            clock: Arc::clone(&self.parts.basics.clock),
            live: self.parts.basics.live.clone(),
            outboxes: self.handles.outboxes.clone(),
            observers: self.turn_parts.readers.observers.clone(),
        }
    }

    fn llm_dispatcher(&self) -> LlmDispatcher {
        LlmDispatcher {
            live: self.parts.basics.live.clone(),
            permits: self.model_permits.clone(),
            board: Arc::clone(&self.parts.observation.instruments.board),
            observers: self.turn_parts.readers.observers.clone(),
        }
    }

    fn conversations(&self, row: &'static TreeRow) -> Conversations {
        Conversations { template: template(row), parts: Arc::clone(&self.turn_parts) }
    }

    fn summaries(&self) -> Summaries {
        let parts = SummaryParts {
            basics: self.parts.basics.clone(),
            forgotten: Arc::clone(self.turn_parts.facts.forgotten()),
            dispatcher: self.handles.llm_dispatcher.clone(),
            observers: self.turn_parts.readers.observers.clone(),
            home: self.parts.doors.home.clone(),
            reserved: Arc::default(),
        };
        Summaries { parts: Arc::new(parts) }
    }

    fn ways(&self) -> Ways {
        let (dice, events) = (Arc::clone(&self.parts.basics.dice), self.parts.observation.events.clone());
        Ways {
            outboxes: self.handles.outboxes.clone(),
            dice,
            events,
            observers: self.turn_parts.readers.observers.clone(),
        }
    }

    fn commands(&self) -> Commands {
        let parts = &self.parts;
        let parts = CommandParts {
            basics: parts.basics.clone(),
            home: parts.doors.home.clone(),
            vitals: Arc::clone(&parts.pages.vitals),
            registers: parts.doors.all.names(|door| door.registers_commands),
            ranges: parts.process.ranges.clone(),
            ways: self.ways(),
            journal: self.handles.journal.clone(),
            rate_limiter: self.handles.rate_limiter.clone(),
            config_watcher: self.handles.config_watcher.clone(),
            presence_scheduler: self.handles.presence_scheduler.clone(),
            facts: Arc::clone(&parts.records.facts),
            settings: Arc::clone(&parts.tools.settings) as _,
            restricted: Arc::clone(&self.restricted),
            in_flight: Arc::clone(&self.turn_parts.shared.in_flight),
            tooling: Arc::clone(&self.parts.observation.instruments.tooling),
            toolbox: Arc::clone(&self.parts.tools.toolbox),
            tool_use: Arc::clone(&self.turn_parts.tools.tool_use),
            tools: self.handles.tools.clone(),
            approvals: self.handles.approvals.clone(),
            allowances: Arc::clone(&self.turn_parts.tools.allowances),
            calls: parts.doors.calls.clone(),
            voices: self.handles.voices.clone(),
        };
        Commands { parts: Arc::new(parts) }
    }

    fn reporter(&self) -> Reporter {
        Reporter {
            live: self.parts.basics.live.clone(),
            store: Arc::clone(&self.parts.basics.store),
            clock: Arc::clone(&self.parts.basics.clock),
            door: self.parts.doors.home.clone(),
            outbox: self.handles.outboxes.of(&self.parts.doors.home).clone(),
            timeline: Arc::clone(&self.parts.observation.instruments.timeline),
            board: Arc::clone(&self.parts.observation.instruments.board),
            tool_health: Arc::clone(&self.parts.observation.instruments.tool_health),
        }
    }

    fn config_watcher(&self) -> ConfigWatcher {
        ConfigWatcher {
            files: Arc::clone(&self.parts.process.files),
            live: self.parts.basics.live.clone(),
            store: Arc::clone(&self.parts.basics.store),
            tools: self.handles.tools.clone(),
        }
    }

    fn gateway(&self) -> Gateway {
        Gateway {
            live: self.parts.basics.live.clone(),
            permits: self.open_turns.clone(),
            journal: self.handles.journal.clone(),
            sweeper: self.handles.restriction_sweeper.clone(),
            approvals: self.handles.approvals.clone(),
            outboxes: self.handles.outboxes.clone(),
            busy: Arc::clone(&self.turn_parts.shared.busy),
            clock: Arc::clone(&self.parts.basics.clock),
            commands: self.handles.commands.clone(),
            events: self.parts.observation.events.clone(),
            observers: self.turn_parts.readers.observers.clone(),
            board: Arc::clone(&self.parts.observation.instruments.board),
            store: Arc::clone(&self.parts.basics.store),
            interjections: Arc::clone(&self.turn_parts.shared.interjections),
            facts: Arc::clone(&self.parts.records.facts),
            restricted: Arc::clone(&self.restricted),
            acts: Arc::clone(&self.turn_parts.shared.acts),
        }
    }
}

/// Returns the template below a row. Without one it returns the row itself, which the tests of the tree rule out.
fn template(row: &'static TreeRow) -> &'static TreeRow {
    row.children.iter().find(|child| matches!(child.name, Name::Template { .. })).unwrap_or(row)
}

#[cfg(test)]
mod tests;
