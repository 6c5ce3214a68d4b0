//! What a door tells us: neutral facts, already freed of any wire type.

pub use super::attachment::{Attachment, MAX_ATTACHMENTS};
use super::command::{Command, Typing};
use super::fire::Fire;
use super::gate::Click;
use super::given::Given;
use super::ids::{MessageId, Person, Place, Timestamp};
use super::lineage::Lineage;
use super::manners::Draw;
pub use super::quoted::{Quoted, Seen};

/// Something that happened at a door.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "it travels in a box")]
pub enum Incoming {
    /// Somebody posted a message.
    Posted(Posted),
    /// A message was deleted; a turn that it triggered is cancelled.
    Deleted(MessageId),
    /// Somebody reacted to a message of ours in this place.
    Reacted(Place),
    /// Somebody ran a command.
    Command(Box<Command>),
    /// Somebody types a command and wants to be offered choices.
    Typing(Box<Typing>),
    /// Somebody decides about a call that waits.
    Decision(Box<Click>),
    /// A timer or a webhook fired.
    Fired(Box<Fire>),
}

impl Incoming {
    /// The message that it is about; none for what is about none.
    #[must_use]
    pub const fn subject(&self) -> Option<&MessageId> {
        match self {
            Self::Posted(posted) => Some(&posted.id),
            Self::Fired(fire) => Some(&fire.id),
            Self::Deleted(message) => Some(message),
            Self::Reacted(_) | Self::Command(_) | Self::Typing(_) | Self::Decision(_) => None,
        }
    }
}

/// A posted message.
#[derive(Debug, Clone, PartialEq)]
pub struct Posted {
    /// The message itself.
    pub id: MessageId,
    /// Where it was posted.
    pub place: Place,
    /// The place above it (a thread's channel), whose settings it inherits.
    pub parent: Option<Place>,
    /// The community it was posted in (Discord: the guild's id); none for a direct message.
    pub guild: Option<String>,
    /// Who wrote it.
    pub author: Author,
    /// The text as written, platform markup included.
    pub text: String,
    /// It mentions us by name, not through everyone or a role.
    pub mentions_us: bool,
    /// The message it replies to.
    pub reply_to: Option<Quoted>,
    /// The files that came with it, at most [`MAX_ATTACHMENTS`].
    pub attachments: Vec<Attachment>,
    /// The platform's tag of the language that its place or its author prefers, such as `de` or `es-419`.
    pub locale: Option<String>,
    /// Our own permissions allow an answer there; true when they are not known.
    pub may_answer: bool,
    /// When it was posted, by the platform's clock.
    pub at: Timestamp,
    /// The draws that decide whether we join in without being asked; none when nobody drew for this message.
    pub draw: Option<Draw>,
    /// Tools may be used for the answer; false where the asker does not want that.
    pub tools: bool,
    /// The conversation that came with it, in place of what is remembered; none where that is ours to know.
    pub given: Option<Given>,
    /// Which models may answer and as whom, where its asker does not leave that to the door.
    pub models: WantedModels,
    /// The chain of servers through which it came; none where no other server asks.
    pub lineage: Option<Box<Lineage>>,
}

/// Which models may answer a message, and as whom.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WantedModels {
    /// The key of the row that answers it; none leaves that to the door.
    pub row: Option<String>,
    /// The keys of the rows that may answer, fallbacks included; empty for all.
    pub among: Vec<String>,
    /// The profile of prompts; none leaves it to the place.
    pub profile: Option<String>,
}

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Their id.
    pub person: Person,
    /// The name others see.
    pub name: String,
    /// Ids of their roles in the guild.
    pub roles: Vec<String>,
    /// When they joined the guild, where the door tells it; who left and came back joined when they came back.
    pub joined: Option<Timestamp>,
    /// What they are.
    pub kind: AuthorKind,
}

/// What kind of author wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorKind {
    /// A person.
    Member,
    /// Another bot.
    Bot,
    /// A webhook.
    Webhook,
    /// The platform itself (joins, pins, boosts).
    System,
    /// This bot.
    Ourselves,
}

impl From<Posted> for Seen {
    fn from(posted: Posted) -> Self {
        Self {
            ours: posted.author.kind == AuthorKind::Ourselves,
            author: posted.author.person,
            name: posted.author.name,
            text: posted.text,
            attachments: posted.attachments,
            answers: posted.reply_to.map(|quoted| quoted.id),
        }
    }
}
