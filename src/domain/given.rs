//! A conversation that its asker brings along: all that was said so far, and what may come back. Nothing else is remembered for it.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::completion::{AnswerForm, Item, Role, Sampling, ToolCall, ToolChoice, ToolSpec, estimated_tokens};

/// A shared [`Conversation`]. Clones are the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given(Arc<Conversation>);

/// What was said, the oldest message first, and what the asker wants of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Conversation {
    /// The messages; never empty.
    pub messages: Vec<Message>,
    /// Tools that the asker runs itself: a call of one is handed back as the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Arc<ToolSpec>>,
    /// Whether the model has to call one of them.
    #[serde(default)]
    pub choice: ToolChoice,
    /// The form that the answer shall have; none takes text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<AnswerForm>,
    /// How the answer is sampled, where that differs from the row.
    #[serde(default)]
    pub sampling: Sampling,
    /// The key of the model row; none leaves it to the door.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The asker reads the answer in one piece, so a model that fails in the middle of it can be followed by another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// The keys of the rows that may answer, fallbacks included; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
}

/// One message of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text, as it came.
    pub text: String,
    /// The calls that the model made in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// The id of the call that this is the result of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_of: Option<String>,
}

impl Given {
    /// Shares a conversation.
    #[must_use]
    pub fn new(conversation: Conversation) -> Self {
        Self(Arc::new(conversation))
    }
}

impl Deref for Given {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.0
    }
}

impl Serialize for Given {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Conversation::deserialize(deserializer).map(Self::new)
    }
}

impl Message {
    /// A message of text alone.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), calls: Vec::new(), result_of: None }
    }

    /// The message as a model is told it.
    #[must_use]
    pub fn item(&self) -> Item {
        let Self { role, text, calls, result_of } = self;
        Item { calls: calls.clone(), result_of: result_of.clone(), ..Item::new(*role, text.clone()) }
    }
}

impl Conversation {
    /// What the person said last; empty when none of it is theirs.
    #[must_use]
    pub fn question(&self) -> &str {
        self.messages.iter().rev().find(|message| message.role == Role::User).map_or("", |message| &message.text)
    }

    /// It begins with instructions of the asker's own.
    #[must_use]
    pub fn has_instructions(&self) -> bool {
        self.messages.first().is_some_and(|message| message.role == Role::System)
    }

    /// Whether tools of ours may be offered: not where the asker has tools of its own, or wants none to be called.
    #[must_use]
    pub fn takes_our_tools(&self) -> bool {
        let called = |message: &Message| !message.calls.is_empty() || message.result_of.is_some();
        self.tools.is_empty() && self.choice == ToolChoice::Auto && !self.messages.iter().any(called)
    }

    /// Whether the asker runs a tool of this name.
    #[must_use]
    pub fn runs(&self, tool: &str) -> bool {
        self.tools.iter().any(|known| known.name == tool)
    }

    /// The tokens that its messages and tools take, about.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let calls = |message: &Message| message.calls.iter().map(|call| call.arguments.len()).sum::<usize>();
        let messages: usize = self.messages.iter().map(|message| message.text.len() + calls(message)).sum();
        let tool = |tool: &Arc<ToolSpec>| tool.name.len() + tool.description.len() + tool.parameters.as_str().len();
        estimated_tokens(messages + self.tools.iter().map(tool).sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::completion::WrittenJson;

    fn look() -> Arc<ToolSpec> {
        let parameters = WrittenJson::new(&serde_json::json!({"type": "object"}));
        Arc::new(ToolSpec { name: "look".to_owned(), description: String::new(), parameters })
    }

    #[test]
    fn tools_of_ours_stay_out_of_a_conversation_with_tools_of_its_own() {
        let plain = Conversation { messages: vec![Message::new(Role::User, "hi")], ..Conversation::default() };
        assert!(plain.takes_our_tools(), "plain");
        assert!(!Conversation { choice: ToolChoice::None, ..plain.clone() }.takes_our_tools());
        let with = Conversation { tools: vec![look()], ..plain.clone() };
        assert!(!with.takes_our_tools() && with.tokens() > plain.tokens());
        let mut found = Message::new(Role::Tool, "a boat");
        found.result_of = Some("c1".to_owned());
        assert!(!Conversation { messages: vec![found], ..plain }.takes_our_tools());
    }

    #[test]
    fn a_conversation_is_stored_and_read_again() {
        let call = ToolCall { id: "c1".to_owned(), name: "look".to_owned(), arguments: "{\"at\":1}".to_owned() };
        let mut said = Message::new(Role::Assistant, "");
        said.calls.push(call);
        let mut found = Message::new(Role::Tool, "a boat");
        found.result_of = Some("c1".to_owned());
        let given = Given::new(Conversation {
            messages: vec![Message::new(Role::User, "look there"), said, found],
            sampling: Sampling { temperature: serde_json::Number::from_f64(0.2), ..Sampling::default() },
            choice: ToolChoice::Named("look".to_owned()),
            tools: vec![look()],
            ..Conversation::default()
        });
        let stored = serde_json::to_string(&given).unwrap();
        assert_eq!(serde_json::from_str::<Given>(&stored).unwrap(), given);
        assert_eq!(given.question(), "look there");
        assert!(!given.has_instructions());
    }
}
