//! Parses requests into conversations.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Number, Value};

use crate::model_api::failure::Failure;
use crate::model_api::ignored::Ignored;
use crate::model_api::openai::reading::{MESSAGES_MAX, ONLY_USERS, STOPS_MAX, WireTool, json_object, tools};
use crate::model_api::pictures::{self, WirePicture};
use domain::completion::{AnswerForm, Role, Sampling, ToolCall};
use domain::given::{GivenConversation, Message};

/// Parameters that are ignored and do not change the answer.
const WITHOUT_EFFECT: [&str; 3] = ["keep_alive", "shift", "truncate"];
/// Options of this kind: sizes and layers for a local model.
const OPTIONS_WITHOUT_EFFECT: [&str; 7] =
    ["main_gpu", "num_batch", "num_ctx", "num_gpu", "num_keep", "num_thread", "use_mmap"];

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A message.
    Chat,
    /// Plain text.
    Generate,
}

#[derive(Debug)]
pub(super) struct OllamaRequest {
    /// `None` if the request only checks that the model is available.
    pub conversation: Option<GivenConversation>,
    pub style: Style,
    pub model: Option<String>,
    /// True if the answer is streamed.
    pub stream: bool,
    /// The ignored parts of the request.
    pub ignored: Ignored,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatRequest {
    model: Option<String>,
    #[serde(default)]
    messages: Vec<WireMessage>,
    #[serde(default)]
    tools: Option<Vec<WireTool>>,
    #[serde(flatten)]
    how: How,
}

/// The body of a request to continue a text.
#[derive(Debug, Deserialize)]
pub(super) struct GenerateRequest {
    model: Option<String>,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    system: String,
    #[serde(default)]
    suffix: String,
    #[serde(default)]
    images: Option<Vec<WirePicture>>,
    #[serde(flatten)]
    how: How,
}

/// The body of a request for a model's details.
#[derive(Debug, Deserialize)]
pub(super) struct ShowRequest {
    model: Option<String>,
    name: Option<String>,
}

/// The options for the answer.
#[derive(Debug, Deserialize)]
struct How {
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    format: Option<Value>,
    #[serde(default)]
    options: Option<Settings>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The supported options; others are ignored.
#[derive(Debug, Default, Deserialize)]
struct Settings {
    temperature: Option<Number>,
    top_p: Option<Number>,
    num_predict: Option<i64>,
    stop: Option<Vec<String>>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
struct WireMessage {
    role: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    images: Option<Vec<WirePicture>>,
    #[serde(default)]
    tool_calls: Option<Vec<WireCall>>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WireCall {
    #[serde(default)]
    id: Option<String>,
    function: WireCalled,
}

/// A call without a result so far.
struct Open {
    id: String,
    /// The client's id, if any.
    own: Option<String>,
    name: String,
}

#[derive(Debug, Deserialize)]
struct WireCalled {
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl ShowRequest {
    pub fn name(&self) -> Option<&str> {
        self.model.as_deref().or(self.name.as_deref())
    }
}

impl ChatRequest {
    /// Parses the conversation.
    ///
    /// # Errors
    /// The invalid field and its problem.
    pub fn read(self) -> Result<OllamaRequest, Failure> {
        if self.messages.len() > MESSAGES_MAX {
            return Err(Failure::bad("messages", format!("send at most {MESSAGES_MAX} messages")));
        }
        let mut ignored = Ignored::default();
        let (tools, _) = tools(self.tools.unwrap_or_default(), None, &mut ignored)?;
        let mut messages = Vec::with_capacity(self.messages.len());
        let mut open = Vec::new();
        for (at, message) in self.messages.into_iter().enumerate() {
            messages.push(message.read(at, &mut open)?);
        }
        let stream = self.how.stream.unwrap_or(true);
        let (form, sampling) = self.how.read(&mut ignored)?;
        let asks = !messages.is_empty();
        let conversation = GivenConversation { messages, tools, form, sampling, ..GivenConversation::default() };
        let (conversation, model) = (asks.then_some(conversation), self.model);
        Ok(OllamaRequest { conversation, style: Style::Chat, model, stream, ignored })
    }
}

impl GenerateRequest {
    /// Parses the conversation.
    ///
    /// # Errors
    /// The invalid field and its problem.
    pub fn read(self) -> Result<OllamaRequest, Failure> {
        if !self.suffix.is_empty() {
            return Err(Failure::bad("suffix", "filling in text before a suffix is not supported; leave it out"));
        }
        let pictures = pictures::read(self.images.unwrap_or_default(), "images")?;
        let system = (!self.system.is_empty()).then(|| Message::new(Role::System, self.system));
        let asks = !self.prompt.is_empty() || !pictures.is_empty();
        let question = Message { pictures, ..Message::new(Role::User, self.prompt) };
        let messages = system.into_iter().chain([question]).collect();
        let stream = self.how.stream.unwrap_or(true);
        let mut ignored = Ignored::default();
        let (form, sampling) = self.how.read(&mut ignored)?;
        let conversation = GivenConversation { messages, form, sampling, ..GivenConversation::default() };
        let conversation = asks.then_some(conversation);
        Ok(OllamaRequest { conversation, style: Style::Generate, model: self.model, stream, ignored })
    }
}

impl How {
    fn read(self, ignored: &mut Ignored) -> Result<(Option<AnswerForm>, Sampling), Failure> {
        ignored.parameters(&self.others, &WITHOUT_EFFECT);
        let form = match self.format {
            None | Some(Value::Null) => None,
            Some(Value::String(word)) if word.is_empty() => None,
            Some(Value::String(word)) if word == "json" => Some(json_object()),
            Some(schema @ Value::Object(_)) => Some(AnswerForm { schema, ..json_object() }),
            Some(_) => return Err(Failure::bad("format", "must be json or a JSON schema")),
        };
        let Settings { temperature, top_p, num_predict, stop, others } = self.options.unwrap_or_default();
        ignored.parameters(&others, &OPTIONS_WITHOUT_EFFECT);
        let stop = stop.unwrap_or_default();
        if stop.len() > STOPS_MAX || stop.iter().any(String::is_empty) {
            return Err(Failure::bad("options.stop", format!("send at most {STOPS_MAX} texts, none of them empty")));
        }
        // A number below 1 means no limit.
        let max_tokens = num_predict.filter(|most| *most > 0).map(|most| u32::try_from(most).unwrap_or(u32::MAX));
        Ok((form, Sampling { temperature, top_p, max_tokens, stop, ..Sampling::default() }))
    }
}

impl WireMessage {
    fn read(self, at: usize, open: &mut Vec<Open>) -> Result<Message, Failure> {
        let place = |what: &str| format!("messages[{at}].{what}");
        let role = match self.role.as_str() {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            _ => return Err(Failure::bad(&place("role"), "must be system, user, assistant or tool")),
        };
        let pictures = pictures::read(self.images.unwrap_or_default(), &place("images"))?;
        if !pictures.is_empty() && role != Role::User {
            return Err(Failure::bad(&place("images"), ONLY_USERS));
        }
        let mut message = Message { pictures, ..Message::new(role, self.content.unwrap_or_default()) };
        let calls = self.tool_calls.unwrap_or_default();
        if !calls.is_empty() {
            open.clear();
        }
        for (number, WireCall { id: own, function: WireCalled { name, arguments } }) in calls.into_iter().enumerate() {
            let id = format!("call_{at}_{number}");
            open.push(Open { id: id.clone(), own, name: name.clone() });
            let arguments = if arguments.is_null() { "{}".to_owned() } else { arguments.to_string() };
            message.calls.push(ToolCall { id, name, arguments });
        }
        if role == Role::Tool {
            // Most calls have no ids in this format: a result names its tool, or follows the order of the calls.
            let named = |call: &Open| self.tool_call_id.is_some() && call.own == self.tool_call_id;
            let of_tool = |call: &Open| Some(&call.name) == self.tool_name.as_ref();
            let position = open.iter().position(named).or_else(|| open.iter().position(of_tool));
            if open.is_empty() {
                let why = "no earlier call matches this result";
                return Err(Failure::bad(&place("role"), why));
            }
            message.result_of = Some(open.remove(position.unwrap_or(0)).id);
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_belong_to_calls_in_their_order() {
        let request: ChatRequest = serde_json::from_value(json!({
            "model": "fast:latest",
            "messages": [
                {"role": "user", "content": "look"},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"function": {"name": "look", "arguments": {"at": 1}}}, {"function": {"name": "look", "arguments": {}}}]},
                {"role": "tool", "content": "a boat", "tool_name": "look"},
                {"role": "tool", "content": "a buoy", "tool_name": "look"},
            ],
            "options": {"num_predict": -1, "seed": 4, "temperature": 0, "num_ctx": 4096},
            "think": true, "keep_alive": "5m",
            "format": "json",
        }))
        .unwrap();
        let OllamaRequest { conversation, model, stream, ignored, .. } = request.read().unwrap();
        assert_eq!(ignored.names(), ["think", "seed"]);
        let conversation = conversation.unwrap();
        assert!(stream, "a stream unless it is refused");
        assert_eq!((model.as_deref(), conversation.sampling.max_tokens), (Some("fast:latest"), None));
        let results: Vec<_> = conversation.messages.iter().filter_map(|said| said.result_of.as_deref()).collect();
        let calls: Vec<_> = conversation.messages[1].calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(results, calls);
        assert!(conversation.form.is_some());
    }

    #[test]
    fn results_belong_to_the_calls_that_they_name() {
        let request: ChatRequest = serde_json::from_value(json!({"messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "lost"}}]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "look", "arguments": {}}}, {"function": {"name": "hear", "arguments": {}}},
                {"id": "own", "function": {"name": "hear", "arguments": {}}}]},
            {"role": "tool", "content": "a bell", "tool_name": "hear"},
            {"role": "tool", "content": "a boat", "tool_name": "look"},
            {"role": "tool", "content": "a gull", "tool_call_id": "own"},
        ]}))
        .unwrap();
        let conversation = request.read().unwrap().conversation.unwrap();
        let results: Vec<_> = conversation.messages.iter().filter_map(|said| said.result_of.as_deref()).collect();
        assert_eq!(results, ["call_2_1", "call_2_0", "call_2_2"]);
        assert_eq!(conversation.messages[1].calls[0].arguments, "{}");
    }

    #[test]
    fn pictures_belong_to_the_message_that_holds_them() {
        const GIF: &str = "R0lGODlhAQABAAAAACw=";
        let request: ChatRequest =
            serde_json::from_value(json!({"messages": [{"role": "user", "content": "which?", "images": [GIF, GIF]}]}))
                .unwrap();
        assert_eq!(request.read().unwrap().conversation.unwrap().pictures().count(), 2);
        let request: GenerateRequest = serde_json::from_value(json!({"prompt": "", "images": [GIF]})).unwrap();
        assert_eq!(request.read().unwrap().conversation.unwrap().pictures().count(), 1);
        let wrong: GenerateRequest =
            serde_json::from_value(json!({"prompt": "x", "images": ["/tmp/cat.png"]})).unwrap();
        assert!(matches!(wrong.read(), Err(Failure::Bad { place: Some(place), .. }) if place == "images"));
    }

    #[test]
    fn nothing_asked_is_no_conversation() {
        let request: GenerateRequest = serde_json::from_value(json!({"model": "fast"})).unwrap();
        assert!(request.read().unwrap().conversation.is_none());
        let lost: ChatRequest =
            serde_json::from_value(json!({"messages": [{"role": "tool", "content": "x"}]})).unwrap();
        assert!(matches!(lost.read(), Err(Failure::Bad { .. })));
    }
}
