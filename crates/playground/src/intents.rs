//! Gateway intents: the bits that select a client's events.

/// Guilds, channels and roles.
pub const GUILDS: u64 = 1;
/// Members; privileged.
pub const GUILD_MEMBERS: u64 = 1 << 1;
/// The positions of members in voice channels.
pub const GUILD_VOICE_STATES: u64 = 1 << 7;
/// Presences; privileged.
pub const GUILD_PRESENCES: u64 = 1 << 8;
pub const GUILD_MESSAGES: u64 = 1 << 9;
pub const GUILD_MESSAGE_REACTIONS: u64 = 1 << 10;
pub const GUILD_TYPING: u64 = 1 << 11;
pub const DIRECT_MESSAGES: u64 = 1 << 12;
/// Typing in direct messages.
pub const DIRECT_TYPING: u64 = 1 << 14;
/// The content of messages; privileged.
pub const MESSAGE_CONTENT: u64 = 1 << 15;
/// All privileged intents.
pub const PRIVILEGED: u64 = GUILD_MEMBERS | GUILD_PRESENCES | MESSAGE_CONTENT;

/// Every bit that Discord defines: 0 to 16, 20, 21, 24 and 25.
pub const KNOWN: u64 = 0x1_ffff | 1 << 20 | 1 << 21 | 1 << 24 | 1 << 25;

/// Returns the intent for messages, in a guild or not.
#[must_use]
pub fn messages(guild: bool) -> u64 {
    if guild { GUILD_MESSAGES } else { DIRECT_MESSAGES }
}

/// Returns the intent for typing, in a guild or not.
#[must_use]
pub fn typing(guild: bool) -> u64 {
    if guild { GUILD_TYPING } else { DIRECT_TYPING }
}
