//! Reads the configuration that the command line names, at a start and at each reload.

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

/// The way a command reads its configuration, at its start and at each reload.
#[derive(Clone)]
pub(crate) struct Reading {
    config: Vec<PathBuf>,
    format: Option<Format>,
    sources: fn(Sources) -> Sources,
    /// The secrets that the log of this command masks.
    pub redaction: Redaction,
    /// The last log lines that name a turn.
    pub lines: TurnLines,
    /// The settings that the command itself changes.
    pub adapt: Arc<dyn Fn(&mut Settings) + Send + Sync>,
    /// Returns a problem for each missing setting that the command requires.
    needs: fn(&Settings) -> Vec<Problem>,
}

impl Reading {
    /// Creates the reading of the command line's configuration, with its sources changed by `sources`.
    pub fn new(cli: &Cli, sources: fn(Sources) -> Sources) -> Self {
        let (Options { config, log_format: format }, redaction) = (cli.options(), Redaction::default());
        let (lines, adapt) = (TurnLines::default(), Arc::new(|_: &mut Settings| {}));
        Self { config, format, sources, redaction, lines, adapt, needs: |_| Vec::new() }
    }

    /// Adds the settings that the command requires.
    pub fn needing(self, needs: fn(&Settings) -> Vec<Problem>) -> Self {
        Self { needs, ..self }
    }

    /// Returns the reading of the same files by the service.
    #[cfg(feature = "playground")]
    pub fn of_service(&self) -> Self {
        Self { sources: |sources| sources, ..self.clone() }
    }

    /// Reads the configuration, and continues after each mistake.
    pub fn examine(&self) -> Examined {
        self.examine_with(|sources| sources)
    }

    /// Reads the configuration with the sources that `further` adds, and continues after each mistake.
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

    /// Reads the configuration, or returns every mistake: those of the settings, then those of the files and rows that
    /// they name.
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

    /// Reads the configuration. On mistakes, prints them and all warnings.
    pub fn load(&self) -> Result<Loaded, ()> {
        self.read().map_err(|mistakes| {
            print_warnings(&self.examine().warnings);
            for mistake in mistakes {
                eprintln!("{mistake}");
            }
        })
    }

    /// Returns the watched files, and the way to reread them.
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

/// Returns variables by name, for files that name one.
pub(crate) fn lookup(loaded: &Loaded) -> Lookup {
    let variables = loaded.variables.clone();
    Arc::new(move |name| variables.get(name))
}
