//! The processes under test, and the kernel's counters of them.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::arithmetic::as_f64;
use crate::rig::Rig;

/// Clock ticks per second in /proc; the same on all Linux systems.
const TICKS: f64 = 100.0;
/// Timeout until a process has a session.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout of a graceful shutdown.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that the bot holds first words back.
pub const HELD_BACK: Duration = Duration::from_millis(300);

/// The peer's program.
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/turns/peer.py");

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

static THREADS: OnceLock<String> = OnceLock::new();

/// Number of programs with a key. The limit of each is below the total.
pub const KEYS: usize = 16;

/// Returns the key of a program.
pub fn key(number: usize) -> String {
    format!("sk-rig-{}", number % KEYS)
}

/// The kind of program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The program itself, as shipped.
    Us,
    /// The bare relay.
    Floor,
    /// A bot on discord.py.
    Peer,
}

/// The log level and output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// Warnings, discarded.
    Warnings,
    /// The default level, discarded.
    Default,
    /// The default level, read by the benchmark.
    Heard,
}

/// Another process of this program, with its address. Killed when dropped.
pub struct Helper {
    child: Child,
    pub address: String,
}

impl Helper {
    /// Starts it with these arguments, on the core of the program under test if there are several.
    pub fn start(on_core: bool, words: &[&str]) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = if on_core { Command::new("taskset") } else { Command::new(&program) };
        if on_core {
            command.args(["-c", "0"]).arg(&program);
        }
        let command = command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{words:?} cannot be started: {error}"))?;
        let mut address = String::new();
        let out = child.stdout.take().ok_or("its standard output is no pipe")?;
        BufReader::new(out).read_line(&mut address).map_err(|error| error.to_string())?;
        Ok(Self { child, address: address.trim().to_owned() })
    }

    /// Returns the CPU time so far, in seconds.
    pub fn cpu(&self) -> f64 {
        cpu_of(self.child.id())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process under test with a rig of its own.
pub struct Bot {
    pub rig: Arc<Rig>,
    /// The address of its HTTP interface.
    pub http: SocketAddr,
    /// The time of its last start.
    pub executed: Instant,
    kind: Kind,
    child: Child,
    data: TempDir,
    log: Log,
    on_core: bool,
}

impl Bot {
    /// Starts one and waits for its session. It logs warnings only.
    pub async fn start(kind: Kind, on_core: bool) -> Result<Self, String> {
        let bot = Self::launch(kind, on_core, Log::Warnings).await?;
        bot.up().await?;
        Ok(bot)
    }

    pub async fn launch(kind: Kind, on_core: bool, log: Log) -> Result<Self, String> {
        let rig = Rig::start().await.map_err(|error| format!("the rig cannot listen: {error}"))?;
        let data = TempDir::new().map_err(|error| error.to_string())?;
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let http = free.map_err(|error| error.to_string())?;
        let executed = Instant::now();
        let child = spawn(kind, &rig, (data.path(), http), log, on_core)?;
        Ok(Self { rig, http, executed, kind, child, data, log, on_core })
    }

    /// Waits for its session.
    pub async fn up(&self) -> Result<(), String> {
        if self.rig.until(START_TIMEOUT, |state| !state.readied.is_empty()).await {
            return Ok(());
        }
        Err(format!("no session within {} s", START_TIMEOUT.as_secs()))
    }

    /// Resolves at a log line with this text; for processes whose log is read.
    pub fn when_logged(&mut self, text: &'static str) -> oneshot::Receiver<Instant> {
        let (tell, told) = oneshot::channel();
        let out = self.child.stdout.take();
        std::thread::spawn(move || {
            let mut tell = Some(tell);
            for line in BufReader::new(out.expect("standard output is a pipe")).lines().map_while(Result::ok) {
                if line.contains(text)
                    && let Some(tell) = tell.take()
                {
                    // The scene may be over.
                    let _ = tell.send(Instant::now());
                }
            }
        });
        told
    }

    /// Kills it, and starts it again on the same data.
    pub fn kill_and_start(&mut self) -> Result<(), String> {
        self.end();
        self.executed = Instant::now();
        self.child = spawn(self.kind, &self.rig, (self.data.path(), self.http), self.log, self.on_core)?;
        Ok(())
    }

    /// Returns the CPU time so far, in seconds.
    pub fn cpu(&self) -> f64 {
        cpu_of(self.child.id())
    }

    /// Returns the resident memory, in bytes.
    pub fn rss(&self) -> f64 {
        self.memory("VmRSS:")
    }

    /// Returns the resident memory without mapped files, in bytes.
    pub fn own_memory(&self) -> f64 {
        self.memory("RssAnon:")
    }

    fn memory(&self, key: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
    }

    /// Returns the size of its data directory, in bytes.
    pub fn stored(&self) -> f64 {
        let entries = std::fs::read_dir(self.data.path()).into_iter().flatten().flatten();
        let sizes = entries.filter_map(|entry| entry.metadata().ok()).map(|about| about.len());
        sizes.map(as_f64).sum()
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Bot {
    /// Stops it gracefully: an instrumented build writes its profile at the end.
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let asked = Instant::now();
        while asked.elapsed() < END_TIMEOUT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end();
    }
}

/// Returns the CPU time of this process, which is the rig, in seconds.
pub fn own_cpu() -> f64 {
    cpu_of(std::process::id())
}

/// Returns the time stolen by the host, and the total time, in ticks over all cores.
pub fn stolen() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    (ticks.get(7).copied().unwrap_or(0.0), ticks.iter().take(8).sum())
}

/// Returns the program under test: the named one, or that of this build.
pub fn program() -> PathBuf {
    PROGRAM.get().cloned().unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_staffai")))
}

/// Sets another build as the program under test, before any process starts.
///
/// # Errors
/// The file does not exist, or one was set before.
pub fn test_program(path: &str) -> Result<(), String> {
    let path = std::fs::canonicalize(path).map_err(|error| format!("{path}: {error}"))?;
    PROGRAM.set(path).map_err(|_| "name one program".to_owned())
}

/// Sets `runtime.threads` of the program under test, before any process starts.
///
/// # Errors
/// It was set before.
pub fn on_threads(threads: String) -> Result<(), String> {
    THREADS.set(threads).map_err(|_| "name one number of threads".to_owned())
}

/// Pins this process and its children to one core. Returns false if that fails.
pub fn keep_to(core: &str) -> bool {
    let pid = std::process::id().to_string();
    let done = Command::new("taskset").args(["-cp", core, &pid]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// Returns the CPU time of a process so far, in seconds.
pub fn cpu_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before the last bracket may contain anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS
}

/// Returns the interpreter with the peer's libraries, as the tests install it.
///
/// # Errors
/// It does not exist.
pub fn peer_program() -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv-tests/bin/python3");
    if path.exists() { Ok(path) } else { Err("not measured: ./test installs its libraries".to_owned()) }
}

fn spawn(kind: Kind, rig: &Rig, (data, http): (&Path, SocketAddr), log: Log, on_core: bool) -> Result<Child, String> {
    let program = match kind {
        Kind::Us => program(),
        Kind::Floor => std::env::current_exe().map_err(|error| error.to_string())?,
        Kind::Peer => peer_program()?,
    };
    let mut command = if on_core { Command::new("taskset") } else { Command::new(&program) };
    if on_core {
        command.args(["-c", "0"]).arg(&program);
    }
    match kind {
        Kind::Us => command.arg("run"),
        Kind::Floor => command.arg("--floor").arg(rig.api.to_string()).arg(rig.gateway.to_string()),
        Kind::Peer => command.arg(PEER).arg(rig.api.to_string()).arg(rig.gateway.to_string()),
    };
    // The model supports tools together with a response format, so a plain message is one call.
    let models = data.join("rig-models.json");
    std::fs::write(&models, r#"{"families": [{"pattern": "rig", "schema_with_tools": true}], "models": {}}"#)
        .map_err(|error| error.to_string())?;
    let level = if log == Log::Warnings { "WARN" } else { "INFO" };
    let out = if log == Log::Heard { Stdio::piped() } else { Stdio::null() };
    command
        .current_dir(data)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("DISCORD_BOT_TOKEN", "rig")
        .env("DISCORD_API_URL", format!("http://{}", rig.api))
        .env("DISCORD_REQUESTS_PER_SECOND", "0")
        .env("LITELLM_API_URL", format!("http://{}", rig.api))
        .env("LITELLM_MODEL", "rig")
        .env("STAFFAI_MODELS", &models)
        .env("STAFFAI_DATA_DIR", data)
        .env("STAFFAI_HTTP_ADDR", http.to_string())
        .env("STAFFAI_API_KEYS", (0..KEYS).map(key).collect::<Vec<_>>().join(","))
        // A window holds at most a thousand. The few regular members ask as often as thousands would: in a window of
        // usual length each would have thousands of turns, beyond any limit. In a window of one second they have as
        // many as a member has in a minute.
        .env("RATE_LIMIT_WINDOW_SECONDS", "1")
        .env("RATE_LIMIT_COUNT", "1000")
        .env("TOKEN_RATE_LIMIT_COUNT", "1000000000")
        .env("RESPONSE_CHANCE", "0")
        .env("STAFFAI_STREAMING__HOLD", format!("{}ms", HELD_BACK.as_millis()))
        .env("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0")
        .env("LOG_LEVEL", level)
        .envs(THREADS.get().map(|threads| ("STAFFAI_RUNTIME__THREADS", threads)))
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::inherit());
    command.spawn().map_err(|error| format!("{} cannot be started: {error}", program.display()))
}
