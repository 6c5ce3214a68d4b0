//! Events that were sent to the gateway and have no durable owner yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::activity::DIRECT;
use super::surroundings::{self, Then};
use super::{ShardActor, ShardEvent, ShardState};
use crate::messages::gateway::GatewayMsg;
use crate::messages::receipt::{Outcome, Receipt};
use crate::observers::Observers;
use crate::runtime::supervisor::ActorContext;
use domain::happening::{Bound, Happening, WorkShed};
use domain::ids::{MessageId, Person, Place, Timestamp};
use domain::incoming::{Incoming, Posted};
use domain::shed::Shed;
use ports::shares::{Share, Shares};

/// The maximum number of unsettled events, shared by communities; further events are dropped and counted.
pub(super) const UNSETTLED_MAX: usize = 10_000;
/// The delays before a returned event is sent again; after the last one it is given up. The event may itself cause the
/// failures, so the later delays leave time for other events (`supervisor.rs` defines poison messages).
pub(super) const AGAIN_AFTER: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(20),
    Duration::from_secs(20),
    Duration::from_secs(20),
];

/// The way on which an event came.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arrival {
    /// With this sequence number of the session.
    Live(u64),
    /// Read back, because the session announced a gap with this sequence number; `None` if the current session did not.
    Missed(Option<u64>),
}

/// An event that was sent.
pub(super) struct Pending {
    pub incoming: Incoming,
    pub sequence: Option<u64>,
    /// True if the connection delivered it, false if it was read back.
    is_live: bool,
    pub returns: usize,
    /// True if the lookup of the message that it replies to ended, with or without success.
    pub looked_up: bool,
    /// Its share of the room for unsettled events.
    _share: Share<String>,
}

/// The room for unsettled events: a community whose missed messages are read back leaves room for messages of others.
pub(super) struct Room(Shares<String>);

impl Default for Room {
    fn default() -> Self {
        Self(Shares::new(Arc::new(Semaphore::new(UNSETTLED_MAX))))
    }
}

impl Room {
    fn take(&self, incoming: &Incoming) -> Option<Share<String>> {
        let guild = match incoming {
            Incoming::Posted(posted) => Some(&posted.guild),
            Incoming::Deleted(deletion) => Some(&deletion.guild),
            _ => None,
        };
        let holder = guild.map(|guild| guild.clone().unwrap_or_else(|| DIRECT.to_owned()));
        self.0.take(holder.as_ref())
    }
}

impl ShardActor {
    /// Sends an event, and keeps it until it is settled.
    pub(super) fn take(
        &self,
        ctx: &mut ActorContext<ShardActor>,
        state: &mut ShardState,
        incoming: Incoming,
        arrival: Arrival,
    ) {
        let Some(share) = state.room.take(&incoming) else {
            let shed = WorkShed::beside(Shed::Shard, Bound::Number, asked_by(&incoming));
            return self.parts.observers.tell(&Happening::WorkShed(shed));
        };
        match &incoming {
            Incoming::Deleted(deletion) => state.forget(&deletion.message),
            Incoming::Posted(posted) => self.note_activity(state, posted),
            _ => {}
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let (sequence, is_live) = match arrival {
            Arrival::Live(sequence) => (Some(sequence), true),
            Arrival::Missed(told_at) => (told_at, false),
        };
        let pending = Pending { incoming, sequence, is_live, returns: 0, looked_up: false, _share: share };
        state.unsettled.insert(ticket, pending);
        self.hand_on(ctx, state, ticket);
    }

    /// Sends an event, unless it is settled or a read must finish first: of its community, of its place, or of the
    /// message it replies to.
    pub(super) fn hand_on(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState, ticket: u64) {
        let Some(pending) = state.unsettled.get_mut(&ticket) else { return };
        let mut may_be_thread = false;
        if let Incoming::Posted(posted) = &mut pending.incoming {
            let missing = self.parts.source.complete(posted);
            may_be_thread = missing.is_some() && posted.parent.is_none();
            match state.surroundings.arrive(posted, missing, ticket) {
                Then::GoOn => {}
                Then::Wait => return,
                Then::Read(unknown) => return self.learn(ctx, unknown),
            }
        }
        if let Incoming::Posted(posted) = &pending.incoming {
            if state.lanes.waits(posted, ticket) {
                return;
            }
            if let Some((place, message)) = pending.unseen() {
                state.lanes.hold(posted, ticket);
                return self.look_up(ctx, ticket, place, message);
            }
        }
        let shard = ctx.events();
        let receipt = Receipt::new(move |outcome| {
            // If the shard is down, it resumes from before this event.
            shard.tell(match outcome {
                Outcome::Settled => ShardEvent::Settled(ticket),
                Outcome::Returned => ShardEvent::Returned(ticket),
            });
        });
        let Some(us) = self.parts.source.us() else { return drop(receipt) };
        let mut incoming = Box::new(pending.incoming.clone());
        if let Incoming::Posted(posted) = &mut *incoming
            && may_be_thread
        {
            surroundings::restrict(posted);
        }
        // If the gateway refuses this, the receipt is dropped, and the event is sent again.
        self.parts.gateway.tell(GatewayMsg::Received(incoming, us, receipt));
    }
}

impl ShardState {
    /// Returns the newest sequence that may be stored: all events up to it are settled.
    pub(super) fn safe_sequence(&self) -> u64 {
        let handed_on = self.unsettled.values().filter_map(|pending| pending.sequence);
        let oldest = handed_on.chain(self.catching_up.values().copied().flatten()).min();
        oldest.map_or(self.latest, |oldest| oldest.saturating_sub(1).min(self.latest))
    }

    /// Returns the time of the oldest message without a durable owner, by community.
    pub(super) fn oldest_unsettled(&self) -> HashMap<String, Timestamp> {
        let mut oldest: HashMap<String, Timestamp> = HashMap::new();
        for pending in self.unsettled.values() {
            if let Incoming::Posted(Posted { guild, at, .. }) = &pending.incoming {
                let guild = guild.as_deref().unwrap_or(DIRECT).to_owned();
                let first = oldest.entry(guild).or_insert(*at);
                *first = (*first).min(*at);
            }
        }
        oldest
    }

    /// Schedules a lost event to be sent again after a delay, unless all attempts are used.
    pub(super) fn returned(&mut self, ctx: &mut ActorContext<ShardActor>, ticket: u64, observers: &Observers) {
        let Some(pending) = self.unsettled.get_mut(&ticket) else { return };
        let Some(again_after) = AGAIN_AFTER.get(pending.returns) else {
            let shed = WorkShed::beside(Shed::Shard, Bound::Tries, asked_by(&pending.incoming));
            observers.tell(&Happening::WorkShed(shed));
            self.unsettled.remove(&ticket);
            return;
        };
        pending.returns += 1;
        ctx.after(*again_after, ShardEvent::HandOn(ticket));
    }

    /// Removes a deleted message that is still held here: it needs no answer.
    fn forget(&mut self, message: &MessageId) {
        let is_it = |pending: &Pending| matches!(&pending.incoming, Incoming::Posted(posted) if posted.id == *message);
        let ticket = self.unsettled.iter().find_map(|(ticket, pending)| is_it(pending).then_some(*ticket));
        if let Some(ticket) = ticket {
            self.settle(ticket);
        }
    }

    /// Settles an event.
    pub(super) fn settle(&mut self, ticket: u64) {
        let Some(pending) = self.unsettled.remove(&ticket) else { return };
        if let Incoming::Posted(Posted { guild, at, .. }) = pending.incoming {
            let guild = guild.unwrap_or_else(|| DIRECT.to_owned());
            if pending.is_live {
                self.watermarks.raise_live(guild, at);
            } else {
                self.watermarks.raise_read_back(guild, at);
            }
        }
    }
}

/// Returns the place and the author of a message; `None` for events of other kinds.
fn asked_by(incoming: &Incoming) -> Option<(&Place, &Person)> {
    match incoming {
        Incoming::Posted(posted) => Some((&posted.place, &posted.author.person)),
        _ => None,
    }
}
