//! Changes of the local Discord, for those who watch it.

use serde::Serialize;

use crate::guild::{
    Channel, Member, Message, Reaction,
    ids::{ChannelId, GuildId, MessageId, RoleId, UserId},
};

/// Something that changed, as subscribers see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A message was written.
    MessageCreated(Message),
    /// A message was edited.
    MessageEdited(Message),
    /// A message was deleted.
    MessageDeleted {
        /// Where it was.
        channel: ChannelId,
        /// Which it was.
        message: MessageId,
    },
    /// A reaction was given or taken back.
    Reacted {
        /// Where it is.
        channel: ChannelId,
        /// Which it is.
        message: MessageId,
        /// All its reactions now.
        reactions: Vec<Reaction>,
    },
    /// A member joined.
    MemberJoined {
        /// Who.
        member: Member,
    },
    /// A user began to type.
    TypingStarted {
        /// Where.
        channel: ChannelId,
        /// Who.
        user: UserId,
    },
    /// A member got or lost a role.
    RoleChanged(RoleChange),
    /// A thread was opened.
    ThreadOpened(Channel),
    /// A channel was deleted.
    ChannelDeleted {
        /// Which it was.
        channel: ChannelId,
    },
}

/// A role that was given or taken over REST.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleChange {
    /// In which guild.
    pub guild: GuildId,
    /// Whose.
    pub user: UserId,
    /// Which role.
    pub role: RoleId,
    /// Whether it was given.
    pub held: bool,
    /// The `X-Audit-Log-Reason` of the request, decoded.
    pub reason: Option<String>,
}
