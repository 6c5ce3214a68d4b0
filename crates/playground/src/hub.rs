//! Sessions and connections, with the events that each session can replay. Pure, except for the queues to the
//! connections.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use crate::{guild::ids::GuildId, line::Line};

/// Maximum number of queued orders of a connection; a slower reader is disconnected. It must fit a whole replay.
pub const ORDERS: usize = 16_384;
/// Maximum number of open gateway connections.
const CONNECTIONS: usize = 1_024;
/// Maximum number of sessions; the one disconnected longest is evicted first.
const SESSIONS: usize = 1_024;
/// A multiplier that makes a counter look random, as session ids do.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Close codes that end the session.
const FATAL: [u16; 8] = [4004, 4007, 4009, 4010, 4011, 4012, 4013, 4014];

/// An order for a connection.
#[derive(Clone, Debug)]
pub enum Order {
    /// Sends an event; random cuts and duplicates apply.
    Event(Arc<str>),
    /// Sends any other payload.
    Control(Arc<str>),
    /// Sends one binary frame unchanged.
    Raw(Bytes),
    /// Closes with this code and reason.
    Close(u16, &'static str),
}

/// An event for all interested sessions.
pub struct Event {
    /// The event's name, such as `MESSAGE_CREATE`.
    pub name: &'static str,
    /// Its guild; `None` for direct messages.
    pub guild: Option<GuildId>,
    /// The required intent, as a bit.
    pub intent: u64,
    pub data: Value,
    /// Its data for sessions without the message content intent, if different.
    pub blank: Option<Value>,
}

/// The parameters of an IDENTIFY.
#[derive(Clone, Copy, Debug)]
pub struct IdentifyRequest {
    pub shard: (u32, u32),
    pub intents: u64,
}

/// The reason why a session cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResume {
    /// There is no such session, or its events are no longer available.
    Unknown,
    /// The sequence number was never sent.
    BadSequence,
}

/// The bounds of sessions.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The time that a disconnected session can be resumed.
    pub session_ttl: Duration,
    /// Events kept for a replay, at most half of [`ORDERS`].
    pub replay: usize,
    /// The time that one IDENTIFY blocks the next one in its bucket.
    pub identify_period: Duration,
    /// The number of buckets.
    pub max_concurrency: u32,
    /// Session starts per day.
    pub session_starts: u32,
}

struct Connection {
    orders: mpsc::Sender<Order>,
    line: Line,
    session: Option<String>,
}

struct Session {
    asked: IdentifyRequest,
    seq: u64,
    sent: VecDeque<(u64, Arc<str>)>,
    /// Events up to this sequence number can no longer be replayed.
    lost: u64,
    connection: Option<u64>,
    alone_since: Instant,
}

/// All sessions and connections.
pub struct Hub {
    bounds: Bounds,
    connections: HashMap<u64, Connection>,
    sessions: HashMap<String, Session>,
    identified: HashMap<u32, Instant>,
    next: u64,
    salt: u64,
    starts_left: u32,
    connected: watch::Sender<BTreeSet<u32>>,
}

impl Hub {
    /// Creates an empty hub. `connected` receives the shards with a connected session. `salt` makes session ids differ
    /// from those of an earlier hub.
    #[must_use]
    pub fn new(bounds: Bounds, salt: u64, connected: watch::Sender<BTreeSet<u32>>) -> Self {
        Self {
            starts_left: bounds.session_starts,
            bounds,
            connections: HashMap::new(),
            sessions: HashMap::new(),
            identified: HashMap::new(),
            next: 1,
            salt: salt.wrapping_mul(SPREAD),
            connected,
        }
    }

    /// Adds a connection. Returns `None` if there are too many.
    pub fn open(&mut self, line: Line) -> Option<(u64, mpsc::Receiver<Order>)> {
        if self.connections.len() >= CONNECTIONS {
            return None;
        }
        let (orders, queue) = mpsc::channel(ORDERS);
        let id = self.next;
        self.next += 1;
        self.connections.insert(id, Connection { orders, line, session: None });
        Some((id, queue))
    }

    /// Removes a connection; its session can be resumed for a while unless `end`.
    pub fn close(&mut self, connection: u64, end: bool, now: Instant) {
        let session = self.connections.remove(&connection).and_then(|connection| connection.session);
        if let Some(id) = session {
            if end {
                self.sessions.remove(&id);
            } else if let Some(session) = self.sessions.get_mut(&id)
                && session.connection == Some(connection)
            {
                session.connection = None;
                session.alone_since = now;
            }
        }
        self.tell_connected();
    }

    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns the total number of session starts.
    #[must_use]
    pub fn starts_total(&self) -> u32 {
        self.bounds.session_starts
    }

    /// Returns the number of remaining session starts.
    #[must_use]
    pub fn starts_left(&self) -> u32 {
        self.starts_left
    }

    /// True if a connection has a session.
    #[must_use]
    pub fn authenticated(&self, connection: u64) -> bool {
        self.connections.get(&connection).is_some_and(|connection| connection.session.is_some())
    }

    /// Returns the shard of a connection's session.
    #[must_use]
    pub fn shard_of(&self, connection: u64) -> Option<u32> {
        let session = self.connections.get(&connection)?.session.as_ref()?;
        Some(self.sessions.get(session)?.asked.shard.0)
    }

    /// Sends an event only to the session of one connection.
    pub fn send_on(&mut self, connection: u64, name: &str, data: &str) {
        let session = self.connections.get(&connection).and_then(|connection| connection.session.clone());
        if let Some(session) = session {
            self.send(&session, name, data);
        }
    }

    /// Begins a session and returns its id. Returns `None` if the IDENTIFY rate limit refuses it.
    pub fn begin(&mut self, connection: u64, asked: IdentifyRequest, now: Instant) -> Option<String> {
        let kind = asked.shard.0 % self.bounds.max_concurrency.max(1);
        let recent = self.identified.get(&kind).is_some_and(|at| now.duration_since(*at) < self.bounds.identify_period);
        if recent || self.starts_left == 0 {
            return None;
        }
        self.sweep(now);
        self.identified.insert(kind, now);
        self.starts_left -= 1;
        let id = format!("{:016x}{:016x}", self.salt, self.next.wrapping_mul(SPREAD));
        self.next += 1;
        let session =
            Session { asked, seq: 0, sent: VecDeque::new(), lost: 0, connection: Some(connection), alone_since: now };
        self.sessions.insert(id.clone(), session);
        self.connections.get_mut(&connection)?.session = Some(id.clone());
        Some(id)
    }

    /// Counts a READY.
    pub fn ready(&mut self) {
        self.tell_connected();
    }

    /// Sends an event only to one session.
    pub fn send(&mut self, session: &str, name: &str, data: &str) {
        let Some(known) = self.sessions.get_mut(session) else {
            return;
        };
        let text = known.record(name, data, self.bounds.replay);
        if let Some(connection) = known.connection {
            self.order(connection, Order::Event(text));
        }
    }

    /// Reconnects a session and replays missed events. Returns their number.
    ///
    /// # Errors
    /// The session or the sequence number is unknown.
    pub fn resume(&mut self, connection: u64, session: &str, seq: u64, now: Instant) -> Result<usize, NoResume> {
        self.sweep(now);
        let known = self.sessions.get_mut(session).ok_or(NoResume::Unknown)?;
        if seq > known.seq {
            self.sessions.remove(session);
            return Err(NoResume::BadSequence);
        }
        if seq < known.lost {
            self.sessions.remove(session);
            return Err(NoResume::Unknown);
        }
        let missed: Vec<_> = known.sent.iter().filter(|(n, _)| *n > seq).map(|(_, text)| text.clone()).collect();
        let before = known.connection.replace(connection);
        // The old connection may be half-open and unaware of it.
        if let Some(old) = before.and_then(|old| self.connections.get_mut(&old)) {
            old.session = None;
            old.line.cut();
        }
        if let Some(new) = self.connections.get_mut(&connection) {
            new.session = Some(session.to_owned());
        }
        let count = missed.len();
        for text in missed {
            self.order(connection, Order::Event(text));
        }
        self.send(session, "RESUMED", r#"{"_trace":["[\"playground\",{}]"]}"#);
        self.tell_connected();
        Ok(count)
    }

    /// Sends an event to every session that should receive it.
    pub fn publish(&mut self, event: &Event) {
        let data = event.data.to_string();
        let blank = event.blank.as_ref().map(Value::to_string);
        let mut late = Vec::new();
        for session in self.sessions.values_mut().filter(|session| session.wants(event)) {
            let full = session.asked.intents & crate::intents::MESSAGE_CONTENT != 0;
            let data = if full { &data } else { blank.as_ref().unwrap_or(&data) };
            let text = session.record(event.name, data, self.bounds.replay);
            late.extend(session.connection.map(|connection| (connection, text)));
        }
        for (connection, text) in late {
            self.order(connection, Order::Event(text));
        }
    }

    /// Queues an order for one connection. A connection with a full queue is dropped.
    pub fn order(&mut self, connection: u64, order: Order) {
        if let Some(connection) = self.connections.get(&connection)
            && connection.orders.try_send(order).is_err()
        {
            connection.line.cut();
        }
    }

    /// Queues an order for every connection.
    pub fn order_all(&mut self, order: &Order) {
        for connection in self.connections.values() {
            if connection.orders.try_send(order.clone()).is_err() {
                connection.line.cut();
            }
        }
    }

    /// Breaks every connection.
    pub fn cut_all(&mut self) {
        for connection in self.connections.values() {
            connection.line.cut();
        }
    }

    /// Closes every connection; fatal codes end the sessions.
    pub fn close_all(&mut self, code: u16, reason: &'static str) {
        if ends_session(code) {
            self.drop_connected_sessions();
        }
        self.order_all(&Order::Close(code, reason));
    }

    /// Sends `INVALID_SESSION` to every connection.
    pub fn invalidate_all(&mut self, resumable: bool) {
        if !resumable {
            self.drop_connected_sessions();
        }
        let text = format!(r#"{{"op":9,"d":{resumable},"s":null,"t":null}}"#);
        self.order_all(&Order::Control(text.into()));
    }

    /// Removes every session: disconnected ones at once, others when they disconnect.
    pub fn forget_idle(&mut self) {
        self.sessions.retain(|_, session| session.connection.is_some());
        for session in self.sessions.values_mut() {
            session.lost = u64::MAX;
        }
    }

    fn drop_connected_sessions(&mut self) {
        for connection in self.connections.values_mut() {
            if let Some(id) = connection.session.take() {
                self.sessions.remove(&id);
            }
        }
        self.tell_connected();
    }

    fn sweep(&mut self, now: Instant) {
        let ttl = self.bounds.session_ttl;
        let alive = |session: &Session| session.connection.is_some() || now.duration_since(session.alone_since) < ttl;
        self.sessions.retain(|_, session| alive(session));
        if self.sessions.len() >= SESSIONS {
            let alone = self.sessions.iter().filter(|(_, session)| session.connection.is_none());
            let oldest = alone.min_by_key(|(_, session)| session.alone_since).map(|(id, _)| id.clone());
            if let Some(oldest) = oldest {
                self.sessions.remove(&oldest);
            }
        }
    }

    fn tell_connected(&self) {
        let alive = self.sessions.values().filter(|session| session.connection.is_some() && session.seq > 0);
        let shards: BTreeSet<u32> = alive.map(|session| session.asked.shard.0).collect();
        self.connected.send_if_modified(|known| {
            let changed = *known != shards;
            *known = shards;
            changed
        });
    }
}

impl Session {
    fn wants(&self, event: &Event) -> bool {
        let (shard, shards) = self.asked.shard;
        let home = event.guild.map_or(0, |guild| (guild.0 >> 22) % u64::from(shards.max(1)));
        home == u64::from(shard) && (event.intent == 0 || self.asked.intents & event.intent != 0)
    }

    fn record(&mut self, name: &str, data: &str, keep: usize) -> Arc<str> {
        self.seq += 1;
        let seq = self.seq;
        let text: Arc<str> = format!(r#"{{"t":"{name}","s":{seq},"op":0,"d":{data}}}"#).into();
        if self.sent.len() >= keep.clamp(1, ORDERS / 2) {
            self.lost = self.lost.max(self.sent.pop_front().map_or(0, |(seq, _)| seq));
        }
        self.sent.push_back((seq, text.clone()));
        text
    }
}

/// True if closing a connection with `code` ends its session.
#[must_use]
pub fn ends_session(code: u16) -> bool {
    FATAL.contains(&code)
}
