//! commands: runs the slash commands of members.
//!
//! Supervised by: staffai (permanent).
//! Receives: commands, autocomplete requests and steps of the dialogue of settings from the gateway.
//! Sends: answers to the outbox, forget requests to the journal, queries to the limiter, reloads to `config_watcher`,
//! status line refreshes to `presence_scheduler`, `Refresh` to tools.
//! A restart loses: the running commands. The platform reports a missing answer to their members, who run them again.
//!
//! Each command runs in a monitored task. The task first defers the response on the platform. The platform accepts one
//! deferral for each command, so the deferral is also the claim that makes commands idempotent: a second delivery of a
//! command fails to claim it. Without a claim, nothing is executed.

mod admission;
mod approvals;
mod cleaning;
mod counted;
mod dialogue;
mod erasing;
mod handlers;
mod kept;
mod linking;
mod on_behalf;
mod overview;
mod preferences;
mod resources;
mod responses;
mod voice;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::cleaning::{CLEAN_EVERY, Cleanings};
use crate::desk::{Desk, Ways};
use crate::messages::approvals::ApprovalsMsg;
use crate::messages::commands::CommandsMsg;
use crate::messages::config_watcher::ConfigWatcherMsg;
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::OutboxMsg;
use crate::messages::presence_scheduler::PresenceMsg;
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::messages::tools::ToolsMsg;
use crate::messages::voices::VoicesMsg;
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::allowances::Allowances;
use crate::services::basics::Basics;
use crate::services::facts::FactKeeper;
use crate::services::forgotten::Wished;
use crate::services::in_flight::InFlight;
use crate::services::own_ranges::OwnRanges;
use crate::services::restricted::Restricted;
use crate::services::tool_use::ToolUse;
use crate::services::toolbox::Toolbox;
use domain::command::{Command, CommandKind, Erases, Served, Typing};
use domain::happening::{CommandChange, CommandOutcome, Happening};
use domain::ids::{Door, MessageId, Person};
use domain::menu;
use domain::menu::{Offer, Spec};
use domain::notice::commands as words;
use domain::open_to::OpenTo;
use domain::outgoing::Piece;
use domain::restart::Backoff;
use domain::tool::rights::Verdict;
use domain::tool::server::Tooling;
use domain::triage::TriageRules;
use ports::shares::{Share, Shares};
use ports::voice_calls::VoiceCalls;
use ports::{MemberSettings, Origin, PostError, PostRequest, PostResult, Vitals};
use telemetry::events::GATEWAY_DROPPED;

/// The maximum number of concurrent commands.
const RUNNING_MAX: usize = 64;
/// The maximum number of concurrent commands of one person.
const OWN_MAX: usize = 3;
/// The maximum number of concurrent short responses: autocomplete choices and refusals. Further ones are dropped.
const ASIDE_MAX: usize = 64;
/// The maximum number of remembered commands, for deduplication; the oldest is evicted first.
const SEEN_MAX: usize = 4_096;
/// The timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of a request to be forgotten that goes on after its answer, and the maximum number of these.
const LONG_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const LONG_MAX: usize = 8;
/// The timeout of autocomplete choices.
const SUGGEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The delay of the first registration, so that the connection comes first.
const REGISTER_AFTER: Duration = Duration::from_millis(250);
/// The interval at which the settings are checked for changed commands.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The timeout of one attempt to register the commands.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(60);
/// The backoff between these attempts.
const REGISTER_AGAIN: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(300) };

/// The dependencies of commands.
pub struct CommandParts {
    /// Configuration, store, time and randomness.
    pub basics: Basics,
    /// The door whose members have ledger rows without a door.
    pub home: Door,
    /// The health of the whole program.
    pub vitals: Arc<dyn Vitals>,
    /// The doors whose platforms need a registration of the commands.
    pub registers: Vec<Door>,
    /// The ranges of this process: only the one with the first range registers the commands.
    pub ranges: OwnRanges,
    /// The outboxes for answers.
    pub ways: Ways,
    /// The journal, which owns open turns.
    pub journal: Handle<JournalMsg>,
    /// The limiter.
    pub rate_limiter: Handle<RateLimiterMsg>,
    /// The watcher of configuration files.
    pub config_watcher: Handle<ConfigWatcherMsg>,
    /// The scheduler of the status line.
    pub presence_scheduler: Handle<PresenceMsg>,
    /// The facts about members, and the record of forget requests.
    pub facts: Arc<FactKeeper>,
    /// The settings of members.
    pub settings: Arc<dyn MemberSettings>,
    /// The restricted members.
    pub restricted: Arc<Restricted>,
    /// The turns in flight.
    pub in_flight: Arc<InFlight>,
    /// The tool servers and their states.
    pub tooling: Arc<RwLock<Tooling>>,
    /// The available tools.
    pub toolbox: Arc<Toolbox>,
    /// The quotas of tool calls.
    pub tool_use: Arc<ToolUse>,
    /// The supervisor of tool servers.
    pub tools: Handle<ToolsMsg>,
    /// The actor that holds pending decisions.
    pub approvals: Handle<ApprovalsMsg>,
    /// The standing allowances.
    pub allowances: Arc<Allowances>,
    /// The voice channels, if the bot may join them.
    pub calls: Option<Arc<dyn VoiceCalls>>,
    /// The supervisor of calls.
    pub voices: Handle<VoicesMsg>,
}

impl CommandParts {
    /// The available features: built-in tools, tool servers in any state, calls that a rule asks about, and links.
    fn served(&self) -> Served {
        let servers = !self.tooling.read().servers.is_empty();
        let (live, running) = (&self.basics.live, self.basics.live.now());
        let asks = running.tool_rules.iter().any(|rule| rule.verdict == Verdict::Ask);
        let tools = servers || !self.toolbox.now().catalogue.entries().is_empty();
        let links = running.settings.members.linking == OpenTo::Members || !live.links().is_empty();
        let voice = self.calls.is_some() && running.settings.discord.voice != OpenTo::Off;
        Served { tools, questions: servers || asks, links, voice }
    }

    /// The desk that answers a command.
    fn desk<'a>(&'a self, command: &'a Command) -> Desk<'a> {
        Desk::new(&self.ways, &command.callback, &command.place)
    }
}

/// Events from its timer and its tasks.
pub enum CommandsEvent {
    /// A task: a command ended.
    Ended {
        /// The caller.
        person: Person,
        /// The command; `None` if no command has its name.
        command: Option<CommandKind>,
        /// The outcome.
        outcome: CommandOutcome,
        /// The time since its start.
        took: Duration,
    },
    /// A task panicked. Its member is notified.
    Panicked(Box<Command>, String),
    /// The time to register the commands, where the registration is missing or out of date.
    Register,
    /// A task: the forget requests from before this process started, or those that a cleanup did not finish.
    Noted(Vec<Wished>),
    /// The time to clean up after forget requests.
    Clean,
    /// A task: the result of registering these commands.
    Registered(Vec<Spec>, Result<PostResult, PostError>),
}

/// The behaviour and its arguments.
pub struct Commands {
    /// The dependencies of commands.
    pub parts: Arc<CommandParts>,
}

/// The state of the actor.
pub struct CommandsState {
    seen: BoundedSet<MessageId, SEEN_MAX>,
    running: HashMap<Person, usize>,
    /// The permits of running commands, by community, or by person in direct messages.
    room: Shares<String>,
    /// The permits of commands that go on after their answer.
    long: Arc<Semaphore>,
    aside: Arc<Semaphore>,
    /// The commands of the last registration; `None` if there is none yet.
    offered: Option<Vec<Spec>>,
    /// The number of consecutive failed registrations.
    failures: u32,
    /// The scheduled cleanups of forget requests.
    cleanings: Cleanings,
}

impl Actor for Commands {
    type Msg = CommandsMsg;
    type Event = CommandsEvent;
    type State = CommandsState;

    fn start(&self, ctx: &mut ActorContext<Commands>) -> Result<CommandsState, Crash> {
        ctx.after(REGISTER_AFTER, CommandsEvent::Register);
        let parts = Arc::clone(&self.parts);
        // Unreadable requests are left to the process that recorded them.
        ctx.task(async move { CommandsEvent::Noted(cleaning::noted(&parts).await) }, |_| {
            CommandsEvent::Noted(Vec::new())
        });
        let parts = Arc::clone(&self.parts);
        ctx.background(async move { counted::complete(&parts).await });
        ctx.after(CLEAN_EVERY, CommandsEvent::Clean);
        Ok(CommandsState {
            seen: BoundedSet::default(),
            running: HashMap::new(),
            room: Shares::new(Arc::new(Semaphore::new(RUNNING_MAX))),
            long: Arc::new(Semaphore::new(LONG_MAX)),
            aside: Arc::new(Semaphore::new(ASIDE_MAX)),
            offered: None,
            failures: 0,
            cleanings: Cleanings::default(),
        })
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: CommandsMsg,
        state: &mut CommandsState,
    ) -> Result<(), Crash> {
        match message {
            CommandsMsg::Run(command) => self.run(ctx, state, command),
            CommandsMsg::Suggest(typing) => self.suggest(ctx, state, *typing),
            CommandsMsg::Dialogue(step) => dialogue::begin(&self.parts, ctx, state, *step),
        }
        Ok(())
    }

    fn origin(event: &CommandsEvent) -> Origin {
        match event {
            CommandsEvent::Ended { .. } | CommandsEvent::Panicked(..) => Origin::Outside(None),
            CommandsEvent::Register
            | CommandsEvent::Registered(..)
            | CommandsEvent::Noted(_)
            | CommandsEvent::Clean => Origin::Own,
        }
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: CommandsEvent,
        state: &mut CommandsState,
    ) -> Result<(), Crash> {
        match event {
            CommandsEvent::Ended { person, command, outcome, took } => {
                state.ended(&person);
                self.tell(CommandChange::Ended { command, outcome, took });
            }
            CommandsEvent::Panicked(command, panic) => {
                let kind = CommandKind::named(&command.name);
                self.tell(CommandChange::Panicked { command: kind, panic: &panic });
                state.ended(&command.caller.person);
                let (outcome, took) = (CommandOutcome::Panicked, Duration::ZERO);
                self.tell(CommandChange::Ended { command: kind, outcome, took });
                let parts = Arc::clone(&self.parts);
                ctx.background(async move {
                    parts.desk(&command).respond(Piece::text(words::broken(command.caller.locale()))).await;
                });
            }
            CommandsEvent::Noted(wishes) => {
                let due = Instant::now() + Wished::holds_for(&self.parts.basics.live.now());
                for wished in wishes {
                    state.cleanings.add(wished, due);
                }
            }
            CommandsEvent::Clean => {
                let (due, parts) = (state.cleanings.due(), Arc::clone(&self.parts));
                let again = due.clone();
                ctx.task(
                    async move {
                        let mut left = Vec::new();
                        for wished in due {
                            left.extend(cleaning::clean(&parts, wished).await);
                        }
                        CommandsEvent::Noted(left)
                    },
                    |_| CommandsEvent::Noted(again.into_iter().filter(|wished| wished.unfinished).collect()),
                );
                let parts = Arc::clone(&self.parts);
                ctx.background(async move {
                    parts.facts.settle(Instant::now()).await;
                    cleaning::records(&parts).withdraw_again(parts.facts.forgotten()).await;
                });
                ctx.after(CLEAN_EVERY, CommandsEvent::Clean);
            }
            CommandsEvent::Register => self.register(ctx, state),
            CommandsEvent::Registered(specs, result) => self.registered(ctx, state, specs, result),
        }
        Ok(())
    }
}

impl Commands {
    fn run(&self, ctx: &mut ActorContext<Commands>, state: &mut CommandsState, command: Box<Command>) {
        if !state.seen.insert(&command.callback.id) {
            tracing::debug!(event = GATEWAY_DROPPED, reason = "seen before", "command dropped");
            return;
        }
        let person = command.caller.person.clone();
        let of = (&person, &command.place, command.guild.as_ref());
        let room = match admission::admit(&self.parts, state, of, command.caller.locale()) {
            Ok(room) => room,
            Err(sentence) => {
                let Command { callback, place, .. } = *command;
                return admission::refuse(&self.parts, ctx, state, (callback, place), sentence);
            }
        };
        self.clean_after(state, &command);
        let parts = Arc::clone(&self.parts);
        let (kind, kept) = (CommandKind::named(&command.name), command.clone());
        let rooms = (room, Arc::clone(&state.long));
        let begun = Instant::now();
        ctx.task(
            async move {
                let outcome = serve(&parts, &command, rooms).await;
                CommandsEvent::Ended { person, command: kind, outcome, took: begun.elapsed() }
            },
            move |panic| CommandsEvent::Panicked(kept, panic),
        );
    }

    fn tell(&self, change: CommandChange<'_>) {
        self.parts.ways.observers.tell(&Happening::Command(change));
    }

    /// Schedules the cleanup of a forget command for the time when no earlier turn can be left.
    fn clean_after(&self, state: &mut CommandsState, command: &Command) {
        let place = match CommandKind::named(&command.name).map(CommandKind::erases) {
            None | Some(Erases::Nothing) => return,
            Some(Erases::Conversation) => Some(command.place.clone()),
            Some(Erases::Everything) => None,
        };
        let (person, cut, noted) = (command.caller.person.clone(), command.at, self.parts.basics.clock.now());
        let due = Instant::now() + TIMEOUT + Wished::holds_for(&self.parts.basics.live.now());
        let unfinished = place.is_none();
        state.cleanings.add(Wished { person, place, cut, noted, unfinished }, due);
    }

    fn suggest(&self, ctx: &mut ActorContext<Commands>, state: &CommandsState, typing: Typing) {
        let Ok(room) = Arc::clone(&state.aside).try_acquire_owned() else { return };
        let parts = Arc::clone(&self.parts);
        ctx.background(async move {
            let choices = handlers::choices(&parts, &typing).await;
            let outbox = parts.ways.outboxes.of(&typing.callback.id.door);
            let request = PostRequest::Suggest { to: typing.callback, choices };
            // Further typing sends a new request.
            let _ = outbox.call(|reply| OutboxMsg::Interact(request, reply), SUGGEST_TIMEOUT).await;
            drop(room);
        });
    }

    /// Registers the commands of the current settings, unless they equal the last registration.
    fn register(&self, ctx: &mut ActorContext<Commands>, state: &mut CommandsState) {
        let running = self.parts.basics.live.now();
        let at_any = |holds: fn(&TriageRules) -> bool| {
            self.parts.registers.iter().filter_map(|door| running.rules(door)).any(holds)
        };
        let specs = menu::specs(Offer {
            operators: at_any(|rules| !rules.super_roles.is_empty() || !rules.operators.is_empty()),
            super_roles: at_any(|rules| !rules.super_roles.is_empty()),
            served: self.parts.served(),
            direct: at_any(|rules| rules.direct_messages),
        });
        if !self.parts.ranges.now().is_first() {
            // The next process with the first range may be of another version.
            state.offered = None;
            return ctx.after(LOOK_EVERY, CommandsEvent::Register);
        }
        if state.offered.as_ref() == Some(&specs) {
            return ctx.after(LOOK_EVERY, CommandsEvent::Register);
        }
        let outboxes: Vec<_> =
            self.parts.registers.iter().map(|door| self.parts.ways.outboxes.of(door).clone()).collect();
        let (there, back) = (specs.clone(), specs.clone());
        ctx.task(
            async move {
                let mut result = Ok(PostResult::Already);
                for outbox in outboxes {
                    let request = PostRequest::RegisterCommands(specs.clone());
                    let asked = outbox.call(|reply| OutboxMsg::Read(request, reply), REGISTER_TIMEOUT).await;
                    match asked.unwrap_or_else(|error| Err(PostError::Transient(error.to_string()))) {
                        Ok(PostResult::Already) => {}
                        Ok(done) => result = Ok(done),
                        Err(error) => {
                            result = Err(error);
                            break;
                        }
                    }
                }
                CommandsEvent::Registered(there, result)
            },
            move |panic| CommandsEvent::Registered(back, Err(PostError::Transient(panic))),
        );
    }

    fn registered(
        &self,
        ctx: &mut ActorContext<Commands>,
        state: &mut CommandsState,
        specs: Vec<Spec>,
        result: Result<PostResult, PostError>,
    ) {
        let next = match result {
            Ok(done) => {
                let changed = done != PostResult::Already;
                self.tell(CommandChange::Offered { commands: specs.len(), changed });
                state.offered = Some(specs);
                state.failures = 0;
                LOOK_EVERY
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                let wait = REGISTER_AGAIN.base + REGISTER_AGAIN.delay(state.failures, self.parts.ways.dice.roll());
                self.tell(CommandChange::NotOffered { error: &error.to_string(), again_in: wait });
                wait
            }
        };
        ctx.after(next, CommandsEvent::Register);
    }
}

impl CommandsState {
    fn ended(&mut self, person: &Person) {
        if let Some(many) = self.running.get_mut(person) {
            *many -= 1;
            if *many == 0 {
                self.running.remove(person);
            }
        }
    }
}

/// Answers one command, and reports its outcome. A request to be forgotten that takes long goes on after its answer; if
/// too many do, a later cleanup finishes it.
async fn serve(
    parts: &CommandParts,
    command: &Command,
    (room, long): (Share<String>, Arc<Semaphore>),
) -> CommandOutcome {
    let desk = parts.desk(command);
    if !desk.claim().await {
        return CommandOutcome::Unclaimed;
    }
    let mut answering = Box::pin(handlers::answer(parts, command));
    if let Ok((piece, outcome)) = tokio::time::timeout(TIMEOUT, answering.as_mut()).await {
        return if desk.respond(piece).await { outcome } else { CommandOutcome::Unanswered };
    }
    let locale = command.caller.locale();
    let erases = CommandKind::named(&command.name).map(CommandKind::erases) == Some(Erases::Everything);
    let sentence =
        if erases && kept::is_sound(parts) { words::forgetting_goes_on(locale) } else { words::too_slow(locale) };
    let rest = async {
        // No command waits for this one.
        drop(room);
        if let (true, Ok(_permit)) = (erases, long.try_acquire_owned()) {
            // Of a request that ends nowhere, the record is left, so it is repeated.
            let _ = tokio::time::timeout(LONG_TIMEOUT, answering).await;
        } else {
            drop(answering);
        }
    };
    let (answered, ()) = tokio::join!(desk.respond(Piece::text(sentence)), rest);
    if answered { CommandOutcome::Slow } else { CommandOutcome::Unanswered }
}

#[cfg(test)]
mod tests;
