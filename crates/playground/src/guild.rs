//! The local service's guilds: their data here, their changes in [`state`].
//!
//! Pure: no sockets, no JSON of Discord, no clock. Times are arguments, in milliseconds since 1970.

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub mod files;
pub mod ids;
pub mod kept;
pub mod mentions;
pub mod permissions;
pub mod seed;
pub mod state;

use files::File;
use ids::{ChannelId, GuildId, MessageId, RoleId, UserId};
use mentions::Allowed;

/// A server with its roles, members and channels.
#[derive(Clone, Debug, Serialize)]
pub struct Guild {
    /// The guild's id; its default role has the same number.
    pub id: GuildId,
    /// The displayed name.
    pub name: String,
    /// The tag of the preferred language, as on Discord.
    pub locale: String,
    /// The owner, who has all permissions.
    pub owner: UserId,
    /// Roles, the default one first.
    pub roles: Vec<Role>,
    /// Members, including the bot.
    pub members: Vec<Member>,
    /// Channels in display order.
    pub channels: Vec<Channel>,
}

/// A role of a guild.
#[derive(Clone, Debug, Serialize)]
pub struct Role {
    /// The role's id.
    pub id: RoleId,
    /// The displayed name.
    pub name: String,
    /// Permission bits as on Discord.
    #[serde(serialize_with = "ids::as_text")]
    pub permissions: u64,
    /// Position in the hierarchy; higher ranks above lower.
    pub position: u16,
    /// Colour as 0xRRGGBB, 0 for none.
    pub color: u32,
    /// True if it belongs to an integration, such as a bot's own role.
    pub managed: bool,
}

/// A member of a guild. A user in several guilds has one entry in each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The user's id.
    pub id: UserId,
    /// The displayed name.
    pub name: String,
    /// Roles without the default one.
    pub roles: Vec<RoleId>,
    /// True for a bot's account.
    pub bot: bool,
}

/// The kind of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// A text channel of a guild.
    Text,
    /// A direct message channel of the bot and one user.
    Direct,
    /// A thread of a text channel.
    Thread,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// The channel's id.
    pub id: ChannelId,
    /// Its guild; `None` for direct messages.
    pub guild: Option<GuildId>,
    /// The name without `#`.
    pub name: String,
    /// The kind.
    pub kind: ChannelKind,
    /// The user of a direct message channel.
    pub recipient: Option<UserId>,
    /// The channel of a thread. A thread that was opened from a message has that message's number.
    pub parent: Option<ChannelId>,
    /// The user who opened a thread.
    pub opener: Option<UserId>,
    /// Permission overwrites; a thread uses those of its channel.
    #[serde(skip)]
    pub overwrites: Vec<Overwrite>,
}

/// A permission overwrite of a channel, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwrite {
    /// The role or the user.
    pub who: Who,
    /// The granted permissions.
    pub allow: u64,
    /// The denied permissions.
    pub deny: u64,
}

/// The subject of an overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// All members with a role; all have the one with the guild's number.
    Role(RoleId),
    /// One user.
    User(UserId),
}

/// The description of a message's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The attachment's id.
    pub id: MessageId,
    /// The file name.
    pub filename: String,
    /// The media type.
    pub content_type: String,
    /// The size in bytes.
    pub size: usize,
    /// The alternative text.
    pub description: Option<String>,
    /// A picture's width and height in pixels, so that its place can be reserved.
    #[serde(default)]
    pub pixels: Option<(usize, usize)>,
}

/// A message in its current state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The message's id, which contains its creation time.
    pub id: MessageId,
    /// Its channel.
    pub channel: ChannelId,
    /// Its author.
    pub author: UserId,
    /// The author's name at that time.
    pub author_name: String,
    /// Its text.
    pub content: String,
    /// The message that it replies to.
    pub reply_to: Option<MessageId>,
    /// The sender's nonce, as sent.
    pub nonce: Option<String>,
    /// Creation time, in milliseconds since 1970.
    pub sent_at: u64,
    /// Time of the last edit, in milliseconds since 1970.
    pub edited_at: Option<u64>,
    /// The number of edits.
    pub edits: u32,
    /// The users who were notified.
    pub mentions: Vec<UserId>,
    /// The roles that were notified.
    pub mention_roles: Vec<RoleId>,
    /// True if all members were notified.
    pub mention_everyone: bool,
    /// Its files.
    pub attachments: Vec<Attachment>,
    /// Embeds as sent.
    pub embeds: Vec<Value>,
    /// Components (buttons, menus) as sent.
    pub components: Vec<Value>,
    /// Message flags as on Discord.
    pub flags: u64,
    /// True for text to speech.
    pub tts: bool,
    /// The only user who sees it, if it is ephemeral.
    pub only_for: Option<UserId>,
    /// The command that it answers, and the user who ran it.
    pub command: Option<(UserId, String)>,
    /// The `allowed_mentions` field as sent, if present.
    pub allowed_mentions: Option<Value>,
    /// Reactions, in the order of their first use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<Reaction>,
}

/// One emoji below a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reaction {
    /// The emoji, or `name:id` of a server's own.
    pub emoji: String,
    /// The users who reacted with it.
    pub by: Vec<UserId>,
}

impl Message {
    /// Adds or removes a user's reaction. Returns false if nothing changes, or if there are too many kinds.
    pub fn react(&mut self, user: UserId, emoji: &str, held: bool) -> bool {
        let Some(known) = self.reactions.iter_mut().find(|known| known.emoji == emoji) else {
            let takes = held && self.reactions.len() < REACTIONS;
            if takes {
                self.reactions.push(Reaction { emoji: emoji.to_owned(), by: vec![user] });
            }
            return takes;
        };
        if known.by.contains(&user) == held {
            return false;
        }
        known.by.retain(|by| *by != user);
        if held {
            known.by.push(user);
        }
        self.reactions.retain(|reaction| !reaction.by.is_empty());
        true
    }
}

/// Maximum number of different reactions to a message, as on Discord.
const REACTIONS: usize = 20;

/// The input for a message.
#[derive(Clone, Debug, Default)]
pub struct MessageInput {
    /// The text.
    pub content: String,
    /// The message that it replies to.
    pub reply_to: Option<MessageId>,
    /// The sender's nonce.
    pub nonce: Option<String>,
    /// Its files.
    pub files: Vec<File>,
    /// Embeds as sent.
    pub embeds: Vec<Value>,
    /// Components as sent.
    pub components: Vec<Value>,
    /// Message flags.
    pub flags: u64,
    /// True for text to speech.
    pub tts: bool,
    /// The only user who sees it, if it is ephemeral.
    pub only_for: Option<UserId>,
    /// The command that it answers, and the user who ran it.
    pub command: Option<(UserId, String)>,
    /// The mentions that may notify.
    pub allowed: Allowed,
}

#[cfg(test)]
mod tests;
