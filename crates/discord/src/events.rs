//! Converts Discord's messages to neutral data. Reads only the needed fields, each as tolerantly as its meaning allows:
//! an unknown kind of embed, component or sticker must not hide a question.

mod deleted;
pub(crate) mod voice;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serenity::model::Timestamp as WireTime;
use serenity::model::channel::{ChannelType, MessageType};
use serenity::model::id::{ChannelId, GuildId, MessageId as WireMessageId, RoleId, UserId};

pub use self::deleted::{Deleted, deleted, deleted_bulk};
use super::DOOR;
use domain::experiment::Vote;
use domain::ids::{MessageId, Person, Place, Timestamp};
use domain::incoming::{Attachment, Author, AuthorKind, MAX_ATTACHMENTS, Posted, Quoted, Reaction, Seen, WantedModels};

/// The epoch of Discord's ids, in milliseconds since the Unix epoch.
const DISCORD_EPOCH: u64 = 1_420_070_400_000;

/// The longest file name and media type, in bytes; Discord's limits are lower.
const MAX_FILE_NAME: usize = 2_048;

/// The longest address of a file, in bytes; a signed one has about 300.
const MAX_FILE_ADDRESS: usize = 4_096;

/// The longest language tag, in bytes.
const MAX_LOCALE: usize = 16;

/// Reads a message of the gateway or of the request API. The request API omits guild and member: the caller passes the
/// guild in `guild`, if known.
///
/// # Errors
/// The JSON is not a message. The error names the field.
pub fn posted(json: &str, me: UserId, guild: Option<&str>) -> Result<Posted, serde_json::Error> {
    let wire: WireMessage<'_> = serde_json::from_str(json)?;
    Ok(wire.into_posted(me, guild))
}

/// Returns a reaction to one of the bot's messages, read from `MESSAGE_REACTION_ADD`. Returns `None` for messages of
/// other accounts and for the bot's own reactions.
///
/// # Errors
/// It names no place, message or user.
pub fn reacted(json: &str, me: UserId) -> Result<Option<Reaction>, serde_json::Error> {
    #[derive(Deserialize)]
    struct WireReaction<'a> {
        #[serde(rename = "channel_id")]
        channel: ChannelId,
        #[serde(rename = "message_id")]
        message: WireMessageId,
        #[serde(rename = "user_id")]
        by: UserId,
        #[serde(default, rename = "message_author_id")]
        author: Option<UserId>,
        #[serde(default, borrow)]
        emoji: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Emoji {
        #[serde(default)]
        name: Option<String>,
    }
    let WireReaction { channel, message, by, author, emoji } = serde_json::from_str(json)?;
    let name = emoji.and_then(|emoji| serde_json::from_str::<Emoji>(emoji.get()).ok()?.name);
    let reaction = || Reaction {
        place: place(channel),
        message: message_id(message),
        by: person(by),
        vote: name.as_deref().and_then(Vote::of),
    };
    let ours = author == Some(me) && by != me;
    Ok(ours.then(reaction))
}

/// Returns a guild and its text places, each with the time of its newest message. Returns `None` for an unavailable
/// guild. Unreadable places are skipped. The bot's permissions are not checked.
///
/// # Errors
/// The JSON is not a guild.
pub fn places(json: &str) -> Result<Option<GuildPlaces>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Guild<'a> {
        id: GuildId,
        #[serde(default)]
        unavailable: Option<bool>,
        #[serde(default, deserialize_with = "tolerant", borrow)]
        preferred_locale: Tolerant<'a>,
        #[serde(default, borrow)]
        channels: Option<Vec<&'a RawValue>>,
        #[serde(default, borrow)]
        threads: Option<Vec<&'a RawValue>>,
    }
    let guild: Guild<'_> = serde_json::from_str(json)?;
    if guild.unavailable == Some(true) {
        return Ok(None);
    }
    let locale = guild.preferred_locale.read::<String>().filter(|tag| tag.len() <= MAX_LOCALE);
    let mut places = GuildPlaces { guild: guild.id.to_string(), locale, newest: Vec::new(), threads: Vec::new() };
    let channels = [guild.channels, guild.threads].into_iter().flatten().flatten();
    for channel in channels.filter_map(|raw| serde_json::from_str::<Channel<'_>>(raw.get()).ok()) {
        places.threads.extend(channel.thread());
        if has_messages(channel.kind) {
            places.newest.push((place(channel.id), channel.newest()));
        }
    }
    Ok(Some(places))
}

/// Returns the thread of a `THREAD_CREATE` and its channel, or `None` if the channel is missing.
///
/// # Errors
/// The JSON is not a channel.
pub fn thread(json: &str) -> Result<Option<GuildThreads>, serde_json::Error> {
    let channel: Channel<'_> = serde_json::from_str(json)?;
    let guild = channel.guild_id.map(|guild| guild.to_string()).unwrap_or_default();
    Ok(channel.thread().map(|thread| GuildThreads { guild, threads: vec![thread] }))
}

/// Returns the thread of a `THREAD_DELETE`.
///
/// # Errors
/// It names no thread.
pub fn thread_gone(json: &str) -> Result<Place, serde_json::Error> {
    #[derive(Deserialize)]
    struct Gone {
        id: ChannelId,
    }
    serde_json::from_str(json).map(|Gone { id }| place(id))
}

/// Returns the threads of a `THREAD_LIST_SYNC`, each with its channel. Unreadable threads are skipped.
///
/// # Errors
/// It has no guild or no list of threads.
pub fn threads(json: &str) -> Result<GuildThreads, serde_json::Error> {
    #[derive(Deserialize)]
    struct Synced<'a> {
        guild_id: GuildId,
        #[serde(borrow)]
        threads: Vec<&'a RawValue>,
    }
    let Synced { guild_id, threads } = serde_json::from_str(json)?;
    let thread = |raw: &&RawValue| serde_json::from_str::<Channel<'_>>(raw.get()).ok()?.thread();
    Ok(GuildThreads { guild: guild_id.to_string(), threads: threads.iter().filter_map(thread).collect() })
}

/// Threads of one guild.
#[derive(Debug, PartialEq, Eq)]
pub struct GuildThreads {
    /// The guild's id.
    pub guild: String,
    /// The threads, each with its channel.
    pub threads: Vec<(Place, Place)>,
}

#[derive(Deserialize)]
struct Channel<'a> {
    id: ChannelId,
    #[serde(rename = "type")]
    kind: ChannelType,
    #[serde(default)]
    last_message_id: Option<WireMessageId>,
    #[serde(default)]
    parent_id: Option<ChannelId>,
    #[serde(default)]
    guild_id: Option<GuildId>,
    #[serde(default, deserialize_with = "tolerant", borrow)]
    thread_metadata: Tolerant<'a>,
}

#[derive(Deserialize)]
struct ThreadTimes {
    /// A thread started from a message has the id of that message, which may be much older.
    #[serde(default)]
    create_timestamp: Option<WireTime>,
}

impl Channel<'_> {
    /// Returns the time of the newest message as Discord reports it, but no earlier than the creation of the place.
    fn newest(&self) -> Timestamp {
        let made = time_of(WireMessageId::new(self.id.get()));
        let begun =
            self.thread_metadata.read::<ThreadTimes>().and_then(|times| times.create_timestamp).map(milliseconds);
        self.last_message_id.map(time_of).into_iter().chain(begun).fold(made, Timestamp::max)
    }

    fn thread(&self) -> Option<(Place, Place)> {
        is_thread(self.kind).then_some(self.parent_id).flatten().map(|parent| (place(self.id), place(parent)))
    }
}

pub(super) const fn is_thread(kind: ChannelType) -> bool {
    matches!(kind, ChannelType::NewsThread | ChannelType::PublicThread | ChannelType::PrivateThread)
}

/// The places of a guild.
#[derive(Debug, PartialEq, Eq)]
pub struct GuildPlaces {
    /// The guild's id.
    pub guild: String,
    /// The tag of the guild's preferred language.
    pub locale: Option<String>,
    /// Each place with the time of its newest message (a hint, according to Discord), no earlier than the creation of
    /// the place.
    pub newest: Vec<(Place, Timestamp)>,
    /// The threads, each with its channel.
    pub threads: Vec<(Place, Place)>,
}

/// The used fields of `READY`.
#[derive(Debug, Deserialize)]
pub struct Ready {
    /// The session id for a resume.
    pub session_id: String,
    /// The address for a resume.
    #[serde(default)]
    pub resume_gateway_url: Option<String>,
    /// The bot's account.
    pub user: Me,
}

/// The bot's account.
#[derive(Debug, Deserialize)]
pub struct Me {
    /// The account's id.
    pub id: UserId,
}

pub(super) fn message_id(id: WireMessageId) -> MessageId {
    MessageId::new(DOOR, id.to_string())
}

pub(super) fn place(id: ChannelId) -> Place {
    Place::new(DOOR, id.to_string())
}

pub(super) fn person(id: UserId) -> Person {
    Person::new(DOOR, id.to_string())
}

const fn has_messages(kind: ChannelType) -> bool {
    matches!(
        kind,
        ChannelType::Text
            | ChannelType::News
            | ChannelType::Voice
            | ChannelType::Stage
            | ChannelType::NewsThread
            | ChannelType::PublicThread
            | ChannelType::PrivateThread
    )
}

#[derive(Deserialize)]
struct WireMessage<'a> {
    id: WireMessageId,
    channel_id: ChannelId,
    #[serde(default)]
    guild_id: Option<GuildId>,
    author: WireUser,
    #[serde(default, deserialize_with = "tolerant", borrow)]
    member: Tolerant<'a>,
    #[serde(default)]
    content: String,
    #[serde(default, deserialize_with = "tolerant", borrow)]
    timestamp: Tolerant<'a>,
    #[serde(default, rename = "type")]
    kind: MessageType,
    #[serde(default, borrow)]
    mentions: Vec<&'a RawValue>,
    #[serde(default)]
    webhook_id: Option<serde::de::IgnoredAny>,
    #[serde(default, deserialize_with = "tolerant", borrow)]
    message_reference: Tolerant<'a>,
    #[serde(default, deserialize_with = "tolerant", borrow)]
    referenced_message: Tolerant<'a>,
    #[serde(default, deserialize_with = "tolerant", borrow)]
    attachments: Tolerant<'a>,
}

#[derive(Deserialize)]
pub(super) struct WireUser {
    pub(super) id: UserId,
    username: String,
    #[serde(default)]
    global_name: Option<String>,
    #[serde(default)]
    bot: bool,
    #[serde(default)]
    system: bool,
}

#[derive(Default, Deserialize)]
struct WireMember<'a> {
    #[serde(default, deserialize_with = "tolerant", borrow)]
    joined_at: Tolerant<'a>,
    #[serde(default)]
    nick: Option<String>,
    #[serde(default)]
    roles: Vec<RoleId>,
}

#[derive(Deserialize)]
struct WireReference {
    /// 0 for a reply, 1 for a forwarded message.
    #[serde(default, rename = "type")]
    kind: u8,
    #[serde(default)]
    message_id: Option<WireMessageId>,
    #[serde(default)]
    channel_id: Option<ChannelId>,
}

#[derive(Deserialize)]
struct WireQuoted<'a> {
    id: WireMessageId,
    author: WireUser,
    #[serde(default)]
    content: String,
    #[serde(default, deserialize_with = "tolerant", borrow)]
    message_reference: Tolerant<'a>,
    #[serde(default, deserialize_with = "tolerant", borrow)]
    attachments: Tolerant<'a>,
}

#[derive(Deserialize)]
struct WireAttachment {
    filename: String,
    #[serde(default)]
    content_type: Option<String>,
    size: u64,
    url: String,
    #[serde(default)]
    width: Option<u32>,
    #[serde(default)]
    height: Option<u32>,
}

impl WireReference {
    /// The message that a reply refers to.
    fn answered(self) -> Option<WireMessageId> {
        if self.kind == 0 { self.message_id } else { None }
    }
}

/// A part that is parsed separately: if it is malformed, it counts as missing and the rest of the message remains
/// valid.
#[derive(Clone, Copy, Default)]
struct Tolerant<'a>(Option<&'a RawValue>);

impl<'a> Tolerant<'a> {
    fn read<T: Deserialize<'a>>(self) -> Option<T> {
        self.0.and_then(|raw| serde_json::from_str::<Option<T>>(raw.get()).ok().flatten())
    }
}

fn tolerant<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Tolerant<'a>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(|raw| Tolerant(Some(raw)))
}

impl WireMessage<'_> {
    fn into_posted(self, me: UserId, guild: Option<&str>) -> Posted {
        let reply_to = self.quoted(me);
        let kind = self.author_kind(me);
        let mentions_us =
            self.mentions.iter().any(|raw| serde_json::from_str::<Me>(raw.get()).is_ok_and(|user| user.id == me));
        let member: WireMember<'_> = self.member.read().unwrap_or_default();
        let at = self.timestamp.read::<WireTime>().map_or_else(|| time_of(self.id), milliseconds);
        Posted {
            id: message_id(self.id),
            place: place(self.channel_id),
            parent: None,
            guild: self.guild_id.map(|id| id.to_string()).or_else(|| guild.map(str::to_owned)),
            author: Author {
                person: person(self.author.id),
                joined: member.joined_at.read::<WireTime>().map(milliseconds),
                roles: member.roles.iter().map(ToString::to_string).collect(),
                name: member.nick.filter(|nick| !nick.is_empty()).unwrap_or_else(|| self.author.into_name()),
                kind,
            },
            text: self.content,
            mentions_us,
            reply_to,
            attachments: attachments(self.attachments),
            locale: None,
            may_answer: true,
            at,
            draw: None,
            tools: true,
            given: None,
            models: WantedModels::default(),
            lineage: None,
        }
    }

    fn author_kind(&self, me: UserId) -> AuthorKind {
        if self.author.id == me {
            AuthorKind::Ourselves
        } else if self.author.system || !is_written(self.kind) {
            AuthorKind::System
        } else if self.webhook_id.is_some() {
            AuthorKind::Webhook
        } else if self.author.bot {
            AuthorKind::Bot
        } else {
            AuthorKind::Member
        }
    }

    /// Pins, crossposts and forwards also carry references; only replies count. A crosspost is a regular message that
    /// refers to the channel of its source.
    fn quoted(&self, me: UserId) -> Option<Quoted> {
        if !matches!(self.kind, MessageType::Regular | MessageType::InlineReply) {
            return None;
        }
        let seen: Option<WireQuoted<'_>> = self.referenced_message.read();
        let reference: Option<WireReference> = self.message_reference.read();
        let is_elsewhere = |channel: ChannelId| channel != self.channel_id;
        if reference.as_ref().is_some_and(|found| found.kind != 0 || found.channel_id.is_some_and(is_elsewhere)) {
            return None;
        }
        let id = reference.and_then(WireReference::answered).or(seen.as_ref().map(|seen| seen.id))?;
        let seen = seen.filter(|seen| seen.id == id).map(|seen| Seen {
            author: person(seen.author.id),
            ours: seen.author.id == me,
            name: seen.author.into_name(),
            text: seen.content,
            attachments: attachments(seen.attachments),
            answers: seen.message_reference.read::<WireReference>().and_then(WireReference::answered).map(message_id),
        });
        Some(Quoted { id: message_id(id), seen })
    }
}

/// Returns the files of a message; unreadable ones are skipped. Members influence names and addresses, so each is
/// capped at Discord's limits.
fn attachments(raw: Tolerant<'_>) -> Vec<Attachment> {
    let files: Vec<&RawValue> = raw.read().unwrap_or_default();
    let read = |raw: &&RawValue| serde_json::from_str::<WireAttachment>(raw.get()).ok();
    let files = files.iter().filter_map(read).filter(|file| {
        let mime = file.content_type.as_deref().unwrap_or_default();
        file.filename.len() <= MAX_FILE_NAME && file.url.len() <= MAX_FILE_ADDRESS && mime.len() <= MAX_FILE_NAME
    });
    let neutral = files.map(|WireAttachment { filename: name, content_type: mime, size, url, width, height }| {
        Attachment { name, mime, size, url, width, height }
    });
    neutral.take(MAX_ATTACHMENTS).collect()
}

impl WireUser {
    pub(super) fn name(&self) -> &str {
        self.global_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.username)
    }

    fn into_name(self) -> String {
        self.name().to_owned()
    }
}

/// True if an account wrote the message. False for messages of Discord itself about joins, pins and boosts.
const fn is_written(kind: MessageType) -> bool {
    matches!(
        kind,
        MessageType::Regular
            | MessageType::InlineReply
            | MessageType::ChatInputCommand
            | MessageType::ContextMenuCommand
    )
}

fn milliseconds(time: WireTime) -> Timestamp {
    Timestamp(u64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap_or(0))
}

/// Returns the creation time contained in an id.
pub(super) fn time_of(id: WireMessageId) -> Timestamp {
    Timestamp((id.get() >> 22) + DISCORD_EPOCH)
}

#[cfg(test)]
mod tests;
