//! What of the guilds is kept over a restart of the service: what was said, where, by whom with which roles.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::files::File;
use super::ids::{GuildId, MessageId, RoleId, UserId};
use super::{Channel, Member, Message};

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// Messages of each channel that are kept, the newest.
pub const MESSAGES: usize = 200;
/// Messages of all channels together, the newest: at most some megabytes.
pub const MESSAGES_IN_ALL: usize = 3_000;
/// The longest file that is kept, in bytes.
const FILE_BYTES: usize = 512 * 1024;
/// All kept files together, in bytes; the newest are kept.
const FILES_BYTES: usize = 4 << 20;

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// [`VERSION`].
    pub version: u32,
    /// Threads and direct conversations.
    pub channels: Vec<Channel>,
    /// The roles of each member of each guild.
    pub roles: Vec<(GuildId, UserId, Vec<RoleId>)>,
    /// The people of each guild; those who are not known come back.
    #[serde(default)]
    pub people: Vec<(GuildId, Member)>,
    /// Messages, those of a channel in their order.
    pub messages: Vec<Message>,
    /// Files that came with them.
    pub files: Vec<KeptFile>,
}

/// A file that came with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    /// The id of its attachment.
    pub id: MessageId,
    name: String,
    kind: String,
    description: Option<String>,
    /// What it holds, in base64.
    data: String,
}

impl KeptFile {
    /// The file; none when it cannot be read.
    #[must_use]
    pub fn read(self) -> Option<(MessageId, File)> {
        let bytes = STANDARD.decode(self.data).ok()?.into();
        Some((self.id, File { name: self.name, kind: self.kind, bytes, description: self.description }))
    }
}

/// Those of these files, the most important first, that fit the bounds; the last in front.
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
