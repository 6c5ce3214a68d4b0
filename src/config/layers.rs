//! Gathers what each layer sets, with its place: files, `.env`, environment, secret files, options.
//!
//! Only known keys come out of here. What is wrong with names and files is reported here; what is wrong
//! with values is found later, because a stronger layer may replace them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{ConfigError, Map, Source, Value};
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::defaults;
use super::dotenv::{self, DotEnv};
use super::env::{self, Rank, VARIABLES};
use super::problem::{Layer, Origin, Problem, shown};
use super::sources::{CONFIG_FILE, ENV_FILE, Purpose, Sources, Variables, secret_path};

/// One key set in one place.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// `section.key`, always a known one.
    pub key: String,
    /// The value as found.
    pub value: Value,
    /// The place.
    pub origin: Origin,
}

/// What all layers set, weakest first, and what was wrong on the way.
pub struct Gathered {
    /// Of two for one key the later counts.
    pub assignments: Vec<Assignment>,
    /// Mistakes that stop the program.
    pub problems: Vec<Problem>,
    /// Mistakes that do not.
    pub warnings: Vec<String>,
    /// Every variable by its name.
    pub variables: Variables,
}

/// Reads every source.
#[must_use]
pub fn gather(sources: &Sources) -> Gathered {
    let mut warnings = Vec::new();
    let dotenv = Arc::new(read_dotenv(sources, &mut warnings));
    let variables = Variables::new(sources, Arc::clone(&dotenv));
    let known = defaults::entries()
        .into_iter()
        .map(|entry| entry.key)
        .collect();
    let mut gathering = Gathering {
        sources,
        known,
        assignments: vec![],
        fallbacks: vec![],
        problems: vec![],
        warnings,
    };
    gathering.config_files();
    gathering.variables(Layer::DotEnv, &dotenv.values);
    let environment = sources
        .environment
        .iter()
        .map(|(name, value)| (name.clone(), (value.clone(), 0)))
        .collect();
    gathering.variables(Layer::Environment, &environment);
    gathering.secret_files(&dotenv);
    gathering.use_fallbacks();
    for (key, value) in &sources.options {
        gathering.assign(key, value.as_str().into(), Origin::new(Layer::CommandLine));
    }
    let Gathering {
        assignments,
        problems,
        warnings,
        ..
    } = gathering;
    Gathered {
        assignments,
        problems,
        warnings,
        variables,
    }
}

/// The assignments of one layer, as the layering library takes them.
#[derive(Debug, Clone)]
pub struct LayerSource(pub Vec<Assignment>);

impl Source for LayerSource {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self
            .0
            .iter()
            .map(|assignment| (assignment.key.clone(), assignment.value.clone()))
            .collect())
    }
}

fn read_dotenv(sources: &Sources, warnings: &mut Vec<String>) -> DotEnv {
    let file = match sources.files.read(Path::new(ENV_FILE)) {
        Ok(text) => dotenv::parse(&text, &sources.environment),
        Err(error) => {
            if !is_missing(&error) {
                warnings.push(format!(
                    "{ENV_FILE} cannot be read and is left out: {error}"
                ));
            }
            DotEnv::default()
        }
    };
    for (line, reason) in &file.skipped {
        warnings.push(format!("{ENV_FILE}:{line} is left out: {reason}"));
    }
    file
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Values and lines by name; the line is 0 where there are none.
type Named = BTreeMap<String, (String, usize)>;

struct Gathering<'a> {
    sources: &'a Sources,
    known: Vec<String>,
    assignments: Vec<Assignment>,
    fallbacks: Vec<Assignment>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

impl Gathering<'_> {
    fn assign(&mut self, key: &str, value: Value, origin: Origin) {
        if !self.is_ignored(key) {
            self.assignments.push(Assignment {
                key: key.to_owned(),
                value,
                origin,
            });
        }
    }

    /// The playground has its own Discord and store, and must never reach for the real ones.
    fn is_ignored(&self, key: &str) -> bool {
        let section = key.split('.').next().unwrap_or_default();
        let real = matches!(section, "discord" | "redis") || key == "tools.mcp_config";
        real && self.sources.purpose == Purpose::Playground
    }

    fn config_files(&mut self) {
        let named = &self.sources.config_files;
        let paths = if named.is_empty() {
            vec![PathBuf::from(CONFIG_FILE)]
        } else {
            named.clone()
        };
        for path in paths {
            match self.sources.files.read(&path) {
                Ok(text) => self.config_file(&path, &text),
                Err(error) if named.is_empty() && is_missing(&error) => {}
                Err(error) => self.problems.push(Problem {
                    key: path.display().to_string(),
                    value: None,
                    place: if named.is_empty() {
                        "working directory".into()
                    } else {
                        "--config".into()
                    },
                    fix: format!("cannot be read ({error}); name a readable TOML file"),
                }),
            }
        }
    }

    fn config_file(&mut self, path: &Path, text: &str) {
        let text = text.trim_start_matches('\u{feff}');
        let (spanned, errors) = DeTable::parse_recoverable(text);
        let values = match text.parse::<toml::Table>() {
            Ok(values) if errors.is_empty() => values,
            Ok(_) => return self.syntax(path, text, &errors),
            Err(error) if errors.is_empty() => return self.syntax(path, text, &[error]),
            Err(_) => return self.syntax(path, text, &errors),
        };
        for (section, table) in spanned.get_ref() {
            let name = section.get_ref().as_ref();
            let origin =
                Origin::new(Layer::File).file(path, Some(line_at(text, section.span().start)));
            if !self
                .known
                .iter()
                .any(|key| key.split('.').next() == Some(name))
            {
                self.unknown(name, &origin);
                continue;
            }
            let DeValue::Table(table) = table.get_ref() else {
                self.problem(
                    name,
                    None,
                    &origin,
                    format!("is a section; write [{name}] and its keys below"),
                );
                continue;
            };
            for key in table.keys() {
                let origin =
                    Origin::new(Layer::File).file(path, Some(line_at(text, key.span().start)));
                let full = format!("{name}.{}", key.get_ref());
                match values
                    .get(name)
                    .and_then(|section| section.get(key.get_ref().as_ref()))
                {
                    Some(value) if self.known.contains(&full) => {
                        self.toml_value(&full, value, origin)
                    }
                    _ => self.unknown(&full, &origin),
                }
            }
        }
    }

    fn toml_value(&mut self, key: &str, value: &toml::Value, origin: Origin) {
        match Value::deserialize(value.clone()) {
            Ok(value) => self.assign(key, value, origin),
            Err(_) => self.problem(
                key,
                None,
                &origin,
                "is not a kind of value that a setting can have".into(),
            ),
        }
    }

    fn syntax(&mut self, path: &Path, text: &str, errors: &[toml::de::Error]) {
        for error in errors {
            let line = error.span().map(|span| line_at(text, span.start));
            let origin = Origin::new(Layer::File).file(path, line);
            // The message only: the error's long form quotes the line, which may hold a secret.
            let fix = format!("is not valid TOML: {}", error.message().replace('\n', ", "));
            self.problem(&path.display().to_string(), None, &origin, fix);
        }
    }

    fn unknown(&mut self, key: &str, origin: &Origin) {
        if self.is_ignored(key) {
            return;
        }
        let sections = self
            .known
            .iter()
            .map(|key| key.split('.').next().unwrap_or_default());
        let near = if key.contains('.') {
            defaults::nearest(key, self.known.iter().map(String::as_str))
        } else {
            defaults::nearest(key, sections)
        };
        let hint = near.map_or_else(
            || "`staffai config` lists the keys there are".to_owned(),
            |near| format!("did you mean {near}"),
        );
        self.problem(key, None, origin, format!("there is no such key; {hint}"));
    }

    fn problem(&mut self, key: &str, value: Option<String>, origin: &Origin, fix: String) {
        self.problems.push(Problem {
            key: key.to_owned(),
            value,
            place: origin.to_string(),
            fix,
        });
    }

    /// One layer of variables. An empty one counts as not set.
    fn variables(&mut self, layer: Layer, named: &Named) {
        let set = |name: &str| {
            named
                .get(name)
                .filter(|(value, _)| !value.trim().is_empty())
        };
        let origin = |name: &str, line: usize| match layer {
            Layer::DotEnv => Origin::new(layer).variable(name).file(ENV_FILE, Some(line)),
            _ => Origin::new(layer).variable(name),
        };
        let mut taken: BTreeMap<String, (String, String)> = BTreeMap::new();
        let rows = VARIABLES
            .iter()
            .map(|row| (row.name.to_owned(), row.key.to_owned(), row.rank()));
        let general: Vec<_> = self.general_names(layer, named);
        for (name, key, rank) in rows.chain(general) {
            let Some((value, line)) = set(&name) else {
                continue;
            };
            if rank == Rank::Fallback {
                let origin = origin(&name, *line);
                self.fallbacks.push(Assignment {
                    key,
                    value: value.as_str().into(),
                    origin,
                });
                continue;
            }
            match taken.get(&key) {
                Some((first, other)) => {
                    if other != value && !self.is_ignored(&key) {
                        self.warnings
                            .push(format!("{first} and {name} differ; {first} is used"));
                    }
                }
                None => {
                    self.assign(&key, value.as_str().into(), origin(&name, *line));
                    taken.insert(key, (name, value.clone()));
                }
            }
        }
    }

    /// The names of the form `STAFFAI_<SECTION>__<KEY>`. Unknown names of ours are warned about.
    fn general_names(&mut self, layer: Layer, named: &Named) -> Vec<(String, String, Rank)> {
        let mut found = Vec::new();
        for name in named.keys().filter(|name| name.starts_with("STAFFAI_")) {
            let bare = name.strip_suffix("_FILE").unwrap_or(name);
            if VARIABLES
                .iter()
                .any(|row| row.name == name || row.name == bare)
            {
                continue;
            }
            let key_of = |name: &str| {
                self.known
                    .iter()
                    .find(|key| env::general_name(key) == name)
                    .cloned()
            };
            if let Some(key) = key_of(name) {
                found.push((name.clone(), key, Rank::Ordinary));
            } else if key_of(bare).is_none() {
                let general: Vec<String> = self
                    .known
                    .iter()
                    .map(|key| env::general_name(key))
                    .collect();
                let names = VARIABLES
                    .iter()
                    .map(|row| row.name)
                    .chain(general.iter().map(String::as_str));
                let hint = defaults::nearest(name, names)
                    .map_or_else(String::new, |n| format!("; did you mean {n}"));
                let place = if layer == Layer::DotEnv {
                    ENV_FILE
                } else {
                    "the environment"
                };
                self.warnings.push(format!(
                    "{name} in {place} is not a name staffai knows{hint}"
                ));
            }
        }
        found
    }

    /// `<NAME>_FILE` is stronger than `/run/secrets/<name>`, because somebody wrote it on purpose.
    fn secret_files(&mut self, dotenv: &DotEnv) {
        let rows = VARIABLES
            .iter()
            .map(|row| (row.name.to_owned(), row.key.to_owned(), row.rank()));
        let general = self
            .known
            .iter()
            .map(|key| (env::general_name(key), key.clone(), Rank::Ordinary));
        let mut taken: Vec<String> = Vec::new();
        for (name, key, rank) in rows.chain(general.collect::<Vec<_>>()) {
            if self.is_ignored(&key) || taken.contains(&key) && rank == Rank::Ordinary {
                continue;
            }
            let pointer = format!("{name}_FILE");
            let pointed = self
                .sources
                .environment
                .get(&pointer)
                .filter(|path| !path.trim().is_empty());
            let pointed = pointed.or_else(|| dotenv.values.get(&pointer).map(|(path, _)| path));
            let path =
                pointed.map_or_else(|| secret_path(&name), |path| PathBuf::from(path.trim()));
            let origin = Origin::new(Layer::SecretFile)
                .variable(&name)
                .file(&path, None);
            match self.sources.files.read(&path) {
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => {
                    let value = Value::from(text.trim());
                    if rank == Rank::Fallback {
                        self.fallbacks.push(Assignment { key, value, origin });
                    } else {
                        self.assign(&key, value, origin);
                        taken.push(key);
                    }
                }
                Err(error) if pointed.is_none() && is_missing(&error) => {}
                Err(error) => {
                    let fix = format!(
                        "the file {} cannot be read ({error})",
                        shown(&path.display().to_string())
                    );
                    self.problem(
                        &key,
                        None,
                        &Origin::new(Layer::SecretFile).variable(pointer),
                        fix,
                    );
                }
            }
        }
    }

    /// A fallback counts when no variable of ours sets its key; the last one found is the strongest.
    fn use_fallbacks(&mut self) {
        for fallback in std::mem::take(&mut self.fallbacks) {
            let ours = |other: &Assignment| {
                let name = other.origin.variable.as_deref();
                let fallback_name = VARIABLES
                    .iter()
                    .any(|row| Some(row.name) == name && row.rank() == Rank::Fallback);
                other.key == fallback.key && other.origin.layer > Layer::File && !fallback_name
            };
            if !self.assignments.iter().any(ours) {
                self.assign(&fallback.key, fallback.value, fallback.origin);
            }
        }
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}
