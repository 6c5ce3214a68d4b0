//! journal: the write-ahead log of accepted turns, and the lease on each turn.
//!
//! Supervised by: staffai (permanent).
//! Receives: accepted turns and cancellations from the gateway; answers, parked and dropped turns from conversations;
//! refused turns from the limiter; notes from turn tasks that they act, and requests for a report when a turn is
//! closed; shown requests and decisions from approvals; requests to forget from commands; deliveries from the outbox;
//! reports of restarts from supervisors; the request to drain from the app.
//! Sends: open turns and their outcomes to the limiter; recorded answers to the outbox; pending decisions to
//! approvals; turns that continue after a decision to conversations.
//! A restart loses: nothing durable. The journal loads its records and offers every open turn again.
//!
//! Guarantees and their mechanisms:
//!
//! - *Write-ahead.* A turn is acknowledged to its source (its receipt is settled) only after the record "open" is
//!   durable. Until then the source keeps the event and redelivers it. An answer is recorded before it is handed to
//!   the outbox.
//! - *At least once.* The journal owns a turn from its record until the turn is closed; other actors hold it on a
//!   lease. The lease ends when an actor that may hold the turn fails, when a hand-over is refused, and when the
//!   process starts. The journal then offers the turn again (`offering.rs`). After `OFFERS_MAX` offers, or after every
//!   deadline has passed, the journal answers the turn itself with an apology, so each requested turn ends visibly.
//! - *Idempotent by turn id.* The id is that of the message that triggered the turn, and it is the key of the record.
//!   A second accept, answer or delivery of a turn has no effect. Closed turns are remembered for longer than any
//!   replay.
//! - *Exactly-once effect.* Deliveries are at-least-once, and posts are not duplicated: the outbox derives the
//!   platform's nonce from the id, and reads the channel first if part of the turn may be visible there (`check`).
//! - *At most once* for unrequested turns (interjections): they are neither recovered nor offered a second time.
//! - *One owner.* Every record is written under the fencing token of this process. Once another process owns a turn,
//!   the store rejects the writes of this process, which drops the turn and posts nothing for it (`fencing.rs`).
//! - *Atomic end.* The record "closed", the counters of the ledger and the index of the answer are one write to the
//!   store.
//!
//! Writes are visible immediately and durable later. The store commits concurrent writes together (*group commit*),
//! and the journal never blocks on a commit: a task settles the receipt when the commit is done. So a turn costs no
//! wait, and a burst costs few commits.

mod doubtful;
mod earlier;
mod ending;
mod entry;
mod fencing;
mod memory;
mod offering;
mod parking;
mod ranges;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use self::doubtful::Doubtful;
use self::entry::{HandOver, JournalEntry, Stage, Visible, open_turn};
use self::parking::ParkedNow;
use crate::messages::approvals::ApprovalsMsg;
use crate::messages::clearance;
use crate::messages::conversations::ConversationsMsg;
use crate::messages::journal::{Accepted, JournalMsg, Recovered, RemainingWork};
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::messages::receipt::Receipt;
use crate::observation::board::Board;
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::outbox::Outboxes;
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::{Handle, Reply};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::alone::Alone;
use crate::services::forgotten::Forgotten;
use crate::services::in_flight::InFlight;
use crate::services::running::Live;
use domain::ending::Dropped;
use domain::happening::{Bound, Happening, WorkShed};
use domain::ids::TurnId;
use domain::planted::Defect;
use domain::shed::Shed;
use domain::turn::OpenTurn;
use ports::{Adopted, Clock, Pace, Scanned, Store, StoreStatus, Subject, Turns, Unreadable, WriteOutcome};
use telemetry::events::GATEWAY_DROPPED;
use tokio::time::Instant;

/// The minimum age of a question whose answer is searched for in its channel before it is posted: an earlier process
/// may have begun it, or handled a request to forget it, without a stored record.
const READ_BACK: Duration = Duration::from_secs(5);
/// The most messages queued until the records are loaded. Later messages are dropped and recovered by other means:
/// receipts return their events, answers are requested again, and posts are found in their channel.
const EARLY_MAX: usize = 20_000;
/// The most closed turns remembered in memory; the oldest is evicted first.
const CLOSED_MAX: usize = 100_000;
/// The interval of deadline checks, and the unit of the pauses between loads of the records.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The number of times that the pause between loads of the records doubles.
const DOUBLINGS_MAX: u32 = 8;

/// Events from the journal's own timer and tasks.
pub enum JournalEvent {
    /// The stored records were loaded, or a part of them.
    Loaded(Scanned<Vec<Adopted>>),
    /// The load takes long. The journal serves meanwhile, and looks up each message.
    Slow,
    /// The record of a doubtful message was read, if there is one.
    LookedUp(Result<Option<Box<Adopted>>, Unreadable>),
    /// The stored records could not be loaded. Without them, open turns would be lost and answered turns answered
    /// again.
    Unreadable(String),
    /// A parked turn was recorded.
    Parked(ParkedNow),
    /// The records of a further portion were loaded, or a part of them.
    Adopted(Scanned<Vec<Adopted>>, Reply<()>),
    /// Another process took over some turns of this process.
    Fenced,
    /// Deadlines are due for a check.
    Sweep,
}

/// The behaviour and its arguments.
pub struct Journal {
    /// The store of the records.
    pub turns: Arc<dyn Turns>,
    /// Reports whether the backend of the records responds.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The settings in use.
    pub live: Live,
    /// Admits turns to the actors that produce answers.
    pub rate_limiter: Handle<RateLimiterMsg>,
    /// Requests the decisions that turns are parked for.
    pub approvals: Handle<ApprovalsMsg>,
    /// Receives turns that continue after a decision.
    pub conversations: Handle<ConversationsMsg>,
    /// The outboxes, which post answers.
    pub outboxes: Outboxes,
    /// The members and messages that must not be remembered.
    pub forgotten: Arc<Forgotten>,
    /// Shows the ranges that other processes took over.
    pub board: Arc<Board>,
    /// Receives the events of turns.
    pub observers: Observers,
    /// The event streams of clients.
    pub events: TurnEvents,
    /// The turns that tasks work on; survives a restart of the journal.
    pub in_flight: Arc<InFlight>,
}

/// The state of the journal.
pub struct JournalState {
    /// Turns that are not closed. The permits of `turn.open` and the recovered turns bound their number.
    open: HashMap<TurnId, JournalEntry>,
    /// Turns that are closed.
    closed: BoundedSet<TurnId, CLOSED_MAX>,
    /// Answers that are not replies, kept to distinguish them from each other.
    alone: Alone,
    phase: Phase,
    records: Records,
    doubtful: Doubtful,
}

/// The phase of the journal since its start.
enum Phase {
    /// The stored records are being loaded. Messages are queued in order of arrival.
    Loading {
        /// At most [`EARLY_MAX`] messages.
        early: Vec<JournalMsg>,
    },
    /// Turns are recorded, offered and delivered.
    Serving,
    /// Turns are recorded, and recorded answers delivered. Turns without an answer remain for the next start.
    Draining,
}

/// The completeness of the loaded records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    /// All records are loaded.
    Whole,
    /// Some records may not be loaded. Each message is looked up in the store before it is accepted.
    Partial {
        /// The number of loads that did not return all records.
        loads: u32,
        /// The earliest time of the next load; `None` during a load.
        again: Option<Instant>,
    },
}

impl Records {
    const LOADING: Self = Self::Partial { loads: 0, again: None };

    /// Returns the state after a load. Each further load of a store that does not return all records has a longer pause
    /// before it.
    fn after(self, complete: bool) -> Self {
        let Self::Partial { loads, .. } = self else { return self };
        if complete {
            return Self::Whole;
        }
        let pause = SWEEP_EVERY * ((1 << loads.min(DOUBLINGS_MAX)) - 1);
        Self::Partial { loads: loads.saturating_add(1), again: Some(Instant::now() + pause) }
    }

    /// True if it is time for another load; it then counts as begun.
    fn load_again(&mut self) -> bool {
        let Self::Partial { again, .. } = self else { return false };
        let due = again.is_some_and(|again| again <= Instant::now());
        if due {
            *again = None;
        }
        due
    }
}

impl JournalState {
    /// True if the turn is open or closed in memory.
    fn knows(&self, id: &TurnId) -> bool {
        self.open.contains_key(id) || self.closed.contains(id)
    }
}

impl Phase {
    /// Queues a message that arrived during the load; returns it if it can be handled now.
    fn defer(&mut self, message: JournalMsg, observers: &Observers) -> Option<JournalMsg> {
        let Self::Loading { early } = self else { return Some(message) };
        match message {
            // All open turns are offered after the load in any case.
            JournalMsg::ActorRecovered(_) => {}
            message if early.len() < EARLY_MAX || matches!(message, JournalMsg::Drain) => early.push(message),
            _ => {
                let shed = WorkShed::beside(Shed::Journal, Bound::Number, None);
                observers.tell(&Happening::WorkShed(shed));
            }
        }
        None
    }

    /// Ends the load. Returns the queued messages; a drain among them also applies to the loaded turns.
    fn loaded(&mut self) -> Vec<JournalMsg> {
        let Self::Loading { early } = self else { return Vec::new() };
        let early = std::mem::take(early);
        let drains = early.iter().any(|message| matches!(message, JournalMsg::Drain));
        *self = if drains { Self::Draining } else { Self::Serving };
        early
    }

    /// True if turns without an answer are offered.
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
            records: Records::LOADING,
            doubtful: Doubtful::since(self.clock.now()),
        })
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Journal>,
        message: JournalMsg,
        state: &mut JournalState,
    ) -> Result<(), Crash> {
        if let Some(message) = state.phase.defer(message, &self.observers) {
            self.apply(ctx, state, message);
        }
        Ok(())
    }

    fn subject(message: &JournalMsg) -> Option<Subject> {
        subject(message)
    }

    /// The refused messages may include an answer or a delivery, so every turn without a running task is offered
    /// again.
    fn overflowed(&self, _ctx: &mut ActorContext<Self>, state: &mut JournalState) {
        self.offer_idle(state);
    }

    fn give_up(&self, _ctx: &mut ActorContext<Self>, message: JournalMsg, state: &mut JournalState) {
        if let Some(message) = state.phase.defer(message, &self.observers) {
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
                let (records, complete) = records.into_parts();
                state.records = state.records.after(complete);
                let early = state.phase.loaded();
                self.load(state, records);
                for message in early {
                    self.apply(ctx, state, message);
                }
            }
            JournalEvent::Slow => {
                for message in state.phase.loaded() {
                    self.apply(ctx, state, message);
                }
            }
            JournalEvent::LookedUp(found) => self.looked_up(ctx, state, found),
            JournalEvent::Unreadable(reason) => return Err(format!("the records cannot be read: {reason}").into()),
            JournalEvent::Parked(parked) => self.parked(ctx, state, parked),
            JournalEvent::Adopted(records, reply) => self.adopted(state, records, reply),
            JournalEvent::Fenced => self.fenced(state),
            JournalEvent::Sweep => {
                self.sweep(state);
                self.close_overdue(ctx, state);
                if self.store.status() == StoreStatus::Ready && state.records.load_again() {
                    self.read_records(ctx);
                }
                self.try_held(ctx, state);
                ctx.after(SWEEP_EVERY, JournalEvent::Sweep);
            }
        }
        Ok(())
    }
}

/// The subject of messages that are repeated until their turn is closed.
fn subject(message: &JournalMsg) -> Option<Subject> {
    match message {
        JournalMsg::Accept(accepted) => Some(Subject::of(&("accept", &accepted.turn.id))),
        JournalMsg::Answered(id, _) => Some(Subject::of(&("answered", id))),
        JournalMsg::Delivered(id, _) | JournalMsg::Undeliverable(id, _) | JournalMsg::Dropped(id, _) => {
            Some(Subject::of(&("ended", id)))
        }
        // A turn that acted is not offered again, so this message is not repeated.
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
        | JournalMsg::Adopt(_)
        | JournalMsg::LeftOf(..)
        | JournalMsg::Leave(..)
        | JournalMsg::TellWhenClosed(..) => None,
    }
}

impl Journal {
    fn apply(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, message: JournalMsg) {
        match message {
            JournalMsg::Accept(accepted) if Self::is_doubtful(state, &accepted) => self.doubt(ctx, state, *accepted),
            JournalMsg::Accept(accepted) => self.accept(ctx, state, *accepted),
            JournalMsg::Answered(id, answer) => self.answered(state, &id, *answer),
            JournalMsg::Delivered(id, delivery) => self.delivered(state, &id, &delivery),
            JournalMsg::Refused(id, many, since) => self.refused(state, &id, many, since),
            JournalMsg::Undeliverable(id, reason) => self.undeliverable(state, &id, &reason),
            JournalMsg::Cancel(id) => {
                state.doubtful.delete(&id);
                self.withdraw(state, &id, Dropped::TriggerDeleted);
            }
            JournalMsg::Dropped(id, why) => drop(self.drop_turn(state, &id, why)),
            JournalMsg::Forget(person, cut, reply) => {
                let forgotten = memory::forget(state, &person, cut);
                let many = forgotten.len();
                for entry in forgotten.iter().filter_map(|id| state.open.get(id)) {
                    drop(self.turns.update(&open_turn(entry), Pace::Gathered));
                }
                for id in &forgotten {
                    self.drop_waiting(state, id);
                }
                let _ = reply.send(many);
            }
            JournalMsg::Undelivered(id) => {
                if let Some(JournalEntry { stage: Stage::Open { offers }, hand_over, .. }) = state.open.get_mut(&id) {
                    *hand_over = HandOver::Refused;
                    *offers = offers.saturating_sub(1);
                }
            }
            JournalMsg::Acts(id, reply) => self.acts(ctx, state, &id, reply),
            JournalMsg::Park(id, parking) => self.park(ctx, state, &id, *parking),
            JournalMsg::Waiting(reply) => {
                // The caller may have stopped waiting.
                let _ = reply.send(state.waiting());
            }
            JournalMsg::Asked(id, gate, message) => self.asked(state, &id, &gate, message),
            JournalMsg::Decided(decided, reply) => self.decided(ctx, state, *decided, Some(reply)),
            JournalMsg::ActorRecovered(recovered) => self.offer_again(state, &recovered),
            JournalMsg::Drain => state.phase = Phase::Draining,
            JournalMsg::Left(reply) => {
                let undelivered = state.open.values().filter(|entry| entry.is_undelivered()).count();
                // The caller may have stopped waiting.
                let _ = reply.send(RemainingWork { open: state.open.len(), undelivered });
            }
            JournalMsg::Adopt(reply) => self.adopt(ctx, reply),
            JournalMsg::LeftOf(portion, reply) => {
                // The caller may have stopped waiting.
                let _ = reply.send(self.left_of(state, portion));
            }
            JournalMsg::Leave(portion, reply) => {
                self.leave(state, portion);
                let _ = reply.send(());
            }
            // If the turn is not open, the reply is dropped here, which answers the caller.
            JournalMsg::TellWhenClosed(id, reply) => {
                if let Some(entry) = state.open.get_mut(&id) {
                    entry.waiting.push(reply);
                }
            }
        }
    }

    /// Records that a turn acts. If the turn is not open, or is already answered, no tool may run: the reply is
    /// dropped, which answers the caller.
    fn acts(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, id: &TurnId, reply: Reply<bool>) {
        let open = |entry: &&mut JournalEntry| matches!(entry.stage, Stage::Open { .. });
        let Some(entry) = state.open.get_mut(id).filter(open) else { return };
        entry.acted = true;
        let kept = self.turns.update(&open_turn(entry), Pace::Now);
        ctx.background(async move {
            // The caller may have stopped waiting.
            let _ = reply.send(kept.await.is_durable());
        });
    }

    fn accept(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, accepted: Accepted) {
        let Accepted { turn, answer, permit, receipt } = accepted;
        if state.knows(&turn.id) && !Defect::NoDedupe.is_planted() {
            tracing::debug!(event = GATEWAY_DROPPED, reason = "seen before", turn = %turn.id, "message dropped");
            receipt.settle();
            return;
        }
        if self.is_fenced(&turn) {
            self.observers.tell(&Happening::TurnFenced(&turn));
            return ctx.background(hold(receipt));
        }
        if !self.turns.owns(&turn) {
            tracing::debug!(event = GATEWAY_DROPPED, reason = "of another range", turn = %turn.id, "message dropped");
            return;
        }
        if !receipt.claim() {
            tracing::debug!(event = GATEWAY_DROPPED, reason = "its sender stopped waiting", turn = %turn.id, "message dropped");
            return;
        }
        self.report_custody(&turn, answer.as_ref(), Some(receipt.age()));
        let id = turn.id.clone();
        let pace = if receipt.is_awaited() { Pace::Now } else { Pace::Gathered };
        let kept = clearance::shared(self.turns.accept(&OpenTurn::new(turn.clone(), answer.clone()), pace));
        let mut entry = JournalEntry::new(turn, answer, permit);
        entry.clearance = self.clearance(&entry.turn, kept.clone());
        if entry.turn.trigger.is_asked() && self.clock.now().since(entry.turn.at) >= READ_BACK {
            entry.visible = Visible::Perhaps;
        }
        let receipt = if Defect::EarlyReceipt.is_planted() {
            receipt.settle();
            Receipt::new(|_| {})
        } else {
            receipt
        };
        ctx.background(async move {
            match kept.await {
                WriteOutcome::Durable | WriteOutcome::InMemory => receipt.settle(),
                WriteOutcome::Fenced => hold(receipt).await,
            }
        });
        state.open.insert(id.clone(), entry);
        self.offer(state, &id);
    }
}

/// Prevents the event of a turn that another process owns from being settled or returned. The stored position of its
/// connection stays before the event, so the new owner reads the event again if it did not receive it. The events that
/// a source keeps unsettled bound these tasks. A sender that awaits the custody gets its event back at once.
async fn hold(receipt: Receipt) {
    if receipt.is_awaited() {
        return;
    }
    let _held = receipt;
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests;
