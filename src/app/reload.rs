//! What the running configuration is made of, and how it is read again.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::SecretString;

use super::files;
use crate::actors::config_watcher::Files;
use crate::actors::running::Running;
use crate::config::Settings;
use crate::config::edges::DirectMessages;
use crate::domain::triage::Rules;
use crate::domain::turn::{HistoryScope, LaneRule, Policy, ReplyContract};
use crate::llm::client::Client;
use crate::llm::registry::{self, DefaultRow, Registry};

/// The most files of a folder of prompts that are watched.
const WATCHED_MAX: usize = 10_000;
/// How deep folders of prompts are watched.
const WATCHED_DEPTH: usize = 4;

/// Looks up the value of a variable by name, for files that name one.
pub type Lookup = Arc<dyn Fn(&str) -> Option<SecretString> + Send + Sync>;

/// Settings, and the variables that files may name.
#[derive(Clone)]
pub struct Configured {
    /// The settings.
    pub settings: Settings,
    /// Values of variables by name.
    pub lookup: Lookup,
}

/// Reads the configuration anew; each mistake is a sentence with its place and fix.
pub type Reread = Arc<dyn Fn() -> Result<Configured, Vec<String>> + Send + Sync>;

/// The files behind what runs.
pub struct Watched {
    /// Reads the settings anew.
    pub reread: Reread,
    /// Files and folders that settings come from or name.
    pub paths: BTreeSet<PathBuf>,
}

impl Watched {
    /// Watches the files that settings come from, and those that these settings name.
    pub fn new(reread: Reread, sources: impl IntoIterator<Item = PathBuf>, settings: &Settings) -> Self {
        let mut paths: BTreeSet<PathBuf> = sources.into_iter().collect();
        paths.extend([
            settings.prompts.dir.clone(),
            settings.llm.schema.clone(),
            settings.llm.models.clone(),
            settings.presence.prompt.clone(),
        ]);
        Self { reread, paths }
    }
}

impl Files for Watched {
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut left = WATCHED_MAX;
        for path in &self.paths {
            stamp(path, WATCHED_DEPTH, &mut left, &mut hasher);
        }
        hasher.finish()
    }

    fn read(&self) -> Result<Running, Vec<String>> {
        running((self.reread)()?)
    }
}

/// Reads and checks everything that belongs to these settings.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub fn running(configured: Configured) -> Result<Running, Vec<String>> {
    let Configured { settings, lookup } = configured;
    let mut mistakes = Vec::new();
    let prompts = files::prompts(&settings).map_err(|mistake| mistakes.push(mistake)).ok();
    let schema = files::schema(&settings).map_err(|mistake| mistakes.push(mistake)).ok();
    let models = models(&settings, &lookup).map_err(|more| mistakes.extend(more)).ok();
    let (Some(prompts), Some(schema), Some((models, rows))) = (prompts, schema, models) else { return Err(mistakes) };
    let rules = rules(&settings);
    let mut hasher = DefaultHasher::new();
    // The settings' debug form shows no secret; a changed secret alone does not change the version.
    (
        format!("{settings:?}"),
        (&*prompts.personality, &*prompts.interjection, &*prompts.activity),
        schema.document().to_string(),
        rows,
    )
        .hash(&mut hasher);
    let version = format!("{:016x}", hasher.finish());
    Ok(Running { settings, prompts, schema, rules, models: Arc::new(models), version })
}

fn models(settings: &Settings, lookup: &Lookup) -> Result<(Client, String), Vec<String>> {
    let (rows, text) = rows(settings, lookup)?;
    let client = Client::new(rows).map_err(|mistake| vec![mistake])?;
    Ok((client, text))
}

/// The configured model rows, and the text of their file.
///
/// # Errors
/// Each mistake in them.
pub(super) fn rows(settings: &Settings, lookup: &Lookup) -> Result<(Registry, String), Vec<String>> {
    let llm = &settings.llm;
    let text = files::read(&llm.models).map_err(|mistake| vec![mistake])?;
    let path = llm.models.display().to_string();
    let file = text.as_deref().map(|text| registry::File { path: &path, text });
    let default = DefaultRow {
        model: llm.model.clone().unwrap_or_default(),
        base_url: llm.base_url(),
        key: llm.key.clone(),
        timeout: llm.timeout,
    };
    let rows = registry::build(file, &default, lookup.as_ref())?;
    Ok((rows, text.unwrap_or_default()))
}

/// Who is answered, and what this door wants of an answer.
fn rules(settings: &Settings) -> Rules {
    let texts = |ids: &[u64]| ids.iter().map(u64::to_string).collect::<HashSet<_>>();
    Rules {
        aliases: settings.members.aliases.clone(),
        ignored_roles: texts(&settings.members.ignored_roles),
        allowed_bots: texts(&settings.bots.allowed),
        direct_messages: settings.discord.direct_messages == DirectMessages::Answer,
        policy: Policy {
            reply: ReplyContract::Typed,
            history: HistoryScope::PersonInPlace,
            lane: LaneRule::Queue,
            model: None,
        },
    }
}

/// Takes in what shows that a file, or one in a folder, changed.
fn stamp(path: &Path, depth: usize, left: &mut usize, hasher: &mut DefaultHasher) {
    let Ok(about) = std::fs::metadata(path) else { return };
    if about.is_dir() {
        if depth == 0 {
            return;
        }
        let Ok(entries) = std::fs::read_dir(path) else { return };
        let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).take(*left).collect();
        inside.sort();
        for path in inside {
            stamp(&path, depth - 1, left, hasher);
        }
        return;
    }
    *left = left.saturating_sub(1);
    (path, about.len(), about.modified().ok()).hash(hasher);
}
