//! Sections about the people: who is answered, what is remembered, what is limited, how the bot joins in.
//!
//! What each key means to an operator is told in `config/default.toml`, which also has the defaults.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::budgets::BudgetRow;
use super::read;
use domain::fact::{Bounds, FACT_BYTES_MAX, FACTS_MAX};
use domain::limits::budget::Budget;

/// `[bots]`: other bots that may be answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bots {
    /// Ids of bots and webhooks that may be answered; empty answers none.
    #[serde(deserialize_with = "read::texts")]
    pub allowed: Vec<String>,
    /// The most answers to one of them within the window.
    #[serde(deserialize_with = "read::number")]
    pub max_turns: u32,
    /// Length of the window.
    #[serde(deserialize_with = "read::some_duration")]
    pub window: Duration,
}

/// `[members]`: roles and names with a special meaning.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Members {
    /// Ids of roles that are exempt from limits and may run the commands of operators.
    #[serde(deserialize_with = "read::texts")]
    pub super_roles: Vec<String>,
    /// Ids of roles whose members are never answered.
    #[serde(deserialize_with = "read::texts")]
    pub ignored_roles: Vec<String>,
    /// Names that address the bot, compared without regard to case.
    #[serde(deserialize_with = "read::texts")]
    pub aliases: Vec<String>,
    /// Keys of the model rows that members may choose; empty means all.
    #[serde(deserialize_with = "read::texts")]
    pub models: Vec<String>,
}

/// `[turn]`: bounds of one turn and of all together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Time from the start of the lane to the reply.
    #[serde(deserialize_with = "read::some_duration")]
    pub deadline: Duration,
    /// The longest time from the start of the lane to the reply, however steadily text arrives.
    #[serde(deserialize_with = "read::some_duration")]
    pub longest: Duration,
    /// Open turns in the whole bot, 1 or more.
    #[serde(deserialize_with = "read::at_least_one")]
    pub open: usize,
    /// Turns waiting in one lane, 1 or more.
    #[serde(deserialize_with = "read::at_least_one")]
    pub lane: usize,
    /// Time a turn may wait in its lane.
    #[serde(deserialize_with = "read::some_duration")]
    pub queue: Duration,
    /// Time a turn thinks before typing is shown; zero shows it at once.
    #[serde(deserialize_with = "read::duration")]
    pub typing_after: Duration,
}

impl Turn {
    /// The longest that a turn may be under way, its wait in the lane included: what is kept for a turn is kept for so long.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.queue + self.longest.max(self.deadline)
    }
}

/// `[streaming]`: when a growing answer is first shown. The earlier of the two counts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streaming {
    /// Time after its first words; zero holds nothing.
    #[serde(deserialize_with = "read::duration")]
    pub hold: Duration,
    /// Length in Unicode scalar values; zero holds nothing.
    #[serde(deserialize_with = "read::number")]
    pub hold_characters: usize,
}

/// `[history]`: what is remembered of a conversation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The most messages kept for a member in a channel.
    #[serde(deserialize_with = "read::number")]
    pub max_messages: usize,
    /// Lifetime after the last save; zero keeps it for ever.
    #[serde(deserialize_with = "read::duration")]
    pub ttl: Duration,
    /// Age of a message above which it is left out; zero uses all.
    #[serde(deserialize_with = "read::duration")]
    pub message_max_age: Duration,
}

/// `[memory]`: facts that members told, which outlive a conversation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Facts of one member, at most [`FACTS_MAX`]; 0 keeps none and offers no tools for it.
    #[serde(deserialize_with = "read::up_to::<_, FACTS_MAX>")]
    pub facts: usize,
    /// The longest fact in bytes, at most [`FACT_BYTES_MAX`].
    #[serde(deserialize_with = "read::up_to::<_, FACT_BYTES_MAX>")]
    pub fact_bytes: usize,
    /// Facts of all members.
    #[serde(deserialize_with = "read::number")]
    pub facts_total: u64,
    /// Lifetime of a fact after it was told last.
    #[serde(deserialize_with = "read::some_duration")]
    pub facts_ttl: Duration,
}

impl Memory {
    /// The bounds of what is kept.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        Bounds { facts: self.facts, bytes: self.fact_bytes, total: self.facts_total, ttl: self.facts_ttl }
    }
}

/// `[drain]`: the end of a run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// Time open turns get to finish.
    #[serde(deserialize_with = "read::duration")]
    pub timeout: Duration,
}

/// `[catch_up]`: mentions missed while away.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatchUp {
    /// Age up to which they are answered; zero answers none.
    #[serde(deserialize_with = "read::duration")]
    pub age: Duration,
    /// The most messages looked at in one channel.
    #[serde(deserialize_with = "read::number")]
    pub per_channel: usize,
}

/// `[rate_limiter]`: sliding windows per member and guild.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimiter {
    /// Messages within the window.
    #[serde(deserialize_with = "read::number")]
    pub messages: u32,
    /// Model tokens within the window.
    #[serde(deserialize_with = "read::number")]
    pub tokens: u64,
    /// Length of the window, above zero.
    #[serde(deserialize_with = "read::some_duration")]
    pub window: Duration,
    /// Template of the notice to a limited member.
    #[serde(deserialize_with = "read::some_text")]
    pub notice: String,
    /// The reaction to a refused message that gets no notice, in the form of its door; `None` shows none.
    #[serde(deserialize_with = "read::emoji")]
    pub reaction: Option<String>,
    /// Other limits for members with a role.
    #[serde(deserialize_with = "read::rows")]
    pub roles: Vec<LimitFor>,
    /// Other limits in a channel.
    #[serde(deserialize_with = "read::rows")]
    pub channels: Vec<LimitFor>,
    /// Further limits, in accounts of their own.
    #[serde(deserialize_with = "read::rows")]
    pub limits: Vec<BudgetRow>,
}

impl RateLimiter {
    /// The further limits, one for each cost of a row.
    #[must_use]
    pub fn budgets(&self) -> Vec<Budget> {
        self.limits.iter().flat_map(BudgetRow::budgets).collect()
    }
}

/// Limits that hold for one role or in one channel.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitFor {
    /// Id of the role or channel, in the form of its door.
    #[serde(deserialize_with = "read::some_text")]
    pub id: String,
    /// Messages within the window.
    #[serde(deserialize_with = "read::number")]
    pub messages: u32,
    /// Model tokens within the window.
    #[serde(deserialize_with = "read::number")]
    pub tokens: u64,
}

/// `[restriction]`: what follows a breach of a limit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restriction {
    /// Id of the role that marks a restricted member; `None` switches restrictions off.
    #[serde(deserialize_with = "read::id")]
    pub role: Option<String>,
    /// Id of the channel in which restricted members are answered; `None` for no such channel.
    #[serde(deserialize_with = "read::id")]
    pub channel: Option<String>,
    /// Id of the channel to which restrictions and their ends are reported; `None` reports none.
    #[serde(deserialize_with = "read::id")]
    pub audit_channel: Option<String>,
    /// Time after which the role is lifted; zero never lifts it.
    #[serde(deserialize_with = "read::duration")]
    pub duration: Duration,
    /// Time between two sweeps, above zero when `duration` is.
    #[serde(deserialize_with = "read::duration_or_off")]
    pub check_interval: Duration,
    /// Template of the notice to a restricted member outside of the channel.
    #[serde(deserialize_with = "read::some_text")]
    pub channel_notice: String,
}

/// `[interjection]`: joining in without being asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interjection {
    /// First chance, 0 to 1.
    #[serde(deserialize_with = "read::chance")]
    pub response_chance: f64,
    /// Second chance, 0 to 1, drawn before any token is spent.
    #[serde(deserialize_with = "read::chance")]
    pub delivery_chance: f64,
    /// Ids of the only channels to join in; empty means all.
    #[serde(deserialize_with = "read::texts")]
    pub channels: Vec<String>,
    /// Ids of channels never to join in.
    #[serde(deserialize_with = "read::texts")]
    pub muted_channels: Vec<String>,
    /// Least time between two interjections in one channel; zero for none.
    #[serde(deserialize_with = "read::duration")]
    pub cooldown: Duration,
    /// Interjections in a row without a reaction after which each further one halves the chance; 0 never halves it.
    #[serde(deserialize_with = "read::number")]
    pub backoff_after: u32,
    /// The most model tokens an hour; 0 for no budget of their own.
    #[serde(deserialize_with = "read::number")]
    pub tokens_per_hour: u64,
}

/// `[presence]`: the status line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presence {
    /// Time between two status lines; zero turns them off.
    #[serde(deserialize_with = "read::duration_or_off")]
    pub interval: Duration,
    /// Whether hours and days are kept.
    #[serde(deserialize_with = "read::flag")]
    pub schedule_enabled: bool,
    /// First active hour, UTC, 0 to 24.
    #[serde(deserialize_with = "read::hour")]
    pub start_hour: u8,
    /// Hour at which activity ends, UTC, not included, 0 to 24.
    #[serde(deserialize_with = "read::hour")]
    pub end_hour: u8,
    /// Active days in order, 0 is Monday, 6 is Sunday.
    #[serde(deserialize_with = "read::days")]
    pub days: Vec<u8>,
    /// File of the status prompt; when missing, the one in the prompts folder is used.
    #[serde(deserialize_with = "path")]
    pub prompt: PathBuf,
}

/// `[report]`: usage reports.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Id of the channel they are posted in; `None` for no reports.
    #[serde(deserialize_with = "read::id")]
    pub channel: Option<String>,
    /// Time between two reports, above zero.
    #[serde(deserialize_with = "read::some_duration")]
    pub interval: Duration,
    /// The most members named in one report.
    #[serde(deserialize_with = "read::number")]
    pub top_users: usize,
}

/// `[gates]`: approvals by a human.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gates {
    /// Time after which an undecided one counts as refused, above zero.
    #[serde(deserialize_with = "read::some_duration")]
    pub expiry: Duration,
}

fn path<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(PathBuf::from(read::some_text(deserializer)?))
}
