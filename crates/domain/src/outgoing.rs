//! What goes out: neutral parts. A door turns them into what its platform shows, by its row of capabilities.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::code::fence;
use super::completion::ToolCall;
use super::ids::{MessageId, Place};
use super::split::is_blank;

/// The largest file that goes out, in bytes. What is larger is named only.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What it took to find an answer, for doors that tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// The model row that answered; none when no model was asked.
    pub model: Option<String>,
    /// The tokens of all calls.
    pub tokens: u64,
}

/// One answer to one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Where it is posted.
    pub place: Place,
    /// The message it replies to; none posts a plain message.
    pub reply_to: Option<MessageId>,
    /// The parts, in order.
    pub parts: Vec<Part>,
    /// It is a word that there is no answer, or no better one.
    #[serde(skip)]
    pub apology: bool,
    /// What it took to find it, for doors that tell it.
    #[serde(skip)]
    pub spent: Option<Arc<Spent>>,
}

impl Outgoing {
    /// All parts as one text, for a door that shows nothing else.
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
    /// A program, or what one printed: a code block, or a file where it is too long for one message.
    Code {
        /// Its language as code blocks name it; empty for plain text.
        language: String,
        /// The name of the file without its end, should it become one.
        stem: String,
        /// The code, of any length.
        text: String,
    },
    /// A formula in LaTeX: a picture where files can be shown.
    Formula {
        /// The formula without its delimiters.
        formula: String,
    },
    /// A card: a title, a picture, a table of short facts.
    Card(Card),
    /// A file.
    File(File),
    /// Buttons, of which people press one; nothing where there are none.
    Buttons {
        /// The buttons, in order.
        buttons: Vec<Button>,
    },
    /// Calls of tools that the asker runs itself.
    Calls {
        /// The calls, in order.
        calls: Vec<ToolCall>,
    },
}

impl Part {
    /// The part as text.
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
    /// What comes back when it is pressed, at most 100 characters.
    pub name: String,
    /// What people read, at most 80 characters.
    pub label: String,
    /// How it looks.
    pub style: ButtonStyle,
}

/// How a button looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ButtonStyle {
    /// A yes.
    Good,
    /// Something else.
    Plain,
    /// A no.
    Bad,
}

/// A card. Only `http` and `https` addresses are shown, whatever it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Card {
    /// Its headline.
    pub title: Option<String>,
    /// Its text in the platform's usual markup.
    pub text: String,
    /// Where its title leads.
    pub url: Option<String>,
    /// The address of its picture.
    pub image: Option<String>,
    /// Short facts.
    pub fields: Vec<Field>,
    /// The colour of its edge, as `0xRRGGBB`.
    pub colour: Option<u32>,
}

impl Card {
    fn text(&self) -> String {
        let title = self.title.as_ref().map(|title| format!("**{title}**"));
        let fields = self.fields.iter().map(|field| format!("{}: {}", field.name, field.value));
        let lines = title.into_iter().chain([self.text.clone()]).chain(fields).chain(self.url.clone());
        let mut lines: Vec<String> = lines.chain(self.image.clone()).filter(|line| !is_blank(line)).collect();
        // A link to a picture names the picture twice.
        lines.dedup();
        lines.join("\n")
    }
}

/// A short fact on a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// What it is about.
    pub name: String,
    /// The fact.
    pub value: String,
    /// It may stand beside others.
    pub inline: bool,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its name with its end, such as `report.csv`.
    pub name: String,
    /// Its media type.
    pub mime: String,
    /// What is in it, at most [`FILE_BYTES_MAX`].
    #[serde(with = "base64_text")]
    pub bytes: Arc<[u8]>,
    /// What it shows, for people who cannot see it; may be empty.
    #[serde(default)]
    pub description: String,
}

impl File {
    /// A file without a description.
    pub fn new(name: impl Into<String>, mime: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { name: name.into(), mime: mime.into(), bytes: bytes.into(), description: String::new() }
    }

    /// Text stands for itself, everything else is named.
    fn text(&self) -> String {
        let is_text = self.mime.starts_with("text/") || self.mime == "application/json";
        match str::from_utf8(&self.bytes) {
            Ok(text) if is_text && self.bytes.len() <= FILE_BYTES_MAX => fence("", text),
            _ => file_not_shown(&self.name, self.bytes.len()),
        }
    }
}

/// Stands for a file where files cannot be shown.
fn file_not_shown(name: &str, bytes: usize) -> String {
    format!("(file {name}, {bytes} bytes: it cannot be shown here)")
}

/// What one post carries. Whom it may notify is the door's to say, whatever the text names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Piece {
    /// The text, within the door's limit; blank only beside cards or files.
    pub text: String,
    /// Cards, at most as many as the door shows.
    pub cards: Vec<Card>,
    /// Files, at most as many as the door takes.
    pub files: Vec<File>,
    /// Buttons, at most as many as the door shows.
    pub buttons: Vec<Button>,
    /// It is of a word that there is no answer, or no better one.
    pub apology: bool,
    /// What it took to find the answer, for doors that tell it.
    pub spent: Option<Arc<Spent>>,
}

impl Piece {
    /// Nothing but text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The same as parts of an answer.
    #[must_use]
    pub fn into_parts(self) -> Vec<Part> {
        let Self { text, cards, files, buttons, apology: _, spent: _ } = self;
        let text = Part::Text { text };
        let buttons = (!buttons.is_empty()).then_some(Part::Buttons { buttons });
        let extras = cards.into_iter().map(Part::Card).chain(files.into_iter().map(Part::File)).chain(buttons);
        [text].into_iter().chain(extras).collect()
    }

    /// There is nothing but text in it.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.cards.is_empty() && self.files.is_empty()
    }
}

/// What a door's platform can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The longest message, in Unicode scalar values.
    pub text_limit: usize,
    /// The most cards in one message; none are shown when it is zero.
    pub cards: usize,
    /// The most files in one message; none are taken when it is zero.
    pub files: usize,
    /// The most bytes of all files of one message.
    pub file_bytes: usize,
    /// The most buttons below one message; none are shown when it is zero.
    pub buttons: usize,
}

impl Capabilities {
    /// Text and nothing else.
    #[must_use]
    pub const fn text_only(text_limit: usize) -> Self {
        Self { text_limit, cards: 0, files: 0, file_bytes: 0, buttons: 0 }
    }
}

/// Bytes as text, so that a record with a file in it stays JSON.
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
