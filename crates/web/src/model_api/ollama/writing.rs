//! Formats answers as one JSON object, or as one object per line.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::reading::Style;
use crate::model_api::asking::{Answered, Progress};
use crate::model_api::failure::Failure;
use domain::answer_end::AnswerEnd;
use domain::completion::ToolCall;
use domain::ids::Timestamp;
use domain::model::{Row, ToolMode};

pub(super) struct Writer {
    pub style: Style,
    /// The model's name in the request.
    pub model: String,
    pub begun: Instant,
}

impl Writer {
    /// Returns a line with this part of the text.
    pub fn line(&self, text: &str, now: Timestamp, done: bool) -> Value {
        let mut line = json!({"model": self.model, "created_at": told(now), "done": done});
        self.style.put(&mut line, text);
        line
    }

    /// Returns the complete answer.
    pub fn whole(&self, answered: &Answered, now: Timestamp) -> Value {
        self.last(&answered.text, answered, now)
    }

    /// Returns the lines for one event.
    pub fn lines(&self, progress: &Progress, now: Timestamp) -> Vec<Value> {
        match progress {
            Progress::Text(text) => vec![self.line(text, now, false)],
            Progress::Failed(failure) => vec![error(failure)],
            Progress::Answered(answered) => {
                let rest = (!answered.rest.is_empty()).then(|| self.line(&answered.rest, now, false));
                rest.into_iter().chain([self.last("", answered, now)]).collect()
            }
        }
    }

    fn last(&self, text: &str, answered: &Answered, now: Timestamp) -> Value {
        let mut line = self.line(text, now, true);
        // This format cannot express a partial call.
        let whole = answered.end != AnswerEnd::CutOff;
        let took = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if !answered.calls.is_empty() && self.style == Style::Chat {
            line["message"]["tool_calls"] =
                answered.calls.iter().filter(|call| whole || is_whole(call)).map(called).collect();
        }
        line["done_reason"] = if answered.end == AnswerEnd::CutOff { "length" } else { "stop" }.into();
        for (name, value) in [
            ("total_duration", took),
            ("load_duration", 0),
            ("prompt_eval_count", answered.usage.prompt),
            ("prompt_eval_duration", 0),
            ("eval_count", answered.usage.completion),
            ("eval_duration", took),
        ] {
            line[name] = value.into();
        }
        line
    }
}

fn is_whole(call: &ToolCall) -> bool {
    serde_json::from_str::<Value>(&call.arguments).is_ok_and(|arguments| arguments.is_object())
}

fn called(call: &ToolCall) -> Value {
    let arguments = serde_json::from_str::<Value>(&call.arguments).ok().filter(Value::is_object);
    json!({"function": {"name": call.name, "arguments": arguments.unwrap_or_else(|| json!({}))}})
}

fn told(now: Timestamp) -> String {
    let now = i64::try_from(now.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    now.unwrap_or_default().to_string()
}

fn details() -> Value {
    json!({
        "parent_model": "", "format": "", "family": "staffai", "families": ["staffai"], "parameter_size": "",
        "quantization_level": "",
    })
}

/// Returns the list of models. `running`: in the format of loaded models.
pub(super) fn models(names: &[String], now: Timestamp, running: bool) -> Value {
    let model = |name: &String| {
        // Clients derive their displayed ids from it.
        let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
        let digest = digest.map(|byte| format!("{byte:02x}")).concat();
        let mut model = json!({"name": name, "model": name, "size": 0, "digest": digest, "details": details()});
        if running {
            model["expires_at"] = told(now).into();
            model["size_vram"] = 0.into();
        } else {
            model["modified_at"] = told(now).into();
        }
        model
    };
    json!({"models": names.iter().map(model).collect::<Vec<_>>()})
}

/// Returns the details of a model.
pub(super) fn shown(row: &Row, now: Timestamp) -> Value {
    let tools = (row.tools != ToolMode::Off).then_some("tools");
    let vision = row.vision.then_some("vision");
    let embedding = row.embeddings.as_ref().map(|_| "embedding");
    let capabilities: Vec<&str> = std::iter::once("completion").chain(tools).chain(vision).chain(embedding).collect();
    json!({
        "modelfile": "", "parameters": "", "template": "", "details": details(), "modified_at": told(now),
        "model_info": {"general.architecture": "staffai"}, "capabilities": capabilities,
    })
}

pub(super) fn error(failure: &Failure) -> Value {
    json!({"error": failure.text()})
}
