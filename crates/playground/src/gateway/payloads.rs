//! Handles the payloads of gateway clients.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    guild::{
        Guild,
        ids::{ChannelId, GuildId, UserId},
    },
    hub::{IdentifyRequest, NoResume},
    intents, wire,
    world::{Core, World},
};

/// Maximum number of shards whose presence is kept.
const PRESENCES: usize = 1_024;

/// `INVALID_SESSION` that ends the session.
const INVALID_SESSION: &str = r#"{"t":null,"s":null,"op":9,"d":false}"#;
const HEARTBEAT_ACK: &str = r#"{"t":null,"s":null,"op":11,"d":null}"#;

/// The reply to a payload, in addition to events.
#[derive(Debug)]
pub enum Reply {
    /// None.
    Nothing,
    /// Sends this text.
    Send(&'static str),
    /// Closes the connection with this code and reason.
    Close(u16, &'static str),
}

/// The context of one payload.
pub struct Hearing<'a> {
    /// The immutable part.
    pub core: &'a Core,
    /// The mutable part.
    pub world: &'a mut World,
    /// The id of the connection.
    pub connection: u64,
    /// True if the connection uses the resume address.
    pub at_resume_url: bool,
}

impl Hearing<'_> {
    /// Handles a payload by its opcode and data.
    pub fn decide(&mut self, op: Option<u64>, data: &Value) -> Reply {
        let known = self.world.hub.authenticated(self.connection);
        match op {
            Some(1) => self.heartbeat(),
            Some(2 | 6) if known => Reply::Close(4005, "already authenticated"),
            Some(2) => self.identify(data),
            Some(6) => self.resume(data),
            Some(3 | 4 | 8 | 31) if !known => Reply::Close(4003, "not authenticated"),
            Some(3) => self.set_presence(data),
            Some(4) => {
                self.world.moves(data);
                Reply::Nothing
            }
            // Sounds are accepted without effect.
            Some(31) => Reply::Nothing,
            Some(8) => self.send_members(data),
            Some(_) => Reply::Close(4001, "unknown opcode"),
            None => Reply::Close(4002, "error while decoding payload"),
        }
    }

    fn heartbeat(&mut self) -> Reply {
        self.world.tally.stats.heartbeats += 1;
        if self.world.script.stop_acks { Reply::Nothing } else { Reply::Send(HEARTBEAT_ACK) }
    }

    fn set_presence(&mut self, data: &Value) -> Reply {
        self.world.tally.stats.presence_updates += 1;
        if let Some(shard) = self.world.hub.shard_of(self.connection) {
            self.keep_presence(shard, data);
        }
        Reply::Nothing
    }

    fn keep_presence(&mut self, shard: u32, presence: &Value) {
        let presences = &mut self.world.presences;
        if presences.len() < PRESENCES || presences.contains_key(&shard) {
            presences.insert(shard, presence.clone());
        }
    }

    fn token_fits(&self, data: &Value) -> bool {
        let token = data["token"].as_str().unwrap_or_default();
        token.strip_prefix("Bot ").unwrap_or(token) == self.core.token && !self.world.script.reject_token
    }

    fn identify(&mut self, data: &Value) -> Reply {
        if !self.token_fits(data) {
            return Reply::Close(4004, "authentication failed");
        }
        let asked = match self.asked(data) {
            Ok(asked) => asked,
            Err((code, reason)) => return Reply::Close(code, reason),
        };
        let Some(session) = self.world.hub.begin(self.connection, asked, Instant::now()) else {
            self.world.tally.stats.identifies_refused += 1;
            return Reply::Send(INVALID_SESSION);
        };
        self.world.tally.stats.identifies += 1;
        // A new session has no earlier presence.
        self.world.presences.remove(&asked.shard.0);
        if !data["presence"].is_null() {
            self.keep_presence(asked.shard.0, &data["presence"]);
        }
        let (shard, shards) = asked.shard;
        let mine = |guild: GuildId| (guild.0 >> 22) % u64::from(shards) == u64::from(shard);
        let guilds: Vec<_> = self.world.state.guilds().iter().filter(|guild| mine(guild.id)).collect();
        let ready = json!({
            "v": 10,
            "user_settings": {},
            "user": wire::own_user(self.world.state.bot()),
            "session_type": "normal",
            "session_id": session,
            "resume_gateway_url": self.core.resume_url(),
            "shard": [shard, shards],
            "relationships": [],
            "private_channels": [],
            "presences": [],
            "guilds": guilds.iter().map(|guild| json!({"id": guild.id, "unavailable": true})).collect::<Vec<_>>(),
            "guild_join_requests": [],
            "geo_ordered_rtc_regions": [],
            "auth": {},
            "application": {"id": self.world.state.bot().id, "flags": wire::application_flags(self.core.privileged)},
            "_trace": ["[\"playground\",{}]"],
        });
        let created: Vec<_> = if asked.intents & intents::GUILDS == 0 {
            Vec::new()
        } else {
            guilds.iter().map(|guild| self.guild_create(guild).to_string()).collect()
        };
        self.world.hub.send(&session, "READY", &ready.to_string());
        for guild in created {
            self.world.hub.send(&session, "GUILD_CREATE", &guild);
        }
        self.world.hub.ready();
        Reply::Nothing
    }

    /// Returns the data of `GUILD_CREATE`, with stale hints if that fault is on.
    fn guild_create(&self, guild: &Guild) -> Value {
        let mut data = wire::guild_create(&self.world.state, guild);
        if self.world.script.withheld.newest_messages {
            for channel in data["channels"].as_array_mut().into_iter().flatten() {
                let id = channel["id"].as_str().and_then(|id| id.parse::<ChannelId>().ok());
                let oldest = id.and_then(|id| self.world.state.public(id).next()).map(|message| message.id);
                channel["last_message_id"] = json!(oldest);
            }
            for thread in data["threads"].as_array_mut().into_iter().flatten() {
                thread["last_message_id"] = Value::Null;
            }
        }
        data
    }

    fn asked(&self, data: &Value) -> Result<IdentifyRequest, (u16, &'static str)> {
        let shard = match &data["shard"] {
            Value::Null => Some((0, 1)),
            pair => {
                let number = |at: usize| pair.get(at).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
                number(0).zip(number(1))
            }
        };
        let Some((shard, shards)) = shard.filter(|(shard, shards)| shard < shards) else {
            return Err((4010, "invalid shard"));
        };
        if shards < self.world.script.required_shards {
            return Err((4011, "sharding required"));
        }
        let Some(intents) = data["intents"].as_u64().filter(|bits| bits & !intents::KNOWN == 0) else {
            return Err((4013, "invalid intent(s)"));
        };
        let refused = (intents::PRIVILEGED & !self.core.privileged) | self.world.script.disallowed_intents;
        if intents & refused != 0 {
            return Err((4014, "disallowed intent(s)"));
        }
        Ok(IdentifyRequest { shard: (shard, shards), intents })
    }

    fn resume(&mut self, data: &Value) -> Reply {
        if !self.token_fits(data) {
            return Reply::Close(4004, "authentication failed");
        }
        if self.world.script.close_resumes.0 > 0 {
            self.world.script.close_resumes.0 -= 1;
            self.world.tally.stats.resumes_refused += 1;
            return Reply::Close(self.world.script.close_resumes.1, "closed on command");
        }
        if self.world.script.refuse_resumes > 0 {
            self.world.script.refuse_resumes -= 1;
            self.world.tally.stats.resumes_refused += 1;
            return Reply::Send(INVALID_SESSION);
        }
        let session = data["session_id"].as_str().unwrap_or_default();
        let Some(seq) = data["seq"].as_u64() else {
            return Reply::Close(4007, "invalid seq");
        };
        match self.world.hub.resume(self.connection, session, seq, Instant::now()) {
            Ok(replayed) => {
                self.world.tally.stats.resumes += 1;
                self.world.tally.stats.resumes_at_resume_url += u64::from(self.at_resume_url);
                self.world.tally.stats.replayed += replayed as u64;
                Reply::Nothing
            }
            Err(why) => {
                self.world.tally.stats.resumes_refused += 1;
                match why {
                    NoResume::Unknown => Reply::Send(INVALID_SESSION),
                    NoResume::BadSequence => Reply::Close(4007, "invalid seq"),
                }
            }
        }
    }

    fn send_members(&mut self, data: &Value) -> Reply {
        let asked = &data["guild_id"];
        // The guild may be a single value or a list of one.
        let asked = asked.get(0).unwrap_or(asked).as_str().and_then(|id| id.parse().ok());
        let Some(guild) = asked.and_then(|id| self.world.state.guild(id)) else {
            return Reply::Nothing;
        };
        let ids: Option<Vec<UserId>> = match &data["user_ids"] {
            Value::Array(list) => Some(list.iter().filter_map(|id| id.as_str()?.parse().ok()).collect()),
            Value::String(id) => Some(id.parse().into_iter().collect()),
            _ => None,
        };
        let prefix = data["query"].as_str().unwrap_or_default().to_lowercase();
        let limit = match data["limit"].as_u64().unwrap_or(0) {
            0 => usize::MAX,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let members = guild.members.iter().filter(|member| match &ids {
            Some(ids) => ids.contains(&member.id),
            None => member.name.to_lowercase().starts_with(&prefix),
        });
        let mut chunk = json!({
            "guild_id": guild.id,
            "members": members.take(limit).map(wire::member).collect::<Vec<_>>(),
            "chunk_index": 0,
            "chunk_count": 1,
            "not_found": [],
        });
        if !data["nonce"].is_null() {
            chunk["nonce"] = data["nonce"].clone();
        }
        self.world.hub.send_on(self.connection, "GUILD_MEMBERS_CHUNK", &chunk.to_string());
        Reply::Nothing
    }
}
