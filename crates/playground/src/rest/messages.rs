//! Messages: create, read, edit, delete, and the typing indicator.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{
    RestRequest,
    answer::{ApiError, RestReply},
    body::{self, Form},
    draft::{draft, is_empty, reply},
};
use crate::{
    guild::{
        Attachment, ChannelKind, Message, MessageInput,
        ids::{ChannelId, MessageId},
        permissions as may,
    },
    wire,
    world::World,
};

type Outcome = Result<RestReply, ApiError>;

/// The maximum and the default number of messages per response.
const LISTED: usize = 100;
const LISTED_USUALLY: usize = 50;
/// Maximum length of a thread's name, in characters.
const THREAD_NAME: usize = 100;
/// Maximum length of an emoji, or of the name and id of a server's own, in characters.
const EMOJI: usize = 64;

/// Creates a message as the bot.
pub fn create(world: &mut World, channel: ChannelId, asked: &RestRequest) -> Outcome {
    writable(world, channel, may::SEND_MESSAGES)?;
    let Form { json, files } = body::read(asked)?;
    let mut draft = draft(&json)?;
    draft.files = files;
    draft.reply_to = reply(world, channel, &json)?;
    if draft.reply_to.is_some() && !allowed(world, channel, may::READ_HISTORY) {
        return Err(ApiError::new(400, 160_002, "Cannot reply without permission to read message history"));
    }
    let stickers = json.get("sticker_ids").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if is_empty(&draft) && !stickers {
        return Err(ApiError::new(400, 50_006, "Cannot send an empty message"));
    }
    let author = world.state.bot().id;
    let enforced = json.get("enforce_nonce").and_then(Value::as_bool).unwrap_or(false);
    if let Some(nonce) = draft.nonce.as_deref().filter(|_| enforced)
        && let Some(first) = world.state.by_nonce(channel, author, nonce, world.now())
    {
        let first = wire::message(&world.state, first);
        world.tally.stats.duplicate_nonces += 1;
        return Ok(RestReply::ok(first));
    }
    let message = world.post(channel, author, draft).ok_or_else(ApiError::unknown_channel)?;
    Ok(RestReply::ok(wire::message(&world.state, &message)))
}

/// Returns messages, newest first.
pub fn list(world: &World, channel: ChannelId, asked: &RestRequest) -> Outcome {
    readable(world, channel)?;
    let limit = match asked.parameter("limit").map(str::parse) {
        None => LISTED_USUALLY,
        Some(Ok(limit)) if (1..=LISTED).contains(&limit) => limit,
        Some(_) => {
            return Err(ApiError::field("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100."));
        }
    };
    let pivot = |name: &str| asked.parameter(name).and_then(|id| id.parse::<MessageId>().ok());
    let older = |than: MessageId, many: usize| -> Vec<&Message> {
        world.state.public(channel).rev().filter(|message| message.id < than).take(many).collect()
    };
    let newer = |than: MessageId, many: usize| -> Vec<&Message> {
        let mut next: Vec<_> = world.state.public(channel).filter(|message| message.id > than).take(many).collect();
        next.reverse();
        next
    };
    let found = if let Some(id) = pivot("around") {
        let mut found = newer(id, limit / 2);
        found.extend(world.state.message(channel, id));
        let rest = limit.saturating_sub(found.len());
        found.extend(older(id, rest));
        found
    } else if let Some(id) = pivot("after") {
        newer(id, limit)
    } else {
        older(pivot("before").unwrap_or(MessageId(u64::MAX)), limit)
    };
    Ok(RestReply::ok(found.into_iter().map(|message| wire::message(&world.state, message)).collect()))
}

pub fn get(world: &World, channel: ChannelId, id: MessageId) -> Outcome {
    readable(world, channel)?;
    let message = world.state.message(channel, id).ok_or_else(ApiError::unknown_message)?;
    Ok(RestReply::ok(wire::message(&world.state, message)))
}

/// Edits one of the bot's messages; absent fields are unchanged.
pub fn edit(world: &mut World, channel: ChannelId, id: MessageId, asked: &RestRequest) -> Outcome {
    writable(world, channel, 0)?;
    let Form { json, files } = body::read(asked)?;
    let change = MessageInput { files, ..draft(&json)? };
    let before = world.state.message(channel, id).ok_or_else(ApiError::unknown_message)?;
    if before.author != world.state.bot().id {
        return Err(ApiError::new(403, 50_005, "Cannot edit a message authored by another user"));
    }
    let has = |name: &str| json.contains_key(name);
    let after = MessageInput {
        content: if has("content") { change.content.clone() } else { before.content.clone() },
        embeds: if has("embeds") { change.embeds.clone() } else { before.embeds.clone() },
        components: if has("components") { change.components.clone() } else { before.components.clone() },
        ..MessageInput::default()
    };
    let mut attachments = kept(&json, &before.attachments);
    if is_empty(&after) && attachments.is_empty() && change.files.is_empty() {
        return Err(ApiError::new(400, 50_006, "Cannot send an empty message"));
    }
    let now = world.now();
    attachments.extend(change.files.into_iter().map(|file| world.state.attach(file, now)));
    let edited = world.edit(channel, id, |message| {
        message.content = after.content;
        message.embeds = after.embeds;
        message.components = after.components;
        message.attachments = attachments;
        if has("flags") {
            message.flags = change.flags;
        }
        if has("allowed_mentions") {
            message.allowed_mentions = change.allowed.raw;
        }
    });
    let edited = edited.ok_or_else(ApiError::unknown_message)?;
    Ok(RestReply::ok(wire::message(&world.state, &edited)))
}

/// Returns the attachments that an edit keeps: those that it names, or all if it names none.
fn kept(json: &Map<String, Value>, before: &[Attachment]) -> Vec<Attachment> {
    let Some(named) = json.get("attachments").and_then(Value::as_array) else { return before.to_vec() };
    let names = |file: &Attachment| named.iter().any(|named| named["id"].as_str() == Some(&file.id.to_string()));
    before.iter().filter(|file| names(file)).cloned().collect()
}

/// Deletes a message: the bot's own, or any with the permission.
pub fn delete(world: &mut World, channel: ChannelId, id: MessageId) -> Outcome {
    readable(world, channel)?;
    let message = world.state.message(channel, id).ok_or_else(ApiError::unknown_message)?;
    if message.author != world.state.bot().id {
        writable(world, channel, may::MANAGE_MESSAGES)?;
    }
    world.delete(channel, id);
    Ok(RestReply::nothing())
}

/// Shows the bot's typing indicator.
pub fn typing(world: &mut World, channel: ChannelId) -> Outcome {
    writable(world, channel, may::SEND_MESSAGES)?;
    let bot = world.state.bot().id;
    world.types(channel, bot);
    Ok(RestReply::nothing())
}

/// Opens a thread as the bot.
pub fn open_thread(world: &mut World, channel: ChannelId, message: Option<MessageId>, asked: &RestRequest) -> Outcome {
    writable(world, channel, may::CREATE_THREADS)?;
    let Form { json, .. } = body::read(asked)?;
    let name = json.get("name").and_then(Value::as_str).unwrap_or_default();
    if !(1..=THREAD_NAME).contains(&name.chars().count()) {
        return Err(ApiError::field("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length."));
    }
    if message.is_some_and(|message| world.state.channel(ChannelId(message.0)).is_some()) {
        return Err(ApiError::new(400, 160_004, "A thread has already been created for this message"));
    }
    let bot = world.state.bot().id;
    let thread = world.open_thread(channel, bot, message, name).ok_or_else(ApiError::unknown_message)?;
    Ok(RestReply::ok(wire::channel(&world.state, &thread)))
}

/// Adds or removes the bot's reaction.
pub fn react(world: &mut World, channel: ChannelId, id: MessageId, held: bool, asked: &RestRequest) -> Outcome {
    readable(world, channel)?;
    let emoji = asked.path.rsplit('/').nth(1).unwrap_or_default();
    let emoji = percent_decode_str(emoji).decode_utf8_lossy();
    if emoji.is_empty() || emoji.chars().count() > EMOJI {
        return Err(ApiError::new(400, 10_014, "Unknown Emoji"));
    }
    let bot = world.state.bot().id;
    let reacted = world.reacts(channel, id, bot, &emoji, held);
    reacted.then(RestReply::nothing).ok_or_else(ApiError::unknown_message)
}

fn readable(world: &World, channel: ChannelId) -> Result<(), ApiError> {
    world.state.channel(channel).map(|_| ()).ok_or_else(ApiError::unknown_channel)
}

fn writable(world: &World, id: ChannelId, right: u64) -> Result<(), ApiError> {
    world.state.channel(id).ok_or_else(ApiError::unknown_channel)?;
    if !allowed(world, id, right) || world.script.forbidden.contains(&id) {
        return Err(ApiError::missing_permissions());
    }
    Ok(())
}

/// True if the bot has a permission in a channel. Writing in threads has a permission of its own.
fn allowed(world: &World, id: ChannelId, right: u64) -> bool {
    let Some(channel) = world.state.channel(id) else { return false };
    let Some(guild) = channel.guild.and_then(|guild| world.state.guild(guild)) else { return true };
    let right = match channel.kind {
        ChannelKind::Thread if right == may::SEND_MESSAGES => may::SEND_IN_THREADS,
        _ => right,
    };
    guild.permissions_in(channel, world.state.bot().id) & right == right
}
