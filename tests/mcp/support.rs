//! Servers for the tests, and helpers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use domain::tool::{CallError, Effect, ServerName, ToolRequest, ToolResult};
use mcp::McpServers;
use ports::tools::{Command, ConnectError, Endpoint, HttpProtocol, ServerEntry, Transport};
use ports::{ToolServer, ToolServers};
use serde_json::{Map, Value};

/// Timeout of connecting.
pub const CONNECT: Duration = Duration::from_secs(10);

/// Maximum memory in use after a result of 500 MB, with other tests in the same process, in bytes.
pub const GROWN_MAX: u64 = 128 * 1024 * 1024;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn servers() -> McpServers {
    // Another test may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    McpServers { guardian: Some(PathBuf::from(env!("CARGO_BIN_EXE_staffai"))), ..McpServers::default() }
}

fn entry(transport: Transport) -> ServerEntry {
    ServerEntry::new(ServerName::new("server"), transport)
}

pub fn stdio(program: &str, args: &[&str]) -> ServerEntry {
    stdio_with(program, args, &[])
}

#[expect(clippy::disallowed_methods, reason = "children need the path of the machine that the tests run on")]
pub fn stdio_with(program: &str, args: &[&str], env: &[(&str, &str)]) -> ServerEntry {
    let mut own = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap().into())]);
    own.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
    let args = args.iter().map(|arg| (*arg).into()).collect();
    entry(Transport::Stdio(Command { program: program.to_owned(), args, env: own, cwd: None }))
}

pub fn hostile(mode: &str) -> ServerEntry {
    hostile_with(mode, &[])
}

pub fn hostile_with(mode: &str, env: &[(&str, &str)]) -> ServerEntry {
    let script = root().join("tests/mcp/servers/hostile.py");
    stdio_with(&python("python3"), &[script.to_str().unwrap(), mode], env)
}

/// Returns a program of the tests' Python environment.
pub fn python(program: &str) -> String {
    installed(&format!(".venv-tests/bin/{program}"))
}

/// Returns a server from npm.
pub fn node(module: &str) -> String {
    installed(&format!(".node-tests/node_modules/{module}"))
}

/// Returns a program of the environment with older libraries.
pub fn older(program: &str) -> String {
    installed(&format!(".venv-servers/bin/{program}"))
}

fn installed(path: &str) -> String {
    let path = root().join(path);
    assert!(path.exists(), "{} is missing; ./test installs it", path.display());
    path.to_str().unwrap().to_owned()
}

pub fn endpoint(url: &str) -> Endpoint {
    Endpoint { url: url.to_owned(), protocol: HttpProtocol::Either, headers: BTreeMap::new(), allow_http: false }
}

pub fn http(endpoint: Endpoint) -> ServerEntry {
    entry(Transport::Http(endpoint))
}

pub async fn try_connect(entry: &ServerEntry) -> Result<Arc<dyn ToolServer>, ConnectError> {
    try_connect_within(entry, CONNECT).await
}

pub async fn try_connect_within(entry: &ServerEntry, within: Duration) -> Result<Arc<dyn ToolServer>, ConnectError> {
    servers().connect(entry, within).await
}

pub async fn connect(entry: &ServerEntry) -> Arc<dyn ToolServer> {
    try_connect(entry).await.unwrap()
}

pub fn request(name: &str, arguments: Value) -> ToolRequest {
    let arguments: Map<String, Value> = serde_json::from_value(arguments).unwrap();
    ToolRequest::new(name, arguments, Effect::Changes, Duration::from_secs(30))
}

pub async fn call(server: &Arc<dyn ToolServer>, name: &str, arguments: Value) -> Result<ToolResult, CallError> {
    server.call(&request(name, arguments), None).await
}

pub async fn text(server: &Arc<dyn ToolServer>, name: &str, arguments: Value) -> String {
    call(server, name, arguments).await.unwrap().to_text()
}

pub async fn names(server: &Arc<dyn ToolServer>) -> Vec<String> {
    server.list().await.unwrap().tools.into_iter().map(|tool| tool.name.to_string()).collect()
}

/// Returns the resident memory of this process, in bytes.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Returns the CPU time of this process so far, in ticks of 10 ms.
pub fn cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let mut fields = stat.rsplit(") ").next().unwrap().split(' ').skip(11);
    let mut ticks = || fields.next().unwrap().parse::<u64>().unwrap();
    ticks() + ticks()
}

/// Returns the CPU time since then.
pub fn cpu_since(before: u64) -> Duration {
    Duration::from_millis((cpu() - before) * 10)
}

/// Waits until a condition holds, or fails the test.
pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = tokio::time::Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(tokio::time::Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// True if a process runs; zombies do not count.
pub fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).is_some_and(|state| state != 'Z')
}

/// The processes of one server, in any group and with any parent.
pub struct Mark(String);

impl Mark {
    /// The variable that marks a server and all its children.
    pub const VARIABLE: &str = "TEST_MARK";

    /// Creates a mark without processes.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Marks the child that an entry starts.
    pub fn on(entry: &mut ServerEntry) -> Self {
        let mark = Self::new();
        let Transport::Stdio(command) = &mut entry.transport else { panic!("only children are marked") };
        command.env.insert(Self::VARIABLE.to_owned(), mark.0.clone().into());
        mark
    }

    pub fn value(&self) -> &str {
        &self.0
    }

    pub fn running(&self) -> Vec<u32> {
        let all =
            std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mark = format!("{}={}", Self::VARIABLE, self.0);
        let marked = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        all.filter(marked).filter(|pid| runs(*pid)).collect()
    }

    /// Waits until none is running.
    pub async fn gone(&self) {
        eventually("all processes of the server end", || self.running().is_empty()).await;
    }
}

/// A program that serves HTTP on a local port; killed when dropped.
pub struct Served {
    pub port: u16,
    child: tokio::process::Child,
}

impl Served {
    /// Starts it; `start` returns its command for a port.
    pub async fn start(start: impl Fn(u16) -> tokio::process::Command) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start_on(port, start).await
    }

    pub async fn start_on(port: u16, start: impl Fn(u16) -> tokio::process::Command) -> Self {
        let quiet = || std::process::Stdio::null();
        let child = start(port).stdin(quiet()).stdout(quiet()).stderr(quiet()).kill_on_drop(true).spawn().unwrap();
        let until = tokio::time::Instant::now() + Duration::from_secs(30);
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(tokio::time::Instant::now() < until, "nothing listens on {port}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self { port, child }
    }

    /// Starts the server `everything` with this transport.
    pub async fn everything(transport: &str) -> Self {
        Self::start(|port| Self::everything_on(port, transport)).await
    }

    pub fn everything_on(port: u16, transport: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("node");
        let module = node("@modelcontextprotocol/server-everything/dist/index.js");
        command.args([&module, transport]).env("PORT", port.to_string());
        command
    }

    /// Kills it with SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Starts the server of `FastMCP` with this transport.
    pub async fn fast(transport: &str) -> Self {
        let (python, script) = (python("python"), root().join("tests/mcp/servers/fast.py"));
        Self::start(|port| {
            let mut command = tokio::process::Command::new(&python);
            command.arg(&script).args([transport, &port.to_string()]);
            command
        })
        .await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}
