//! Events from doors, as plain data without wire types.

pub use super::attachment::{Attachment, MAX_ATTACHMENTS};
use super::command::{Command, Typing};
use super::experiment::Vote;
use super::fire::Fire;
use super::gate::Click;
use super::given::Given;
use super::history::Exchange;
use super::ids::{MessageId, Person, Place, Timestamp};
use super::lineage::Lineage;
use super::manners::Draw;
use super::preferences::dialogue::Dialogue;
pub use super::quoted::{Quoted, Seen};

/// An event at a door.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "it travels in a box")]
pub enum Incoming {
    /// A message was posted.
    Posted(Posted),
    /// A message was deleted. A turn that it triggered is cancelled.
    Deleted(Deletion),
    /// A speaker interrupted an answer. Its turn is cancelled if it is open.
    Interrupted(Box<Interruption>),
    /// A reaction was added to one of the bot's messages.
    Reacted(Reaction),
    /// A member ran a command.
    Command(Box<Command>),
    /// A member is typing a command and needs completions.
    Typing(Box<Typing>),
    /// A step of the dialogue of the settings.
    Dialogue(Box<Dialogue>),
    /// A decision about a waiting tool call.
    Decision(Box<Click>),
    /// A timer or a webhook fired.
    Fired(Box<Fire>),
}

impl Incoming {
    /// Returns the message of the event, if it has one.
    #[must_use]
    pub const fn subject(&self) -> Option<&MessageId> {
        match self {
            Self::Posted(posted) => Some(&posted.id),
            Self::Fired(fire) => Some(&fire.id),
            Self::Deleted(deletion) => Some(&deletion.message),
            Self::Interrupted(interruption) => Some(&interruption.message),
            Self::Reacted(_) | Self::Command(_) | Self::Typing(_) | Self::Dialogue(_) | Self::Decision(_) => None,
        }
    }
}

/// A reaction to one of the bot's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    /// The place of the message; for a message in a thread, possibly the place of the thread.
    pub place: Place,
    /// The message.
    pub message: MessageId,
    /// The person who reacted.
    pub by: Person,
    /// The vote, if the reaction is one.
    pub vote: Option<Vote>,
}

/// A deleted message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// The id of the message.
    pub message: MessageId,
    /// The community, as in [`Posted`].
    pub guild: Option<String>,
}

impl Deletion {
    /// Returns the deletion of a message without a community.
    #[must_use]
    pub const fn of(message: MessageId) -> Self {
        Self { message, guild: None }
    }

    /// Returns the name under which deletions share what is bounded: the community, or one name for all others.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.guild.as_deref().unwrap_or_default()
    }
}

/// The interruption of a spoken answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    /// The message that the answer is for.
    pub message: MessageId,
    /// The place of the conversation.
    pub place: Place,
    /// The exchange to remember: the question, and what was heard of the answer.
    pub heard: Exchange,
}

/// A posted message.
#[derive(Debug, Clone, PartialEq)]
pub struct Posted {
    /// The id of the message.
    pub id: MessageId,
    /// The place of the message.
    pub place: Place,
    /// The parent (a thread's channel), whose settings apply.
    pub parent: Option<Place>,
    /// The community (Discord: the guild's id). `None` for a direct message.
    pub guild: Option<String>,
    /// The author.
    pub author: Author,
    /// The text as written, with platform markup.
    pub text: String,
    /// True if it mentions the bot by name, not through a mass mention or a role.
    pub mentions_us: bool,
    /// The message that it replies to.
    pub reply_to: Option<Quoted>,
    /// Its files, at most [`MAX_ATTACHMENTS`].
    pub attachments: Vec<Attachment>,
    /// The platform's language tag of the place or the author, such as `de` or `es-419`.
    pub locale: Option<String>,
    /// True if the bot's permissions allow an answer there, or are unknown.
    pub may_answer: bool,
    /// The time of the message, by the platform's clock.
    pub at: Timestamp,
    /// The random numbers for an interjection. `None` if not drawn for this message.
    pub draw: Option<Draw>,
    /// True if tools may be used; false if the client disabled them.
    pub tools: bool,
    /// The conversation supplied by the client. `None`: the bot's own history is used.
    pub given: Option<Given>,
    /// The client's restrictions on models and profile.
    pub models: WantedModels,
    /// The chain of servers through which it came. `None` if no other server asks.
    pub lineage: Option<Box<Lineage>>,
}

/// The model and profile that a client requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WantedModels {
    /// The key of the row. `None`: the door decides.
    pub row: Option<String>,
    /// The keys of the rows that may answer, fallbacks included. Empty: all.
    pub among: Vec<String>,
    /// The prompt profile. `None`: the place decides.
    pub profile: Option<String>,
}

/// The author of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The id.
    pub person: Person,
    /// The display name.
    pub name: String,
    /// Ids of the author's roles in the guild.
    pub roles: Vec<String>,
    /// The time when the author joined the guild, or joined again, if the door reports it.
    pub joined: Option<Timestamp>,
    /// The kind of author.
    pub kind: AuthorKind,
}

/// The kind of a message's author.
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
