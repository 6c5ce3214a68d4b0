//! shard: owns one gateway connection.
//!
//! Supervised by: discord (permanent).
//! Receives: what its connection brings, and what became of the events that it handed on.
//! Sends: events to the gateway, each with a receipt.
//! A restart loses: the connection; the stored session is resumed, and the platform replays what was not safely taken.
//!
//! The stored sequence never passes an event that nobody durably owns. An event whose receipt dies with somebody else's mailbox
//! is handed on again.

mod catch_up;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::catch_up::{CatchUp, Gap, Newest};
use super::board::{Board, PartKind};
use super::gateway::GatewayMsg;
use super::handle::Handle;
use super::identify_queue::IdentifyQueueMsg;
use super::outbox::OutboxMsg;
use super::receipt::{Outcome, Receipt};
use super::running::{Exit, ExitSender, Live};
use super::supervisor::{Actor, Crash, Me};
use crate::domain::ids;
use crate::domain::ids::{Door, Timestamp};
use crate::domain::incoming::{Incoming, Posted};
use crate::domain::keys;
use crate::domain::restart::Backoff;
use crate::ports::{
    AfterClose, Clock, Closed, Dice, EventSource, IdentifyPermit, Session, Shard, Shown, Store, StreamEvent, Write,
};

/// Waits before a connection is tried again, after a first try at once. Only a session that lasted resets it.
const RECONNECT: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(30) };
/// How long a session must last to count as a good one: a platform that lets us in and throws us out is not asked at once.
const LASTED: Duration = Duration::from_secs(10);
/// How long the stored session may take to be read; then a new one begins.
const LOAD_WITHIN: Duration = Duration::from_secs(10);
/// How many communities are read back at once. Each waits for a request at a time, so answers keep their share of the budget.
const CATCH_UPS: usize = 4;
/// How long the gap of one community may take to be read back.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(15 * 60);
/// How often the session is written down.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How long a shard waits for its turn to identify before it tries a new connection.
const IDENTIFY_WITHIN: Duration = Duration::from_secs(15 * 60);
/// The most events that are handed on and not settled; further ones are dropped and counted.
const UNSETTLED_MAX: usize = 10_000;
/// How long a returned event waits before it is handed on again; after the last one it is given up. It may be what kills its
/// receivers, so the later waits are long enough to stay below the root's restart intensity.
const AGAIN_AFTER: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(20),
    Duration::from_secs(20),
    Duration::from_secs(20),
];

/// What a shard is told.
pub enum ShardMsg {
    /// The stored session was read.
    Loaded(Option<Session>),
    /// Time to connect.
    Connect,
    /// The connection of this generation brought something.
    Happened(u64, StreamEvent),
    /// An event is safely taken.
    Settled(u64),
    /// An event was lost on the way.
    Returned(u64),
    /// Time to hand a returned event on again.
    HandOn(u64),
    /// The reading back of a guild's gap went on.
    CaughtUp(String, CatchUp),
    /// Time to write the session down.
    Save,
}

/// What every shard needs.
#[derive(Clone)]
pub struct ShardParts {
    /// The door's name in ids and keys.
    pub door: Door,
    /// The platform.
    pub source: Arc<dyn EventSource>,
    /// Where the session is kept.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// When this process began to listen.
    pub began: Timestamp,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// What this process runs with.
    pub live: Live,
    /// How we are shown to people.
    pub presence: Shown,
    /// Where the shard's status is shown.
    pub board: Arc<Board>,
    /// Who takes events.
    pub gateway: Handle<GatewayMsg>,
    /// Who reads channels back.
    pub outbox: Handle<OutboxMsg>,
    /// Who lets it identify.
    pub identify_queue: Handle<IdentifyQueueMsg>,
    /// Told when the platform refuses us for good.
    pub exit: ExitSender,
}

/// The behaviour and its arguments.
pub struct ShardActor {
    /// Which shard.
    pub shard: Shard,
    /// What it needs.
    pub parts: ShardParts,
}

/// What a shard holds.
#[derive(Default)]
pub struct ShardState {
    session: Option<Session>,
    /// The session is of an earlier life, and nobody knows yet whether it can go on.
    inherited: bool,
    generation: u64,
    failures: u32,
    /// When the present session began or went on.
    up_since: Option<Instant>,
    /// Events handed on and not settled, by ticket.
    unsettled: BTreeMap<u64, Pending>,
    next_ticket: u64,
    /// The newest sequence seen.
    latest: u64,
    saved: Option<(String, u64)>,
    /// The newest settled message of each guild, not yet written down.
    watermarks: HashMap<String, Timestamp>,
    /// Guilds whose gap is still being read back: their watermark stays.
    catching_up: HashSet<String>,
    /// Those of them that wait for their turn.
    gaps: VecDeque<(String, Gap)>,
    /// Further gaps of those that are being read back already: they come next.
    further: HashMap<String, Newest>,
}

struct Pending {
    incoming: Incoming,
    sequence: Option<u64>,
    returns: usize,
}

impl Actor for ShardActor {
    type Msg = ShardMsg;
    type State = ShardState;

    fn start(&self, me: &mut Me<ShardMsg>) -> Result<ShardState, Crash> {
        let (parts, key) = (self.parts.clone(), self.session_key());
        me.task(
            async move {
                let stored = tokio::time::timeout(LOAD_WITHIN, parts.store.get(&key)).await.ok().flatten();
                let session = stored.and_then(|text| serde_json::from_str(&text).ok());
                if session.is_none() {
                    let noting = catch_up::note_first_listened(&parts);
                    // Whatever the store does, somebody has to listen.
                    let _ = tokio::time::timeout(LOAD_WITHIN, noting).await;
                }
                ShardMsg::Loaded(session)
            },
            |_| ShardMsg::Loaded(None),
        );
        me.after(SAVE_EVERY, ShardMsg::Save);
        self.parts.board.starting(PartKind::Shard, &self.name());
        Ok(ShardState::default())
    }

    async fn handle(&self, me: &mut Me<ShardMsg>, message: ShardMsg, state: &mut ShardState) -> Result<(), Crash> {
        match message {
            ShardMsg::Loaded(session) => {
                state.session = session.filter(|session| session.total == self.shard.total);
                state.inherited = state.session.is_some();
                state.latest = state.session.as_ref().map_or(0, |session| session.sequence);
                self.connect(me, state);
            }
            ShardMsg::Connect => self.connect(me, state),
            ShardMsg::Happened(generation, event) if generation == state.generation => self.happened(me, state, event),
            // A connection that was already given up may still have had a word on the way.
            ShardMsg::Happened(..) => {}
            ShardMsg::Settled(ticket) => state.settle(ticket),
            ShardMsg::Returned(ticket) => state.returned(me, ticket),
            ShardMsg::HandOn(ticket) => self.hand_on(me, state, ticket),
            ShardMsg::CaughtUp(guild, CatchUp::Read(messages)) => {
                tracing::debug!(guild, messages = messages.len(), "a place was read back");
                for posted in messages {
                    self.take(me, state, Incoming::Posted(posted), None);
                }
            }
            ShardMsg::CaughtUp(guild, CatchUp::Done) => {
                match state.further.remove(&guild) {
                    Some(newest) => state.gaps.push_back((guild, Gap { newest, again: false })),
                    None => drop(state.catching_up.remove(&guild)),
                }
                self.catch_up(me, state);
            }
            ShardMsg::CaughtUp(guild, CatchUp::Unknown(newest)) => {
                let newest = state.further.remove(&guild).unwrap_or(newest);
                state.gaps.push_back((guild, Gap { newest, again: true }));
                self.catch_up(me, state);
            }
            ShardMsg::Save => {
                drop(self.save(state));
                me.after(SAVE_EVERY, ShardMsg::Save);
            }
        }
        Ok(())
    }

    async fn stop(&self, _me: &mut Me<ShardMsg>, state: &mut ShardState) {
        if let Some(durable) = self.save(state) {
            // A store that takes longer writes it down when it closes.
            let _ = tokio::time::timeout(SAVE_EVERY, durable).await;
        }
        self.parts.board.down(PartKind::Shard, &self.name(), "stopped");
    }
}

impl ShardActor {
    fn name(&self) -> String {
        format!("{}:{}", self.parts.door, self.shard.number)
    }

    fn session_key(&self) -> String {
        keys::session(&self.parts.door, self.shard.number)
    }

    fn connect(&self, me: &mut Me<ShardMsg>, state: &mut ShardState) {
        state.generation += 1;
        let generation = state.generation;
        let session =
            state.session.as_ref().map(|session| Session { sequence: state.safe_sequence(), ..session.clone() });
        let mut stream = self.parts.source.connect(self.shard, session, self.permit(), self.parts.presence.clone());
        let handle = me.handle().clone();
        me.task(
            async move {
                loop {
                    match stream.next().await {
                        StreamEvent::Closed(closed) => {
                            return ShardMsg::Happened(generation, StreamEvent::Closed(closed));
                        }
                        event => {
                            if handle.cast(ShardMsg::Happened(generation, event)).is_err() {
                                let closed =
                                    Closed { reason: "the shard stopped".to_owned(), next: AfterClose::Resume };
                                return ShardMsg::Happened(generation, StreamEvent::Closed(closed));
                            }
                        }
                    }
                }
            },
            move |panic| {
                let closed = Closed { reason: format!("the reader panicked: {panic}"), next: AfterClose::Resume };
                ShardMsg::Happened(generation, StreamEvent::Closed(closed))
            },
        );
    }

    fn permit(&self) -> IdentifyPermit {
        let queue = self.parts.identify_queue.clone();
        let shard = self.shard;
        Box::new(move || {
            let queue = queue.clone();
            Box::pin(async move {
                let ask = |reply| IdentifyQueueMsg::Identify(shard, reply);
                queue.call(ask, IDENTIFY_WITHIN).await.unwrap_or(false)
            })
        })
    }

    fn happened(&self, me: &mut Me<ShardMsg>, state: &mut ShardState, event: StreamEvent) {
        if matches!(event, StreamEvent::Ready(_) | StreamEvent::Resumed) {
            state.inherited = false;
        }
        match event {
            StreamEvent::Ready(session) => {
                tracing::info!(
                    event = "gateway.ready",
                    shard = self.shard.number,
                    total = self.shard.total,
                    "session began"
                );
                state.up_since = Some(Instant::now());
                state.latest = session.sequence;
                state.session = Some(session);
                for pending in state.unsettled.values_mut() {
                    pending.sequence = None;
                }
                self.parts.board.up(PartKind::Shard, &self.name());
                drop(self.save(state));
            }
            StreamEvent::Resumed => {
                tracing::info!(event = "gateway.resumed", shard = self.shard.number, "session resumed");
                state.up_since = Some(Instant::now());
                self.parts.board.up(PartKind::Shard, &self.name());
            }
            StreamEvent::Incoming { sequence, incoming } => {
                state.latest = state.latest.max(sequence);
                self.take(me, state, *incoming, Some(sequence));
            }
            StreamEvent::Passed { sequence } => state.latest = state.latest.max(sequence),
            StreamEvent::Places { sequence, guild, newest } => {
                state.latest = state.latest.max(sequence);
                if state.catching_up.insert(guild.clone()) {
                    state.gaps.push_back((guild, Gap { newest, again: false }));
                    self.catch_up(me, state);
                } else {
                    state.further.insert(guild, newest);
                }
            }
            StreamEvent::Closed(closed) => self.closed(me, state, &closed),
        }
    }

    /// Begins to read back the next communities, as many as may at once.
    fn catch_up(&self, me: &mut Me<ShardMsg>, state: &mut ShardState) {
        while state.catching_up.len() - state.gaps.len() < CATCH_UPS
            && let Some((guild, gap)) = state.gaps.pop_front()
        {
            let (handle, last_guild) = (me.handle().clone(), guild.clone());
            let parts = self.parts.clone();
            me.task(
                async move {
                    let reading = catch_up::read_back(&parts, &guild, gap, &handle);
                    // What cannot be read in time is older than anybody still waits for.
                    let end = tokio::time::timeout(CATCH_UP_WITHIN, reading).await.unwrap_or(CatchUp::Done);
                    ShardMsg::CaughtUp(guild, end)
                },
                move |_| ShardMsg::CaughtUp(last_guild, CatchUp::Done),
            );
        }
    }

    fn closed(&self, me: &mut Me<ShardMsg>, state: &mut ShardState, closed: &Closed) {
        let Closed { reason, next } = closed;
        // Sessions live for minutes: after a longer break a new one is begun, and nothing is wrong.
        let outlived = *next == AfterClose::Identify && std::mem::take(&mut state.inherited);
        if !outlived {
            self.parts.board.down(PartKind::Shard, &self.name(), reason);
        }
        match next {
            AfterClose::Fatal => {
                tracing::error!(
                    event = "gateway.closed",
                    shard = self.shard.number,
                    reason,
                    "the platform refuses us for good"
                );
                self.parts.exit.send_replace(Some(Exit::Refused(reason.clone())));
                return;
            }
            AfterClose::Identify => {
                state.session = None;
                drop(self.parts.store.write(vec![Write::Delete { key: self.session_key() }]));
                state.saved = None;
            }
            AfterClose::Resume => {}
        }
        if state.up_since.take().is_some_and(|since| since.elapsed() >= LASTED) {
            state.failures = 0;
        }
        let delay = match state.failures {
            0 => Duration::ZERO,
            failures => RECONNECT.delay(failures, self.parts.dice.roll()),
        };
        state.failures = state.failures.saturating_add(1);
        let ms = ids::millis(delay);
        let shard = self.shard.number;
        if outlived {
            tracing::info!(event = "gateway.closed", shard, reason, next = ?next, again_in_ms = ms, "the stored session is over");
        } else {
            tracing::warn!(event = "gateway.closed", shard, reason, next = ?next, again_in_ms = ms, "connection closed");
        }
        me.after(delay, ShardMsg::Connect);
    }

    /// Hands an event on, and remembers it until it is settled.
    fn take(&self, me: &mut Me<ShardMsg>, state: &mut ShardState, incoming: Incoming, sequence: Option<u64>) {
        if state.unsettled.len() >= UNSETTLED_MAX {
            tracing::warn!(event = "turn.shed", r#where = "shard", "too many unsettled events; one was dropped");
            metrics::counter!("staffai_shed_total", "where" => "shard").increment(1);
            return;
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.unsettled.insert(ticket, Pending { incoming, sequence, returns: 0 });
        self.hand_on(me, state, ticket);
    }

    fn hand_on(&self, me: &mut Me<ShardMsg>, state: &mut ShardState, ticket: u64) {
        let Some(pending) = state.unsettled.get(&ticket) else { return };
        let shard = me.handle().clone();
        let receipt = Receipt::new(move |outcome| {
            // A shard that went down resumes from before this event.
            let _ = match outcome {
                Outcome::Settled => shard.cast(ShardMsg::Settled(ticket)),
                Outcome::Returned => shard.cast(ShardMsg::Returned(ticket)),
            };
        });
        let Some(us) = self.parts.source.us() else { return drop(receipt) };
        // A gateway that is down drops the receipt, and the event comes back.
        let _ = self.parts.gateway.cast(GatewayMsg::Received(Box::new(pending.incoming.clone()), us, receipt));
    }

    /// Writes down what changed; none when nothing did.
    fn save(&self, state: &mut ShardState) -> Option<futures_util::future::BoxFuture<'static, bool>> {
        let mut writes = Vec::new();
        let safe = state.safe_sequence();
        if let Some(session) = &state.session {
            let now = (session.id.clone(), safe);
            let record = Session { sequence: safe, ..session.clone() };
            if state.saved.as_ref() != Some(&now)
                && let Ok(value) = serde_json::to_string(&record)
            {
                writes.push(Write::Put { key: self.session_key(), value, ttl: Some(keys::SESSION_TTL) });
                state.saved = Some(now);
            }
        }
        let oldest = state.oldest_unsettled();
        let catching_up = &state.catching_up;
        state.watermarks.retain(|guild, at| {
            if catching_up.contains(guild) {
                return true;
            }
            // Never past a message that nobody durably owns; what lies behind it is written when that is settled.
            let held = oldest.get(guild).filter(|oldest| **oldest <= *at);
            let safe = held.map_or(*at, |oldest| Timestamp(oldest.0.saturating_sub(1)));
            let key = keys::watermark(&self.parts.door, guild);
            writes.push(Write::Put { key, value: safe.0.to_string(), ttl: Some(keys::WATERMARK_TTL) });
            held.is_some()
        });
        (!writes.is_empty()).then(|| self.parts.store.write(writes))
    }
}

impl ShardState {
    /// The newest sequence that may be stored: everything up to it is safely taken.
    fn safe_sequence(&self) -> u64 {
        let oldest = self.unsettled.values().filter_map(|pending| pending.sequence).min();
        oldest.map_or(self.latest, |oldest| oldest.saturating_sub(1).min(self.latest))
    }

    /// The oldest message of each community that nobody durably owns yet.
    fn oldest_unsettled(&self) -> HashMap<String, Timestamp> {
        let mut oldest: HashMap<String, Timestamp> = HashMap::new();
        for pending in self.unsettled.values() {
            if let Incoming::Posted(Posted { guild: Some(guild), at, .. }) = &pending.incoming {
                let first = oldest.entry(guild.clone()).or_insert(*at);
                *first = (*first).min(*at);
            }
        }
        oldest
    }

    fn returned(&mut self, me: &mut Me<ShardMsg>, ticket: u64) {
        let Some(pending) = self.unsettled.get_mut(&ticket) else { return };
        let Some(again_after) = AGAIN_AFTER.get(pending.returns) else {
            tracing::error!(event = "turn.shed", r#where = "shard", "an event came back too often; it was dropped");
            metrics::counter!("staffai_shed_total", "where" => "shard").increment(1);
            metrics::counter!("staffai_turns_lost_total").increment(1);
            self.unsettled.remove(&ticket);
            return;
        };
        pending.returns += 1;
        me.after(*again_after, ShardMsg::HandOn(ticket));
    }

    fn settle(&mut self, ticket: u64) {
        let Some(pending) = self.unsettled.remove(&ticket) else { return };
        if let Incoming::Posted(Posted { guild: Some(guild), at, .. }) = pending.incoming {
            let mark = self.watermarks.entry(guild).or_insert(at);
            *mark = (*mark).max(at);
        }
    }
}

#[cfg(test)]
mod tests;
