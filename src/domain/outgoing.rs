//! What goes out: neutral parts. A door turns them into what its platform shows, by its row of capabilities.

use serde::{Deserialize, Serialize};

use super::ids::{MessageId, Place};

/// One answer to one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Where it is posted.
    pub place: Place,
    /// The message it replies to, without a ping; none posts a plain message.
    pub reply_to: Option<MessageId>,
    /// The parts, in order.
    pub parts: Vec<Part>,
}

impl Outgoing {
    /// All parts as one text, for a door that shows nothing else.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().map(|Part::Text { text }| text.as_str());
        texts.collect::<Vec<_>>().join("\n\n")
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
}

/// What a door's platform can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The longest message, in Unicode scalar values.
    pub text_limit: usize,
}
