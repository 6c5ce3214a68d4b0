//! The complete tree on in-memory ports: a question arrives as an event and leaves as a post, regardless of which
//! actor fails.

mod failures;
mod flood;
mod third_door;
mod two_processes;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use parking_lot::Mutex;

use self::third_door::{CLUB, Club, SQUARE};
use super::parts::{DoorParts, Observation, Pages, Process, Records, ToolParts};
use super::*;
use crate::config_watcher::{FileFingerprints, Files};
use crate::door::{Doors, Pacing, Source};
use crate::observation::turn_events::TurnEvents;
use crate::runtime::roster::Roster;
use crate::services::basics::Basics;
use crate::services::own_ranges::OwnRanges;
use crate::services::preferences::PreferenceKeeper;
use crate::services::running::{Live, Running};
use crate::testing::log::Log;
use crate::testing::pictures::Sketches;
use crate::testing::tools::{NoProviders, ScriptedServers, entry, nothing_built_in};
use crate::testing::{DOOR, mention, place, settle};
use crate::tree::{Instances, Scope};
use domain::ids::{Person, Place};
use domain::incoming::{Incoming, Posted};
use domain::ownership::Portions;
use domain::turn_event::TurnUpdate;
use ports::testing::{
    Connection, Connections, FixedDice, ManualClock, MemoryStore, NoVitals, Say, ScriptedListener, ScriptedModels,
    ScriptedPoster, ScriptedSource,
};
use ports::tools::ServerEntries;
use ports::voice_calls::{CallEnd, CallHost, Consents, VoiceCalls, VoiceRoom};
use ports::{Faults, GatewaySession, NoDocuments, NoFaults, NoFiles, PostError, StreamEvent, TurnEventLog};

/// Files that never change.
struct Still;

impl Files for Still {
    fn fingerprints(&self) -> FileFingerprints {
        FileFingerprints::new()
    }

    fn read(&self) -> (FileFingerprints, Result<Running, Vec<String>>) {
        (FileFingerprints::new(), Err(Vec::new()))
    }
}

/// The state that several lives of one process share.
struct Outside {
    poster: Arc<ScriptedPoster>,
    store: Arc<MemoryStore>,
    /// The messages of members, in the order of the platform's session; the first has sequence number two.
    said: Mutex<Vec<Posted>>,
    /// True if messages of others address the bot: each is from another member, in another place than the question.
    others_ask: bool,
}

impl Outside {
    fn new() -> Self {
        let (poster, store) = (Arc::new(ScriptedPoster::new()), Arc::new(MemoryStore::new()));
        Self { poster, store, said: Mutex::default(), others_ask: false }
    }

    /// Returns our messages in the channel of the question.
    fn answers(&self) -> Vec<String> {
        self.poster.ours(&place("42"))
    }
}

struct World {
    tree: Tree,
    models: Arc<ScriptedModels>,
    store: Arc<MemoryStore>,
    roster: Arc<Roster>,
    connections: Connections,
    events: TurnEvents,
    handles: Handles,
}

/// The variables with which an answered question reaches every actor.
const EVERY_ACTOR: [(&str, &str); 2] = [("STAFFAI_SUMMARIES__MODEL", "main"), ("MAX_HISTORY_PER_USER", "8")];

async fn life(outside: &Outside, faults: Arc<dyn Faults>) -> World {
    life_with(outside, faults, &EVERY_ACTOR, Arc::new(Club::default())).await
}

async fn life_with(outside: &Outside, faults: Arc<dyn Faults>, variables: &[(&str, &str)], club: Arc<Club>) -> World {
    let (source, connections) = ScriptedSource::new();
    let models = Arc::new(ScriptedModels::new(&["main"]));
    let roster = Arc::new(Roster::default());
    let platform = DoorRecord {
        door: DOOR,
        source: Source::Shards(Arc::new(source)),
        poster: Arc::clone(&outside.poster) as _,
        attachments: Arc::new(NoFiles),
        pacing: Pacing { requests_per_second: 50, refusals: 1_000 },
        registers_commands: true,
    };
    let mut running = crate::testing::running(variables, Arc::clone(&models) as _);
    running.doors.insert(CLUB, third_door::rules());
    running.doors.insert(SQUARE, third_door::rules());
    running.servers = Arc::new(ServerEntries { entries: vec![entry("time", "program")], ..ServerEntries::default() });
    let doors = Doors::new(vec![platform, third_door::record(&club), third_door::square()]).unwrap();
    let clock = Arc::new(ManualClock::new());
    let events = TurnEvents::new(vec![CLUB], Arc::clone(&clock) as _);
    let store = &outside.store;
    let dice = Arc::new(FixedDice::new(0.5));
    let basics = Basics { live: Live::new(running), store: Arc::clone(store) as _, clock, dice };
    let parts = Parts {
        tools: ToolParts {
            settings: Arc::new(PreferenceKeeper::new(basics.clone(), Arc::default())),
            toolbox: Arc::default(),
            built_in: nothing_built_in(),
            servers: Arc::new(ScriptedServers::default()),
            providers: Some(Arc::new(NoProviders)),
        },
        records: Records::new(&basics, Arc::clone(store) as _, crate::testing::turns(store)),
        basics,
        handles: Handles::new(&doors),
        doors: DoorParts {
            all: doors,
            home: DOOR,
            renderer: Arc::new(Sketches),
            documents: Arc::new(NoDocuments),
            calls: Some(Arc::new(EmptyChannels)),
        },
        pages: Pages {
            listener: Arc::new(ScriptedListener::default()),
            // Its address is in use at first.
            further: vec![Arc::new(ScriptedListener { failures: AtomicUsize::new(1), ..ScriptedListener::default() })],
            vitals: Arc::new(NoVitals),
        },
        observation: Observation {
            instruments: Instruments { roster: Arc::clone(&roster), ..Instruments::default() },
            events: events.clone(),
            observers: Vec::new(),
        },
        process: Process {
            files: Arc::new(Still),
            ranges: OwnRanges::new(Portions::WHOLE),
            peers: None,
            faults,
            exit: Arc::new(tokio::sync::watch::channel(None).0),
        },
    };
    let handles = parts.handles.clone();
    let tree = Tree::start(parts).await.unwrap();
    World { tree, models, store: Arc::clone(&outside.store), roster, connections, events, handles }
}

impl World {
    async fn connected(&mut self) -> Connection {
        let connection = self.connections.next().await;
        assert_eq!((connection.shard.number, connection.shard.total), (0, 1));
        greet(&connection);
        connection
    }

    fn paths(&self) -> BTreeSet<String> {
        self.roster.all().iter().map(|stats| stats.path.to_string()).collect()
    }
}

/// The platform begins a session, unless one continues.
fn greet(connection: &Connection) {
    if connection.session.is_none() {
        let session = GatewaySession { id: "s".into(), sequence: 1, resume_url: None, service: None, total: 1 };
        connection.events.send(StreamEvent::Ready(session)).unwrap();
    }
}

fn ask(connection: &Connection, sequence: u64, id: &str) {
    let incoming = Box::new(Incoming::Posted(mention(id, "7", "42")));
    connection.events.send(StreamEvent::Incoming { sequence, incoming }).unwrap();
}

/// Voice channels without members.
struct EmptyChannels;

#[async_trait]
impl VoiceCalls for EmptyChannels {
    fn can_hear(&self) -> bool {
        false
    }

    async fn channel_of(&self, _guild: &str, _member: &Person) -> Result<Option<Place>, PostError> {
        Ok(None)
    }

    async fn run(&self, _room: VoiceRoom, _consents: Consents, _host: Arc<dyn CallHost>) -> CallEnd {
        std::future::pending().await
    }
}

/// Returns the paths of a row's initial actors.
fn from_start(row: &'static TreeRow, above: &str) -> Vec<String> {
    let of = |scope: Scope| row.path(above, &scope);
    match row.name {
        Name::Fixed(_) => vec![of(Scope::One)],
        Name::Template { of: Instances::Door, .. } if row.kind == ActorKind::Source => vec![of(Scope::Door(CLUB))],
        Name::Template { .. } if row.kind == ActorKind::Listener => vec![of(Scope::Number(0))],
        Name::Template { .. } if row.kind == ActorKind::SlackSocket => [0, 1].map(|n| of(Scope::Number(n))).into(),
        Name::Template { of: Instances::Door, .. } => [DOOR, CLUB, SQUARE].map(|door| of(Scope::Door(door))).into(),
        Name::Template {
            of: Instances::Place | Instances::Community | Instances::Server | Instances::Number, ..
        } => Vec::new(),
    }
}

/// A supervisor starts after its children and stops after them.
fn starts(row: &'static TreeRow, above: &str, found: &mut Vec<String>) {
    for path in from_start(row, above) {
        row.children.iter().for_each(|child| starts(child, &path, found));
        found.push(path);
    }
}

fn stops(row: &'static TreeRow, above: &str, found: &mut Vec<String>) {
    for path in from_start(row, above).into_iter().rev() {
        row.children.iter().rev().for_each(|child| stops(child, &path, found));
        found.push(path);
    }
}

#[tokio::test(start_paused = true)]
async fn every_row_that_is_known_before_lives_after_the_start() {
    let world = life(&Outside::new(), Arc::new(NoFaults)).await;
    settle().await;
    let mut expected = vec!["staffai/discord/shard:0".to_owned(), "staffai/tools/mcp:time".to_owned()];
    starts(&TREE, "", &mut expected);
    assert_eq!(world.paths(), expected.into_iter().collect());
}

#[tokio::test(start_paused = true)]
async fn actors_start_as_the_tree_says_and_stop_in_reverse() {
    let log = Log::capture();
    let world = life(&Outside::new(), Arc::new(NoFaults)).await;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    starts(&TREE, "", &mut up);
    stops(&TREE, "", &mut down);
    let mut started = log.column("actor.started", "actor");
    started.retain(|path| !path.contains("/mcp:"));
    assert_eq!(started, up);
    settle().await;
    world.tree.stop().await;
    let stopped = log.column("actor.stopped", "actor");
    let later = |path: &String| path.contains("/shard:") || path.contains("/mcp:");
    let (later, stopped): (Vec<String>, Vec<String>) = stopped.into_iter().partition(later);
    let expected = ["staffai/discord/shard:0", "staffai/tools/mcp:time"].map(str::to_owned).to_vec();
    assert_eq!((later, stopped), (expected, down));
    let reasons = log.column("actor.stopped", "reason");
    assert!(reasons.iter().all(|reason| reason.is_empty() || reason == "stopped in order"), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn a_drain_finishes_what_runs_and_leaves_the_rest_in_the_journal() {
    let outside = Outside::new();
    let mut world = life(&outside, Arc::new(NoFaults)).await;
    let connection = world.connected().await;
    world.models.takes(Duration::from_secs(10));
    ask(&connection, 2, "10");
    tokio::time::sleep(Duration::from_secs(1)).await;
    ask(&connection, 3, "11");
    settle().await;
    let begun = Instant::now();
    assert_eq!(world.tree.drain(Duration::from_secs(25)).await, Drained { finished: true, left: Some(1) });
    assert_eq!(begun.elapsed().as_secs(), 9);
    assert_eq!(outside.answers(), ["fine"]);
    world.tree.stop().await;
    let state = |id: &str| world.store.json(&format!("staffai:turn:discord:{id}")).unwrap()["state"].clone();
    assert_eq!((state("10"), state("11")), ("closed".into(), "open".into()));
    assert!(world.roster.all().iter().all(|stats| stats.kind == ActorKind::Root), "nobody is left");
}

#[tokio::test(start_paused = true)]
async fn one_turn_is_drawn_as_a_message_and_read_by_two_clients_at_once() {
    let outside = Outside::new();
    let mut world = life(&outside, Arc::new(NoFaults)).await;
    let connection = world.connected().await;
    let clients = [world.events.clone(), world.events.clone()];
    clients[0].open(&place("42"));
    world.models.say(Say::Flows(r#"{"type": "text", "response": "Many readers follow the words of this answer, each"#));
    ask(&connection, 2, "10");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(outside.answers(), ["Many readers follow the words of this answer, eac"]);
    for client in clients {
        let updates: Vec<_> =
            client.read(&place("42"), 0).unwrap().events.iter().map(|event| event.update.clone()).collect();
        let text = "Many readers follow the words of this answer, each".to_owned();
        assert_eq!(updates, [TurnUpdate::Accepted, TurnUpdate::Draft { text, anew: true }]);
    }
}
