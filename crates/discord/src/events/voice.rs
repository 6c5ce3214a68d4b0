//! Events about voice channels.

use std::fmt;

use serde::Deserialize;
use serenity::model::id::UserId;

/// A change of the bot's position in a guild.
#[derive(Debug, PartialEq)]
pub(crate) enum VoiceChange {
    /// The bot is in this channel, or in none.
    State { guild: String, channel: Option<String>, session: String },
    /// The voice server of the guild, or none for now.
    Server { guild: String, endpoint: Option<String>, token: Token },
}

/// A token that is never printed.
#[derive(PartialEq, Eq, Deserialize)]
pub(crate) struct Token(pub(crate) String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Reads a `VOICE_STATE_UPDATE`. `None` if it is about another account.
///
/// # Errors
/// It names no user or session.
pub(crate) fn state(data: &str, me: UserId) -> Result<Option<VoiceChange>, serde_json::Error> {
    #[derive(Deserialize)]
    struct State {
        #[serde(default, rename = "guild_id")]
        guild: Option<String>,
        #[serde(default, rename = "channel_id")]
        channel: Option<String>,
        #[serde(rename = "user_id")]
        user: UserId,
        #[serde(rename = "session_id")]
        session: String,
    }
    let State { guild, channel, user, session } = serde_json::from_str(data)?;
    let guild = guild.filter(|_| user == me);
    Ok(guild.map(|guild| VoiceChange::State { guild, channel, session }))
}

/// Reads a `VOICE_SERVER_UPDATE`.
///
/// # Errors
/// It names no guild or token.
pub(crate) fn server(data: &str) -> Result<VoiceChange, serde_json::Error> {
    #[derive(Deserialize)]
    struct Server {
        guild_id: String,
        #[serde(default)]
        endpoint: Option<String>,
        token: Token,
    }
    let Server { guild_id: guild, endpoint, token } = serde_json::from_str(data)?;
    Ok(VoiceChange::Server { guild, endpoint, token })
}
