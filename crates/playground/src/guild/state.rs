//! The state of all guilds, and its changes.

use std::collections::{HashMap, VecDeque};

use super::{
    Attachment, Channel, ChannelKind, Guild, Member, Message, MessageInput, Overwrite, Role,
    files::{File, Files},
    ids::{ChannelId, GuildId, MessageId, RoleId, Snowflakes, UserId},
    mentions::{Allowed, Mentions},
    seed::Seed,
};

mod keeping;

/// Maximum number of messages per channel; the oldest are evicted first.
pub const MESSAGES_PER_CHANNEL: usize = 5_000;
/// Lifetime of a nonce, in milliseconds.
pub const NONCE_LIFETIME_MS: u64 = 5 * 60 * 1_000;
const NONCES_PER_CHANNEL: usize = 1_024;
const DIRECT_CHANNELS: usize = 256;
/// Maximum number of threads per guild.
const THREADS: usize = 256;
/// The flag of a message with a thread.
const HAS_THREAD: u64 = 1 << 5;

/// Messages of one channel, oldest first, with the recent nonces.
#[derive(Debug, Default)]
struct Log {
    messages: VecDeque<Message>,
    nonces: VecDeque<(UserId, String, MessageId, u64)>,
}

impl Log {
    fn position(&self, id: MessageId) -> Option<usize> {
        self.messages.binary_search_by_key(&id, |message| message.id).ok()
    }
}

/// The state. Bounded: see the constants of this module.
#[derive(Debug)]
pub struct State {
    bot: Member,
    guilds: Vec<Guild>,
    direct: Vec<Channel>,
    logs: HashMap<ChannelId, Log>,
    /// The index of each guild in the list, and of each channel in its guild.
    places: (HashMap<GuildId, usize>, HashMap<ChannelId, (usize, usize)>),
    snowflakes: Snowflakes,
    files: Files,
    /// The base address of files, such as `http://127.0.0.1:1234`.
    origin: String,
}

impl State {
    /// Creates the initial state. The bot is added to every guild without it.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        let Seed { bot, mut guilds } = seed;
        for guild in &mut guilds {
            if guild.members.iter().all(|member| member.id != bot.id) {
                guild.members.push(bot.clone());
            }
            for channel in &mut guild.channels {
                channel.guild = Some(guild.id);
            }
        }
        let mut state = Self {
            bot,
            guilds,
            direct: Vec::new(),
            logs: HashMap::new(),
            places: Default::default(),
            snowflakes: Snowflakes::default(),
            files: Files::default(),
            origin: String::new(),
        };
        state.find_places();
        state
    }

    fn find_places(&mut self) {
        let (guilds, channels) = &mut self.places;
        *guilds = self.guilds.iter().enumerate().map(|(at, guild)| (guild.id, at)).collect();
        channels.clear();
        for (at, guild) in self.guilds.iter().enumerate() {
            channels.extend(guild.channels.iter().enumerate().map(|(n, channel)| (channel.id, (at, n))));
        }
    }

    /// Sets the base address of files.
    pub fn set_origin(&mut self, origin: String) {
        self.origin = origin;
    }

    /// Returns the address of a file in `channel`.
    #[must_use]
    pub fn address_of(&self, channel: ChannelId, file: &Attachment) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
        let name: String = file.filename.chars().map(plain).collect();
        format!("{}/attachments/{channel}/{}/{name}", self.origin, file.id)
    }

    /// Returns the number of messages that the bot answered more than once, by the visible chat.
    #[must_use]
    pub fn doubled(&self) -> u64 {
        let mut answers: HashMap<MessageId, u64> = HashMap::new();
        for message in self.logs.values().flat_map(|log| &log.messages) {
            if let Some(answered) =
                message.reply_to.filter(|_| message.author == self.bot.id && message.only_for.is_none())
            {
                *answers.entry(answered).or_default() += 1;
            }
        }
        answers.values().filter(|count| **count > 1).count() as u64
    }

    /// Returns the content of an attachment, unless it was evicted.
    #[must_use]
    pub fn file(&self, attachment: MessageId) -> Option<&File> {
        self.files.find(attachment)
    }

    /// Returns the bot's account.
    #[must_use]
    pub fn bot(&self) -> &Member {
        &self.bot
    }

    /// Returns all guilds.
    #[must_use]
    pub fn guilds(&self) -> &[Guild] {
        &self.guilds
    }

    /// Returns a guild.
    #[must_use]
    pub fn guild(&self, id: GuildId) -> Option<&Guild> {
        self.guilds.get(*self.places.0.get(&id)?)
    }

    /// Returns a channel, of a guild or of direct messages.
    #[must_use]
    pub fn channel(&self, id: ChannelId) -> Option<&Channel> {
        match self.places.1.get(&id) {
            Some((guild, channel)) => self.guilds.get(*guild)?.channels.get(*channel),
            None => self.direct.iter().find(|channel| channel.id == id),
        }
    }

    /// Returns all channels, guild by guild, direct message channels last.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.guilds.iter().flat_map(|guild| &guild.channels).chain(&self.direct)
    }

    /// Returns a member, searching `guild` first, then all guilds.
    #[must_use]
    pub fn member(&self, guild: Option<GuildId>, id: UserId) -> Option<&Member> {
        guild
            .and_then(|guild| self.guild(guild))
            .and_then(|guild| guild.members.iter().find(|member| member.id == id))
            .or_else(|| self.guilds.iter().flat_map(|guild| &guild.members).find(|member| member.id == id))
            .or_else(|| (self.bot.id == id).then_some(&self.bot))
    }

    /// Returns a message.
    #[must_use]
    pub fn message(&self, channel: ChannelId, id: MessageId) -> Option<&Message> {
        let log = self.logs.get(&channel)?;
        log.messages.get(log.position(id)?)
    }

    /// Returns all messages of a channel, oldest first.
    #[must_use]
    pub fn messages(&self, channel: ChannelId) -> impl DoubleEndedIterator<Item = &Message> {
        self.logs.get(&channel).into_iter().flat_map(|log| &log.messages)
    }

    /// Returns the messages of a channel that all members see, oldest first.
    #[must_use]
    pub fn public(&self, channel: ChannelId) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages(channel).filter(|message| message.only_for.is_none())
    }

    /// Returns the id of a channel's newest message.
    #[must_use]
    pub fn last_message(&self, channel: ChannelId) -> Option<MessageId> {
        self.public(channel).next_back().map(|message| message.id)
    }

    /// Returns a new id.
    pub fn snowflake(&mut self, now: u64) -> u64 {
        self.snowflakes.next(now)
    }

    /// Returns the message that `author` created in `channel` with this nonce within its lifetime.
    #[must_use]
    pub fn by_nonce(&self, channel: ChannelId, author: UserId, nonce: &str, now: u64) -> Option<&Message> {
        let log = self.logs.get(&channel)?;
        let (.., id, _) = log.nonces.iter().rev().find(|(who, mark, _, at)| {
            *who == author && mark == nonce && now.saturating_sub(*at) < NONCE_LIFETIME_MS
        })?;
        self.message(channel, *id)
    }

    /// Adds a message. Returns `None` if the channel does not exist.
    pub fn post(&mut self, channel: ChannelId, author: UserId, draft: MessageInput, now: u64) -> Option<Message> {
        let guild = self.channel(channel)?.guild;
        let id = MessageId(self.snowflakes.next(now));
        let replied = draft.reply_to.and_then(|id| self.message(channel, id)).map(|message| message.author);
        let mentions = Mentions::of(&draft.content, &draft.allowed, replied).known(self, guild, author);
        let attachments = draft.files.into_iter().map(|file| self.attach(file, now)).collect();
        let message = Message {
            id,
            channel,
            author,
            author_name: self.member(guild, author).map_or_else(|| author.to_string(), |member| member.name.clone()),
            content: draft.content,
            reply_to: draft.reply_to,
            nonce: draft.nonce,
            sent_at: now,
            edited_at: None,
            edits: 0,
            mentions: mentions.users,
            mention_roles: mentions.roles,
            mention_everyone: mentions.everyone,
            attachments,
            embeds: draft.embeds,
            components: draft.components,
            flags: draft.flags,
            tts: draft.tts,
            only_for: draft.only_for,
            command: draft.command,
            allowed_mentions: draft.allowed.raw,
            reactions: Vec::new(),
        };
        self.keep(&message, now);
        Some(message)
    }

    /// Stores a file, and returns its description for a message.
    pub fn attach(&mut self, file: File, now: u64) -> Attachment {
        let id = MessageId(self.snowflakes.next(now));
        let (filename, content_type, size) = (file.name.clone(), file.kind.clone(), file.bytes.len());
        let description = file.description.clone();
        let pixels = imagesize::blob_size(&file.bytes).ok().map(|size| (size.width, size.height));
        self.files.keep(id, file);
        Attachment { id, filename, content_type, size, description, pixels }
    }

    fn keep(&mut self, message: &Message, now: u64) {
        let log = self.logs.entry(message.channel).or_default();
        if log.messages.len() == MESSAGES_PER_CHANNEL {
            log.messages.pop_front();
        }
        log.messages.push_back(message.clone());
        if let Some(nonce) = &message.nonce {
            if log.nonces.len() == NONCES_PER_CHANNEL {
                log.nonces.pop_front();
            }
            log.nonces.push_back((message.author, nonce.clone(), message.id, now));
        }
    }

    /// Applies `change` to a message, marks it as edited, and returns it. Mentions are computed from its new text.
    pub fn edit(
        &mut self,
        channel: ChannelId,
        id: MessageId,
        now: u64,
        change: impl FnOnce(&mut Message),
    ) -> Option<Message> {
        let log = self.logs.get_mut(&channel)?;
        let at = log.position(id)?;
        let mut message = log.messages.get(at)?.clone();
        change(&mut message);
        message.edited_at = Some(now);
        message.edits = message.edits.saturating_add(1);
        let guild = self.channel(channel)?.guild;
        let allowed = Allowed::read(message.allowed_mentions.as_ref()).unwrap_or_default();
        let replied = message.reply_to.and_then(|id| self.message(channel, id)).map(|original| original.author);
        let mentions = Mentions::of(&message.content, &allowed, replied).known(self, guild, message.author);
        message.mentions = mentions.users;
        message.mention_roles = mentions.roles;
        message.mention_everyone = mentions.everyone;
        *self.logs.get_mut(&channel)?.messages.get_mut(at)? = message.clone();
        Some(message)
    }

    /// Adds or removes a user's reaction. Returns the message if anything changed.
    pub fn react(
        &mut self,
        channel: ChannelId,
        id: MessageId,
        user: UserId,
        emoji: &str,
        held: bool,
    ) -> Option<Message> {
        let log = self.logs.get_mut(&channel)?;
        let at = log.position(id)?;
        let message = log.messages.get_mut(at)?;
        message.react(user, emoji, held).then(|| message.clone())
    }

    /// Removes a message and returns it.
    pub fn delete(&mut self, channel: ChannelId, id: MessageId) -> Option<Message> {
        let log = self.logs.get_mut(&channel)?;
        let at = log.position(id)?;
        log.messages.remove(at)
    }

    /// Gives a role to a member or removes it. Returns the member.
    pub fn set_role(&mut self, guild: GuildId, user: UserId, role: RoleId, held: bool) -> Option<Member> {
        let guild = self.guilds.iter_mut().find(|candidate| candidate.id == guild)?;
        let member = guild.members.iter_mut().find(|member| member.id == user)?;
        member.roles.retain(|held| *held != role);
        if held {
            member.roles.push(role);
        }
        Some(member.clone())
    }

    /// Replaces a channel's overwrites. Returns `None` if it does not exist.
    pub fn set_overwrites(&mut self, id: ChannelId, overwrites: Vec<Overwrite>) -> Option<Channel> {
        let (guild, at) = *self.places.1.get(&id)?;
        let channel = self.guilds.get_mut(guild)?.channels.get_mut(at)?;
        channel.overwrites = overwrites;
        Some(channel.clone())
    }

    /// Replaces a role's permissions. Returns `None` if it does not exist.
    pub fn set_permissions(&mut self, guild: GuildId, role: RoleId, permissions: u64) -> Option<Role> {
        let guild = self.guilds.iter_mut().find(|known| known.id == guild)?;
        let role = guild.roles.iter_mut().find(|known| known.id == role)?;
        role.permissions = permissions;
        Some(role.clone())
    }

    /// Removes a member. Returns false if there is none.
    pub fn remove_member(&mut self, guild: GuildId, user: UserId) -> bool {
        let Some(guild) = self.guilds.iter_mut().find(|known| known.id == guild) else { return false };
        let before = guild.members.len();
        guild.members.retain(|member| member.id != user);
        guild.members.len() < before
    }

    /// Adds or replaces a member. Returns false if the guild does not exist.
    pub fn put_member(&mut self, guild: GuildId, member: Member) -> bool {
        let Some(guild) = self.guilds.iter_mut().find(|candidate| candidate.id == guild) else {
            return false;
        };
        guild.members.retain(|known| known.id != member.id);
        guild.members.push(member);
        true
    }

    /// Removes a channel with its messages.
    pub fn remove_channel(&mut self, id: ChannelId) -> Option<Channel> {
        let channel = self.channel(id)?.clone();
        for guild in &mut self.guilds {
            guild.channels.retain(|channel| channel.id != id && channel.parent != Some(id));
        }
        self.direct.retain(|channel| channel.id != id);
        self.find_places();
        let (places, direct) = (&self.places.1, &self.direct);
        self.logs.retain(|id, _| places.contains_key(id) || direct.iter().any(|channel| channel.id == *id));
        Some(channel)
    }

    /// Opens a thread in a text channel, optionally from a message. Returns `None` if either does not exist, the
    /// message has a thread already, or there are too many.
    pub fn open_thread(
        &mut self,
        parent: ChannelId,
        message: Option<MessageId>,
        opener: UserId,
        name: &str,
        now: u64,
    ) -> Option<Channel> {
        let above = self.channel(parent).filter(|channel| channel.kind == ChannelKind::Text)?;
        let guild = above.guild?;
        if let Some(message) = message {
            self.message(parent, message)?;
        }
        // As on Discord, a thread from a message has the message's number.
        let id = ChannelId(message.map_or_else(|| self.snowflakes.next(now), |message| message.0));
        let channels = &mut self.guilds.iter_mut().find(|known| known.id == guild)?.channels;
        let threads = channels.iter().filter(|channel| channel.kind == ChannelKind::Thread).count();
        if threads >= THREADS || channels.iter().any(|channel| channel.id == id) {
            return None;
        }
        let thread = Channel {
            id,
            guild: Some(guild),
            name: name.to_owned(),
            kind: ChannelKind::Thread,
            recipient: None,
            parent: Some(parent),
            opener: Some(opener),
            overwrites: Vec::new(),
        };
        channels.push(thread.clone());
        self.find_places();
        if let Some(message) = message
            && let Some(log) = self.logs.get_mut(&parent)
            && let Some(at) = log.position(message)
        {
            log.messages[at].flags |= HAS_THREAD;
        }
        Some(thread)
    }

    /// Returns the direct message channel with a user, opening it if necessary. `None` for an unknown user, or if too
    /// many are open.
    pub fn direct(&mut self, with: UserId, now: u64) -> Option<Channel> {
        if let Some(open) = self.direct.iter().find(|channel| channel.recipient == Some(with)) {
            return Some(open.clone());
        }
        let name = self.member(None, with)?.name.clone();
        if self.direct.len() >= DIRECT_CHANNELS {
            return None;
        }
        let channel = Channel {
            id: ChannelId(self.snowflakes.next(now)),
            guild: None,
            name,
            kind: ChannelKind::Direct,
            recipient: Some(with),
            parent: None,
            opener: None,
            overwrites: Vec::new(),
        };
        self.direct.push(channel.clone());
        Some(channel)
    }
}
