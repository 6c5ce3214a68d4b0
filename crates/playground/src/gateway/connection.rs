//! One gateway connection: reads the client's payloads, executes the hub's orders, and enforces Discord's rules.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use super::{
    encoder::Encoder,
    payloads::{Hearing, Reply},
};
use crate::{
    hub::{self, Order},
    line::Line,
    world::Core,
};

/// Maximum size of a client's payload, in bytes.
const LONGEST_PAYLOAD: usize = 4_096;
/// Maximum number of payloads in [`SEND_PERIOD`].
const SENDS: usize = 120;
const SEND_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of presence updates among them. Discord ignores more; here they are an error.
const PRESENCES: usize = 5;
/// Timeout of sending a frame.
const SEND_DEADLINE: Duration = Duration::from_secs(10);
/// Timeout of the client's close frame.
const CLOSE_DEADLINE: Duration = Duration::from_secs(1);
/// The close code for a close frame without one.
const NO_CODE: u16 = 1005;

/// The end of a connection, and its effect on the session.
enum End {
    Broken,
    Closed { session_too: bool },
}

/// A connection and its state.
pub struct Connection {
    core: Arc<Core>,
    id: u64,
    line: Line,
    socket: WebSocket,
    encoder: Encoder,
    at_resume_url: bool,
    sends: VecDeque<Instant>,
    presences: VecDeque<Instant>,
    heard: Instant,
}

impl Connection {
    /// Creates the connection with this id in the hub.
    #[must_use]
    pub fn new(core: Arc<Core>, id: u64, line: Line, wire: (WebSocket, Encoder), at_resume_url: bool) -> Self {
        let (socket, encoder) = wire;
        Self {
            core,
            id,
            line,
            socket,
            encoder,
            at_resume_url,
            sends: VecDeque::with_capacity(SENDS),
            presences: VecDeque::with_capacity(PRESENCES),
            heard: Instant::now(),
        }
    }

    /// Serves the connection until it ends.
    pub async fn run(mut self, mut orders: mpsc::Receiver<Order>, version_known: bool) {
        let end =
            if version_known { self.talk(&mut orders).await } else { self.close(4012, "invalid api version").await };
        let session_too = matches!(end, End::Closed { session_too: true });
        self.core.world().hub.close(self.id, session_too, Instant::now());
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
                // The order makes faults happen in the order requested, and counts a received heartbeat even if this
                // task is late. The client's payloads are rate limited, so they cannot delay orders for long.
                biased;
                () = self.line.broken() => Some(End::Broken),
                _ = frozen.changed() => None,
                frame = self.socket.recv() => match frame {
                    Some(Ok(frame)) => self.take(frame).await,
                    Some(Err(_)) | None => Some(End::Broken),
                },
                () = tokio::time::sleep_until(self.heard + self.core.heartbeat * 2) => {
                    Some(self.close(4009, "session timed out").await)
                }
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => Some(End::Broken),
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
                *self.core.world().tally.stats.client_closes.entry(code).or_default() += 1;
                return Some(End::Closed { session_too: matches!(code, 1000 | 1001) });
            }
            Message::Text(text) => self.hear(text.as_bytes()),
            Message::Binary(bytes) => self.hear(bytes),
        };
        match reply {
            Reply::Nothing => None,
            Reply::Send(text) => self.send(text).await,
            Reply::Close(code, reason) => Some(self.close(code, reason).await),
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Reply {
        let now = Instant::now();
        if !within(&mut self.sends, SENDS, now) {
            return Reply::Close(4008, "you are being rate limited");
        }
        if bytes.len() > LONGEST_PAYLOAD {
            return Reply::Close(4002, "payload too long");
        }
        let Ok(Value::Object(payload)) = serde_json::from_slice(bytes) else {
            return Reply::Close(4002, "error while decoding payload");
        };
        let op = payload.get("op").and_then(Value::as_u64);
        if op == Some(1) {
            self.heard = now;
        }
        if op == Some(3) && !within(&mut self.presences, PRESENCES, now) {
            return Reply::Close(4008, "the presence is set too often");
        }
        let mut world = self.core.world();
        let mut hearing =
            Hearing { core: &self.core, world: &mut world, connection: self.id, at_resume_url: self.at_resume_url };
        hearing.decide(op, payload.get("d").unwrap_or(&Value::Null))
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
        *self.core.world().tally.stats.closes.entry(code).or_default() += 1;
        let frame = CloseFrame { code, reason: reason.into() };
        if self.put(Message::Close(Some(frame))).await.is_none() {
            let answered = async { while let Some(Ok(_)) = self.socket.recv().await {} };
            // The client may not answer.
            let _ = timeout(CLOSE_DEADLINE, answered).await;
        }
        End::Closed { session_too: hub::ends_session(code) }
    }
}

/// Counts one more event and returns true, if that stays within `most` in [`SEND_PERIOD`].
fn within(sent: &mut VecDeque<Instant>, most: usize, now: Instant) -> bool {
    while sent.front().is_some_and(|first| now.duration_since(*first) >= SEND_PERIOD) {
        sent.pop_front();
    }
    let fits = sent.len() < most;
    if fits {
        sent.push_back(now);
    }
    fits
}
