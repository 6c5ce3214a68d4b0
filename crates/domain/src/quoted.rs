//! Replied-to messages, as far as a door can read them.

use serde::{Deserialize, Serialize};

use crate::attachment::Attachment;
use crate::ids::{MessageId, Person};

/// A message that another one replies to, as far as the door can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quoted {
    /// The id of the replied-to message.
    pub id: MessageId,
    /// Its author and text; `None` if the platform did not send them (they may be fetched) or the message is deleted.
    pub seen: Option<Seen>,
}

/// The visible part of a quoted message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The author.
    pub author: Person,
    /// The display name of the author.
    pub name: String,
    /// True if the bot wrote it.
    pub ours: bool,
    /// Its text.
    pub text: String,
    /// The message that it replies to, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<MessageId>,
    /// The attached files, at most [`MAX_ATTACHMENTS`](super::attachment::MAX_ATTACHMENTS).
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}
