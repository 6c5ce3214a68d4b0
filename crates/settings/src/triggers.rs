//! `[triggers]`: what starts a turn without a message.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use super::read;

/// `[triggers]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Triggers {
    /// What is asked at certain times.
    #[serde(deserialize_with = "read::rows")]
    pub timers: Vec<TimerRow>,
    /// What is asked when another program says so.
    #[serde(deserialize_with = "read::rows")]
    pub hooks: Vec<HookRow>,
}

/// One `[[triggers.timers]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimerRow {
    /// Its name: 1 to 40 small letters, digits, `-` or `_`.
    #[serde(deserialize_with = "read::some_text")]
    pub name: String,
    /// When, as an expression of cron: minute, hour, day of month, month, day of week.
    #[serde(deserialize_with = "read::some_text")]
    pub cron: String,
    /// The time zone of the expression, by its IANA name.
    #[serde(default = "utc", deserialize_with = "read::some_text")]
    pub zone: String,
    /// What is asked.
    #[serde(deserialize_with = "read::some_text")]
    pub prompt: String,
    /// Where the answer is posted, such as `discord:<channel id>` or `terminal:<session>`.
    #[serde(deserialize_with = "read::some_text")]
    pub target: String,
    /// The most turns in an hour.
    #[serde(default = "usual_per_hour", deserialize_with = "read::at_least_one")]
    pub per_hour: u32,
    /// How late it may be asked after the process was away, at most half an hour.
    #[serde(default = "usual_grace", deserialize_with = "read::duration")]
    pub grace: Duration,
    /// The model may use tools.
    #[serde(default)]
    pub tools: bool,
    /// The model row that is asked; none for the default one.
    #[serde(default, deserialize_with = "read::text")]
    pub model: Option<String>,
}

/// One `[[triggers.hooks]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookRow {
    /// Its name, the last part of its address: 1 to 40 small letters, digits, `-` or `_`.
    #[serde(deserialize_with = "read::some_text")]
    pub name: String,
    /// The scheme by which the sender proves its requests: `staffai`, `github`, `standard`, `gitlab` or `stripe`.
    #[serde(default = "usual_scheme", deserialize_with = "read::some_text")]
    pub scheme: String,
    /// The variable that holds the secret with which requests are signed.
    #[serde(default, deserialize_with = "read::text")]
    pub env_secret: Option<String>,
    /// The secret itself.
    #[serde(default, deserialize_with = "read::secret")]
    pub secret: Option<SecretString>,
    /// What is asked, with fields of the data between double braces.
    #[serde(deserialize_with = "read::some_text")]
    pub prompt: String,
    /// Where the answer is posted, such as `discord:<channel id>` or `terminal:<session>`.
    #[serde(deserialize_with = "read::some_text")]
    pub target: String,
    /// The most turns in an hour.
    #[serde(default = "usual_per_hour", deserialize_with = "read::at_least_one")]
    pub per_hour: u32,
    /// How old a request may be, or ahead of our clock, at most half an hour.
    #[serde(default = "usual_window", deserialize_with = "read::some_duration")]
    pub window: Duration,
    /// The model may use tools.
    #[serde(default)]
    pub tools: bool,
    /// The model row that is asked; none for the default one.
    #[serde(default, deserialize_with = "read::text")]
    pub model: Option<String>,
}

fn usual_scheme() -> String {
    "staffai".to_owned()
}

fn utc() -> String {
    "UTC".to_owned()
}

const fn usual_per_hour() -> u32 {
    12
}

const fn usual_grace() -> Duration {
    Duration::from_secs(15 * 60)
}

const fn usual_window() -> Duration {
    Duration::from_secs(5 * 60)
}
