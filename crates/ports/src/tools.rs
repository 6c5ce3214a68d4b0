//! How tool servers are configured, reached and described, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use domain::hex::hex;
use domain::tool::catalogue::Offer;
use domain::tool::{ServerName, Tool, ToolKind};

/// One configured tool server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerEntry {
    /// Its name, unique among all servers.
    pub name: ServerName,
    /// How it is reached.
    pub transport: Transport,
    /// Time one call may take; none leaves it to the settings.
    pub timeout: Option<Duration>,
    /// Time that the start of its process may take; none for the default.
    pub start_timeout: Option<Duration>,
    /// Own names of the tools that are offered; empty offers all.
    pub allowed_tools: Vec<String>,
    /// Own names of tools that are not offered, whatever is allowed.
    pub denied_tools: Vec<String>,
    /// What the operator says it is for.
    pub description: Option<String>,
    /// A person is asked before each call.
    pub always_ask: bool,
    /// What the operator says of side effects: none leaves it to the tools' annotations.
    pub side_effects: Option<bool>,
    /// The tools' own annotations are believed.
    pub trusted: bool,
    /// What kind of work its tools do.
    pub kind: ToolKind,
}

impl ServerEntry {
    /// A server of which nothing else is said.
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
        }
    }

    /// The timeout of one attempt to connect. The start of a process may include its installation.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        match self.transport {
            Transport::Stdio(_) => self.start_timeout.unwrap_or(START_TIMEOUT),
            Transport::Http(_) | Transport::Provider => CONNECT_TIMEOUT,
        }
    }

    /// The bound of one attempt to connect, with all that a process may take longer while its installation makes progress.
    #[must_use]
    pub fn connect_bound(&self) -> Duration {
        match self.transport {
            Transport::Stdio(_) => self.connect_timeout() * START_LONGEST,
            Transport::Http(_) | Transport::Provider => CONNECT_TIMEOUT,
        }
    }

    /// What of these tools of the server is offered, and how far it is trusted.
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

    /// Names what the entry leads to: another program or address has another one. Nothing in it can be read back.
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

/// The default timeout of the start of a process: package runners such as npx and uvx install the server first.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The most times of its timeout that a start may take while it makes progress.
pub const START_LONGEST: u32 = 5;
/// The timeout of a connection to an address.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a hash that tell entries apart.
const FINGERPRINT_BYTES: usize = 8;

/// All tool servers of a configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerEntries {
    /// Those that can be tried, by name.
    pub entries: Vec<ServerEntry>,
    /// Those that cannot.
    pub off: Vec<ServerOff>,
    /// What is odd about entries but does not stop them.
    pub warnings: Vec<String>,
}

/// A tool server whose entry cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOff {
    /// Its name.
    pub name: ServerName,
    /// What is wrong with its entry and what would be right; none when the operator switched it off.
    pub mistake: Option<String>,
}

/// How a tool server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A child process that speaks on its standard input and output.
    Stdio(Command),
    /// An address.
    Http(Endpoint),
    /// A process that announced itself, and is reached the way that it did.
    Provider,
}

/// A child process.
#[derive(Clone)]
pub struct Command {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: String,
    /// Its arguments, which may hold secrets.
    pub args: Vec<SecretString>,
    /// Its whole environment.
    pub env: BTreeMap<String, SecretString>,
    /// Its working directory; none for ours.
    pub cwd: Option<PathBuf>,
}

/// An address of a server.
#[derive(Clone)]
pub struct Endpoint {
    /// The address, without a login in it.
    pub url: String,
    /// The form of the protocol.
    pub protocol: HttpProtocol,
    /// Headers of each request, sent to this origin alone.
    pub headers: BTreeMap<String, SecretString>,
    /// Unencrypted connections to other machines are allowed.
    pub allow_http: bool,
}

/// The forms of the protocol over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpProtocol {
    /// Streamable HTTP, and SSE when the server refuses that with a status of the kind 4xx.
    Either,
    /// Streamable HTTP.
    Streamable,
    /// HTTP with SSE, of the protocol's first revision.
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

/// What a server said of itself when it was connected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerInfo {
    /// Its own name and version.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The revision of the protocol that is spoken with it.
    pub protocol: String,
    /// It tells when its list of tools changes.
    pub announces_changes: bool,
}

/// All tools of a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    /// The tools in the server's order, those that its entry allows.
    pub tools: Vec<Tool>,
    /// What was left out and why, one line each.
    pub warnings: Vec<String>,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How much is done, in the server's own measure.
    pub done: f64,
    /// How much there is to do; none when that is unknown.
    pub total: Option<f64>,
    /// The server's words, one line; none when there are none.
    pub message: Option<String>,
}

/// Why there is no connection to a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {fix}")]
pub struct ConnectError {
    /// What kind of failure it was.
    pub kind: ConnectErrorKind,
    /// What happened; one line, capped, never a secret.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

/// What kind of failure a connection met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectErrorKind {
    /// There is no such program.
    CommandNotFound,
    /// The program or its working directory cannot be used.
    NotStarted,
    /// The program ended before it spoke the protocol.
    Exited,
    /// The address is none, or not allowed.
    InvalidAddress,
    /// Nothing answers at the address.
    Unreachable,
    /// It answered with a redirect, which is not followed to another origin.
    Redirected,
    /// The credentials were not accepted (401).
    Unauthorized,
    /// The credentials are not enough (403).
    Forbidden,
    /// There is nothing at this path (404, 405, 410).
    NotFound,
    /// It takes no more requests for now (429).
    RateLimited,
    /// The server failed (5xx).
    Failed,
    /// What answers does not speak the protocol.
    NotMcp,
    /// It took too long.
    Timeout,
}

impl ConnectErrorKind {
    /// The label in logs.
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
