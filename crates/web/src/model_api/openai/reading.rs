//! Parses requests into conversations.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use crate::model_api::failure::Failure;
use crate::model_api::files::{FileData, GivenFile, WireFile};
use crate::model_api::ignored::Ignored;
use crate::model_api::pictures::{self, WirePicture};
use domain::completion::{AnswerForm, Picture, Role, Sampling, ToolCall, ToolChoice, ToolSpec, WrittenJson};
use domain::given::{GivenConversation, Message};
use ports::SentFile;

/// Maximum number of messages of a conversation.
pub(in crate::model_api) const MESSAGES_MAX: usize = 1_000;
/// Maximum number of a client's tools.
pub(in crate::model_api) const TOOLS_MAX: usize = 128;
/// Maximum length of a tool's name, in bytes.
const NAME_MAX: usize = 64;
/// The only supported type of tools.
pub(super) const FUNCTION: &str = "function";
pub(in crate::model_api) const ONLY_USERS: &str = "pictures and files are taken in messages of role user alone";
/// Maximum number of stop sequences.
pub(in crate::model_api) const STOPS_MAX: usize = 4;
/// Parameters that are ignored and do not change the answer: client metadata, and what affects only a provider's cache
/// or price. All other unsupported parameters are reported.
const WITHOUT_EFFECT: [&str; 8] = [
    "metadata",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
];

#[derive(Debug, Deserialize)]
pub(super) struct ChatRequest {
    model: Option<String>,
    messages: Vec<WireMessage>,
    #[serde(default)]
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u64>,
    stop: Option<OneOrMore>,
    temperature: Option<Number>,
    top_p: Option<Number>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    tools: Option<Vec<WireTool>>,
    tool_choice: Option<Value>,
    response_format: Option<WireForm>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Debug, Deserialize)]
struct WireMessage {
    role: String,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    tool_calls: Option<Vec<WireCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    image_url: Option<WirePicture>,
    /// The level of detail of a picture, in the format of responses.
    #[serde(default)]
    detail: Option<String>,
    /// A file, in the format of chat completions.
    #[serde(default)]
    file: Option<WireFile>,
    /// The name and the content of a file, in the format of responses.
    #[serde(default)]
    filename: Option<String>,
    #[serde(default)]
    file_data: Option<FileData>,
}

/// The content of a message.
#[derive(Debug, Default)]
pub(super) struct ReadContent {
    pub text: String,
    pub pictures: Vec<Picture>,
    pub files: Vec<SentFile>,
}

#[derive(Debug, Deserialize)]
struct WireCall {
    id: String,
    function: WireCalled,
}

#[derive(Debug, Deserialize)]
struct WireCalled {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Debug, Deserialize)]
pub(in crate::model_api) struct WireTool {
    #[serde(rename = "type", default = "function")]
    kind: String,
    /// The function; tools of other types may have another value here.
    function: Option<Value>,
}

fn function() -> String {
    FUNCTION.to_owned()
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireFunction {
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub parameters: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct WireForm {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    json_schema: Option<WireSchema>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireSchema {
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub strict: Option<bool>,
    #[serde(default)]
    pub schema: Option<Value>,
}

#[derive(Debug)]
pub(super) struct OpenAiRequest {
    pub conversation: GivenConversation,
    /// The files of its messages, which are not read yet.
    pub files: Vec<GivenFile>,
    /// True if the answer is streamed.
    pub stream: bool,
    /// True if the stream ends with the usage.
    pub usage: bool,
    /// The ignored parts of the request.
    pub ignored: Ignored,
}

impl ChatRequest {
    /// Parses the conversation.
    ///
    /// # Errors
    /// The invalid field and its problem.
    pub fn read(self) -> Result<OpenAiRequest, Failure> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(Failure::bad("n", "only one answer is given; leave it out or send 1"));
        }
        if self.messages.is_empty() || self.messages.len() > MESSAGES_MAX {
            return Err(Failure::bad("messages", format!("send 1 to {MESSAGES_MAX} messages")));
        }
        let mut ignored = Ignored::default();
        ignored.parameters(&self.others, &WITHOUT_EFFECT);
        if self.messages.iter().any(|message| message.name.is_some()) {
            ignored.add("messages.name");
        }
        let mut files = Vec::new();
        let messages = self.messages.into_iter().enumerate();
        let messages = messages.map(|(at, message)| message.read(at, &mut files, &mut ignored));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let stop = match self.stop {
            None => Vec::new(),
            Some(OneOrMore::One(text)) => vec![text],
            Some(OneOrMore::More(texts)) => texts,
        };
        if stop.len() > STOPS_MAX || stop.iter().any(String::is_empty) {
            return Err(Failure::bad("stop", format!("send at most {STOPS_MAX} texts, none of them empty")));
        }
        let max_tokens = self.max_completion_tokens.or(self.max_tokens);
        let sampling = sampling(self.temperature, self.top_p, max_tokens, "max_tokens")?;
        let (tools, choice) = tools(self.tools.unwrap_or_default(), self.tool_choice.as_ref(), &mut ignored)?;
        let form = self.response_format.map_or(Ok(None), WireForm::read)?;
        Ok(OpenAiRequest {
            conversation: GivenConversation {
                messages,
                tools,
                choice,
                form,
                sampling: Sampling { stop, ..sampling },
                model: self.model,
                ..GivenConversation::default()
            },
            files,
            stream: self.stream.unwrap_or(false),
            usage: self.stream_options.is_some_and(|options| options.include_usage),
            ignored,
        })
    }
}

/// Parses the sampling parameters. `limit` is the name of the token limit.
pub(super) fn sampling(
    temperature: Option<Number>,
    top_p: Option<Number>,
    max_tokens: Option<u64>,
    limit: &str,
) -> Result<Sampling, Failure> {
    let within = |name: &str, value: Option<&Number>, most: f64| match value.and_then(Number::as_f64) {
        Some(value) if !(0.0..=most).contains(&value) => Err(Failure::bad(name, format!("send 0 to {most}"))),
        _ => Ok(()),
    };
    within("temperature", temperature.as_ref(), 2.0)?;
    within("top_p", top_p.as_ref(), 1.0)?;
    if max_tokens == Some(0) {
        return Err(Failure::bad(limit, "send 1 or more, or leave it out"));
    }
    let max_tokens = max_tokens.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
    Ok(Sampling { temperature, top_p, max_tokens, ..Sampling::default() })
}

impl WireMessage {
    fn read(self, at: usize, files: &mut Vec<GivenFile>, ignored: &mut Ignored) -> Result<Message, Failure> {
        let place = |what: &str| format!("messages[{at}].{what}");
        let role = match self.role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            _ => return Err(Failure::bad(&place("role"), "must be system, developer, user, assistant or tool")),
        };
        let content = self.content.map(|content| content.read(&["text"], &place("content"), ignored)).transpose()?;
        let is_missing = content.is_none();
        let ReadContent { text, pictures, files: sent } = content.unwrap_or_default();
        if !(pictures.is_empty() && sent.is_empty()) && role != Role::User {
            return Err(Failure::bad(&place("content"), ONLY_USERS));
        }
        files.extend(sent.into_iter().map(|sent| GivenFile { message: at, place: place("content"), sent }));
        let calls: Vec<ToolCall> = self.tool_calls.unwrap_or_default().into_iter().map(WireCall::read).collect();
        let (is_call, is_result) = (!calls.is_empty(), self.tool_call_id.is_some());
        if is_call && role != Role::Assistant {
            return Err(Failure::bad(&place("tool_calls"), "only a message of the assistant has calls"));
        }
        if is_result != (role == Role::Tool) {
            return Err(Failure::bad(
                &place("tool_call_id"),
                "a message of role tool names its call, and no other does",
            ));
        }
        if is_missing && !is_call {
            return Err(Failure::bad(&place("content"), "is missing"));
        }
        Ok(Message { role, text, calls, result_of: self.tool_call_id, pictures })
    }
}

impl Content {
    /// Returns the text, whose parts have these types, the pictures and the files.
    ///
    /// # Errors
    /// A part has another type, or a picture or file is invalid.
    pub fn read(self, kinds: &[&str], place: &str, ignored: &mut Ignored) -> Result<ReadContent, Failure> {
        let parts = match self {
            Self::Text(text) => return Ok(ReadContent { text, ..ReadContent::default() }),
            Self::Parts(parts) => parts,
        };
        let (mut texts, mut given, mut files) = (Vec::with_capacity(parts.len()), Vec::new(), Vec::new());
        for part in parts {
            let Part { kind, text, refusal, image_url, detail, file, filename, file_data } = part;
            match (kind.as_str(), text, refusal, image_url) {
                (kind, Some(text), ..) if kinds.contains(&kind) => texts.push(text),
                ("refusal", _, Some(text), _) => texts.push(text),
                ("image_url" | "input_image", _, _, Some(picture)) => {
                    if picture.has_detail || detail.is_some_and(|detail| detail != "auto") {
                        ignored.add("image_url.detail");
                    }
                    given.push(picture);
                }
                ("image_url" | "input_image", ..) => {
                    return Err(Failure::bad(place, "send the picture as image_url, a data: URL"));
                }
                ("file", ..) => files.push(file.unwrap_or_default().read(place)?),
                ("input_file", ..) => files.push(WireFile { filename, file_data }.read(place)?),
                (kind, ..) => {
                    let why = format!("parts of type {kind:?} are not taken; send text, pictures or files");
                    return Err(Failure::bad(place, why));
                }
            }
        }
        Ok(ReadContent { text: texts.join("\n"), pictures: pictures::read(given, place)?, files })
    }

    /// Returns the text of a field without pictures and files.
    ///
    /// # Errors
    /// A part has another type.
    pub fn text(self, kinds: &[&str], place: &str) -> Result<String, Failure> {
        match self.read(kinds, place, &mut Ignored::default())? {
            ReadContent { text, pictures, files } if pictures.is_empty() && files.is_empty() => Ok(text),
            _ => Err(Failure::bad(place, ONLY_USERS)),
        }
    }
}

impl WireCall {
    fn read(self) -> ToolCall {
        let Self { id, function: WireCalled { name, arguments } } = self;
        ToolCall { id, name, arguments }
    }
}

pub(in crate::model_api) fn tools(
    wire: Vec<WireTool>,
    choice: Option<&Value>,
    ignored: &mut Ignored,
) -> Result<(Vec<Arc<ToolSpec>>, ToolChoice), Failure> {
    at_most(wire.len())?;
    let mut tools = Vec::with_capacity(wire.len());
    for (at, tool) in wire.into_iter().enumerate() {
        tools.extend(tool.read(at, ignored)?);
    }
    chosen(tools, choice)
}

pub(super) fn at_most(tools: usize) -> Result<(), Failure> {
    if tools > TOOLS_MAX {
        return Err(Failure::bad("tools", format!("send at most {TOOLS_MAX}")));
    }
    Ok(())
}

/// Returns the tools that this choice allows.
pub(super) fn chosen(
    tools: Vec<Arc<ToolSpec>>,
    choice: Option<&Value>,
) -> Result<(Vec<Arc<ToolSpec>>, ToolChoice), Failure> {
    if let Some(allowed) = choice.filter(|choice| choice.get("type").is_some_and(|kind| kind == "allowed_tools")) {
        return allowed_of(tools, allowed);
    }
    let named = choice.and_then(named);
    match (choice, choice.and_then(Value::as_str), named) {
        (None | Some(Value::Null), ..) | (_, Some("auto"), _) => Ok((tools, ToolChoice::Auto)),
        (_, Some("none"), _) => Ok((Vec::new(), ToolChoice::None)),
        (_, Some("required"), _) if !tools.is_empty() => Ok((tools, ToolChoice::Required)),
        (_, _, Some(name)) if tools.iter().any(|tool| tool.name == name) => {
            let choice = ToolChoice::Named(name.to_owned());
            Ok((tools, choice))
        }
        _ => Err(Failure::bad("tool_choice", "must be none, auto, required, or name a function of tools")),
    }
}

/// Returns the name of the function in a choice, or in an entry of one.
fn named(choice: &Value) -> Option<&str> {
    choice.get("function").unwrap_or(choice).get("name")?.as_str()
}

/// Returns the tools that a choice of type `allowed_tools` allows, in either endpoint's format, and whether a call is
/// required.
fn allowed_of(tools: Vec<Arc<ToolSpec>>, choice: &Value) -> Result<(Vec<Arc<ToolSpec>>, ToolChoice), Failure> {
    let place = |what: &str| format!("tool_choice.{what}");
    let inside = choice.get("allowed_tools").unwrap_or(choice);
    let listed = inside.get("tools").and_then(Value::as_array);
    let listed = listed.ok_or_else(|| Failure::bad(&place("tools"), "must be a list of functions"))?;
    let names: HashSet<&str> = listed.iter().filter_map(named).collect();
    let allowed: Vec<_> = tools.into_iter().filter(|tool| names.contains(tool.name.as_str())).collect();
    match inside.get("mode").and_then(Value::as_str).unwrap_or("auto") {
        "auto" if allowed.is_empty() => Ok((allowed, ToolChoice::None)),
        "auto" => Ok((allowed, ToolChoice::Auto)),
        "required" if !allowed.is_empty() => Ok((allowed, ToolChoice::Required)),
        "required" => Err(Failure::bad(&place("tools"), "must name a function of tools")),
        _ => Err(Failure::bad(&place("mode"), "must be auto or required")),
    }
}

impl WireTool {
    /// Returns the tool; `None` for an ignored type, which is recorded.
    fn read(self, at: usize, ignored: &mut Ignored) -> Result<Option<Arc<ToolSpec>>, Failure> {
        let place = format!("tools[{at}].function");
        if self.kind != FUNCTION {
            ignored.tool(&self.kind);
            return Ok(None);
        }
        let function = self.function.ok_or_else(|| Failure::bad(&place, "is missing"))?;
        let function: WireFunction =
            serde_json::from_value(function).map_err(|error| Failure::bad(&place, error.to_string()))?;
        function.read(&place, ignored).map(Some)
    }
}

impl WireFunction {
    /// Returns the tool at this place of the request.
    ///
    /// # Errors
    /// Its problem.
    pub fn read(self, place: &str, ignored: &mut Ignored) -> Result<Arc<ToolSpec>, Failure> {
        let Self { name, description, parameters, strict } = self;
        if strict == Some(true) {
            ignored.add("tools.strict");
        }
        let place = |what: &str| format!("{place}.{what}");
        let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(usable) {
            let why = format!("must be 1 to {NAME_MAX} letters, digits, - or _");
            return Err(Failure::bad(&place("name"), why));
        }
        let parameters = parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        if !parameters.is_object() {
            return Err(Failure::bad(&place("parameters"), "must be a JSON schema"));
        }
        let (description, parameters) = (description.unwrap_or_default(), WrittenJson::new(&parameters));
        Ok(Arc::new(ToolSpec { name, description, parameters }))
    }
}

impl WireForm {
    fn read(self) -> Result<Option<AnswerForm>, Failure> {
        match (self.kind.as_str(), self.json_schema) {
            ("text", _) => Ok(None),
            ("json_object", _) => Ok(Some(json_object())),
            ("json_schema", Some(schema)) => Ok(Some(schema.form())),
            ("json_schema", None) => Err(Failure::bad("response_format.json_schema", "is missing")),
            _ => Err(Failure::bad("response_format.type", "must be text, json_object or json_schema")),
        }
    }
}

impl WireSchema {
    /// Returns the form that it describes.
    pub fn form(self) -> AnswerForm {
        let Self { name, description, strict, schema } = self;
        let schema = schema.unwrap_or_else(|| json!({"type": "object"}));
        AnswerForm { name, description, strict, schema }
    }
}

/// The form of any JSON object.
pub(in crate::model_api) fn json_object() -> AnswerForm {
    AnswerForm { name: "answer".to_owned(), description: None, strict: None, schema: json!({"type": "object"}) }
}

#[cfg(test)]
mod tests;
