//! Configuration and description of tool servers, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use domain::hex::hex;
use domain::tool::catalogue::Offer;
use domain::tool::reuse::Reuse;
use domain::tool::{ServerName, Tool, ToolKind};

/// One configured tool server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerEntry {
    /// Its name, unique among all servers.
    pub name: ServerName,
    /// The transport.
    pub transport: Transport,
    /// The timeout of one call. `None`: from the settings.
    pub timeout: Option<Duration>,
    /// The timeout of its process start. `None`: the default.
    pub start_timeout: Option<Duration>,
    /// Names of the tools offered. Empty: all.
    pub allowed_tools: Vec<String>,
    /// Names of tools not offered, even if allowed.
    pub denied_tools: Vec<String>,
    /// The operator's description.
    pub description: Option<String>,
    /// True if each call requires approval.
    pub always_ask: bool,
    /// The operator's statement about side effects. `None`: the tools' annotations decide.
    pub side_effects: Option<bool>,
    /// True if the tools' own annotations are trusted.
    pub trusted: bool,
    /// The kind of work that its tools do.
    pub kind: ToolKind,
    /// The times for which its results may be reused.
    pub reuse: Reuse,
}

impl ServerEntry {
    /// Creates an entry with default values.
    #[must_use]
    pub fn new(name: ServerName, transport: Transport) -> Self {
        Self {
            name,
            transport,
            timeout: None,
            start_timeout: None,
            allowed_tools: Vec::new(),
            denied_tools: Vec::new(),
            description: None,
            always_ask: false,
            side_effects: None,
            trusted: false,
            kind: ToolKind::default(),
            reuse: Reuse::default(),
        }
    }

    /// Returns the timeout of one connection attempt. The start of a process may include its installation.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        match self.transport {
            Transport::Stdio(_) => self.start_timeout.unwrap_or(START_TIMEOUT),
            Transport::Http(_) | Transport::Provider => CONNECT_TIMEOUT,
        }
    }

    /// Returns the longest time of one connection attempt, including the extension for a process whose installation
    /// makes progress.
    #[must_use]
    pub fn connect_bound(&self) -> Duration {
        match self.transport {
            Transport::Stdio(_) => self.connect_timeout() * START_LONGEST,
            Transport::Http(_) | Transport::Provider => CONNECT_TIMEOUT,
        }
    }

    /// Returns the offer of these tools, with their trust.
    #[must_use]
    pub fn offer(&self, tools: Vec<Arc<Tool>>) -> Offer {
        Offer {
            tools,
            allowed: self.allowed_tools.clone(),
            side_effects: self.side_effects,
            trusted: self.trusted,
            asks: self.always_ask,
            operators: Vec::new(),
            about: self.description.as_deref().map(Arc::from),
            origin: self.fingerprint().into(),
            announced: self.transport == Transport::Provider,
        }
    }

    /// Returns a hash that identifies the target: each program or address has another one. It reveals nothing of it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(text.as_bytes());
        };
        match &self.transport {
            Transport::Stdio(command) => {
                part(&command.program);
                command.args.iter().for_each(|arg| part(arg.expose_secret()));
                part(&command.cwd.as_ref().map_or_else(String::new, |cwd| cwd.display().to_string()));
            }
            Transport::Http(endpoint) => part(&endpoint.url),
            Transport::Provider => part("provider"),
        }
        hex(&hash.finalize()[..FINGERPRINT_BYTES])
    }
}

/// The default timeout of a process start: package runners such as npx and uvx install the server first.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The largest multiple of its timeout that a start may take while it makes progress.
pub const START_LONGEST: u32 = 5;
/// The timeout of a connection to an address.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of hash bytes in a fingerprint.
const FINGERPRINT_BYTES: usize = 8;

/// All tool servers of a configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerEntries {
    /// Usable entries, by name.
    pub entries: Vec<ServerEntry>,
    /// Unusable entries.
    pub off: Vec<ServerOff>,
    /// Problems of entries that do not disable them.
    pub warnings: Vec<String>,
}

/// A tool server that is disabled or misconfigured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOff {
    /// Its name.
    pub name: ServerName,
    /// The mistake in its entry and the fix. `None` if the operator disabled it.
    pub mistake: Option<String>,
}

/// The transport to a tool server.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A child process, over standard input and output.
    Stdio(Command),
    /// An HTTP address.
    Http(Endpoint),
    /// A process that announced itself, over the connection of its announcement.
    Provider,
}

/// A child process.
#[derive(Clone)]
pub struct Command {
    /// The program: a path, or a name that is searched in `PATH`.
    pub program: String,
    /// Its arguments, which may hold secrets.
    pub args: Vec<SecretString>,
    /// Its complete environment.
    pub env: BTreeMap<String, SecretString>,
    /// Its working directory. `None`: that of the bot.
    pub cwd: Option<PathBuf>,
}

/// An address of a server.
#[derive(Clone)]
pub struct Endpoint {
    /// The address, without credentials.
    pub url: String,
    /// The variant of the protocol.
    pub protocol: HttpProtocol,
    /// Headers of each request, sent only to this origin.
    pub headers: BTreeMap<String, SecretString>,
    /// True if unencrypted connections to other machines are allowed.
    pub allow_http: bool,
}

/// The variants of the protocol over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpProtocol {
    /// Streamable HTTP, or SSE if the server refuses that with a 4xx status.
    Either,
    /// Streamable HTTP.
    Streamable,
    /// HTTP with SSE, from the first revision of the protocol.
    Sse,
}

impl PartialEq for Command {
    fn eq(&self, other: &Self) -> bool {
        let args = |command: &Self| command.args.iter().map(|arg| arg.expose_secret().to_owned()).collect::<Vec<_>>();
        (&self.program, &self.cwd) == (&other.program, &other.cwd)
            && args(self) == args(other)
            && same_secrets(&self.env, &other.env)
    }
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, self.protocol, self.allow_http) == (&other.url, other.protocol, other.allow_http)
            && same_secrets(&self.headers, &other.headers)
    }
}

fn same_secrets(one: &BTreeMap<String, SecretString>, other: &BTreeMap<String, SecretString>) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| one.0 == other.0 && one.1.expose_secret() == other.1.expose_secret())
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url).field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

/// The server's description of itself, from the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The protocol revision in use.
    pub protocol: String,
    /// True if it announces changes of its tool list.
    pub announces_changes: bool,
}

/// All tools of a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    /// The tools that its entry allows, in the server's order.
    pub tools: Vec<Tool>,
    /// Omitted tools with reasons, one line each.
    pub warnings: Vec<String>,
}

/// The progress of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The amount done, in the server's own unit.
    pub done: f64,
    /// The total amount. `None` if unknown.
    pub total: Option<f64>,
    /// The server's message, one line.
    pub message: Option<String>,
}

/// The error of a connection attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {fix}")]
pub struct ConnectError {
    /// The kind of error.
    pub kind: ConnectErrorKind,
    /// The description; one line, capped, never a secret.
    pub message: String,
    /// The fix.
    pub fix: String,
}

/// The kind of a connection error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectErrorKind {
    /// The program does not exist.
    CommandNotFound,
    /// The program or its working directory cannot be used.
    NotStarted,
    /// The program exited before the handshake.
    Exited,
    /// The address is invalid or not allowed.
    InvalidAddress,
    /// Nothing responds at the address.
    Unreachable,
    /// It redirected to another origin, which is not followed.
    Redirected,
    /// The credentials were not accepted (401).
    Unauthorized,
    /// The credentials do not suffice (403).
    Forbidden,
    /// The path does not exist (404, 405, 410).
    NotFound,
    /// The server limits the request rate (429).
    RateLimited,
    /// The server failed (5xx).
    Failed,
    /// The server does not speak the protocol.
    NotMcp,
    /// The attempt timed out.
    Timeout,
}

impl ConnectErrorKind {
    /// Returns the log label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CommandNotFound => "command_not_found",
            Self::NotStarted => "not_started",
            Self::Exited => "exited",
            Self::InvalidAddress => "invalid_address",
            Self::Unreachable => "unreachable",
            Self::Redirected => "redirected",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::RateLimited => "rate_limited",
            Self::Failed => "failed",
            Self::NotMcp => "not_mcp",
            Self::Timeout => "timeout",
        }
    }
}

/// Announcements of processes that provide tools.
#[async_trait]
pub trait ToolProviders: Send + Sync {
    /// Listens until the connection is lost, and returns the reason. Calls `announced` with all providers, as entries
    /// of tool servers, once it listens and after each change. Dropping the future closes the connection.
    async fn listen(&self, announced: AnnouncedSink) -> String;
}

/// The receiver of the current tool providers. Called between two reads, so it must be fast.
pub type AnnouncedSink = Arc<dyn Fn(Vec<ServerEntry>) + Send + Sync>;
