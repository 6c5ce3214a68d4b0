use super::*;
use crate::runtime::handle::Handle;
use crate::testing::log::Log;
use crate::testing::{LEAF, Stage, at, place, real, row, settle};
use crate::tree::{ActorKind, Scope};
use domain::ids::Timestamp;
use ports::testing::ScriptedListener;
use ports::vitals::{Configuration, Limit, Part, Readiness, Spend, Status, TreeNode, Turns};

fn conversation(id: &str) -> Handle<()> {
    Handle::new(real(ActorKind::Conversation), "staffai/conversations", Scope::Place(place(id)))
}

/// A program with one shard that is down, one limit, and one model with a price.
struct Signs;

fn part(kind: &str, name: &str, status: Status) -> Part {
    let (kind, name) = (kind.to_owned(), name.to_owned());
    Part { kind, name, status, since: Timestamp(0), restarts: 0, last_error: None, last_event: None, optional: false }
}

/// The same program with these parts.
struct WithParts(Vec<Part>);

impl Vitals for WithParts {
    fn alive(&self) -> bool {
        true
    }

    fn readiness(&self) -> Readiness {
        Readiness { parts: self.0.clone(), ..Signs.readiness() }
    }

    fn tree(&self, of_a_kind: usize) -> TreeNode {
        Signs.tree(of_a_kind)
    }

    fn turns(&self) -> Turns {
        Signs.turns()
    }
}

impl Vitals for Signs {
    fn alive(&self) -> bool {
        true
    }

    fn readiness(&self) -> Readiness {
        let shard = part("shard", "0", Status::Down);
        let configuration = Configuration { version: "1".to_owned(), rejected: Some("turn.lane".to_owned()) };
        Readiness {
            status: Status::Down,
            version: String::new(),
            range: None,
            configuration,
            parts: vec![shard],
            actors: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn tree(&self, _of_a_kind: usize) -> TreeNode {
        unreachable!("nobody draws the tree here")
    }

    fn turns(&self) -> Turns {
        let spend = Spend { model: "fast".to_owned(), dollars: Some(0.25), ..Spend::default() };
        let limit = Limit { name: "open turns".to_owned(), used: 3, max: 2000 };
        Turns { accepted: 0, newest: Vec::new(), spent: vec![spend], today: None, limits: vec![limit] }
    }

    fn memory(&self) -> Option<u64> {
        Some(4096)
    }
}

#[test]
fn gauges_tell_of_parts_bounds_costs_and_the_process() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || gauges::set(&BTreeMap::new(), &Signs, &mut gauges::Shown::new()));
    let page = recorder.handle().render();
    let version = format!("staffai_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    for line in [
        version.as_str(),
        "staffai_process_memory_bytes 4096",
        "staffai_uptime_seconds 0",
        "staffai_config_rejected 1",
        "staffai_part_up{kind=\"shard\",name=\"0\"} 0",
        "staffai_bound_used{bound=\"open_turns\"} 3",
        "staffai_bound_max{bound=\"open_turns\"} 2000",
        "staffai_llm_cost_dollars{model=\"fast\"} 0.25",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
    }
}

#[test]
fn a_part_that_is_gone_is_neither_up_nor_down_and_a_place_is_no_label() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let mut shown = gauges::Shown::new();
    let mut page = |parts: Vec<Part>| {
        metrics::with_local_recorder(&recorder, || gauges::set(&BTreeMap::new(), &WithParts(parts), &mut shown));
        recorder.handle().render()
    };
    let (door, model) = (part("door", "discord", Status::Ready), part("model", "fast", Status::Down));
    let refused = part("door", "posts:discord", Status::Down);
    let told = page(vec![door.clone(), model.clone(), refused, part("place", "discord:42", Status::Down)]);
    assert!(told.contains("{kind=\"door\",name=\"posts:discord\"} 0") && !told.contains("discord:42"), "{told}");
    let told = page(vec![door]);
    for line in ["door\",name=\"discord\"} 1", "door\",name=\"posts:discord\"} NaN", "model\",name=\"fast\"} NaN"] {
        assert!(told.contains(&format!("staffai_part_up{{kind=\"{line}")), "{line}: {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_state_is_told_once_and_the_tree_has_a_line_every_minute() {
    let (log, ops) = (Log::capture(), at("ops"));
    let mut stage = Stage::new();
    let (roster, listener) = (Arc::clone(&stage.roster), Arc::new(ScriptedListener::default()));
    stage.actor(row(LEAF), &ops, Ops { listener, roster: Arc::clone(&roster), vitals: Arc::new(Signs) });
    let _tree = stage.go().await;
    let handle: Handle<()> = Handle::new(real(ActorKind::Journal), "staffai", Scope::One);
    handle.stats().enter(LifeState::Running);
    roster.enter(Arc::clone(handle.stats()));
    tokio::time::sleep(MEASURE_EVERY * 3).await;
    assert!(log.of("actor.health").is_empty(), "nothing changed");
    handle.stats().enter(LifeState::Restarting);
    tokio::time::sleep(MEASURE_EVERY * 3).await;
    let told: Vec<[String; 2]> =
        log.of("actor.health").iter().map(|line| [line["actor"].clone(), line["state"].clone()]).collect();
    assert_eq!(told, [["staffai/journal".to_owned(), "restarting".to_owned()]]);
    // A restart between two checks also counts as a change.
    handle.stats().enter(LifeState::Running);
    tokio::time::sleep(MEASURE_EVERY * 2).await;
    handle.stats().restarts.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(MEASURE_EVERY * 2).await;
    assert_eq!(log.column("actor.health", "restarts"), ["0", "0", "1"]);
    tokio::time::sleep(HEALTH_EVERY).await;
    let trees = log.of("tree.health");
    assert!(!trees.is_empty() && trees.iter().all(|line| line["level"] == "INFO"), "{trees:?}");
    assert_eq!((trees[0]["actors"].as_str(), trees[0]["restarts"].as_str()), ("3", "1"));
    let levels: Vec<String> = log.column("actor.health", "level");
    assert_eq!(
        levels,
        [vec!["INFO"; 3], vec!["DEBUG"; 3]].concat(),
        "single lines each minute are for those who look closer"
    );
}

#[tokio::test(start_paused = true)]
async fn every_minute_each_actor_has_a_line_and_conversations_one_together() {
    let (log, ops) = (Log::capture(), at("ops"));
    let mut stage = Stage::new();
    let (roster, listener) = (Arc::clone(&stage.roster), Arc::new(ScriptedListener::default()));
    stage.actor(row(LEAF), &ops, Ops { listener, roster: Arc::clone(&roster), vitals: Arc::new(Signs) });
    let _tree = stage.go().await;
    for (place, handled) in [("42", 3), ("43", 4)] {
        let handle = conversation(place);
        handle.stats().handled.store(handled, Ordering::Relaxed);
        handle.stats().enter(LifeState::Running);
        roster.enter(Arc::clone(handle.stats()));
    }
    tokio::time::sleep(HEALTH_EVERY * 2).await;
    settle().await;
    let lines = log.of("actor.health");
    let actors: Vec<&str> = lines.iter().map(|line| line["actor"].as_str()).collect();
    let once = ["staffai", "staffai/conversations/conversation", "staffai/ops"];
    assert_eq!(actors, [once, once].concat());
    let conversations = &lines[1];
    assert_eq!((conversations["count"].as_str(), conversations["handled"].as_str()), ("2", "7"));
    assert_eq!(conversations["state"], "running");
    assert!(!lines.iter().flatten().any(|(_, value)| value.contains("discord:4")), "no channel is named");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_fails_is_started_again() {
    let (log, ops) = (Log::capture(), at("ops"));
    let mut stage = Stage::new();
    let listener = Arc::new(ScriptedListener::default());
    listener.failures.store(2, Ordering::SeqCst);
    let actor =
        Ops { listener: Arc::clone(&listener) as _, roster: Arc::clone(&stage.roster), vitals: Arc::new(Signs) };
    stage.actor(row(LEAF), &ops, actor);
    let _tree = stage.go().await;
    tokio::time::sleep(LISTEN_AGAIN * 5).await;
    assert_eq!(listener.begun.load(Ordering::SeqCst), 3);
    assert_eq!(log.column("ops.unreachable", "reason"), ["the address is in use"; 2]);
}

#[test]
fn a_kind_runs_when_all_of_it_run_and_shows_its_last_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().start_paused(true).enable_time().build().unwrap();
    let _guard = runtime.enter();
    let handles = ["42", "43"].map(conversation);
    handles[0].stats().enter(LifeState::Running);
    handles[1].stats().enter(LifeState::Restarting);
    handles[1].stats().failed("no");
    let stats: Vec<Arc<Stats>> = handles.iter().map(|handle| Arc::clone(handle.stats())).collect();
    let sums = sums(&stats);
    let sum = &sums["staffai/conversations/conversation"];
    assert_eq!((sum.count, sum.running, sum.last_error.as_deref()), (2, 1, Some("no")));
}

/// Records the threads on which samples were taken.
#[derive(Default)]
struct Threads(parking_lot::Mutex<Vec<std::thread::ThreadId>>);

impl Vitals for Threads {
    fn alive(&self) -> bool {
        true
    }

    fn readiness(&self) -> Readiness {
        Signs.readiness()
    }

    fn tree(&self, of_a_kind: usize) -> TreeNode {
        Signs.tree(of_a_kind)
    }

    fn turns(&self) -> Turns {
        Signs.turns()
    }

    fn sample(&self) {
        self.0.lock().push(std::thread::current().id());
    }
}

#[tokio::test(start_paused = true)]
async fn a_sample_of_many_actors_is_taken_where_nobody_waits_for_it() {
    let ops = at("ops");
    let mut stage = Stage::new();
    let (roster, listener) = (Arc::clone(&stage.roster), Arc::new(ScriptedListener::default()));
    let threads = Arc::new(Threads::default());
    stage.actor(row(LEAF), &ops, Ops { listener, roster: Arc::clone(&roster), vitals: Arc::clone(&threads) as _ });
    let _tree = stage.go().await;
    tokio::time::sleep(samples::EVERY + samples::EVERY / 2).await;
    let here = std::thread::current().id();
    assert_eq!(*threads.0.lock(), [here]);
    for number in 0..=SAMPLED_AT_ONCE {
        roster.enter(Arc::clone(conversation(&number.to_string()).stats()));
    }
    tokio::time::sleep(samples::EVERY * 2).await;
    let seen = threads.0.lock().clone();
    assert!(seen.len() >= 2 && seen[1..].iter().all(|thread| *thread != here), "{seen:?}");
}
