//! Variables: `.env`, the environment, and the files that contain one value each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use config::Value;

use super::super::defaults;
use super::super::dotenv::DotEnv;
use super::super::env::{Rank, VARIABLES, general_name};
use super::super::problem::{Layer, Origin};
use super::super::read;
use super::super::sources::{ENV_FILE, secret_path};
use super::{Assignment, Gathering, is_missing};
use domain::near;
use domain::preferences::{BUILT_IN, Setting};

/// Names that other programs use for settings of staffai.
const NAMES_ELSEWHERE: [(&str, &str); 9] = [
    ("DISCORD_TOKEN", "DISCORD_BOT_TOKEN"),
    ("BOT_TOKEN", "DISCORD_BOT_TOKEN"),
    ("DISCORD_API_TOKEN", "DISCORD_BOT_TOKEN"),
    ("DISCORD_API_KEY", "DISCORD_BOT_TOKEN"),
    ("OPENAI_MODEL", "LITELLM_MODEL"),
    ("MODEL_NAME", "LITELLM_MODEL"),
    ("OPENAI_API_BASE", "OPENAI_BASE_URL"),
    ("LITELLM_BASE_URL", "LITELLM_API_URL"),
    ("LITELLM_URL", "LITELLM_API_URL"),
];

/// A variable of the Slackbot of `chatgpt-bots`: false disables tool servers for users without a choice of their own.
const SERVERS_BY_DEFAULT: &str = "MCP_ENABLED_DEFAULT";
/// The key that has this meaning here.
const MEMBERS_DEFAULTS: &str = "members.defaults";

/// A name, its key, and its rank.
type Named = (String, String, Rank);

impl Gathering<'_> {
    /// Reads the layer of the `.env` file.
    pub fn dotenv(&mut self, file: &DotEnv) {
        let values = file.values.iter().map(|(name, (value, line))| {
            let origin = Origin::new(Layer::DotEnv).variable(name).file(ENV_FILE, Some(*line));
            (name.as_str(), (value.as_str(), origin))
        });
        self.layer(ENV_FILE, &values.collect());
    }

    /// Reads the layer of the process environment.
    pub fn environment(&mut self) {
        let sources = self.sources;
        let values = sources.environment.iter().map(|(name, value)| {
            let origin = Origin::new(Layer::Environment).variable(name);
            (name.as_str(), (value.as_str(), origin))
        });
        self.layer("the environment", &values.collect());
    }

    /// Reads one layer of variables. Empty ones count as not set.
    fn layer(&mut self, place: &str, values: &BTreeMap<&str, (&str, Origin)>) {
        self.warn_of_unknown(place, values.keys().copied());
        let mut taken: BTreeMap<String, (String, &str)> = BTreeMap::new();
        for (name, key, rank) in self.names() {
            let Some((value, origin)) = values.get(name.as_str()) else {
                continue;
            };
            if value.trim().is_empty() {
                continue;
            }
            if self.is_ignored(&key) {
                self.ignored.insert(name);
                continue;
            }
            if rank == Rank::Fallback {
                let (value, origin) = (Value::from(*value), origin.clone());
                self.fallbacks.push(Assignment { key, value, origin });
            } else if let Some((first, other)) = taken.get(&key) {
                if other != value {
                    self.warnings.push(format!("{first} and {name} differ; {first} is used"));
                }
            } else {
                self.assign(&key, Value::from(*value), origin.clone());
                taken.insert(key, (name, value));
            }
        }
    }

    /// Returns all names: the rows first, then the general form of each key.
    fn names(&self) -> Vec<Named> {
        let rows = VARIABLES.iter().map(|row| (row.name.to_owned(), row.key.to_owned(), row.rank()));
        let general = self.known.iter().map(|key| (general_name(key), key.clone(), Rank::Ordinary));
        rows.chain(general).collect()
    }

    /// Warns about unknown names with staffai's prefix, and about misspellings of known ones.
    fn warn_of_unknown<'n>(&mut self, place: &str, present: impl Iterator<Item = &'n str>) {
        let names = self.names().into_iter().flat_map(|(name, ..)| [format!("{name}_FILE"), name]);
        let known: Vec<String> = names.collect();
        let all: BTreeSet<&str> = present.collect();
        let meant = |name: &str| {
            let (_, ours) = NAMES_ELSEWHERE.into_iter().find(|(elsewhere, _)| *elsewhere == name)?;
            (!all.contains(ours) && !self.is_set(ours)).then_some(ours)
        };
        let mut warnings = Vec::new();
        for name in all.iter().copied().filter(|name| !known.iter().any(|known| known == name)) {
            let ours = name.starts_with("STAFFAI_");
            let near = if ours {
                near::nearest(name, known.iter().map(String::as_str))
            } else {
                meant(name).or_else(|| defaults::slip_of(name, known.iter().map(String::as_str)))
            };
            // The environment is full of names of other programs.
            if ours || near.is_some() {
                let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
                warnings.push(format!("{name} in {place} is not a variable of staffai{hint}"));
            }
        }
        self.warnings.extend(warnings);
    }

    /// True if a variable of the environment or an earlier layer sets the same key as this name.
    fn is_set(&self, name: &str) -> bool {
        let key = VARIABLES.iter().find(|row| row.name == name).map(|row| row.key);
        let set = |value: &String| !value.trim().is_empty();
        self.sources.environment.get(name).is_some_and(set)
            || self.assignments.iter().any(|assignment| Some(assignment.key.as_str()) == key)
            || self.sources.files.probe(&secret_path(name)).is_ok()
            || self.sources.environment.contains_key(&format!("{name}_FILE"))
    }

    /// Reads `MCP_ENABLED_DEFAULT`. False is the default `tools built_in` of members, unless `members.defaults` is set.
    pub fn servers_by_default(&mut self, dotenv: &DotEnv) {
        let name = SERVERS_BY_DEFAULT;
        let own = self.sources.environment.get(name).filter(|value| !value.trim().is_empty());
        let own = own.map(|value| (value.as_str(), Origin::new(Layer::Environment).variable(name)));
        let (value, origin) = match (own, dotenv.values.get(name)) {
            (Some(own), _) => own,
            (None, Some((value, line))) if !value.trim().is_empty() => {
                (value.as_str(), Origin::new(Layer::DotEnv).variable(name).file(ENV_FILE, Some(*line)))
            }
            (None, _) => return,
        };
        let text = format!("{} {BUILT_IN}", Setting::Tools.name());
        match read::switch(value) {
            Some(true) => {}
            Some(false) if self.assignments.iter().any(|set| set.key == MEMBERS_DEFAULTS) => self.warnings.push(format!(
                "{origin} has no effect, because {MEMBERS_DEFAULTS} is set; list \"{text}\" there to disable tool servers by default"
            )),
            Some(false) => self.assign(MEMBERS_DEFAULTS, text.into(), origin),
            None => self.problem(MEMBERS_DEFAULTS, &origin, "must be true or false"),
        }
    }

    /// `<NAME>_FILE` takes precedence over `/run/secrets/<name>`, because it was set explicitly.
    pub fn secret_files(&mut self, dotenv: &DotEnv) {
        let mut taken: Vec<String> = Vec::new();
        for (name, key, rank) in self.names() {
            let variable = format!("{name}_FILE");
            if self.is_ignored(&key) {
                if self.sources.environment.contains_key(&variable) || dotenv.values.contains_key(&variable) {
                    self.ignored.insert(variable);
                }
                continue;
            }
            if rank == Rank::Ordinary && taken.contains(&key) {
                continue;
            }
            let chosen = self.sources.environment.get(&variable).filter(|path| !path.trim().is_empty());
            let chosen = chosen.or_else(|| dotenv.values.get(&variable).map(|(path, _)| path));
            let chosen = chosen.map(|path| path.trim()).filter(|path| !path.is_empty());
            let path = chosen.map_or_else(|| secret_path(&name), PathBuf::from);
            let origin = Origin::new(Layer::SecretFile).variable(&name).file(&path, None);
            match self.sources.files.read(&path) {
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) if rank == Rank::Fallback => {
                    self.fallbacks.push(Assignment { key, value: text.trim().into(), origin });
                }
                Ok(text) => {
                    self.assign(&key, text.trim().into(), origin);
                    taken.push(key);
                }
                Err(error) if chosen.is_none() && is_missing(&error) => {}
                Err(error) => {
                    let origin = Origin::new(Layer::SecretFile).variable(variable);
                    let fix = format!("the file {} cannot be read ({error})", path.display());
                    self.problem(&key, &origin, fix);
                }
            }
        }
    }
}
