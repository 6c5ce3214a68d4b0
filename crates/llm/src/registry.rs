//! The configured models: the rows of `models.json`, and the default row named by the environment.
//!
//! A row with its own `host` is active. A row without one describes a model that the default endpoint may have: it is
//! active if it says `"enabled": true`, or if the default row or the `fallback` of an active row names it. The
//! compiled-in rows therefore describe models but never activate one that was not requested.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use crate::chat::ChatCompletions;
use crate::row_wire::RowWire;
use domain::model::Row;

pub mod file;

#[cfg(test)]
mod tests;

use file::{Contents, Draft, Family, Host, Presence};

/// The compiled-in rows.
const SHIPPED: File<'static> =
    File { path: "config/models.json (compiled in)", text: include_str!("../../../config/models.json") };

/// Google's OpenAI-compatible endpoint.
const GOOGLE: &str = "https://generativelanguage.googleapis.com/v1beta/openai";

/// The sampling temperature of a row created from a model's name alone.
const MADE_TEMPERATURE: f64 = 0.7;

/// The contents of a `models.json`.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// Its path, for messages.
    pub path: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// Changes of rows made after their file was written.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a> {
    /// The location of the changes, for messages.
    pub path: &'a str,
    /// Changed fields by row key. A row that the file lacks is appended.
    pub rows: &'a Map<String, Value>,
}

/// The default model of the environment.
#[derive(Debug, Clone)]
pub struct DefaultRow {
    /// `LITELLM_MODEL`: the key of a row, or the name of a model at `base_url`.
    pub model: String,
    /// `LITELLM_API_URL`, with or without `/v1`.
    pub base_url: String,
    /// `LITELLM_API_KEY`; `None` sends no key.
    pub key: Option<SecretString>,
    /// The timeout of a call, unless the row sets one.
    pub timeout: Duration,
}

/// The location of a row's model.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The provider's name of the model.
    pub model: String,
    /// The address without a trailing slash; the wire appends its path.
    pub base: String,
    /// The wire to it.
    pub wire: RowWire,
    /// The bearer key; `None` sends no key.
    pub key: Option<SecretString>,
}

/// The active models.
#[derive(Debug, Clone)]
pub struct Registry {
    rows: Vec<Row>,
    endpoints: HashMap<String, Endpoint>,
    off: Vec<RowOff>,
    warnings: Vec<String>,
}

/// A requested row that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOff {
    /// The row's key.
    pub key: String,
    /// The reason, the place, and the remedy.
    pub mistake: String,
}

impl Registry {
    /// Returns the rows: the default one first, the others in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the location of a row's model.
    #[must_use]
    pub fn endpoint(&self, key: &str) -> Option<&Endpoint> {
        self.endpoints.get(key)
    }

    /// Returns the provider of each row: the key of the first row with the same address and the same key for calls.
    #[must_use]
    pub fn providers(&self) -> HashMap<String, String> {
        let mut first: HashMap<(&str, Option<&str>), &str> = HashMap::new();
        let mut providers = HashMap::new();
        for row in &self.rows {
            let Some(Endpoint { base, key, .. }) = self.endpoints.get(&row.key) else { continue };
            let key = key.as_ref().map(ExposeSecret::expose_secret);
            let provider = *first.entry((base, key)).or_insert(&row.key);
            providers.insert(row.key.clone(), provider.to_owned());
        }
        providers
    }

    /// Returns a sentence for each field that has no effect.
    #[must_use]
    pub fn without_effect(&self) -> Vec<String> {
        let native = self.rows.iter().filter(|row| row.native_mcp);
        let told = |row: &Row| {
            format!(
                "row {}: native_mcp has no effect yet: the bot connects to tool servers itself; take the field out",
                row.key
            )
        };
        native.map(told).collect()
    }

    /// Returns the rows that are disabled because the variable with their key is not set.
    #[must_use]
    pub fn off(&self) -> &[RowOff] {
        &self.off
    }

    /// Returns warnings about fields without effect that look like misspellings.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the keys of all calls, which must be redacted everywhere.
    #[must_use]
    pub fn secrets(&self) -> Vec<SecretString> {
        self.endpoints.values().filter_map(|endpoint| endpoint.key.clone()).collect()
    }

    /// Returns the rows, and the endpoints by row key.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Row>, HashMap<String, Endpoint>) {
        (self.rows, self.endpoints)
    }
}

/// Builds the registry of an unchanged file.
///
/// # Errors
/// See [`build_with`].
#[cfg(test)]
pub fn build(
    file: Option<File<'_>>,
    default: &DefaultRow,
    lookup: &dyn Fn(&str) -> Option<SecretString>,
) -> Result<Registry, Vec<String>> {
    build_with(file, None, default, lookup)
}

/// Returns all rows of a file, or the compiled-in ones, with their changes applied, including inactive ones.
///
/// # Errors
/// All mistakes, each with its place and remedy.
pub fn drafts(
    file: Option<File<'_>>,
    changes: Option<Changes<'_>>,
    timeout: Duration,
) -> Result<Vec<Draft>, Vec<String>> {
    let mut errors = Vec::new();
    let Contents { drafts, .. } = file::read(file.unwrap_or(SHIPPED), changes, timeout, &mut errors);
    if errors.is_empty() { Ok(drafts) } else { Err(errors) }
}

/// Builds the registry of a file, or of the compiled-in rows, with their changes applied. `lookup` returns the value of
/// the variable in a row's `env_key`.
///
/// # Errors
/// All mistakes, each with its place and remedy; never a secret.
pub fn build_with(
    file: Option<File<'_>>,
    changes: Option<Changes<'_>>,
    default: &DefaultRow,
    lookup: &dyn Fn(&str) -> Option<SecretString>,
) -> Result<Registry, Vec<String>> {
    let source = file.unwrap_or(SHIPPED);
    let mut errors = Vec::new();
    let Contents { mut drafts, families, warnings } = file::read(source, changes, default.timeout, &mut errors);
    // A file without families uses the compiled-in ones.
    let families =
        families.or_else(|| file::read(SHIPPED, None, default.timeout, &mut errors).families).unwrap_or_default();
    put_default_first(&mut drafts, source.path, (default, &families), &mut errors);
    check_fallbacks(&mut drafts, source.path, &mut errors);
    let mut drafts = taken(drafts);
    let off = without_key(&mut drafts, source.path, lookup);
    let keys: HashSet<String> = drafts.iter().map(|draft| draft.row.key.clone()).collect();
    for draft in &mut drafts {
        draft.row.fallback.retain(|name| keys.contains(name));
    }
    let default_base = file::address(&default.base_url)
        .map_err(|why| errors.push(format!("LITELLM_API_URL (or OPENAI_BASE_URL): {why}")))
        .unwrap_or_default();
    if default.key.as_ref().is_some_and(|key| !fits_header(key)) {
        errors.push(format!("LITELLM_API_KEY (or OPENAI_API_KEY): {BAD_KEY}"));
    }
    let mut registry = Registry { rows: Vec::new(), endpoints: HashMap::new(), off, warnings };
    for draft in drafts {
        let key = key_of(&draft, default, lookup).unwrap_or_else(|why| {
            errors.push(format!("{}: row {}: env_key: {why}", source.path, draft.row.key));
            None
        });
        let base = match draft.host {
            Host::Own(base) => base,
            Host::Google => GOOGLE.to_owned(),
            Host::Default => default_base.clone(),
        };
        registry.endpoints.insert(draft.row.key.clone(), Endpoint { model: draft.model, base, wire: draft.wire, key });
        registry.rows.push(draft.row);
    }
    if errors.is_empty() { Ok(registry) } else { Err(errors) }
}

/// Moves the default row to the front, or creates it if no row has its key.
fn put_default_first(
    drafts: &mut Vec<Draft>,
    path: &str,
    (default, families): (&DefaultRow, &[Family]),
    errors: &mut Vec<String>,
) {
    let mut first = match drafts.iter().position(|draft| draft.row.key == default.model) {
        Some(place) => drafts.remove(place),
        None => made(default, families),
    };
    if default.model.trim().is_empty() {
        errors.push("LITELLM_MODEL: is empty; set it to the key of a row or to the name of a model".to_owned());
    }
    if first.presence == Presence::Disabled {
        let key = &default.model;
        errors.push(format!(
            "{path}: row {key}: enabled: is false, but LITELLM_MODEL names this row; enable it or name another"
        ));
    }
    first.presence = Presence::Taken;
    drafts.insert(0, first);
}

/// Creates a row from a model's name and the first family that matches the name.
fn made(default: &DefaultRow, families: &[Family]) -> Draft {
    let name = default.model.to_lowercase();
    let family = families.iter().find(|family| name.contains(&family.pattern));
    let temperature = family.and_then(|family| family.temperature).unwrap_or(MADE_TEMPERATURE);
    Draft {
        row: Row {
            temperature: Some(temperature),
            schema_with_tools: family.is_some_and(|family| family.schema_with_tools),
            vision: family.is_some_and(|family| family.vision),
            ..Row::new(&default.model, default.timeout)
        },
        model: default.model.clone(),
        host: Host::Default,
        wire: RowWire::ChatCompletions(ChatCompletions::default()),
        env_key: None,
        presence: Presence::Taken,
    }
}

/// Checks that each fallback name is another row. Disabled rows may be named; they are skipped.
fn check_fallbacks(drafts: &mut [Draft], path: &str, errors: &mut Vec<String>) {
    let known: HashSet<String> = drafts.iter().map(|draft| draft.row.key.clone()).collect();
    for draft in drafts {
        let row = &mut draft.row;
        let mut seen = HashSet::new();
        row.fallback.retain(|name| seen.insert(name.clone()));
        for name in &row.fallback {
            if !known.contains(name) {
                errors.push(format!(
                    "{path}: row {}: fallback: no row is named {name}; add that row or remove the name",
                    row.key
                ));
            } else if *name == row.key {
                errors.push(format!("{path}: row {}: fallback: names the row itself; remove the name", row.key));
            }
        }
    }
}

/// Returns the active rows: independent ones, and those in their fallback lists.
fn taken(drafts: Vec<Draft>) -> Vec<Draft> {
    let by_key: HashMap<&str, &Draft> = drafts.iter().map(|draft| (draft.row.key.as_str(), draft)).collect();
    let mut wanted: Vec<&Draft> = drafts.iter().filter(|draft| draft.presence == Presence::Taken).collect();
    let mut keys: HashSet<String> = wanted.iter().map(|draft| draft.row.key.clone()).collect();
    while let Some(draft) = wanted.pop() {
        let named = draft.row.fallback.iter().filter_map(|name| by_key.get(name.as_str()));
        for other in named.filter(|other| other.presence != Presence::Disabled) {
            if keys.insert(other.row.key.clone()) {
                wanted.push(other);
            }
        }
    }
    drafts.into_iter().filter(|draft| keys.contains(&draft.row.key)).collect()
}

/// Removes the rows whose key variable is not set. The default row stays: the bot cannot answer without it, so its
/// missing key is a fatal mistake.
fn without_key(drafts: &mut Vec<Draft>, path: &str, lookup: &dyn Fn(&str) -> Option<SecretString>) -> Vec<RowOff> {
    let mut off = Vec::new();
    let mut first = true;
    drafts.retain(|draft| {
        let is_default = std::mem::take(&mut first);
        let Some(name) = draft.env_key.as_ref().filter(|_| !is_default) else { return true };
        if lookup(name).is_some_and(|key| !key.expose_secret().trim().is_empty()) {
            return true;
        }
        let key = draft.row.key.clone();
        let mistake = format!(
            "{path}: row {key}: is disabled, because the variable {name} that env_key names is not set; set it, or write \"enabled\": false"
        );
        off.push(RowOff { key, mistake });
        false
    });
    off
}

const BAD_KEY: &str = "has characters that are invalid in a header, such as a line break; set the bare key";

/// Returns the key of a row's calls. The default endpoint's key is only sent to the default endpoint.
fn key_of(
    draft: &Draft,
    default: &DefaultRow,
    lookup: &dyn Fn(&str) -> Option<SecretString>,
) -> Result<Option<SecretString>, String> {
    let Some(name) = &draft.env_key else {
        return match draft.host {
            Host::Default => Ok(default.key.clone().filter(|key| !key.expose_secret().is_empty())),
            Host::Google => {
                Err("is missing, but Google's endpoint needs a key; name the variable that holds it".to_owned())
            }
            Host::Own(_) => Ok(None),
        };
    };
    let key = lookup(name).filter(|key| !key.expose_secret().trim().is_empty());
    let key = key.ok_or_else(|| format!("the variable {name} is not set; set it, or write \"enabled\": false"))?;
    if fits_header(&key) { Ok(Some(key)) } else { Err(format!("the value of {name} {BAD_KEY}")) }
}

fn fits_header(key: &SecretString) -> bool {
    http::HeaderValue::from_str(key.expose_secret()).is_ok()
}
