//! Requests to models and their answers, independent of any provider's wire format.

mod input_file;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

pub use self::input_file::{Accepts, InputFile};
use crate::hosted::{HostedTool, HostedUse};

/// One completion request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// The transcript, oldest first.
    pub messages: Vec<Item>,
    /// The required structure of the answer. `None`: plain text.
    pub form: Option<Arc<AnswerForm>>,
    /// The tools that the model may call, in a stable order.
    pub tools: Vec<Arc<ToolSpec>>,
    /// The tools that the provider may run itself.
    pub hosted: Vec<HostedTool>,
    /// True if [`ANSWER_FUNCTION`] is one of the tools.
    pub answer_function: bool,
    /// The requirement to call a tool.
    pub choice: ToolChoice,
    /// Sampling parameters that differ from the row's.
    pub sampling: Sampling,
}

/// The name of the function whose arguments are the answer. No tool has it: names of tool servers contain `__`.
pub const ANSWER_FUNCTION: &str = "give_answer";

/// The largest plausible number of tokens that a service reports: no model has a window of this size.
pub const SANE_TOKENS: u64 = 10_000_000;

/// The requirement to call one of the offered tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No call, even if tools are offered.
    None,
    /// At least one call, of any tool.
    Required,
    /// A call of this tool.
    Named(String),
}

/// Sampling parameters. Absent ones come from the row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sampling {
    /// The temperature. Rows with a fixed temperature do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    /// Nucleus sampling: the probability mass of the most likely tokens to sample from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Number>,
    /// The reasoning effort. Rows that take none do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// The most tokens of the answer, within the row's bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Stop sequences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

/// The effort that a reasoning model spends, in the providers' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEffort {
    /// The least.
    Minimal,
    /// Little.
    Low,
    /// The providers' usual effort.
    Medium,
    /// The most.
    High,
}

impl ReasoningEffort {
    const ALL: [Self; 4] = [Self::Minimal, Self::Low, Self::Medium, Self::High];

    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Returns the effort of a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.as_str() == word)
    }
}

impl Request {
    /// Returns the approximate number of characters sent to a model that accepts these parts, for token estimates.
    #[must_use]
    pub fn chars(&self, accepts: Accepts) -> usize {
        let items = self.messages.iter().map(|item| match &item.raw {
            Some(raw) => raw.as_str().chars().count(),
            None => item.text_for(accepts).chars().count() + item.chars_beside_text(accepts),
        });
        let tools = self.tools.iter().map(|tool| tool.chars());
        items.chain(tools).sum::<usize>() + self.form.as_ref().map_or(0, |form| form.chars())
    }
}

impl Request {
    /// Estimates how many of `prompt_tokens` belong to a part of `part` bytes, at a model that accepts these parts: its
    /// share of all bytes, at most all tokens.
    #[must_use]
    pub fn share(&self, part: usize, prompt_tokens: u64, accepts: Accepts) -> u64 {
        if part == 0 {
            return 0;
        }
        let items = self.messages.iter().map(|item| match &item.raw {
            Some(raw) => raw.as_str().len(),
            None => item.text_for(accepts).len() + item.chars_beside_text(accepts),
        });
        let tools = self.tools.iter().map(|tool| tool.bytes());
        let all = items.chain(tools).sum::<usize>() + self.form.as_ref().map_or(0, |form| form.chars());
        let share = u128::from(prompt_tokens) * (part as u128) / (all.max(part) as u128);
        u64::try_from(share).unwrap_or(prompt_tokens)
    }
}

/// The required structure of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerForm {
    /// The name; never empty.
    pub name: String,
    /// The purpose, for the model.
    pub description: Option<String>,
    /// True if the provider must enforce it. `None`: the provider decides.
    pub strict: Option<bool>,
    /// The JSON schema of the answer.
    pub schema: Value,
}

impl AnswerForm {
    /// Returns its approximate number of characters in a prompt.
    #[must_use]
    pub fn chars(&self) -> usize {
        let description = self.description.as_ref().map_or(0, |text| text.chars().count());
        self.name.chars().count() + description + self.schema.to_string().chars().count()
    }
}

/// Approximate characters of text that cost as much as one picture; providers count 85 to several thousand tokens.
const PICTURE_CHARS: usize = 4_000;

/// Characters per token in estimates.
const CHARS_PER_TOKEN: u64 = 4;

/// Estimates the tokens of a text with this many characters.
#[must_use]
pub fn estimated_tokens(chars: usize) -> u64 {
    u64::try_from(chars).unwrap_or(u64::MAX).div_ceil(CHARS_PER_TOKEN)
}

/// A tool as described to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name used in calls.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: WrittenJson,
}

impl ToolSpec {
    /// Returns its number of bytes in a prompt.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.name.len() + self.description.len() + self.parameters.as_str().len()
    }

    /// Returns its approximate number of characters in a prompt.
    #[must_use]
    pub fn chars(&self) -> usize {
        self.name.chars().count() + self.description.chars().count() + self.parameters.as_str().chars().count()
    }
}

/// JSON that is serialized once and sent many times. Clones share the text.
#[derive(Debug, Clone)]
pub struct WrittenJson(Arc<RawValue>);

impl WrittenJson {
    /// Serializes a value.
    #[must_use]
    pub fn new(value: &Value) -> Self {
        // A value with string keys always serializes.
        Self(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()).into())
    }

    /// Serializes a record. `None` if it has no JSON form.
    #[must_use]
    pub fn of(record: &impl Serialize) -> Option<Self> {
        serde_json::value::to_raw_value(record).ok().map(|raw| Self(raw.into()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Parses the text. Time and memory are proportional to its length, so callers keep the text.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }
}

impl From<Value> for WrittenJson {
    fn from(value: Value) -> Self {
        Self::new(&value)
    }
}

impl PartialEq for WrittenJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for WrittenJson {}

impl<'de> Deserialize<'de> for WrittenJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Raw text can be read only from a JSON reader; records are also read through other formats.
        Value::deserialize(deserializer).map(|value| Self::new(&value))
    }
}

impl Serialize for WrittenJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

/// A tool call that a model requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call; its result carries the same id.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model wrote them; usually valid JSON.
    pub arguments: String,
}

impl ToolCall {
    /// Returns its number of bytes in a prompt.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.id.len() + self.name.len() + self.arguments.len()
    }
}

/// One item of a transcript: a provider-independent view, and the provider's original if it must be sent back
/// unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The speaker.
    pub role: Role,
    /// The text.
    pub content: String,
    /// The model's own message in its provider's wire format. That provider gets it back unchanged, instead of the
    /// view. Opaque elsewhere.
    pub raw: Option<WrittenJson>,
    /// Pictures of the text, for models that accept them; other models get a description.
    pub pictures: Vec<Picture>,
    /// PDF files of the text, for models that accept them; other models get their text.
    pub files: Vec<InputFile>,
    /// The tool calls in it, if it is no echo.
    pub calls: Vec<ToolCall>,
    /// The id of the call whose result this is.
    pub result_of: Option<String>,
}

impl Item {
    /// Creates an item of the program.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let (pictures, files, calls) = (Vec::new(), Vec::new(), Vec::new());
        Self { role, content: content.into(), raw: None, pictures, files, calls, result_of: None }
    }

    /// Creates the result of a tool call.
    pub fn result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self { result_of: Some(call.id.clone()), ..Self::new(Role::Tool, content) }
    }

    /// Creates an echo of a model's answer.
    #[must_use]
    pub fn echo(completion: &Completion) -> Self {
        Self { raw: Some(completion.raw.clone()), ..Self::new(Role::Assistant, completion.content.clone()) }
    }

    /// Returns the text with a line for each picture that states whether the model can see it, and with the text of each
    /// file that the model does not accept.
    #[must_use]
    pub fn text_for(&self, accepts: Accepts) -> Cow<'_, str> {
        if self.pictures.is_empty() && self.files.is_empty() {
            return Cow::Borrowed(&self.content);
        }
        let sees = accepts.pictures;
        let mut text = self.content.clone();
        for InputFile { about, instead, .. } in &self.files {
            text =
                if accepts.pdf { format!("{text}\n[Attached file {about}.]") } else { format!("{text}\n\n{instead}") };
        }
        for picture in &self.pictures {
            let Picture { about, .. } = picture;
            let (space, blind) =
                (if about.is_empty() { "" } else { " " }, if sees { "" } else { ", which you cannot see" });
            // Pictures of programs have no name; their text stays unchanged.
            if !(sees && about.is_empty()) {
                text = format!("{text}\n[Attached picture{space}{about}{blind}.]");
            }
        }
        Cow::Owned(text.trim_start().to_owned())
    }

    /// Returns the approximate characters of text that cost as much as the parts beside the text.
    fn chars_beside_text(&self, accepts: Accepts) -> usize {
        let pictures = if accepts.pictures { self.pictures.len() * PICTURE_CHARS } else { 0 };
        pictures + if accepts.pdf { self.files.iter().map(InputFile::chars).sum() } else { 0 }
    }
}

/// A picture for a model.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its name, type and dimensions as text; empty for a program's picture.
    pub about: String,
    /// Its media type, read from its bytes.
    pub mime: &'static str,
    /// The bytes of the file.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picture").field("about", &self.about).field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// The speaker of an item in a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program's instructions.
    System,
    /// The member.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
}

impl Role {
    /// Returns the name on the wire and in stored history.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The text, all text parts joined.
    pub content: String,
    /// The provider's refusal text, if it gave one instead of an answer.
    pub refusal: Option<String>,
    /// The requested tool calls, in the model's order.
    pub calls: Vec<ToolCall>,
    /// The reason why the model stopped.
    pub finish: Finish,
    /// The use of tools that the provider ran itself.
    pub hosted: HostedUse,
    /// The tokens used.
    pub usage: Usage,
    /// The assistant message in its provider's wire format, for [`Item::echo`]. Opaque elsewhere.
    pub raw: WrittenJson,
}

impl Completion {
    /// Returns the bytes that a turn keeps of it to continue after its tool calls.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let calls = self.calls.iter().map(ToolCall::bytes).sum::<usize>();
        self.raw.as_str().len() + self.content.len() + calls
    }
}

/// The reason why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The answer is complete.
    Stop,
    /// A length limit: the text is cut off.
    Length,
    /// The model requested tool calls.
    ToolCalls,
    /// A content filter stopped it.
    Filtered,
    /// Another reason of the provider, or none.
    Other(String),
}

impl Finish {
    /// Returns the log label.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::Filtered => "content_filter",
            Self::Other(other) => other,
        }
    }
}

/// Tokens of one or more completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens.
    pub prompt: u64,
    /// Output tokens.
    pub completion: u64,
    /// Input tokens served from the provider's cache.
    pub cached: u64,
    /// True if at least one figure is an estimate, because the provider omitted it or sent an invalid value.
    pub estimated: bool,
}

impl Usage {
    /// Returns the lower bound for a call that was interrupted before it reported its usage: the prompt and the
    /// characters received.
    #[must_use]
    pub fn of_streamed(prompt_chars: usize, streamed_chars: usize) -> Self {
        let (prompt, completion) = (estimated_tokens(prompt_chars), estimated_tokens(streamed_chars));
        Self { prompt, completion, cached: 0, estimated: true }
    }

    /// Returns input and output tokens together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.completion = self.completion.saturating_add(other.completion);
        self.cached = self.cached.saturating_add(other.cached);
        self.estimated = self.estimated || other.estimated;
    }
}
