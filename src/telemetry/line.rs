//! Makes one line of an event.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::ports::Clock;
use crate::ports::vitals::rfc3339;
use crate::telemetry::LogFormat;
use crate::telemetry::redact::{Redaction, Redactor};

/// No line is longer, its line break included: container runtimes split longer ones.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// No value is longer; the rest is cut off.
const MAX_VALUE_BYTES: usize = 4 * 1024;

/// The values that everything is found by are always there, so each has its own share.
const MAX_NAME_BYTES: usize = 256;

/// What values may use together: the rest of a line is for names of fields, punctuation, and the values just above.
const VALUES_BYTES: usize = MAX_LINE_BYTES - 4 * 1024;

/// Fields that hold what members, prompts, models and tools say.
const CONTENT_FIELDS: [&str; 5] = ["content", "prompt", "text", "arguments", "result"];

/// Who speaks where no actor does: the program itself, which is the root of the tree.
pub(super) const ROOT: &str = "staffai";

/// How lines look.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// The form.
    pub format: LogFormat,
    /// Write [`CONTENT_FIELDS`].
    pub content: bool,
}

/// The layer that makes lines.
pub struct LineLayer<F> {
    style: Style,
    redaction: Redaction,
    clock: Arc<dyn Clock>,
    send: F,
}

impl<F: Fn(String)> LineLayer<F> {
    /// Hands each line, with its line break, to `send`.
    pub fn new(style: Style, redaction: Redaction, clock: Arc<dyn Clock>, send: F) -> Self {
        Self { style, redaction, clock, send }
    }

    fn fields<'a>(&self, redactor: &'a Redactor) -> Fields<'a> {
        Fields { redactor, content: self.style.content, left: VALUES_BYTES, map: Map::new() }
    }

    fn json(&self, event: &Event<'_>, mut fields: Map<String, Value>) -> String {
        // By hand, because eyes look for the time, the level and the message in front.
        let message = fields.remove("message").unwrap_or_else(|| Value::String(String::new()));
        let mut line = format!(
            r#"{{"timestamp":"{}","level":"{}","message":{message}"#,
            rfc3339(self.clock.now()),
            event.metadata().level()
        );
        for (name, value) in fields {
            let _ = write!(line, ",{}:{value}", Value::String(name));
        }
        line.push_str("}\n");
        line
    }

    fn pretty(&self, event: &Event<'_>, mut fields: Map<String, Value>, color: bool) -> String {
        let level = event.metadata().level();
        let mut take = |name: &str| fields.remove(name).map(|value| plain(&value)).filter(|text| !text.is_empty());
        let (message, name, actor) = (take("message"), take("event"), take("actor"));
        let mut parts = vec![rfc3339(self.clock.now()).split_off("1970-01-01T".len())];
        parts.push(if color { format!("\x1b[{}m{level:>5}\x1b[0m", hue(*level)) } else { format!("{level:>5}") });
        parts.extend([actor, name, message].into_iter().flatten());
        parts.extend(fields.iter().map(|(name, value)| format!("{name}={}", plain(value))));
        parts.join(" ") + "\n"
    }
}

impl<S, F> Layer<S> for LineLayer<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Fn(String) + 'static,
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
        let redactor = self.redaction.now();
        let mut fields = self.fields(&redactor);
        event.record(&mut fields);
        let mut map = fields.map;
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let Some(names) = extensions.get::<Names>() else { continue };
            for (name, value) in [("actor", &names.actor), ("turn", &names.turn)] {
                if let (Some(value), false) = (value, map.contains_key(name)) {
                    map.insert(name.to_owned(), Value::String(value.clone()));
                }
            }
        }
        let target = event.metadata().target();
        if super::is_own(target) {
            map.entry("actor").or_insert_with(|| Value::String(ROOT.to_owned()));
        } else {
            map.insert("target".to_owned(), Value::String(target.to_owned()));
        }
        (self.send)(match self.style.format {
            LogFormat::Json => self.json(event, map),
            LogFormat::Pretty { color } => self.pretty(event, map, color),
        });
    }
}

/// What a span gives to the events in it.
#[derive(Default)]
struct Names {
    actor: Option<String>,
    turn: Option<String>,
}

/// Collects values: without secrets, without content unless asked for, and within the bounds of a line.
struct Fields<'a> {
    redactor: &'a Redactor,
    content: bool,
    left: usize,
    map: Map<String, Value>,
}

impl Fields<'_> {
    fn text(&mut self, field: &Field, value: &dyn fmt::Display) {
        let name = name_of(field);
        if !self.content && CONTENT_FIELDS.contains(&name) {
            return;
        }
        let own_share = matches!(name, "event" | "actor" | "turn");
        let most = if own_share { MAX_NAME_BYTES } else { MAX_VALUE_BYTES.min(self.left) };
        let (text, cost) = bounded(value, most, self.redactor);
        if !own_share {
            self.left -= cost;
        }
        self.put(name, Value::String(text));
    }

    fn put(&mut self, name: &str, value: Value) {
        // Nothing may pass for what only this layer knows.
        let reserved = matches!(name, "timestamp" | "level" | "target");
        self.map.insert(if reserved { format!("field.{name}") } else { name.to_owned() }, value);
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
        self.put(name_of(field), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(name_of(field), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(name_of(field), Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(name_of(field), Value::from(value));
    }
}

/// Collects what a span gives to its events.
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
        *place = Some(bounded(&format_args!("{value:?}"), MAX_NAME_BYTES, self.redactor).0);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

fn name_of(field: &Field) -> &'static str {
    field.name().trim_start_matches("r#")
}

/// The text of a value without secrets, cut so that it takes at most `most` bytes of a JSON string, and the bytes it takes.
fn bounded(value: &dyn fmt::Display, most: usize, redactor: &Redactor) -> (String, usize) {
    let mut gathered = Gathered { text: String::new(), most: most + redactor.longest(), full: false };
    // The only error is the one that ends the formatting of a value that is too long.
    let _ = write!(gathered, "{value}");
    let Gathered { mut text, full, .. } = gathered;
    redactor.clean(&mut text);
    if full {
        // What was cut may end with the beginning of a secret.
        let sure = text.len().saturating_sub(redactor.longest());
        text.truncate(floor(&text, sure));
    }
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\') || byte == b' ';
    if !full && text.len() <= most && text.bytes().all(plain) {
        let cost = text.len();
        return (text, cost);
    }
    let (mut end, mut cost, mut fits) = (0, 0, !full);
    let ellipsis = '…'.len_utf8();
    for (at, character) in text.char_indices() {
        let next = cost + json_cost(character);
        if next > most {
            fits = false;
            break;
        }
        if next + ellipsis <= most {
            end = at + character.len_utf8();
        }
        cost = next;
    }
    if fits {
        return (text, cost);
    }
    text.truncate(end);
    let cost = text.chars().map(json_cost).sum::<usize>();
    if cost + ellipsis > most {
        return (text, cost);
    }
    text.push('…');
    (text, cost + ellipsis)
}

/// How many bytes a character takes in a JSON string.
fn json_cost(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

/// The nearest border between characters at or below `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Formats no more than is kept.
struct Gathered {
    text: String,
    most: usize,
    full: bool,
}

impl fmt::Write for Gathered {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = self.most - self.text.len();
        if part.len() <= room {
            self.text.push_str(part);
            return Ok(());
        }
        self.text.push_str(&part[..floor(part, room)]);
        self.full = true;
        Err(fmt::Error)
    }
}

/// A value for eyes: nothing in it may steer a terminal or pass for another line.
fn plain(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
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
