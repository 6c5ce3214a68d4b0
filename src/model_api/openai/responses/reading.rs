//! Requests for a response as they come, and what is said in them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::domain::completion::{AnswerForm, Role, ToolCall};
use crate::domain::given::{Conversation, Message};
use crate::model_api::failure::Failure;
use crate::model_api::openai::reading::{
    Content, FUNCTION, MESSAGES_MAX, ONLY_FUNCTIONS, WireFunction, WireSchema, asks, at_most, chosen, json_object,
    sampling,
};

/// The most entries of what a client notes beside a response, and the longest of their names and values in bytes.
const METADATA_MAX: usize = 16;
const METADATA_NAME_MAX: usize = 64;
const METADATA_VALUE_MAX: usize = 2_048;
/// The type of items that only name what was said before.
const REFERENCE: &str = "item_reference";
/// The types of parts that are text.
const TEXTS: [&str; 3] = ["input_text", "output_text", "text"];
/// Parameters that ask for something, and that are left out.
const LEFT_OUT: [&str; 9] = [
    "include",
    "max_tool_calls",
    "moderation",
    "parallel_tool_calls",
    "reasoning",
    "service_tier",
    "stream_options",
    "top_logprobs",
    "truncation",
];
/// Parameters without which the answer would be another one.
const REFUSED: [(&str, &str); 3] = [
    ("background", "is not done here; leave it out and read the response, or its stream"),
    ("conversation", "is not known here; send previous_response_id"),
    ("prompt", "is not known here; send instructions and input"),
];

/// The body of a request.
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
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Item>),
}

/// One thing that was said.
#[derive(Debug, Deserialize)]
pub(super) struct Item {
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Its name, where a response gave it one.
    pub id: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<Content>,
}

#[derive(Debug, Deserialize)]
struct TextOptions {
    format: Option<Format>,
}

/// The form of the answer.
#[derive(Debug, Serialize, Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Tool {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    description: Option<String>,
    parameters: Option<Value>,
    strict: Option<bool>,
}

/// A request that was understood.
#[derive(Debug)]
pub(super) struct Asked {
    /// What this request says, without its instructions.
    pub conversation: Conversation,
    /// The response that it goes on from.
    pub previous: Option<String>,
    /// The answer is wanted as it grows.
    pub stream: bool,
    /// The response is kept.
    pub store: bool,
    /// Parameters that were left out.
    pub ignored: Vec<&'static str>,
    /// What a response repeats of its request.
    pub echo: Echo,
}

/// What a response repeats of its request.
#[derive(Debug, Serialize)]
pub(super) struct Echo {
    pub instructions: Option<String>,
    previous_response_id: Option<String>,
    metadata: BTreeMap<String, String>,
    text: Value,
    max_output_tokens: Option<u64>,
    temperature: Option<Number>,
    top_p: Option<Number>,
    tools: Value,
    tool_choice: Value,
    store: bool,
}

impl CreateRequest {
    /// Items that only name what a response said before.
    pub fn references(&mut self) -> impl Iterator<Item = &mut Item> {
        let items = match &mut self.input {
            Some(Input::Items(items)) => items.as_mut_slice(),
            Some(Input::Text(_)) | None => &mut [],
        };
        items.iter_mut().filter(|item| item.kind.as_deref() == Some(REFERENCE))
    }

    /// What is asked.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(self) -> Result<Asked, Failure> {
        for (name, why) in REFUSED {
            if self.others.get(name).is_some_and(asks) {
                return Err(Failure::bad(name, why));
            }
        }
        let default = |name: &str| {
            matches!((name, self.others.get(name).and_then(Value::as_str)), ("truncation", Some("disabled")))
        };
        let left_out = |name: &&&str| self.others.get(**name).is_some_and(asks) && !default(name);
        let ignored = LEFT_OUT.iter().filter(left_out).copied().collect();
        let metadata = self.metadata.unwrap_or_default();
        let too_long =
            |(name, value): (&String, &String)| name.len() > METADATA_NAME_MAX || value.len() > METADATA_VALUE_MAX;
        if metadata.len() > METADATA_MAX || metadata.iter().any(too_long) {
            let why = format!(
                "send at most {METADATA_MAX} entries, names of {METADATA_NAME_MAX} and values of {METADATA_VALUE_MAX} bytes"
            );
            return Err(Failure::bad("metadata", why));
        }
        let messages = self.input.ok_or_else(|| Failure::bad("input", "is missing"))?.read()?;
        let sampling =
            sampling(self.temperature.clone(), self.top_p.clone(), self.max_output_tokens, "max_output_tokens")?;
        let format = self.text.and_then(|text| text.format).unwrap_or_else(Format::text);
        let tools = self.tools.unwrap_or_default();
        let echo = Echo {
            instructions: self.instructions,
            previous_response_id: self.previous_response_id.clone(),
            metadata,
            text: serde_json::json!({"format": format}),
            max_output_tokens: self.max_output_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            tools: serde_json::json!(tools),
            tool_choice: self.tool_choice.clone().filter(asks).unwrap_or_else(|| "auto".into()),
            store: self.store.unwrap_or(true),
        };
        at_most(tools.len())?;
        let tools = tools.into_iter().enumerate().map(|(at, tool)| {
            let place = format!("tools[{at}]");
            match (tool.kind.as_str(), tool.name) {
                (FUNCTION, Some(name)) => {
                    WireFunction { name, description: tool.description, parameters: tool.parameters }.read(&place)
                }
                (FUNCTION, None) => Err(Failure::bad(&format!("{place}.name"), "is missing")),
                _ => Err(Failure::bad(&format!("{place}.type"), ONLY_FUNCTIONS)),
            }
        });
        let (tools, choice) = chosen(tools.collect::<Result<_, _>>()?, self.tool_choice.as_ref())?;
        let (form, model) = (format.read()?, self.model);
        Ok(Asked {
            conversation: Conversation { messages, tools, choice, form, sampling, model, ..Conversation::default() },
            previous: self.previous_response_id,
            stream: self.stream.unwrap_or(false),
            store: echo.store,
            ignored,
            echo,
        })
    }
}

impl Input {
    fn read(self) -> Result<Vec<Message>, Failure> {
        let items = match self {
            Self::Text(text) => return Ok(vec![Message::new(Role::User, text)]),
            Self::Items(items) => items,
        };
        if items.is_empty() || items.len() > MESSAGES_MAX {
            return Err(Failure::bad("input", format!("send 1 to {MESSAGES_MAX} items")));
        }
        let mut messages: Vec<Message> = Vec::with_capacity(items.len());
        for (at, item) in items.into_iter().enumerate() {
            item.read(at, &mut messages)?;
        }
        if messages.is_empty() {
            return Err(Failure::bad("input", "holds nothing that was said"));
        }
        Ok(messages)
    }
}

impl Item {
    /// Becomes what the model said in a response: its text, or its call of this number. False when there is no such call.
    pub fn recall(&mut self, said: &Message, call: Option<usize>) -> bool {
        let Some(number) = call else {
            (self.kind, self.role) = (None, Some("assistant".to_owned()));
            self.content = Some(Content::Text(said.text.clone()));
            return true;
        };
        let Some(ToolCall { id, name, arguments }) = said.calls.get(number).cloned() else { return false };
        self.kind = Some("function_call".to_owned());
        (self.call_id, self.name, self.arguments) = (Some(id), Some(name), Some(arguments));
        true
    }

    /// Adds what it says.
    fn read(self, at: usize, messages: &mut Vec<Message>) -> Result<(), Failure> {
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
                messages.push(Message::new(role, content.text(&TEXTS, &place("content"))?));
            }
            "function_call" => {
                let call = ToolCall {
                    id: self.call_id.ok_or_else(|| missing("call_id"))?,
                    name: self.name.ok_or_else(|| missing("name"))?,
                    arguments: self.arguments.unwrap_or_default(),
                };
                match messages.last_mut() {
                    // Calls that were made together are one message, with the text before them.
                    Some(last) if last.role == Role::Assistant => last.calls.push(call),
                    _ => messages.push(Message { calls: vec![call], ..Message::new(Role::Assistant, "") }),
                }
            }
            "function_call_output" => {
                let output = self.output.ok_or_else(|| missing("output"))?.text(&TEXTS, &place("output"))?;
                let call = self.call_id.ok_or_else(|| missing("call_id"))?;
                messages.push(Message { result_of: Some(call), ..Message::new(Role::Tool, output) });
            }
            // Thoughts are told to no model again.
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
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<Asked, Failure> {
        serde_json::from_value::<CreateRequest>(body).unwrap().read()
    }

    fn with(key: &str, value: Value) -> Result<Asked, Failure> {
        let mut body = json!({"model": "m", "input": "hi"});
        body[key] = value;
        read(body)
    }

    #[test]
    fn items_become_the_conversation_that_they_tell() {
        let asked = with(
            "input",
            json!([
                {"role": "developer", "content": "be brief"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}]},
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                 "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
                {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "a boat"},
                {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "sea"}]},
            ]),
        );
        let messages = asked.unwrap().conversation.messages;
        let told: Vec<_> =
            messages.iter().map(|message| (message.role, message.text.as_str(), message.calls.len())).collect();
        assert_eq!(
            told,
            [
                (Role::System, "be brief", 0),
                (Role::User, "look", 0),
                (Role::Assistant, "I look.", 2),
                (Role::Tool, "a boat", 0),
                (Role::Tool, "sea", 0),
            ]
        );
        assert_eq!(messages[4].result_of.as_deref(), Some("c2"));
    }

    #[test]
    fn parameters_are_read_repeated_and_named_where_they_are_left_out() {
        let asked = read(json!({
            "input": "hi", "instructions": "be brief", "previous_response_id": "resp_1", "store": false, "stream": true,
            "text": {"format": {"type": "json_schema", "name": "Tide", "schema": {"type": "object"}, "strict": true}},
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": true}],
            "tool_choice": {"type": "function", "name": "look"}, "max_output_tokens": 9, "metadata": {"a": "b"},
            "reasoning": {"effort": "low"}, "truncation": "disabled", "background": false,
        }));
        let Asked { conversation, previous, stream, store, ignored, echo } = asked.unwrap();
        assert_eq!((previous.as_deref(), stream, store, ignored), (Some("resp_1"), true, false, vec!["reasoning"]));
        assert_eq!((conversation.tools.len(), conversation.sampling.max_tokens), (1, Some(9)));
        assert_eq!(conversation.form.unwrap().name, "Tide");
        let echo = serde_json::to_value(echo).unwrap();
        assert_eq!((&echo["instructions"], &echo["metadata"]["a"]), (&json!("be brief"), &json!("b")));
        assert_eq!((&echo["tools"][0]["name"], &echo["text"]["format"]["name"]), (&json!("look"), &json!("Tide")));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let metadata: BTreeMap<String, String> =
            (0..=METADATA_MAX).map(|number| (number.to_string(), String::new())).collect();
        for (key, value, place) in [
            ("input", json!(null), "input"),
            ("input", json!([]), "input"),
            ("input", json!([{"type": "reasoning"}]), "input"),
            ("input", json!([{"role": "robot", "content": "x"}]), "input[0].role"),
            ("input", json!([{"role": "user"}]), "input[0].content"),
            ("input", json!([{"role": "user", "content": [{"type": "input_image"}]}]), "input[0].content"),
            ("input", json!([{"type": "computer_call", "id": "cu_1"}]), "input[0].type"),
            ("input", json!([{"type": "function_call_output", "output": "x"}]), "input[0].call_id"),
            ("background", json!(true), "background"),
            ("conversation", json!("conv_1"), "conversation"),
            ("metadata", json!(metadata), "metadata"),
            ("max_output_tokens", json!(0), "max_output_tokens"),
            ("tools", json!([{"type": "web_search"}]), "tools[0].type"),
            ("tools", json!([{"type": "function", "name": "a b"}]), "tools[0].name"),
            ("tool_choice", json!("required"), "tool_choice"),
            ("text", json!({"format": {"type": "json_schema"}}), "text.format.name"),
        ] {
            match with(key, value.clone()) {
                Err(Failure::Bad { place: Some(found), .. }) => assert_eq!(found, place),
                other => panic!("{key} {value}: {other:?}"),
            }
        }
    }
}
