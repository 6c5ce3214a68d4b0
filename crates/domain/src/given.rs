//! A conversation supplied by the client: all earlier messages, and the requirements for the answer. The bot stores
//! no history for it.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::attachment::PICTURE_TOKENS;
use super::completion::{
    AnswerForm, Item, Picture, Role, Sampling, ToolCall, ToolChoice, ToolSpec, WrittenJson, estimated_tokens,
};

/// A shared [`GivenConversation`]. Clones share it.
#[derive(Debug, Clone)]
pub struct Given(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    conversation: GivenConversation,
    /// Its JSON, serialized once, because each record of its turn contains it.
    written: Option<WrittenJson>,
}

/// A larger conversation, in bytes, is serialized once on a blocking thread: a picture of 5 MiB takes about 20 ms.
const LONG_BYTES: usize = 32 * 1024;

/// The messages, oldest first, and the client's requirements for the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GivenConversation {
    /// The messages; never empty.
    pub messages: Vec<Message>,
    /// Tools that the client runs itself. A call of one is returned as the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Arc<ToolSpec>>,
    /// The requirement to call one of them.
    #[serde(default)]
    pub choice: ToolChoice,
    /// The required structure of the answer. `None`: text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<AnswerForm>,
    /// Sampling parameters that differ from the row's.
    #[serde(default)]
    pub sampling: Sampling,
    /// The key of the model row. `None`: the door decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// True if the client reads the answer at once, so that another model may take over after a failure in the
    /// middle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// The keys of the rows that may answer, fallbacks included. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The speaker.
    pub role: Role,
    /// The text, unchanged.
    pub text: String,
    /// The calls that the model made in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// The id of the call whose result this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_of: Option<String>,
    /// Its pictures, which follow the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "stored_pictures")]
    pub pictures: Vec<Picture>,
}

impl Given {
    /// Shares a conversation.
    #[must_use]
    pub fn new(conversation: GivenConversation) -> Self {
        Self(Arc::new(Shared { conversation, written: None }))
    }

    /// Shares a conversation and serializes it now. The time is proportional to its bytes, pictures included.
    #[must_use]
    pub fn written(conversation: GivenConversation) -> Self {
        let written = WrittenJson::of(&conversation);
        Self(Arc::new(Shared { conversation, written }))
    }

    /// Returns the length of its JSON in bytes, 0 if it was not serialized.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.0.written.as_ref().map_or(0, |written| written.as_str().len())
    }
}

impl PartialEq for Given {
    fn eq(&self, other: &Self) -> bool {
        self.0.conversation == other.0.conversation
    }
}

impl Eq for Given {}

impl Deref for Given {
    type Target = GivenConversation;

    fn deref(&self) -> &GivenConversation {
        &self.0.conversation
    }
}

impl Serialize for Given {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.written {
            Some(written) => written.serialize(serializer),
            None => self.0.conversation.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        GivenConversation::deserialize(deserializer).map(Self::new)
    }
}

impl Message {
    /// Creates a message with text only.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), calls: Vec::new(), result_of: None, pictures: Vec::new() }
    }

    /// Converts the message to a transcript item.
    #[must_use]
    pub fn item(&self) -> Item {
        let Self { role, text, calls, result_of, pictures } = self;
        let (calls, result_of, pictures) = (calls.clone(), result_of.clone(), pictures.clone());
        Item { pictures, calls, result_of, ..Item::new(*role, text.clone()) }
    }

    /// Returns the bytes sent to the model without pictures. Includes names and ids, because a client chooses their
    /// length.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let calls: usize = self.calls.iter().map(ToolCall::bytes).sum();
        self.text.len() + calls + self.result_of.as_ref().map_or(0, String::len)
    }

    /// Returns the approximate memory in bytes, more than zero for an empty message.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let own = size_of::<Self>() + self.calls.len() * size_of::<ToolCall>();
        own + self.text_bytes() + self.pictures.iter().map(|picture| picture.bytes.len()).sum::<usize>()
    }
}

/// The stored form of pictures: bytes in base64. Their type is read from the bytes.
mod stored_pictures {
    use std::sync::Arc;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::attachment::Pixels;
    use crate::completion::Picture;

    pub fn serialize<S: Serializer>(pictures: &[Picture], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pictures.iter().map(|picture| STANDARD.encode(&picture.bytes)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Picture>, D::Error> {
        let read = |text: String| {
            let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
            let kind = Pixels::of(&bytes).map_err(|_| D::Error::custom("is no picture"))?;
            Ok(Picture { about: String::new(), mime: kind.mime, bytes: Arc::from(bytes) })
        };
        Vec::<String>::deserialize(deserializer)?.into_iter().map(read).collect()
    }
}

impl GivenConversation {
    /// True if serializing it takes longer than a task may block its thread.
    #[must_use]
    pub fn is_long(&self) -> bool {
        let said: usize = self.messages.iter().map(Message::bytes).sum();
        said + self.tools.iter().map(|tool| tool.bytes()).sum::<usize>() > LONG_BYTES
    }

    /// Returns the last text of the user role; empty if there is none.
    #[must_use]
    pub fn question(&self) -> &str {
        self.asked().map_or("", |message| &message.text)
    }

    /// Returns the pictures of that message, or else of the newest message that has some.
    #[must_use]
    pub fn asked_pictures(&self) -> &[Picture] {
        let asked = self.asked().filter(|message| !message.pictures.is_empty());
        let newest = || self.messages.iter().rfind(|message| !message.pictures.is_empty());
        asked.or_else(newest).map_or(&[], |message| &message.pictures)
    }

    fn asked(&self) -> Option<&Message> {
        self.messages.iter().rfind(|message| message.role == Role::User)
    }

    /// True if it begins with the client's own instructions.
    #[must_use]
    pub fn has_instructions(&self) -> bool {
        self.messages.first().is_some_and(|message| message.role == Role::System)
    }

    /// True if the bot's tools may be offered: the client has no tools of its own, and does not forbid calls.
    #[must_use]
    pub fn takes_our_tools(&self) -> bool {
        let called = |message: &Message| !message.calls.is_empty() || message.result_of.is_some();
        self.tools.is_empty() && self.choice == ToolChoice::Auto && !self.messages.iter().any(called)
    }

    /// True if the client runs a tool with this name.
    #[must_use]
    pub fn runs(&self, tool: &str) -> bool {
        self.tools.iter().any(|known| known.name == tool)
    }

    /// Returns the pictures of all messages.
    pub fn pictures(&self) -> impl Iterator<Item = &Picture> {
        self.messages.iter().flat_map(|message| &message.pictures)
    }

    /// Returns the bytes of text in its messages and tools.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let messages: usize = self.messages.iter().map(Message::text_bytes).sum();
        messages + self.tools.iter().map(|tool| tool.bytes()).sum::<usize>()
    }

    /// Returns the approximate tokens of its messages and tools.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let pictures = u64::try_from(self.pictures().count()).unwrap_or(u64::MAX);
        estimated_tokens(self.text_bytes()).saturating_add(pictures.saturating_mul(PICTURE_TOKENS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look() -> Arc<ToolSpec> {
        let parameters = WrittenJson::new(&serde_json::json!({"type": "object"}));
        Arc::new(ToolSpec { name: "look".to_owned(), description: String::new(), parameters })
    }

    #[test]
    fn tools_of_ours_stay_out_of_a_conversation_with_tools_of_its_own() {
        let plain =
            GivenConversation { messages: vec![Message::new(Role::User, "hi")], ..GivenConversation::default() };
        assert!(plain.takes_our_tools(), "plain");
        assert!(!GivenConversation { choice: ToolChoice::None, ..plain.clone() }.takes_our_tools());
        let with = GivenConversation { tools: vec![look()], ..plain.clone() };
        assert!(!with.takes_our_tools() && with.tokens() > plain.tokens());
        let mut found = Message::new(Role::Tool, "a boat");
        found.result_of = Some("c1".to_owned());
        assert!(!GivenConversation { messages: vec![found], ..plain }.takes_our_tools());
    }

    #[test]
    fn every_text_of_a_message_counts_and_an_empty_message_takes_memory() {
        let text = || "x".repeat(1_000);
        let call = ToolCall { id: text(), name: text(), arguments: text() };
        let called = Message { calls: vec![call], ..Message::new(Role::Assistant, text()) };
        let found = Message { result_of: Some(text()), ..Message::new(Role::Tool, "") };
        assert_eq!((called.text_bytes(), found.text_bytes()), (4_000, 1_000));
        assert!(called.bytes() > 4_000 && found.bytes() > 1_000 && Message::new(Role::User, "").bytes() > 0);
        let asks = GivenConversation { messages: vec![called, found], ..GivenConversation::default() };
        assert_eq!((asks.text_bytes(), asks.tokens()), (5_000, estimated_tokens(5_000)));
    }

    /// A picture of one pixel.
    const GIF: &str = "R0lGODlhAQABAAAAACw=";

    #[test]
    fn pictures_are_stored_in_base64_and_records_without_them_are_read() {
        let record = serde_json::json!({"role": "user", "text": "what is this?", "pictures": [GIF]});
        let message: Message = serde_json::from_value(record.clone()).unwrap();
        assert_eq!(message.pictures[0].mime, "image/gif");
        assert_eq!(serde_json::to_value(&message).unwrap(), record);
        assert_eq!(message.item().pictures, message.pictures);
        let asks = GivenConversation { messages: vec![message], ..GivenConversation::default() };
        assert!(asks.tokens() > PICTURE_TOKENS);
        let before: Message = serde_json::from_value(serde_json::json!({"role": "user", "text": "hi"})).unwrap();
        assert_eq!(before, Message::new(Role::User, "hi"));
        let broken = serde_json::json!({"role": "user", "text": "hi", "pictures": ["AAAA"]});
        assert!(serde_json::from_value::<Message>(broken).is_err());
    }

    #[test]
    fn the_json_of_a_conversation_with_pictures_is_written_once_and_is_the_same() {
        let bytes: Arc<[u8]> = b"GIF89a\x01\x00\x01\x00\x00\x00\x00,".iter().copied().chain(vec![7; 100_000]).collect();
        let mut message = Message::new(Role::User, "what is this?");
        message.pictures.push(Picture { about: String::new(), mime: "image/gif", bytes });
        let conversation = GivenConversation { messages: vec![message], ..GivenConversation::default() };
        assert!(conversation.is_long() && !GivenConversation::default().is_long());
        let (plain, written) = (Given::new(conversation.clone()), Given::written(conversation));
        let stored = serde_json::to_string(&plain).unwrap();
        assert_eq!(serde_json::to_string(&written).unwrap(), stored);
        assert_eq!((written.written_bytes(), plain.written_bytes()), (stored.len(), 0));
        assert_eq!(serde_json::from_str::<Given>(&stored).unwrap(), written);
        // A record contains exactly that text, without encoding it again.
        let other = WrittenJson::of(&7);
        let given = Given(Arc::new(Shared { conversation: GivenConversation::default(), written: other }));
        assert_eq!(serde_json::to_string(&given).unwrap(), "7");
    }

    #[test]
    fn a_conversation_is_stored_and_read_again() {
        let call = ToolCall { id: "c1".to_owned(), name: "look".to_owned(), arguments: "{\"at\":1}".to_owned() };
        let mut said = Message::new(Role::Assistant, "");
        said.calls.push(call);
        let mut found = Message::new(Role::Tool, "a boat");
        found.result_of = Some("c1".to_owned());
        let given = Given::new(GivenConversation {
            messages: vec![Message::new(Role::User, "look there"), said, found],
            sampling: Sampling { temperature: serde_json::Number::from_f64(0.2), ..Sampling::default() },
            choice: ToolChoice::Named("look".to_owned()),
            tools: vec![look()],
            ..GivenConversation::default()
        });
        let stored = serde_json::to_string(&given).unwrap();
        assert_eq!(serde_json::from_str::<Given>(&stored).unwrap(), given);
        assert_eq!(given.question(), "look there");
        assert!(!given.has_instructions());
    }
}
