//! Parses requests to the demo model, and formats its answers in two ways.

use serde_json::{Map, Value, json};

use super::MODEL;
use super::answers::{self, DemoAnswer, Heard};

/// The creation time of all answers. The demo model has no clock, and no client needs one.
pub const CREATED: u64 = 0;

/// Maximum number of messages of a request.
const MESSAGES: usize = 2_000;
/// Characters per token, approximately.
const LETTERS_PER_TOKEN: usize = 4;
/// Tokens per message in addition to its text.
const MESSAGE_TOKENS: usize = 4;

/// One message of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptMessage {
    /// `system`, `user`, `assistant`, `tool`, or any other text sent.
    pub role: String,
    /// The text parts, joined.
    pub text: String,
}

/// A valid request.
#[derive(Debug, Clone)]
pub struct CompletionRequest {
    /// The transcript, oldest first.
    pub said: Vec<TranscriptMessage>,
    /// True if the answer is streamed word by word.
    pub stream: bool,
    /// True if the stream ends with the usage.
    pub stream_usage: bool,
    /// The requested model name, which is echoed.
    model: String,
    /// Names of the offered tools, each with its argument schema.
    tools: Vec<(String, Value)>,
    /// The size of all offered tools, in characters.
    tool_letters: usize,
    /// The JSON schema of the answer.
    schema: Option<Value>,
}

impl CompletionRequest {
    /// Parses a request body.
    ///
    /// # Errors
    /// The body is not JSON, has no messages, or has too many.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
        let Some(messages) = body["messages"].as_array() else {
            return Err("'messages' must be a list".to_owned());
        };
        if messages.is_empty() || messages.len() > MESSAGES {
            return Err(format!("'messages' must have 1 to {MESSAGES} entries"));
        }
        let said = messages.iter().map(read_message).collect::<Result<_, _>>()?;
        let offered = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        // `tool_choice: none` asks for text.
        let tools = offered.iter().filter(|_| body["tool_choice"] != "none").filter_map(read_tool).collect();
        let format = &body["response_format"];
        Ok(Self {
            said,
            stream: body["stream"] == true,
            stream_usage: body["stream_options"]["include_usage"] == true,
            model: body["model"].as_str().unwrap_or(MODEL).to_owned(),
            tools,
            tool_letters: offered.iter().map(|tool| tool.to_string().chars().count()).sum(),
            schema: (format["type"] == "json_schema").then(|| format["json_schema"]["schema"].clone()),
        })
    }
}

fn read_message(message: &Value) -> Result<TranscriptMessage, String> {
    let Some(role) = message["role"].as_str() else {
        return Err("each message needs a 'role'".to_owned());
    };
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let parts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            parts.join("\n")
        }
        Value::Null => String::new(),
        _ => return Err("'content' must be a text or a list of parts".to_owned()),
    };
    Ok(TranscriptMessage { role: role.to_owned(), text })
}

fn read_tool(tool: &Value) -> Option<(String, Value)> {
    let function = &tool["function"];
    Some((function["name"].as_str()?.to_owned(), function["parameters"].clone()))
}

/// An answer in the requested format.
#[derive(Debug, Clone)]
pub struct Reply {
    id: String,
    model: String,
    body: Body,
    usage: Value,
}

#[derive(Debug, Clone)]
enum Body {
    Text(String),
    Call { name: String, arguments: String },
}

impl Reply {
    /// Computes the answer to a request.
    pub fn to(asked: &CompletionRequest) -> Self {
        let heard = Heard { said: &asked.said, tools: &asked.tools };
        let body = match answers::answer(&heard) {
            DemoAnswer::Call { name, arguments } => Body::Call { name, arguments: arguments.to_string() },
            DemoAnswer::Says { kind, response, data } => Body::Text(match &asked.schema {
                Some(schema) => shaped(schema, kind, &response, &data).to_string(),
                None => plain(kind, response, &data),
            }),
        };
        let letters: usize = asked.said.iter().map(|said| said.text.chars().count()).sum();
        let prompt = (letters + asked.tool_letters) / LETTERS_PER_TOKEN + asked.said.len() * MESSAGE_TOKENS;
        let written = match &body {
            Body::Text(text) => text.chars().count(),
            Body::Call { name, arguments } => name.len() + arguments.len(),
        };
        let completion = written.div_ceil(LETTERS_PER_TOKEN);
        let usage =
            json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
        let id = format!("chatcmpl-demo-{letters}-{}", asked.said.len());
        Self { id, model: asked.model.clone(), body, usage }
    }

    /// Returns the complete answer.
    pub fn whole(&self) -> Value {
        let (message, finish) = match &self.body {
            Body::Text(text) => (json!({"role": "assistant", "content": text, "refusal": null}), "stop"),
            Body::Call { .. } => {
                (json!({"role": "assistant", "content": null, "tool_calls": [self.call(false)]}), "tool_calls")
            }
        };
        let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish});
        let mut whole = self.frame("chat.completion", &[choice]);
        whole["usage"] = self.usage.clone();
        whole
    }

    /// Returns the chunks of a stream, without the closing mark.
    pub fn chunks(&self, with_usage: bool) -> Vec<Value> {
        let chunk = |delta: Value, finish: Option<&str>| {
            self.frame("chat.completion.chunk", &[json!({"index": 0, "delta": delta, "finish_reason": finish})])
        };
        let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
        let finish = match &self.body {
            Body::Text(text) => {
                chunks.extend(text.split_inclusive(' ').map(|word| chunk(json!({"content": word}), None)));
                "stop"
            }
            Body::Call { .. } => {
                chunks.push(chunk(json!({"tool_calls": [self.call(true)]}), None));
                "tool_calls"
            }
        };
        chunks.push(chunk(json!({}), Some(finish)));
        if with_usage {
            let mut last = self.frame("chat.completion.chunk", &[]);
            last["usage"] = self.usage.clone();
            chunks.push(last);
        }
        chunks
    }

    fn frame(&self, object: &str, choices: &[Value]) -> Value {
        json!({"id": self.id, "object": object, "created": CREATED, "model": self.model, "choices": choices})
    }

    fn call(&self, streamed: bool) -> Value {
        let Body::Call { name, arguments } = &self.body else {
            return Value::Null;
        };
        let function = json!({"name": name, "arguments": arguments});
        let id = self.id.replace("chatcmpl", "call");
        let mut call = json!({"id": id, "type": "function", "function": function});
        if streamed {
            call["index"] = json!(0);
        }
        call
    }
}

/// Fills the known properties of a schema, and the other required ones with a value of the right type.
fn shaped(schema: &Value, kind: &str, response: &str, data: &str) -> Value {
    let known = json!({"type": kind, "response": response, "data": data});
    let Some(properties) = schema["properties"].as_object() else {
        return known;
    };
    let mut shaped = Map::new();
    for (name, place) in properties {
        let value = match (known.get(name), place["enum"].as_array(), place["type"].as_str()) {
            (Some(value), None, _) => value.clone(),
            (Some(value), Some(choices), _) if choices.contains(value) => value.clone(),
            (_, Some(choices), _) => choices.first().cloned().unwrap_or_default(),
            (None, None, Some("integer" | "number")) => json!(0),
            (None, None, Some("boolean")) => json!(false),
            (None, None, Some("array")) => json!([]),
            (None, None, Some("object")) => json!({}),
            (None, None, _) => json!(response),
        };
        shaped.insert(name.clone(), value);
    }
    Value::Object(shaped)
}

/// Formats the answer for a client that requested no schema.
fn plain(kind: &str, response: String, data: &str) -> String {
    match (kind, data) {
        (_, "") => response,
        ("code" | "output", _) => format!("{response}\n```\n{data}\n```"),
        (..) => format!("{response}\n{data}"),
    }
}
