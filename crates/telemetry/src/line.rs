//! Formats one line of an event as the bytes to be written. Values are collected in a thread-local buffer.

mod values;

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use self::values::{Buffers, Values, json_text};
use crate::LogFormat;
use crate::redact::{Redaction, Redactor, bounded};
use ports::Clock;
use ports::vitals::rfc3339;

/// The longest line with its line break, in bytes: container runtimes split longer ones.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// The longest value, in bytes; the rest is cut off.
const MAX_VALUE_BYTES: usize = 4 * 1024;

/// The reserved bytes of each value used for searching, which is always present.
const MAX_NAME_BYTES: usize = 256;

/// The total bytes of values; the rest of a line is for field names, punctuation and the reserved values.
const VALUES_BYTES: usize = MAX_LINE_BYTES - 4 * 1024;

/// Fields with contents of members, prompts, models and tools.
const CONTENT_FIELDS: [&str; 5] = ["content", "prompt", "text", "arguments", "result"];

/// The values at the beginning of a human-readable line.
const FRONT: [&str; 3] = ["actor", "event", "message"];

/// The actor of lines outside of any actor: the program, which is the root of the tree.
pub(super) const ROOT: &str = "staffai";

#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub format: LogFormat,
    /// True if [`CONTENT_FIELDS`] are written.
    pub content: bool,
}

pub struct LineLayer<F> {
    style: Style,
    redaction: Redaction,
    clock: Arc<dyn Clock>,
    send: F,
}

impl<F: Fn(&str, Level)> LineLayer<F> {
    /// Creates a layer that passes each line, with its line break, and its level to `send`.
    pub fn new(style: Style, redaction: Redaction, clock: Arc<dyn Clock>, send: F) -> Self {
        Self { style, redaction, clock, send }
    }

    fn json(&self, level: Level, values: &Values, line: &mut String) {
        // Written by hand, because readers expect the time, the level and the message first.
        let _ = write!(line, r#"{{"timestamp":"{}","level":"{level}","message":"#, rfc3339(self.clock.now()));
        values.json("message", line);
        for slot in values.all().iter().filter(|slot| slot.name != "message") {
            line.push(',');
            json_text(line, &*slot.full_name());
            line.push(':');
            values.write_json(slot, line);
        }
        line.push_str("}\n");
    }

    fn pretty(&self, level: Level, values: &Values, color: bool, line: &mut String) {
        line.push_str(&rfc3339(self.clock.now())["1970-01-01T".len()..]);
        let _ =
            if color { write!(line, " \x1b[{}m{level:>5}\x1b[0m", hue(level)) } else { write!(line, " {level:>5}") };
        for slot in FRONT.iter().filter_map(|name| values.find(name)).filter(|slot| !values.text(slot).is_empty()) {
            line.push(' ');
            plain(values.text(slot), line);
        }
        for slot in values.all().iter().filter(|slot| slot.is_reserved || !FRONT.contains(&slot.name)) {
            let _ = write!(line, " {}=", slot.full_name());
            plain(values.text(slot), line);
        }
        line.push('\n');
    }
}

impl<S, F> Layer<S> for LineLayer<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Fn(&str, Level) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut names = Names::default();
        attributes.record(&mut NameFields { redactor: &self.redaction.now(), names: &mut names });
        span.extensions_mut().insert(names);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(names) = extensions.get_mut::<Names>() {
            values.record(&mut NameFields { redactor: &self.redaction.now(), names });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut buffers = Buffers::take();
        let Buffers { values, scratch, line } = &mut buffers;
        let redactor = self.redaction.now();
        let content = self.style.content;
        event.record(&mut Fields { redactor: &redactor, content, left: VALUES_BYTES, values, scratch });
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let Some(names) = extensions.get::<Names>() else { continue };
            for (name, value) in [("actor", &names.actor), ("turn", &names.turn)] {
                let known = values.find(name).is_some();
                if let (Some(value), false) = (value, known) {
                    values.put_text(name, value);
                }
            }
        }
        let target = event.metadata().target();
        if !super::is_own(target) {
            values.put_text("target", target);
        } else if values.find("actor").is_none() {
            values.put_text("actor", ROOT);
        }
        if let (Some(range), None) = (&*super::RANGES.read(), values.find("range")) {
            values.put_text("range", range);
        }
        values.sort();
        let level = *event.metadata().level();
        match self.style.format {
            LogFormat::Json => self.json(level, values, line),
            LogFormat::Pretty { color } => self.pretty(level, values, color, line),
        }
        (self.send)(line, level);
        buffers.give_back();
    }
}

/// The values of a span for its events.
#[derive(Default)]
struct Names {
    actor: Option<String>,
    turn: Option<String>,
}

/// Collects values: redacted, without content unless enabled, and within the bounds of a line.
struct Fields<'a> {
    redactor: &'a Redactor,
    content: bool,
    left: usize,
    values: &'a mut Values,
    scratch: &'a mut String,
}

impl Fields<'_> {
    fn text(&mut self, field: &Field, value: &dyn fmt::Display) {
        let name = name_of(field);
        if !self.content && CONTENT_FIELDS.contains(&name) {
            return;
        }
        let own_share = matches!(name, "event" | "actor" | "turn");
        let most = if own_share { MAX_NAME_BYTES } else { MAX_VALUE_BYTES.min(self.left) };
        let cost = bounded(value, most, self.redactor, self.scratch);
        if !own_share {
            self.left -= cost;
        }
        self.values.put(name, is_reserved(name), false, |out| out.push_str(self.scratch));
    }

    fn json(&mut self, field: &Field, value: &impl Serialize) {
        let name = name_of(field);
        self.values.put(name, is_reserved(name), true, |out| json_text(out, value));
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.json(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.json(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.json(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.json(field, &value);
    }
}

/// True for names that only this layer may use, so that no field can imitate them.
fn is_reserved(name: &str) -> bool {
    matches!(name, "timestamp" | "level" | "target")
}

struct NameFields<'a> {
    redactor: &'a Redactor,
    names: &'a mut Names,
}

impl Visit for NameFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let place = match name_of(field) {
            "actor" => &mut self.names.actor,
            "turn" => &mut self.names.turn,
            _ => return,
        };
        let mut text = String::new();
        bounded(&format_args!("{value:?}"), MAX_NAME_BYTES, self.redactor, &mut text);
        *place = Some(text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

fn name_of(field: &Field) -> &'static str {
    field.name().trim_start_matches("r#")
}

/// Formats a human-readable value without control characters, so that it cannot control a terminal or imitate another
/// line.
fn plain(text: &str, line: &mut String) {
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
}

fn hue(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}
