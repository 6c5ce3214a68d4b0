//! The request body: the neutral request, restricted to the features of the model.
//!
//! Consecutive messages of one role are merged, because servers behind a proxy may reject them. Stop sequences have no
//! field on this wire and are not sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::hosting::{Hosted, Hosting};
use crate::pictures::DataUrl;
use crate::texts::{BETWEEN, EMPTY};
use crate::wire::{Model, Temperature, TokenLimit};
use domain::completion::{
    Accepts, AnswerForm, Item, ReasoningEffort, Request, Role, ToolCall, ToolChoice, ToolSpec, WrittenJson,
};

#[cfg(test)]
mod tests;

/// Requests reasoning items in a form that can be sent back to a provider that keeps nothing.
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<Cow<'a, str>>,
    input: Vec<Input<'a>>,
    /// False: the provider keeps nothing, because our history is the truth.
    store: bool,
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'a Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: ReasoningEffort,
}

impl<'a> Body<'a> {
    pub fn new(model: &Model<'a>, request: &'a Request, stream: bool) -> Self {
        let sampling = &request.sampling;
        let temperature = match model.temperature {
            Temperature::Fixed => None,
            Temperature::Usual(own) => sampling.temperature.clone().or_else(|| own.and_then(Number::from_f64)),
        };
        let max_output_tokens = model.max_tokens.map(|limit| match limit {
            TokenLimit::MaxTokens(most) | TokenLimit::MaxCompletionTokens(most) => most,
        });
        let mut input = inputs(&request.messages, model.accepts);
        let tools = tools(request, model.hosting);
        let has_tools = !tools.is_empty();
        // Only a call of a tool leads to a further request in the same turn.
        let include: &[&str] = if model.keeps_reasoning && has_tools { &[ENCRYPTED_REASONING] } else { &[] };
        Self {
            model: model.name,
            instructions: take_instructions(&mut input),
            input,
            store: false,
            include,
            temperature,
            top_p: sampling.top_p.as_ref(),
            reasoning: model.effort.map(|effort| Reasoning { effort }),
            text: request.form.as_deref().filter(|_| model.takes_form).map(|form| Text { format: Format::of(form) }),
            max_output_tokens,
            tools,
            tool_choice: has_tools.then(|| Choice::of(&request.choice)),
            stream: stream.then_some(true),
        }
    }
}

/// Removes the instructions at the beginning and returns them. An input that would be empty without them keeps them,
/// because providers reject an empty input.
fn take_instructions<'a>(input: &mut Vec<Input<'a>>) -> Option<Cow<'a, str>> {
    let is_first =
        matches!(input.first(), Some(Input::Message(Message { role: SYSTEM, content: Content::Text(_), .. })));
    if !is_first || input.len() < 2 {
        return None;
    }
    match input.remove(0) {
        Input::Message(Message { content: Content::Text(text), .. }) => Some(text),
        _ => None,
    }
}

const SYSTEM: &str = Role::System.as_str();

/// Returns the items, with messages merged by role.
fn inputs(items: &[Item], accepts: Accepts) -> Vec<Input<'_>> {
    let mut inputs: Vec<Input<'_>> = Vec::with_capacity(items.len());
    for item in items {
        // The items of an earlier answer; another wire's message is written anew.
        if let Some(raw) = item.raw.as_ref().and_then(items_of) {
            inputs.extend(raw.into_iter().map(Input::AsItCame));
            continue;
        }
        let content = Content::of(item, accepts);
        if let Some(call_id) = &item.result_of {
            let output = content.unwrap_or(Content::Text(Cow::Borrowed(EMPTY)));
            inputs.push(Input::Result(CallOutput { kind: "function_call_output", call_id, output }));
            continue;
        }
        let content = content.or_else(|| item.calls.is_empty().then_some(Content::Text(Cow::Borrowed(EMPTY))));
        if let Some(content) = content {
            add(&mut inputs, Message { kind: "message", role: role_of(item), content });
        }
        inputs.extend(item.calls.iter().map(Input::call));
    }
    inputs
}

/// Returns the items of an earlier answer as they were written; `None` for a message of another wire.
fn items_of(raw: &WrittenJson) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.as_str()).ok()
}

/// Returns the role. A result without the id of its call is the member's text: the wire has no such role.
const fn role_of(item: &Item) -> &'static str {
    match item.role {
        Role::Tool => Role::User.as_str(),
        role => role.as_str(),
    }
}

/// Appends a message, or its content to a message of the same role.
fn add<'a>(inputs: &mut Vec<Input<'a>>, next: Message<'a>) {
    match inputs.last_mut() {
        Some(Input::Message(last)) if last.role == next.role => last.content.add(next.content),
        _ => inputs.push(Input::Message(next)),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    AsItCame(&'a RawValue),
    Message(Message<'a>),
    Call(Call<'a>),
    Result(CallOutput<'a>),
}

#[derive(Serialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    content: Content<'a>,
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "call_id")]
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct CallOutput<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    call_id: &'a str,
    output: Content<'a>,
}

impl<'a> Input<'a> {
    fn call(call: &'a ToolCall) -> Self {
        let ToolCall { id, name, arguments } = call;
        Self::Call(Call { kind: "function_call", id, name, arguments })
    }
}

/// Plain text where possible, because many servers accept nothing else.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

impl<'a> Content<'a> {
    /// Returns the content of an item; `None` if it is empty.
    fn of(item: &'a Item, accepts: Accepts) -> Option<Self> {
        let text = Some(item.text_for(accepts)).filter(|text| !text.is_empty());
        let parts = Part::beside_text(item, accepts);
        if parts.is_empty() {
            return text.map(Self::Text);
        }
        Some(Self::Parts(text.map(|text| Part::Text { text }).into_iter().chain(parts).collect()))
    }

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

    fn into_parts(self) -> Vec<Part<'a>> {
        match self {
            Self::Text(text) => vec![Part::Text { text }],
            Self::Parts(parts) => parts,
        }
    }
}

/// A part of a message that is not the model's. Only such messages have pictures and files.
#[derive(Serialize)]
#[serde(tag = "type")]
enum Part<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { image_url: DataUrl<'a>, detail: &'static str },
    #[serde(rename = "input_file")]
    File { filename: &'a str, file_data: DataUrl<'a> },
}

impl<'a> Part<'a> {
    /// Returns the files and pictures that the model accepts.
    fn beside_text(item: &'a Item, accepts: Accepts) -> Vec<Self> {
        let files = item.files.iter().filter(|_| accepts.pdf);
        let files = files.map(|file| Self::File { filename: &file.name, file_data: DataUrl::from(file) });
        let pictures = item.pictures.iter().filter(|_| accepts.pictures);
        let pictures = pictures.map(|picture| Self::Image { image_url: DataUrl::from(picture), detail: "auto" });
        files.chain(pictures).collect()
    }
}

#[derive(Serialize)]
struct Text<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    schema: &'a Value,
}

impl<'a> Format<'a> {
    fn of(form: &'a AnswerForm) -> Self {
        let AnswerForm { name, description, strict, schema } = form;
        Self { kind: "json_schema", name, description: description.as_deref(), strict: *strict, schema }
    }
}

/// Returns the functions of the request, and the tools that the provider runs in place of some of them.
fn tools<'a>(request: &'a Request, hosting: Option<&'a Hosting<'a>>) -> Vec<Tool<'a>> {
    let replaced = |spec: &&Arc<ToolSpec>| hosting.is_some_and(|hosting| hosting.replaces(&spec.name));
    let functions = request.tools.iter().filter(|spec| !replaced(spec)).map(|spec| Tool::Function(Function::of(spec)));
    let hosted = hosting.into_iter().flat_map(|hosting| &hosting.tools).map(|tool| Tool::of(*tool));
    functions.chain(hosted).collect()
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Function(Function<'a>),
    WebSearch {
        #[serde(rename = "type")]
        kind: &'static str,
    },
    Server(Server<'a>),
}

impl<'a> Tool<'a> {
    fn of(tool: Hosted<'a>) -> Self {
        match tool {
            Hosted::WebSearch => Self::WebSearch { kind: "web_search" },
            Hosted::Server { label, server, tools } => Self::Server(Server {
                kind: "mcp",
                server_label: label,
                server_url: &server.url,
                server_description: server.description.as_deref(),
                authorization: server.token.as_ref().map(ExposeSecret::expose_secret),
                headers: server.headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect(),
                allowed_tools: tools,
                require_approval: "never",
            }),
        }
    }
}

/// A tool server that the provider connects to.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
struct Server<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    server_label: &'a str,
    server_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authorization: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<&'a str, &'a str>,
    allowed_tools: &'a [String],
    /// Never: only tools that the caller may use without approval are named.
    require_approval: &'static str,
}

#[derive(Serialize)]
struct Function<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a WrittenJson,
    /// False: the default is true on this wire, and the schemas of tools rarely have the form that this requires.
    strict: bool,
}

impl<'a> Function<'a> {
    fn of(spec: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters } = spec;
        Self { kind: "function", name, description, parameters, strict: false }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        name: &'a str,
    },
}

impl<'a> Choice<'a> {
    fn of(choice: &'a ToolChoice) -> Self {
        match choice {
            ToolChoice::Auto => Self::Word("auto"),
            ToolChoice::None => Self::Word("none"),
            ToolChoice::Required => Self::Word("required"),
            ToolChoice::Named(name) => Self::Named { kind: "function", name },
        }
    }
}
