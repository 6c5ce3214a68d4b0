//! Voice channels: the members in them, and the voice server to which the bot is sent. The service has no voice server of
//! its own.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::guild::Guild;
use crate::guild::ids::{ChannelId, GuildId, UserId};
use crate::intents;

use super::World;

/// The state of voice channels.
#[derive(Debug, Default)]
pub struct Voice {
    /// The endpoint of the voice server and its token. Without them, the bot is admitted nowhere.
    pub server: Option<(String, String)>,
    /// The channels of members.
    pub channels: HashMap<UserId, ChannelId>,
    /// The number of sessions of the bot.
    sessions: u64,
}

impl World {
    /// Handles the bot's request to move between voice channels.
    pub fn moves(&mut self, data: &Value) {
        let number = |name: &str| data[name].as_str().and_then(|id| id.parse::<u64>().ok());
        let Some(guild) = number("guild_id").map(GuildId) else { return };
        let Some((endpoint, token)) = self.voice.server.clone() else { return };
        let channel = number("channel_id").map(ChannelId);
        if channel.is_some() {
            self.voice.sessions += 1;
        }
        self.place_bot(guild, channel);
        if channel.is_some() {
            self.name_server(guild, &endpoint, &token);
        }
    }

    /// Changes the voice server of all channels. A bot that is in one is told.
    pub fn serve_voice(&mut self, endpoint: &str, token: &str) {
        self.voice.server = Some((endpoint.to_owned(), token.to_owned()));
        let Some(channel) = self.voice.channels.get(&self.state.bot().id) else { return };
        let holds = |guild: &&Guild| guild.channels.iter().any(|known| known.id == *channel);
        if let Some(guild) = self.state.guilds().iter().find(holds).map(|guild| guild.id) {
            self.name_server(guild, endpoint, token);
        }
    }

    fn name_server(&mut self, guild: GuildId, endpoint: &str, token: &str) {
        let data = json!({"guild_id": guild, "endpoint": endpoint, "token": token});
        self.publish("VOICE_SERVER_UPDATE", Some(guild), 0, data);
    }

    /// Moves the bot to a voice channel; `None` disconnects it.
    pub fn place_bot(&mut self, guild: GuildId, channel: Option<ChannelId>) {
        let bot = self.state.bot().id;
        match channel {
            Some(channel) => self.voice.channels.insert(bot, channel),
            None => self.voice.channels.remove(&bot),
        };
        let session = format!("voice-session-{}", self.voice.sessions);
        let data = json!({
            "guild_id": guild, "channel_id": channel, "user_id": bot, "session_id": session, "deaf": false,
            "mute": false, "self_deaf": false, "self_mute": false, "self_video": false, "suppress": false,
            "request_to_speak_timestamp": null,
        });
        self.publish("VOICE_STATE_UPDATE", Some(guild), intents::GUILD_VOICE_STATES, data);
    }
}
