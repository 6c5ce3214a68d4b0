//! Several active processes with one bot account on one server, each with one range of the work, and spare ones. Each
//! question is answered once, also while processes are killed, paused and replaced, and the division changes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::guild::ids::{ChannelId, MessageId, UserId};
use playground::guild::seed::Seed;
use playground::service::{Options, Service};
use ports::Clock;
use rustix::process::Signal;
use serde_json::Value;
use staffai::app::exit;
use staffai::app::system::SystemClock;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use crate::rows::Process;
use crate::server::Server;
use crate::support::{PATIENCE, bot_on, count, log, logs, output, until};

/// The number of shards of the service.
const SHARDS: u32 = 4;
/// The guilds, of which each shard has two.
const GUILDS: u32 = 8;
/// The pause between two mentions.
const EVERY: Duration = Duration::from_millis(50);
/// The most mentions without an answer at a time, so that a slow machine is asked no faster than it answers.
const OPEN_MAX: usize = 60;
/// The time that a division serves before and after each change.
const SERVES: Duration = Duration::from_secs(1);
/// The bound on the takeover of a range whose process was killed: its term, and a request of a spare process.
const TAKEOVER_MAX: Duration = Duration::from_secs(3);
/// A model this slow leaves turns open while processes change.
const THINKING: Duration = Duration::from_secs(4);

/// One server of Redis, one service with several shards, and the folders of processes.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) service: Service,
    model: DemoModel,
    dir: TempDir,
    ada: UserId,
    /// One channel of each guild.
    places: Vec<ChannelId>,
    /// The address of another server for the processes; `None`: the one of this world.
    pub(crate) url: Option<String>,
}

impl World {
    async fn new(thinking: Duration) -> Self {
        Self::of(thinking, SHARDS).await
    }

    /// Starts a service with this many shards.
    pub(crate) async fn of(thinking: Duration, shards: u32) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut options = Options {
            seed: Seed::many(GUILDS, 1),
            shards,
            max_concurrency: shards,
            ..Options::new(Arc::new(|| SystemClock.now().0))
        };
        let plenty = (100_000, Duration::from_secs(1));
        options.budgets.writes = plenty;
        options.budgets.reads = plenty;
        options.budgets.global = plenty;
        let service = Service::start(options).await.unwrap();
        let ada = service.members().into_iter().find(|member| !member.bot).unwrap().id;
        let places: Vec<_> = service.channels().iter().map(|channel| channel.id).collect();
        assert_eq!(places.len(), GUILDS as usize);
        let model = DemoModel::start(thinking).await.unwrap();
        Self { server: Server::start(), service, model, dir: TempDir::new().unwrap(), ada, places, url: None }
    }

    pub(crate) fn variables(&self, ranges: u32) -> Vec<(&'static str, String)> {
        let more = [
            ("RATE_LIMIT_COUNT", "100000".to_owned()),
            ("TOKEN_RATE_LIMIT_COUNT", "100000000".to_owned()),
            ("RATE_LIMIT_WINDOW_SECONDS", "1".to_owned()),
            ("DISCORD_REQUESTS_PER_SECOND", "0".to_owned()),
            ("STAFFAI_TURN__LANE", "1000".to_owned()),
            ("STAFFAI_CATCH_UP__PER_CHANNEL", "1000".to_owned()),
            ("STAFFAI_CLUSTER__RANGES", ranges.to_string()),
        ];
        let url = self.url.clone().map(|url| ("REDIS_URL", url));
        bot_on(&self.server, &self.service, &self.model).into_iter().chain(more).chain(url).collect()
    }

    /// Starts a process that reaches the server at this address.
    pub(crate) fn start_at(&self, name: &str, number: u8, ranges: u32, url: String) -> Process {
        let mut variables = self.variables(ranges);
        variables.push(("REDIS_URL", url));
        Process::start(&self.folder(name), number, &variables)
    }

    /// Starts a process of a division with the name of its folder.
    pub(crate) fn start(&self, name: &str, number: u8, ranges: u32) -> Process {
        Process::start(&self.folder(name), number, &self.variables(ranges))
    }

    /// Starts two active processes and a spare one.
    async fn three(&self, numbers: [u8; 3]) -> [Process; 3] {
        let active = [self.start("one", numbers[0], 2), self.start("two", numbers[1], 2)];
        for shard in 0..SHARDS {
            self.service.connected(shard).await;
        }
        let spare = self.start("spare", numbers[2], 2);
        self.logs("spare", "lease.awaited").await;
        let [one, two] = active;
        [one, two, spare]
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the number of lines of an event in the log of a process.
    pub(crate) fn count(&self, name: &str, event: &str) -> usize {
        count(&self.folder(name), event)
    }

    async fn logs(&self, name: &str, event: &str) {
        logs(&self.folder(name), event).await;
    }

    /// Returns the range that a process took, such as `1/2`.
    fn range(&self, name: &str) -> Option<String> {
        let log = log(&self.folder(name));
        let taken = log.lines().rfind(|line| line.contains("\"event\":\"lease.taken\""))?;
        let line: Value = serde_json::from_str(taken).ok()?;
        line.get("range").and_then(Value::as_str).map(str::to_owned)
    }

    /// The same; `None` if the command fails.
    pub(crate) fn tells_cluster(&self) -> Option<String> {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_staffai"));
        command.arg("cluster").env_clear().envs(self.variables(2)).current_dir(self.dir.path());
        let done = command.output().unwrap();
        done.status.success().then(|| String::from_utf8(done.stdout).unwrap())
    }

    /// Returns what `staffai cluster` prints.
    pub(crate) fn cluster(&self) -> String {
        output(self.dir.path(), &self.variables(2), &["cluster"])
    }

    fn asks(&self, place: ChannelId, text: &str) -> MessageId {
        self.service.says(self.ada, place, &format!("<@{}> {text}", self.service.bot()), None)
    }

    /// Asks a question in each guild.
    pub(crate) fn asks_everywhere(&self, text: &str) -> Vec<MessageId> {
        self.places.iter().map(|place| self.asks(*place, text)).collect()
    }

    /// Returns the number of answers to each question, and the time of the first in milliseconds after the question.
    pub(crate) fn answers(&self) -> HashMap<MessageId, (usize, u64)> {
        answers(&self.service, &self.places)
    }

    async fn all_answered(&self, questions: &[MessageId]) {
        let answered = || {
            let answers = self.answers();
            questions.iter().all(|question| answers.get(question).is_some_and(|(times, _)| *times > 0))
        };
        until("each question is answered", answered).await;
    }

    /// Checks that each question of the whole test has exactly one answer.
    pub(crate) fn each_once(&self) {
        let answers = self.answers();
        let wrong: Vec<_> = answers.iter().filter(|(_, (times, _))| *times != 1).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(self.service.doubled(), 0);
    }

    pub(crate) async fn end(self) {
        self.service.stop().await;
        self.model.stop().await;
    }
}

fn answers(service: &Service, places: &[ChannelId]) -> HashMap<MessageId, (usize, u64)> {
    let (bot, mut answers) = (service.bot(), HashMap::<MessageId, (usize, u64)>::new());
    let at = |id: MessageId| id.0 >> 22;
    for message in places.iter().flat_map(|place| service.messages(*place)) {
        if message.author != bot && message.content.starts_with("<@") {
            answers.entry(message.id).or_default();
        } else if let Some(question) = message.reply_to.filter(|_| message.author == bot) {
            let (times, after) = answers.entry(question).or_default();
            *times += 1;
            if *times == 1 {
                *after = at(message.id).saturating_sub(at(question));
            }
        }
    }
    answers
}

/// Mentions in all guilds in turn, until it ends.
pub(crate) struct Load {
    over: Arc<AtomicBool>,
    asking: tokio::task::JoinHandle<Vec<MessageId>>,
}

impl Load {
    pub(crate) fn begin(world: &World) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (stop, service, places, ada) = (Arc::clone(&over), world.service.clone(), world.places.clone(), world.ada);
        let asking = tokio::spawn(async move {
            let mut asked = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let open = answers(&service, &places).values().filter(|(times, _)| *times == 0).count();
                if open < OPEN_MAX {
                    let text = format!("<@{}> what is {} + 1", service.bot(), asked.len());
                    asked.push(service.says(ada, places[asked.len() % places.len()], &text, None));
                }
                tokio::time::sleep(EVERY).await;
            }
            asked
        });
        Self { over, asking }
    }

    /// Ends it and checks that each mention is answered once. Returns the time until an answer in milliseconds, sorted.
    pub(crate) async fn end(self, world: &World) -> Vec<u64> {
        self.over.store(true, Ordering::Relaxed);
        let asked = self.asking.await.unwrap();
        world.all_answered(&asked).await;
        world.each_once();
        let answers = world.answers();
        let mut times: Vec<u64> = asked.iter().map(|question| answers[question].1).collect();
        times.sort_unstable();
        times
    }
}

/// Returns the time within which this many of 1,000 mentions were answered.
fn quantile(sorted: &[u64], of_1000: usize) -> u64 {
    sorted[(sorted.len() - 1) * of_1000 / 1_000]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spare_process_takes_over_the_range_of_a_killed_one_under_load() {
    let world = World::new(Duration::ZERO).await;
    let [one, two, spare] = world.three([40, 41, 42]).await;
    let mut ranges = [world.range("one").unwrap(), world.range("two").unwrap()];
    ranges.sort_unstable();
    assert_eq!(ranges, ["0/2", "1/2"]);
    let load = Load::begin(&world);
    tokio::time::sleep(SERVES).await;
    one.signal(Signal::KILL);
    let killed = Instant::now();
    world.logs("spare", "lease.taken").await;
    let taken = killed.elapsed();
    assert!(taken < TAKEOVER_MAX, "{taken:?}");
    assert_eq!(world.range("spare"), world.range("one"));
    until("its sessions go on", || world.count("spare", "gateway.resumed") >= 2).await;
    tokio::time::sleep(SERVES).await;
    assert_eq!((world.count("two", "lease.lost"), world.count("two", "lease.taken")), (0, 1));
    let times = load.end(&world).await;
    let stats = world.service.stats();
    println!(
        "killed: {} mentions, taken over after {} ms, longest {} ms",
        times.len(),
        taken.as_millis(),
        times[times.len() - 1]
    );
    assert_eq!((stats.identifies, stats.identifies_refused), (u64::from(SHARDS), 0));
    drop((one, two, spare));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_processes_are_replaced_one_by_one_under_load_and_all_sessions_go_on() {
    let world = World::new(Duration::ZERO).await;
    let [one, two, spare] = world.three([43, 44, 45]).await;
    let load = Load::begin(&world);
    let mut processes = vec![("one", one), ("two", two), ("spare", spare)];
    for (number, (name, next)) in [("one", "three"), ("two", "four"), ("spare", "five")].into_iter().enumerate() {
        tokio::time::sleep(SERVES).await;
        let new = world.start(next, 46 + u8::try_from(number).unwrap(), 2);
        until("the new process is ready", || world.count(next, "lease.awaited") + world.count(next, "lease.taken") > 0)
            .await;
        let (_, mut old) = processes.remove(0);
        old.signal(Signal::TERM);
        assert_eq!(old.ended().await, Some(i32::from(exit::FINE)), "{name}");
        processes.push((next, new));
    }
    tokio::time::sleep(SERVES).await;
    let times = load.end(&world).await;
    println!(
        "rolled: {} mentions, answered after {} ms (half), {} ms (99 %), {} ms (all)",
        times.len(),
        quantile(&times, 500),
        quantile(&times, 990),
        times[times.len() - 1]
    );
    let stats = world.service.stats();
    assert_eq!((stats.identifies, stats.identifies_refused), (u64::from(SHARDS), 0), "sessions were resumed");
    drop(processes);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_paused_beyond_its_term_acts_on_nothing_of_its_range() {
    let world = World::new(THINKING).await;
    let [mut one, two, spare] = world.three([50, 51, 52]).await;
    let questions = world.asks_everywhere("which way to the harbour");
    until("it has its share of them", || world.count("one", "turn.accepted") == questions.len() / 2).await;
    one.signal(Signal::STOP);
    world.logs("spare", "turn.resumed").await;
    one.signal(Signal::CONT);
    assert_eq!(one.ended().await, Some(i32::from(exit::IN_USE)));
    world.all_answered(&questions).await;
    world.each_once();
    let replied = || ["one", "two", "spare"].map(|name| world.count(name, "turn.replied"));
    until("the others answered", || replied() == [0, questions.len() / 2, questions.len() / 2]).await;
    assert_eq!((world.count("one", "lease.lost"), world.count("two", "lease.lost")), (1, 0));
    drop((two, spare));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_division_follows_another_one_and_takes_up_each_open_turn_once() {
    let world = World::new(THINKING).await;
    let whole = world.start("whole", 53, 1);
    for shard in 0..SHARDS {
        world.service.connected(shard).await;
    }
    let first = world.asks_everywhere("which way to the harbour");
    until("it has all of them", || world.count("whole", "turn.accepted") == first.len()).await;

    // They wait for the end of the process that does all the work, and divide its turns.
    let halves = [world.start("left", 54, 2), world.start("right", 55, 2)];
    for name in ["left", "right"] {
        world.logs(name, "lease.awaited").await;
    }
    assert_eq!(world.count("left", "lease.taken") + world.count("right", "lease.taken"), 0);
    whole.signal(Signal::KILL);
    let resumed = || ["left", "right"].map(|name| world.count(name, "turn.resumed"));
    until("each takes up its own", || resumed() == [first.len() / 2; 2]).await;
    let replied = || world.count("left", "turn.replied") + world.count("right", "turn.replied");
    until("each turn is closed", || replied() == first.len()).await;

    let second = world.asks_everywhere("and back");
    let accepted = |name| world.count(name, "turn.accepted") == second.len() / 2;
    until("each has its own", || accepted("left") && accepted("right")).await;
    let again = world.start("again", 56, 1);
    world.logs("again", "lease.awaited").await;
    for half in &halves {
        half.signal(Signal::KILL);
    }
    until("it takes up all of them", || world.count("again", "turn.resumed") == second.len()).await;
    world.all_answered(&second).await;
    let third = world.asks_everywhere("thank you");
    world.all_answered(&third).await;
    world.each_once();
    drop((whole, halves, again));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_takes_the_ranges_of_another_one_beside_its_own_and_gives_one_to_a_newcomer() {
    let world = World::new(Duration::ZERO).await;
    let one = world.start("one", 57, 2);
    until("it takes both ranges", || world.count("one", "lease.taken") == 2).await;
    for shard in 0..SHARDS {
        world.service.connected(shard).await;
    }
    let load = Load::begin(&world);
    let two = world.start("two", 58, 2);
    until("it is given one", || world.count("two", "lease.taken") == 1).await;
    until("its sessions go on there", || world.count("two", "gateway.resumed") >= 2).await;
    assert_eq!(world.count("one", "lease.given"), 1);
    assert_eq!(world.range("two").as_deref(), Some("1/2"), "the first range stays");
    let ready = reqwest::get(format!("http://{}/readyz", one.address)).await.unwrap().json::<Value>().await.unwrap();
    assert_eq!(ready["range"], "0/2", "{ready}");
    tokio::time::sleep(SERVES).await;
    two.signal(Signal::KILL);
    let killed = Instant::now();
    until("it takes the range back", || world.count("one", "lease.taken") == 3).await;
    let taken = killed.elapsed();
    assert!(taken < TAKEOVER_MAX, "{taken:?}");
    until("its sessions go on", || world.count("one", "gateway.resumed") >= 2).await;
    let three = world.start("three", 59, 2);
    until("it is given one", || world.count("three", "lease.taken") == 1).await;
    until("its sessions go on there", || world.count("three", "gateway.resumed") >= 2).await;
    tokio::time::sleep(SERVES).await;
    let times = load.end(&world).await;
    println!(
        "given, killed, given: {} mentions, taken over after {} ms, answered after {} ms (99 %), {} ms (all)",
        times.len(),
        taken.as_millis(),
        quantile(&times, 990),
        times[times.len() - 1]
    );
    assert!(world.cluster().contains("moves: 3"), "{}", world.cluster());
    assert_eq!((world.count("one", "lease.lost"), world.count("one", "store.fenced")), (0, 0));
    let stats = world.service.stats();
    assert_eq!((stats.identifies, stats.identifies_refused), (u64::from(SHARDS), 0), "sessions were resumed");
    drop((one, three));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_turns_of_a_range_are_finished_before_it_is_given_away() {
    let world = World::new(THINKING).await;
    let one = world.start("one", 60, 2);
    until("it takes both ranges", || world.count("one", "lease.taken") == 2).await;
    for shard in 0..SHARDS {
        world.service.connected(shard).await;
    }
    let first = world.asks_everywhere("which way to the harbour");
    until("it has all of them", || world.count("one", "turn.accepted") == first.len()).await;
    let two = world.start("two", 61, 2);
    until("its shards of that range are stopped", || world.cluster().contains("standby")).await;
    // The range that moves is deaf until its turns are finished; its next owner reads what was asked meanwhile.
    let second = world.asks_everywhere("and back");
    until("it is given one", || world.count("two", "lease.taken") == 1).await;
    let replied = world.count("one", "turn.replied");
    assert!(replied >= first.len() / 2, "the turns of the range are finished: {replied}");
    let all: Vec<_> = first.into_iter().chain(second).collect();
    world.all_answered(&all).await;
    world.each_once();
    assert_eq!(world.count("two", "turn.resumed"), 0, "it had no open turn to take up");
    drop((one, two));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_without_a_process_are_visible() {
    let world = World::new(Duration::ZERO).await;
    let one = world.start("one", 62, 2);
    world.service.connected(0).await;
    let ready = reqwest::get(format!("http://{}/readyz", one.address)).await.unwrap().text().await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&ready).unwrap()["range"], "0/2", "{ready}");
    let two = world.start("two", 63, 2);
    until("each has a process", || {
        let told = world.cluster();
        told.contains("ranges: 2, without a process: 0") && told.matches("  active").count() == 2
    })
    .await;
    let metrics = async || reqwest::get(format!("http://{}/metrics", one.address)).await.unwrap().text().await.unwrap();
    let shown = async |free: &str| {
        while !metrics().await.lines().any(|line| line == free) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, shown("staffai_ranges_free 0")).await.unwrap();
    let log = log(&world.folder("one"));
    let ready = log.lines().find(|line| line.contains("gateway.ready")).unwrap();
    assert!(ready.contains("\"range\":\"0/2\""), "{ready}");
    two.signal(Signal::KILL);
    one.signal(Signal::STOP);
    until("they are shown", || {
        let told = world.cluster();
        told.contains("ranges: 2, without a process: 2") && told.contains("  1/2  no process")
    })
    .await;
    drop((one, two));
    world.end().await;
}
