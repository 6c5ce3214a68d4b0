//! shard: owns one gateway connection.
//!
//! Supervised by: discord (permanent).
//! Receives: what its connection brings, and what became of the events that it handed on.
//! Sends: events to the gateway, each with a receipt.
//! A restart loses: the connection; the stored session is resumed, and the platform replays what was not safely taken.
//!
//! The stored sequence never passes an event that nobody durably owns. An event whose receipt dies with somebody else's mailbox
//! is handed on again.

mod activity;
mod catch_up;
mod connection;
mod lanes;
mod quoted;
mod saved;
mod surroundings;
mod unsettled;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::activity::{ActivePlaces, Activity};
use self::catch_up::{CatchUp, Gap, Newest, ReadUpTo};
use self::lanes::Lanes;
use self::surroundings::Surroundings;
use self::unsettled::Pending;
use crate::account::Account;
use crate::messages::gateway::GatewayMsg;
use crate::messages::identify_queue::IdentifyQueueMsg;
use crate::messages::outbox::OutboxMsg;
use crate::observation::board::{Board, PartKind};
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::running::{ExitSender, Live};
use domain::ids::{Door, Timestamp};
use domain::incoming::{Incoming, Seen};
use domain::keys;
use ports::{Clock, Dice, Origin, PresenceUpdates, Session, Shard, ShardedSource, Store, StreamEvent, Subject};

/// How long the stored session may take to be read; then a new one begins.
const LOAD_WITHIN: Duration = Duration::from_secs(10);
/// How often the session is written down.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// What every shard needs.
#[derive(Clone)]
pub struct ShardParts {
    /// The door's name in ids and keys.
    pub door: Door,
    /// The platform.
    pub source: Arc<dyn ShardedSource>,
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
    /// Where what happens is told.
    pub account: Account,
    /// How we are shown to people.
    pub presence: PresenceUpdates,
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

/// What its connection, its timers, its tasks and its receipts tell it.
pub enum ShardEvent {
    /// The stored session was read.
    Loaded(Option<Session>),
    /// Time to connect.
    Connect,
    /// The connection brought something. Its end is the last that it brings, and the next one begins after that.
    Happened(StreamEvent),
    /// An event is safely taken.
    Settled(u64),
    /// An event was lost on the way.
    Returned(u64),
    /// Time to hand a returned event on again.
    HandOn(u64),
    /// The reading back of a guild's gap went on.
    CaughtUp(String, CatchUp),
    /// What could be read about a community was read.
    Learnt(String),
    /// What an event replies to was looked up.
    LookedUp(u64, Option<Box<Seen>>),
    /// Time to write the session down.
    Save,
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
    failures: u32,
    /// When the present connection began or resumed the session.
    up_since: Option<Instant>,
    /// A connection of the present session lasted.
    lasted: bool,
    /// Events handed on and not settled, by ticket.
    unsettled: BTreeMap<u64, Pending>,
    next_ticket: u64,
    /// The newest sequence seen.
    latest: u64,
    saved: Option<(String, u64)>,
    /// The newest settled message of each guild, not yet written down.
    watermarks: HashMap<String, Timestamp>,
    /// Guilds whose gap is still being read back, each with the place in the session where it was told of; none when that was in
    /// an earlier session. Their watermark stays, and so does the stored sequence: whoever takes the session up hears of the
    /// gap again.
    catching_up: HashMap<String, Option<u64>>,
    /// Those of them that wait for their turn.
    gaps: VecDeque<(String, Gap)>,
    /// Further gaps of those that are being read back already: they come next.
    further: HashMap<String, Newest>,
    /// Where members spoke to us lately.
    activity: Activity,
    /// What of that was written down before the present session began, read once.
    active: ActivePlaces,
    /// How many further places may be read back in this session although nothing is known to be missed there.
    others_left: usize,
    /// The gap of direct messages was begun in this life.
    direct_begun: bool,
    /// Up to where their places were read back already.
    read_up_to: HashMap<String, ReadUpTo>,
    /// Communities of which the session told nothing.
    surroundings: Surroundings,
    /// Members whose messages wait for an earlier one of theirs.
    lanes: Lanes,
    end: Option<DownAtEnd>,
}

/// Puts the shard down on the board when its state is dropped, also by a crash.
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
                let stored = tokio::time::timeout(LOAD_WITHIN, parts.store.get(&key)).await.ok().flatten();
                let session = stored.and_then(|text| serde_json::from_str(&text).ok());
                if session.is_none() {
                    let noting = catch_up::note_first_listened(&parts);
                    // Whatever the store does, somebody has to listen.
                    let _ = tokio::time::timeout(LOAD_WITHIN, noting).await;
                }
                ShardEvent::Loaded(session)
            },
            |_| ShardEvent::Loaded(None),
        );
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

    /// What members wrote is read again by the next life: the session resumes before it, and gaps are read back anew.
    fn origin(event: &ShardEvent) -> Origin {
        match event {
            ShardEvent::Happened(StreamEvent::Incoming { sequence, incoming }) => {
                Origin::Outside(Some(Subject::of(&(sequence, incoming.subject()))))
            }
            ShardEvent::CaughtUp(_, CatchUp::Read { place, messages, .. }) => {
                Origin::Outside(Some(Subject::of(&(place, messages.len(), messages.first().map(|posted| &posted.id)))))
            }
            ShardEvent::Happened(..) | ShardEvent::LookedUp(..) => Origin::Outside(None),
            ShardEvent::Loaded(_)
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
            ShardEvent::Connect => self.connect(ctx, state),
            ShardEvent::Happened(event) => self.happened(ctx, state, event),
            ShardEvent::Settled(ticket) => state.settle(ticket),
            ShardEvent::Returned(ticket) => state.returned(ctx, ticket, &self.parts.account),
            ShardEvent::HandOn(ticket) => self.hand_on(ctx, state, ticket),
            ShardEvent::CaughtUp(guild, CatchUp::Read { place, up_to, messages }) => {
                tracing::debug!(guild, messages = messages.len(), "a place was read back");
                let told_at = state.catching_up.get(&guild).copied().flatten();
                state.read_up_to.entry(guild).or_default().insert(place, up_to);
                for posted in messages {
                    self.take(ctx, state, Incoming::Posted(posted), told_at);
                }
            }
            ShardEvent::CaughtUp(guild, CatchUp::Done) => {
                let read = state.read_up_to.remove(&guild).unwrap_or_default();
                match state.further.remove(&guild) {
                    Some(newest) => {
                        let gap = Gap { read, ..state.gap(newest) };
                        state.gaps.push_back((guild, gap));
                    }
                    None => drop(state.catching_up.remove(&guild)),
                }
                self.catch_up(ctx, state);
            }
            ShardEvent::CaughtUp(guild, CatchUp::Unknown(newest)) => {
                let newest = state.further.remove(&guild).unwrap_or(newest);
                // What lies before that, back to the watermark, has yet to be read.
                state.read_up_to.remove(&guild);
                let gap = Gap { again: true, ..state.gap(newest) };
                state.gaps.push_back((guild, gap));
                self.catch_up(ctx, state);
            }
            ShardEvent::Learnt(community) => {
                for ticket in state.surroundings.ended(&community) {
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
                drop(self.save(state));
                ctx.after(SAVE_EVERY, ShardEvent::Save);
            }
        }
        Ok(())
    }

    async fn stop(&self, _me: &mut ActorContext<ShardActor>, state: &mut ShardState) {
        if let Some(durable) = self.save(state) {
            // A store that takes longer writes it down when it closes.
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
