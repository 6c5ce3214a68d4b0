//! Changes of the local Discord, for subscribers.

use serde::Serialize;

use crate::guild::{
    Channel, Member, Message, Reaction,
    ids::{ChannelId, GuildId, MessageId, RoleId, UserId},
};

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A message was created.
    MessageCreated(Message),
    /// A message was edited.
    MessageEdited(Message),
    /// A message was deleted.
    MessageDeleted {
        /// Its channel.
        channel: ChannelId,
        /// Its id.
        message: MessageId,
    },
    /// The reactions to a message changed.
    Reacted {
        /// Its channel.
        channel: ChannelId,
        /// Its id.
        message: MessageId,
        /// All its reactions now.
        reactions: Vec<Reaction>,
    },
    /// A member joined.
    MemberJoined {
        /// The member.
        member: Member,
    },
    /// A user began to type.
    TypingStarted {
        /// The channel.
        channel: ChannelId,
        /// The user.
        user: UserId,
    },
    /// A member got or lost a role.
    RoleChanged(RoleChange),
    /// A thread was opened.
    ThreadOpened(Channel),
    /// A channel was deleted.
    ChannelDeleted {
        /// The channel.
        channel: ChannelId,
    },
}

/// A role that was given or removed over REST.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleChange {
    /// The guild.
    pub guild: GuildId,
    /// The member.
    pub user: UserId,
    /// The role.
    pub role: RoleId,
    /// True if it was given.
    pub held: bool,
    /// The `X-Audit-Log-Reason` header of the request, decoded.
    pub reason: Option<String>,
}
