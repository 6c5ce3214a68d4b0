//! What is asked of a model and what it says, in the field's own words and in the shape of no provider's wire.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// One completion request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// The transcript, oldest first.
    pub messages: Vec<Item>,
    /// The form that the answer must have; none asks for plain text.
    pub form: Option<Arc<AnswerForm>>,
    /// The tools that the model may call, in a stable order; none offers none.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Whether it has to call one of them.
    pub choice: ToolChoice,
    /// How the answer is sampled, where that differs from the row.
    pub sampling: Sampling,
}

/// Whether a model has to call one of the tools that it is offered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it sees fit.
    #[default]
    Auto,
    /// None, whatever there is.
    None,
    /// Any one.
    Required,
    /// This one.
    Named(String),
}

/// How an answer is sampled. What is not said here is left to the row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sampling {
    /// The temperature; rows with a fixed one send none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    /// The share of the most likely tokens that is sampled from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Number>,
    /// The most tokens of the answer, within the bound of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Texts at which the answer ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

impl Request {
    /// About how many characters are sent, for an estimate of its tokens. `sees`: pictures are sent along.
    #[must_use]
    pub fn chars(&self, sees: bool) -> usize {
        let items = self.messages.iter().map(|item| match &item.raw {
            Some(raw) => raw.to_string().chars().count(),
            None if sees => item.content.chars().count() + item.pictures.len() * PICTURE_CHARS,
            None => item.text_for(false).chars().count(),
        });
        let tools = self.tools.iter().map(|tool| tool.chars());
        items.chain(tools).sum::<usize>() + self.form.as_ref().map_or(0, |form| form.chars())
    }
}

impl Request {
    /// About how many of so many prompt tokens are of a part of so many bytes: the part's share of all bytes, at most all of them. `sees`: pictures are sent
    /// along.
    #[must_use]
    pub fn share(&self, part: usize, prompt_tokens: u64, sees: bool) -> u64 {
        if part == 0 {
            return 0;
        }
        let items = self.messages.iter().map(|item| match &item.raw {
            Some(raw) => raw.to_string().len(),
            None => item.content.len() + if sees { item.pictures.len() * PICTURE_CHARS } else { 0 },
        });
        let tools = self.tools.iter().map(|tool| tool.bytes());
        let all = items.chain(tools).sum::<usize>() + self.form.as_ref().map_or(0, |form| form.chars());
        let share = u128::from(prompt_tokens) * (part as u128) / (all.max(part) as u128);
        u64::try_from(share).unwrap_or(prompt_tokens)
    }
}

/// The structured form of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerForm {
    /// Its name; never empty.
    pub name: String,
    /// What it is for, for the model.
    pub description: Option<String>,
    /// The provider shall enforce it; none leaves that to the provider.
    pub strict: Option<bool>,
    /// The JSON schema of the answer.
    pub schema: Value,
}

impl AnswerForm {
    /// About how many characters of a prompt it takes.
    #[must_use]
    pub fn chars(&self) -> usize {
        let description = self.description.as_ref().map_or(0, |text| text.chars().count());
        self.name.chars().count() + description + self.schema.to_string().chars().count()
    }
}

/// About how many characters of text cost as many tokens as one picture: providers count 85 to some thousand tokens.
const PICTURE_CHARS: usize = 4_000;

/// How many characters make a token when we have to estimate.
const CHARS_PER_TOKEN: u64 = 4;

/// About how many tokens a text of so many characters takes.
#[must_use]
pub fn estimated_tokens(chars: usize) -> u64 {
    u64::try_from(chars).unwrap_or(u64::MAX).div_ceil(CHARS_PER_TOKEN)
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name in calls.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: WrittenJson,
}

impl ToolSpec {
    /// Bytes of a prompt that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.name.len() + self.description.len() + self.parameters.as_str().len()
    }

    /// About how many characters of a prompt it takes.
    #[must_use]
    pub fn chars(&self) -> usize {
        self.name.chars().count() + self.description.chars().count() + self.parameters.as_str().chars().count()
    }
}

/// JSON that was written down once and is sent as it is, however often. Clones share the text.
#[derive(Debug, Clone)]
pub struct WrittenJson(Arc<RawValue>);

impl WrittenJson {
    /// This value, written down.
    #[must_use]
    pub fn new(value: &Value) -> Self {
        // A value with string keys can always be written.
        Self(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()).into())
    }

    /// The JSON of a record, written down. `None` if it has none.
    #[must_use]
    pub fn of(record: &impl Serialize) -> Option<Self> {
        serde_json::value::to_raw_value(record).ok().map(|raw| Self(raw.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The value. Takes time and memory in proportion to the text, so callers keep the text.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.as_str()).unwrap_or_default()
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
        // Raw text can only be taken from a reader of JSON; records are read through other forms as well.
        Value::deserialize(deserializer).map(|value| Self::new(&value))
    }
}

impl Serialize for WrittenJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

/// A model's wish to have a tool run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's name for this call; its result carries it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: JSON if all went well.
    pub arguments: String,
}

impl ToolCall {
    /// Bytes of a prompt that it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.id.len() + self.name.len() + self.arguments.len()
    }
}

/// One item of the transcript: a normal view, and what a provider sent when it must be echoed as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Who speaks.
    pub role: Role,
    /// The text.
    pub content: String,
    /// A message of the model's own, in the form of the wire that it came by, which sends it back unchanged instead of the view.
    /// Opaque everywhere else.
    pub raw: Option<Value>,
    /// Pictures that belong to the text, for models that can see; others are told of them in words.
    pub pictures: Vec<Picture>,
    /// The calls that were made in it, where it is no echo.
    pub calls: Vec<ToolCall>,
    /// The call that this is the result of.
    pub result_of: Option<String>,
}

impl Item {
    /// An item of our own making.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), raw: None, pictures: Vec::new(), calls: Vec::new(), result_of: None }
    }

    /// The result of a tool call.
    pub fn result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self { result_of: Some(call.id.clone()), ..Self::new(Role::Tool, content) }
    }

    /// An answer of a model, echoed as it came.
    #[must_use]
    pub fn echo(completion: &Completion) -> Self {
        Self { raw: Some(completion.raw.clone()), ..Self::new(Role::Assistant, completion.content.clone()) }
    }

    /// The text with a line for each picture that says whether it is there to be seen.
    #[must_use]
    pub fn text_for(&self, sees: bool) -> Cow<'_, str> {
        if self.pictures.is_empty() {
            return Cow::Borrowed(&self.content);
        }
        let mut text = self.content.clone();
        for picture in &self.pictures {
            let Picture { about, .. } = picture;
            let (space, blind) =
                (if about.is_empty() { "" } else { " " }, if sees { "" } else { ", which you cannot see" });
            // A program's own pictures have no name, and its text is told as it is.
            if !(sees && about.is_empty()) {
                text = format!("{text}\n[Attached picture{space}{about}{blind}.]");
            }
        }
        Cow::Owned(text.trim_start().to_owned())
    }
}

/// A picture on its way to a model.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its name, kind and measures in words; empty for one of a program.
    pub about: String,
    /// Its media type, seen from its bytes.
    pub mime: &'static str,
    /// The file as it is.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picture").field("about", &self.about).field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Who speaks in a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Our instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
}

impl Role {
    /// The name on the wire and in stored history.
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

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The text, all text parts joined.
    pub content: String,
    /// The provider's refusal text, when it gave one instead of an answer.
    pub refusal: Option<String>,
    /// The tools that it wants to have run, in its order.
    pub calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish: Finish,
    /// The tokens that it took.
    pub usage: Usage,
    /// The assistant message in the form of the wire that it came by, for [`Item::echo`]. Opaque everywhere else.
    pub raw: Value,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// It ran into a length limit: the text is cut off.
    Length,
    /// It wants tools.
    ToolCalls,
    /// A content filter stopped it.
    Filtered,
    /// The provider said something else, or nothing.
    Other(String),
}

impl Finish {
    /// The label in logs.
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
    /// Tokens in.
    pub prompt: u64,
    /// Tokens out.
    pub completion: u64,
    /// Tokens in that the provider had cached.
    pub cached: u64,
    /// At least one figure is our own estimate, because the provider left it out or sent nonsense.
    pub estimated: bool,
}

impl Usage {
    /// What a call took at least that was cut off before it told: the prompt that it was sent and the characters that came back.
    #[must_use]
    pub fn of_streamed(prompt_chars: usize, streamed_chars: usize) -> Self {
        let (prompt, completion) = (estimated_tokens(prompt_chars), estimated_tokens(streamed_chars));
        Self { prompt, completion, cached: 0, estimated: true }
    }

    /// Tokens in and out.
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
