//! The configuration: one struct per section, read from layers, with all mistakes reported at once.
//!
//! `config/default.toml` has every key with its default and a description; `env.rs` is the table of environment names.
//! No other part of the program reads the environment.

pub mod address;
pub mod agents;
pub mod budgets;
pub mod check;
pub mod cluster;

pub mod community;
pub mod data_tools;
pub mod defaults;
pub mod dotenv;
pub mod edges;
pub mod env;
mod experiments;
mod layers;
mod preferences;
pub mod problem;
mod read;
mod row;
pub mod show;
pub mod sources;
pub mod speech;
pub mod stores;
pub mod tools;
pub mod triggers;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod fuzz;

use std::collections::BTreeMap;

use config::{Config, ConfigError, File, FileFormat, Value, ValueKind};
use serde::Deserialize;

use self::layers::{Assignment, LayerSource};
use self::problem::{Layer, Origin, Problem, shown};
use self::sources::{Purpose, Sources, Variables};

/// All settings. A turn keeps the settings with which it began.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "each section's struct is documented")]
pub struct Settings {
    pub discord: edges::Discord,
    pub slack: edges::Slack,
    pub bots: community::Bots,
    pub members: community::Members,
    pub turn: community::Turn,
    pub streaming: community::Streaming,
    pub llm: edges::Llm,
    pub history: community::History,
    pub summaries: community::Summaries,
    pub memory: community::Memory,
    pub attachments: community::Attachments,
    pub prompts: edges::Prompts,
    pub http: edges::Http,
    pub runtime: edges::Runtime,
    pub store: stores::Store,
    pub redis: stores::Redis,
    pub cluster: cluster::Cluster,
    pub log: edges::Log,
    pub telemetry: edges::Telemetry,
    pub drain: community::Drain,
    pub catch_up: community::CatchUp,
    pub rate_limiter: community::RateLimiter,
    pub restriction: community::Restriction,
    pub interjection: community::Interjection,
    pub presence: community::Presence,
    pub report: community::Report,
    pub tools: tools::Tools,
    pub url_extract: data_tools::UrlExtract,
    pub google_drive: data_tools::GoogleDrive,
    pub gates: community::Gates,
    pub replay: community::Replay,
    pub triggers: triggers::Triggers,
    pub agents: agents::Agents,
    pub speech: speech::Speech,
    /// The indices of unreadable rows by list. Empty in settings that are in effect.
    #[serde(skip)]
    pub left_out: BTreeMap<String, Vec<usize>>,
}

impl Settings {
    /// Numbers the rows of a list as written, counting unreadable ones.
    pub fn numbered<'a, T>(&'a self, key: &str, rows: &'a [T]) -> impl Iterator<Item = (usize, &'a T)> {
        let left_out = self.left_out.get(key).map_or(&[][..], Vec::as_slice);
        (1..).filter(|number| !left_out.contains(number)).zip(rows)
    }

    /// True if the program uses reactions of members to answers.
    #[must_use]
    pub fn wants_reactions(&self) -> bool {
        self.interjection.backoff_after > 0 || !self.llm.experiments.is_empty()
    }

    /// Returns the problems that prevent `staffai run`.
    #[must_use]
    pub fn require_for_run(&self) -> Vec<Problem> {
        let problem =
            |key: &str, fix: String| Problem { key: key.to_owned(), value: None, place: env::name_of(key), fix };
        let missing = |key: &str, fix: &str| problem(key, format!("is not set; {fix}"));
        let mut problems = Vec::new();
        let slack = &self.slack;
        if self.discord.token.is_none() && slack.bot_token.is_none() && slack.app_token.is_none() {
            let fix = "run `staffai init`, or set it to the bot's token from Discord's developer portal (for Slack: SLACK_BOT_TOKEN and SLACK_APP_TOKEN); `staffai playground` needs no token";
            problems.push(missing("discord.token", fix));
        }
        // Beside Discord, one token alone leaves the door closed: the variable may belong to another program.
        if self.discord.token.is_none() && slack.bot_token.is_some() != slack.app_token.is_some() {
            let (key, other) = if slack.bot_token.is_some() {
                ("slack.app_token", "SLACK_BOT_TOKEN")
            } else {
                ("slack.bot_token", "SLACK_APP_TOKEN")
            };
            problems.push(missing(
                key,
                &format!("{other} is, and Slack needs both; `staffai init slack` says where both are"),
            ));
        }
        problems.extend(self.discord.token_mistake().map(|fix| problem("discord.token", fix.to_owned())));
        if self.llm.model.is_none() {
            problems.push(missing("llm.model", "set it to the name of a model, such as gpt-5-mini"));
        }
        problems
    }
}

/// Settings with their origins.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// The origin of each key's value.
    pub origins: BTreeMap<String, Origin>,
    /// Warnings, which never contain a secret.
    pub warnings: Vec<String>,
    /// The displayable value of each key.
    pub shown: BTreeMap<String, String>,
    /// Variables by name, for files that refer to them.
    pub variables: Variables,
}

impl Loaded {
    /// True if a layer sets the model endpoint; otherwise its address is the default.
    #[must_use]
    pub fn llm_configured(&self) -> bool {
        self.origins.get("llm.url").is_some_and(|origin| origin.layer > Layer::Default)
    }
}

/// The complete result of reading a configuration, including mistakes; never a secret value.
#[derive(Debug)]
pub struct Examined {
    /// The settings without unreadable values. `None` if they cannot be built.
    pub loaded: Option<Loaded>,
    /// All mistakes, in the order of the keys.
    pub problems: Vec<Problem>,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// Reads all layers.
///
/// # Errors
/// All mistakes, in the order of the keys; never a secret value.
pub fn load(sources: &Sources) -> Result<Loaded, Vec<Problem>> {
    let Examined { loaded, problems, .. } = examine(sources);
    loaded.filter(|_| problems.is_empty()).ok_or(problems)
}

/// Reads all layers and continues after mistakes.
#[must_use]
pub fn examine(sources: &Sources) -> Examined {
    let mut gathered = layers::gather(sources);
    let mut problems = std::mem::take(&mut gathered.problems);
    let mut warnings = std::mem::take(&mut gathered.warnings);
    let left_out = leave_out_unreadable(&mut gathered.assignments, &mut problems, &mut warnings);

    let mut origins: BTreeMap<String, Origin> =
        defaults::entries().into_iter().map(|entry| (entry.key, Origin::new(Layer::Default))).collect();
    origins.extend(gathered.assignments.iter().map(|set| (set.key.clone(), set.origin.clone())));

    let merged = merge(&gathered.assignments);
    if let Ok(merged) = &merged {
        say_defaults(&mut origins, merged);
    }
    let read = merged.and_then(|merged| Ok((shown_values(&merged), merged.try_deserialize::<Settings>()?)));
    let (shown, mut settings) = match read {
        Ok(read) => read,
        Err(error) => {
            problems.push(whole(&error));
            return Examined { loaded: None, problems, warnings };
        }
    };
    settings.left_out = left_out;
    let found = check::check(&mut settings, &origins, &shown, sources.files.as_ref());
    problems.extend(found.problems);
    warnings.extend(found.warnings);
    problems.sort_by(|left, right| left.key.cmp(&right.key));
    let told = warnings.clone();
    let mut loaded = Loaded { settings, origins, warnings: told, shown, variables: gathered.variables };
    if sources.purpose == Purpose::Playground {
        own_folder(&mut loaded);
    }
    Examined { loaded: Some(loaded), problems, warnings }
}

/// Treats a file's value that equals the default as the default: a copy of `config/default.toml` has the same effect as
/// no file.
fn say_defaults(origins: &mut BTreeMap<String, Origin>, merged: &Config) {
    let Ok(defaults) = merge(&[]) else { return };
    let value = |config: &Config, key: &str| config.get::<Value>(key).ok().map(|value| value.kind);
    for (key, origin) in origins.iter_mut().filter(|(_, origin)| origin.layer == Layer::File) {
        if value(merged, key) == value(&defaults, key) {
            *origin = Origin::new(Layer::Default);
        }
    }
}

/// Gives the playground its own folder, because it must not change the data of a service on the same machine.
fn own_folder(loaded: &mut Loaded) {
    loaded.settings.store.dir.push("playground");
    loaded.shown.insert("store.dir".into(), loaded.settings.store.dir.display().to_string());
    loaded.settings.tools.mcp_config = None;
    loaded.shown.insert("tools.mcp_config".into(), String::new());
}

fn merge(assignments: &[Assignment]) -> Result<Config, ConfigError> {
    let mut builder = Config::builder().add_source(File::from_str(defaults::DEFAULT_TOML, FileFormat::Toml));
    for layer in assignments.chunk_by(|left, right| left.origin == right.origin) {
        builder = builder.add_source(LayerSource(layer.to_vec()));
    }
    builder.build()
}

/// Tests each value alone with the defaults and removes unreadable ones, so that one mistake does not hide another. In
/// a list of tables only the invalid rows are removed; their numbers are returned by key.
fn leave_out_unreadable(
    assignments: &mut Vec<Assignment>,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<String>,
) -> BTreeMap<String, Vec<usize>> {
    let mut left_out = BTreeMap::new();
    if merge(assignments).and_then(Config::try_deserialize::<Settings>).is_ok() {
        return left_out;
    }
    let effective: BTreeMap<String, Assignment> =
        assignments.iter().map(|set| (set.key.clone(), set.clone())).collect();
    for (key, set) in effective {
        let alone = merge(std::slice::from_ref(&set)).and_then(Config::try_deserialize::<Settings>);
        let Err(error) = alone else { continue };
        let fix = message(&error);
        if TOLERATED.contains(&key.as_str()) {
            warnings.push(format!("{key} ({}) {fix}; the default is used", set.origin));
        } else {
            let value = if env::is_secret(&key) { None } else { text(&set.value) };
            problems.push(Problem { value, place: set.origin.to_string(), fix, key: key.clone() });
        }
        let kept = readable_rows(&set);
        assignments.retain(|other| other.key != key);
        if let Some((set, numbers)) = kept {
            assignments.push(set);
            left_out.insert(key, numbers);
        }
    }
    left_out
}

/// The most rows of a list that are tested one by one.
const ROWS_TRIED_MAX: usize = 128;

/// Returns the readable rows of a list and the numbers of the others. `None` if the value is not a list of tables.
fn readable_rows(set: &Assignment) -> Option<(Assignment, Vec<usize>)> {
    let rows = match &set.value.kind {
        ValueKind::Array(rows) => rows.clone(),
        ValueKind::String(text) => {
            let tables = read::tables(text).ok()?;
            tables.into_iter().map(Value::deserialize).collect::<Result<_, _>>().ok()?
        }
        _ => return None,
    };
    if rows.len() > ROWS_TRIED_MAX || !rows.iter().all(|row| matches!(row.kind, ValueKind::Table(_))) {
        return None;
    }
    let of = |rows: Vec<Value>| Assignment { value: rows.into(), ..set.clone() };
    let reads = |row: &Value| merge(&[of(vec![row.clone()])]).and_then(Config::try_deserialize::<Settings>).is_ok();
    let (kept, left_out): (Vec<_>, Vec<_>) = (1..).zip(rows).partition(|(_, row)| reads(row));
    let numbers = left_out.into_iter().map(|(number, _)| number).collect();
    Some((of(kept.into_iter().map(|(_, row)| row).collect()), numbers))
}

/// Keys whose unreadable value harmlessly meant the default in the Python bot.
const TOLERATED: [&str; 1] = ["presence.days"];

fn message(error: &ConfigError) -> String {
    match error {
        ConfigError::Message(message) => message.replace('\n', ", "),
        ConfigError::At { error, .. } => message(error),
        ConfigError::Type { expected, .. } => format!("must be {expected}"),
        other => other.to_string(),
    }
}

/// Returns the problem of readable values that cannot be combined, which should never occur.
fn whole(error: &ConfigError) -> Problem {
    Problem { key: "configuration".into(), value: None, place: "all layers".into(), fix: message(error) }
}

fn text(value: &Value) -> Option<String> {
    let plain = read::Plain::deserialize(value.clone()).ok()?;
    plain.text().map(|text| shown(&text))
}

/// Secret keys that are addresses: only their credentials are secret.
const ADDRESSES: [&str; 2] = ["redis.url", "tools.nats_url"];

fn without_login(value: &Value) -> String {
    let plain = read::Plain::deserialize(value.clone()).ok().and_then(|plain| plain.text());
    plain.filter(|text| text.contains("://")).map_or_else(|| show::MASK.into(), |text| address::shown_address(&text))
}

fn shown_values(merged: &Config) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for entry in defaults::entries() {
        let value = merged.get::<Value>(&entry.key).ok();
        let text = value.as_ref().map_or_else(String::new, |value| text(value).unwrap_or_else(|| "(rows)".into()));
        let shown = match value.as_ref().filter(|_| env::is_secret(&entry.key) && !text.is_empty()) {
            // The host is not secret and helps to find a mistake.
            Some(value) if ADDRESSES.contains(&entry.key.as_str()) => without_login(value),
            Some(_) => show::MASK.into(),
            None => text,
        };
        values.insert(entry.key, shown);
    }
    values
}
