//! The log of this process, and its traces.

use std::io::IsTerminal;
use std::sync::Arc;

use super::reading::Reading;
use crate::app::configured::secrets;
use crate::app::system::SystemClock;
use crate::app::traces::{self, Traces};
use ports::Observer;
use settings::{Loaded, edges};
use telemetry::events::CONFIG_WARNING;
#[cfg(feature = "playground")]
use telemetry::log_file::LogFile;
use telemetry::tally::Tally;
use telemetry::{LogFormat, LogGuard, LogOptions};

/// The log of this process, and its traces.
pub(crate) struct Log {
    _lines: LogGuard,
    traces: Traces,
    /// The counts of this process.
    pub tally: Arc<Tally>,
    /// Further readers of events, beside those of every run.
    pub observers: Vec<Arc<dyn Observer>>,
}

impl Log {
    /// Exports the last traces and writes the last lines, with a timeout.
    pub async fn close(self) {
        self.traces.close().await;
    }
}

/// The destination of log lines.
pub(crate) enum LogTo {
    /// Standard output.
    Stdout,
    /// Standard error.
    #[cfg(feature = "playground")]
    Stderr,
    /// A file.
    #[cfg(feature = "playground")]
    File(LogFile),
}

/// Starts the log; prints the reason on failure.
#[cfg_attr(
    not(feature = "playground"),
    expect(clippy::needless_pass_by_value, reason = "the playground's file is moved into the log")
)]
pub(crate) fn log(loaded: &Loaded, reading: &Reading, to: LogTo) -> Result<Log, ()> {
    let settings = &loaded.settings;
    reading.redaction.add(&secrets(settings));
    let (terminal, out): (bool, Box<dyn std::io::Write + Send>) = match to {
        LogTo::Stdout => (std::io::stdout().is_terminal(), Box::new(std::io::stdout())),
        #[cfg(feature = "playground")]
        LogTo::Stderr => (std::io::stderr().is_terminal(), Box::new(std::io::stderr())),
        #[cfg(feature = "playground")]
        LogTo::File(file) => (false, Box::new(file)),
    };
    let pretty = match settings.log.format {
        edges::LogFormat::Json => false,
        edges::LogFormat::Pretty => true,
        edges::LogFormat::Auto => terminal,
    };
    let tally = Arc::<Tally>::default();
    let traces::Started { reader, traces, warning } = traces::start(&settings.telemetry, &reading.redaction, &tally);
    let options = LogOptions {
        filter: settings.log.level.clone(),
        format: if pretty { LogFormat::Pretty { color: terminal } } else { LogFormat::Json },
        content: settings.log.content,
        redact: reading.redaction.clone(),
        out,
        clock: Arc::new(SystemClock),
        kept: Some(reading.lines.clone()),
        tally: Arc::clone(&tally),
    };
    let lines = telemetry::init(options).map_err(|error| eprintln!("{error}"))?;
    for warning in loaded.warnings.iter().chain(&warning) {
        tracing::warn!(event = CONFIG_WARNING, warning, "configuration");
    }
    Ok(Log { _lines: lines, traces, tally, observers: reader.into_iter().collect() })
}
