//! The table of environment names. The same names work in `.env`, as `<NAME>_FILE`, and as
//! `/run/secrets/<name in lower case>`.
//!
//! Every other key has the name `STAFFAI_<SECTION>__<KEY>`, which needs no row.

/// A name and its setting.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// The name in the environment.
    pub name: &'static str,
    /// The key in TOML, `section.key`.
    pub key: &'static str,
    /// True if the value must never be displayed.
    pub secret: bool,
    /// Information beyond the key's description in `config/default.toml`; may be empty.
    pub sentence: &'static str,
}

/// The precedence of a row among those of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// Applies in every layer.
    Ordinary,
    /// Applies only if no ordinary name of its key is set in any layer.
    Fallback,
}

impl Variable {
    /// `OPENAI_*` are often set for other programs, so they only apply if no specific name is set.
    #[must_use]
    pub fn rank(&self) -> Rank {
        if self.name.starts_with("OPENAI_") { Rank::Fallback } else { Rank::Ordinary }
    }
}

const fn row(name: &'static str, key: &'static str, sentence: &'static str) -> Variable {
    Variable { name, key, secret: false, sentence }
}

const fn secret(name: &'static str, key: &'static str, sentence: &'static str) -> Variable {
    Variable { name, key, secret: true, sentence }
}

/// All rows. Of two names for one key in one layer, the earlier row takes precedence.
pub const VARIABLES: &[Variable] = &[
    secret("DISCORD_BOT_TOKEN", "discord.token", ""),
    row("DISCORD_API_URL", "discord.api_url", ""),
    row("DISCORD_ALLOW_INSECURE", "discord.allow_insecure", ""),
    row("DISCORD_SHARDS", "discord.shards", ""),
    row("DISCORD_REQUESTS_PER_SECOND", "discord.requests_per_second", ""),
    secret("SLACK_BOT_TOKEN", "slack.bot_token", ""),
    secret("SLACK_APP_TOKEN", "slack.app_token", ""),
    row("SLACK_API_URL", "slack.api_url", ""),
    row("SUPER_ROLE_IDS", "members.super_roles", "Comma-separated."),
    row("IGNORED_ROLE_IDS", "members.ignored_roles", "Comma-separated."),
    row("BOT_NAME_TRIGGER", "members.aliases", "Comma-separated."),
    row("LITELLM_API_URL", "llm.url", ""),
    row("OPENAI_BASE_URL", "llm.url", "Alias of LITELLM_API_URL, used if that is not set."),
    secret("LITELLM_API_KEY", "llm.key", ""),
    secret("OPENAI_API_KEY", "llm.key", "Alias of LITELLM_API_KEY, used if that is not set."),
    row("LITELLM_MODEL", "llm.model", ""),
    row("LITELLM_MODELS", "llm.check_models", "Comma-separated."),
    row("STAFFAI_MODELS", "llm.models", ""),
    row("STAFFAI_RESPONSE_SCHEMA", "llm.schema", ""),
    row("MAX_HISTORY_PER_USER", "history.max_messages", ""),
    row("CONTEXT_HISTORY_TTL_SECONDS", "history.ttl", ""),
    row("CONTEXT_MESSAGE_MAX_AGE_SECONDS", "history.message_max_age", ""),
    row("STAFFAI_PROMPTS_DIR", "prompts.dir", ""),
    row("STAFFAI_HTTP_ADDR", "http.addr", ""),
    row("STAFFAI_HEALTH_ADDR", "http.health_addr", ""),
    secret("STAFFAI_API_KEYS", "http.api_keys", "Comma-separated."),
    row("STAFFAI_DATA_DIR", "store.dir", ""),
    secret("REDIS_URL", "redis.url", ""),
    row("REDIS_HOST", "redis.host", ""),
    row("REDIS_PORT", "redis.port", ""),
    row("REDIS_DB", "redis.db", ""),
    secret("REDIS_PASSWORD", "redis.password", ""),
    row("LOG_LEVEL", "log.level", ""),
    row("RUST_LOG", "log.level", "Alias of LOG_LEVEL, as a filter of Rust's tracing library."),
    row("LOG_FORMAT", "log.format", ""),
    row("LOG_CONTENT", "log.content", ""),
    row("OTEL_EXPORTER_OTLP_ENDPOINT", "telemetry.endpoint", ""),
    secret("OTEL_EXPORTER_OTLP_HEADERS", "telemetry.headers", ""),
    row("OTEL_SERVICE_NAME", "telemetry.service_name", ""),
    row("STAFFAI_DRAIN_SECONDS", "drain.timeout", ""),
    row("RATE_LIMIT_COUNT", "rate_limiter.messages", ""),
    row("TOKEN_RATE_LIMIT_COUNT", "rate_limiter.tokens", ""),
    row("RATE_LIMIT_WINDOW_SECONDS", "rate_limiter.window", ""),
    row("RATE_LIMIT_MESSAGE_USER", "rate_limiter.notice", ""),
    row("RESTRICTED_USER_ROLE_ID", "restriction.role", ""),
    row("RESTRICTED_CHANNEL_ID", "restriction.channel", ""),
    row("RESTRICTION_DURATION_SECONDS", "restriction.duration", ""),
    row("RESTRICTION_CHECK_INTERVAL_SECONDS", "restriction.check_interval", ""),
    row("RESTRICTED_CHANNEL_MESSAGE_USER", "restriction.channel_notice", ""),
    row("RESPONSE_CHANCE", "interjection.response_chance", ""),
    row("RANDOM_RESPONSE_DELIVERY_CHANCE", "interjection.delivery_chance", ""),
    row("ACTIVITY_UPDATE_INTERVAL_SECONDS", "presence.interval", ""),
    row("ACTIVITY_SCHEDULE_ENABLED", "presence.schedule_enabled", ""),
    row("ACTIVITY_ACTIVE_START_HOUR_UTC", "presence.start_hour", ""),
    row("ACTIVITY_ACTIVE_END_HOUR_UTC", "presence.end_hour", ""),
    row("ACTIVITY_ACTIVE_DAYS_UTC", "presence.days", "Comma-separated."),
    row("BASE_ACTIVITY_SYSTEM_PROMPT_PATH", "presence.prompt", ""),
    row("STATS_REPORT_CHANNEL_ID", "report.channel", ""),
    row("STATS_REPORT_INTERVAL_SECONDS", "report.interval", ""),
    row("STATS_REPORT_TOP_USERS", "report.top_users", ""),
    row("MCP_SERVERS", "tools.mcp_servers", "Comma-separated."),
    row("STAFFAI_MCP_CONFIG", "tools.mcp_config", ""),
    row("MCP_CONFIG_PATH", "tools.mcp_config", "Alias of STAFFAI_MCP_CONFIG."),
    secret("STAFFAI_WEB_SEARCH", "tools.web_search", "Format: [{provider = 'tavily', env_key = 'TAVILY_API_KEY'}]."),
    secret("STAFFAI_IMAGES", "tools.images", "Format: [{model = 'gpt-image-2', env_key = 'OPENAI_API_KEY'}]."),
    secret(
        "STAFFAI_DATABASES",
        "tools.databases",
        "Format: [{name = 'shop', env_url = 'SHOP_URL', read = ['orders']}].",
    ),
    secret("STAFFAI_NATS_URL", "tools.nats_url", ""),
    secret("GOOGLE_DRIVE_CREDENTIALS", "google_drive.credentials", ""),
    secret(
        "STAFFAI_HOOKS",
        "triggers.hooks",
        "Format: [{name = 'ci', env_secret = 'CI_SECRET', prompt = '{{status}}', target = 'discord:1'}].",
    ),
    secret(
        "STAFFAI_PEERS",
        "agents.peers",
        "Format: [{name = 'archive', url = 'https://archive.example', env_key = 'ARCHIVE_KEY'}].",
    ),
    secret(
        "STAFFAI_VOICES",
        "speech.voices",
        "Format: [{kind = 'command', command = ['espeak-ng', '--stdin', '--stdout']}].",
    ),
    secret(
        "STAFFAI_HEARING",
        "speech.hearing",
        "Format: [{kind = 'command', command = ['pocketsphinx_continuous', '-infile', '/dev/stdin']}].",
    ),
];

/// True if the value of a key must never be displayed.
#[must_use]
pub fn is_secret(key: &str) -> bool {
    VARIABLES.iter().any(|variable| variable.key == key && variable.secret)
}

/// Returns the environment name of a key: its first row, or the general form.
#[must_use]
pub fn name_of(key: &str) -> String {
    let row = VARIABLES.iter().find(|variable| variable.key == key);
    row.map_or_else(|| general_name(key), |variable| variable.name.to_owned())
}

/// Returns `STAFFAI_<SECTION>__<KEY>`.
#[must_use]
pub fn general_name(key: &str) -> String {
    format!("STAFFAI_{}", key.replacen('.', "__", 1).to_uppercase())
}
