//! What members can do besides talking: send files, open threads, react, call others in, give and take roles.

use super::{
    guild::{
        Channel, Draft, Guild, Member, Message, Overwrite, Role,
        files::File,
        ids::{ChannelId, GuildId, MessageId, RoleId, UserId},
        permissions as may,
    },
    service::Service,
};

/// The longest name of a thread, in characters.
const THREAD_NAME: usize = 100;
/// Members of the guild, with those who join.
pub(super) const MEMBERS: usize = 100;

impl Service {
    /// Somebody writes a message with files; `text` may be empty. None when there is no such channel. Whoever calls keeps
    /// each file within [`super::guild::files::FILE_BYTES`].
    #[must_use]
    pub fn sends(
        &self,
        member: UserId,
        channel: ChannelId,
        text: &str,
        reply_to: Option<MessageId>,
        files: Vec<File>,
    ) -> Option<Message> {
        let draft = Draft { content: text.to_owned(), reply_to, files, ..Draft::default() };
        self.core.world().post(channel, member, draft)
    }

    /// The bytes of an attachment, unless so many came after it that it was forgotten.
    #[must_use]
    pub fn file(&self, attachment: MessageId) -> Option<File> {
        self.core.world().state.file(attachment).cloned()
    }

    /// Somebody opens a thread in a text channel, from a message or on its own. A message has one thread: asked again, it
    /// is that one. None when the channel or the message does not exist, or there are too many threads.
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

    /// The guild's owner changes what a channel takes and gives. False when there is no such channel.
    #[must_use]
    pub fn sets_overwrites(&self, channel: ChannelId, overwrites: Vec<Overwrite>) -> bool {
        self.core.world().set_overwrites(channel, overwrites)
    }

    /// The guild's owner changes what a role allows. False when there is no such role.
    #[must_use]
    pub fn sets_permissions(&self, guild: GuildId, role: RoleId, permissions: u64) -> bool {
        self.core.world().set_permissions(guild, role, permissions)
    }

    /// Somebody reacts to a message (`held`) or takes it back. False when there is no such message.
    #[must_use]
    pub fn marks(&self, member: UserId, channel: ChannelId, message: MessageId, (emoji, held): (&str, bool)) -> bool {
        self.core.world().reacts((channel, message), member, emoji, held)
    }

    /// Somebody joins the first guild with these roles, called in by `member`. None when that one may not give them, or the guild
    /// is full.
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

    /// Somebody leaves a guild. False when there is no such member.
    #[must_use]
    pub fn leaves(&self, guild: GuildId, member: UserId) -> bool {
        self.core.world().state.remove_member(guild, member)
    }

    /// A member gives a role to somebody (`held`) or takes it. False when that member may not: it takes the right to manage
    /// roles and a place above the role; the roles of bots are nobody's to give.
    #[must_use]
    pub fn sets_role(&self, member: UserId, user: UserId, role: RoleId, held: bool) -> bool {
        let mut world = self.core.world();
        let Some(guild) = world.state.guilds().first() else { return false };
        let id = guild.id;
        let Some(known) = guild.roles.iter().find(|known| known.id == role) else { return false };
        if !may_give(guild, member, known) {
            return false;
        }
        world.set_role(id, user, (role, held), None)
    }
}

/// Whether a member may give this role and take it.
fn may_give(guild: &Guild, member: UserId, role: &Role) -> bool {
    let allowed = guild.permissions(member) & may::MANAGE_ROLES != 0 && guild.rank(member) > role.position;
    allowed && !role.managed && role.id.0 != guild.id.0
}
