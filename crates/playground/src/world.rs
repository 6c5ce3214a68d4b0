//! The single state behind REST and gateway. Each change is applied, sent to the sessions and sent to the subscribers
//! under one lock, so that the order of events is the order of ids.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    change::{Change, RoleChange},
    guild::{
        Channel, Member, Message, MessageInput, Overwrite,
        ids::{ChannelId, GuildId, MessageId, RoleId, UserId},
        state::State,
    },
    hub::{Event, Hub},
    intents,
    interactions::Interactions,
    limits::Limits,
    script::Script,
    stats::Tally,
    wire,
};

mod interactions;
mod voice;

pub use voice::Voice;

/// Lifetime of a typing indicator.
const TYPING: Duration = Duration::from_secs(10);
/// Number of role changes kept for inspection.
const ROLE_CHANGES: usize = 1_000;

/// The immutable configuration of the service, and the lock around its state.
pub struct Core {
    /// The address of the service.
    pub address: SocketAddr,
    /// The bot's token.
    pub token: String,
    /// The recommended number of shards.
    pub shards: u32,
    /// The number of identify buckets.
    pub max_concurrency: u32,
    /// The heartbeat interval.
    pub heartbeat: Duration,
    /// Privileged intents that the bot may use.
    pub privileged: u64,
    /// True while gateway connections are silent.
    pub frozen: watch::Sender<bool>,
    /// The shards with a connected session.
    pub connected: watch::Sender<BTreeSet<u32>>,
    /// Cancelled to stop everything.
    pub stop: CancellationToken,
    /// Cancelled when nothing listens any more.
    pub closed: CancellationToken,
    pub(super) world: Mutex<World>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No token may appear in logs, not even this one.
        f.debug_struct("Core").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Core {
    /// Returns the locked state. Never held over an await.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    /// Returns the address for new sessions.
    #[must_use]
    pub fn gateway_url(&self) -> String {
        format!("ws://{}/gateway", self.address)
    }

    /// Returns the address for resumes.
    #[must_use]
    pub fn resume_url(&self) -> String {
        format!("ws://{}/gateway/resume", self.address)
    }
}

/// The mutable state.
pub struct World {
    /// Guilds and messages.
    pub state: State,
    /// Sessions and connections.
    pub hub: Hub,
    /// REST budgets.
    pub limits: Limits,
    pub tally: Tally,
    pub script: Script,
    /// Interactions and commands.
    pub interactions: Interactions,
    /// Role changes, oldest first.
    pub role_changes: VecDeque<RoleChange>,
    /// The last presence of each shard.
    pub presences: HashMap<u32, Value>,
    /// The voice channels.
    pub voice: Voice,
    pub(super) typing: HashMap<ChannelId, Instant>,
    pub(super) changes: broadcast::Sender<Change>,
    pub(super) clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl World {
    /// Returns the time in milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Adds a message and publishes it. Returns `None` if the channel does not exist.
    pub fn post(&mut self, channel: ChannelId, author: UserId, draft: MessageInput) -> Option<Message> {
        let now = self.now();
        let message = self.state.post(channel, author, draft, now)?;
        if author == self.state.bot().id {
            self.typing.remove(&channel);
        }
        self.publish_message("MESSAGE_CREATE", &message);
        let _ = self.changes.send(Change::MessageCreated(message.clone()));
        Some(message)
    }

    /// Edits a message and publishes the change. Returns `None` if it does not exist.
    pub fn edit(&mut self, channel: ChannelId, id: MessageId, change: impl FnOnce(&mut Message)) -> Option<Message> {
        let now = self.now();
        let message = self.state.edit(channel, id, now, change)?;
        self.publish_message("MESSAGE_UPDATE", &message);
        let _ = self.changes.send(Change::MessageEdited(message.clone()));
        Some(message)
    }

    /// Removes a message and publishes the change. Returns `None` if it does not exist.
    pub fn delete(&mut self, channel: ChannelId, id: MessageId) -> Option<Message> {
        let message = self.state.delete(channel, id)?;
        let guild = self.guild_of(channel);
        let mut data = json!({"id": id, "channel_id": channel});
        if let Some(guild) = guild {
            data["guild_id"] = json!(guild);
        }
        self.publish("MESSAGE_DELETE", guild, intents::messages(guild.is_some()), data);
        let _ = self.changes.send(Change::MessageDeleted { channel, message: id });
        Some(message)
    }

    /// Adds or removes a reaction and publishes the change. Returns false if the message does not exist.
    pub fn reacts(&mut self, channel: ChannelId, message: MessageId, user: UserId, emoji: &str, held: bool) -> bool {
        let Some(author) = self.state.message(channel, message).map(|message| message.author) else { return false };
        if let Some(changed) = self.state.react(channel, message, user, emoji, held) {
            let _ = self.changes.send(Change::Reacted { channel, message, reactions: changed.reactions });
        }
        let Some(guild) = self.guild_of(channel) else { return true };
        // The bot gets no event about its own reaction.
        if user == self.state.bot().id {
            return true;
        }
        let data = json!({
            "user_id": user, "channel_id": channel, "message_id": message, "guild_id": guild,
            "message_author_id": author, "emoji": {"id": null, "name": emoji}, "burst": false, "type": 0,
            "member": self.state.member(Some(guild), user).map_or(Value::Null, wire::member),
        });
        let name = if held { "MESSAGE_REACTION_ADD" } else { "MESSAGE_REACTION_REMOVE" };
        self.publish(name, Some(guild), intents::GUILD_MESSAGE_REACTIONS, data);
        true
    }

    /// Adds a member with these roles and publishes the change. Returns `None` if the guild does not exist.
    pub fn joins(&mut self, guild: GuildId, name: &str, roles: Vec<RoleId>) -> Option<Member> {
        let now = self.now();
        let id = UserId(self.state.snowflake(now));
        let member = Member { id, name: name.to_owned(), roles, bot: false };
        if !self.state.put_member(guild, member.clone()) {
            return None;
        }
        let mut data = wire::member(&member);
        data["guild_id"] = json!(guild);
        self.publish("GUILD_MEMBER_ADD", Some(guild), intents::GUILD_MEMBERS, data);
        let _ = self.changes.send(Change::MemberJoined { member: member.clone() });
        Some(member)
    }

    /// Shows a user's typing indicator and publishes it.
    pub fn types(&mut self, channel: ChannelId, user: UserId) {
        let guild = self.guild_of(channel);
        if user == self.state.bot().id {
            let now = Instant::now();
            self.typing.retain(|_, until| *until > now);
            self.typing.insert(channel, now + TYPING);
        }
        let mut data = json!({"channel_id": channel, "user_id": user, "timestamp": self.now() / 1_000});
        if let Some(guild) = guild {
            data["guild_id"] = json!(guild);
            data["member"] = self.state.member(Some(guild), user).map_or(Value::Null, wire::member);
        }
        self.publish("TYPING_START", guild, intents::typing(guild.is_some()), data);
        let _ = self.changes.send(Change::TypingStarted { channel, user });
    }

    /// True if the bot's typing indicator is shown in a channel.
    #[must_use]
    pub fn typing(&self, channel: ChannelId) -> bool {
        self.typing.get(&channel).is_some_and(|until| *until > Instant::now())
    }

    /// Gives or removes a role and publishes the change. Returns false if the member does not exist.
    pub fn set_role(&mut self, guild: GuildId, user: UserId, role: RoleId, held: bool, reason: Option<String>) -> bool {
        let Some(member) = self.state.set_role(guild, user, role, held) else {
            return false;
        };
        let mut data = wire::member(&member);
        data["guild_id"] = json!(guild);
        // A bot always gets events about itself.
        let own = user == self.state.bot().id;
        let intent = if own { intents::GUILDS } else { intents::GUILD_MEMBERS };
        self.publish("GUILD_MEMBER_UPDATE", Some(guild), intent, data);
        let change = RoleChange { guild, user, role, held, reason };
        if self.role_changes.len() == ROLE_CHANGES {
            self.role_changes.pop_front();
        }
        self.role_changes.push_back(change.clone());
        let _ = self.changes.send(Change::RoleChanged(change));
        true
    }

    /// Opens a thread and publishes it; idempotent per message. Returns `None` if the channel or the message does not
    /// exist, or if there are too many.
    pub fn open_thread(
        &mut self,
        parent: ChannelId,
        opener: UserId,
        message: Option<MessageId>,
        name: &str,
    ) -> Option<Channel> {
        let known = message.and_then(|message| self.state.channel(ChannelId(message.0)));
        if let Some(known) = known.filter(|known| known.parent == Some(parent)) {
            return Some(known.clone());
        }
        let now = self.now();
        let thread = self.state.open_thread(parent, message, opener, name, now)?;
        let mut data = wire::channel(&self.state, &thread);
        data["newly_created"] = json!(true);
        if !self.script.withheld.new_threads {
            self.publish("THREAD_CREATE", thread.guild, intents::GUILDS, data);
        }
        if let Some(first) = message.and_then(|message| self.state.message(parent, message).cloned()) {
            self.publish_message("MESSAGE_UPDATE", &first);
        }
        let _ = self.changes.send(Change::ThreadOpened(thread.clone()));
        Some(thread)
    }

    /// Replaces a channel's overwrites and publishes the change. Returns false if it does not exist.
    pub fn set_overwrites(&mut self, id: ChannelId, overwrites: Vec<Overwrite>) -> bool {
        let Some(channel) = self.state.set_overwrites(id, overwrites) else { return false };
        let data = wire::channel(&self.state, &channel);
        self.publish("CHANNEL_UPDATE", channel.guild, intents::GUILDS, data);
        true
    }

    /// Replaces a role's permissions and publishes the change. Returns false if it does not exist.
    pub fn set_permissions(&mut self, guild: GuildId, role: RoleId, permissions: u64) -> bool {
        let Some(role) = self.state.set_permissions(guild, role, permissions) else { return false };
        let data = json!({"guild_id": guild, "role": wire::role(&role)});
        self.publish("GUILD_ROLE_UPDATE", Some(guild), intents::GUILDS, data);
        true
    }

    /// Removes a channel and publishes the change.
    pub fn remove_channel(&mut self, id: ChannelId) {
        let Some(channel) = self.state.channel(id).cloned() else {
            return;
        };
        let data = wire::channel(&self.state, &channel);
        self.state.remove_channel(id);
        let name = if channel.parent.is_some() { "THREAD_DELETE" } else { "CHANNEL_DELETE" };
        self.publish(name, channel.guild, intents::GUILDS, data);
        let _ = self.changes.send(Change::ChannelDeleted { channel: id });
    }

    fn guild_of(&self, channel: ChannelId) -> Option<GuildId> {
        self.state.channel(channel).and_then(|channel| channel.guild)
    }

    fn publish(&mut self, name: &'static str, guild: Option<GuildId>, intent: u64, data: Value) {
        self.hub.publish(&Event { name, guild, intent, data, blank: None });
    }

    fn publish_message(&mut self, name: &'static str, message: &Message) {
        if message.only_for.is_some() {
            return;
        }
        let guild = self.guild_of(message.channel);
        let data = wire::message_event(&self.state, message);
        let bot = self.state.bot().id;
        // Discord lets a bot read direct messages, its own messages, and those that mention it.
        let readable = guild.is_none() || message.author == bot || message.mentions.contains(&bot);
        let blank = (!readable).then(|| blanked(&data));
        self.hub.publish(&Event { name, guild, intent: intents::messages(guild.is_some()), data, blank });
    }
}

fn blanked(data: &Value) -> Value {
    let mut data = data.clone();
    data["content"] = json!("");
    for list in ["embeds", "attachments", "components"] {
        data[list] = json!([]);
    }
    data
}
