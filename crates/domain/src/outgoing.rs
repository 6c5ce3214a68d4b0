//! Outgoing messages as neutral parts. A door converts them for its platform, according to its capabilities.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::code::fence;
use super::completion::ToolCall;
use super::ids::{MessageId, Place};
use super::split::is_blank;

/// The largest file that is sent, in bytes. Larger files are only named.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The effort spent on an answer, for doors that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerCost {
    /// The model row that answered; `None` if no model was called.
    pub model: Option<String>,
    /// The total tokens of all calls.
    pub tokens: u64,
}

/// One answer to one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// The place of the post.
    pub place: Place,
    /// The message to reply to; `None` makes a plain post.
    pub reply_to: Option<MessageId>,
    /// The parts, in order.
    pub parts: Vec<Part>,
    /// True if it says that there is no answer, or no better one.
    #[serde(skip)]
    pub apology: bool,
    /// The effort spent on it, for doors that show it.
    #[serde(skip)]
    pub spent: Option<Arc<AnswerCost>>,
    /// True if it concerns only the author of the message that it answers, for doors that can show it to one member.
    #[serde(skip)]
    pub private: bool,
}

impl Outgoing {
    /// Returns all parts as one text, for a door that can show only text.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts.iter().map(Part::text).filter(|text| !is_blank(text)).collect::<Vec<_>>().join("\n\n")
    }
}

/// One neutral part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Part {
    /// Text in the platform's usual markup.
    Text {
        /// The text, of any length.
        text: String,
    },
    /// A program or its output: a code block, or a file if it is too long for one message.
    Code {
        /// The language as code blocks name it; empty for plain text.
        language: String,
        /// The file name without extension, for the case that it becomes a file.
        stem: String,
        /// The code, of any length.
        text: String,
    },
    /// A formula in LaTeX; a picture on platforms with files.
    Formula {
        /// The formula without its delimiters.
        formula: String,
    },
    /// A card with a title, a picture and a table of short facts.
    Card(Card),
    /// A file.
    File(File),
    /// Buttons of which people press one. Omitted on platforms without buttons.
    Buttons {
        /// The buttons, in order.
        buttons: Vec<Button>,
    },
    /// Tool calls that the client executes itself.
    Calls {
        /// The calls, in order.
        calls: Vec<ToolCall>,
    },
}

impl Part {
    /// Returns the part as text.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text { text } => text.clone(),
            Self::Code { language, text, .. } => fence(language, text),
            Self::Formula { formula } => fence("latex", formula),
            Self::Card(card) => card.text(),
            Self::File(file) => file.text(),
            Self::Buttons { .. } => String::new(),
            Self::Calls { calls } => fence("json", &serde_json::to_string(calls).unwrap_or_default()),
        }
    }
}

/// A button below a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// The value returned by a press, at most 100 characters; the address of a link.
    pub name: String,
    /// The label, at most 80 characters.
    pub label: String,
    /// The style.
    pub style: ButtonStyle,
}

/// The style of a button.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ButtonStyle {
    /// Approval.
    Good,
    /// Neutral.
    Plain,
    /// Refusal.
    Bad,
    /// A link. A press opens the address in its name and returns nothing.
    Link,
}

/// A card. Only its `http` and `https` addresses are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Card {
    /// The title.
    pub title: Option<String>,
    /// Its text in the platform's usual markup.
    pub text: String,
    /// The address that the title links to.
    pub url: Option<String>,
    /// The address of its picture.
    pub image: Option<String>,
    /// Short facts.
    pub fields: Vec<Field>,
    /// The colour of its border, as `0xRRGGBB`.
    pub colour: Option<u32>,
}

impl Card {
    fn text(&self) -> String {
        let title = self.title.as_ref().map(|title| format!("**{title}**"));
        let fields = self.fields.iter().map(|field| format!("{}: {}", field.name, field.value));
        let lines = title.into_iter().chain([self.text.clone()]).chain(fields).chain(self.url.clone());
        let mut lines: Vec<String> = lines.chain(self.image.clone()).filter(|line| !is_blank(line)).collect();
        // A link to a picture gives the same address twice.
        lines.dedup();
        lines.join("\n")
    }
}

/// A short fact on a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The name of the fact.
    pub name: String,
    /// The fact.
    pub value: String,
    /// True if it may share a line with others.
    pub inline: bool,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// The name with its extension, such as `report.csv`.
    pub name: String,
    /// Its media type.
    pub mime: String,
    /// The content, at most [`FILE_BYTES_MAX`] bytes.
    #[serde(with = "base64_text")]
    pub bytes: Arc<[u8]>,
    /// A description for people who cannot see it; may be empty.
    #[serde(default)]
    pub description: String,
}

impl File {
    /// Creates a file without a description.
    pub fn new(name: impl Into<String>, mime: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { name: name.into(), mime: mime.into(), bytes: bytes.into(), description: String::new() }
    }

    /// Returns the content of a text file, or a note with the name of any other file.
    fn text(&self) -> String {
        let is_text = self.mime.starts_with("text/") || self.mime == "application/json";
        match str::from_utf8(&self.bytes) {
            Ok(text) if is_text && self.bytes.len() <= FILE_BYTES_MAX => fence("", text),
            _ => file_not_shown(&self.name, self.bytes.len()),
        }
    }
}

/// Returns the note that replaces a file on platforms without files.
fn file_not_shown(name: &str, bytes: usize) -> String {
    format!("(file {name}, {bytes} bytes: it cannot be shown here)")
}

/// The content of one post. The door decides which accounts it may notify, independent of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Piece {
    /// The text, within the door's limit; blank only with cards or files.
    pub text: String,
    /// The cards, at most as many as the door shows.
    pub cards: Vec<Card>,
    /// The files, at most as many as the door accepts.
    pub files: Vec<File>,
    /// The buttons, at most as many as the door shows.
    pub buttons: Vec<Button>,
    /// True if it is part of an apology: there is no answer, or no better one.
    pub apology: bool,
    /// The effort spent on the answer, for doors that show it.
    pub spent: Option<Arc<AnswerCost>>,
    /// True if it concerns only the author of the answered message, for doors that can show it to one member.
    pub private: bool,
    /// True if it is a draft, which a later edit finishes.
    pub unfinished: bool,
}

impl Piece {
    /// Creates a piece of text only.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a draft.
    pub fn draft(text: impl Into<String>) -> Self {
        Self { unfinished: true, ..Self::text(text) }
    }

    /// Converts the piece to parts of an answer.
    #[must_use]
    pub fn into_parts(self) -> Vec<Part> {
        let Self { text, cards, files, buttons, .. } = self;
        let text = Part::Text { text };
        let buttons = (!buttons.is_empty()).then_some(Part::Buttons { buttons });
        let extras = cards.into_iter().map(Part::Card).chain(files.into_iter().map(Part::File)).chain(buttons);
        [text].into_iter().chain(extras).collect()
    }

    /// True if it has no cards and no files.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.cards.is_empty() && self.files.is_empty()
    }
}

/// The capabilities of a door's platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The longest message, in Unicode scalar values.
    pub text_limit: usize,
    /// The maximum number of cards in one message; zero disables cards.
    pub cards: usize,
    /// The maximum number of files in one message; zero disables files.
    pub files: usize,
    /// The maximum total size of the files of one message, in bytes.
    pub file_bytes: usize,
    /// The maximum number of buttons below one message; zero disables buttons.
    pub buttons: usize,
    /// The maximum number of fields of a form that a press of a button can open; zero disables forms.
    pub forms: usize,
    /// The form in which the door shows a turn.
    pub medium: Medium,
}

/// The form in which the outbox of a door shows a turn. Readers of events are independent of it: any number of them can
/// follow a turn at any door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Messages in a place: drafts, statuses and approval requests are messages too, and a missed message of a member
    /// can arrive twice.
    Messages,
    /// Replies to requests of clients: only final answers are posted, with their token usage; clients read everything
    /// else as events, and repeat a request under its id.
    Replies,
}

impl Capabilities {
    /// Returns the capabilities of a platform for text only.
    #[must_use]
    pub const fn text_only(text_limit: usize) -> Self {
        Self { text_limit, cards: 0, files: 0, file_bytes: 0, buttons: 0, forms: 0, medium: Medium::Messages }
    }

    /// Returns the capabilities of a door that replies to requests, in text only.
    #[must_use]
    pub const fn replies(text_limit: usize) -> Self {
        Self { medium: Medium::Replies, ..Self::text_only(text_limit) }
    }
}

/// Serializes bytes as base64 text, so that a record with a file stays JSON.
mod base64_text {
    use std::sync::Arc;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[u8]>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Arc::from).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
