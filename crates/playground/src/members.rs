//! Members' actions beside talking: files, threads, reactions, invitations and roles.

use super::{
    guild::{
        Channel, Guild, Member, Message, MessageInput, Overwrite, Role,
        files::File,
        ids::{ChannelId, GuildId, MessageId, RoleId, UserId},
        permissions as may,
    },
    service::Service,
};

/// Maximum length of a thread's name, in characters.
const THREAD_NAME: usize = 100;
/// Maximum number of members of the guild.
pub(super) const MEMBERS: usize = 100;

impl Service {
    /// Sends a member's message with files; `text` may be empty. Returns `None` if the channel does not exist. The
    /// caller keeps each file within [`super::guild::files::FILE_BYTES`].
    #[must_use]
    pub fn sends(
        &self,
        member: UserId,
        channel: ChannelId,
        text: &str,
        reply_to: Option<MessageId>,
        files: Vec<File>,
    ) -> Option<Message> {
        let draft = MessageInput { content: text.to_owned(), reply_to, files, ..MessageInput::default() };
        self.core.world().post(channel, member, draft)
    }

    /// Returns the content of an attachment, unless it was evicted.
    #[must_use]
    pub fn file(&self, attachment: MessageId) -> Option<File> {
        self.core.world().state.file(attachment).cloned()
    }

    /// Opens a thread in a text channel, optionally from a message; idempotent per message. Returns `None` if the
    /// channel or the message does not exist, or if there are too many threads.
    #[must_use]
    pub fn opens_thread(
        &self,
        member: UserId,
        channel: ChannelId,
        message: Option<MessageId>,
        name: &str,
    ) -> Option<Channel> {
        let name: String = name.chars().take(THREAD_NAME).collect();
        self.core.world().open_thread(channel, member, message, &name)
    }

    /// Replaces a channel's overwrites as the guild's owner. Returns false if the channel does not exist.
    #[must_use]
    pub fn sets_overwrites(&self, channel: ChannelId, overwrites: Vec<Overwrite>) -> bool {
        self.core.world().set_overwrites(channel, overwrites)
    }

    /// Replaces a role's permissions as the guild's owner. Returns false if the role does not exist.
    #[must_use]
    pub fn sets_permissions(&self, guild: GuildId, role: RoleId, permissions: u64) -> bool {
        self.core.world().set_permissions(guild, role, permissions)
    }

    /// Adds (`held`) or removes a member's reaction. Returns false if the message does not exist.
    #[must_use]
    pub fn marks(&self, member: UserId, channel: ChannelId, message: MessageId, emoji: &str, held: bool) -> bool {
        self.core.world().reacts(channel, message, member, emoji, held)
    }

    /// Adds a new member with these roles to the first guild, invited by `member`. Returns `None` if the inviter may
    /// not give them, or the guild is full.
    #[must_use]
    pub fn joins(&self, member: UserId, name: &str, roles: Vec<RoleId>) -> Option<Member> {
        let mut world = self.core.world();
        let guild = world.state.guilds().first()?;
        let id = guild.id;
        let known = |role: &RoleId| guild.roles.iter().any(|known| known.id == *role && may_give(guild, member, known));
        let may = guild.permissions(member) & may::MANAGE_ROLES != 0 && roles.iter().all(known);
        if !may || guild.members.len() >= MEMBERS {
            return None;
        }
        world.joins(id, name, roles)
    }

    /// Removes a member from a guild. Returns false if there is none.
    #[must_use]
    pub fn leaves(&self, guild: GuildId, member: UserId) -> bool {
        self.core.world().state.remove_member(guild, member)
    }

    /// Gives (`held`) or removes a user's role as `member`. Returns false without the permission to manage roles and a
    /// rank above the role; the roles of bots cannot be given.
    #[must_use]
    pub fn sets_role(&self, member: UserId, user: UserId, role: RoleId, held: bool) -> bool {
        let mut world = self.core.world();
        let Some(guild) = world.state.guilds().first() else { return false };
        let id = guild.id;
        let Some(known) = guild.roles.iter().find(|known| known.id == role) else { return false };
        if !may_give(guild, member, known) {
            return false;
        }
        world.set_role(id, user, role, held, None)
    }
}

/// True if a member may give and remove this role.
fn may_give(guild: &Guild, member: UserId, role: &Role) -> bool {
    let allowed = guild.permissions(member) & may::MANAGE_ROLES != 0 && guild.rank(member) > role.position;
    allowed && !role.managed && role.id.0 != guild.id.0
}
