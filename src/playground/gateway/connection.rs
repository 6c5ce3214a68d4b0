//! One gateway connection: reads what the client sends, does what the hub orders, and keeps
//! Discord's rules about both.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use super::{
    encoder::Encoder,
    hub::{self, Asked, NoResume, Order},
    intents,
};
use crate::playground::{
    guild::ids::{GuildId, UserId},
    line::Line,
    wire,
    world::{Core, World},
};

/// The longest payload a client may send, in bytes.
const LONGEST_PAYLOAD: usize = 4_096;
/// Payloads a client may send in [`SEND_PERIOD`].
const SENDS: usize = 120;
const SEND_PERIOD: Duration = Duration::from_secs(60);
/// How long a frame may wait for a client that does not read.
const SEND_DEADLINE: Duration = Duration::from_secs(10);
/// How long a closed connection waits for the client's own close.
const CLOSE_DEADLINE: Duration = Duration::from_secs(1);
/// The close code that stands for a close frame without one.
const NO_CODE: u16 = 1005;

/// How a connection ended, and whether that ends its session.
enum End {
    Broken,
    Closed { session_too: bool },
}

/// What is done about a payload.
enum Reply {
    Nothing,
    Send(String),
    Close(u16, &'static str),
}

/// A connection and what it remembers.
pub struct Connection {
    core: Arc<Core>,
    id: u64,
    line: Line,
    socket: WebSocket,
    encoder: Encoder,
    at_resume_url: bool,
    sends: VecDeque<Instant>,
    heard: Instant,
}

impl Connection {
    /// A connection that the hub knows by `id`.
    #[must_use]
    pub fn new(
        core: Arc<Core>,
        (id, line): (u64, Line),
        wire: (WebSocket, Encoder),
        at_resume_url: bool,
    ) -> Self {
        let (socket, encoder) = wire;
        Self {
            core,
            id,
            line,
            socket,
            encoder,
            at_resume_url,
            sends: VecDeque::with_capacity(SENDS),
            heard: Instant::now(),
        }
    }

    /// Serves the connection until it ends.
    pub async fn run(mut self, mut orders: mpsc::Receiver<Order>, version_known: bool) {
        let end = if version_known {
            self.talk(&mut orders).await
        } else {
            self.close(4012, "invalid api version").await
        };
        let session_too = matches!(end, End::Closed { session_too: true });
        self.core
            .world()
            .hub
            .close(self.id, session_too, Instant::now());
    }

    async fn talk(&mut self, orders: &mut mpsc::Receiver<Order>) -> End {
        let interval = u64::try_from(self.core.heartbeat.as_millis()).unwrap_or(u64::MAX);
        let hello = json!({"t": null, "s": null, "op": 10, "d": {"heartbeat_interval": interval, "_trace": ["[\"playground\",{}]"]}});
        let mut frozen = self.core.frozen.subscribe();
        let mut greeted = false;
        loop {
            if *frozen.borrow_and_update() {
                tokio::select! {
                    () = self.line.broken() => return End::Broken,
                    _ = frozen.changed() => {}
                }
                self.heard = Instant::now();
                continue;
            }
            if !greeted {
                greeted = true;
                if let Some(end) = self.send(&hello.to_string()).await {
                    return end;
                }
            }
            let end = tokio::select! {
                () = self.line.broken() => Some(End::Broken),
                _ = frozen.changed() => None,
                () = tokio::time::sleep_until(self.heard + self.core.heartbeat * 2) => {
                    Some(self.close(4009, "session timed out").await)
                }
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => Some(End::Broken),
                },
                frame = self.socket.recv() => match frame {
                    Some(Ok(frame)) => self.take(frame).await,
                    Some(Err(_)) | None => Some(End::Broken),
                },
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    async fn obey(&mut self, order: Order) -> Option<End> {
        match order {
            Order::Control(text) => self.send(&text).await,
            Order::Raw(bytes) => self.put(Message::Binary(bytes)).await,
            Order::Close(code, reason) => Some(self.close(code, reason).await),
            Order::Event(text) => {
                let (copies, cut) = {
                    let script = &mut self.core.world().script;
                    (script.copies, script.cut_here())
                };
                if cut == Some(true) {
                    self.line.cut();
                    return Some(End::Broken);
                }
                for _ in 0..=copies {
                    if let Some(end) = self.send(&text).await {
                        return Some(end);
                    }
                }
                if cut.is_some() {
                    self.line.cut();
                    return Some(End::Broken);
                }
                None
            }
        }
    }

    async fn take(&mut self, frame: Message) -> Option<End> {
        let reply = match &frame {
            Message::Ping(_) | Message::Pong(_) => Reply::Nothing,
            Message::Close(close) => {
                let code = close.as_ref().map_or(NO_CODE, |close| close.code);
                *self
                    .core
                    .world()
                    .tally
                    .stats
                    .client_closes
                    .entry(code)
                    .or_default() += 1;
                return Some(End::Closed {
                    session_too: matches!(code, 1000 | 1001),
                });
            }
            Message::Text(text) => self.hear(text.as_bytes()),
            Message::Binary(bytes) => self.hear(bytes),
        };
        match reply {
            Reply::Nothing => None,
            Reply::Send(text) => self.send(&text).await,
            Reply::Close(code, reason) => Some(self.close(code, reason).await),
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Reply {
        let now = Instant::now();
        while self
            .sends
            .front()
            .is_some_and(|first| now.duration_since(*first) >= SEND_PERIOD)
        {
            self.sends.pop_front();
        }
        if self.sends.len() >= SENDS {
            return Reply::Close(4008, "you are being rate limited");
        }
        self.sends.push_back(now);
        if bytes.len() > LONGEST_PAYLOAD {
            return Reply::Close(4002, "payload too long");
        }
        let Ok(Value::Object(payload)) = serde_json::from_slice(bytes) else {
            return Reply::Close(4002, "error while decoding payload");
        };
        let data = payload.get("d").unwrap_or(&Value::Null);
        let core = self.core.clone();
        let mut world = core.world();
        let known = world.hub.authenticated(self.id);
        match payload.get("op").and_then(Value::as_u64) {
            Some(1) => {
                self.heard = now;
                world.tally.stats.heartbeats += 1;
                if world.script.stop_acks {
                    Reply::Nothing
                } else {
                    Reply::Send(r#"{"t":null,"s":null,"op":11,"d":null}"#.to_owned())
                }
            }
            Some(2 | 6) if known => Reply::Close(4005, "already authenticated"),
            Some(2) => self.identify(&mut world, data),
            Some(6) => self.resume(&mut world, data),
            Some(3 | 4 | 8 | 31) if !known => Reply::Close(4003, "not authenticated"),
            Some(3) => {
                world.tally.stats.presence_updates += 1;
                if let Some(shard) = world.hub.shard_of(self.id) {
                    world.presences.insert(shard, data.clone());
                }
                Reply::Nothing
            }
            Some(4 | 31) => Reply::Nothing,
            Some(8) => self.send_members(&mut world, data),
            Some(_) => Reply::Close(4001, "unknown opcode"),
            None => Reply::Close(4002, "error while decoding payload"),
        }
    }

    fn token_fits(&self, world: &World, data: &Value) -> bool {
        let token = data["token"].as_str().unwrap_or_default();
        token.strip_prefix("Bot ").unwrap_or(token) == self.core.token && !world.script.reject_token
    }

    fn identify(&self, world: &mut World, data: &Value) -> Reply {
        if !self.token_fits(world, data) {
            return Reply::Close(4004, "authentication failed");
        }
        let asked = match self.asked(world, data) {
            Ok(asked) => asked,
            Err((code, reason)) => return Reply::Close(code, reason),
        };
        let Some(session) = world.hub.begin(self.id, asked, Instant::now()) else {
            world.tally.stats.identifies_refused += 1;
            return Reply::Send(r#"{"t":null,"s":null,"op":9,"d":false}"#.to_owned());
        };
        world.tally.stats.identifies += 1;
        if !data["presence"].is_null() {
            world
                .presences
                .insert(asked.shard.0, data["presence"].clone());
        }
        let (shard, shards) = asked.shard;
        let mine = |guild: GuildId| (guild.0 >> 22) % u64::from(shards) == u64::from(shard);
        let guilds: Vec<_> = world
            .state
            .guilds()
            .iter()
            .filter(|guild| mine(guild.id))
            .collect();
        let ready = json!({
            "v": 10,
            "user_settings": {},
            "user": wire::own_user(world.state.bot()),
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
            "application": {"id": world.state.bot().id, "flags": wire::application_flags(self.core.privileged)},
            "_trace": ["[\"playground\",{}]"],
        });
        let created: Vec<_> = if asked.intents & intents::GUILDS == 0 {
            Vec::new()
        } else {
            guilds
                .iter()
                .map(|guild| wire::guild_create(&world.state, guild).to_string())
                .collect()
        };
        world.hub.send(&session, "READY", &ready.to_string());
        for guild in created {
            world.hub.send(&session, "GUILD_CREATE", &guild);
        }
        world.hub.ready();
        Reply::Nothing
    }

    fn asked(&self, world: &World, data: &Value) -> Result<Asked, (u16, &'static str)> {
        let shard = match &data["shard"] {
            Value::Null => Some((0, 1)),
            pair => {
                let number = |at: usize| {
                    pair.get(at)
                        .and_then(Value::as_u64)
                        .and_then(|n| u32::try_from(n).ok())
                };
                number(0).zip(number(1))
            }
        };
        let Some((shard, shards)) = shard.filter(|(shard, shards)| shard < shards) else {
            return Err((4010, "invalid shard"));
        };
        if shards < world.script.required_shards {
            return Err((4011, "sharding required"));
        }
        let Some(intents) = data["intents"]
            .as_u64()
            .filter(|bits| bits & !intents::KNOWN == 0)
        else {
            return Err((4013, "invalid intent(s)"));
        };
        let refused =
            (intents::PRIVILEGED & !self.core.privileged) | world.script.disallowed_intents;
        if intents & refused != 0 {
            return Err((4014, "disallowed intent(s)"));
        }
        Ok(Asked {
            shard: (shard, shards),
            intents,
        })
    }

    fn resume(&self, world: &mut World, data: &Value) -> Reply {
        if !self.token_fits(world, data) {
            return Reply::Close(4004, "authentication failed");
        }
        let invalid = || Reply::Send(r#"{"t":null,"s":null,"op":9,"d":false}"#.to_owned());
        if world.script.close_resumes.0 > 0 {
            world.script.close_resumes.0 -= 1;
            world.tally.stats.resumes_refused += 1;
            return Reply::Close(world.script.close_resumes.1, "closed on command");
        }
        if world.script.refuse_resumes > 0 {
            world.script.refuse_resumes -= 1;
            world.tally.stats.resumes_refused += 1;
            return invalid();
        }
        let session = data["session_id"].as_str().unwrap_or_default();
        let Some(seq) = data["seq"].as_u64() else {
            return Reply::Close(4007, "invalid seq");
        };
        match world.hub.resume(self.id, session, seq, Instant::now()) {
            Ok(replayed) => {
                world.tally.stats.resumes += 1;
                world.tally.stats.resumes_at_resume_url += u64::from(self.at_resume_url);
                world.tally.stats.replayed += replayed as u64;
                Reply::Nothing
            }
            Err(why) => {
                world.tally.stats.resumes_refused += 1;
                match why {
                    NoResume::Unknown => invalid(),
                    NoResume::BadSequence => Reply::Close(4007, "invalid seq"),
                }
            }
        }
    }

    fn send_members(&self, world: &mut World, data: &Value) -> Reply {
        let asked = &data["guild_id"];
        // The guild may come alone or as the one entry of a list.
        let asked = asked
            .get(0)
            .unwrap_or(asked)
            .as_str()
            .and_then(|id| id.parse().ok());
        let Some(guild) = asked.and_then(|id| world.state.guild(id)) else {
            return Reply::Nothing;
        };
        let ids: Option<Vec<UserId>> = match &data["user_ids"] {
            Value::Array(list) => Some(
                list.iter()
                    .filter_map(|id| id.as_str()?.parse().ok())
                    .collect(),
            ),
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
        world
            .hub
            .send_on(self.id, "GUILD_MEMBERS_CHUNK", &chunk.to_string());
        Reply::Nothing
    }

    async fn send(&mut self, text: &str) -> Option<End> {
        match self.encoder.frame(text) {
            Some(frame) => self.put(frame).await,
            None => Some(End::Broken),
        }
    }

    async fn put(&mut self, frame: Message) -> Option<End> {
        let sent = tokio::select! {
            () = self.line.broken() => return Some(End::Broken),
            sent = timeout(SEND_DEADLINE, self.socket.send(frame)) => sent,
        };
        if matches!(sent, Ok(Ok(()))) {
            return None;
        }
        self.line.cut();
        Some(End::Broken)
    }

    async fn close(&mut self, code: u16, reason: &'static str) -> End {
        *self
            .core
            .world()
            .tally
            .stats
            .closes
            .entry(code)
            .or_default() += 1;
        let frame = CloseFrame {
            code,
            reason: reason.into(),
        };
        if self.put(Message::Close(Some(frame))).await.is_none() {
            let answered = async { while let Some(Ok(_)) = self.socket.recv().await {} };
            // A client that does not answer is simply left.
            let _ = timeout(CLOSE_DEADLINE, answered).await;
        }
        End::Closed {
            session_too: hub::ends_session(code),
        }
    }
}
