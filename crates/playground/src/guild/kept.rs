//! The part of the guilds that is kept over a restart of the service: messages, channels, members and roles.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::files::File;
use super::ids::{GuildId, MessageId, RoleId, UserId};
use super::{Channel, Member, Message};

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// Maximum number of messages kept per channel, the newest.
pub const MESSAGES: usize = 200;
/// Maximum number of messages kept in total, the newest: some megabytes.
pub const MESSAGES_IN_ALL: usize = 3_000;
const FILE_BYTES: usize = 512 * 1024;
/// Maximum size of all kept files, in bytes; the newest are kept.
const FILES_BYTES: usize = 4 << 20;

/// The kept data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedGuilds {
    /// [`VERSION`].
    pub version: u32,
    /// Threads and direct message channels.
    pub channels: Vec<Channel>,
    /// The roles of each member of each guild.
    pub roles: Vec<(GuildId, UserId, Vec<RoleId>)>,
    /// The members of each guild; missing ones are added.
    #[serde(default)]
    pub people: Vec<(GuildId, Member)>,
    /// Messages, in order per channel.
    pub messages: Vec<Message>,
    /// Their files.
    pub files: Vec<KeptFile>,
}

/// A message's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// The id of its attachment.
    pub id: MessageId,
    name: String,
    kind: String,
    description: Option<String>,
    /// The content, in base64.
    data: String,
}

impl KeptFile {
    /// Decodes the file; `None` if it is invalid.
    #[must_use]
    pub fn read(self) -> Option<(MessageId, File)> {
        let bytes = STANDARD.decode(self.data).ok()?.into();
        Some((self.id, File { name: self.name, kind: self.kind, bytes, description: self.description }))
    }
}

/// Returns the files that fit the bounds, reversed. Input is in order of importance.
pub(super) fn files<'a>(files: impl Iterator<Item = (MessageId, &'a File)>) -> Vec<KeptFile> {
    let mut left = FILES_BYTES;
    let mut kept = Vec::new();
    for (id, file) in files.filter(|(_, file)| file.bytes.len() <= FILE_BYTES) {
        let Some(rest) = left.checked_sub(file.bytes.len()) else { break };
        left = rest;
        let (name, kind, description) = (file.name.clone(), file.kind.clone(), file.description.clone());
        kept.push(KeptFile { id, name, kind, description, data: STANDARD.encode(&file.bytes) });
    }
    kept.reverse();
    kept
}
