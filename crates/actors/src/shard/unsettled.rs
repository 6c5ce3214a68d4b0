//! Events that were handed on and that nobody durably owns yet.

use std::collections::HashMap;
use std::time::Duration;

use super::activity::DIRECT;
use super::surroundings::Then;
use super::{ShardActor, ShardEvent, ShardState};
use crate::account::Account;
use crate::messages::gateway::GatewayMsg;
use crate::messages::receipt::{Outcome, Receipt};
use crate::runtime::supervisor::ActorContext;
use domain::happening::{Bound, Happening, WorkShed};
use domain::ids::{MessageId, Person, Place, Timestamp};
use domain::incoming::{Incoming, Posted};
use domain::shed::Shed;

/// The most events that are handed on and not settled; further ones are dropped and counted.
const UNSETTLED_MAX: usize = 10_000;
/// How long a returned event waits before it is handed on again; after the last one it is given up. It may be what its receivers
/// fail at, so the later waits leave others time in between (`supervisor.rs` says what a poison message is).
pub(super) const AGAIN_AFTER: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(20),
    Duration::from_secs(20),
    Duration::from_secs(20),
];

/// An event that was handed on.
pub(super) struct Pending {
    pub incoming: Incoming,
    pub sequence: Option<u64>,
    pub returns: usize,
    /// The message that it replies to was looked up, with or without success.
    pub looked_up: bool,
}

impl ShardActor {
    /// Hands an event on, and remembers it until it is settled.
    pub(super) fn take(
        &self,
        ctx: &mut ActorContext<ShardActor>,
        state: &mut ShardState,
        incoming: Incoming,
        sequence: Option<u64>,
    ) {
        if state.unsettled.len() >= UNSETTLED_MAX {
            let shed = WorkShed::beside(Shed::Shard, Bound::Number, asked_by(&incoming));
            return self.parts.account.tell(&Happening::WorkShed(shed));
        }
        match &incoming {
            Incoming::Deleted(message) => state.forget(message),
            Incoming::Posted(posted) => self.note_activity(state, posted),
            _ => {}
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.unsettled.insert(ticket, Pending { incoming, sequence, returns: 0, looked_up: false });
        self.hand_on(ctx, state, ticket);
    }

    /// Hands an event on, if it is not settled and nothing has to be known first: of its community, or of what it replies to.
    pub(super) fn hand_on(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState, ticket: u64) {
        let Some(pending) = state.unsettled.get_mut(&ticket) else { return };
        if let Incoming::Posted(posted) = &mut pending.incoming {
            let known = self.parts.source.complete(posted);
            if let Some(community) = &posted.guild {
                match state.surroundings.arrive(community, known, ticket) {
                    Then::GoOn => {}
                    Then::Wait => return,
                    Then::Read => return self.learn(ctx, community.clone()),
                }
            }
        }
        if let Incoming::Posted(posted) = &pending.incoming {
            if state.lanes.waits(posted, ticket) {
                return;
            }
            if let Some(message) = pending.unseen() {
                state.lanes.hold(posted, ticket);
                return self.look_up(ctx, ticket, message);
            }
        }
        let shard = ctx.events();
        let receipt = Receipt::new(move |outcome| {
            // A shard that went down resumes from before this event.
            let _ = match outcome {
                Outcome::Settled => shard.send(ShardEvent::Settled(ticket)),
                Outcome::Returned => shard.send(ShardEvent::Returned(ticket)),
            };
        });
        let Some(us) = self.parts.source.us() else { return drop(receipt) };
        // A gateway that is down drops the receipt, and the event comes back.
        let _ = self.parts.gateway.cast(GatewayMsg::Received(Box::new(pending.incoming.clone()), us, receipt));
    }
}

impl ShardState {
    /// The newest sequence that may be stored: everything up to it is safely taken.
    pub(super) fn safe_sequence(&self) -> u64 {
        let handed_on = self.unsettled.values().filter_map(|pending| pending.sequence);
        let oldest = handed_on.chain(self.catching_up.values().copied().flatten()).min();
        oldest.map_or(self.latest, |oldest| oldest.saturating_sub(1).min(self.latest))
    }

    /// The oldest message of each community that nobody durably owns yet.
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

    /// An event was lost on the way: it is handed on again after a while, unless that was tried often enough.
    pub(super) fn returned(&mut self, ctx: &mut ActorContext<ShardActor>, ticket: u64, account: &Account) {
        let Some(pending) = self.unsettled.get_mut(&ticket) else { return };
        let Some(again_after) = AGAIN_AFTER.get(pending.returns) else {
            let shed = WorkShed::beside(Shed::Shard, Bound::Tries, asked_by(&pending.incoming));
            account.tell(&Happening::WorkShed(shed));
            self.unsettled.remove(&ticket);
            return;
        };
        pending.returns += 1;
        ctx.after(*again_after, ShardEvent::HandOn(ticket));
    }

    /// A message was deleted: one that still waits here is nobody's question any more.
    fn forget(&mut self, message: &MessageId) {
        let is_it = |pending: &Pending| matches!(&pending.incoming, Incoming::Posted(posted) if posted.id == *message);
        let ticket = self.unsettled.iter().find_map(|(ticket, pending)| is_it(pending).then_some(*ticket));
        if let Some(ticket) = ticket {
            self.settle(ticket);
        }
    }

    /// An event is safely taken.
    pub(super) fn settle(&mut self, ticket: u64) {
        let Some(pending) = self.unsettled.remove(&ticket) else { return };
        if let Incoming::Posted(Posted { guild, at, .. }) = pending.incoming {
            let mark = self.watermarks.entry(guild.unwrap_or_else(|| DIRECT.to_owned())).or_insert(at);
            *mark = (*mark).max(at);
        }
    }
}

/// Where a message was said, and by whom; none for events of other kinds.
fn asked_by(incoming: &Incoming) -> Option<(&Place, &Person)> {
    match incoming {
        Incoming::Posted(posted) => Some((&posted.place, &posted.author.person)),
        _ => None,
    }
}
