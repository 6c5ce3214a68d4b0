//! Renders happenings as spans.
//!
//! Names follow OpenTelemetry's conventions for generative AI where these exist; others begin with `staffai.`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use serde_json::json;

use crate::redact::Redaction;
use domain::happening::{Happening, ModelCalled, TurnPosted};
use domain::ids::{Timestamp, TurnId, millis};
use domain::tool::called::CallEnd;
use domain::turn::{Outcome, Times, Turn};

/// The conventions of the names: the last published schema with those for generative AI. Later ones rename attributes,
/// so changing it requires a change of this program.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

/// The longest value, in bytes; the rest is cut off.
const VALUE_BYTES: usize = 256;

/// The longest question or answer, in bytes.
const CONTENT_BYTES: usize = 8 * 1024;

/// The provider attribute; the conventions require the protocol if the provider behind it is unknown.
const PROVIDER: &str = "openai";

/// The agent attribute of turns.
const AGENT: &str = "staffai";

/// Returns the spans that ended at `now` with this happening; none for most happenings. With `content`, questions and
/// answers are included, redacted by it. Nothing else that a member, a prompt, a model or a tool says becomes an
/// attribute.
pub fn of(happening: &Happening<'_>, now: Timestamp, content: Option<&Redaction>) -> Vec<Span> {
    match *happening {
        Happening::TurnPosted(ref posted) => turn_posted(posted, now, content),
        Happening::TurnDropped { turn, why, took } => vec![turn_ended(turn, why.outcome(), took, now)],
        Happening::TurnUndeliverable { turn, took, posting, .. } => {
            let mut whole = turn_ended(turn, "failed", took, now);
            whole.attributes.extend(number("staffai.post_ms", Some(millis(posting))));
            vec![posted_for(turn, posting, None, now), whole]
        }
        Happening::ModelCalled(ref call) => call.turn.map(|turn| model_called(call, turn, now)).into_iter().collect(),
        Happening::ToolCalled(ref call) => {
            let (id, name) = (call.origin.id.to_string(), &*call.call.entry.name);
            let mut span = tool_called(&id, name, (call.outcome(), call.took), now);
            span.span_id = tool_span(&id, call.number as u64).to_be_bytes().to_vec();
            vec![span]
        }
        Happening::ToolNotCalled { turn, tool: Some(tool), why, .. } => {
            vec![tool_called(&turn.to_string(), tool, (why.outcome(), Duration::ZERO), now)]
        }
        _ => Vec::new(),
    }
}

fn turn_posted(posted: &TurnPosted<'_>, now: Timestamp, content: Option<&Redaction>) -> Vec<Span> {
    let TurnPosted { turn, took, visible_for, posting, parts, .. } = *posted;
    let Some(answer) = posted.answer else { return Vec::new() };
    let outcome = match answer.outcome {
        Outcome::Refused(_) => return vec![turn_ended(turn, "refused", took, now)],
        Outcome::Replied => "replied",
        Outcome::Hinted => "hinted",
        Outcome::Apologised(_) => "apologised",
    };
    let mut whole = turn_ended(turn, outcome, took, now);
    whole.attributes.extend(text("gen_ai.request.model", answer.effort.model.as_deref()));
    let said = answer.exchange.as_ref().zip(content);
    for (name, role) in [("gen_ai.input.messages", "user"), ("gen_ai.output.messages", "assistant")] {
        let said = said.map(|(exchange, redaction)| {
            let said = if role == "user" { &exchange.asked } else { &exchange.answered };
            message(role, &redaction.excerpt(said, CONTENT_BYTES))
        });
        whole.attributes.extend(text(name, said.as_deref()));
    }
    let Times { lane_ms, permit_ms, model_ms, tools_ms } = answer.effort.times;
    for (name, ms) in [
        ("staffai.first_visible_ms", millis(took.saturating_sub(visible_for))),
        ("staffai.lane_ms", lane_ms),
        ("staffai.permit_ms", permit_ms),
        ("staffai.model_ms", model_ms),
        ("staffai.tools_ms", tools_ms),
        ("staffai.post_ms", millis(posting)),
    ] {
        whole.attributes.extend(number(name, Some(ms)));
    }
    vec![posted_for(turn, posting, Some(parts), now), whole]
}

fn posted_for(turn: &Turn, took: Duration, parts: Option<usize>, now: Timestamp) -> Span {
    let mut span = child(&turn.id.to_string(), "post", SpanKind::Internal, now, millis(took));
    span.attributes.extend(text("staffai.door", Some(turn.id.door.as_str())));
    span.attributes.extend(number("staffai.parts", parts.map(|parts| parts as u64)));
    span
}

fn turn_ended(turn: &Turn, outcome: &'static str, took: Duration, now: Timestamp) -> Span {
    let id = turn.id.to_string();
    let mut span = blank(&id, "turn", SpanKind::Internal, now, millis(took));
    span.span_id = root(&id);
    // The second name is used by collectors that group traces by session.
    let conversation = conversation((&turn.place.to_string(), &turn.person.to_string()));
    for (name, value) in [
        ("staffai.door", turn.id.door.as_str()),
        ("staffai.trigger", turn.trigger.as_str()),
        ("staffai.outcome", outcome),
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.provider.name", PROVIDER),
        ("gen_ai.agent.name", AGENT),
        ("gen_ai.conversation.id", &conversation),
        ("session.id", &conversation),
    ] {
        span.attributes.extend(text(name, Some(value)));
    }
    fail(&mut span, Some(outcome).filter(|outcome| matches!(*outcome, "apologised" | "failed")));
    span
}

/// Returns one message in the format of the conventions, as JSON: span attributes cannot be objects.
fn message(role: &str, said: &str) -> String {
    let mut message = json!({"role": role, "parts": [{"type": "text", "content": said}]});
    if role == "assistant" {
        message["finish_reason"] = "stop".into();
    }
    json!([message]).to_string()
}

fn model_called(call: &ModelCalled<'_>, turn: &TurnId, now: Timestamp) -> Span {
    let mut span = child(&turn.to_string(), &format!("chat {}", call.row), SpanKind::Client, now, millis(call.took));
    span.attributes.extend(text("gen_ai.operation.name", Some("chat")));
    span.attributes.extend(text("gen_ai.provider.name", Some(PROVIDER)));
    span.attributes.extend(text("gen_ai.request.model", Some(call.row)));
    let completed = call.result.ok();
    span.attributes.extend(completed.map(|completed| {
        let values = vec![AnyValue { value: Some(Value::StringValue(bounded(completed.finish))) }];
        attribute("gen_ai.response.finish_reasons", Value::ArrayValue(ArrayValue { values }))
    }));
    span.attributes.extend(number("gen_ai.usage.input_tokens", call.usage().map(|usage| usage.prompt)));
    span.attributes.extend(number("gen_ai.usage.output_tokens", call.usage().map(|usage| usage.completion)));
    let cached = completed.map(|completed| completed.usage.cached);
    span.attributes.extend(number("gen_ai.usage.cache_read.input_tokens", cached));
    span.attributes.extend(number("staffai.try", Some(call.tries.into())));
    fail(&mut span, call.error());
    span
}

fn tool_called(turn: &str, tool: &str, (outcome, took): (&str, Duration), now: Timestamp) -> Span {
    let mut span = child(turn, &format!("execute_tool {}", bounded(tool)), SpanKind::Internal, now, millis(took));
    span.attributes.extend(text("gen_ai.operation.name", Some("execute_tool")));
    span.attributes.extend(text("gen_ai.tool.name", Some(tool)));
    span.attributes.extend(text("staffai.outcome", Some(outcome)));
    fail(&mut span, Some(outcome).filter(|outcome| *outcome != CallEnd::OK));
    span
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

/// Content has its own, larger bound.
fn text(name: &str, value: Option<&str>) -> Option<KeyValue> {
    let value = value.map(|value| if name.ends_with(".messages") { value.to_owned() } else { bounded(value) });
    value.map(|value| attribute(name, Value::StringValue(value)))
}

/// Truncates a value to [`VALUE_BYTES`].
fn bounded(value: &str) -> String {
    value[..value.floor_char_boundary(VALUE_BYTES)].to_owned()
}

fn number(name: &str, value: Option<u64>) -> Option<KeyValue> {
    value.map(|value| attribute(name, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX))))
}

pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
