//! The parts from which the tree is built, in groups. To add a port, add one field to its group, and one line to
//! the group's constructor if the program creates it from others.

use std::sync::Arc;

use super::Handles;
use crate::config_watcher::Files;
use crate::door::Doors;
use crate::observation::audit::Audit;
use crate::observation::instruments::Instruments;
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::services::basics::Basics;
use crate::services::facts::FactKeeper;
use crate::services::own_ranges::OwnRanges;
use crate::services::preferences::PreferenceKeeper;
use crate::services::running::ExitSender;
use crate::services::toolbox::Toolbox;
use crate::tool_cache::BuiltIn;
use domain::ids::Door;
use ports::voice_calls::VoiceCalls;
use ports::{
    Documents, Faults, Limiter, Listener, Observer, Peers, Renderer, ToolProviders, ToolServers, Turns, Vitals,
};

/// The parts from which the tree is built.
pub struct Parts {
    /// Configuration, store, time and randomness.
    pub basics: Basics,
    /// The views of the stored data.
    pub records: Records,
    /// The doors.
    pub doors: DoorParts,
    /// The pages for operators.
    pub pages: Pages,
    /// The readers of events.
    pub observation: Observation,
    /// The tools.
    pub tools: ToolParts,
    /// The control of the process.
    pub process: Process,
    /// The addresses of the actors, created before the edges that send to them.
    pub handles: Handles,
}

/// The views of the stored data.
pub struct Records {
    /// Counts the usage of members, places and programs.
    pub limiter: Arc<dyn Limiter>,
    /// The journal's records.
    pub turns: Arc<dyn Turns>,
    /// The facts that members asked the bot to keep.
    pub facts: Arc<FactKeeper>,
    /// The record of tool calls: the member of each, and the approver. It excludes members who asked for deletion.
    pub audit: Arc<Audit>,
}

impl Records {
    /// The views of this store, within the limits of the settings in use.
    #[must_use]
    pub fn new(basics: &Basics, limiter: Arc<dyn Limiter>, turns: Arc<dyn Turns>) -> Self {
        let facts = Arc::new(FactKeeper::of(basics));
        let Basics { live, store, clock, .. } = basics.clone();
        let audit = Arc::new(Audit::new(store, clock, live, Arc::clone(facts.forgotten())));
        Self { limiter, turns, facts, audit }
    }
}

/// The doors.
pub struct DoorParts {
    /// All doors.
    pub all: Doors,
    /// The door whose ids are in the settings: reports go there, and the bot's status is shown there.
    pub home: Door,
    /// Draws formulas.
    pub renderer: Arc<dyn Renderer>,
    /// Reads documents that members attach.
    pub documents: Arc<dyn Documents>,
    /// The voice channels of the door with shards, if the bot may join them.
    pub calls: Option<Arc<dyn VoiceCalls>>,
}

/// The pages for operators.
pub struct Pages {
    /// Serves the pages.
    pub listener: Arc<dyn Listener>,
    /// Serve the same pages at further addresses.
    pub further: Vec<Arc<dyn Listener>>,
    /// The vital signs that the pages show.
    pub vitals: Arc<dyn Vitals>,
}

/// The readers of events.
#[derive(Default)]
pub struct Observation {
    /// The records that the pages show.
    pub instruments: Instruments,
    /// The events of turns, for edges with event streams.
    pub events: TurnEvents,
    /// Further readers.
    pub observers: Vec<Arc<dyn Observer>>,
}

impl Observation {
    /// Returns all readers. To add a reader, write a file that implements `Observer`, and add it
    /// to this list or to `observers`.
    pub(super) fn observers(&self, audit: &Arc<Audit>) -> Observers {
        let Instruments { timeline, tool_health, .. } = self.instruments.clone();
        let own: [Arc<dyn Observer>; 4] =
            [timeline, tool_health, Arc::clone(audit) as _, Arc::new(self.events.clone())];
        Observers::new(own.into_iter().chain(self.observers.iter().cloned()))
    }
}

/// The tools.
pub struct ToolParts {
    /// The available tools.
    pub toolbox: Arc<Toolbox>,
    /// The settings of members, some of which depend on the tools.
    pub settings: Arc<PreferenceKeeper>,
    /// The built-in tools.
    pub built_in: BuiltIn,
    /// Connects to tool servers.
    pub servers: Arc<dyn ToolServers>,
    /// The announcements of processes that provide tools; `None` if not configured.
    pub providers: Option<Arc<dyn ToolProviders>>,
}

/// The control of the process.
pub struct Process {
    /// The files behind the settings.
    pub files: Arc<dyn Files>,
    /// The portions of the bot's work that this process does.
    pub ranges: OwnRanges,
    /// The other processes, if the work is divided.
    pub peers: Option<Arc<dyn Peers>>,
    /// Injected failures; production injects no failure.
    pub faults: Arc<dyn Faults>,
    /// Requests the end of the process.
    pub exit: ExitSender,
}
