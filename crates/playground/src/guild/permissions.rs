//! Members' permissions, as Discord's bits.

use super::{
    Channel, Guild, Who,
    ids::{RoleId, UserId},
};

/// All permissions.
pub const ADMINISTRATOR: u64 = 1 << 3;
/// To see a channel.
pub const VIEW_CHANNEL: u64 = 1 << 10;
/// To write in a channel.
pub const SEND_MESSAGES: u64 = 1 << 11;
/// To delete messages of others.
pub const MANAGE_MESSAGES: u64 = 1 << 13;
/// To show previews and cards.
pub const EMBED_LINKS: u64 = 1 << 14;
/// To send files.
pub const ATTACH_FILES: u64 = 1 << 15;
/// To read older messages.
pub const READ_HISTORY: u64 = 1 << 16;
/// To notify all members and any role.
pub const MENTION_EVERYONE: u64 = 1 << 17;
/// To give and remove lower roles.
pub const MANAGE_ROLES: u64 = 1 << 28;
/// To open public threads.
pub const CREATE_THREADS: u64 = 1 << 35;
/// To write in threads.
pub const SEND_IN_THREADS: u64 = 1 << 38;
/// To time members out.
pub const MODERATE_MEMBERS: u64 = 1 << 40;

/// All bits: the owner's permissions.
const ALL: u64 = (1 << 53) - 1;

impl Guild {
    /// Returns a user's permissions in the guild; none for a user who is not a member.
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

    /// Returns a user's permissions in a channel or thread.
    #[must_use]
    pub fn permissions_in(&self, channel: &Channel, user: UserId) -> u64 {
        let mut bits = self.permissions(user);
        if bits == ALL {
            return bits;
        }
        let above = channel.parent.and_then(|parent| self.channels.iter().find(|known| known.id == parent));
        let overwrites = &above.unwrap_or(channel).overwrites;
        let everyone = Who::Role(RoleId(self.id.0));
        let member = self.members.iter().find(|member| member.id == user);
        let holds = |role: RoleId| member.is_some_and(|member| member.roles.contains(&role));
        let mut apply = |concerned: &dyn Fn(Who) -> bool| {
            let of = || overwrites.iter().filter(|overwrite| concerned(overwrite.who));
            let deny = of().fold(0, |bits, overwrite| bits | overwrite.deny);
            let allow = of().fold(0, |bits, overwrite| bits | overwrite.allow);
            bits = (bits & !deny) | allow;
        };
        apply(&|who| who == everyone);
        apply(&|who| matches!(who, Who::Role(role) if holds(role)));
        apply(&|who| who == Who::User(user));
        // Without the view permission, no other one counts.
        if bits & VIEW_CHANNEL == 0 { 0 } else { bits }
    }

    /// Returns the position of a user's highest role.
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
