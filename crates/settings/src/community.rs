//! Sections about members: answering, memory, limits, joining conversations.
//!
//! `config/default.toml` describes each key for operators and has the defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::budgets::BudgetRow;
use super::{preferences, read};
use domain::attachment::MAX_CHARACTERS;
use domain::fact::{Bounds, FACT_BYTES_MAX, FACTS_MAX};
use domain::limits::budget::Budget;
use domain::open_to::OpenTo;
use domain::preferences::{Preferences, Setting};
use domain::recorded::RECORDED_MAX;

/// `[bots]`: other bots that may be answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bots {
    /// Ids of bots and webhooks that may be answered; empty for none.
    #[serde(deserialize_with = "read::texts")]
    pub allowed: Vec<String>,
    /// The most answers to one of them within the window.
    #[serde(deserialize_with = "read::number")]
    pub max_turns: u32,
    /// The length of the window.
    #[serde(deserialize_with = "read::some_duration")]
    pub window: Duration,
}

/// `[members]`: special roles, and names of the bot.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Members {
    /// Ids of roles that are exempt from limits and may run operator commands.
    #[serde(deserialize_with = "read::texts")]
    pub super_roles: Vec<String>,
    /// Ids of roles whose members are never answered.
    #[serde(deserialize_with = "read::texts")]
    pub ignored_roles: Vec<String>,
    /// Names that address the bot, compared case-insensitively.
    #[serde(deserialize_with = "read::texts")]
    pub aliases: Vec<String>,
    /// Keys of the model rows that members may choose; empty means all.
    #[serde(deserialize_with = "read::texts")]
    pub models: Vec<String>,
    /// The settings that members may change for themselves.
    #[serde(deserialize_with = "preferences::open")]
    pub settings: BTreeSet<Setting>,
    /// The further settings of holders of single roles, by the ids of the roles.
    #[serde(deserialize_with = "preferences::by_role")]
    pub role_settings: BTreeMap<String, BTreeSet<Setting>>,
    /// The values of settings that a member did not change.
    #[serde(deserialize_with = "preferences::defaults")]
    pub defaults: Preferences,
    /// The same for single communities, by their ids; they win over `defaults`.
    #[serde(deserialize_with = "preferences::by_community")]
    pub community_defaults: BTreeMap<String, Preferences>,
    /// The callers who may link accounts of one person.
    #[serde(deserialize_with = "read::word")]
    pub linking: OpenTo,
}

impl Members {
    /// True if any member may change any setting.
    #[must_use]
    pub fn opens_any(&self) -> bool {
        !self.settings.is_empty() || !self.role_settings.is_empty()
    }

    /// True if a member with these roles may change a setting.
    #[must_use]
    pub fn opens(&self, setting: Setting, roles: &[String]) -> bool {
        let by_role = |role| self.role_settings.get(role).is_some_and(|settings| settings.contains(&setting));
        self.settings.contains(&setting) || roles.iter().any(by_role)
    }
}

/// `[turn]`: bounds of one turn and of all turns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The deadline from the start in the lane to the reply.
    #[serde(deserialize_with = "read::some_duration")]
    pub deadline: Duration,
    /// The longest time from the start in the lane to the reply, even if text arrives steadily.
    #[serde(deserialize_with = "read::some_duration")]
    pub longest: Duration,
    /// The most open turns, 1 or more.
    #[serde(deserialize_with = "read::at_least_one")]
    pub open: usize,
    /// The most turns waiting in one lane, 1 or more.
    #[serde(deserialize_with = "read::at_least_one")]
    pub lane: usize,
    /// The timeout of waiting in a lane.
    #[serde(deserialize_with = "read::some_duration")]
    pub queue: Duration,
    /// The delay before typing is shown; zero shows it at once.
    #[serde(deserialize_with = "read::duration")]
    pub typing_after: Duration,
}

impl Turn {
    /// Returns the longest lifetime of a turn, including its wait in the lane: its data is kept for that time.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.queue + self.longest.max(self.deadline)
    }
}

/// `[streaming]`: the conditions for first showing a growing answer. The earlier one counts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streaming {
    /// The time after its first words; zero shows it at once.
    #[serde(deserialize_with = "read::duration")]
    pub hold: Duration,
    /// The length in Unicode scalar values; zero shows it at once.
    #[serde(deserialize_with = "read::number")]
    pub hold_characters: usize,
}

/// `[history]`: the stored messages of a conversation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The most messages stored for a member in a channel.
    #[serde(deserialize_with = "read::number")]
    pub max_messages: usize,
    /// The TTL after the last save; zero keeps it forever.
    #[serde(deserialize_with = "read::duration")]
    pub ttl: Duration,
    /// The age above which a message is omitted; zero uses all.
    #[serde(deserialize_with = "read::duration")]
    pub message_max_age: Duration,
}

/// `[summaries]`: summaries of the exchanges that leave a history.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summaries {
    /// The key of the model row that writes them; `None` disables them.
    #[serde(deserialize_with = "read::text")]
    pub model: Option<String>,
    /// The most tokens per UTC day for all members; zero is unlimited.
    #[serde(deserialize_with = "read::number")]
    pub tokens_per_day: u64,
    /// The longest summary of a conversation in Unicode scalar values, at most [`SUMMARY_CHARS_MAX`].
    #[serde(deserialize_with = "read::up_to::<_, SUMMARY_CHARS_MAX>")]
    pub characters: usize,
}

impl Summaries {
    /// Returns the row that writes summaries; `None` if they are disabled.
    #[must_use]
    pub fn row(&self) -> Option<&str> {
        self.model.as_deref().filter(|_| self.characters > 0)
    }
}

/// The most characters of a summary that a setting may allow.
pub const SUMMARY_CHARS_MAX: usize = 20_000;

/// `[memory]`: facts told by members, which outlive a conversation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// The most facts of one member, at most [`FACTS_MAX`]; 0 stores none and disables the tools.
    #[serde(deserialize_with = "read::up_to::<_, FACTS_MAX>")]
    pub facts: usize,
    /// The longest fact in bytes, at most [`FACT_BYTES_MAX`].
    #[serde(deserialize_with = "read::up_to::<_, FACT_BYTES_MAX>")]
    pub fact_bytes: usize,
    /// The most facts of all members.
    #[serde(deserialize_with = "read::number")]
    pub facts_total: u64,
    /// The TTL of a fact after it was last told.
    #[serde(deserialize_with = "read::some_duration")]
    pub facts_ttl: Duration,
}

impl Memory {
    /// Returns the bounds of stored facts.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        Bounds { facts: self.facts, bytes: self.fact_bytes, total: self.facts_total, ttl: self.facts_ttl }
    }
}

/// `[attachments]`: files that members attach.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachments {
    /// The most characters of texts and documents of one question, at most [`MAX_CHARACTERS`]; 0 reads none.
    #[serde(deserialize_with = "read::up_to::<_, MAX_CHARACTERS>")]
    pub characters: usize,
}

/// `[drain]`: shutdown.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// The time in which open turns may finish.
    #[serde(deserialize_with = "read::duration")]
    pub timeout: Duration,
}

/// `[catch_up]`: mentions missed while the bot was offline.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatchUp {
    /// The age up to which they are answered; zero answers none.
    #[serde(deserialize_with = "read::duration")]
    pub age: Duration,
    /// The most messages read in one channel.
    #[serde(deserialize_with = "read::number")]
    pub per_channel: usize,
}

/// `[rate_limiter]`: sliding windows for each member and guild.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimiter {
    /// The messages within the window.
    #[serde(deserialize_with = "read::number")]
    pub messages: u32,
    /// The model tokens within the window.
    #[serde(deserialize_with = "read::number")]
    pub tokens: u64,
    /// The length of the window, above zero.
    #[serde(deserialize_with = "read::some_duration")]
    pub window: Duration,
    /// The template of the notice to a limited member.
    #[serde(deserialize_with = "read::some_text")]
    pub notice: String,
    /// The reaction to a refused message without a notice, in the format of its door; `None` for none.
    #[serde(deserialize_with = "read::emoji")]
    pub reaction: Option<String>,
    /// Other limits for members with a role.
    #[serde(deserialize_with = "read::rows")]
    pub roles: Vec<LimitFor>,
    /// Other limits in a channel.
    #[serde(deserialize_with = "read::rows")]
    pub channels: Vec<LimitFor>,
    /// Further limits with separate accounts.
    #[serde(deserialize_with = "read::rows")]
    pub limits: Vec<BudgetRow>,
}

impl RateLimiter {
    /// Returns the further limits, one for each cost of a row.
    #[must_use]
    pub fn budgets(&self) -> Vec<Budget> {
        self.limits.iter().flat_map(BudgetRow::budgets).collect()
    }
}

/// Limits for one role or channel.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitFor {
    /// The id of the role or channel, in the format of its door.
    #[serde(deserialize_with = "read::some_text")]
    pub id: String,
    /// The messages within the window.
    #[serde(deserialize_with = "read::number")]
    pub messages: u32,
    /// The model tokens within the window.
    #[serde(deserialize_with = "read::number")]
    pub tokens: u64,
}

/// `[restriction]`: the consequence of exceeding a limit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restriction {
    /// The id of the role of restricted members; `None` disables restrictions.
    #[serde(deserialize_with = "read::id")]
    pub role: Option<String>,
    /// The id of the channel in which restricted members are answered; `None` for none.
    #[serde(deserialize_with = "read::id")]
    pub channel: Option<String>,
    /// The id of the channel for reports of restrictions and their ends; `None` for none.
    #[serde(deserialize_with = "read::id")]
    pub audit_channel: Option<String>,
    /// The time after which the role is removed; zero never removes it.
    #[serde(deserialize_with = "read::duration")]
    pub duration: Duration,
    /// The interval of sweeps, above zero if `duration` is.
    #[serde(deserialize_with = "read::duration_or_off")]
    pub check_interval: Duration,
    /// The template of the notice to a restricted member outside of the channel.
    #[serde(deserialize_with = "read::some_text")]
    pub channel_notice: String,
}

/// `[interjection]`: unprompted messages.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interjection {
    /// The first probability, 0 to 1.
    #[serde(deserialize_with = "read::chance")]
    pub response_chance: f64,
    /// The second probability, 0 to 1, drawn before tokens are spent.
    #[serde(deserialize_with = "read::chance")]
    pub delivery_chance: f64,
    /// Ids of the only channels with interjections; empty means all.
    #[serde(deserialize_with = "read::texts")]
    pub channels: Vec<String>,
    /// Ids of channels without interjections.
    #[serde(deserialize_with = "read::texts")]
    pub muted_channels: Vec<String>,
    /// The least time between two interjections in one channel; zero for none.
    #[serde(deserialize_with = "read::duration")]
    pub cooldown: Duration,
    /// The number of consecutive interjections without a reaction after which each further one halves the probability;
    /// 0 never halves it.
    #[serde(deserialize_with = "read::number")]
    pub backoff_after: u32,
    /// The most model tokens per hour; 0 for no separate budget.
    #[serde(deserialize_with = "read::number")]
    pub tokens_per_hour: u64,
}

/// `[presence]`: the status line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presence {
    /// The interval of status lines; zero disables them.
    #[serde(deserialize_with = "read::duration_or_off")]
    pub interval: Duration,
    /// True if hours and days are respected.
    #[serde(deserialize_with = "read::flag")]
    pub schedule_enabled: bool,
    /// The first active hour, UTC, 0 to 24.
    #[serde(deserialize_with = "read::hour")]
    pub start_hour: u8,
    /// The hour at which activity ends, UTC, exclusive, 0 to 24.
    #[serde(deserialize_with = "read::hour")]
    pub end_hour: u8,
    /// The active days in order; 0 is Monday, 6 is Sunday.
    #[serde(deserialize_with = "read::days")]
    pub days: Vec<u8>,
    /// The file of the status prompt; if missing, the one in the prompts folder is used.
    #[serde(deserialize_with = "path")]
    pub prompt: PathBuf,
}

/// `[report]`: usage reports, and notices about failing tools.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The id of the channel of reports; `None` disables them.
    #[serde(deserialize_with = "read::id")]
    pub channel: Option<String>,
    /// The interval of reports, above zero.
    #[serde(deserialize_with = "read::some_duration")]
    pub interval: Duration,
    /// The most members named in one report.
    #[serde(deserialize_with = "read::number")]
    pub top_users: usize,
    /// The id of the channel of notices about failing tools; `None` disables them.
    #[serde(deserialize_with = "read::id")]
    pub failures_channel: Option<String>,
    /// The time for which a tool server or a built-in tool fails before the notice, above zero.
    #[serde(deserialize_with = "read::some_duration")]
    pub failures_after: Duration,
}

/// `[replay]`: questions recorded to compare models.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Ids of the channels whose questions are recorded; empty disables recording.
    #[serde(deserialize_with = "read::texts")]
    pub channels: Vec<String>,
    /// The most recorded questions, at most [`RECORDED_MAX`]; 0 disables recording.
    #[serde(deserialize_with = "read::up_to::<_, RECORDED_MAX>")]
    pub questions: usize,
}

impl Replay {
    /// True if questions are recorded.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.channels.is_empty() && self.questions > 0
    }
}

/// `[gates]`: human approvals.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gates {
    /// The time after which an undecided request counts as refused, above zero.
    #[serde(deserialize_with = "read::some_duration")]
    pub expiry: Duration,
}

fn path<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(PathBuf::from(read::some_text(deserializer)?))
}
