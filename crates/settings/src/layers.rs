//! Collects the assignments of each layer with their place: files, `.env`, environment, secret files, options.
//!
//! Only known keys are returned. Mistakes in names and files are reported here; mistakes in values are found later,
//! because a stronger layer may replace them.

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

/// The assignments of all layers, weakest first, and the mistakes.
pub struct Gathered {
    /// The later of two for one key counts.
    pub assignments: Vec<Assignment>,
    /// Mistakes that stop the program.
    pub problems: Vec<Problem>,
    /// Mistakes that do not.
    pub warnings: Vec<String>,
    /// Every variable by name.
    pub variables: Variables,
}

/// Deviating defaults of the playground, which has a single user and costs nothing.
const PLAYGROUND: [(&str, &str); 3] =
    [("discord.direct_messages", "answer"), ("rate_limiter.messages", "30"), ("rate_limiter.tokens", "1000000")];

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
        // These are not settings of the operator, so they are not reported as ignored.
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
    gathering.servers_by_default(&dotenv);
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

/// The assignments of one layer for the layering library.
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
                warnings.push(format!("{ENV_FILE} cannot be read and is ignored: {error}"));
            }
            DotEnv::default()
        }
    };
    for (line, reason) in &file.skipped {
        warnings.push(format!("{ENV_FILE}:{line} is ignored: {reason}"));
    }
    file
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The collection in progress; its steps are in the submodules.
struct Gathering<'a> {
    sources: &'a Sources,
    known: Vec<String>,
    assignments: Vec<Assignment>,
    fallbacks: Vec<Assignment>,
    /// Settings that are ignored on purpose.
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

    /// True if the playground ignores the key: it has its own Discord and store, and must never access the real ones.
    fn is_ignored(&self, key: &str) -> bool {
        let section = key.split('.').next().unwrap_or_default();
        let real = matches!(section, "discord" | "slack" | "redis" | "cluster")
            || matches!(key, "tools.mcp_config" | "tools.nats_url");
        real && self.sources.purpose == Purpose::Playground
    }

    /// Applies the last fallback of each key that no specific variable sets.
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
