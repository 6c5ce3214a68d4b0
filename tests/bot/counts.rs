//! The cost of a turn in reproducible counts: the bot as a process of its own with the real embedded store, and the
//! services on real sockets outside of it. The bounds are slightly above measured values, so that an increase fails.

use documents::process::DocumentReader;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ports::NoFaults;
use serde_json::{Value, json};
use staffai::app::assemble::Launch;
use staffai::app::configured::{Configured, Lookup};
use staffai::app::system::{SystemClock, SystemDice};
use staffai::app::{App, Ended};
use telemetry::{self, LogFormat, LogOptions, Redaction};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::ALLOCATOR;
use crate::model::{Act, End};
use crate::support::{SOON, Said, Setup, World, settings_of, story};

/// Idle time before counting, so that all writes and log lines of earlier turns are done.
const QUIET: Duration = Duration::from_millis(120);

/// The name of each count, and its bounds per turn: alone, in a burst, and with a slow model. The last has few turns,
/// so the store's work once a second falls on any of them.
const BOUNDS: [(&str, [f64; 3]); 9] = [
    ("allocations", [1_600.0, 1_100.0, 5_000.0]),
    ("actor messages", [24.0, 24.0, 28.0]),
    ("log lines", [3.2, 3.1, 4.0]),
    ("log writes", [2.5, 1.2, 5.0]),
    ("store commits", [3.2, 0.8, 5.0]),
    ("file writes", [40.0, 16.0, 120.0]),
    ("discord requests", [1.3, 1.5, 2.3]),
    ("discord connections", [0.2, 0.4, 0.3]),
    ("model connections", [0.2, 0.4, 0.3]),
];

#[test]
fn a_turn_costs_what_it_may() {
    story(async {
        let rig = Rig::begin().await;
        rig.world.crowd(50);
        let instant = Act::streams("It is noon.", 12, Duration::ZERO, End::Well);
        rig.world.model.always(instant.clone());
        rig.one_by_one(12, QUIET).await;
        rig.burst().await;
        let mut columns = Vec::new();
        columns.push(rig.cost_of(30, rig.one_by_one(30, QUIET)).await);
        columns.push(rig.cost_of(100, rig.burst()).await);
        let slow = Act::SaysAfter(Duration::from_millis(600), "It is noon.".into());
        rig.world.model.always(slow);
        columns.push(rig.cost_of(4, rig.one_by_one(4, QUIET)).await);
        println!("{:<24}{:>10}{:>10}{:>10}", "a turn", "alone", "burst", "slow");
        for (name, _) in BOUNDS {
            let [alone, burst, slow] = [0, 1, 2].map(|column: usize| columns[column][name]);
            println!("{name:<24}{alone:>10.2}{burst:>10.2}{slow:>10.2}");
        }
        for (name, most) in BOUNDS {
            for (column, most) in most.into_iter().enumerate() {
                let cost = columns[column][name];
                assert!(cost <= most, "{name}: {cost:.2} a turn, and {most} is the bound (column {column})");
            }
        }
    });
}

// === Outside of the bot ===

/// A world whose bot is a process that reports its counts.
struct Rig {
    world: World,
    bot: Counted,
    discord: Way,
    model: Way,
}

impl Rig {
    async fn begin() -> Self {
        let world = World::without_bot(Setup::new()).await;
        let discord = Way::to(&world.service.api_url()).await;
        let model = Way::to(world.model.url()).await;
        let env = world.variables(&[("DISCORD_API_URL", &discord.url), ("LITELLM_API_URL", &model.url)]);
        let bot = Counted::start(&env);
        let connected = tokio::time::timeout(SOON, world.service.connected(0)).await;
        assert!(connected.is_ok(), "the bot did not connect");
        Self { world, bot, discord, model }
    }

    async fn one_by_one(&self, many: usize, pause: Duration) {
        for _ in 0..many {
            let said = self.world.says("Ada", "general", "@staffai what time is it?");
            self.world.words_to(said).await;
            tokio::time::sleep(pause).await;
        }
    }

    async fn burst(&self) {
        let said: Vec<Said> = ["general", "random"]
            .into_iter()
            .flat_map(|channel| (0..50).map(move |number| (channel, format!("member-{number}"))))
            .map(|(channel, member)| self.world.says(&member, channel, "@staffai what time is it?"))
            .collect();
        self.world.all_answered(&said, SOON).await;
    }

    /// Returns the cost per turn of this many turns.
    async fn cost_of(&self, turns: u32, made: impl Future<Output = ()>) -> BTreeMap<&'static str, f64> {
        tokio::time::sleep(QUIET).await;
        let before = self.counts(&self.bot.reset()).await;
        self.bot.reset();
        made.await;
        tokio::time::sleep(QUIET).await;
        let after = self.counts(&self.bot.reset()).await;
        let of = |(name, count): (&&'static str, &f64)| {
            // The process resets its own counts each time; all others only grow.
            let since = if OWN.contains(name) { 0.0 } else { before[*name] };
            (*name, (count - since) / f64::from(turns))
        };
        after.iter().map(of).collect()
    }

    async fn counts(&self, own: &Value) -> BTreeMap<&'static str, f64> {
        let requests: u64 = self.world.service.stats().by_route.values().sum();
        let page = self.world.get("/metrics").await.1;
        let commits = metric(&page, "staffai_store_commit_seconds_count");
        let handled = handled(&self.world.json("/api/v1/tree").await.1);
        let mut counts: BTreeMap<&'static str, f64> =
            OWN.into_iter().map(|name| (name, own[name].as_f64().unwrap())).collect();
        counts.extend([
            ("actor messages", handled),
            ("store commits", commits),
            ("discord requests", count(requests)),
            ("discord connections", self.discord.taken()),
            ("model connections", self.model.taken()),
        ]);
        counts
    }
}

/// The counts of the process since they were last requested.
const OWN: [&str; 4] = ["allocations", "log lines", "log writes", "file writes"];

#[expect(clippy::cast_precision_loss, reason = "counts of a test are far below 2^52")]
fn count(number: u64) -> f64 {
    number as f64
}

/// Returns the sum of a metric over its labels.
fn metric(page: &str, name: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.strip_prefix(name));
    lines.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// Returns the number of messages that all actors handled.
fn handled(node: &Value) -> f64 {
    let children = node["children"].as_array().into_iter().flatten().map(handled).sum::<f64>();
    node["handled"].as_f64().unwrap_or_default() + children
}

/// A forwarded port to a service, on which connections are counted.
struct Way {
    url: String,
    taken: Arc<AtomicU64>,
}

impl Way {
    async fn to(url: &str) -> Self {
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap_or((&url[7..], ""));
        let there: SocketAddr = host.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/{path}", listener.local_addr().unwrap());
        let taken = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&taken);
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut to = TcpStream::connect(there).await?;
                    from.set_nodelay(true)?;
                    to.set_nodelay(true)?;
                    tokio::io::copy_bidirectional(&mut from, &mut to).await
                });
            }
        });
        Self { url, taken }
    }

    fn taken(&self) -> f64 {
        count(self.taken.load(Ordering::Relaxed))
    }
}

/// The bot's process; killed when dropped.
struct Counted {
    child: Child,
    asks: parking_lot::Mutex<ChildStdin>,
    tells: parking_lot::Mutex<Receiver<Value>>,
}

impl Counted {
    fn start(env: &BTreeMap<String, String>) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "counts::child_that_runs_the_bot"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut asks = child.stdin.take().unwrap();
        writeln!(asks, "{}", json!(env)).unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, tells) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(counts) = line.strip_prefix("counts ") {
                    // The requester may be gone.
                    let _ = tell.send(serde_json::from_str(counts).unwrap());
                }
            }
        });
        Self { child, asks: parking_lot::Mutex::new(asks), tells: parking_lot::Mutex::new(tells) }
    }

    /// Resets the counts and returns them.
    fn reset(&self) -> Value {
        writeln!(self.asks.lock(), "count").unwrap();
        self.tells.lock().recv_timeout(SOON).expect("the bot tells its counts")
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === The bot ===

/// Not a test: the bot in a process of its own, with its variables on standard input.
#[test]
#[ignore = "run by a_turn_costs_what_it_may"]
fn child_that_runs_the_bot() {
    let mut env = String::new();
    io::stdin().read_line(&mut env).unwrap();
    let Ok(env) = serde_json::from_str::<BTreeMap<String, String>>(&env) else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let log = Sink::default();
    let _guard = telemetry::init(LogOptions {
        filter: "info".to_owned(),
        format: LogFormat::Json,
        content: false,
        redact: Redaction::default(),
        out: Box::new(log.clone()),
        clock: Arc::new(SystemClock),
        kept: None,
        tally: Arc::default(),
    })
    .unwrap();
    let (stop, stopped) = oneshot::channel();
    std::thread::spawn(move || {
        let mut before = Tally::now(&log);
        for _ in io::stdin().lines().map_while(Result::ok) {
            let now = Tally::now(&log);
            println!("counts {}", now.since(&before));
            before = Tally::now(&log);
        }
        let _ = stop.send(());
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let metrics = telemetry::metrics::install().unwrap();
        let lookup: Lookup = Arc::new(|_| None);
        let launch = Launch {
            configured: Configured { settings: settings_of(&env), lookup, redaction: Redaction::default() },
            reread: None,
            alone: false,
            clock: Arc::new(SystemClock),
            dice: Arc::new(SystemDice),
            documents: Arc::new(DocumentReader::at(env!("CARGO_BIN_EXE_staffai"))),
            faults: Arc::new(NoFaults),
            observers: Vec::new(),
            metrics: Arc::new(move || metrics.render()),
            tally: Arc::default(),
            logged: Arc::new(telemetry::TurnLines::default()),
            stop: CancellationToken::new(),
        };
        let mut app = App::start(launch).await.unwrap_or_else(|error| panic!("{error}"));
        let ended = app.serve(async { drop(stopped.await) }).await;
        assert_eq!(ended, Ended::StopRequested);
        app.stop().await;
    });
}

/// The log's output: counts and discards everything except panics.
#[derive(Clone, Default)]
struct Sink {
    lines: Arc<AtomicU64>,
    writes: Arc<AtomicU64>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lines = bytes.split(|byte| *byte == b'\n').count() - 1;
        self.lines.fetch_add(lines as u64, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
        let text = String::from_utf8_lossy(bytes);
        text.lines().filter(|line| line.contains(r#""event":"panic""#)).for_each(|line| eprintln!("{line}"));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The counts of this process so far.
struct Tally {
    allocations: u64,
    lines: u64,
    log_writes: u64,
    file_writes: u64,
}

impl Tally {
    fn now(log: &Sink) -> Self {
        let stats = ALLOCATOR.stats();
        Self {
            allocations: (stats.allocations + stats.reallocations) as u64,
            lines: log.lines.load(Ordering::Relaxed),
            log_writes: log.writes.load(Ordering::Relaxed),
            file_writes: file_writes(),
        }
    }

    fn since(&self, before: &Self) -> Value {
        json!({
            "allocations": self.allocations - before.allocations,
            "log lines": self.lines - before.lines,
            "log writes": self.log_writes - before.log_writes,
            "file writes": self.file_writes - before.file_writes,
        })
    }
}

/// Returns the number of writes to files, without sockets.
fn file_writes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let writes = io.lines().find_map(|line| line.strip_prefix("syscw: "));
    writes.and_then(|number| number.parse().ok()).unwrap_or_default()
}
