//! Checks of the settings as a whole: contradictions, missing paths, unsafe addresses. Single values have already been
//! parsed.

pub mod ids;

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::Settings;
use super::address::{has_wrong_port, is_remote};
use super::budgets;
use super::edges::Shards;
use super::env;
use super::problem::{Layer, Origin, Problem};
use super::sources::Files;
use domain::host::is_loopback;
use domain::{gate, keys};

/// The time after which container runtimes kill a program that they asked to stop.
const RUNTIMES_WAIT: Duration = Duration::from_secs(30);

/// The longest allowed turn: a quarter of the TTL of its record.
const LONGEST_TURN: Duration = Duration::from_secs(6 * 3_600);

/// The result of the checks.
#[derive(Debug, Default)]
pub struct Findings {
    /// Mistakes that stop the program.
    pub problems: Vec<Problem>,
    /// Mistakes that do not.
    pub warnings: Vec<String>,
}

/// Checks the settings. Converts `log.level` to the syntax of the log.
pub fn check(
    settings: &mut Settings,
    origins: &BTreeMap<String, Origin>,
    shown: &BTreeMap<String, String>,
    files: &dyn Files,
) -> Findings {
    let mut checks = Checks { origins, shown, found: Findings::default() };
    checks.ids(settings);
    checks.addresses(settings);
    checks.budgets(settings);
    checks.times(settings);
    checks.paths(settings, files);
    checks.redis(settings);
    checks.cluster(settings);
    checks.notices(settings);
    checks.log_level(settings);
    checks.found
}

struct Checks<'a> {
    origins: &'a BTreeMap<String, Origin>,
    shown: &'a BTreeMap<String, String>,
    found: Findings,
}

impl Checks<'_> {
    fn is_set(&self, key: &str) -> bool {
        self.origins.get(key).is_some_and(|origin| origin.layer > Layer::Default)
    }

    fn problem(&mut self, key: &str, fix: impl Into<String>) {
        let value = self.shown.get(key).filter(|_| !env::is_secret(key)).cloned();
        let place = self.origins.get(key).map_or_else(|| env::name_of(key), ToString::to_string);
        self.found.problems.push(Problem { key: key.to_owned(), value, place, fix: fix.into() });
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.found.warnings.push(text.into());
    }

    fn budgets(&mut self, settings: &Settings) {
        if let Some(mistake) = budgets::mistake(&settings.rate_limiter.limits) {
            self.problem("rate_limiter.limits", mistake);
        }
    }

    fn addresses(&mut self, settings: &Settings) {
        let discord = &settings.discord;
        let address = discord.api_url.parse::<http::Uri>().unwrap_or_default();
        let safe = address.scheme_str() == Some("https") || address.host().is_some_and(is_loopback);
        if !safe && !discord.allow_insecure {
            let fix = "must be https, or the token is sent unencrypted; \
                       DISCORD_ALLOW_INSECURE=true allows it for a proxy you trust";
            self.problem("discord.api_url", fix);
        }
        let slack = settings.slack.api_url.parse::<http::Uri>().unwrap_or_default();
        if slack.scheme_str() != Some("https") && !slack.host().is_some_and(is_loopback) {
            self.problem("slack.api_url", "must be https, or the tokens are sent unencrypted");
        }
        let model = settings.llm.url.parse::<http::Uri>().unwrap_or_default();
        if model.scheme_str() == Some("http") && model.host().is_some_and(is_remote) {
            self.warn(format!(
                "llm.url ({}) is plain http to another network: messages of members and the key can be read in transit; use https",
                env::name_of("llm.url")
            ));
        }
        let authority = settings.llm.url.parse::<http::Uri>().ok().and_then(|address| address.into_parts().authority);
        if authority.is_some_and(|authority| authority.as_str().contains('@')) {
            self.problem("llm.url", "contains credentials, which would be displayed; put the key into LITELLM_API_KEY");
        }
        if let Some(url) = &settings.tools.nats_url {
            let url = url.expose_secret().parse::<http::Uri>().unwrap_or_default();
            let no_port = url.authority().is_none_or(|authority| has_wrong_port(authority.as_str()));
            if !matches!(url.scheme_str(), Some("nats" | "tls")) || url.host().is_none() || no_port {
                self.problem(
                    "tools.nats_url",
                    "must be an address such as nats://user:password@host:4222 or tls://host, with a port up to 65535",
                );
            } else if url.scheme_str() == Some("nats") && url.host().is_some_and(is_remote) {
                self.warn(format!(
                    "tools.nats_url ({}) is not encrypted to another network: tool calls can be read in transit; use tls://",
                    env::name_of("tools.nats_url")
                ));
            }
        }
        let http = &settings.http;
        let mut taken: Vec<_> = [Some(http.addr), http.health_addr].into_iter().flatten().collect();
        for address in &http.listeners {
            if address.port() != 0 && taken.contains(address) {
                self.problem(
                    "http.listeners",
                    "must name each address once, and neither http.addr nor http.health_addr",
                );
            }
            taken.push(*address);
        }
        if let Some(address) = &settings.cluster.address {
            let host = address.rsplit_once(':').map_or("", |(host, _)| host);
            if !settings.chosen_store().is_shared() {
                self.warn("cluster.address has no effect without Redis (REDIS_URL)");
            } else if http.addr.ip().is_loopback() && !is_loopback(host) {
                self.warn(format!(
                    "cluster.address ({address}) cannot be reached: http.addr ({}) listens for this machine alone; set {}",
                    http.addr,
                    env::name_of("http.addr")
                ));
            }
        }
        if let Some(url) = &settings.redis.url {
            let scheme = url.expose_secret().split_once("://").map_or("", |(scheme, _)| scheme);
            if !REDIS_SCHEMES.contains(&scheme) {
                self.problem("redis.url", "must be an address such as redis://:password@host:6379/0");
            }
        }
    }

    fn times(&mut self, settings: &Settings) {
        let restriction = &settings.restriction;
        if restriction.check_interval.is_zero() && !restriction.duration.is_zero() {
            let fix = "must be above 0 if restriction.duration is above 0, or restrictions never end";
            self.problem("restriction.check_interval", fix);
        }
        if restriction.channel.is_some() && restriction.role.is_none() {
            self.warn("restriction.channel has no effect without restriction.role (RESTRICTED_USER_ROLE_ID)");
        }
        let presence = &settings.presence;
        if presence.start_hour > 23 {
            self.problem("presence.start_hour", "must be an hour from 0 to 23");
        } else if presence.schedule_enabled && presence.start_hour == presence.end_hour {
            self.warn("presence.start_hour and presence.end_hour are the same: the bot will always be idle");
        }
        if settings.drain.timeout >= RUNTIMES_WAIT {
            self.warn("drain.timeout is not below 30s, after which container runtimes kill the process; lower it");
        }
        if settings.catch_up.age > keys::CATCH_UP_AGE_MAX {
            let most = keys::CATCH_UP_AGE_MAX.as_secs() / 60;
            self.warn(format!("catch_up.age is above {most}m, the maximum, which is used instead"));
        }
        if settings.gates.expiry > gate::EXPIRY_MAX {
            let most = gate::EXPIRY_MAX.as_secs() / 3_600;
            self.warn(format!("gates.expiry is above {most}h, the maximum, which is used instead"));
        }
        if settings.tools.task_longest > gate::TASK_LONGEST_MAX {
            self.warn("tools.task_longest is above 7d, the maximum, which is used instead");
        }
        if settings.turn.deadline < settings.llm.timeout {
            self.warn(
                "turn.deadline is shorter than llm.timeout, so a slow model call ends its turn; raise turn.deadline",
            );
        }
        if settings.turn.longest < settings.turn.deadline {
            self.warn("turn.longest is shorter than turn.deadline, which is used instead");
        }
        if settings.turn.longest > LONGEST_TURN {
            let most = LONGEST_TURN.as_secs() / 3_600;
            self.problem(
                "turn.longest",
                format!("must be at most {most}h, far below the time for which the records of a turn are stored"),
            );
        }
    }

    fn paths(&mut self, settings: &Settings, files: &dyn Files) {
        let required = [
            ("prompts.dir", &settings.prompts.dir),
            ("llm.schema", &settings.llm.schema),
            ("llm.models", &settings.llm.models),
        ];
        for (key, path) in required {
            if self.is_set(key)
                && let Err(error) = files.probe(path)
            {
                let fix = format!("cannot be read ({error}); correct the path, or unset it for the built-in default");
                self.problem(key, fix);
            }
        }
        // The Python bot's `.env` usually names this path, which was part of that bot.
        let prompt = &settings.presence.prompt;
        if self.is_set("presence.prompt") && !prompt.as_os_str().is_empty() && files.probe(prompt).is_err() {
            if prompt.as_os_str() == PYTHON_PROMPT {
                self.warn(format!("{PYTHON_PROMPT} does not exist; the status prompt of prompts.dir is used"));
            } else {
                let fix = "cannot be read; correct the path, or unset it for the one in prompts.dir";
                self.problem("presence.prompt", fix);
            }
        }
        if let Some(path) = &settings.tools.mcp_config
            && self.is_set("tools.mcp_config")
            && files.probe(path).is_err()
        {
            self.warn(format!("tools.mcp_config: {} cannot be read; no MCP server comes from it", path.display()));
        }
    }

    fn redis(&mut self, settings: &Settings) {
        let redis = &settings.redis;
        let chosen = redis.url.is_some() || redis.host.is_some();
        let rest = ["redis.port", "redis.db", "redis.password"].into_iter().filter(|key| self.is_set(key));
        let rest: Vec<String> = rest.map(env::name_of).collect();
        if !chosen && !rest.is_empty() {
            let dir = settings.store.dir.display();
            let names = rest.join(", ");
            self.warn(format!("{names} set without REDIS_URL or REDIS_HOST: the embedded store in {dir} is used"));
        } else if redis.url.is_some() && (redis.host.is_some() || !rest.is_empty()) {
            self.warn("REDIS_URL is set, so the other REDIS_ names have no effect");
        }
    }

    fn cluster(&mut self, settings: &Settings) {
        let ranges = settings.cluster.ranges;
        if ranges > 1 && !settings.chosen_store().is_shared() {
            let fix = "above 1 needs a store that several processes share; set REDIS_URL, or set it to 1";
            self.problem("cluster.ranges", fix);
        }
        if let Shards::Count(shards) = settings.discord.shards
            && !shards.is_multiple_of(ranges)
        {
            let fix = format!("must be a multiple of cluster.ranges ({ranges}), so that each range has as many shards");
            self.problem("discord.shards", fix);
        }
    }

    fn notices(&mut self, settings: &Settings) {
        let notices = [
            ("rate_limiter.notice", &settings.rate_limiter.notice),
            ("restriction.channel_notice", &settings.restriction.channel_notice),
        ];
        for (key, template) in notices {
            for word in template.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(word, _)| word) {
                if !matches!(word, "channel_id" | "user" | "until" | "retry_at") {
                    self.warn(format!(
                        "{key} has {{{word}}}, which is no placeholder and is posted as written; placeholders: {{channel_id}} {{user}} {{until}} {{retry_at}}"
                    ));
                }
            }
        }
    }

    /// Translates Python's level names. An unknown single word means info, as in the Python bot.
    fn log_level(&mut self, settings: &mut Settings) {
        let level = settings.log.level.to_lowercase();
        let translated = match level.as_str() {
            "trace" | "debug" | "info" | "warn" | "error" | "off" => level,
            "" | "notset" => "info".to_owned(),
            "warning" => "warn".to_owned(),
            "critical" | "fatal" => "error".to_owned(),
            _ if settings.log.level.contains(['=', ',', ':', '[']) => {
                if let Err(mistake) = telemetry::check_filter(&settings.log.level) {
                    self.problem("log.level", mistake);
                    "info".clone_into(&mut settings.log.level);
                }
                return;
            }
            _ => {
                self.warn("log.level must be debug, info, warning, error, critical or a filter such as info,staffai=debug; info is used");
                "info".to_owned()
            }
        };
        settings.log.level = translated;
    }
}

/// The address prefixes of Redis.
const REDIS_SCHEMES: [&str; 11] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis+unix",
    "valkey+unix",
    "unix",
    "redis-cluster",
    "rediss-cluster",
    "redis-sentinel",
    "rediss-sentinel",
];

/// The Python bot's path of the status prompt.
const PYTHON_PROMPT: &str = "utils/prompts/base_activity_system_prompt.txt";
