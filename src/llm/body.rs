//! The request as it goes over the wire: the neutral one, as far as this model can take it in.

use std::borrow::Cow;
use std::fmt;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::domain::completion::{Item, Picture, Request, ToolSpec};

/// About how many characters of text cost as many tokens as one picture: providers count 85 to some thousand tokens.
const PICTURE_CHARS: usize = 4_000;

/// The body of a request.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

/// What is particular to a model.
pub(super) struct Model<'a> {
    /// The name that its provider knows it by.
    pub name: &'a str,
    /// The sampling temperature; none sends none.
    pub temperature: Option<f64>,
    /// It takes the form of the answer as a schema.
    pub takes_form: bool,
    /// It sees pictures.
    pub sees: bool,
}

impl<'a> Body<'a> {
    pub fn new(model: &Model<'a>, request: &'a Request, stream: bool) -> Self {
        Self {
            model: model.name,
            messages: request.messages.iter().map(|item| Message::of(item, model.sees)).collect(),
            temperature: model.temperature,
            response_format: request.response_format.as_deref().filter(|_| model.takes_form),
            tools: request.tools.iter().map(Tool::of).collect(),
            // Said aloud: some providers take a missing choice for none.
            tool_choice: (!request.tools.is_empty()).then_some("auto"),
            stream: stream.then_some(true),
            stream_options: stream.then_some(StreamOptions { include_usage: true }),
        }
    }
}

/// Roughly how much text is sent, for an estimate of its tokens.
pub(super) fn prompt_chars(request: &Request, sees: bool) -> usize {
    let items = request.messages.iter().map(|item| match &item.raw {
        Some(raw) => raw.to_string().chars().count(),
        None if sees => item.content.chars().count() + item.pictures.len() * PICTURE_CHARS,
        None => item.text_for(false).chars().count(),
    });
    let format = request.response_format.as_ref().map_or(0, |format| format.to_string().chars().count());
    let tools = request.tools.iter().map(|tool| {
        tool.name.chars().count() + tool.description.chars().count() + tool.parameters.to_string().chars().count()
    });
    items.chain(tools).sum::<usize>() + format
}

#[derive(Serialize)]
struct StreamOptions {
    /// Without it most providers do not tell the tokens of a stream.
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Message<'a> {
    AsItCame(&'a Value),
    Ours {
        role: &'static str,
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<&'a str>,
    },
}

impl<'a> Message<'a> {
    fn of(item: &'a Item, sees: bool) -> Self {
        if let Some(raw) = &item.raw {
            return Self::AsItCame(raw);
        }
        let text = item.text_for(sees);
        let content = if sees && !item.pictures.is_empty() {
            let pictures = item.pictures.iter().map(DataUrl).map(|url| Part::ImageUrl { image_url: ImageUrl { url } });
            Content::Parts(std::iter::once(Part::Text { text }).chain(pictures).collect())
        } else {
            Content::Text(text)
        };
        Self::Ours { role: item.role.as_str(), content, tool_call_id: item.result_of.as_deref() }
    }
}

/// Plain text wherever that will do: many servers take nothing else.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

/// The picture itself in place of an address: no provider fetches anything on a member's behalf.
struct DataUrl<'a>(&'a Picture);

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{};base64,{}", self.0.mime, Base64Display::new(&self.0.bytes, &STANDARD))
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
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
    parameters: &'a Value,
}

impl<'a> Tool<'a> {
    fn of(spec: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters } = spec;
        Self { kind: "function", function: Function { name, description, parameters } }
    }
}

#[cfg(test)]
mod tests;
