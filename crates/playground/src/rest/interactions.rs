//! Commands, and answers to interactions.

use serde_json::{Map, Value};

use super::{
    RestRequest,
    answer::{ApiError, RestReply},
    body::{self, Form},
    draft::{draft, is_empty},
};
use crate::{
    guild::{
        MessageInput,
        ids::{GuildId, MessageId},
    },
    interactions::{FIRST_ANSWER_MS, Interaction, TOKEN_LIFETIME_MS},
    wire,
    world::World,
};

type Outcome = Result<RestReply, ApiError>;

/// Only the member who began the interaction sees the message.
const EPHEMERAL: u64 = 1 << 6;
/// The bot is thinking.
const LOADING: u64 = 1 << 7;

pub fn commands(world: &World, scope: Option<GuildId>, asked: &RestRequest) -> RestReply {
    let mut commands = world.interactions.commands(scope).to_vec();
    if asked.parameter("with_localizations") != Some("true") {
        commands.iter_mut().for_each(without_localizations);
    }
    RestReply::ok(commands.into())
}

/// Removes the translations of a command and its options for clients that do not request them.
fn without_localizations(command: &mut Value) {
    if let Some(fields) = command.as_object_mut() {
        fields.retain(|name, _| !name.ends_with("_localizations"));
    }
    let options = command.get_mut("options").and_then(Value::as_array_mut);
    options.into_iter().flatten().for_each(without_localizations);
}

pub fn set_commands(world: &mut World, scope: Option<GuildId>, asked: &RestRequest) -> Outcome {
    let invalid = |_| ApiError::new(400, 50_109, "The request body contains invalid JSON.");
    let list: Vec<Map<String, Value>> = serde_json::from_slice(&asked.body).map_err(invalid)?;
    let named = list.iter().all(|command| command.get("name").is_some_and(Value::is_string));
    if !named || !world.set_commands(scope, list) {
        return Err(ApiError::new(400, 50_035, "Invalid Form Body"));
    }
    Ok(RestReply::ok(world.interactions.commands(scope).to_vec().into()))
}

/// Handles the first answer to an interaction.
pub fn callback(world: &mut World, id: MessageId, token: u64, asked: &RestRequest) -> Outcome {
    let now = world.now();
    let unknown = || ApiError::new(404, 10_062, "Unknown interaction");
    let known = world.interactions.by_token(token).filter(|known| known.id == id).ok_or_else(unknown)?;
    if now.saturating_sub(known.made_at) > FIRST_ANSWER_MS {
        return Err(unknown());
    }
    if known.answer.is_some() {
        return Err(ApiError::new(400, 40_060, "Interaction has already been acknowledged."));
    }
    let interaction = known.clone();
    let Form { json, files } = body::read(asked)?;
    let kind = json.get("type").and_then(Value::as_u64).unwrap_or(0);
    let data = json.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut original = None;
    match kind {
        1 | 6 | 8 | 9 => {}
        4 => {
            let spoken = MessageInput { files, ..spoken(&data)? };
            original = Some(write(world, &interaction, spoken)?);
        }
        5 => {
            let flags = flags(&data) & EPHEMERAL | LOADING;
            let thinking = MessageInput { flags, ..MessageInput::default() };
            original = Some(write(world, &interaction, thinking)?);
        }
        7 => {
            let source = interaction.message.ok_or_else(|| ApiError::new(400, 50_035, "Invalid Form Body"))?;
            rewrite(world, &interaction, source, &data)?;
            original = Some(source);
        }
        _ => {
            return Err(ApiError::field("type", "BASE_TYPE_CHOICES", "Value must be one of the known types."));
        }
    }
    if let Some(known) = world.interactions.by_token(token) {
        known.answer = Some(kind);
        known.answered_at = Some(now);
        known.original = original.or((kind == 6).then_some(interaction.message).flatten());
        known.form = matches!(kind, 8 | 9).then(|| Value::Object(data).to_string());
    }
    Ok(RestReply::nothing())
}

/// Adds a further message.
pub fn follow_up(world: &mut World, token: u64, asked: &RestRequest) -> Outcome {
    let interaction = alive(world, token)?;
    let Form { json, files } = body::read(asked)?;
    let draft = MessageInput { files, ..spoken(&json)? };
    // The first further message after a deferred answer takes its place.
    let waiting = interaction
        .original
        .filter(|id| world.state.message(interaction.channel, *id).is_some_and(|message| message.flags & LOADING != 0));
    let id = match waiting {
        Some(id) => rewrite(world, &interaction, id, &json).map(|()| id)?,
        None => write(world, &interaction, draft)?,
    };
    shown(world, &interaction, id)
}

pub fn get(world: &mut World, token: u64, id: Option<MessageId>) -> Outcome {
    let interaction = alive(world, token)?;
    let id = id.or(interaction.original).ok_or_else(ApiError::unknown_message)?;
    shown(world, &interaction, id)
}

pub fn edit(world: &mut World, token: u64, id: Option<MessageId>, asked: &RestRequest) -> Outcome {
    let interaction = alive(world, token)?;
    let id = id.or(interaction.original).ok_or_else(ApiError::unknown_message)?;
    let Form { json, files } = body::read(asked)?;
    rewrite(world, &interaction, id, &json)?;
    if !files.is_empty() {
        let now = world.now();
        let attachments: Vec<_> = files.into_iter().map(|file| world.state.attach(file, now)).collect();
        world.edit(interaction.channel, id, |message| message.attachments = attachments);
    }
    shown(world, &interaction, id)
}

pub fn delete(world: &mut World, token: u64, id: Option<MessageId>) -> Outcome {
    let interaction = alive(world, token)?;
    let id = id.or(interaction.original).ok_or_else(ApiError::unknown_message)?;
    world.delete(interaction.channel, id).ok_or_else(ApiError::unknown_message)?;
    Ok(RestReply::nothing())
}

fn alive(world: &mut World, token: u64) -> Result<Interaction, ApiError> {
    let now = world.now();
    let known = world.interactions.by_token(token).ok_or_else(|| ApiError::new(404, 10_015, "Unknown Webhook"))?;
    if now.saturating_sub(known.made_at) > TOKEN_LIFETIME_MS {
        return Err(ApiError::new(401, 50_027, "Invalid Webhook Token"));
    }
    Ok(known.clone())
}

fn flags(data: &Map<String, Value>) -> u64 {
    data.get("flags").and_then(Value::as_u64).unwrap_or(0)
}

fn spoken(data: &Map<String, Value>) -> Result<MessageInput, ApiError> {
    let mut draft = draft(data)?;
    if is_empty(&draft) {
        return Err(ApiError::new(400, 50_006, "Cannot send an empty message"));
    }
    draft.flags |= flags(data) & EPHEMERAL;
    Ok(draft)
}

fn write(world: &mut World, interaction: &Interaction, draft: MessageInput) -> Result<MessageId, ApiError> {
    let only_for = (draft.flags & EPHEMERAL != 0).then_some(interaction.member);
    let command = interaction.command.clone().map(|name| (interaction.member, name));
    let bot = world.state.bot().id;
    let posted = world.post(interaction.channel, bot, MessageInput { only_for, command, ..draft });
    posted.map(|message| message.id).ok_or_else(ApiError::unknown_channel)
}

fn rewrite(
    world: &mut World,
    interaction: &Interaction,
    id: MessageId,
    data: &Map<String, Value>,
) -> Result<(), ApiError> {
    let change = draft(data)?;
    let has = |name: &str| data.contains_key(name);
    let edited = world.edit(interaction.channel, id, |message| {
        if has("content") {
            message.content = change.content;
        }
        if has("embeds") {
            message.embeds = change.embeds;
        }
        if has("components") {
            message.components = change.components;
        }
        message.flags &= !LOADING;
    });
    edited.map(|_| ()).ok_or_else(ApiError::unknown_message)
}

fn shown(world: &World, interaction: &Interaction, id: MessageId) -> Outcome {
    let message = world.state.message(interaction.channel, id).ok_or_else(ApiError::unknown_message)?;
    Ok(RestReply::ok(wire::message(&world.state, message)))
}
