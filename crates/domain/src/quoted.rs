//! Messages that others reply to, as far as a door could see them.

use serde::{Deserialize, Serialize};

use crate::attachment::Attachment;
use crate::ids::{MessageId, Person};

/// A message that another one replies to, as far as the door could see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quoted {
    /// The replied-to message.
    pub id: MessageId,
    /// Its author and text; none when the platform did not send it along (it may be fetched) or it is gone.
    pub seen: Option<Seen>,
}

/// The visible part of a quoted message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Who wrote it.
    pub author: Person,
    /// The name others see.
    pub name: String,
    /// It is one of our own messages.
    pub ours: bool,
    /// Its text.
    pub text: String,
    /// The message that it replies to itself, as far as that was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<MessageId>,
    /// The files that came with it, at most [`MAX_ATTACHMENTS`](super::attachment::MAX_ATTACHMENTS).
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}
