//! Formats responses: complete, and as events of a stream.

use std::sync::Arc;

use serde_json::{Value, json};

use super::reading::{Echo, compacted};
use crate::model_api::asking::{Answered, Progress};
use crate::model_api::failure::Failure;
use crate::model_api::openai::writing::error;
use domain::answer_end::AnswerEnd;
use domain::completion::{Role, ToolCall, Usage};
use domain::given::Message;
use ports::Clock;

pub(super) struct Writer {
    /// The id of the response.
    pub id: String,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// The requested row.
    pub model: String,
    /// The repeated fields of the request.
    pub echo: Echo,
    /// The number of the next event.
    pub sequence: u64,
    /// The text that was sent.
    pub text: String,
    /// True if its message was begun.
    pub begun: bool,
    /// The clock for the time of completion.
    pub clock: Arc<dyn Clock>,
}

impl Writer {
    /// Returns the complete response.
    pub fn whole(&self, answered: &Answered) -> Value {
        self.response(answered, &answered.text)
    }

    /// Returns the model's message for a continued conversation.
    pub fn said(&self, answered: &Answered) -> Message {
        let text = if self.begun { self.text.clone() } else { answered.text.clone() };
        Message { calls: answered.calls.clone(), ..Message::new(Role::Assistant, text) }
    }

    /// Returns the first events.
    pub fn created(&mut self) -> Vec<Value> {
        let response = self.frame("in_progress");
        let events = ["response.created", "response.in_progress"];
        events.map(|kind| self.event(kind, json!({"response": response}))).into()
    }

    /// Returns the events of a request that only prepares the conversation: its response is empty.
    pub fn warmed_up(&mut self) -> Vec<Value> {
        let mut events = self.created();
        let mut response = self.frame("completed");
        response["completed_at"] = (self.clock.now().0 / 1_000).into();
        response["usage"] = tokens(&Usage::default());
        events.push(self.event("response.completed", json!({"response": response})));
        events
    }

    /// Returns the events for one step.
    pub fn events(&mut self, progress: &Progress) -> Vec<Value> {
        let mut events = Vec::new();
        match progress {
            Progress::Text(text) => self.grow(text, &mut events),
            Progress::Failed(failure) => {
                let mut response = self.frame("failed");
                response["error"] = failed(failure);
                events.push(self.event("response.failed", json!({"response": response})));
            }
            Progress::Answered(answered) => self.end(answered, &mut events),
        }
        events
    }

    fn grow(&mut self, text: &str, events: &mut Vec<Value>) {
        let item = self.message_id();
        if !self.begun {
            self.begun = true;
            let message =
                json!({"id": item, "type": "message", "status": "in_progress", "role": "assistant", "content": []});
            events.push(self.event("response.output_item.added", json!({"output_index": 0, "item": message})));
            let part = json!({"item_id": item, "output_index": 0, "content_index": 0, "part": part("")});
            events.push(self.event("response.content_part.added", part));
        }
        self.text.push_str(text);
        let delta = json!({"item_id": item, "output_index": 0, "content_index": 0, "delta": text, "logprobs": []});
        events.push(self.event("response.output_text.delta", delta));
    }

    fn end(&mut self, answered: &Answered, events: &mut Vec<Value>) {
        if answered.end == AnswerEnd::Refused && !self.begun {
            self.refuse(answered, events);
            return;
        }
        if !answered.rest.is_empty() || (!self.begun && answered.calls.is_empty()) {
            self.grow(&answered.rest, events);
        }
        let text = self.text.clone();
        let response = self.response(answered, &text);
        if self.begun {
            let at = json!({"item_id": self.message_id(), "output_index": 0, "content_index": 0});
            let with = |name: &str, value: Value| {
                let mut fields = at.clone();
                fields[name] = value;
                fields
            };
            let mut done = with("text", text.as_str().into());
            done["logprobs"] = json!([]);
            events.push(self.event("response.output_text.done", done));
            events.push(self.event("response.content_part.done", with("part", part(&text))));
            let message = &response["output"][0];
            events.push(self.event("response.output_item.done", json!({"output_index": 0, "item": message})));
        }
        for (at, call) in answered.calls.iter().enumerate() {
            let (index, id) = (at + usize::from(self.begun), self.call_id(at));
            let mut item = called(&id, call);
            (item["status"], item["arguments"]) = ("in_progress".into(), "".into());
            events.push(self.event("response.output_item.added", json!({"output_index": index, "item": item})));
            let delta = json!({"item_id": id, "output_index": index, "delta": call.arguments});
            events.push(self.event("response.function_call_arguments.delta", delta));
            let done = json!({"item_id": id, "output_index": index, "name": call.name, "arguments": call.arguments});
            events.push(self.event("response.function_call_arguments.done", done));
            let item = &response["output"][index];
            events.push(self.event("response.output_item.done", json!({"output_index": index, "item": item})));
        }
        let kind = if reason(answered).is_some() { "response.incomplete" } else { "response.completed" };
        events.push(self.event(kind, json!({"response": response})));
    }

    /// Sends a refusal, which is always complete, and ends.
    fn refuse(&mut self, answered: &Answered, events: &mut Vec<Value>) {
        let (item, refusal) = (self.message_id(), answered.text.as_str());
        let response = self.response(answered, refusal);
        let message =
            json!({"id": item, "type": "message", "status": "in_progress", "role": "assistant", "content": []});
        events.push(self.event("response.output_item.added", json!({"output_index": 0, "item": message})));
        let at = json!({"item_id": item, "output_index": 0, "content_index": 0});
        for (kind, name, value) in [
            ("response.content_part.added", "part", refused_part("")),
            ("response.refusal.delta", "delta", refusal.into()),
            ("response.refusal.done", "refusal", refusal.into()),
            ("response.content_part.done", "part", refused_part(refusal)),
        ] {
            let mut fields = at.clone();
            fields[name] = value;
            events.push(self.event(kind, fields));
        }
        let message = &response["output"][0];
        events.push(self.event("response.output_item.done", json!({"output_index": 0, "item": message})));
        events.push(self.event("response.completed", json!({"response": response})));
    }

    fn response(&self, answered: &Answered, text: &str) -> Value {
        let status = if reason(answered).is_some() { "incomplete" } else { "completed" };
        let part = if answered.end == AnswerEnd::Refused && !self.begun { refused_part(text) } else { part(text) };
        let mut response = self.frame(status);
        let mut output = Vec::new();
        if !text.is_empty() || answered.calls.is_empty() {
            output.push(json!({
                "id": self.message_id(), "type": "message", "status": status, "role": "assistant", "content": [part],
            }));
        }
        output.extend(answered.calls.iter().enumerate().map(|(at, call)| called(&self.call_id(at), call)));
        if let Some(last) = output.last_mut().filter(|last| last["type"] == "function_call") {
            last["status"] = status.into();
        }
        response["output"] = output.into();
        response["completed_at"] = (self.clock.now().0 / 1_000).into();
        response["usage"] = tokens(&answered.usage);
        if let Some(model) = &answered.model {
            response["model"] = model.as_str().into();
        }
        if let Some(reason) = reason(answered) {
            response["incomplete_details"] = json!({"reason": reason});
        }
        response
    }

    /// Returns a response without its output.
    fn frame(&self, status: &str) -> Value {
        let mut response = json!(self.echo);
        let own = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": false,
            "completed_at": null,
            "error": null,
            "frequency_penalty": 0,
            "max_tool_calls": null,
            "presence_penalty": 0,
            "reasoning": null,
            "service_tier": "default",
            "top_logprobs": 0,
            "incomplete_details": null,
            "model": self.model,
            "output": [],
            "parallel_tool_calls": true,
            "truncation": "disabled",
            "usage": null,
        });
        if let (Value::Object(response), Value::Object(own)) = (&mut response, own) {
            response.extend(own);
        }
        response
    }

    fn event(&mut self, kind: &str, fields: Value) -> Value {
        let mut event = fields;
        event["type"] = kind.into();
        event["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        event
    }

    fn message_id(&self) -> String {
        self.id.replacen("resp_", "msg_", 1)
    }

    fn call_id(&self, at: usize) -> String {
        format!("{}-{at}", self.id.replacen("resp_", "fc_", 1))
    }
}

/// Returns the reason of an incomplete answer.
const fn reason(answered: &Answered) -> Option<&'static str> {
    match answered.end {
        AnswerEnd::CutOff => Some("max_output_tokens"),
        AnswerEnd::Filtered => Some("content_filter"),
        AnswerEnd::Whole | AnswerEnd::Refused => None,
    }
}

fn refused_part(refusal: &str) -> Value {
    json!({"type": "refusal", "refusal": refusal})
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn called(id: &str, call: &ToolCall) -> Value {
    let ToolCall { id: call_id, name, arguments } = call;
    json!({
        "id": id, "type": "function_call", "status": "completed", "call_id": call_id, "name": name, "arguments": arguments,
    })
}

/// Formats a compacted conversation: one item that stands for all messages.
pub(super) fn compaction(id: &str, created: u64, answered: &Answered) -> Value {
    let item = json!({
        "id": id.replacen("resp_", "cmp_", 1), "type": "compaction", "encrypted_content": compacted(&answered.text),
    });
    json!({
        "id": id, "object": "response.compaction", "created_at": created, "output": [item],
        "usage": tokens(&answered.usage),
    })
}

fn tokens(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total(),
    })
}

/// Formats a failure within a response, mapped to the few codes of this API.
fn failed(failure: &Failure) -> Value {
    let code = match failure {
        Failure::OverLimit(..) | Failure::UpstreamLimit(_) => "rate_limit_exceeded",
        Failure::Bad { .. } | Failure::ContextTooLong | Failure::OverKey(..) | Failure::Filtered(_) => "invalid_prompt",
        _ => "server_error",
    };
    json!({"code": code, "message": error(failure)["error"]["message"]})
}

/// Formats the confirmation of a removed response.
pub(super) fn deleted(id: &str) -> Value {
    json!({"id": id, "object": "response", "deleted": true})
}
