//! The sources of the running configuration, and their reload.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::app::configured;
use crate::app::configured::{Configured, Reread};
use crate::app::mistakes::{self, Parts};
use crate::app::rows as changed_rows;
use crate::app::system::SystemClock;
use crate::app::{built_ins, doors, keys, triggers};
use actors::config_watcher::{FileFingerprints, Files};
use actors::services::running::Running;
use domain::keys::{MODEL_ROWS, REVOKED_KEYS};
use domain::limits::estimate::CHARS_A_TOKEN;
use domain::limits::{self, Limits};
use domain::prompt;
use domain::turn::ReplyContract;
use llm::client::Client;
use llm::registry::Registry;
use ports::Clock;
use settings::Settings;
use settings::community::LimitFor;
use telemetry::events::CONFIG_WARNING;

/// The maximum number of watched files in a folder of prompts.
const WATCHED_MAX: usize = 10_000;
/// The maximum depth of watched folders of prompts.
const WATCHED_DEPTH: usize = 4;

/// The files of the running configuration.
pub struct Watched {
    /// Rereads the settings.
    reread: Reread,
    /// The files that settings come from.
    sources: BTreeSet<PathBuf>,
    /// The files and folders that the last settings name.
    named: Mutex<BTreeSet<PathBuf>>,
}

impl Watched {
    /// Watches the files that settings come from, and the files that these settings name.
    pub fn new(reread: Reread, sources: impl IntoIterator<Item = PathBuf>, settings: &Settings) -> Self {
        Self { reread, sources: sources.into_iter().collect(), named: Mutex::new(named(settings)) }
    }

    /// Rereads the settings. The files that they name are watched from here on, even if they turn out to be wrong.
    ///
    /// # Errors
    /// Each mistake as a sentence with its place and fix.
    pub(super) fn configured(&self) -> Result<Configured, Vec<String>> {
        let configured = (self.reread)()?;
        *self.named.lock() = named(&configured.settings);
        Ok(configured)
    }
}

impl Files for Watched {
    fn fingerprints(&self) -> FileFingerprints {
        let mut looked = fingerprints(&self.sources);
        looked.extend(fingerprints(&self.named.lock()));
        looked
    }

    fn mirror(&self, key: &str, shared: &str) -> bool {
        let named = |file: &str| self.named.lock().iter().find(|path| path.ends_with(file)).cloned();
        match key {
            MODEL_ROWS => named(changed_rows::FILE).is_some_and(|path| changed_rows::mirror(&path, shared)),
            REVOKED_KEYS => named(keys::FILE).is_some_and(|path| keys::mirror(&path, shared, SystemClock.now())),
            _ => false,
        }
    }

    fn read(&self) -> (FileFingerprints, Result<Running, Vec<String>>) {
        let mut looked = fingerprints(&self.sources);
        let configured = self.configured();
        looked.extend(fingerprints(&self.named.lock()));
        (looked, configured.and_then(running))
    }
}

/// Returns the files and folders that settings name.
fn named(settings: &Settings) -> BTreeSet<PathBuf> {
    BTreeSet::from([
        settings.prompts.dir.clone(),
        settings.llm.schema.clone(),
        settings.llm.models.clone(),
        settings.presence.prompt.clone(),
    ])
    .into_iter()
    .chain(settings.tools.mcp_config.clone())
    .chain([keys::file(settings), changed_rows::file(settings)])
    .collect()
}

/// Returns the fingerprints of these files, and of the files in these folders.
fn fingerprints(paths: &BTreeSet<PathBuf>) -> FileFingerprints {
    let mut fingerprints = FileFingerprints::new();
    for path in paths {
        stamp(path, WATCHED_DEPTH, &mut fingerprints);
    }
    fingerprints
}

/// Reads and checks everything that belongs to these settings.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub fn running(configured: Configured) -> Result<Running, Vec<String>> {
    let Configured { settings, lookup, redaction } = configured;
    redaction.add(&configured::secrets(&settings));
    redaction.add(&built_ins::secrets(&settings, &lookup));
    redaction.add(&triggers::secrets(&settings, &lookup));
    let Parts { prompts, schema, rows, servers, keys, triggers, mistakes } = mistakes::examine(&settings, &lookup);
    let (
        Some(prompts),
        Some(schema),
        Some((registry, rows)),
        Some((servers, entries)),
        Some(keys),
        Some(triggers),
        true,
    ) = (prompts, schema, rows, servers, keys, triggers, mistakes.is_empty())
    else {
        let mut sentences: Vec<String> = mistakes.into_iter().map(|mistake| mistake.text).collect();
        if settings.llm.model.is_none() {
            sentences.push(MODEL_MISSING.to_owned());
        }
        return Err(sentences);
    };
    redaction.add(&servers.secrets);
    redaction.add(&registry.secrets());
    let notes = notes(&settings, &registry);
    let models = Client::new(registry).map_err(|mistake| vec![mistake])?;
    let models = models.with_servers(&servers.servers.entries);
    let doors = doors::rules(&settings);
    let mut hasher = DefaultHasher::new();
    // The debug form of the settings masks secrets; a changed secret alone does not change the version.
    (format!("{settings:?}"), &prompts, format!("{:?}", schema.form()), rows, entries, format!("{keys:?}"))
        .hash(&mut hasher);
    let version = format!("{:016x}", hasher.finish());
    let (limits, budgets) = (limits(&settings), settings.rate_limiter.budgets());
    let fixed = prompt::usual_chars(&prompts, ReplyContract::Typed) + schema.form().chars();
    let fixed_prompt = fixed as u64 / CHARS_A_TOKEN;
    let tool_rules = settings.tools.table();
    let tool_limits = settings.tools.call_limits();
    let (models, servers) = (Arc::new(models), Arc::new(servers.servers));
    Ok(Running {
        settings,
        prompts,
        schema,
        doors,
        limits,
        budgets,
        tool_rules,
        tool_limits,
        fixed_prompt,
        models,
        keys: Arc::new(keys),
        triggers,
        servers,
        notes,
        version,
    })
}

/// The message for a run without any model.
const MODEL_MISSING: &str = "llm.model (LITELLM_MODEL): is not set; set it to the name of a model, such as gpt-5-mini";

/// Returns the warnings about the model rows, which do not stop the program. They are logged too.
fn notes(settings: &Settings, registry: &Registry) -> Vec<String> {
    let off = registry.off().iter().map(|row| row.mistake.clone());
    let odd =
        triggers::without_their_rows(settings, registry.off()).into_iter().chain(without_summaries(settings, registry));
    let notes: Vec<String> = off.chain(odd).chain(registry.warnings().to_vec()).collect();
    for note in &notes {
        tracing::warn!(event = CONFIG_WARNING, key = "model rows", "{note}");
    }
    notes
}

/// Returns a warning if the row that should write summaries is not available.
pub(crate) fn without_summaries(settings: &Settings, registry: &Registry) -> Option<String> {
    let row = settings.summaries.row()?;
    let known = registry.rows().iter().any(|known| known.key == row);
    (!known).then(|| format!("summaries.model: no enabled model row is named {row}, so nothing is summarised"))
}

/// Returns the limits of members, roles and channels.
pub(crate) fn limits(settings: &Settings) -> limits::rules::LimitRules {
    let limiter = &settings.rate_limiter;
    let row = |row: &LimitFor| (row.id.clone(), Limits { messages: row.messages, tokens: row.tokens });
    limits::rules::LimitRules {
        base: Limits { messages: limiter.messages, tokens: limiter.tokens },
        roles: limiter.roles.iter().map(row).collect(),
        channels: limiter.channels.iter().map(row).collect(),
        exempt: settings.members.super_roles.iter().cloned().collect(),
        window: limiter.window,
    }
}

/// Adds the fingerprint of a file, or of the files in a folder.
fn stamp(path: &Path, depth: usize, fingerprints: &mut FileFingerprints) {
    let Ok(about) = std::fs::metadata(path) else { return };
    if about.is_dir() {
        if depth == 0 {
            return;
        }
        let Ok(entries) = std::fs::read_dir(path) else { return };
        let left = WATCHED_MAX.saturating_sub(fingerprints.len());
        for entry in entries.flatten().take(left) {
            stamp(&entry.path(), depth - 1, fingerprints);
        }
        return;
    }
    let mut hasher = DefaultHasher::new();
    (about.len(), about.modified().ok()).hash(&mut hasher);
    fingerprints.insert(path.to_owned(), hasher.finish());
}

#[cfg(test)]
mod tests;
