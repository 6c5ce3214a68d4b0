//! Formats answers.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::model_api::asking::{Answered, Progress};
use crate::model_api::failure::Failure;
use domain::answer_end::AnswerEnd;
use domain::completion::{ToolCall, Usage};

pub(super) struct Writer {
    pub id: String,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// The requested row.
    pub model: String,
    /// True if the stream ends with the usage.
    pub usage: bool,
}

impl Writer {
    /// Returns the complete answer.
    pub fn whole(&self, answered: &Answered) -> Value {
        let Answered { text, calls, .. } = answered;
        let refused = answered.end == AnswerEnd::Refused;
        let content =
            if refused || (text.is_empty() && !calls.is_empty()) { Value::Null } else { text.as_str().into() };
        let refusal = if refused { text.as_str().into() } else { Value::Null };
        let mut message = json!({"role": "assistant", "content": content, "refusal": refusal});
        if !calls.is_empty() {
            message["tool_calls"] = calls.iter().map(called).collect();
        }
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": answered.model.as_ref().unwrap_or(&self.model),
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish(answered)}],
            "usage": tokens(&answered.usage),
        })
    }

    /// Returns the first chunk.
    pub fn role(&self) -> Value {
        self.chunk(&json!({"role": "assistant", "content": ""}), &Value::Null)
    }

    /// Returns the chunks for one step.
    pub fn chunks(&self, progress: &Progress) -> Vec<Value> {
        match progress {
            Progress::Text(text) => vec![self.text(text)],
            Progress::Failed(failure) => vec![error(failure)],
            Progress::Answered(answered) => {
                let mut chunks = Vec::new();
                if !answered.rest.is_empty() && answered.end == AnswerEnd::Refused {
                    chunks.push(self.chunk(&json!({"refusal": answered.rest}), &Value::Null));
                } else if !answered.rest.is_empty() {
                    chunks.push(self.text(&answered.rest));
                }
                if !answered.calls.is_empty() {
                    let calls: Vec<Value> =
                        answered.calls.iter().enumerate().map(|(at, call)| indexed(at, call)).collect();
                    chunks.push(self.chunk(&json!({"tool_calls": calls}), &Value::Null));
                }
                chunks.push(self.chunk(&json!({}), &finish(answered).into()));
                if self.usage {
                    let mut last = self.frame();
                    last["choices"] = json!([]);
                    last["usage"] = tokens(&answered.usage);
                    chunks.push(last);
                }
                chunks
            }
        }
    }

    fn text(&self, text: &str) -> Value {
        self.chunk(&json!({"content": text}), &Value::Null)
    }

    fn chunk(&self, delta: &Value, finish: &Value) -> Value {
        let mut frame = self.frame();
        frame["choices"] = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        if self.usage {
            frame["usage"] = Value::Null;
        }
        frame
    }

    fn frame(&self) -> Value {
        let Self { id, created, model, .. } = self;
        json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": model})
    }
}

fn called(call: &ToolCall) -> Value {
    let ToolCall { id, name, arguments } = call;
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn indexed(at: usize, call: &ToolCall) -> Value {
    let mut value = called(call);
    value["index"] = at.into();
    value
}

const fn finish(answered: &Answered) -> &'static str {
    match answered.end {
        AnswerEnd::CutOff => "length",
        AnswerEnd::Filtered => "content_filter",
        AnswerEnd::Whole | AnswerEnd::Refused if answered.calls.is_empty() => "stop",
        AnswerEnd::Whole | AnswerEnd::Refused => "tool_calls",
    }
}

fn tokens(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.total(),
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}

pub(super) fn models<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    json!({"object": "list", "data": names.map(model).collect::<Vec<_>>()})
}

pub(super) fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "staffai"})
}

pub(super) fn error(failure: &Failure) -> Value {
    let (kind, code) = match failure {
        Failure::NotLetIn(status, _) if status.as_u16() == 401 => ("invalid_request_error", Some("invalid_api_key")),
        Failure::NotLetIn(StatusCode::SERVICE_UNAVAILABLE, _) | Failure::Busy(_) => {
            ("server_error", Some("overloaded"))
        }
        Failure::Resting(_) => ("server_error", Some("upstream_resting")),
        Failure::NotLetIn(StatusCode::FORBIDDEN, _) => ("invalid_request_error", Some("permission_denied")),
        Failure::NotLetIn(status, _) if status.is_server_error() => ("server_error", None),
        Failure::NotLetIn(..)
        | Failure::Bad { .. }
        | Failure::TooLarge(_)
        | Failure::NoResponse(_)
        | Failure::NoEndpoint(_)
        | Failure::NoMethod(_) => ("invalid_request_error", None),
        Failure::NoModel(_) => ("invalid_request_error", Some("model_not_found")),
        Failure::NoPrevious(_) => ("invalid_request_error", Some("previous_response_not_found")),
        Failure::ContextTooLong | Failure::OverKey(..) => ("invalid_request_error", Some("context_length_exceeded")),
        Failure::Filtered(_) => ("invalid_request_error", Some("content_filter")),
        Failure::OverLimit(..) | Failure::UpstreamLimit(_) => ("rate_limit_error", Some("rate_limit_exceeded")),
        Failure::UpstreamRefused => ("server_error", Some("upstream_refused")),
        Failure::UpstreamQuota => ("server_error", Some("upstream_quota")),
        Failure::Late(_) => ("server_error", Some("timeout")),
        Failure::Model(_) => ("server_error", Some("upstream_failed")),
        Failure::Internal(_) => ("server_error", None),
    };
    let param = match failure {
        Failure::Bad { place, .. } => place.clone(),
        Failure::NoModel(_) => Some("model".to_owned()),
        Failure::NoPrevious(_) => Some("previous_response_id".to_owned()),
        _ => None,
    };
    json!({"error": {"message": failure.text(), "type": kind, "param": param, "code": code}})
}
