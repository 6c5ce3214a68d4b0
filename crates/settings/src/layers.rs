//! Gathers what each layer sets, with its place: files, `.env`, environment, secret files, options.
//!
//! Only known keys come out of here. What is wrong with names and files is reported here; what is wrong
//! with values is found later, because a stronger layer may replace them.

mod files;
mod names;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use config::{ConfigError, Map, Source, Value};

use super::defaults;
use super::dotenv::{self, DotEnv};
use super::env::{Rank, VARIABLES};
use super::problem::{Layer, Origin, Problem};
use super::sources::{ENV_FILE, Purpose, Sources, Variables};

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

/// Defaults of the playground, where they differ: one person tries everything there, and nothing costs money.
const PLAYGROUND: [(&str, &str); 3] =
    [("discord.direct_messages", "answer"), ("rate_limiter.messages", "30"), ("rate_limiter.tokens", "1000000")];

/// The file of MCP servers, where no other one is named.
const MCP_FILE: &str = "mcp.json";

/// Reads every source.
pub fn gather(sources: &Sources) -> Gathered {
    let mut warnings = Vec::new();
    let dotenv = Arc::new(read_dotenv(sources, &mut warnings));
    let variables = Variables::new(sources, Arc::clone(&dotenv));
    let mut gathering = Gathering {
        sources,
        known: defaults::entries().into_iter().map(|entry| entry.key).collect(),
        assignments: Vec::new(),
        fallbacks: Vec::new(),
        ignored: BTreeSet::new(),
        problems: Vec::new(),
        warnings,
    };
    if sources.purpose == Purpose::Playground {
        // They are no settings of the operator, so what the playground ignores does not include them.
        gathering.assignments.extend(PLAYGROUND.map(|(key, value)| Assignment {
            key: key.to_owned(),
            value: value.into(),
            origin: Origin::new(Layer::Default),
        }));
    }
    gathering.config_files();
    gathering.dotenv(&dotenv);
    gathering.environment();
    gathering.secret_files(&dotenv);
    gathering.use_fallbacks();
    for (key, value) in &sources.options {
        gathering.assign(key, value.as_str().into(), Origin::new(Layer::CommandLine));
    }
    gathering.tell_ignored();
    Gathered {
        assignments: gathering.assignments,
        problems: gathering.problems,
        warnings: gathering.warnings,
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
        let pair = |set: &Assignment| (set.key.clone(), set.value.clone());
        Ok(self.0.iter().map(pair).collect())
    }
}

fn read_dotenv(sources: &Sources, warnings: &mut Vec<String>) -> DotEnv {
    let file = match sources.files.read(Path::new(ENV_FILE)) {
        Ok(text) => dotenv::parse(&text, &sources.environment),
        Err(error) => {
            if !is_missing(&error) {
                warnings.push(format!("{ENV_FILE} cannot be read and is left out: {error}"));
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
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The gathering in progress; its steps are in the files below.
struct Gathering<'a> {
    sources: &'a Sources,
    known: Vec<String>,
    assignments: Vec<Assignment>,
    fallbacks: Vec<Assignment>,
    /// What is set and left out on purpose.
    ignored: BTreeSet<String>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

impl Gathering<'_> {
    fn assign(&mut self, key: &str, value: Value, origin: Origin) {
        if self.is_ignored(key) {
            self.ignored.insert(origin.variable.unwrap_or_else(|| key.to_owned()));
        } else {
            self.assignments.push(Assignment { key: key.to_owned(), value, origin });
        }
    }

    /// What is set and has no effect is named.
    fn tell_ignored(&mut self) {
        if self.sources.purpose == Purpose::Playground && self.sources.files.probe(Path::new(MCP_FILE)).is_ok() {
            self.ignored.insert(MCP_FILE.to_owned());
        }
        if !self.ignored.is_empty() {
            let names: Vec<&str> = self.ignored.iter().map(String::as_str).collect();
            self.warnings.push(format!("the playground ignores {}", names.join(", ")));
        }
    }

    fn problem(&mut self, key: &str, origin: &Origin, fix: impl Into<String>) {
        if !self.is_ignored(key) {
            let place = origin.to_string();
            self.problems.push(Problem { key: key.to_owned(), value: None, place, fix: fix.into() });
        }
    }

    /// The playground has its own Discord and store, and must never reach for the real ones.
    fn is_ignored(&self, key: &str) -> bool {
        let section = key.split('.').next().unwrap_or_default();
        let real = matches!(section, "discord" | "redis") || matches!(key, "tools.mcp_config" | "tools.nats_url");
        real && self.sources.purpose == Purpose::Playground
    }

    /// A fallback counts when no variable of ours sets its key; the last one found is the strongest.
    fn use_fallbacks(&mut self) {
        for fallback in std::mem::take(&mut self.fallbacks) {
            let ours = |other: &Assignment| {
                other.key == fallback.key && other.origin.layer > Layer::File && !is_fallback(other)
            };
            if !self.assignments.iter().any(ours) {
                self.assign(&fallback.key, fallback.value, fallback.origin);
            }
        }
    }
}

fn is_fallback(set: &Assignment) -> bool {
    let name = set.origin.variable.as_deref();
    VARIABLES.iter().any(|row| Some(row.name) == name && row.rank() == Rank::Fallback)
}
