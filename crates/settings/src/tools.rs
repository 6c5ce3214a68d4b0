//! `[tools]`: servers, bounds and rules.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use super::data_tools::{Database, ImageModel, WebSearch};
use super::read;
use domain::tool::ToolKind;
use domain::tool::limits::{Rate, ToolLimits};
use domain::tool::pattern::NamePattern;
use domain::tool::rights::{Operation, Rule, Verdict};
use ports::tools::ServerEntry;

/// `[tools]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// The file of MCP servers; `None` for none.
    #[serde(deserialize_with = "read::optional_path")]
    pub mcp_config: Option<PathBuf>,
    /// Addresses of further MCP servers.
    #[serde(deserialize_with = "read::texts")]
    pub mcp_servers: Vec<String>,
    /// The address of NATS, which may contain a password.
    #[serde(deserialize_with = "read::secret")]
    pub nats_url: Option<SecretString>,
    /// The timeout of one call.
    #[serde(deserialize_with = "read::some_duration")]
    pub timeout: Duration,
    /// The longest time that a task of a server may take, at most a week.
    #[serde(deserialize_with = "read::some_duration")]
    pub task_longest: Duration,
    /// The size in bytes to which a result is truncated.
    #[serde(deserialize_with = "read::at_least_one")]
    pub result_bytes: usize,
    /// The bytes of tool definitions in one prompt.
    #[serde(deserialize_with = "read::at_least_one")]
    pub prompt_bytes: usize,
    /// The most rounds of calls in one turn; 0 offers no tools.
    #[serde(deserialize_with = "read::number")]
    pub max_rounds: u32,
    /// The most calls in one turn; 0 offers no tools.
    #[serde(deserialize_with = "read::number")]
    pub max_calls: u32,
    /// True if the built-in tools are offered even where that costs an additional model call.
    #[serde(deserialize_with = "read::flag")]
    pub built_in_always: bool,
    /// The rate limits of a member's calls, by kind or pattern of names.
    #[serde(deserialize_with = "read::items")]
    pub limits: Vec<ToolLimit>,
    /// Kinds that are disabled for some time for a member who exceeds their limit.
    #[serde(deserialize_with = "read::words")]
    pub auto_disable: Vec<ToolKind>,
    /// The least time between two calls of one tool by one member.
    #[serde(deserialize_with = "read::items")]
    pub cooldown: Vec<Cooldown>,
    /// Tools, by name or pattern, whose every call requires approval regardless of the rules.
    #[serde(deserialize_with = "read::items")]
    pub requires_confirmation: Vec<NamePattern>,
    /// The retention of the audit of calls and decisions; zero disables it.
    #[serde(deserialize_with = "read::duration")]
    pub audit: Duration,
    /// The providers of `web_search`, in order.
    #[serde(deserialize_with = "read::rows")]
    pub web_search: Vec<WebSearch>,
    /// The models of `create_image` and `edit_image`, in order.
    #[serde(deserialize_with = "read::rows")]
    pub images: Vec<ImageModel>,
    /// The databases for statements.
    #[serde(deserialize_with = "read::rows")]
    pub databases: Vec<Database>,
    /// The rules in the order in which they were written.
    #[serde(deserialize_with = "read::rows")]
    pub rules: Vec<ToolRule>,
    /// Servers supplied by a command of the program and not by any source.
    #[serde(skip)]
    pub brought: Vec<ServerEntry>,
}

impl Tools {
    /// Returns the table of rules; those that require confirmation come first.
    #[must_use]
    pub fn table(&self) -> Arc<[Rule]> {
        let asks = self.requires_confirmation.iter().map(|tools| Rule::of(tools.clone(), Verdict::Ask));
        asks.chain(self.rules.iter().map(ToolRule::rule)).collect()
    }

    /// Returns the configured patterns of tool names, each with its place.
    #[must_use]
    pub fn patterns(&self) -> Vec<(String, NamePattern)> {
        let rules = (1..).zip(&self.rules);
        let rules = rules.map(|(number, rule)| (format!("tools.rules, rule {number}"), rule.tools.clone()));
        let confirmed = self.requires_confirmation.iter();
        let confirmed = confirmed.map(|tools| ("tools.requires_confirmation".to_owned(), tools.clone()));
        let usual = |limit: &&ToolLimit| {
            ToolKind::USUAL.iter().any(|kind| limit.tools.as_str().eq_ignore_ascii_case(kind.as_str()))
        };
        let limits = self.limits.iter().filter(|limit| !usual(limit));
        let limits = limits.map(|limit| ("tools.limits".to_owned(), limit.tools.clone()));
        let cooldown = self.cooldown.iter();
        let cooldown = cooldown.map(|rest| ("tools.cooldown".to_owned(), rest.tools.clone()));
        rules.chain(confirmed).chain(limits).chain(cooldown).collect()
    }

    /// Returns the limits of calls.
    #[must_use]
    pub fn call_limits(&self) -> ToolLimits {
        let mut limits = ToolLimits { auto_disable: self.auto_disable.clone(), ..ToolLimits::default() };
        for limit in &self.limits {
            match limit.tools.as_str().to_lowercase().parse() {
                // It may be a custom kind, or the name of a tool.
                Ok(kind @ ToolKind::Named(_)) => {
                    limits.kinds.entry(kind).or_insert(limit.rate);
                    limits.tools.push((limit.tools.clone(), limit.rate));
                }
                // Of two lines about one kind the first counts, as with patterns.
                Ok(kind) => drop(limits.kinds.entry(kind).or_insert(limit.rate)),
                Err(_) => limits.tools.push((limit.tools.clone(), limit.rate)),
            }
        }
        limits.kinds.entry(ToolKind::Image).or_insert(PICTURES);
        limits.cooldown = self.cooldown.iter().map(|rest| (rest.tools.clone(), rest.pause)).collect();
        limits
    }
}

/// The limit of pictures of a member if `tools.limits` names none: each costs money.
const PICTURES: Rate = Rate { calls: 10, window: Duration::from_secs(86_400) };

/// One item of `tools.limits`: a kind or a pattern of names, with a number of calls and a time, as in `llm 3/20s`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimit {
    /// The names of tools. The name of a kind means that kind, too.
    tools: NamePattern,
    rate: Rate,
}

impl FromStr for ToolLimit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANTED: &str = "a kind (search, extract, db, drive, llm, image, other) or a pattern of tool names or a regular expression between slashes, then calls/time, such as `llm 3/20s`";
        let read = || {
            let (what, rate) = text.trim().rsplit_once(char::is_whitespace)?;
            let (calls, window) = rate.split_once('/')?;
            let (calls, window) = (calls.parse().ok().filter(|calls| *calls > 0)?, some(window)?);
            Some(Self { tools: what.trim().parse().ok()?, rate: Rate { calls, window } })
        };
        read().ok_or(WANTED)
    }
}

/// One item of `tools.cooldown`: a pattern of names and a time, as in `fm__* 10s`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cooldown {
    tools: NamePattern,
    pause: Duration,
}

impl FromStr for Cooldown {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (tools, pause) = text.trim().rsplit_once(char::is_whitespace)?;
            Some(Self { tools: tools.trim().parse().ok()?, pause: some(pause)? })
        };
        read()
            .ok_or("a pattern of tool names or a regular expression between slashes, then a time, such as `fm__* 10s`")
    }
}

fn some(text: &str) -> Option<Duration> {
    read::written_duration(text).filter(|duration| !duration.is_zero())
}

/// One `[[tools.rules]]`: an empty list or absent value matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRule {
    /// The pattern of tool names.
    #[serde(deserialize_with = "read::pattern")]
    pub tools: NamePattern,
    /// The operation of the tool: `read` or `write`.
    #[serde(default, deserialize_with = "read::optional_word")]
    pub operation: Option<Operation>,
    /// The object of the operation, such as a table or folder.
    #[serde(default)]
    pub resource: Option<String>,
    /// Roles of the caller.
    #[serde(default, deserialize_with = "read::texts")]
    pub roles: Vec<String>,
    /// Callers.
    #[serde(default, deserialize_with = "read::texts")]
    pub users: Vec<String>,
    /// Channels of the call.
    #[serde(default, deserialize_with = "read::texts")]
    pub channels: Vec<String>,
    /// Doors of the call, such as `discord`.
    #[serde(default, deserialize_with = "read::texts")]
    pub doors: Vec<String>,
    /// Roles whose holders are exempt from the rule.
    #[serde(default, deserialize_with = "read::texts")]
    pub except: Vec<String>,
    /// The verdict.
    #[serde(deserialize_with = "read::word")]
    pub verdict: Verdict,
    /// Roles that may approve; empty means the requester.
    #[serde(default, deserialize_with = "read::texts")]
    pub approvers: Vec<String>,
}

impl ToolRule {
    fn rule(&self) -> Rule {
        let Self { tools, operation, resource, roles, users, channels, doors, except, verdict, approvers } =
            self.clone();
        Rule { tools, operation, resource, roles, users, channels, doors, except, verdict, approvers }
    }
}
