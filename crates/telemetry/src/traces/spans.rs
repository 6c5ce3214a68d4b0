//! Converts events to spans.
//!
//! Names follow OpenTelemetry's conventions for generative AI where these exist; others begin with `staffai.`.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use serde_json::json;
use tracing::field::{Field, Visit};

use crate::redact::Redaction;
use domain::ids::Timestamp;

/// The used fields: names, labels and numbers. No other field except [`CONTENT`] can reach a collector. `place` and
/// `member` are sent only as a joint hash, never as ids.
pub const KEPT: [&str; 25] = [
    "event",
    "turn",
    "door",
    "trigger",
    "outcome",
    "ms",
    "post_ms",
    "first_visible_ms",
    "parts",
    "model",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "error",
    "tries",
    "duration_ms",
    "tool",
    "call",
    "place",
    "member",
    "lane_ms",
    "permit_ms",
    "model_ms",
    "tools_ms",
];

/// The conventions of the names: the last published schema with those for generative AI. Later ones rename attributes,
/// so changing it requires a change of this program.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

/// The fields with the question and the answer of a turn, used only if the operator enabled them.
pub const CONTENT: [&str; 2] = ["prompt", "content"];

/// The longest value, in bytes; the rest is cut off.
const VALUE_BYTES: usize = 256;

/// The longest question or answer, in bytes.
const CONTENT_BYTES: usize = 8 * 1024;

/// The provider attribute; the conventions require the protocol if the provider behind it is unknown.
const PROVIDER: &str = "openai";

/// The agent attribute of turns.
const AGENT: &str = "staffai";

/// The fields of one event that are in [`KEPT`], and those in [`CONTENT`] if enabled.
#[derive(Default)]
pub struct Fields<'a> {
    /// The redaction of content; `None` omits content.
    content: Option<&'a Redaction>,
    texts: Vec<(&'static str, String)>,
    numbers: Vec<(&'static str, u64)>,
}

impl<'a> Fields<'a> {
    /// Creates an empty set. With `content`, questions and answers are included, redacted by it.
    #[must_use]
    pub fn new(content: Option<&'a Redaction>) -> Self {
        Self { content, ..Self::default() }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if KEPT.contains(&field.name()) {
            self.record_str(field, &format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(redaction) = self.content.filter(|_| CONTENT.contains(&field.name())) {
            self.texts.push((field.name(), redaction.excerpt(value, CONTENT_BYTES)));
        }
        if KEPT.contains(&field.name()) {
            let end = (0..=VALUE_BYTES.min(value.len())).rev().find(|end| value.is_char_boundary(*end));
            self.texts.push((field.name(), value[..end.unwrap_or(0)].to_owned()));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if KEPT.contains(&field.name()) {
            self.numbers.push((field.name(), value));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record_u64(field, u64::try_from(value).unwrap_or(0));
    }
}

/// Returns the spans that ended at `now` with this event; none for most events.
#[must_use]
pub fn of(fields: &Fields<'_>, now: Timestamp) -> Vec<Span> {
    let (Some(event), Some(turn)) = (fields.text("event"), fields.text("turn")) else { return Vec::new() };
    let spans = match event {
        "turn.replied" | "turn.failed" | "turn.refused" => turn_ended(fields, turn, now),
        "llm.called" => vec![model_called(fields, turn, now)],
        "tool.called" => vec![tool_called(fields, turn, now)],
        _ => Vec::new(),
    };
    spans.into_iter().flatten().collect()
}

/// Returns the spans of the turn and its posting. An event without the turn's duration is not its last.
fn turn_ended(fields: &Fields<'_>, turn: &str, now: Timestamp) -> Vec<Option<Span>> {
    let posting = fields.number("post_ms").map(|took| {
        let mut span = child(turn, "post", SpanKind::Internal, now, took);
        span.attributes.extend(text("staffai.door", fields.text("door")));
        span.attributes.extend(number("staffai.parts", fields.number("parts")));
        span
    });
    let whole = fields.number("ms").map(|took| {
        let mut span = blank(turn, "turn", SpanKind::Internal, now, took);
        span.span_id = root(turn);
        for (name, field) in [("staffai.door", "door"), ("staffai.trigger", "trigger"), ("staffai.outcome", "outcome")]
        {
            span.attributes.extend(text(name, fields.text(field)));
        }
        span.attributes.extend(text("gen_ai.operation.name", Some("invoke_agent")));
        span.attributes.extend(text("gen_ai.provider.name", Some(PROVIDER)));
        span.attributes.extend(text("gen_ai.agent.name", Some(AGENT)));
        // The second name is used by collectors that group traces by session.
        let conversation = fields.text("place").zip(fields.text("member")).map(conversation);
        for name in ["gen_ai.conversation.id", "session.id"] {
            span.attributes.extend(text(name, conversation.as_deref()));
        }
        span.attributes.extend(text("gen_ai.request.model", fields.text("model")));
        for (name, role, field) in
            [("gen_ai.input.messages", "user", "prompt"), ("gen_ai.output.messages", "assistant", "content")]
        {
            let said = fields.text(field).map(|said| message(role, said));
            span.attributes.extend(text(name, said.as_deref()));
        }
        for (name, field) in [
            ("staffai.first_visible_ms", "first_visible_ms"),
            ("staffai.lane_ms", "lane_ms"),
            ("staffai.permit_ms", "permit_ms"),
            ("staffai.model_ms", "model_ms"),
            ("staffai.tools_ms", "tools_ms"),
            ("staffai.post_ms", "post_ms"),
        ] {
            span.attributes.extend(number(name, fields.number(field)));
        }
        let failed = fields.text("outcome").filter(|outcome| matches!(*outcome, "apologised" | "failed"));
        fail(&mut span, failed);
        span
    });
    vec![posting, whole]
}

/// Returns one message in the format of the conventions, as JSON: span attributes cannot be objects.
fn message(role: &str, said: &str) -> String {
    let mut message = json!({"role": role, "parts": [{"type": "text", "content": said}]});
    if role == "assistant" {
        message["finish_reason"] = "stop".into();
    }
    json!([message]).to_string()
}

fn model_called(fields: &Fields<'_>, turn: &str, now: Timestamp) -> Option<Span> {
    let (model, took) = (fields.text("model")?, fields.number("duration_ms")?);
    let mut span = child(turn, &format!("chat {model}"), SpanKind::Client, now, took);
    span.attributes.extend(text("gen_ai.operation.name", Some("chat")));
    span.attributes.extend(text("gen_ai.provider.name", Some(PROVIDER)));
    span.attributes.extend(text("gen_ai.request.model", Some(model)));
    span.attributes.extend(fields.text("finish_reason").map(|reason| {
        let values = vec![AnyValue { value: Some(Value::StringValue(reason.to_owned())) }];
        attribute("gen_ai.response.finish_reasons", Value::ArrayValue(ArrayValue { values }))
    }));
    span.attributes.extend(number("gen_ai.usage.input_tokens", fields.number("prompt_tokens")));
    span.attributes.extend(number("gen_ai.usage.output_tokens", fields.number("completion_tokens")));
    span.attributes.extend(number("gen_ai.usage.cache_read.input_tokens", fields.number("cached_tokens")));
    span.attributes.extend(number("staffai.try", fields.number("tries")));
    fail(&mut span, fields.text("error"));
    Some(span)
}

fn tool_called(fields: &Fields<'_>, turn: &str, now: Timestamp) -> Option<Span> {
    let (tool, took) = (fields.text("tool")?, fields.number("duration_ms")?);
    let mut span = child(turn, &format!("execute_tool {tool}"), SpanKind::Internal, now, took);
    if let Some(call) = fields.number("call") {
        span.span_id = tool_span(turn, call).to_be_bytes().to_vec();
    }
    span.attributes.extend(text("gen_ai.operation.name", Some("execute_tool")));
    span.attributes.extend(text("gen_ai.tool.name", Some(tool)));
    let outcome = fields.text("outcome");
    span.attributes.extend(text("staffai.outcome", outcome));
    fail(&mut span, outcome.filter(|outcome| *outcome != "ok"));
    Some(span)
}

/// Returns the span of a turn's tool call in W3C Trace Context format, for servers that continue the trace.
#[must_use]
pub fn trace_parent(turn: &str, call: u64) -> String {
    let [first, second] = trace(turn);
    format!("00-{first:016x}{second:016x}-{:016x}-01", tool_span(turn, call))
}

fn tool_span(turn: &str, call: u64) -> u64 {
    hash(&("call of a tool", turn, call))
}

/// Returns the shared id of one member's turns in one place: a hash of both ids.
fn conversation((place, member): (&str, &str)) -> String {
    let [first, second] = ["first", "second"].map(|half| hash(&("conversation", half, place, member)));
    format!("{first:016x}{second:016x}")
}

fn trace(turn: &str) -> [u64; 2] {
    [hash(&("trace, first half", turn)), hash(&("trace, second half", turn))]
}

fn child(turn: &str, name: &str, kind: SpanKind, now: Timestamp, took_ms: u64) -> Span {
    let mut span = blank(turn, name, kind, now, took_ms);
    // Two calls of one name that end in the same millisecond have different durations or are indistinguishable.
    span.span_id = hash(&(turn, name, now.0, took_ms)).to_be_bytes().to_vec();
    span.parent_span_id = root(turn);
    span
}

fn blank(turn: &str, name: &str, kind: SpanKind, now: Timestamp, took_ms: u64) -> Span {
    const NANOS: u64 = 1_000_000;
    Span {
        trace_id: trace(turn).map(u64::to_be_bytes).concat(),
        name: name.to_owned(),
        kind: kind.into(),
        start_time_unix_nano: now.0.saturating_sub(took_ms).saturating_mul(NANOS),
        end_time_unix_nano: now.0.saturating_mul(NANOS),
        ..Span::default()
    }
}

fn root(turn: &str) -> Vec<u8> {
    hash(&("turn", turn)).to_be_bytes().to_vec()
}

/// Returns a hash that is never 0, which is invalid as an id.
fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish().max(1)
}

fn fail(span: &mut Span, error: Option<&str>) {
    if error.is_some() {
        span.attributes.extend(text("error.type", error));
        span.status = Some(Status { code: StatusCode::Error.into(), message: String::new() });
    }
}

fn text(name: &str, value: Option<&str>) -> Option<KeyValue> {
    value.map(|value| attribute(name, Value::StringValue(value.to_owned())))
}

fn number(name: &str, value: Option<u64>) -> Option<KeyValue> {
    value.map(|value| attribute(name, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX))))
}

pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
