//! commands: what members run beside talking.
//!
//! Supervised by: staffai (permanent).
//! Receives: commands and what is being typed of them, from the gateway.
//! Sends: answers to the outbox, wishes to be forgotten to the journal, questions to the limiter, reloads to `config_watcher`,
//! the wish for another status line to `presence_scheduler`, `Refresh` to tools.
//! A restart loses: the commands that run. The platform tells their members that there was no answer, and they run them again.
//!
//! Each command is a monitored task. The first thing it does is to say that an answer will come: the platform takes that word
//! once, so it is also what keeps a command that arrives twice from being run twice. Without it nothing is done.

mod approvals;
mod cleaning;
mod handlers;
mod kept;
mod overview;

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
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::allowances::Allowances;
use crate::services::facts::FactKeeper;
use crate::services::forgotten::{Forgotten, Wished};
use crate::services::in_flight::InFlight;
use crate::services::running::Live;
use crate::services::toolbox::Toolbox;
use domain::command::{Command, CommandKind, Served, Typing};
use domain::happening::{Bound, Happening, WorkShed};
use domain::ids::{self, Door, MessageId, Person};
use domain::menu;
use domain::menu::{Offer, Spec};
use domain::notice::commands as words;
use domain::outgoing::Piece;
use domain::restart::Backoff;
use domain::shed::Shed;
use domain::tool::rights::Verdict;
use domain::tool::server::Tooling;
use domain::triage::Rules;
use ports::{Clock, Origin, PostError, PostRequest, PostResult, Store, Vitals};

/// Commands that run at once.
const RUNNING_MAX: usize = 64;
/// Commands of one person that run at once.
const OWN_MAX: usize = 3;
/// Short answers on their way at once: choices for somebody who types, and refusals. Further ones are dropped.
const ASIDE_MAX: usize = 64;
/// Commands remembered, so that none is run twice; the oldest are forgotten first.
const SEEN_MAX: usize = 4_096;
/// How long a command may take.
const WITHIN: Duration = Duration::from_secs(30);
/// How long choices for somebody who types are worth anything.
const SUGGEST_WITHIN: Duration = Duration::from_secs(2);
/// The first look at what is offered: connecting comes first.
const REGISTER_AFTER: Duration = Duration::from_millis(250);
/// How often the settings are looked at for a change of what is offered.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long one try to offer the commands may take.
const REGISTER_WITHIN: Duration = Duration::from_secs(60);
/// Waits between such tries.
const REGISTER_AGAIN: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(300) };

/// How a command ended.
pub struct Ending {
    outcome: &'static str,
    took: Duration,
}

/// What commands work with.
pub struct CommandParts {
    /// What this process runs with.
    pub live: Live,
    /// The door whose members have rows of the ledger without a door.
    pub home: Door,
    /// Where memory is kept.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// How everything is.
    pub vitals: Arc<dyn Vitals>,
    /// The doors whose platforms are told which commands there are.
    pub registers: Vec<Door>,
    /// What carries answers.
    pub ways: Ways,
    /// Who has custody of open turns.
    pub journal: Handle<JournalMsg>,
    /// Who knows how members stand against their limits.
    pub rate_limiter: Handle<RateLimiterMsg>,
    /// Who reads changed files.
    pub config_watcher: Handle<ConfigWatcherMsg>,
    /// Who has the status line written.
    pub presence_scheduler: Handle<PresenceMsg>,
    /// What may not be remembered any more.
    pub forgotten: Arc<Forgotten>,
    /// What members told us to keep.
    pub facts: Arc<FactKeeper>,
    /// How many turns are in flight.
    pub in_flight: Arc<InFlight>,
    /// The tool servers and how they are.
    pub tooling: Arc<RwLock<Tooling>>,
    /// The tools that there are now.
    pub toolbox: Arc<Toolbox>,
    /// Who reads lists of tools again.
    pub tools: Handle<ToolsMsg>,
    /// Who knows what waits for a decision.
    pub approvals: Handle<ApprovalsMsg>,
    /// Which calls approvers let run for a while.
    pub allowances: Arc<Allowances>,
}

impl CommandParts {
    /// What there is to be served: built-in tools, tool servers, whatever state they are in, and calls that a rule asks about.
    fn served(&self) -> Served {
        let servers = !self.tooling.read().servers.is_empty();
        let asks = self.live.now().tool_rules.iter().any(|rule| rule.verdict == Verdict::Ask);
        let tools = servers || !self.toolbox.now().catalogue.entries().is_empty();
        Served { tools, questions: servers || asks }
    }

    /// Where a command is answered.
    fn desk<'a>(&'a self, command: &'a Command) -> Desk<'a> {
        Desk::new(&self.ways, &command.callback, &command.place)
    }
}

/// What its timer and its tasks tell it.
pub enum CommandsEvent {
    /// A task: this person's command ended.
    Ended(Person, &'static str, Ending),
    /// A task panicked. Its member is told.
    Panicked(Box<Command>, String),
    /// Time to offer the commands, where they are not offered as they should be.
    Register,
    /// A task: wishes to be forgotten that were noted before this life began.
    Noted(Vec<Wished>),
    /// Time to clean up after such wishes.
    Clean,
    /// A task: what came of offering these.
    Registered(Vec<Spec>, Result<PostResult, PostError>),
}

/// The behaviour and its arguments.
pub struct Commands {
    /// What commands work with.
    pub parts: Arc<CommandParts>,
}

/// What commands holds.
pub struct CommandsState {
    seen: BoundedSet<MessageId, SEEN_MAX>,
    running: HashMap<Person, usize>,
    aside: Arc<Semaphore>,
    /// What was offered last; none when it has yet to be.
    offered: Option<Vec<Spec>>,
    /// Tries to offer that failed in a row.
    failures: u32,
    /// Wishes to be forgotten that are cleaned up after.
    cleanings: Cleanings,
}

impl Actor for Commands {
    type Msg = CommandsMsg;
    type Event = CommandsEvent;
    type State = CommandsState;

    fn start(&self, ctx: &mut ActorContext<Commands>) -> Result<CommandsState, Crash> {
        ctx.after(REGISTER_AFTER, CommandsEvent::Register);
        let parts = Arc::clone(&self.parts);
        // What cannot be read is left to the process that noted it.
        ctx.task(async move { CommandsEvent::Noted(cleaning::noted(&parts).await) }, |_| {
            CommandsEvent::Noted(Vec::new())
        });
        ctx.after(CLEAN_EVERY, CommandsEvent::Clean);
        Ok(CommandsState {
            seen: BoundedSet::default(),
            running: HashMap::new(),
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
        }
        Ok(())
    }

    fn origin(event: &CommandsEvent) -> Origin {
        match event {
            CommandsEvent::Ended(..) | CommandsEvent::Panicked(..) => Origin::Outside(None),
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
            CommandsEvent::Ended(person, name, ending) => {
                state.ended(&person);
                report(name, ending.outcome, ending.took);
            }
            CommandsEvent::Panicked(command, panic) => {
                tracing::error!(event = "command.panicked", command = known(&command), panic, "a command panicked");
                state.ended(&command.caller.person);
                report(known(&command), "panicked", Duration::ZERO);
                let parts = Arc::clone(&self.parts);
                ctx.background(async move {
                    parts.desk(&command).respond(Piece::text(words::broken(command.caller.locale()))).await;
                });
            }
            CommandsEvent::Noted(wishes) => {
                let due = Instant::now() + Wished::holds_for(&self.parts.live.now());
                for wished in wishes {
                    state.cleanings.add(wished, due);
                }
            }
            CommandsEvent::Clean => {
                let (due, parts) = (state.cleanings.due(), Arc::clone(&self.parts));
                ctx.background(async move {
                    for wished in due {
                        cleaning::clean(&parts, &wished).await;
                    }
                    parts.facts.settle(Instant::now()).await;
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
            tracing::debug!(event = "gateway.dropped", reason = "seen before", "command dropped");
            return;
        }
        let person = command.caller.person.clone();
        let own = state.running.get(&person).is_some_and(|many| *many >= OWN_MAX);
        if own || state.running.values().sum::<usize>() >= RUNNING_MAX {
            let shed = WorkShed::beside(Shed::Commands, Bound::Number, Some((&command.place, &person)));
            self.parts.ways.account.tell(&Happening::WorkShed(shed));
            let locale = command.caller.locale();
            let sentence = if own { words::still_running(locale) } else { words::busy(locale) };
            return self.refuse(ctx, state, command, sentence);
        }
        *state.running.entry(person.clone()).or_default() += 1;
        self.clean_after(state, &command);
        let parts = Arc::clone(&self.parts);
        let (name, kept) = (known(&command), command.clone());
        let begun = Instant::now();
        ctx.task(
            async move {
                let outcome = serve(&parts, &command).await;
                CommandsEvent::Ended(person, name, Ending { outcome, took: begun.elapsed() })
            },
            move |panic| CommandsEvent::Panicked(kept, panic),
        );
    }

    /// A command that forgets is cleaned up after when no turn from before can be left.
    fn clean_after(&self, state: &mut CommandsState, command: &Command) {
        let place = match CommandKind::named(&command.name) {
            Some(CommandKind::Forget) => None,
            Some(CommandKind::New) => Some(command.place.clone()),
            _ => return,
        };
        let (person, cut, noted) = (command.caller.person.clone(), command.at, self.parts.clock.now());
        let due = Instant::now() + WITHIN + Wished::holds_for(&self.parts.live.now());
        state.cleanings.add(Wished { person, place, cut, noted }, due);
    }

    /// Says why a command is not run, if there is room for that.
    fn refuse(
        &self,
        ctx: &mut ActorContext<Commands>,
        state: &CommandsState,
        command: Box<Command>,
        sentence: &'static str,
    ) {
        let Ok(room) = Arc::clone(&state.aside).try_acquire_owned() else { return };
        let parts = Arc::clone(&self.parts);
        ctx.background(async move {
            let desk = parts.desk(&command);
            if desk.claim().await {
                desk.respond(Piece::text(sentence)).await;
            }
            drop(room);
        });
    }

    fn suggest(&self, ctx: &mut ActorContext<Commands>, state: &CommandsState, typing: Typing) {
        let Ok(room) = Arc::clone(&state.aside).try_acquire_owned() else { return };
        let parts = Arc::clone(&self.parts);
        ctx.background(async move {
            let choices = handlers::choices(&parts, &typing).await;
            let outbox = parts.ways.outboxes.of(&typing.callback.id.door);
            let request = PostRequest::Suggest { to: typing.callback, choices };
            // Whoever types on asks again.
            let _ = outbox.call(|reply| OutboxMsg::Interact(request, reply), SUGGEST_WITHIN).await;
            drop(room);
        });
    }

    /// Offers what the settings of now lead to, unless that is what was offered last.
    fn register(&self, ctx: &mut ActorContext<Commands>, state: &CommandsState) {
        let running = self.parts.live.now();
        let at_any =
            |holds: fn(&Rules) -> bool| self.parts.registers.iter().filter_map(|door| running.rules(door)).any(holds);
        let specs = menu::specs(Offer {
            operators: at_any(|rules| !rules.super_roles.is_empty() || !rules.operators.is_empty()),
            super_roles: at_any(|rules| !rules.super_roles.is_empty()),
            served: self.parts.served(),
            direct: at_any(|rules| rules.direct_messages),
        });
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
                    let asked = outbox.call(|reply| OutboxMsg::Read(request, reply), REGISTER_WITHIN).await;
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
                tracing::info!(event = "commands.offered", commands = specs.len(), changed, "the commands are offered");
                state.offered = Some(specs);
                state.failures = 0;
                LOOK_EVERY
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                let wait = REGISTER_AGAIN.base + REGISTER_AGAIN.delay(state.failures, self.parts.ways.dice.roll());
                let again_in_ms = ids::millis(wait);
                tracing::warn!(event = "commands.refused", %error, again_in_ms, "the commands cannot be offered");
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

/// Answers one command, and tells how that went.
async fn serve(parts: &CommandParts, command: &Command) -> &'static str {
    let desk = parts.desk(command);
    if !desk.claim().await {
        return "unclaimed";
    }
    let (piece, outcome) = match tokio::time::timeout(WITHIN, handlers::answer(parts, command)).await {
        Ok(answer) => answer,
        Err(_) => (Piece::text(words::too_slow(command.caller.locale())), "slow"),
    };
    if desk.respond(piece).await { outcome } else { "unanswered" }
}

/// The command's name as it may stand in labels.
fn known(command: &Command) -> &'static str {
    CommandKind::named(&command.name).map_or("unknown", CommandKind::name)
}

fn report(name: &'static str, outcome: &'static str, took: Duration) {
    tracing::info!(event = "command.answered", command = name, outcome, ms = ids::millis(took), "command ended");
    metrics::counter!("staffai_commands_total", "command" => name, "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests;
