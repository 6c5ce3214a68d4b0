//! The configuration as the command line names it, read at a start and again at each reload.

use std::path::PathBuf;
use std::sync::Arc;

use crate::app::configured::{Configured, Lookup};
use crate::app::reload::Watched;
use crate::app::{Cli, Format, Options, mistakes};
use settings::problem::Problem;
use settings::sources::{CONFIG_FILE, ENV_FILE, Sources};
use settings::{Examined, Loaded, Settings};
use telemetry::{Redaction, TurnLines};

pub(crate) fn print_warnings(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

pub(crate) fn print_problems(problems: &[Problem]) {
    for problem in problems {
        eprintln!("{problem}");
    }
}

/// How a command reads its configuration: at its start, and again at each reload.
#[derive(Clone)]
pub(crate) struct Reading {
    config: Vec<PathBuf>,
    format: Option<Format>,
    sources: fn(Sources) -> Sources,
    /// What the log of this command never shows.
    pub redaction: Redaction,
    /// The last lines of its log that name a turn.
    pub lines: TurnLines,
    /// What the command itself sets.
    pub adapt: Arc<dyn Fn(&mut Settings) + Send + Sync>,
    /// What the command cannot do without.
    needs: fn(&Settings) -> Vec<Problem>,
}

impl Reading {
    /// The configuration as the command line names it, its sources changed by `sources`.
    pub fn new(cli: &Cli, sources: fn(Sources) -> Sources) -> Self {
        let (Options { config, log_format: format }, redaction) = (cli.options(), Redaction::default());
        let (lines, adapt) = (TurnLines::default(), Arc::new(|_: &mut Settings| {}));
        Self { config, format, sources, redaction, lines, adapt, needs: |_| Vec::new() }
    }

    /// The same for a command that cannot do without something.
    pub fn needing(self, needs: fn(&Settings) -> Vec<Problem>) -> Self {
        Self { needs, ..self }
    }

    /// Reads it, and stops at no mistake.
    pub fn examine(&self) -> Examined {
        self.examine_with(|sources| sources)
    }

    /// Does the same with sources that `further` adds to.
    pub fn examine_with(&self, further: impl FnOnce(Sources) -> Sources) -> Examined {
        let mut sources = Sources::from_process(self.config.clone());
        if let Some(format) = self.format {
            let format = match format {
                Format::Json => "json",
                Format::Pretty => "pretty",
            };
            sources = sources.with_option("log.format", format);
        }
        let mut examined = settings::examine(&further((self.sources)(sources)));
        if let Some(loaded) = &mut examined.loaded {
            (self.adapt)(&mut loaded.settings);
        }
        examined
    }

    /// Reads it, or gives every mistake there is: those of the settings, then those of the files and rows that they name.
    fn read(&self) -> Result<Loaded, Vec<String>> {
        let Examined { loaded, mut problems, .. } = self.examine();
        problems.extend(loaded.iter().flat_map(|loaded| (self.needs)(&loaded.settings)));
        match loaded {
            Some(loaded) if problems.is_empty() => Ok(loaded),
            loaded => {
                let more = loaded.iter().flat_map(|loaded| mistakes::sentences(&loaded.settings, &lookup(loaded)));
                Err(problems.iter().map(ToString::to_string).chain(more).collect())
            }
        }
    }

    /// Reads it; when there are mistakes, prints every one, and what is odd beside them.
    pub fn load(&self) -> Result<Loaded, ()> {
        self.read().map_err(|mistakes| {
            print_warnings(&self.examine().warnings);
            for mistake in mistakes {
                eprintln!("{mistake}");
            }
        })
    }

    /// The files to watch, and how they are read again.
    pub(crate) fn watched(self, settings: &Settings) -> Watched {
        let mut files = self.config.clone();
        if files.is_empty() {
            files.push(CONFIG_FILE.into());
        }
        files.push(ENV_FILE.into());
        let redaction = self.redaction.clone();
        let reread = move || self.read().map(|loaded| configured(loaded, redaction.clone()));
        Watched::new(Arc::new(reread), files, settings)
    }
}

pub(crate) fn configured(loaded: Loaded, redaction: Redaction) -> Configured {
    let lookup = lookup(&loaded);
    Configured { settings: loaded.settings, lookup, redaction }
}

/// Variables by name, for files that name one.
pub(crate) fn lookup(loaded: &Loaded) -> Lookup {
    let variables = loaded.variables.clone();
    Arc::new(move |name| variables.get(name))
}
