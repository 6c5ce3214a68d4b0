//! Reads replies to calls that are not finished: input that the server requires, and tasks.
//!
//! Sources: `modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr` and `.../client/elicitation`;
//! `modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::content;
use super::failure::one_line;
use domain::question::{Answer, KEY_BYTES, Question};
use domain::tool::begun::{CallReply, InputRequired, QUESTIONS_MAX, STATE_BYTES, TASK_ID_BYTES, TaskReport};
use domain::tool::{ResultLimits, ToolResult};

/// The longest reply with questions, in bytes.
const INPUT_BYTES: usize = 64 * 1024;
/// The most questions of one reply that are answered; a server that asks more violates the protocol here.
const KEYS_MAX: usize = 20;
const STATUS_BYTES: usize = 200;

/// The fields of a reply, which are parsed when they are needed: a result can have fields of the same names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(borrow, default)]
    result_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
    #[serde(borrow, default)]
    task_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ttl_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    poll_interval_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Parses a field; `None` if it is absent or null.
fn field<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<Option<T>, String> {
    let parsed = raw.map_or(Ok(None), |raw| serde_json::from_str(raw.get()));
    parsed.map_err(|error| format!("the reply cannot be read: {error}"))
}

/// Reads the reply to a call.
///
/// # Errors
/// A sentence with the reason: it is unreadable, or exceeds a bound.
pub(super) fn reply(raw: &RawValue, limits: ResultLimits) -> Result<CallReply, String> {
    let Ok(wire) = wire(raw) else { return content::result(raw, limits).map(CallReply::Result) };
    let kind = wire.result_type.map(RawValue::get);
    match kind {
        Some(r#""input_required""#) => input(&wire).map(CallReply::Asks),
        Some(r#""task""#) => state(&wire, limits),
        Some(_) | None => content::result(raw, limits).map(CallReply::Result),
    }
}

/// Reads the state of a task, the answer to `tasks/get`.
///
/// # Errors
/// See [`reply`].
pub(super) fn task(raw: &RawValue, limits: ResultLimits) -> Result<CallReply, String> {
    state(&wire(raw)?, limits)
}

fn wire(raw: &RawValue) -> Result<Wire<'_>, String> {
    serde_json::from_str(raw.get()).map_err(|error| format!("the reply cannot be read: {error}"))
}

fn state(wire: &Wire<'_>, limits: ResultLimits) -> Result<CallReply, String> {
    let ends = |text: String| Ok(CallReply::Result(ToolResult::failure(text)));
    let status: Option<Cow<'_, str>> = field(wire.status)?;
    match status.as_deref() {
        Some("completed") => {
            let result = wire.result.ok_or("the task has no result")?;
            return content::result(result, limits).map(CallReply::Result);
        }
        Some("failed") => {
            #[derive(Deserialize)]
            struct Error<'a> {
                #[serde(borrow, default)]
                message: Option<Cow<'a, str>>,
            }
            let error = wire.error.and_then(|error| serde_json::from_str::<Error<'_>>(error.get()).ok());
            let message = error.and_then(|error| error.message).unwrap_or(Cow::Borrowed("the task failed"));
            return ends(one_line(&message, super::failure::MESSAGE_MAX));
        }
        Some("cancelled") => return ends("the task was cancelled".to_owned()),
        _ => {}
    }
    let id: Option<Cow<'_, str>> = field(wire.task_id)?;
    let id = id.filter(|id| !id.is_empty() && id.len() <= TASK_ID_BYTES);
    let id = id.ok_or_else(|| format!("the id of the task is missing or longer than {TASK_ID_BYTES} bytes"))?;
    let asks = status.as_deref() == Some("input_required");
    let message: Option<Cow<'_, str>> = field(wire.status_message)?;
    let status = message.map(|status| one_line(&status, STATUS_BYTES));
    Ok(CallReply::Task(TaskReport {
        id: id.into_owned(),
        status: status.filter(|status| !status.is_empty()),
        poll_after: field(wire.poll_interval_ms)?.and_then(duration),
        life: field(wire.ttl_ms)?.and_then(duration),
        input: if asks { Some(input(wire)?) } else { None },
    }))
}

/// Returns a time that a server names. `None` if it is negative or too long to be represented.
fn duration(ms: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(ms / 1_000.0).ok()
}

fn input(wire: &Wire<'_>) -> Result<InputRequired, String> {
    #[derive(Deserialize)]
    struct Request {
        #[serde(default)]
        method: String,
        #[serde(default)]
        params: Value,
    }
    let requests = wire.input_requests.map_or("{}", RawValue::get);
    let state: Option<Cow<'_, str>> = field(wire.request_state)?;
    if requests.len() > INPUT_BYTES || state.as_ref().is_some_and(|state| state.len() > STATE_BYTES) {
        return Err(format!("its questions are longer than {INPUT_BYTES} bytes, or its state than {STATE_BYTES}"));
    }
    let requests: BTreeMap<String, Request> =
        serde_json::from_str(requests).map_err(|error| format!("its questions cannot be read: {error}"))?;
    if requests.len() > KEYS_MAX || requests.keys().any(|key| key.len() > KEY_BYTES) {
        return Err(format!("it asks more than {KEYS_MAX} questions, or with a key of more than {KEY_BYTES} bytes"));
    }
    let mut input = InputRequired { state: state.map(Cow::into_owned), ..InputRequired::default() };
    for (key, Request { method, params }) in requests {
        let question = match method.as_str() {
            "elicitation/create" if input.questions.len() < QUESTIONS_MAX => {
                Question::read(&key, &params).map_err(domain::question::Unfit::as_str)
            }
            "elicitation/create" => Err("too_many"),
            // Sampling and roots are not offered.
            _ => Err("method"),
        };
        match question {
            Ok(question) => input.questions.push(question),
            Err(reason) => {
                tracing::info!(
                    event = telemetry::events::TOOLS_QUESTION_DECLINED,
                    reason,
                    "a server's question is declined"
                );
                input.answers.insert(key, Answer::Decline.to_value());
            }
        }
    }
    if input.state.is_none() && input.questions.is_empty() && input.answers.is_empty() {
        return Err("it requires input and names none".to_owned());
    }
    Ok(input)
}

/// Returns the parameters of a call that is repeated with answers.
pub(super) fn again(params: &mut Value, answers: &Map<String, Value>, state: Option<&String>) {
    params["inputResponses"] = Value::Object(answers.clone());
    if let Some(state) = state {
        params["requestState"] = Value::String(state.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<CallReply, String> {
        let text = value.to_string();
        reply(serde_json::from_str(&text).unwrap(), ResultLimits::default())
    }

    fn form(name: &str) -> Value {
        let schema = json!({"type": "object", "properties": {name: {"type": "string"}}});
        json!({"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}})
    }

    #[test]
    fn questions_are_read_and_what_is_not_offered_or_asks_for_a_secret_is_declined() {
        let requests = json!({
            "a": form("city"), "b": form("password"), "c": {"method": "sampling/createMessage", "params": {}},
        });
        let asked = json!({"resultType": "input_required", "inputRequests": requests, "requestState": "s"});
        let Ok(CallReply::Asks(input)) = read(&asked) else { panic!("it asks") };
        assert_eq!(
            (input.questions.len(), input.questions[0].key.as_str(), input.state.as_deref()),
            (1, "a", Some("s"))
        );
        assert_eq!(Value::Object(input.answers), json!({"b": {"action": "decline"}, "c": {"action": "decline"}}));
    }

    #[test]
    fn what_exceeds_a_bound_is_no_question() {
        let asked = |requests: Value, state: &str| {
            read(&json!({"resultType": "input_required", "inputRequests": requests, "requestState": state}))
        };
        assert!(asked(json!({"k".repeat(200): form("x")}), "").is_err());
        assert!(asked(json!({"k": form(&"x".repeat(INPUT_BYTES))}), "").is_err());
        assert!(asked(json!({}), &"s".repeat(STATE_BYTES + 1)).is_err());
        let many: Map<String, Value> = (0..=KEYS_MAX).map(|n| (n.to_string(), form("x"))).collect();
        assert!(asked(Value::Object(many), "s").is_err());
        assert!(read(&json!({"resultType": "input_required"})).is_err());
        let many: Map<String, Value> = (0..8).map(|n| (n.to_string(), form("x"))).collect();
        let Ok(CallReply::Asks(input)) = asked(Value::Object(many), "s") else { panic!("it asks") };
        assert_eq!((input.questions.len(), input.answers.len()), (QUESTIONS_MAX, 3));
    }

    #[test]
    fn a_task_is_read_in_each_of_its_states() {
        let of = |more: Value| {
            let mut value = json!({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": null});
            value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read(&value)
        };
        let status = "half\n\u{202e}do\u{200b}ne";
        let Ok(CallReply::Task(task)) = of(json!({"statusMessage": status, "pollIntervalMs": 1500})) else {
            panic!("a task")
        };
        assert_eq!((task.id.as_str(), task.status.as_deref()), ("t", Some("half done")));
        assert_eq!((task.poll_after, task.life), (Some(Duration::from_millis(1_500)), None));
        let Ok(CallReply::Task(task)) = of(json!({"status": "input_required", "inputRequests": {"a": form("x")}}))
        else {
            panic!("a task")
        };
        assert_eq!(task.input.unwrap().questions.len(), 1);
        let text = |more: Value| match of(more) {
            Ok(CallReply::Result(result)) => (result.to_text(), result.is_error),
            other => panic!("{other:?}"),
        };
        let result = json!({"content": [{"type": "text", "text": "done"}]});
        assert_eq!(text(json!({"status": "completed", "result": result})), ("done".into(), false));
        assert_eq!(
            text(json!({"status": "failed", "error": {"code": 1, "message": "\u{202e}boom"}})),
            ("boom".into(), true)
        );
        assert_eq!(text(json!({"status": "cancelled"})), ("the task was cancelled".into(), true));
        assert!(of(json!({"taskId": "x".repeat(300)})).is_err() && of(json!({"status": "completed"})).is_err());
        assert!(of(json!({"ttlMs": -5, "pollIntervalMs": 1e300})).is_ok());
    }

    #[test]
    fn a_reply_costs_no_more_than_its_length() {
        cost::grows_linearly(
            16 * 1024,
            |size| {
                let requests = json!({"a": form(&"x".repeat(size))});
                json!({"resultType": "input_required", "inputRequests": requests}).to_string()
            },
            |text| drop(reply(serde_json::from_str(&text).unwrap(), ResultLimits::default())),
        );
    }
}
