//! Sections about external services: Discord, Slack, the model, the log.
//!
//! `config/default.toml` describes each key for operators and has the defaults.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{defaults, experiments, read};
use domain::experiment::Experiment;
use domain::open_to::OpenTo;
use domain::proxies::Network;

/// `[discord]`: the account, the service and its options.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discord {
    /// The bot token; `None` if not set.
    #[serde(deserialize_with = "read::secret")]
    pub token: Option<SecretString>,
    /// The base address without a trailing slash.
    #[serde(deserialize_with = "read::web_address")]
    pub api_url: String,
    /// True if `http` and `ws` are allowed to other machines.
    #[serde(deserialize_with = "read::flag")]
    pub allow_insecure: bool,
    /// The total number of shards.
    #[serde(deserialize_with = "read::word")]
    pub shards: Shards,
    /// The handling of direct messages.
    #[serde(deserialize_with = "read::word")]
    pub direct_messages: DirectMessages,
    /// Ids of the served guilds; empty serves all.
    #[serde(deserialize_with = "read::texts")]
    pub guilds: Vec<String>,
    /// Ids of accounts that may run operator commands in any guild.
    #[serde(deserialize_with = "read::texts")]
    pub operators: Vec<String>,
    /// The accounts that answers may notify.
    #[serde(deserialize_with = "allowed_mentions")]
    pub allowed_mentions: AllowedMentions,
    /// The REST budget per second; 0 for no local budget.
    #[serde(deserialize_with = "read::number")]
    pub requests_per_second: u32,
    /// The callers who may have the bot join voice channels.
    #[serde(deserialize_with = "read::word")]
    pub voice: OpenTo,
}

impl Discord {
    /// Returns the mistake in the format of the token and its remedy. Returns `None` for a valid format or a missing
    /// token. A service other than the default one may use other formats, but without prefix and blanks.
    #[must_use]
    pub fn token_mistake(&self) -> Option<&'static str> {
        let token = self.token.as_ref()?.expose_secret();
        let mut words = token.split_whitespace();
        let first = words.next()?;
        if words.next().is_some() {
            let prefixed = first.eq_ignore_ascii_case("bot");
            return Some(if prefixed {
                "begins with \"Bot\", which is added automatically; set only the token"
            } else {
                "contains a space; copy only the token"
            });
        }
        let parts: Vec<usize> = token.split('.').map(str::len).collect();
        let has_form = parts.len() == 3 && parts.iter().all(|length| *length > 0);
        let usual =
            defaults::entries().iter().any(|entry| entry.key == "discord.api_url" && entry.text() == self.api_url);
        (usual && !has_form).then_some(
            "is not a bot token, which has three parts separated by dots; copy it from discord developer portal > Bot > Reset Token",
        )
    }
}

/// `[slack]`: the account and the service. The door is open if both tokens are set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slack {
    /// The token of the bot user; `None` if not set.
    #[serde(deserialize_with = "read::secret")]
    pub bot_token: Option<SecretString>,
    /// The token of the app, which opens connections; `None` if not set.
    #[serde(deserialize_with = "read::secret")]
    pub app_token: Option<SecretString>,
    /// The base address without a trailing slash.
    #[serde(deserialize_with = "read::web_address")]
    pub api_url: String,
}

impl Slack {
    /// Returns both tokens, that of the bot first; `None` if one is not set.
    #[must_use]
    pub fn tokens(&self) -> Option<(&SecretString, &SecretString)> {
        self.bot_token.as_ref().zip(self.app_token.as_ref())
    }
}

/// The number of gateway shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shards {
    /// The number advised by Discord.
    Auto,
    /// This number, 1 or more.
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

/// The handling of direct messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectMessages {
    /// They are dropped silently.
    Ignore,
    /// They are answered like mentions.
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

/// The accounts that answers may notify; none by default. Roles and `@everyone` cannot be enabled, because a model
/// writes the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowedMentions {
    /// The member who is answered.
    pub replied_user: bool,
    /// Members mentioned in the text.
    pub users: bool,
}

fn allowed_mentions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AllowedMentions, D::Error> {
    let words = read::texts(deserializer)?;
    let mut allowed = AllowedMentions::default();
    for word in words {
        match word.to_lowercase().as_str() {
            "replied_user" => allowed.replied_user = true,
            "users" => allowed.users = true,
            _ => return Err(Error::custom("must be a comma-separated list of replied_user and users, or empty")),
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
    /// The key of the endpoint; `None` sends none.
    #[serde(deserialize_with = "read::secret")]
    pub key: Option<SecretString>,
    /// The key of the default model row, or the name of a model; `None` if not set.
    #[serde(deserialize_with = "read::text")]
    pub model: Option<String>,
    /// The models that `check --models` tests; empty means every row.
    #[serde(deserialize_with = "read::texts")]
    pub check_models: Vec<String>,
    /// The file of model rows.
    #[serde(deserialize_with = "read::path")]
    pub models: PathBuf,
    /// The most concurrent calls, 1 or more.
    #[serde(deserialize_with = "read::at_least_one")]
    pub concurrent: usize,
    /// The timeout of one call.
    #[serde(deserialize_with = "read::some_duration")]
    pub timeout: Duration,
    /// The experiments between model rows or profiles of prompts.
    #[serde(deserialize_with = "experiments::rows")]
    pub experiments: Vec<Experiment>,
    /// The time for which a model with an open circuit breaker is not called.
    #[serde(deserialize_with = "read::some_duration")]
    pub rest: Duration,
    /// The local ports on which the playground searches for model servers.
    #[serde(deserialize_with = "read::ports")]
    pub local_ports: Vec<u16>,
    /// The intended maximum length of a reply, in words.
    #[serde(deserialize_with = "read::at_least_one")]
    pub words: u32,
    /// The file of the reply's schema.
    #[serde(deserialize_with = "read::path")]
    pub schema: PathBuf,
    /// Fields of model rows, by row key, supplied by a command of the program and not by any source.
    #[serde(skip)]
    pub brought: serde_json::Map<String, serde_json::Value>,
}

impl Llm {
    /// Returns the endpoint with `/v1` appended if missing.
    #[must_use]
    pub fn base_url(&self) -> String {
        let url = self.url.trim_end_matches('/');
        if url.ends_with("/v1") { url.to_owned() } else { format!("{url}/v1") }
    }
}

/// `[prompts]`: the prompts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompts {
    /// The folder whose files override the compiled-in prompts.
    #[serde(deserialize_with = "read::path")]
    pub dir: PathBuf,
    /// True if the tools that read and change prompt sections are offered.
    #[serde(deserialize_with = "read::flag")]
    pub editable: bool,
}

/// `[http]`: the HTTP listener.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// The listen address; port 0 takes any free one.
    #[serde(deserialize_with = "read::listen_address")]
    pub addr: SocketAddr,
    /// The listen address of health and metrics alone; `None` for no separate listener.
    #[serde(deserialize_with = "read::optional_listen_address")]
    pub health_addr: Option<SocketAddr>,
    /// Additional listen addresses.
    #[serde(deserialize_with = "read::listen_addresses")]
    pub listeners: Vec<SocketAddr>,
    /// The sites whose pages may send requests; `*` for all.
    #[serde(deserialize_with = "read::origins")]
    pub origins: Vec<String>,
    /// Keys for dashboard and API; if empty, only loopback is allowed.
    #[serde(deserialize_with = "read::secrets")]
    pub api_keys: Vec<SecretString>,
    /// The most connections of each listener, 16 to [`CONNECTIONS_MAX`]; one client address gets at most half of them.
    #[serde(deserialize_with = "connections")]
    pub connections: usize,
    /// Reverse proxies whose `X-Forwarded-For` header names the client, so that each client has its own share of the
    /// connections.
    #[serde(deserialize_with = "read::networks")]
    pub trusted_proxies: Vec<Network>,
    /// The most concurrent requests of one key, 1 to [`KEY_CONCURRENT_MAX`].
    #[serde(deserialize_with = "key_concurrent")]
    pub key_concurrent: usize,
    /// The requests of one key within the limits' window; zero for no limit.
    #[serde(deserialize_with = "read::number")]
    pub key_requests: u32,
    /// The model tokens of one key within that window; zero for no limit.
    #[serde(deserialize_with = "read::number")]
    pub key_tokens: u64,
    /// The TTL of sessions after their last message, and of transcript lines.
    #[serde(deserialize_with = "read::some_duration")]
    pub session_ttl: Duration,
    /// True if a process in front of this one has the public address; set by no source.
    #[serde(skip)]
    pub behind: bool,
}

/// More connections than any process has file descriptors for.
const CONNECTIONS_MAX: usize = 100_000;
/// The most concurrent requests of one key.
const KEY_CONCURRENT_MAX: usize = 10_000;

fn key_concurrent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let number = read::up_to::<D, KEY_CONCURRENT_MAX>(deserializer)?;
    if number < 1 { Err(D::Error::custom("must be at least 1")) } else { Ok(number) }
}

fn connections<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let number = read::up_to::<D, CONNECTIONS_MAX>(deserializer)?;
    if number < 16 { Err(D::Error::custom("must be at least 16")) } else { Ok(number) }
}

/// `[runtime]`: the runtime of the service.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// The number of worker threads.
    #[serde(deserialize_with = "read::word")]
    pub threads: Threads,
}

/// The number of threads for non-blocking work; files, pictures and the log have separate threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One for each processor.
    Auto,
    /// This number, 1 to [`THREADS_MAX`].
    Count(usize),
}

/// The most worker threads.
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

/// `[log]`: contents and format of the log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// A level (`trace`, `debug`, `info`, `warn`, `error`) or a filter of the tracing library.
    #[serde(deserialize_with = "read::some_text")]
    pub level: String,
    /// The format of a line.
    #[serde(deserialize_with = "read::word")]
    pub format: LogFormat,
    /// True if prompts and message contents may be logged.
    #[serde(deserialize_with = "read::flag")]
    pub content: bool,
    /// True if pages may show the message of a turn and its model requests even without `content`; set by a command of
    /// the program.
    #[serde(skip)]
    pub messages: bool,
}

/// `[telemetry]`: traces.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// The address of an OpenTelemetry collector without a trailing slash; `None` disables traces.
    #[serde(deserialize_with = "read::optional_web_address")]
    pub endpoint: Option<String>,
    /// The headers of each request to it, `name=value` separated by commas; they may contain a key.
    #[serde(deserialize_with = "read::secret")]
    pub headers: Option<SecretString>,
    /// The name of this service in the collector.
    #[serde(deserialize_with = "read::some_text")]
    pub service_name: String,
    /// True if questions and answers of turns are included.
    #[serde(deserialize_with = "read::flag")]
    pub content: bool,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty on a terminal, else JSON.
    Auto,
    /// One JSON object per line.
    Json,
    /// Human-readable.
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
