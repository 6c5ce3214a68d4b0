//! journal: the durable record of every accepted turn, and the lease on it.
//!
//! Supervised by: staffai (permanent).
//! Receives: accepted turns from the gateway, answers from conversations and the limiter, wishes to be forgotten from
//! commands, deliveries from the outbox, news of restarts.
//! Sends: open turns to the limiter, and what became of them; known answers to the outbox; what turns wait for to approvals,
//! and turns that go on after a decision to conversations.
//! A restart loses: nothing that was durable. It reads its records again and hands out every open turn anew.
//!
//! What it guarantees, and by what:
//!
//! - *Write-ahead.* A turn is acknowledged to where it came from (its receipt is settled) only after the record "open" is
//!   durable. Until then the sender keeps the event and sends it again. An answer is recorded before it is handed to the outbox.
//! - *At least once.* The journal owns a turn from its record until it is closed; everybody else holds it on a lease. The lease
//!   ends when an actor that may hold the turn fails, when a hand-over was refused, and when the process starts: the turn is
//!   then offered again (`offering.rs`). After `OFFERS_MAX` offers, or when a turn outlived every deadline, the
//!   journal answers it itself with an apology, so each turn that somebody asked for ends visibly.
//! - *Idempotent by the turn's id.* The id is that of the message that triggered the turn, and it is the key of the record. A
//!   second accept, answer or delivery of one turn changes nothing; closed turns are remembered for longer than any replay.
//! - *Exactly-once effect.* Deliveries are at least once, posts are not doubled: the outbox derives the platform's nonce from the
//!   id, and looks into the channel first whenever something of the turn may be visible there (`check`).
//! - *At most once* for what nobody asked for (interjections): it is neither taken up again nor offered a second time.
//! - *One owner.* Every record is written under the fencing token of this process. Once another process owns a turn, the store refuses the
//!   writes of this one, which drops the turn and posts nothing for it (`fencing.rs`).
//! - *Atomic end.* The record "closed", the counters of the ledger and the index of the answer are one write of the store.
//!
//! Writes are visible at once and durable later. The store commits what came meanwhile together (*group commit*), and nothing in
//! here waits for it: a task settles the receipt when the commit is done. So a turn costs no wait, and a burst few commits.

mod earlier;
mod ending;
mod entry;
mod fencing;
mod memory;
mod offering;
mod parking;
mod report;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use self::entry::{Entry, HandOver, Stage, open_turn};
use self::parking::ParkedNow;
use crate::messages::approvals::ApprovalsMsg;
use crate::messages::clearance;
use crate::messages::conversations::ConversationsMsg;
use crate::messages::journal::{Accepted, JournalMsg, Left, Recovered};
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::messages::receipt::Receipt;
use crate::observation::timeline::Timeline;
use crate::observation::turn_events::TurnEvents;
use crate::outbox::Outboxes;
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::{Handle, Reply};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::alone::Alone;
use crate::services::forgotten::Forgotten;
use crate::services::in_flight::InFlight;
use crate::services::running::Live;
use domain::ending::Dropped;
use domain::ids::TurnId;
use domain::shed::Shed;
use domain::turn::OpenTurn;
use ports::{Adopted, Clock, Kept, Pace, Store, StoreStatus, Subject, Turns};

/// The most messages that wait until the records are read. What is dropped beyond that comes back or is found out: receipts
/// return their events, answers are asked for again, and posts are seen in their channel.
const EARLY_MAX: usize = 20_000;
/// The most finished turns remembered in memory, the oldest forgotten first.
const CLOSED_MAX: usize = 100_000;
/// How often deadlines are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What its timer and its task tell it.
pub enum JournalEvent {
    /// The records of an earlier life were read.
    Loaded(Vec<Adopted>),
    /// They could not be read. Without them open turns would be forgotten and answered ones answered again.
    Unreadable(String),
    /// A turn that waits for a decision was written down.
    Parked(ParkedNow),
    /// Another process took over some of its turns.
    Fenced,
    /// Time to look at deadlines.
    Sweep,
}

/// The behaviour and its arguments.
pub struct Journal {
    /// Keeps the records.
    pub turns: Arc<dyn Turns>,
    /// Says whether the backend of the records answers.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// What this process runs with.
    pub live: Live,
    /// Who lets turns through to those who find answers.
    pub rate_limiter: Handle<RateLimiterMsg>,
    /// Who asks for the decisions that turns wait for.
    pub approvals: Handle<ApprovalsMsg>,
    /// Who takes turns that go on after one.
    pub conversations: Handle<ConversationsMsg>,
    /// Who posts answers.
    pub outboxes: Outboxes,
    /// What may not be remembered any more.
    pub forgotten: Arc<Forgotten>,
    /// Where each step is noted.
    pub timeline: Arc<Timeline>,
    /// Where those who read along learn of each step.
    pub events: TurnEvents,
    /// The turns that somebody works on, also while the journal itself is started again.
    pub in_flight: Arc<InFlight>,
}

/// What the journal holds.
pub struct JournalState {
    /// Turns that are not closed; their number is bounded by the permits of `turn.open` and by what earlier lives left.
    open: HashMap<TurnId, Entry>,
    /// Turns that are.
    closed: BoundedSet<TurnId, CLOSED_MAX>,
    /// Answers that reply to nothing, to tell them from each other.
    alone: Alone,
    phase: Phase,
    records: Records,
}

/// How far a life of the journal is.
enum Phase {
    /// The records of earlier lives are being read. What comes before they are known waits in the order of its coming.
    Loading {
        /// At most [`EARLY_MAX`] messages.
        early: Vec<JournalMsg>,
    },
    /// Turns are recorded, offered and delivered.
    Serving,
    /// Turns are recorded, and known answers delivered; a turn without an answer is left to the next life.
    Draining,
}

/// Whether the records of earlier lives are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    /// All that there are, or the reading of all is under way.
    Whole,
    /// The store was degraded when they were read: there may be more, which are read when it has recovered.
    Partial,
}

impl Phase {
    /// Keeps a message that came too early; gives it back when it can be handled now.
    fn defer(&mut self, message: JournalMsg) -> Option<JournalMsg> {
        let Self::Loading { early } = self else { return Some(message) };
        match message {
            // All that is open is offered anyway once the records are known.
            JournalMsg::ActorRecovered(_) => {}
            message if early.len() < EARLY_MAX || matches!(message, JournalMsg::Drain) => early.push(message),
            _ => {
                let reason = "too much came before the records were read";
                tracing::warn!(event = "turn.shed", r#where = Shed::Journal.as_str(), "{reason}");
                metrics::counter!("staffai_shed_total", "where" => Shed::Journal.as_str()).increment(1);
            }
        }
        None
    }

    /// The records are known. Gives what came before; a drain among it holds from here on, also for what was read.
    fn loaded(&mut self) -> Vec<JournalMsg> {
        let Self::Loading { early } = self else { return Vec::new() };
        let early = std::mem::take(early);
        let drains = early.iter().any(|message| matches!(message, JournalMsg::Drain));
        *self = if drains { Self::Draining } else { Self::Serving };
        early
    }

    /// Whether turns without an answer are handed out.
    const fn offers(&self) -> bool {
        matches!(self, Self::Serving)
    }
}

impl Actor for Journal {
    type Msg = JournalMsg;
    type Event = JournalEvent;
    type State = JournalState;

    fn start(&self, ctx: &mut ActorContext<Journal>) -> Result<JournalState, Crash> {
        self.read_records(ctx);
        self.watch_ranges(ctx);
        ctx.after(SWEEP_EVERY, JournalEvent::Sweep);
        Ok(JournalState {
            open: HashMap::new(),
            closed: BoundedSet::default(),
            alone: Alone::default(),
            phase: Phase::Loading { early: Vec::new() },
            records: Records::Whole,
        })
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Journal>,
        message: JournalMsg,
        state: &mut JournalState,
    ) -> Result<(), Crash> {
        if let Some(message) = state.phase.defer(message) {
            self.apply(ctx, state, message);
        }
        Ok(())
    }

    fn subject(message: &JournalMsg) -> Option<Subject> {
        subject(message)
    }

    fn give_up(&self, _ctx: &mut ActorContext<Self>, message: JournalMsg, state: &mut JournalState) {
        if let Some(message) = state.phase.defer(message) {
            self.give_up_on(state, message);
        }
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: JournalEvent,
        state: &mut JournalState,
    ) -> Result<(), Crash> {
        match event {
            JournalEvent::Loaded(records) => {
                state.records =
                    if self.store.status() == StoreStatus::Ready { Records::Whole } else { Records::Partial };
                let early = state.phase.loaded();
                self.load(state, records);
                for message in early {
                    self.apply(ctx, state, message);
                }
            }
            JournalEvent::Unreadable(reason) => return Err(format!("the records cannot be read: {reason}").into()),
            JournalEvent::Parked(parked) => self.parked(ctx, state, parked),
            JournalEvent::Fenced => self.fenced(state),
            JournalEvent::Sweep => {
                self.sweep(state);
                self.close_overdue(ctx, state);
                if state.records == Records::Partial && self.store.status() == StoreStatus::Ready {
                    state.records = Records::Whole;
                    self.read_records(ctx);
                }
                ctx.after(SWEEP_EVERY, JournalEvent::Sweep);
            }
        }
        Ok(())
    }
}

/// A turn comes again until it is closed, in each step that brings it nearer to its end.
fn subject(message: &JournalMsg) -> Option<Subject> {
    match message {
        JournalMsg::Accept(accepted) => Some(Subject::of(&("accept", &accepted.turn.id))),
        JournalMsg::Answered(id, _) => Some(Subject::of(&("answered", id))),
        JournalMsg::Delivered(id, _) | JournalMsg::Undeliverable(id, _) | JournalMsg::Dropped(id, _) => {
            Some(Subject::of(&("ended", id)))
        }
        // What acted is not handed out again, so this comes no second time.
        JournalMsg::Acts(..)
        | JournalMsg::Park(..)
        | JournalMsg::Waiting(_)
        | JournalMsg::Asked(..)
        | JournalMsg::Decided(..)
        | JournalMsg::Cancel(_)
        | JournalMsg::Undelivered(_)
        | JournalMsg::Refused(..)
        | JournalMsg::Forget(..)
        | JournalMsg::ActorRecovered(_)
        | JournalMsg::Drain
        | JournalMsg::Left(_)
        | JournalMsg::TellWhenClosed(..) => None,
    }
}

impl Journal {
    fn apply(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, message: JournalMsg) {
        match message {
            JournalMsg::Accept(accepted) => self.accept(ctx, state, *accepted),
            JournalMsg::Answered(id, answer) => self.answered(state, &id, *answer),
            JournalMsg::Delivered(id, delivery) => self.delivered(state, &id, &delivery),
            JournalMsg::Refused(id, many, since) => self.refused(state, &id, many, since),
            JournalMsg::Undeliverable(id, reason) => self.undeliverable(state, &id, &reason),
            JournalMsg::Cancel(id) => self.withdraw(state, &id, Dropped::TriggerDeleted),
            JournalMsg::Dropped(id, why) => drop(self.drop_turn(state, &id, why)),
            JournalMsg::Forget(person, cut, reply) => {
                let forgotten = memory::forget(state, &person, cut);
                let many = forgotten.len();
                for entry in forgotten.iter().filter_map(|id| state.open.get(id)) {
                    drop(self.turns.update(&open_turn(entry), Pace::Gathered));
                }
                self.drop_waiting(state, &person, &forgotten);
                let _ = reply.send(many);
            }
            JournalMsg::Undelivered(id) => {
                if let Some(Entry { stage: Stage::Open { offers }, hand_over, .. }) = state.open.get_mut(&id) {
                    *hand_over = HandOver::Refused;
                    *offers = offers.saturating_sub(1);
                }
            }
            JournalMsg::Acts(id, reply) => self.acts(ctx, state, &id, reply),
            JournalMsg::Park(id, parking) => self.park(ctx, state, &id, *parking),
            JournalMsg::Waiting(reply) => {
                // Whoever asked may have stopped waiting.
                let _ = reply.send(state.waiting());
            }
            JournalMsg::Asked(id, gate, message) => self.asked(state, &id, &gate, message),
            JournalMsg::Decided(decided, reply) => self.decided(ctx, state, *decided, Some(reply)),
            JournalMsg::ActorRecovered(recovered) => self.offer_again(state, &recovered),
            JournalMsg::Drain => state.phase = Phase::Draining,
            JournalMsg::Left(reply) => {
                let undelivered = state.open.values().filter(|entry| entry.is_undelivered()).count();
                // Whoever asked may have stopped waiting.
                let _ = reply.send(Left { open: state.open.len(), undelivered });
            }
            // Of a turn that is not open the question is dropped here, which answers it.
            JournalMsg::TellWhenClosed(id, reply) => {
                if let Some(entry) = state.open.get_mut(&id) {
                    entry.waiting.push(reply);
                }
            }
        }
    }

    /// Of a turn that is not open, or answered already, nothing may run: the question is dropped, which answers it.
    fn acts(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, id: &TurnId, reply: Reply<bool>) {
        let open = |entry: &&mut Entry| matches!(entry.stage, Stage::Open { .. });
        let Some(entry) = state.open.get_mut(id).filter(open) else { return };
        entry.acted = true;
        let kept = self.turns.update(&open_turn(entry), Pace::Now);
        ctx.background(async move {
            // Whoever asked may have stopped waiting.
            let _ = reply.send(kept.await.is_durable());
        });
    }

    fn accept(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, accepted: Accepted) {
        let Accepted { turn, answer, permit, receipt } = accepted;
        if state.open.contains_key(&turn.id) || state.closed.contains(&turn.id) {
            tracing::debug!(event = "gateway.dropped", reason = "seen before", turn = %turn.id, "message dropped");
            receipt.settle();
            return;
        }
        if self.is_fenced(&turn) {
            fencing::note(&turn);
            return ctx.background(hold(receipt));
        }
        let trigger = turn.trigger.as_str();
        tracing::info!(event = "turn.accepted", turn = %turn.id, door = %turn.id.door, trigger, "turn accepted");
        self.taken(&turn, answer.as_ref());
        let id = turn.id.clone();
        let pace = if receipt.is_awaited() { Pace::Now } else { Pace::Gathered };
        let kept = clearance::shared(self.turns.accept(&OpenTurn::new(turn.clone(), answer.clone()), pace));
        let mut entry = Entry::new(turn, answer, permit);
        entry.clearance = self.clearance(&entry.turn, kept.clone());
        ctx.background(async move {
            match kept.await {
                Kept::Durable | Kept::InMemory => receipt.settle(),
                Kept::Fenced => hold(receipt).await,
            }
        });
        state.open.insert(id.clone(), entry);
        self.offer(state, &id);
    }
}

/// Keeps the event of a turn that another process owns from being settled or given back: the stored position of its connection stays
/// before it, so the new owner reads it back if it has not received it. Bounded by the events that its source keeps unsettled.
async fn hold(receipt: Receipt) {
    let _held = receipt;
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests;
