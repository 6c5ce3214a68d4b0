//! The little guilds of the local service: what they consist of here, how they change in [`state`].
//!
//! Nothing here knows sockets, JSON shapes of Discord or clocks: the time comes in as milliseconds
//! since 1970, and every method is a plain function of the state.

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
    /// The guild's id; its `@everyone` role has the same number.
    pub id: GuildId,
    /// The name people see.
    pub name: String,
    /// The tag of the language it prefers, as Discord writes them.
    pub locale: String,
    /// The member who owns it and may do anything.
    pub owner: UserId,
    /// Roles, `@everyone` first.
    pub roles: Vec<Role>,
    /// Members, the bot among them.
    pub members: Vec<Member>,
    /// Channels in the order they are shown.
    pub channels: Vec<Channel>,
}

/// A role of a guild.
#[derive(Clone, Debug, Serialize)]
pub struct Role {
    /// The role's id.
    pub id: RoleId,
    /// The name people see.
    pub name: String,
    /// Permission bits as Discord numbers them.
    #[serde(serialize_with = "ids::as_text")]
    pub permissions: u64,
    /// Place in the hierarchy; higher stands above.
    pub position: u16,
    /// Colour as 0xRRGGBB, 0 for none.
    pub color: u32,
    /// Whether it belongs to an integration, as a bot's own role does.
    pub managed: bool,
}

/// A member of a guild. Somebody in several guilds is one entry in each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The person's id.
    pub id: UserId,
    /// The name people see.
    pub name: String,
    /// Roles without `@everyone`.
    pub roles: Vec<RoleId>,
    /// Whether this is a bot's account.
    pub bot: bool,
}

/// What sort of place a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// A text channel of a guild.
    Text,
    /// A conversation between the bot and one person.
    Direct,
    /// A thread of a text channel.
    Thread,
}

/// A place where messages are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// The channel's id.
    pub id: ChannelId,
    /// Its guild; none for a direct conversation.
    pub guild: Option<GuildId>,
    /// The name without `#`.
    pub name: String,
    /// What sort of place it is.
    pub kind: ChannelKind,
    /// The person on the other side of a direct conversation.
    pub recipient: Option<UserId>,
    /// The channel that a thread belongs to. A thread that was opened from a message has that message's number.
    pub parent: Option<ChannelId>,
    /// Who opened a thread.
    pub opener: Option<UserId>,
    /// What it takes and gives; a thread has that of its channel.
    #[serde(skip)]
    pub overwrites: Vec<Overwrite>,
}

/// What a channel takes and gives for a role or a person, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwrite {
    /// The role, or the person.
    pub who: Who,
    /// What is given.
    pub allow: u64,
    /// What is taken.
    pub deny: u64,
}

/// Whom an overwrite is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// All who hold a role; everybody holds the one with the guild's number.
    Role(RoleId),
    /// One person.
    User(UserId),
}

/// The description of a file that was sent with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The attachment's own id.
    pub id: MessageId,
    /// The name it was sent under.
    pub filename: String,
    /// Its media type.
    pub content_type: String,
    /// Its length in bytes.
    pub size: usize,
    /// What it shows, in words.
    pub description: Option<String>,
    /// Of a picture, how many pixels it is wide and high: its place can be kept before it is there.
    #[serde(default)]
    pub pixels: Option<(usize, usize)>,
}

/// A message as it stands now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The message's id, which also says when it was made.
    pub id: MessageId,
    /// Where it is.
    pub channel: ChannelId,
    /// Who wrote it.
    pub author: UserId,
    /// The author's name at that moment.
    pub author_name: String,
    /// Its text.
    pub content: String,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// The sender's own mark, as sent.
    pub nonce: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub sent_at: u64,
    /// When it was last edited, in milliseconds since 1970.
    pub edited_at: Option<u64>,
    /// How many times it was edited.
    pub edits: u32,
    /// Who was really notified.
    pub mentions: Vec<UserId>,
    /// Which roles were really notified.
    pub mention_roles: Vec<RoleId>,
    /// Whether everyone was really notified.
    pub mention_everyone: bool,
    /// Files that came with it.
    pub attachments: Vec<Attachment>,
    /// Embeds as they were sent.
    pub embeds: Vec<Value>,
    /// Components (buttons, menus) as they were sent.
    pub components: Vec<Value>,
    /// Message flags as Discord numbers them.
    pub flags: u64,
    /// Whether it was to be read aloud.
    pub tts: bool,
    /// The one person who sees it, if it is not for everybody.
    pub only_for: Option<UserId>,
    /// The command that it answers, and who ran that.
    pub command: Option<(UserId, String)>,
    /// The `allowed_mentions` it was sent with, as sent; none when the field was absent.
    pub allowed_mentions: Option<Value>,
    /// What people reacted with, in the order in which each came first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<Reaction>,
}

/// One emoji below a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reaction {
    /// The emoji, or `name:id` of a server's own.
    pub emoji: String,
    /// Who reacted so.
    pub by: Vec<UserId>,
}

impl Message {
    /// Somebody reacts, or takes it back. False when nothing changes, or there are too many kinds already.
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

/// Kinds of reactions to one message, as on Discord.
const REACTIONS: usize = 20;

/// What a sender hands in to make a message.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// The text.
    pub content: String,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// The sender's own mark.
    pub nonce: Option<String>,
    /// Files that come with it.
    pub files: Vec<File>,
    /// Embeds as they were sent.
    pub embeds: Vec<Value>,
    /// Components as they were sent.
    pub components: Vec<Value>,
    /// Message flags.
    pub flags: u64,
    /// Whether it is to be read aloud.
    pub tts: bool,
    /// The one person who is to see it, if it is not for everybody.
    pub only_for: Option<UserId>,
    /// The command that it answers, and who ran that.
    pub command: Option<(UserId, String)>,
    /// Who may be notified.
    pub allowed: Allowed,
}

#[cfg(test)]
mod tests;
