//! Deleted messages.

use serde::Deserialize;
use serenity::model::id::GuildId;

use super::{WireMessageId, message_id};
use domain::ids::MessageId;

/// The most messages read from one bulk deletion; Discord deletes at most 100 at once.
pub(super) const BULK_MAX: usize = 1_000;

/// Returns the message of a `MESSAGE_DELETE`.
///
/// # Errors
/// It names no message.
pub fn deleted(json: &str) -> Result<Deleted, serde_json::Error> {
    #[derive(Deserialize)]
    struct One {
        id: WireMessageId,
        #[serde(default)]
        guild_id: Option<GuildId>,
    }
    let One { id, guild_id } = serde_json::from_str(json)?;
    Ok(Deleted { guild: guild_id.map(|guild| guild.to_string()), messages: vec![message_id(id)] })
}

/// Deleted messages of one guild, or of a direct conversation.
#[derive(Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The guild's id.
    pub guild: Option<String>,
    /// The messages, in order.
    pub messages: Vec<MessageId>,
}

/// Returns the messages of a `MESSAGE_DELETE_BULK`, in order, at most [`BULK_MAX`].
///
/// # Errors
/// It names no messages.
pub fn deleted_bulk(json: &str) -> Result<Deleted, serde_json::Error> {
    #[derive(Deserialize)]
    struct Bulk {
        ids: Vec<WireMessageId>,
        #[serde(default)]
        guild_id: Option<GuildId>,
    }
    let Bulk { ids, guild_id } = serde_json::from_str(json)?;
    let messages = ids.into_iter().take(BULK_MAX).map(message_id).collect();
    Ok(Deleted { guild: guild_id.map(|guild| guild.to_string()), messages })
}
