//! Log lines, metrics and traces of the program. Nothing here makes decisions or waits.
//!
//! A line consists of an event's own fields and the `actor` and `turn` of its span. Secrets are redacted in each value
//! before it is written. Text of members only appears if the operator enabled it.

pub mod events;

pub mod metrics;
pub mod tally;
mod turn_lines;

#[cfg(feature = "otlp")]
pub mod traces;

mod line;

#[cfg(feature = "playground")]
pub mod log_file;

mod panics;

mod redact;

mod writer;

use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::RwLock;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

use crate::line::{LineLayer, Style};
pub use crate::redact::Redaction;
use crate::tally::Tally;
pub use crate::turn_lines::TurnLines;
use crate::writer::Writer;
use ports::Clock;

/// The longest time for which a panic waits until its line is written. The line may be the last: a panic within a panic
/// aborts the process.
const PANIC_TIMEOUT: Duration = Duration::from_millis(100);

/// Libraries whose warnings and errors are logged. All others are silent, because several print bodies and headers.
const LIBRARIES: [&str; 5] = ["ractor", "redb", "redis", "rustls", "async_nats"];

/// Options of the log.
pub struct LogOptions {
    /// A level (`info`, also Python's `WARNING`), or a list such as `info,staffai::discord=debug`.
    pub filter: String,
    /// The format of lines.
    pub format: LogFormat,
    /// True if message and prompt contents are written.
    pub content: bool,
    /// Texts that are replaced by `***` everywhere.
    pub redact: Redaction,
    /// The output: standard output in production.
    pub out: Box<dyn Write + Send>,
    /// The clock of timestamps.
    pub clock: Arc<dyn Clock>,
    /// The store of recent lines, if any.
    pub kept: Option<TurnLines>,
    /// Counts the dropped lines.
    pub tally: Arc<Tally>,
}

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Human-readable.
    Pretty {
        /// True if the level is coloured.
        color: bool,
    },
}

/// Keeps the log running. Dropping it writes pending lines, for a bounded time.
#[must_use = "dropping the guard ends the log"]
#[derive(Debug)]
pub struct LogGuard(#[expect(dead_code, reason = "only its drop is used")] Writer);

/// Starts the log of this process and routes panics to it. Must be called once, early in `main`.
///
/// # Errors
/// The filter is invalid, the writer's thread cannot start, or a log was started before.
pub fn init(options: LogOptions) -> Result<LogGuard, String> {
    let filter = targets(&options.filter)?;
    let writer = Writer::start(options.out, options.clock.clone(), options.format, (options.kept, options.tally))?;
    let lines = writer.lines();
    let layer =
        LineLayer::new(Style { format: options.format, content: options.content }, options.redact, options.clock, {
            let lines = lines.clone();
            move |line, level| lines.send(line, level)
        });
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(filter).with(layer))
        .map_err(|_| "a log was already started in this process".to_owned())?;
    let content = options.content;
    std::panic::set_hook(Box::new(move |info| {
        panics::log(info, content);
        lines.flush(PANIC_TIMEOUT);
    }));
    Ok(LogGuard(writer))
}

/// The ranges of the bot's work that this process has, once it has one.
static RANGES: RwLock<Option<String>> = RwLock::new(None);

/// Writes these ranges of the bot's work to each further line.
pub fn show_range(ranges: &str) {
    *RANGES.write() = Some(ranges.to_owned());
}

/// Returns the span of a turn's tool call in W3C Trace Context format.
#[cfg(feature = "otlp")]
#[must_use]
pub fn trace_parent(turn: &str, call: usize) -> Option<String> {
    Some(traces::spans::trace_parent(turn, call as u64))
}

/// Returns `None`: this build sends no traces.
#[cfg(not(feature = "otlp"))]
#[must_use]
pub const fn trace_parent(_turn: &str, _call: usize) -> Option<String> {
    None
}

/// Checks a log filter without starting a log.
///
/// # Errors
/// A sentence with the valid forms.
pub fn check_filter(text: &str) -> Result<(), String> {
    targets(text).map(drop)
}

fn targets(text: &str) -> Result<Targets, String> {
    let normal: Vec<String> = text.split(',').map(|part| crate_target(python_level(part.trim()))).collect();
    let wrong = || {
        "must be a level (error, warn, info, debug, trace, off) or a list of target=level such as info,staffai=debug"
            .to_owned()
    };
    // A bare word that is not a level is a mistyped level, not a target.
    if normal.iter().any(|part| !part.contains('=') && !is_own(part) && LevelFilter::from_str(part).is_err()) {
        return Err(wrong());
    }
    let asked = Targets::from_str(&normal.join(",")).map_err(|_| wrong())?;
    let own = asked.default_level().unwrap_or(LevelFilter::INFO);
    let parts = asked.iter().filter(|(target, _)| is_own(target)).map(|(target, level)| (target.to_owned(), level));
    Ok(Targets::new()
        .with_targets(LIBRARIES.map(|library| (library, own.min(LevelFilter::WARN))))
        .with_target("staffai", own)
        .with_targets(parts.collect::<Vec<_>>()))
}

fn is_own(target: &str) -> bool {
    target == "staffai" || target.starts_with("staffai::") || target.starts_with("staffai_")
}

/// Converts a part of a filter: `staffai::store` stands for the crate `staffai_store`.
fn crate_target(part: &str) -> String {
    let part = part.to_ascii_lowercase();
    match part.strip_prefix("staffai::") {
        Some(inside) if !inside.starts_with("app") => format!("staffai_{inside}"),
        _ => part,
    }
}

fn python_level(text: &str) -> &str {
    match text.to_ascii_uppercase().as_str() {
        "WARNING" => "warn",
        "CRITICAL" | "FATAL" => "error",
        "NOTSET" | "" => "info",
        _ => text,
    }
}

#[cfg(test)]
mod tests;
