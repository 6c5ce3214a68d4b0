//! The whole tree on ports in memory: a question comes in as an event and goes out as a post, whoever fails on the way.

use std::collections::BTreeSet;

use super::*;
use crate::actors::config_watcher::{Files, Looks};
use crate::actors::running::Running;
use crate::actors::testing::log::Log;
use crate::actors::testing::pictures::Sketches;
use crate::actors::testing::ports::{
    Connection, Connections, FixedDice, ManualClock, MemoryStore, NoFiles, NoVitals, ScriptedFaults, ScriptedListener,
    ScriptedModels, ScriptedPoster, ScriptedSource,
};
use crate::actors::testing::{DOOR, mention, place, settle};
use crate::domain::incoming::Incoming;
use crate::ports::{Fault, Session, StreamEvent};

/// Files that never change.
struct Still;

impl Files for Still {
    fn looks(&self) -> Looks {
        Looks::new()
    }

    fn read(&self) -> (Looks, Result<Running, Vec<String>>) {
        (Looks::new(), Err(Vec::new()))
    }
}

struct World {
    tree: Tree,
    poster: Arc<ScriptedPoster>,
    models: Arc<ScriptedModels>,
    store: Arc<MemoryStore>,
    faults: Arc<ScriptedFaults>,
    roster: Arc<Roster>,
    connections: Connections,
}

async fn world() -> World {
    let (source, connections) = ScriptedSource::new();
    let models = Arc::new(ScriptedModels::new(&["main"]));
    let (poster, store) = (Arc::new(ScriptedPoster::new()), Arc::new(MemoryStore::new()));
    let (faults, roster) = (Arc::new(ScriptedFaults::default()), Arc::new(Roster::default()));
    let parts = Parts {
        terminal_door: Door::new("terminal"),
        terminal: Arc::new(ScriptedPoster::new()),
        renderer: Arc::new(Sketches),
        handles: Handles::new(),
        timeline: Arc::default(),
        live: crate::actors::testing::live(&[], Arc::clone(&models) as _),
        files: Arc::new(Still),
        clock: Arc::new(ManualClock::new()),
        dice: Arc::new(FixedDice::new(0.5)),
        faults: Arc::clone(&faults) as _,
        store: Arc::clone(&store) as _,
        door: DOOR,
        source: Arc::new(source),
        poster: Arc::clone(&poster) as _,
        attachments: Arc::new(NoFiles),
        listener: Arc::new(ScriptedListener::default()),
        vitals: Arc::new(NoVitals),
        roster: Arc::clone(&roster),
        board: Arc::new(Board::default()),
        exit: Arc::new(tokio::sync::watch::channel(None).0),
    };
    let tree = Tree::start(parts).await.unwrap();
    World { tree, poster, models, store, faults, roster, connections }
}

impl World {
    async fn connected(&mut self) -> Connection {
        let connection = self.connections.next().await;
        assert_eq!((connection.shard.number, connection.shard.total), (0, 1));
        if connection.session.is_none() {
            let session = Session { id: "s".into(), sequence: 1, resume_url: None, total: 1 };
            connection.events.send(StreamEvent::Ready(session)).unwrap();
        }
        connection
    }

    fn paths(&self) -> BTreeSet<String> {
        self.roster.all().iter().map(|stats| stats.path.to_string()).collect()
    }

    fn answers(&self) -> Vec<String> {
        self.poster.ours(&place("42"))
    }
}

fn ask(connection: &Connection, sequence: u64, id: &str) {
    let incoming = Box::new(Incoming::Posted(mention(id, "7", "42")));
    connection.events.send(StreamEvent::Incoming { sequence, incoming }).unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_row_that_is_no_template_lives_after_the_start() {
    fn names(row: &'static Row, above: &str, found: &mut BTreeSet<String>) {
        let path = if above.is_empty() { row.name.to_owned() } else { format!("{above}/{}", row.name) };
        for child in row.children.iter().filter(|child| !child.is_template()) {
            names(child, &path, found);
        }
        found.insert(path);
    }
    let world = world().await;
    settle().await;
    let mut expected = BTreeSet::new();
    names(&TREE, "", &mut expected);
    expected.insert("staffai/discord/shard:0".to_owned());
    assert_eq!(world.paths(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_once_whoever_fails_on_its_way() {
    let mut paths: Vec<String> = {
        let world = world().await;
        settle().await;
        world.paths().into_iter().filter(|path| path != TREE.name).collect()
    };
    paths.push("staffai/conversations/conversation:discord:42".to_owned());
    for path in paths {
        for fault in [Fault::Panic, Fault::Error] {
            let log = Log::capture();
            let mut world = world().await;
            let connection = world.connected().await;
            settle().await;
            world.faults.inject(&path, fault);
            ask(&connection, 2, "10");
            tokio::time::sleep(Duration::from_millis(50)).await;
            // A shard that failed comes back with a new connection, on which the platform replays.
            let again = world.connections.now().await;
            if let Some(again) = &again {
                ask(again, 2, "10");
            }
            tokio::time::sleep(Duration::from_secs(90)).await;
            if world.faults.left() == 0 {
                assert_eq!(log.column("actor.failed", "actor"), std::slice::from_ref(&path), "{fault:?}");
            } else {
                let idle = ["staffai/discord", "staffai/discord/identify_queue", "staffai/config_watcher"];
                assert!(idle.contains(&path.as_str()), "{path} met no message");
            }
            assert_eq!(world.answers(), ["fine"], "{path} {fault:?}");
            assert!(log.of("actor.escalated").is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_finishes_what_runs_and_leaves_the_rest_in_the_journal() {
    let mut world = world().await;
    let connection = world.connected().await;
    world.models.takes(Duration::from_secs(10));
    ask(&connection, 2, "10");
    tokio::time::sleep(Duration::from_secs(1)).await;
    ask(&connection, 3, "11");
    settle().await;
    let begun = Instant::now();
    assert_eq!(world.tree.drain(Duration::from_secs(25)).await, Drained { finished: true, left: Some(1) });
    assert_eq!(begun.elapsed().as_secs(), 9);
    assert_eq!(world.answers(), ["fine"]);
    world.tree.stop().await;
    let state = |id: &str| world.store.json(&format!("staffai:turn:discord:{id}")).unwrap()["state"].clone();
    assert_eq!((state("10"), state("11")), ("closed".into(), "open".into()));
    assert!(world.roster.all().iter().all(|stats| &*stats.path == TREE.name), "nobody is left");
}
