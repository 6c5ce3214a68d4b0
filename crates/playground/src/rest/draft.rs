//! Parses and checks the message in a request.

use serde_json::{Map, Value, json};

use super::answer::ApiError;
use crate::{
    guild::{
        MessageInput,
        ids::{ChannelId, MessageId},
        mentions::Allowed,
    },
    world::World,
};

/// Maximum length of a message, in characters.
const CONTENT: usize = 2_000;
/// Maximum length of a nonce, in characters.
const NONCE: usize = 25;
/// Maximum number of embeds of a message, and maximum length of all of them, in characters.
const EMBEDS: usize = 10;
const EMBED_TEXT: usize = 6_000;
/// Maximum lengths of an embed's title and a field's name, of its description, and of a field's value, in characters.
const EMBED_TITLE: usize = 256;
const EMBED_DESCRIPTION: usize = 4_096;
const EMBED_VALUE: usize = 1_024;
const EMBED_FIELDS: usize = 25;
/// Maximum number of top-level components of a message.
const COMPONENTS: usize = 40;
/// Flags that a sender may set: suppress embeds, suppress notifications, components version 2.
const SETTABLE: u64 = 1 << 2 | 1 << 12 | 1 << 15;

/// Parses the fields of a create or edit request, except files and the reply.
///
/// # Errors
/// A field is malformed or too long.
pub fn draft(json: &Map<String, Value>) -> Result<MessageInput, ApiError> {
    let content = match json.get("content") {
        None | Some(Value::Null) => "",
        Some(Value::String(content)) => content,
        Some(_) => {
            return Err(ApiError::field("content", "STRING_TYPE_CONVERT", "Could not interpret as string."));
        }
    };
    if content.chars().count() > CONTENT {
        return Err(ApiError::field("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length."));
    }
    let allowed = Allowed::read(json.get("allowed_mentions")).ok_or_else(|| {
        let text = "parse:[] and the ids of the same kind are mutually exclusive.";
        ApiError::field("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", text)
    })?;
    Ok(MessageInput {
        content: content.trim().to_owned(),
        nonce: nonce(json)?,
        embeds: embeds(json)?,
        components: objects(json, "components", COMPONENTS)?,
        flags: json.get("flags").and_then(Value::as_u64).unwrap_or(0) & SETTABLE,
        tts: json.get("tts").and_then(Value::as_bool).unwrap_or(false),
        allowed,
        ..MessageInput::default()
    })
}

/// Returns the message that it replies to. A missing one is an error unless the sender permits it.
///
/// # Errors
/// The message does not exist or is in another channel.
pub fn reply(world: &World, channel: ChannelId, json: &Map<String, Value>) -> Result<Option<MessageId>, ApiError> {
    let reference = match json.get("message_reference") {
        None | Some(Value::Null) => return Ok(None),
        Some(reference) => reference,
    };
    let unknown = || ApiError::field("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message");
    let number = |name: &str| -> Option<u64> {
        let value = &reference[name];
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let elsewhere = number("channel_id").is_some_and(|other| other != channel.0);
    let known = number("message_id").map(MessageId).filter(|id| world.state.message(channel, *id).is_some());
    if elsewhere {
        return Err(ApiError::field(
            "message_reference",
            "REPLIES_CANNOT_REFERENCE_OTHER_CHANNEL",
            "Cannot reply here",
        ));
    }
    match (known, reference["fail_if_not_exists"] != json!(false)) {
        (None, true) => Err(unknown()),
        (known, _) => Ok(known),
    }
}

/// True if it has no visible content.
#[must_use]
pub fn is_empty(draft: &MessageInput) -> bool {
    draft.content.is_empty() && draft.embeds.is_empty() && draft.components.is_empty() && draft.files.is_empty()
}

fn nonce(json: &Map<String, Value>) -> Result<Option<String>, ApiError> {
    let nonce = match json.get("nonce") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => {
            return Err(ApiError::field("nonce", "STRING_TYPE_CONVERT", "Could not interpret as string."));
        }
    };
    if nonce.chars().count() > NONCE {
        return Err(ApiError::field("nonce", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length."));
    }
    Ok(Some(nonce))
}

fn embeds(json: &Map<String, Value>) -> Result<Vec<Value>, ApiError> {
    let embeds = objects(json, "embeds", EMBEDS)?;
    let length = |value: &Value| value.as_str().map_or(0, |text| text.chars().count());
    let fields = |embed: &Value| -> usize {
        let fields = embed["fields"].as_array().into_iter().flatten();
        fields.map(|field| length(&field["name"]) + length(&field["value"])).sum()
    };
    let text: usize = embeds
        .iter()
        .map(|embed| {
            let own = length(&embed["title"]) + length(&embed["description"]);
            own + length(&embed["footer"]["text"]) + length(&embed["author"]["name"]) + fields(embed)
        })
        .sum();
    for embed in &embeds {
        whole(embed)?;
    }
    if text > EMBED_TEXT {
        let message = "Embed size exceeds maximum size of 6000";
        return Err(ApiError::field("embeds", "MAX_EMBED_SIZE_EXCEEDED", message));
    }
    Ok(embeds)
}

/// Checks one embed against Discord's limits.
fn whole(embed: &Value) -> Result<(), ApiError> {
    let too_long = |value: &Value, most: usize| value.as_str().is_some_and(|text| text.chars().count() > most);
    let fields = embed["fields"].as_array().map_or(&[][..], Vec::as_slice);
    let empty = |value: &Value| value.as_str().is_none_or(|text| text.trim().is_empty());
    let bad = |field: &Value| {
        let (name, value) = (&field["name"], &field["value"]);
        empty(name) || empty(value) || too_long(name, EMBED_TITLE) || too_long(value, EMBED_VALUE)
    };
    let long = too_long(&embed["title"], EMBED_TITLE) || too_long(&embed["description"], EMBED_DESCRIPTION);
    if long || fields.len() > EMBED_FIELDS || fields.iter().any(bad) {
        return Err(ApiError::field("embeds", "BASE_TYPE_BAD_LENGTH", "Must be within its length."));
    }
    let addresses = [&embed["url"], &embed["image"]["url"], &embed["thumbnail"]["url"]];
    for address in addresses.into_iter().filter_map(Value::as_str) {
        let scheme = address.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
        if !["http", "https", "attachment"].contains(&scheme) {
            let text = "Scheme must be one of ('http', 'https', 'attachment').";
            return Err(ApiError::field("embeds", "URL_TYPE_INVALID_SCHEME", text));
        }
    }
    Ok(())
}

fn objects(json: &Map<String, Value>, name: &str, most: usize) -> Result<Vec<Value>, ApiError> {
    match json.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) if items.len() <= most && items.iter().all(Value::is_object) => Ok(items.clone()),
        Some(_) => Err(ApiError::field(name, "BASE_TYPE_BAD_LENGTH", "Must be a list of objects within its length.")),
    }
}
