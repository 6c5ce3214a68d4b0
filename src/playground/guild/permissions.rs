//! What members may do, in Discord's permission bits.

use super::{
    Guild,
    ids::{RoleId, UserId},
};

/// May do anything.
pub const ADMINISTRATOR: u64 = 1 << 3;
/// May see a channel.
pub const VIEW_CHANNEL: u64 = 1 << 10;
/// May write in a channel.
pub const SEND_MESSAGES: u64 = 1 << 11;
/// May delete what others wrote.
pub const MANAGE_MESSAGES: u64 = 1 << 13;
/// May send files.
pub const ATTACH_FILES: u64 = 1 << 15;
/// May read older messages.
pub const READ_HISTORY: u64 = 1 << 16;
/// May notify everyone and any role.
pub const MENTION_EVERYONE: u64 = 1 << 17;
/// May give and take roles below their own.
pub const MANAGE_ROLES: u64 = 1 << 28;
/// May open public threads.
pub const CREATE_THREADS: u64 = 1 << 35;
/// May write in threads.
pub const SEND_IN_THREADS: u64 = 1 << 38;
/// May silence members for a while.
pub const MODERATE_MEMBERS: u64 = 1 << 40;

/// Every bit, as the owner has.
const ALL: u64 = (1 << 53) - 1;

impl Guild {
    /// What somebody may do in the guild; nothing for a stranger.
    #[must_use]
    pub fn permissions(&self, user: UserId) -> u64 {
        if user == self.owner {
            return ALL;
        }
        let Some(member) = self.members.iter().find(|member| member.id == user) else {
            return 0;
        };
        let held = |role: RoleId| role.0 == self.id.0 || member.roles.contains(&role);
        let bits = self.roles.iter().filter(|role| held(role.id)).fold(0, |bits, role| bits | role.permissions);
        if bits & ADMINISTRATOR == 0 { bits } else { ALL }
    }

    /// The position of somebody's highest role.
    #[must_use]
    pub fn rank(&self, user: UserId) -> u16 {
        if user == self.owner {
            return u16::MAX;
        }
        let Some(member) = self.members.iter().find(|member| member.id == user) else {
            return 0;
        };
        let ranks = self.roles.iter().filter(|role| member.roles.contains(&role.id)).map(|role| role.position);
        ranks.max().unwrap_or(0)
    }
}
