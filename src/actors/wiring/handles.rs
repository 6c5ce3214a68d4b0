//! The addresses of all actors.

use super::{Parts, RootMsg};
use crate::actors::commands::CommandsMsg;
use crate::actors::config_watcher::ConfigWatcherMsg;
use crate::actors::conversations::ConversationsMsg;
use crate::actors::discord::DiscordMsg;
use crate::actors::gateway::GatewayMsg;
use crate::actors::handle::Handle;
use crate::actors::identify_queue::IdentifyQueueMsg;
use crate::actors::intake::GatewayIntake;
use crate::actors::journal::JournalMsg;
use crate::actors::llm_dispatcher::LlmDispatcherMsg;
use crate::actors::ops::OpsMsg;
use crate::actors::outbox::{OutboxMsg, Outboxes};
use crate::actors::presence_scheduler::PresenceMsg;
use crate::actors::rate_limiter::RateLimiterMsg;
use crate::actors::reporter::ReporterMsg;
use crate::actors::restriction_sweeper::SweeperMsg;
use crate::actors::tree::TREE;

/// The addresses of all actors that are not made while the program runs.
#[derive(Clone)]
pub struct Handles {
    pub(super) root: Handle<RootMsg>,
    pub(super) ops: Handle<OpsMsg>,
    pub(super) journal: Handle<JournalMsg>,
    pub(super) outbox: Handle<OutboxMsg>,
    pub(super) terminal_outbox: Handle<OutboxMsg>,
    pub(super) rate_limiter: Handle<RateLimiterMsg>,
    pub(super) restriction_sweeper: Handle<SweeperMsg>,
    pub(super) llm_dispatcher: Handle<LlmDispatcherMsg>,
    pub(super) conversations: Handle<ConversationsMsg>,
    pub(super) presence_scheduler: Handle<PresenceMsg>,
    pub(super) commands: Handle<CommandsMsg>,
    pub(super) reporter: Handle<ReporterMsg>,
    pub(super) config_watcher: Handle<ConfigWatcherMsg>,
    pub(super) gateway: Handle<GatewayMsg>,
    pub(super) discord: Handle<DiscordMsg>,
    pub(super) identify_queue: Handle<IdentifyQueueMsg>,
}

impl Handles {
    /// Addresses of actors that do not run yet.
    #[must_use]
    pub fn new() -> Self {
        let at = |path: &str| format!("{}/{path}", TREE.name);
        Self {
            root: Handle::new(TREE.name),
            ops: Handle::new(&at("ops")),
            journal: Handle::new(&at("journal")),
            outbox: Handle::new(&at("outbox:discord")),
            terminal_outbox: Handle::new(&at("outbox:terminal")),
            rate_limiter: Handle::new(&at("rate_limiter")),
            restriction_sweeper: Handle::new(&at("restriction_sweeper")),
            llm_dispatcher: Handle::new(&at("llm_dispatcher")),
            conversations: Handle::new(&at("conversations")),
            presence_scheduler: Handle::new(&at("presence_scheduler")),
            commands: Handle::new(&at("commands")),
            reporter: Handle::new(&at("reporter")),
            config_watcher: Handle::new(&at("config_watcher")),
            gateway: Handle::new(&at("gateway")),
            discord: Handle::new(&at("discord")),
            identify_queue: Handle::new(&at("discord/identify_queue")),
        }
    }

    /// The way in for doors that are asked.
    #[must_use]
    pub fn intake(&self) -> GatewayIntake {
        GatewayIntake { gateway: self.gateway.clone() }
    }

    /// The way out of each door.
    pub(super) fn outboxes(&self, parts: &Parts) -> Outboxes {
        Outboxes::new(self.outbox.clone(), vec![(parts.terminal_door.clone(), self.terminal_outbox.clone())])
    }
}

impl Default for Handles {
    fn default() -> Self {
        Self::new()
    }
}
