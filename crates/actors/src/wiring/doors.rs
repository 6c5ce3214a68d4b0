//! The actors of a door, built from its record.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::{Wiring, template};
use crate::discord::Discord;
use crate::door::{DoorRecord, Pacing, Source};
use crate::identify_queue::IdentifyQueue;
use crate::listening::Listening;
use crate::observation::board::PartKind;
use crate::outbox::{Outbox, Pacer};
use crate::presence_scheduler::PresenceScheduler;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::ChildSpec;
use crate::shard::ShardParts;
use crate::slack::Slack;
use crate::source::{Part, SourceActor};
use crate::timers::Timers;
use crate::tree::{ROOT, Scope, TREE, TreeRow};
use crate::voice::VoiceParts;
use crate::voices::Voices;
use domain::ids::Door;
use ports::{EventSource, Listener, ShardedSource};
use settings::edges::Shards;

impl Wiring {
    pub(super) fn outbox(&self, record: &DoorRecord) -> Outbox {
        let Pacing { requests_per_second, refusals } = record.pacing;
        // All processes of the bot share the platform's budget.
        let ranges = &self.parts.process.ranges;
        let pacer = Pacer::new(requests_per_second, refusals).shared(ranges.clone());
        Outbox {
            door: record.door.clone(),
            board: Arc::clone(&self.parts.observation.instruments.board),
            poster: Arc::clone(&record.poster),
            pacer: Arc::new(Mutex::new(
                pacer.reporting(record.door.clone(), Arc::clone(&self.parts.observation.instruments.board)),
            )),
            closed: Arc::clone(&self.turn_parts.shared.closed),
            live: self.parts.basics.live.clone(),
            dice: Arc::clone(&self.parts.basics.dice),
            renderer: Arc::clone(&self.parts.doors.renderer),
            journal: self.handles.journal.clone(),
            events: self.parts.observation.events.clone(),
            observers: self.turn_parts.readers.observers.clone(),
        }
    }

    /// Returns the actor that keeps the connection of a door, if the door has exactly one.
    pub(super) fn source(&self, row: &'static TreeRow, record: &DoorRecord) -> Option<ChildSpec> {
        let Source::Connection(source) = &record.source else { return None };
        let part = Part { kind: PartKind::Door, name: record.door.as_str().to_owned() };
        let actor = self.connection(record, source, part);
        Some(ChildSpec::new(row, &Handle::new(row, ROOT, Scope::Door(record.door.clone())), actor, Vec::new()))
    }

    /// Returns the door with sockets, and its sources.
    fn door_with_sockets(&self) -> Option<(&DoorRecord, &[Arc<dyn EventSource>])> {
        self.parts.doors.all.iter().find_map(|record| Some((record, record.sockets()?)))
    }

    /// Returns the supervisor of the connections of the door with sockets, if there is one.
    pub(super) fn slack(&self, row: &'static TreeRow, below: &[ChildSpec]) -> Vec<ChildSpec> {
        let supervisor = |(record, sources): (&DoorRecord, &[Arc<dyn EventSource>])| {
            let actor = Slack {
                door: record.door.clone(),
                source: Arc::clone(sources.first()?),
                intake: Arc::new(self.handles.intake()),
                board: Arc::clone(&self.parts.observation.instruments.board),
                basics: self.parts.basics.clone(),
            };
            Some(ChildSpec::new(row, &self.handles.slack, actor, below.to_vec()))
        };
        self.door_with_sockets().and_then(supervisor).into_iter().collect()
    }

    /// Returns the actors that keep the connections of the door with sockets.
    pub(super) fn sockets(&self, row: &'static TreeRow) -> Vec<ChildSpec> {
        let Some((record, sources)) = self.door_with_sockets() else { return Vec::new() };
        let above = TREE.locate(row.kind).map_or_else(String::new, |(_, above)| above);
        let socket = |(number, source): (u32, &Arc<dyn EventSource>)| {
            let part = Part { kind: PartKind::Socket, name: format!("{}:{number}", record.door) };
            let actor = self.connection(record, source, part);
            ChildSpec::new(row, &Handle::new(row, &above, Scope::Number(number)), actor, Vec::new())
        };
        (0..).zip(sources).map(socket).collect()
    }

    fn connection(&self, record: &DoorRecord, source: &Arc<dyn EventSource>, part: Part) -> SourceActor {
        SourceActor {
            door: record.door.clone(),
            part,
            source: Arc::clone(source),
            intake: Arc::new(self.handles.intake()),
            dice: Arc::clone(&self.parts.basics.dice),
            board: Arc::clone(&self.parts.observation.instruments.board),
            exit: (record.door == self.parts.doors.home).then(|| Arc::clone(&self.parts.process.exit)),
            fenced: self.parts.records.turns.fenced(),
        }
    }

    /// Returns one actor for each further address.
    pub(super) fn listeners(&self, row: &'static TreeRow) -> Vec<ChildSpec> {
        let listening = |(number, listener): (u32, &Arc<dyn Listener>)| {
            let actor = Listening { listener: Arc::clone(listener) };
            ChildSpec::new(row, &Handle::new(row, ROOT, Scope::Number(number)), actor, Vec::new())
        };
        (0..).zip(&self.parts.pages.further).map(listening).collect()
    }

    /// Returns the door with shards, and its source.
    fn sharded(&self) -> Option<(&Door, &Arc<dyn ShardedSource>)> {
        self.parts.doors.all.iter().find_map(|record| Some((&record.door, record.shards()?)))
    }

    /// Returns the supervisor of calls, if the bot may join voice channels.
    pub(super) fn voices(&self, row: &'static TreeRow) -> Option<Voices> {
        let (door, source) = self.sharded()?;
        let parts = VoiceParts {
            calls: Arc::clone(self.parts.doors.calls.as_ref()?),
            outbox: self.handles.outboxes.of(door).clone(),
            intake: self.handles.intake(),
            source: Arc::clone(source),
            clock: Arc::clone(&self.parts.basics.clock),
            dice: Arc::clone(&self.parts.basics.dice),
            posts: AtomicU64::new(0),
        };
        Some(Voices { template: template(row), parts: Arc::new(parts), ranges: self.parts.process.ranges.clone() })
    }

    pub(super) fn discord(&self, row: &'static TreeRow) -> Option<Discord> {
        let (door, source) = self.sharded()?;
        let parts = ShardParts {
            door: door.clone(),
            source: Arc::clone(source),
            basics: self.parts.basics.clone(),
            began: self.parts.basics.clock.now(),
            observers: self.turn_parts.readers.observers.clone(),
            presence: self.presence.subscribe(),
            board: Arc::clone(&self.parts.observation.instruments.board),
            gateway: self.handles.gateway.clone(),
            outbox: self.handles.outboxes.of(door).clone(),
            identify_queue: self.handles.identify_queue.clone(),
            exit: Arc::clone(&self.parts.process.exit),
        };
        Some(Discord { template: template(row), parts, ranges: self.parts.process.ranges.clone() })
    }

    pub(super) fn identify_queue(&self) -> Option<IdentifyQueue> {
        let (door, source) = self.sharded()?;
        Some(IdentifyQueue {
            door: door.clone(),
            source: Arc::clone(source),
            shards: match self.parts.basics.live.now().settings.discord.shards {
                Shards::Auto => None,
                Shards::Count(count) => Some(count),
            },
            ranges: self.parts.process.ranges.clone(),
            peers: self.parts.process.peers.clone(),
            discord: self.handles.discord.clone(),
            dice: Arc::clone(&self.parts.basics.dice),
            board: Arc::clone(&self.parts.observation.instruments.board),
            exit: Arc::clone(&self.parts.process.exit),
        })
    }

    pub(super) fn presence_scheduler(&self) -> PresenceScheduler {
        PresenceScheduler {
            door: self.parts.doors.home.clone(),
            live: self.parts.basics.live.clone(),
            clock: Arc::clone(&self.parts.basics.clock),
            board: Arc::clone(&self.parts.observation.instruments.board),
            store: Arc::clone(&self.parts.basics.store),
            dispatcher: self.handles.llm_dispatcher.clone(),
            slot: Arc::clone(&self.presence),
        }
    }

    pub(super) fn timers(&self) -> Timers {
        Timers {
            live: self.parts.basics.live.clone(),
            limiter: Arc::clone(&self.parts.records.limiter),
            store: Arc::clone(&self.parts.basics.store),
            clock: Arc::clone(&self.parts.basics.clock),
            intake: Arc::new(self.handles.intake()),
            process: format!("{:016x}", self.parts.basics.dice.roll().to_bits()).into(),
            fenced: self.parts.records.turns.fenced(),
        }
    }
}
