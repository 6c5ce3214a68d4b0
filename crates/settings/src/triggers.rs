//! `[triggers]`: starts of turns without a message.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use super::read;

/// `[triggers]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Triggers {
    /// Scheduled prompts.
    #[serde(deserialize_with = "read::rows")]
    pub timers: Vec<TimerRow>,
    /// Prompts triggered by other programs.
    #[serde(deserialize_with = "read::rows")]
    pub hooks: Vec<HookRow>,
}

/// One `[[triggers.timers]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimerRow {
    /// Its name: 1 to 40 lower-case letters, digits, `-` or `_`.
    #[serde(deserialize_with = "read::some_text")]
    pub name: String,
    /// The schedule as a cron expression: minute, hour, day of month, month, day of week.
    #[serde(deserialize_with = "read::some_text")]
    pub cron: String,
    /// The time zone of the expression, by its IANA name.
    #[serde(default = "utc", deserialize_with = "read::some_text")]
    pub zone: String,
    /// The prompt.
    #[serde(deserialize_with = "read::some_text")]
    pub prompt: String,
    /// The destination of the answer, such as `discord:<channel id>` or `terminal:<session>`.
    #[serde(deserialize_with = "read::some_text")]
    pub target: String,
    /// The most turns per hour.
    #[serde(default = "usual_per_hour", deserialize_with = "read::at_least_one")]
    pub per_hour: u32,
    /// The longest delay after the process was offline, at most half an hour.
    #[serde(default = "usual_grace", deserialize_with = "read::duration")]
    pub grace: Duration,
    /// True if the model may use tools.
    #[serde(default)]
    pub tools: bool,
    /// The model row; `None` for the default one.
    #[serde(default, deserialize_with = "read::text")]
    pub model: Option<String>,
}

/// One `[[triggers.hooks]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookRow {
    /// Its name, the last part of its address: 1 to 40 lower-case letters, digits, `-` or `_`.
    #[serde(deserialize_with = "read::some_text")]
    pub name: String,
    /// The signature scheme of requests: `staffai`, `github`, `standard`, `gitlab` or `stripe`.
    #[serde(default = "usual_scheme", deserialize_with = "read::some_text")]
    pub scheme: String,
    /// The variable that holds the secret of the signatures.
    #[serde(default, deserialize_with = "read::text")]
    pub env_secret: Option<String>,
    /// The secret.
    #[serde(default, deserialize_with = "read::secret")]
    pub secret: Option<SecretString>,
    /// The prompt, with fields of the data in double braces.
    #[serde(deserialize_with = "read::some_text")]
    pub prompt: String,
    /// The destination of the answer, such as `discord:<channel id>` or `terminal:<session>`.
    #[serde(deserialize_with = "read::some_text")]
    pub target: String,
    /// The most turns per hour.
    #[serde(default = "usual_per_hour", deserialize_with = "read::at_least_one")]
    pub per_hour: u32,
    /// The longest age of a request, and its longest lead over the local clock, at most half an hour.
    #[serde(default = "usual_window", deserialize_with = "read::some_duration")]
    pub window: Duration,
    /// True if the model may use tools.
    #[serde(default)]
    pub tools: bool,
    /// The model row; `None` for the default one.
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
