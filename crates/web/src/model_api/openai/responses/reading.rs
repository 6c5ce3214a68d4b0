//! Parses requests of the Responses API.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

use crate::model_api::failure::Failure;
use crate::model_api::files::GivenFile;
use crate::model_api::ignored::{Ignored, asks};
use crate::model_api::openai::reading::{
    Content, FUNCTION, MESSAGES_MAX, ONLY_USERS, ReadContent, WireFunction, WireSchema, at_most, chosen, json_object,
    sampling,
};
use domain::completion::{AnswerForm, Role, ToolCall, ToolSpec};
use domain::given::{GivenConversation, Message};

/// Maximum number of metadata entries, and maximum lengths of their names and values, in bytes.
const METADATA_MAX: usize = 16;
const METADATA_NAME_MAX: usize = 64;
const METADATA_VALUE_MAX: usize = 2_048;
/// Maximum length of the name of an event, a stream or a type, in bytes.
const STREAM_ID_MAX: usize = 128;
/// The type of items that refer to earlier content.
const REFERENCE: &str = "item_reference";
/// The types of text parts.
const TEXTS: [&str; 3] = ["input_text", "output_text", "text"];
/// Parameters that are ignored and do not change the answer.
const WITHOUT_EFFECT: [&str; 6] =
    ["client_metadata", "prompt_cache_options", "prompt_cache_retention", "service_tier", "stream_options", "user"];
/// The prefix of a compacted conversation in the opaque field that clients send back.
const COMPACTED: &str = "staffai1.";
/// The heading of the summary of a compacted conversation.
const SUMMARY: &str = "Summary of the conversation so far:";
/// Parameters that cannot be ignored without changing the answer.
const REFUSED: [(&str, &str); 3] = [
    ("background", "is not supported; leave it out and read the response, or its stream"),
    ("conversation", "is not supported; send previous_response_id"),
    ("prompt", "is not supported; send instructions and input"),
];

#[derive(Debug, Deserialize)]
pub(super) struct CreateRequest {
    model: Option<String>,
    input: Option<Input>,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    stream: Option<bool>,
    store: Option<bool>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    text: Option<TextOptions>,
    max_output_tokens: Option<u64>,
    temperature: Option<Number>,
    top_p: Option<Number>,
    tools: Option<Vec<Tool>>,
    tool_choice: Option<Value>,
    prompt_cache_key: Option<String>,
    safety_identifier: Option<String>,
    /// True if the conversation is only prepared: the next response continues from it.
    #[serde(skip)]
    pub warms_up: bool,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The fields of a socket's event beside the request.
#[derive(Debug)]
pub(super) struct EventHead {
    /// The type of the event.
    pub kind: Option<String>,
    /// The name that the events of the response repeat.
    pub stream_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CompactRequest {
    pub model: Option<String>,
    input: Option<Input>,
    pub instructions: Option<String>,
    pub previous_response_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Item>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Item {
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Its id, if a response assigned one.
    pub id: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<Content>,
    encrypted_content: Option<String>,
}

#[derive(Debug, Deserialize)]
struct TextOptions {
    format: Option<Format>,
    #[serde(default)]
    verbosity: Value,
}

#[derive(Debug, Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    description: Option<String>,
    strict: Option<bool>,
    schema: Option<Value>,
}

/// A tool: a function, or one of an ignored type, whose other fields are not read.
#[derive(Debug, Deserialize)]
struct Tool {
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

#[derive(Debug)]
pub(super) struct ResponseRequest {
    /// The messages of this request, without its instructions.
    pub conversation: GivenConversation,
    /// The files of these messages, which are not read yet.
    pub files: Vec<GivenFile>,
    /// The response that it continues from.
    pub previous: Option<String>,
    /// True if the answer is streamed.
    pub stream: bool,
    /// True if the response is stored.
    pub store: bool,
    /// The ignored parts of the request.
    pub ignored: Ignored,
    /// The fields that the response repeats.
    pub echo: Echo,
}

/// The fields of a request that the response repeats. The public Open Responses specification requires each of them.
#[derive(Debug, Serialize)]
pub(super) struct Echo {
    pub instructions: Option<String>,
    previous_response_id: Option<String>,
    metadata: BTreeMap<String, String>,
    text: Value,
    max_output_tokens: Option<u64>,
    pub temperature: Option<Number>,
    top_p: Number,
    tools: Value,
    tool_choice: Value,
    store: bool,
    prompt_cache_key: Option<String>,
    safety_identifier: Option<String>,
}

/// The default of `top_p`.
const WHOLE: u64 = 1;

impl CreateRequest {
    /// Removes the fields of a socket's event. Sockets always stream, so `stream` is removed as well.
    pub fn take_head(&mut self) -> EventHead {
        let mut text = |name: &str| match self.others.remove(name) {
            Some(Value::String(text)) if text.len() <= STREAM_ID_MAX => Some(text),
            _ => None,
        };
        let head = EventHead { kind: text("type"), stream_id: text("stream_id") };
        text("event_id");
        self.others.remove("background");
        self.stream = Some(true);
        self.warms_up = self.others.remove("generate") == Some(Value::Bool(false));
        head
    }

    /// Returns the id of the response that it continues from.
    pub fn previous(&self) -> Option<&str> {
        self.previous_response_id.as_deref()
    }

    /// Returns the items that refer to earlier content.
    pub fn references(&mut self) -> impl Iterator<Item = &mut Item> {
        let items = match &mut self.input {
            Some(Input::Items(items)) => items.as_mut_slice(),
            Some(Input::Text(_)) | None => &mut [],
        };
        items.iter_mut().filter(|item| item.kind.as_deref() == Some(REFERENCE))
    }

    /// Parses the request.
    ///
    /// # Errors
    /// The invalid field and its problem.
    pub fn read(self) -> Result<ResponseRequest, Failure> {
        for (name, why) in REFUSED {
            if self.others.get(name).is_some_and(asks) {
                return Err(Failure::bad(name, why));
            }
        }
        let mut ignored = Ignored::default();
        let is_default = self.others.get("truncation").is_some_and(|value| value == "disabled");
        let others = self.others.into_iter().filter(|(name, _)| name != "truncation" || !is_default).collect();
        ignored.parameters(&others, &WITHOUT_EFFECT);
        let metadata = self.metadata.unwrap_or_default();
        let too_long =
            |(name, value): (&String, &String)| name.len() > METADATA_NAME_MAX || value.len() > METADATA_VALUE_MAX;
        if metadata.len() > METADATA_MAX || metadata.iter().any(too_long) {
            let why = format!(
                "send at most {METADATA_MAX} entries, names of {METADATA_NAME_MAX} and values of {METADATA_VALUE_MAX} bytes"
            );
            return Err(Failure::bad("metadata", why));
        }
        let InputMessages { messages, files } = match self.input {
            None | Some(Input::Items(_)) if self.warms_up && says_nothing(self.input.as_ref()) => {
                InputMessages::default()
            }
            None => return Err(Failure::bad("input", "is missing")),
            Some(input) => input.read(&mut ignored)?,
        };
        let sampling =
            sampling(self.temperature.clone(), self.top_p.clone(), self.max_output_tokens, "max_output_tokens")?;
        if self.text.as_ref().is_some_and(|text| asks(&text.verbosity)) {
            ignored.add("text.verbosity");
        }
        let format = self.text.and_then(|text| text.format).unwrap_or_else(Format::text);
        let (functions, written) = functions(self.tools.unwrap_or_default(), &mut ignored)?;
        let echo = Echo {
            instructions: self.instructions,
            previous_response_id: self.previous_response_id.clone(),
            metadata,
            text: json!({"format": format.told()}),
            max_output_tokens: self.max_output_tokens,
            temperature: self.temperature,
            top_p: self.top_p.unwrap_or_else(|| WHOLE.into()),
            tools: written.into(),
            tool_choice: self.tool_choice.clone().filter(asks).unwrap_or_else(|| "auto".into()),
            store: self.store.unwrap_or(true),
            prompt_cache_key: self.prompt_cache_key,
            safety_identifier: self.safety_identifier,
        };
        let (tools, choice) = chosen(functions, self.tool_choice.as_ref())?;
        let (form, model) = (format.read()?, self.model);
        Ok(ResponseRequest {
            conversation: GivenConversation {
                messages,
                tools,
                choice,
                form,
                sampling,
                model,
                ..GivenConversation::default()
            },
            files,
            previous: self.previous_response_id,
            stream: self.stream.unwrap_or(false),
            store: echo.store,
            ignored,
            echo,
        })
    }
}

impl CompactRequest {
    /// Parses the messages.
    ///
    /// # Errors
    /// The invalid field and its problem.
    pub fn messages(&mut self) -> Result<InputMessages, Failure> {
        if self.model.is_none() {
            return Err(Failure::bad("model", "is missing"));
        }
        match self.input.take() {
            Some(input) => input.read(&mut Ignored::default()),
            None if self.previous_response_id.is_some() => Ok(InputMessages::default()),
            None => Err(Failure::bad("input", "is missing, and so is previous_response_id")),
        }
    }
}

fn says_nothing(input: Option<&Input>) -> bool {
    match input {
        Some(Input::Items(items)) => items.is_empty(),
        Some(Input::Text(_)) => false,
        None => true,
    }
}

/// Returns the functions among the tools, and their form in a response. Other types are ignored.
fn functions(tools: Vec<Tool>, ignored: &mut Ignored) -> Result<(Vec<Arc<ToolSpec>>, Vec<Value>), Failure> {
    at_most(tools.len())?;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for (at, Tool { kind, fields }) in tools.into_iter().enumerate() {
        if kind != FUNCTION {
            ignored.tool(&kind);
            continue;
        }
        let place = format!("tools[{at}]");
        if !fields.contains_key("name") {
            return Err(Failure::bad(&format!("{place}.name"), "is missing"));
        }
        let function: WireFunction =
            serde_json::from_value(fields.into()).map_err(|error| Failure::bad(&place, error.to_string()))?;
        let WireFunction { name, description, parameters, strict } = &function;
        written.push(json!({
            "type": FUNCTION, "name": name, "description": description, "parameters": parameters, "strict": strict,
        }));
        read.push(function.read(&place, ignored)?);
    }
    Ok((read, written))
}

/// Encodes a compacted conversation for the opaque field.
pub(super) fn compacted(summary: &str) -> String {
    format!("{COMPACTED}{}", STANDARD.encode(summary))
}

fn summary(field: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(field.strip_prefix(COMPACTED)?).ok()?).ok()
}

/// The messages of an input, and their files.
#[derive(Debug, Default)]
pub(super) struct InputMessages {
    pub messages: Vec<Message>,
    pub files: Vec<GivenFile>,
}

impl Input {
    fn read(self, ignored: &mut Ignored) -> Result<InputMessages, Failure> {
        let items = match self {
            Self::Text(text) => {
                return Ok(InputMessages { messages: vec![Message::new(Role::User, text)], files: Vec::new() });
            }
            Self::Items(items) => items,
        };
        if items.is_empty() || items.len() > MESSAGES_MAX {
            return Err(Failure::bad("input", format!("send 1 to {MESSAGES_MAX} items")));
        }
        let mut read = InputMessages { messages: Vec::with_capacity(items.len()), files: Vec::new() };
        for (at, item) in items.into_iter().enumerate() {
            item.read(at, &mut read, ignored)?;
        }
        if read.messages.is_empty() {
            return Err(Failure::bad("input", "holds nothing that was said"));
        }
        Ok(read)
    }
}

/// A part of the model's messages in a response.
#[derive(Clone, Copy)]
pub(super) enum Recalled<'a> {
    Text(&'a str),
    Call(&'a ToolCall),
}

impl<'a> Recalled<'a> {
    /// Returns the text, or the call of this number if it exists.
    pub fn of(said: &'a Message, call: Option<usize>) -> Option<Self> {
        match call {
            None => Some(Self::Text(&said.text)),
            Some(number) => said.calls.get(number).map(Self::Call),
        }
    }

    /// Returns the bytes that a copy takes.
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Call(call) => call.bytes(),
        }
    }
}

impl Item {
    /// Replaces the reference by the referenced part.
    pub fn recall(&mut self, part: Recalled<'_>) {
        match part {
            Recalled::Text(text) => {
                (self.kind, self.role) = (None, Some("assistant".to_owned()));
                self.content = Some(Content::Text(text.to_owned()));
            }
            Recalled::Call(call) => {
                let ToolCall { id, name, arguments } = call.clone();
                self.kind = Some("function_call".to_owned());
                (self.call_id, self.name, self.arguments) = (Some(id), Some(name), Some(arguments));
            }
        }
    }

    /// Adds its messages.
    fn read(self, at: usize, read: &mut InputMessages, ignored: &mut Ignored) -> Result<(), Failure> {
        let messages = &mut read.messages;
        let place = |what: &str| format!("input[{at}].{what}");
        let missing = |what: &str| Failure::bad(&place(what), "is missing");
        match self.kind.as_deref().unwrap_or("message") {
            "message" => {
                let role = match self.role.as_deref() {
                    Some("system" | "developer") => Role::System,
                    Some("user") => Role::User,
                    Some("assistant") => Role::Assistant,
                    _ => return Err(Failure::bad(&place("role"), "must be system, developer, user or assistant")),
                };
                let content = self.content.ok_or_else(|| missing("content"))?;
                let ReadContent { text, pictures, files } = content.read(&TEXTS, &place("content"), ignored)?;
                if !(pictures.is_empty() && files.is_empty()) && role != Role::User {
                    return Err(Failure::bad(&place("content"), ONLY_USERS));
                }
                let of_this = |sent| GivenFile { message: messages.len(), place: place("content"), sent };
                read.files.extend(files.into_iter().map(of_this));
                messages.push(Message { pictures, ..Message::new(role, text) });
            }
            "compaction" => {
                let field = self.encrypted_content.ok_or_else(|| missing("encrypted_content"))?;
                let unknown =
                    || Failure::bad(&place("encrypted_content"), "was not made by /v1/responses/compact here");
                let summary = summary(&field).ok_or_else(unknown)?;
                messages.push(Message::new(Role::System, format!("{SUMMARY}\n\n{summary}")));
            }
            "function_call" => {
                let call = ToolCall {
                    id: self.call_id.ok_or_else(|| missing("call_id"))?,
                    name: self.name.ok_or_else(|| missing("name"))?,
                    arguments: self.arguments.unwrap_or_default(),
                };
                match messages.last_mut() {
                    // Parallel calls form one message, together with the text before them.
                    Some(last) if last.role == Role::Assistant => last.calls.push(call),
                    _ => messages.push(Message { calls: vec![call], ..Message::new(Role::Assistant, "") }),
                }
            }
            "function_call_output" => {
                let output = self.output.ok_or_else(|| missing("output"))?.text(&TEXTS, &place("output"))?;
                let call = self.call_id.ok_or_else(|| missing("call_id"))?;
                messages.push(Message { result_of: Some(call), ..Message::new(Role::Tool, output) });
            }
            // Reasoning is not sent to models again.
            "reasoning" => {}
            kind => return Err(Failure::bad(&place("type"), format!("items of type {kind:?} are not taken"))),
        }
        Ok(())
    }
}

impl Format {
    fn text() -> Self {
        Self { kind: "text".to_owned(), name: None, description: None, strict: None, schema: None }
    }

    /// Returns its form in a response.
    fn told(&self) -> Value {
        let Self { kind, name, description, strict, schema } = self;
        if kind != "json_schema" {
            return json!({"type": kind});
        }
        let strict = strict.unwrap_or_default();
        json!({"type": kind, "name": name, "description": description, "strict": strict, "schema": schema})
    }

    fn read(self) -> Result<Option<AnswerForm>, Failure> {
        let Self { kind, name, description, strict, schema } = self;
        match (kind.as_str(), name) {
            ("text", _) => Ok(None),
            ("json_object", _) => Ok(Some(json_object())),
            ("json_schema", Some(name)) => Ok(Some(WireSchema { name, description, strict, schema }.form())),
            ("json_schema", None) => Err(Failure::bad("text.format.name", "is missing")),
            _ => Err(Failure::bad("text.format.type", "must be text, json_object or json_schema")),
        }
    }
}

#[cfg(test)]
mod tests;
