//! shard: owns one connection to the platform's gateway.
//!
//! Supervised by: discord (permanent).
//! Receives: the events of its connection, and the outcomes of the events that it passed on.
//! Sends: events to the gateway, each with a receipt.
//! A restart loses: the connection; the stored session is resumed, and the platform replays the events that were not
//! acknowledged. Places that could not be read back are in the store.
//!
//! At least once: the stored sequence never passes an event without a durable owner. If a crash of another actor drops
//! the receipt of an event, the shard sends the event again.

mod activity;
mod catch_up;
mod connection;
mod lanes;
mod marks;
mod quoted;
mod read_back;
mod saved;
mod surroundings;
mod unread_places;
mod unsettled;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::activity::{ActivePlaces, Activity};
use self::catch_up::{CatchUp, Gap, Newest, ReadUpTo};
use self::lanes::Lanes;
use self::marks::Watermarks;
use self::surroundings::{Surroundings, Unknown};
use self::unread_places::UnreadPlaces;
use self::unsettled::{Pending, Room};
use crate::messages::gateway::GatewayMsg;
use crate::messages::identify_queue::IdentifyQueueMsg;
use crate::messages::outbox::OutboxMsg;
use crate::observation::board::{Board, PartKind};
use crate::observers::Observers;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::basics::Basics;
use crate::services::running::ExitSender;
use domain::ids::{Door, Timestamp};
use domain::incoming::Seen;
use domain::keys;
use ports::{GatewaySession, Origin, PresenceUpdates, Shard, ShardedSource, StreamEvent, Subject};

/// The timeout for reading the stored session; after it a new session begins.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which the session is saved.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The services that every shard uses.
#[derive(Clone)]
pub struct ShardParts {
    /// The door's name in ids and keys.
    pub door: Door,
    /// The platform.
    pub source: Arc<dyn ShardedSource>,
    /// Configuration, store, time and randomness.
    pub basics: Basics,
    /// The time at which this process began to listen.
    pub began: Timestamp,
    /// The observers of events.
    pub observers: Observers,
    /// The presence that people see.
    pub presence: PresenceUpdates,
    /// The board that shows the shard's status.
    pub board: Arc<Board>,
    /// Receives events.
    pub gateway: Handle<GatewayMsg>,
    /// Reads channels back.
    pub outbox: Handle<OutboxMsg>,
    /// Grants permission to identify.
    pub identify_queue: Handle<IdentifyQueueMsg>,
    /// Notified when the platform refuses the bot permanently.
    pub exit: ExitSender,
}

/// The events from its connection, timers, tasks and receipts.
pub enum ShardEvent {
    /// The stored session was read.
    Loaded(Option<GatewaySession>),
    /// The stored record of unread places was read; `None` if there is none.
    UnreadLoaded(Option<String>),
    /// Time to connect.
    Connect,
    /// The connection delivered an event. Its end is its last event, and the next connection begins after that.
    Happened(StreamEvent),
    /// An event is acknowledged.
    Settled(u64),
    /// An event was lost on the way.
    Returned(u64),
    /// Time to send a returned event again.
    HandOn(u64),
    /// Progress of a guild's catch-up.
    CaughtUp(String, CatchUp),
    /// The data of a community or a place was read, as far as possible.
    Learnt(Unknown),
    /// The message that an event replies to was looked up.
    LookedUp(u64, Option<Box<Seen>>),
    /// Time to save the session.
    Save,
}

/// The behaviour and its arguments.
pub struct ShardActor {
    /// The shard's identity.
    pub shard: Shard,
    /// The services that it uses.
    pub parts: ShardParts,
}

/// The state of a shard.
#[derive(Default)]
pub struct ShardState {
    session: Option<GatewaySession>,
    /// True if the session is from a previous life and is not yet confirmed as resumable.
    inherited: bool,
    failures: u32,
    /// The time at which the current connection began or resumed the session.
    up_since: Option<Instant>,
    /// True if a connection of the current session lasted.
    lasted: bool,
    /// Events sent and not settled, by ticket.
    unsettled: BTreeMap<u64, Pending>,
    room: Room,
    next_ticket: u64,
    /// The newest sequence received.
    latest: u64,
    saved: Option<(String, u64)>,
    /// The position of each guild up to which its messages are settled.
    watermarks: Watermarks,
    /// The places that could not be read back.
    unread: UnreadPlaces,
    /// Guilds in catch-up, each with the sequence at which the session announced the gap; `None` if that was in an
    /// earlier session. Their watermark and the stored sequence do not advance, so a process that resumes the session
    /// receives the announcement of the gap again.
    catching_up: HashMap<String, Option<u64>>,
    /// The gaps that are queued.
    gaps: VecDeque<(String, Gap)>,
    /// Further gaps of guilds already in catch-up: they come next.
    further: HashMap<String, Newest>,
    /// The places of recent member activity.
    activity: Activity,
    /// The activity saved before the current session, read once.
    active: ActivePlaces,
    /// The number of further places that this session may read back without a known gap.
    others_left: usize,
    /// True if the catch-up of direct messages began in this life.
    direct_begun: bool,
    /// The times up to which the places of guilds have been read back.
    read_up_to: HashMap<String, ReadUpTo>,
    /// Communities and places without data from the session.
    surroundings: Surroundings,
    /// Members with messages that are queued behind an earlier one of theirs.
    lanes: Lanes,
    end: Option<DownAtEnd>,
}

/// Marks the shard as down on the board when its state is dropped, including by a crash.
struct DownAtEnd {
    board: Arc<Board>,
    name: String,
    reason: &'static str,
}

impl Drop for DownAtEnd {
    fn drop(&mut self) {
        self.board.down(PartKind::Shard, &self.name, self.reason);
    }
}

impl Actor for ShardActor {
    type Msg = Infallible;
    type Event = ShardEvent;
    type State = ShardState;

    fn start(&self, ctx: &mut ActorContext<ShardActor>) -> Result<ShardState, Crash> {
        let (parts, key) = (self.parts.clone(), self.session_key());
        ctx.task(
            async move {
                let stored = tokio::time::timeout(LOAD_TIMEOUT, parts.basics.store.get(&key)).await.ok().flatten();
                let session = stored.and_then(|text| serde_json::from_str(&text).ok());
                if session.is_none() {
                    let noting = catch_up::note_first_listened(&parts);
                    // The shard starts to listen regardless of the store's result.
                    let _ = tokio::time::timeout(LOAD_TIMEOUT, noting).await;
                }
                ShardEvent::Loaded(session)
            },
            |_| ShardEvent::Loaded(None),
        );
        self.load_unread(ctx);
        ctx.after(SAVE_EVERY, ShardEvent::Save);
        self.parts.board.starting(PartKind::Shard, &self.name());
        let end = DownAtEnd { board: Arc::clone(&self.parts.board), name: self.name(), reason: "the shard failed" };
        Ok(ShardState { end: Some(end), ..ShardState::default() })
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _state: &mut ShardState,
    ) -> Result<(), Crash> {
        match message {}
    }

    /// Events from members are outside events. They are redelivered in the next life: the session resumes before them,
    /// and gaps are read again.
    fn origin(event: &ShardEvent) -> Origin {
        match event {
            ShardEvent::Happened(StreamEvent::Incoming { sequence, incoming }) => {
                Origin::Outside(Some(Subject::of(&(sequence, incoming.subject()))))
            }
            ShardEvent::CaughtUp(_, CatchUp::Read { place, read, .. } | CatchUp::ReadAgain { place, read, .. }) => {
                let messages = &read.messages;
                Origin::Outside(Some(Subject::of(&(place, messages.len(), messages.first().map(|posted| &posted.id)))))
            }
            ShardEvent::Happened(..) | ShardEvent::LookedUp(..) => Origin::Outside(None),
            ShardEvent::Loaded(_)
            | ShardEvent::UnreadLoaded(_)
            | ShardEvent::Connect
            | ShardEvent::Settled(_)
            | ShardEvent::Returned(_)
            | ShardEvent::HandOn(_)
            | ShardEvent::CaughtUp(..)
            | ShardEvent::Learnt(_)
            | ShardEvent::Save => Origin::Own,
        }
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ShardEvent,
        state: &mut ShardState,
    ) -> Result<(), Crash> {
        match event {
            ShardEvent::Loaded(session) => {
                state.session = session.filter(|session| session.total == self.shard.total);
                state.inherited = state.session.is_some();
                state.latest = state.session.as_ref().map_or(0, |session| session.sequence);
                self.connect(ctx, state);
            }
            ShardEvent::UnreadLoaded(text) => self.unread_loaded(state, text.as_deref()),
            ShardEvent::Connect => self.connect(ctx, state),
            ShardEvent::Happened(event) => self.happened(ctx, state, event),
            ShardEvent::Settled(ticket) => state.settle(ticket),
            ShardEvent::Returned(ticket) => state.returned(ctx, ticket, &self.parts.observers),
            ShardEvent::HandOn(ticket) => self.hand_on(ctx, state, ticket),
            ShardEvent::CaughtUp(guild, progress) => self.caught_up(ctx, state, guild, progress),
            ShardEvent::Learnt(unknown) => {
                for ticket in state.surroundings.ended(&unknown) {
                    self.hand_on(ctx, state, ticket);
                }
            }
            ShardEvent::LookedUp(ticket, seen) => {
                if let Some(pending) = state.unsettled.get_mut(&ticket) {
                    pending.saw(seen.map(|seen| *seen));
                }
                let behind = state.lanes.release(ticket);
                for ticket in std::iter::once(ticket).chain(behind) {
                    self.hand_on(ctx, state, ticket);
                }
            }
            ShardEvent::Save => {
                self.read_again(ctx, state);
                drop(self.save(state));
                ctx.after(SAVE_EVERY, ShardEvent::Save);
            }
        }
        Ok(())
    }

    async fn stop(&self, _me: &mut ActorContext<ShardActor>, state: &mut ShardState) {
        if let Some(durable) = self.save(state) {
            // If the store takes longer, it writes the session when it closes.
            let _ = tokio::time::timeout(SAVE_EVERY, durable).await;
        }
        if let Some(end) = &mut state.end {
            end.reason = "stopped";
        }
    }
}

impl ShardActor {
    fn name(&self) -> String {
        format!("{}:{}", self.parts.door, self.shard.number)
    }

    fn session_key(&self) -> String {
        keys::session(&self.parts.door, self.shard.number)
    }
}

#[cfg(test)]
mod tests;
