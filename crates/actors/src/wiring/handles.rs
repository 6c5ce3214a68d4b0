//! The addresses of all actors.

use std::convert::Infallible;

use crate::door::Doors;
use crate::intake::GatewayIntake;
use crate::messages::approvals::ApprovalsMsg;
use crate::messages::commands::CommandsMsg;
use crate::messages::config_watcher::ConfigWatcherMsg;
use crate::messages::conversations::ConversationsMsg;
use crate::messages::discord::DiscordMsg;
use crate::messages::gateway::GatewayMsg;
use crate::messages::identify_queue::IdentifyQueueMsg;
use crate::messages::journal::JournalMsg;
use crate::messages::llm_dispatcher::LlmDispatcherMsg;
use crate::messages::presence_scheduler::PresenceMsg;
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::messages::restriction_sweeper::SweeperMsg;
use crate::messages::root::RootMsg;
use crate::messages::summaries::SummariesMsg;
use crate::messages::tool_cache::ToolCacheMsg;
use crate::messages::tools::ToolsMsg;
use crate::messages::voices::VoicesMsg;
use crate::outbox::Outboxes;
use crate::pending_gates::PendingGates;
use crate::runtime::handle::{Handle, Refused};
use crate::tree::{ActorKind, Scope, TREE};
use crate::turn::parts::Neighbors;

/// The addresses of all actors except those that are created at run time.
#[derive(Clone)]
pub struct Handles {
    pub(super) root: Handle<RootMsg>,
    pub(super) ops: Handle<Infallible>,
    pub(super) journal: Handle<JournalMsg>,
    pub(super) outboxes: Outboxes,
    pub(super) rate_limiter: Handle<RateLimiterMsg>,
    pub(super) restriction_sweeper: Handle<SweeperMsg>,
    pub(super) tools: Handle<ToolsMsg>,
    pub(super) tool_cache: Handle<ToolCacheMsg>,
    pub(super) approvals: Handle<ApprovalsMsg>,
    pub(super) providers: Handle<Infallible>,
    pub(super) llm_dispatcher: Handle<LlmDispatcherMsg>,
    pub(super) conversations: Handle<ConversationsMsg>,
    pub(super) summaries: Handle<SummariesMsg>,
    pub(super) presence_scheduler: Handle<PresenceMsg>,
    pub(super) commands: Handle<CommandsMsg>,
    pub(super) reporter: Handle<Infallible>,
    pub(super) timers: Handle<Infallible>,
    pub(super) config_watcher: Handle<ConfigWatcherMsg>,
    pub(super) gateway: Handle<GatewayMsg>,
    pub(super) slack: Handle<Infallible>,
    pub(super) discord: Handle<DiscordMsg>,
    pub(super) identify_queue: Handle<IdentifyQueueMsg>,
    pub(super) voices: Handle<VoicesMsg>,
}

impl Handles {
    /// Creates the addresses of actors that do not run yet, with an outbox for each door.
    #[must_use]
    pub fn new(doors: &Doors) -> Self {
        let outboxes = doors.iter().map(|record| {
            let outbox = of(ActorKind::Outbox, Scope::Door(record.door.clone()));
            (record.door.clone(), record.poster.capabilities().medium, outbox)
        });
        let forms = doors.iter().map(|record| (record.door.clone(), record.poster.capabilities().forms));
        Self {
            outboxes: Outboxes::new(outboxes.collect()).with_forms(forms.collect()),
            root: one(ActorKind::Root),
            ops: one(ActorKind::Ops),
            journal: one(ActorKind::Journal),
            rate_limiter: one(ActorKind::RateLimiter),
            restriction_sweeper: one(ActorKind::RestrictionSweeper),
            tools: one(ActorKind::Tools),
            tool_cache: one(ActorKind::ToolCache),
            approvals: one(ActorKind::Approvals),
            providers: one(ActorKind::Providers),
            llm_dispatcher: one(ActorKind::LlmDispatcher),
            conversations: one(ActorKind::Conversations),
            summaries: one(ActorKind::Summaries),
            presence_scheduler: one(ActorKind::PresenceScheduler),
            commands: one(ActorKind::Commands),
            reporter: one(ActorKind::Reporter),
            timers: one(ActorKind::Timers),
            config_watcher: one(ActorKind::ConfigWatcher),
            gateway: one(ActorKind::Gateway),
            slack: one(ActorKind::Slack),
            discord: one(ActorKind::Discord),
            identify_queue: one(ActorKind::IdentifyQueue),
            voices: one(ActorKind::Voices),
        }
    }

    /// Returns the address for the usage of members against their limits.
    #[must_use]
    pub fn rate_limiter(&self) -> Handle<RateLimiterMsg> {
        self.rate_limiter.clone()
    }

    /// Returns the address that issues permits for model calls outside of turns.
    #[must_use]
    pub fn dispatcher(&self) -> Handle<LlmDispatcherMsg> {
        self.llm_dispatcher.clone()
    }

    /// Tells the actors that hold turns to begin no more; false if a mailbox is full and the call must be repeated.
    /// Idempotent.
    pub(super) fn drain(&self) -> bool {
        // An actor that is down has nothing to drain.
        let journal = self.journal.cast(JournalMsg::Drain);
        let conversations = self.conversations.cast(ConversationsMsg::Drain);
        !matches!(journal, Err(Refused::Full(_))) && !matches!(conversations, Err(Refused::Full(_)))
    }

    /// Returns the actors that turns call.
    pub(super) fn neighbors(&self) -> Neighbors {
        Neighbors {
            journal: self.journal.clone(),
            dispatcher: self.llm_dispatcher.clone(),
            rate_limiter: self.rate_limiter.clone(),
            summaries: self.summaries.clone(),
            outboxes: self.outboxes.clone(),
        }
    }

    /// Returns the intake for doors without a connection of their own.
    #[must_use]
    pub fn intake(&self) -> GatewayIntake {
        GatewayIntake { gateway: self.gateway.clone() }
    }

    /// Returns the source of the open gates for pages.
    #[must_use]
    pub fn pending_gates(&self) -> PendingGates {
        PendingGates { approvals: self.approvals.clone() }
    }
}

fn one<M: Send + 'static>(kind: ActorKind) -> Handle<M> {
    of(kind, Scope::One)
}

/// Returns the address of one actor of this kind, if each supervisor above it is the only one of its row.
fn of<M: Send + 'static>(kind: ActorKind, scope: Scope) -> Handle<M> {
    // Every kind has a row: a test checks it.
    let (row, above) = TREE.locate(kind).unwrap_or((&TREE, String::new()));
    Handle::new(row, &above, scope)
}
