//! The services that a turn uses, in groups.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::door::Doors;
use crate::messages::journal::JournalMsg;
use crate::messages::llm_dispatcher::LlmDispatcherMsg;
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::messages::summaries::SummariesMsg;
use crate::observation::timeline::Timeline;
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::outbox::{ClosedPlaces, Outboxes};
use crate::runtime::handle::Handle;
use crate::services::acts::Acts;
use crate::services::allowances::Allowances;
use crate::services::basics::Basics;
use crate::services::busy::Busy;
use crate::services::clean_calls::OpenCalls;
use crate::services::facts::FactKeeper;
use crate::services::in_flight::InFlight;
use crate::services::interjections::Interjections;
use crate::services::lane_tools::KeptLaneTools;
use crate::services::long_results::LongResults;
use crate::services::reused_results::ReusedResults;
use crate::services::tool_use::ToolUse;
use crate::services::toolbox::Toolbox;
use crate::turn::files::READERS;
use ports::shares::Shares;
use ports::{Documents, Limiter};

/// The services that a turn uses.
pub struct TurnParts {
    /// Configuration, store, time and randomness.
    pub basics: Basics,
    /// The actors that a turn calls.
    pub neighbors: Neighbors,
    /// The readers of its events.
    pub readers: Readers,
    /// Its tools.
    pub tools: ToolServices,
    /// Its files.
    pub files: FileServices,
    /// The facts of members, and the pending deletions: content that may no longer be remembered.
    pub facts: Arc<FactKeeper>,
    /// The state that turns share with each other and with the gateway.
    pub shared: SharedState,
}

/// The actors that a turn calls.
pub struct Neighbors {
    /// The journal, which has custody of the turn.
    pub journal: Handle<JournalMsg>,
    /// Grants the leases on model calls.
    pub dispatcher: Handle<LlmDispatcherMsg>,
    /// The rate limiter, which receives turns that ended before they began.
    pub rate_limiter: Handle<RateLimiterMsg>,
    /// Summarises the older exchanges of long conversations.
    pub summaries: Handle<SummariesMsg>,
    /// The outboxes, which show typing and read from the platforms.
    pub outboxes: Outboxes,
}

/// The readers of a turn's events.
#[derive(Clone, Default)]
pub struct Readers {
    /// The observers of events.
    pub observers: Observers,
    /// Publishes each step of a turn to its subscribers.
    pub events: TurnEvents,
    /// The optional record of the texts of model calls.
    pub timeline: Arc<Timeline>,
}

/// The tools of turns.
pub struct ToolServices {
    /// The tools available now.
    pub toolbox: Arc<Toolbox>,
    /// The recent tool calls of each member.
    pub tool_use: Arc<ToolUse>,
    /// The calls that approvers allowed for a limited time.
    pub allowances: Arc<Allowances>,
    /// The open calls whose tools may request model calls.
    pub clean_calls: Arc<OpenCalls>,
    /// The memory of long results.
    pub long_results: LongResults,
    /// The results that may be reused.
    pub reused: ReusedResults,
    /// The tools in the last prompt of each lane.
    pub lane_tools: KeptLaneTools,
}

impl ToolServices {
    /// Creates the services for these tools. The limiter counts the calls of each member.
    #[must_use]
    pub fn new(toolbox: Arc<Toolbox>, limiter: Arc<dyn Limiter>, clean_calls: Arc<OpenCalls>) -> Self {
        Self {
            toolbox,
            tool_use: Arc::new(ToolUse::new(limiter)),
            allowances: Arc::default(),
            clean_calls,
            long_results: LongResults::default(),
            reused: ReusedResults::default(),
            lane_tools: KeptLaneTools::default(),
        }
    }
}

/// The files that are attached to questions.
pub struct FileServices {
    /// The doors, which fetch the files.
    pub doors: Doors,
    /// One permit for each KiB of files in memory.
    pub kib: Shares,
    /// One permit for each KiB of contents of resources, while these wait for permits of files.
    pub waiting: Shares,
    /// Reads documents.
    pub documents: Arc<dyn Documents>,
    /// One permit for each document that is being read.
    pub readers: Shares,
}

impl FileServices {
    /// The files of these doors, in this much memory.
    #[must_use]
    pub fn new(doors: Doors, kib: usize, documents: Arc<dyn Documents>) -> Self {
        let permits = |many| Shares::new(Arc::new(Semaphore::new(many)));
        Self { doors, kib: permits(kib), waiting: permits(kib), documents, readers: permits(READERS) }
    }
}

/// The state that turns share with each other and with the gateway.
#[derive(Clone, Default)]
pub struct SharedState {
    /// The turns in flight.
    pub in_flight: Arc<InFlight>,
    /// The members who recently received a notice of overload.
    pub busy: Arc<Busy>,
    /// The places that currently accept no answer.
    pub closed: Arc<ClosedPlaces>,
    /// The record of interjections, the bot's unrequested answers.
    pub interjections: Arc<Interjections>,
    /// The calls of recent turns that change something.
    pub acts: Arc<Acts>,
}
