//! Sections about the world outside: Discord, the model, Redis, the disk, the log.
//!
//! What each key means to an operator is told in `config/default.toml`, which also has the defaults.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::address::escape;
use super::{defaults, read};
use domain::host::is_loopback;
use domain::proxies::Network;

/// `[discord]`: the account, where the service is, and what it allows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discord {
    /// The bot's token; `None` when not set.
    #[serde(deserialize_with = "read::secret")]
    pub token: Option<SecretString>,
    /// Base address without a slash at its end.
    #[serde(deserialize_with = "read::web_address")]
    pub api_url: String,
    /// Whether `http` and `ws` may be used to other machines.
    #[serde(deserialize_with = "read::flag")]
    pub allow_insecure: bool,
    /// How many shards the bot has in total.
    #[serde(deserialize_with = "read::word")]
    pub shards: Shards,
    /// Whether direct messages are answered.
    #[serde(deserialize_with = "read::word")]
    pub direct_messages: DirectMessages,
    /// Ids of the guilds that are served; empty serves all.
    #[serde(deserialize_with = "read::texts")]
    pub guilds: Vec<String>,
    /// Ids of accounts that may run the commands of operators, in any guild.
    #[serde(deserialize_with = "read::texts")]
    pub operators: Vec<String>,
    /// Whom answers may notify.
    #[serde(deserialize_with = "allowed_mentions")]
    pub allowed_mentions: AllowedMentions,
    /// REST budget a second; 0 keeps none of our own.
    #[serde(deserialize_with = "read::number")]
    pub requests_per_second: u32,
}

impl Discord {
    /// What is wrong with the form of the token, and the fix; none when it has the form of one, or when there is no token. What
    /// another service than the default one takes is its own business, but it gets no prefix and no blanks either.
    #[must_use]
    pub fn token_mistake(&self) -> Option<&'static str> {
        let token = self.token.as_ref()?.expose_secret();
        let mut words = token.split_whitespace();
        let first = words.next()?;
        if words.next().is_some() {
            let prefixed = first.eq_ignore_ascii_case("bot");
            return Some(if prefixed {
                "begins with \"Bot\", which is added when it is sent; set the token alone"
            } else {
                "has a blank in it; copy the token alone"
            });
        }
        let parts: Vec<usize> = token.split('.').map(str::len).collect();
        let has_form = parts.len() == 3 && parts.iter().all(|length| *length > 0);
        let usual =
            defaults::entries().iter().any(|entry| entry.key == "discord.api_url" && entry.text() == self.api_url);
        (usual && !has_form).then_some(
            "is no bot token, which has three parts with dots between; copy it from discord developer portal > Bot > Reset Token",
        )
    }

    /// Whether a connection without TLS to this host is allowed.
    #[must_use]
    pub fn permits_insecure(&self, host: &str) -> bool {
        self.allow_insecure || is_loopback(host)
    }
}

/// How many gateway shards the bot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shards {
    /// As many as Discord advises.
    Auto,
    /// Exactly this many, 1 or more.
    Count(u32),
}

impl FromStr for Shards {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        if word == "auto" {
            return Ok(Self::Auto);
        }
        match word.parse() {
            Ok(0) | Err(_) => Err("auto, or a number of shards from 1"),
            Ok(count) => Ok(Self::Count(count)),
        }
    }
}

/// What happens to direct messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectMessages {
    /// They are dropped without a trace.
    Ignore,
    /// They are answered as if the bot had been mentioned.
    Answer,
}

impl FromStr for DirectMessages {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "ignore" => Ok(Self::Ignore),
            "answer" => Ok(Self::Answer),
            _ => Err("ignore or answer"),
        }
    }
}

/// Whom answers may notify; no one by default. Roles and everyone cannot be allowed: a model writes the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowedMentions {
    /// The member who is answered.
    pub replied_user: bool,
    /// Members whom the text mentions.
    pub users: bool,
}

fn allowed_mentions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AllowedMentions, D::Error> {
    let words = read::texts(deserializer)?;
    let mut allowed = AllowedMentions::default();
    for word in words {
        match word.to_lowercase().as_str() {
            "replied_user" => allowed.replied_user = true,
            "users" => allowed.users = true,
            _ => return Err(Error::custom("must be a comma list of replied_user and users, or empty")),
        }
    }
    Ok(allowed)
}

/// `[llm]`: the model endpoint and the bounds of a call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llm {
    /// The endpoint as configured; calls use [`Llm::base_url`].
    #[serde(deserialize_with = "read::web_address")]
    pub url: String,
    /// The key sent to the endpoint; `None` sends none.
    #[serde(deserialize_with = "read::secret")]
    pub key: Option<SecretString>,
    /// Key of the default model row, or the name of a model; `None` when not set.
    #[serde(deserialize_with = "read::text")]
    pub model: Option<String>,
    /// Models that `check --models` tries; empty means every row.
    #[serde(deserialize_with = "read::texts")]
    pub check_models: Vec<String>,
    /// File of model rows.
    #[serde(deserialize_with = "path")]
    pub models: PathBuf,
    /// Calls in flight at once, 1 or more.
    #[serde(deserialize_with = "read::at_least_one")]
    pub concurrent: usize,
    /// Time one call may take.
    #[serde(deserialize_with = "read::some_duration")]
    pub timeout: Duration,
    /// Time for which a model whose breaker opened is left alone.
    #[serde(deserialize_with = "read::some_duration")]
    pub rest: Duration,
    /// Ports of this machine where the playground looks for model servers.
    #[serde(deserialize_with = "read::ports")]
    pub local_ports: Vec<u16>,
    /// Words a reply should stay within.
    #[serde(deserialize_with = "read::at_least_one")]
    pub words: u32,
    /// File of the reply's schema.
    #[serde(deserialize_with = "path")]
    pub schema: PathBuf,
    /// Fields of model rows, by the key of the row, that a command of the program brings along; nothing that is read sets them.
    #[serde(skip)]
    pub brought: serde_json::Map<String, serde_json::Value>,
}

impl Llm {
    /// The endpoint with `/v1` at its end, appended when it is not there.
    #[must_use]
    pub fn base_url(&self) -> String {
        let url = self.url.trim_end_matches('/');
        if url.ends_with("/v1") { url.to_owned() } else { format!("{url}/v1") }
    }
}

/// `[prompts]`: where prompts are read from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompts {
    /// Folder whose files override the compiled-in prompts.
    #[serde(deserialize_with = "path")]
    pub dir: PathBuf,
    /// The tools that read and change the sections of prompts are offered.
    #[serde(deserialize_with = "read::flag")]
    pub editable: bool,
}

/// `[http]`: our own listener.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Where to listen; port 0 takes any free one.
    #[serde(deserialize_with = "read::listen_address")]
    pub addr: SocketAddr,
    /// Where to listen for health and metrics alone; `None` for no listener of their own.
    #[serde(deserialize_with = "read::optional_listen_address")]
    pub health_addr: Option<SocketAddr>,
    /// Where the same is served besides.
    #[serde(deserialize_with = "read::listen_addresses")]
    pub listeners: Vec<SocketAddr>,
    /// The sites whose pages may ask as programs do; `*` for all.
    #[serde(deserialize_with = "read::origins")]
    pub origins: Vec<String>,
    /// Keys that open dashboard and API; empty means loopback only.
    #[serde(deserialize_with = "read::secrets")]
    pub api_keys: Vec<SecretString>,
    /// Connections that each listener holds at once, 16 to [`CONNECTIONS_MAX`]; one address gets half of them.
    #[serde(deserialize_with = "connections")]
    pub connections: usize,
    /// Reverse proxies whose header `X-Forwarded-For` names the client, each of which then has its own share of the connections.
    #[serde(deserialize_with = "read::networks")]
    pub trusted_proxies: Vec<Network>,
    /// Requests of one key at once, 1 to [`KEY_CONCURRENT_MAX`].
    #[serde(deserialize_with = "key_concurrent")]
    pub key_concurrent: usize,
    /// Requests of one key within the window of the limits; zero for any number.
    #[serde(deserialize_with = "read::number")]
    pub key_requests: u32,
    /// Model tokens of one key within that window; zero for any number.
    #[serde(deserialize_with = "read::number")]
    pub key_tokens: u64,
    /// How long sessions are kept after they were last spoken in, and lines of their transcripts after they were said.
    #[serde(deserialize_with = "read::some_duration")]
    pub session_ttl: Duration,
    /// A process in front of this one has the address that people open; nothing that is read sets it.
    #[serde(skip)]
    pub behind: bool,
}

/// More connections than any process has file descriptors for.
const CONNECTIONS_MAX: usize = 100_000;
/// The most requests of one key at once.
const KEY_CONCURRENT_MAX: usize = 10_000;

fn key_concurrent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let number = read::up_to::<D, KEY_CONCURRENT_MAX>(deserializer)?;
    if number < 1 { Err(D::Error::custom("must be at least 1")) } else { Ok(number) }
}

fn connections<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let number = read::up_to::<D, CONNECTIONS_MAX>(deserializer)?;
    if number < 16 { Err(D::Error::custom("must be at least 16")) } else { Ok(number) }
}

/// `[runtime]`: what the service runs on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// How many threads do its work.
    #[serde(deserialize_with = "read::word")]
    pub threads: Threads,
}

/// How many threads do the work that does not block; files, pictures and the log have threads of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One for each processor.
    Auto,
    /// Exactly this many, 1 to [`THREADS_MAX`].
    Count(usize),
}

/// More threads than any machine has a use for.
const THREADS_MAX: usize = 256;

impl FromStr for Threads {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        if word == "auto" {
            return Ok(Self::Auto);
        }
        match word.parse() {
            Ok(count @ 1..=THREADS_MAX) => Ok(Self::Count(count)),
            Ok(_) | Err(_) => Err("auto, or a number of threads from 1 to 256"),
        }
    }
}

/// `[store]`: the embedded store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Folder of the store; made when it is missing.
    #[serde(deserialize_with = "path")]
    pub dir: PathBuf,
}

/// `[redis]`: Redis or Valkey in place of the embedded store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// Full address, which may hold a password.
    #[serde(deserialize_with = "read::secret")]
    pub url: Option<SecretString>,
    /// Host, when there is no address.
    #[serde(deserialize_with = "read::text")]
    pub host: Option<String>,
    /// Port at the host.
    #[serde(deserialize_with = "read::number")]
    pub port: u16,
    /// Database number at the host.
    #[serde(deserialize_with = "read::number")]
    pub db: u32,
    /// Password at the host.
    #[serde(deserialize_with = "read::secret")]
    pub password: Option<SecretString>,
}

impl Redis {
    /// The address to connect to, or `None` when the embedded store is to be used.
    #[must_use]
    pub fn address(&self) -> Option<SecretString> {
        if let Some(url) = &self.url {
            return Some(url.clone());
        }
        let host = self.host.as_deref()?;
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
        let login = self
            .password
            .as_ref()
            .map(|password| format!(":{}@", escape(password.expose_secret())))
            .unwrap_or_default();
        Some(SecretString::from(format!("redis://{login}{host}:{}/{}", self.port, self.db)))
    }
}

/// `[log]`: what is logged and how.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// A level (`trace`, `debug`, `info`, `warn`, `error`) or a filter of the tracing library.
    #[serde(deserialize_with = "read::some_text")]
    pub level: String,
    /// Form of a line.
    #[serde(deserialize_with = "read::word")]
    pub format: LogFormat,
    /// Whether prompts and message content may be logged.
    #[serde(deserialize_with = "read::flag")]
    pub content: bool,
    /// Whether pages may tell which message a turn answers and what models were asked for it, without `content` as well; a command
    /// of the program sets it.
    #[serde(skip)]
    pub messages: bool,
}

/// `[telemetry]`: where traces go.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Address of an OpenTelemetry collector without a slash at its end; `None` sends no traces.
    #[serde(deserialize_with = "read::optional_web_address")]
    pub endpoint: Option<String>,
    /// Headers of each request to it, `name=value` with commas between; they may hold a key.
    #[serde(deserialize_with = "read::secret")]
    pub headers: Option<SecretString>,
    /// The name of this service in the collector.
    #[serde(deserialize_with = "read::some_text")]
    pub service_name: String,
    /// Whether the question and the answer of a turn go along.
    #[serde(deserialize_with = "read::flag")]
    pub content: bool,
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty on a terminal, else JSON.
    Auto,
    /// One JSON object a line.
    Json,
    /// For a person at a terminal.
    Pretty,
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "auto" | "" => Ok(Self::Auto),
            "json" => Ok(Self::Json),
            "pretty" => Ok(Self::Pretty),
            _ => Err("json, pretty or auto"),
        }
    }
}

fn path<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    read::optional_path(deserializer)?.ok_or_else(|| serde::de::Error::custom("must be a path"))
}
