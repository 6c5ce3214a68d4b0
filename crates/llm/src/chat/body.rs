//! The request body: the neutral request, restricted to the features of the model.
//!
//! Consecutive messages of one role are merged, because some chat templates reject them.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Number, Value};

use crate::pictures::DataUrl;
use crate::texts::{BETWEEN, EMPTY};
use crate::wire::{Model, Temperature, TokenLimit};
use domain::completion::{
    Accepts, AnswerForm, Item, ReasoningEffort, Request, Role, ToolCall, ToolChoice, ToolSpec, WrittenJson,
};

#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'a Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<ReasoningEffort>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

impl<'a> Body<'a> {
    pub fn new(model: &Model<'a>, request: &'a Request, stream: bool) -> Self {
        let sampling = &request.sampling;
        let temperature = match model.temperature {
            Temperature::Fixed => None,
            Temperature::Usual(own) => sampling.temperature.clone().or_else(|| own.and_then(Number::from_f64)),
        };
        let (max_tokens, max_completion_tokens) = match model.max_tokens {
            Some(TokenLimit::MaxTokens(most)) => (Some(most), None),
            Some(TokenLimit::MaxCompletionTokens(most)) => (None, Some(most)),
            None => (None, None),
        };
        Self {
            model: model.name,
            messages: messages(&request.messages, model.accepts),
            temperature,
            top_p: sampling.top_p.as_ref(),
            reasoning_effort: model.effort,
            stop: &sampling.stop,
            response_format: request.form.as_deref().filter(|_| model.takes_form).map(ResponseFormat::of),
            max_tokens,
            max_completion_tokens,
            tools: request.tools.iter().map(|spec| Tool::of(spec)).collect(),
            // Sent explicitly: some providers treat a missing choice as `none`.
            tool_choice: (!request.tools.is_empty()).then(|| Choice::of(&request.choice)),
            stream: stream.then_some(true),
            stream_options: stream.then_some(StreamOptions { include_usage: true }),
        }
    }

    /// Marks the last instruction and the message before the question for the provider's cache: the next prompt has the
    /// same prefix.
    pub fn mark(&mut self) {
        let question = self.messages.len().saturating_sub(1);
        let instructions = self.messages.iter().take_while(|message| message.is_system()).count();
        for place in [instructions.checked_sub(1), question.checked_sub(1).filter(|place| *place >= instructions)] {
            if let Some(Message::Ours(ours)) = place.and_then(|place| self.messages.get_mut(place)) {
                ours.content.mark();
            }
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        function: Chosen<'a>,
    },
}

#[derive(Serialize)]
struct Chosen<'a> {
    name: &'a str,
}

impl<'a> Choice<'a> {
    fn of(choice: &'a ToolChoice) -> Self {
        match choice {
            ToolChoice::Auto => Self::Word("auto"),
            ToolChoice::None => Self::Word("none"),
            ToolChoice::Required => Self::Word("required"),
            ToolChoice::Named(name) => Self::Named { kind: "function", function: Chosen { name } },
        }
    }
}

#[derive(Serialize)]
struct StreamOptions {
    /// Without it, most providers omit usage from a stream.
    include_usage: bool,
}

/// Returns the messages, merged by role.
fn messages(items: &[Item], accepts: Accepts) -> Vec<Message<'_>> {
    let mut messages: Vec<Message<'_>> = Vec::with_capacity(items.len());
    for item in items {
        let message = Message::of(item, accepts);
        match (messages.last_mut(), message) {
            (Some(Message::Ours(before)), Message::Ours(next)) if before.goes_on_in(&next) => {
                before.content.add(next.content);
            }
            (_, message) => messages.push(message),
        }
    }
    messages
}

#[derive(Serialize)]
#[serde(untagged)]
enum Message<'a> {
    AsItCame(&'a WrittenJson),
    Ours(Ours<'a>),
}

#[derive(Serialize)]
struct Ours<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall) -> Self {
        let ToolCall { id, name, arguments } = call;
        Self { id, kind: "function", function: Called { name, arguments } }
    }
}

impl<'a> Message<'a> {
    fn of(item: &'a Item, accepts: Accepts) -> Self {
        if let Some(raw) = &item.raw {
            return Self::AsItCame(raw);
        }
        let text = item.text_for(accepts);
        let parts = Part::beside_text(item, accepts);
        let content = if !parts.is_empty() {
            let text = (!text.is_empty()).then(|| Part::text(text));
            Content::Parts(text.into_iter().chain(parts).collect())
        } else if !text.is_empty() {
            Content::Text(text)
        } else if item.calls.is_empty() {
            Content::Text(Cow::Borrowed(EMPTY))
        } else {
            Content::Nothing
        };
        let tool_calls = item.calls.iter().map(Call::of).collect();
        Self::Ours(Ours { role: item.role.as_str(), content, tool_calls, tool_call_id: item.result_of.as_deref() })
    }

    fn is_system(&self) -> bool {
        matches!(self, Self::Ours(ours) if ours.role == Role::System.as_str())
    }
}

impl Ours<'_> {
    /// True if the next message can be merged: it has the same role, and neither is a tool result.
    fn goes_on_in(&self, next: &Self) -> bool {
        let plain = |message: &Self| message.tool_call_id.is_none() && message.tool_calls.is_empty();
        self.role == next.role && plain(self) && plain(next)
    }
}

/// Plain text where possible, because many servers accept nothing else.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    /// No text beside tool calls: null.
    Nothing,
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

impl<'a> Content<'a> {
    /// Appends the content of the next message.
    fn add(&mut self, next: Self) {
        match (&mut *self, next) {
            (Self::Text(text), Self::Text(more)) => {
                let text = text.to_mut();
                text.push_str(BETWEEN);
                text.push_str(&more);
            }
            (_, next) => {
                let mut parts = std::mem::replace(self, Self::Parts(Vec::new())).into_parts();
                parts.extend(next.into_parts());
                *self = Self::Parts(parts);
            }
        }
    }

    /// Marks its end as the end of a cacheable prefix.
    fn mark(&mut self) {
        if matches!(self, Self::Nothing) {
            return;
        }
        let mut parts = std::mem::replace(self, Self::Parts(Vec::new())).into_parts();
        if let Some(mark) = parts.iter_mut().rev().find_map(Part::cache_mark) {
            *mark = Some(EPHEMERAL);
        }
        *self = Self::Parts(parts);
    }

    fn into_parts(self) -> Vec<Part<'a>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Text(text) => vec![Part::text(text)],
            Self::Parts(parts) => parts,
        }
    }
}

/// Caches the preceding prefix for some minutes.
const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
    File {
        file: FileData<'a>,
    },
}

impl<'a> Part<'a> {
    fn text(text: Cow<'a, str>) -> Self {
        Self::Text { text, cache_control: None }
    }

    /// Returns the files and pictures that the model accepts.
    fn beside_text(item: &'a Item, accepts: Accepts) -> Vec<Self> {
        let files = item.files.iter().filter(|_| accepts.pdf);
        let files =
            files.map(|file| Self::File { file: FileData { filename: &file.name, file_data: DataUrl::from(file) } });
        let pictures = item.pictures.iter().filter(|_| accepts.pictures);
        let pictures = pictures.map(|picture| Self::ImageUrl { image_url: ImageUrl { url: DataUrl::from(picture) } });
        files.chain(pictures).collect()
    }

    /// The slot of the cache mark; pictures and files have none.
    fn cache_mark(&mut self) -> Option<&mut Option<CacheControl>> {
        match self {
            Self::Text { cache_control, .. } => Some(cache_control),
            Self::ImageUrl { .. } | Self::File { .. } => None,
        }
    }
}

/// The response format of this wire.
#[derive(Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    schema: &'a Value,
}

impl<'a> ResponseFormat<'a> {
    fn of(form: &'a AnswerForm) -> Self {
        let AnswerForm { name, description, strict, schema } = form;
        let json_schema = JsonSchema { name, description: description.as_deref(), strict: *strict, schema };
        Self { kind: "json_schema", json_schema }
    }
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

#[derive(Serialize)]
struct FileData<'a> {
    filename: &'a str,
    file_data: DataUrl<'a>,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a WrittenJson,
}

impl<'a> Tool<'a> {
    fn of(spec: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters } = spec;
        Self { kind: "function", function: Function { name, description, parameters } }
    }
}

#[cfg(test)]
mod tests;
