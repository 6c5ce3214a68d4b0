//! journal: custody of every accepted turn until its answer is posted.
//!
//! Supervised by: staffai (permanent).
//! Receives: accepted turns from the gateway, answers from conversations and the limiter, wishes to be forgotten from
//! commands, deliveries from the outbox, news of restarts.
//! Sends: open turns to the limiter, and what became of them; known answers to the outbox.
//! A restart loses: nothing that was durable. It reads its records again and offers every open turn; the outbox then looks into
//! the channel before it posts, so that nothing is said twice.

mod earlier;
mod ending;
mod entry;
mod memory;
mod offering;
mod report;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use self::entry::{Entry, record};
pub use self::report::Left;
use super::bounded_set::BoundedSet;
use super::forgotten::Forgotten;
use super::handle::{Handle, Reply};
use super::outbox::{Delivery, Outboxes};
use super::rate_limiter::RateLimiterMsg;
use super::receipt::Receipt;
use super::running::Live;
use super::supervisor::{Actor, ActorContext, Crash};
use super::timeline::Timeline;
use super::tree::{ActorKind, Scope};
use super::turn_events::TurnEvents;
use crate::domain::ids::{Person, Timestamp, TurnId};
use crate::domain::turn::{Answer, Turn};
use crate::ports::{Clock, Store, StoreStatus};

/// The most messages that wait until the records are read. What is dropped beyond that comes back or is found out: receipts
/// return their events, answers are asked for again, and posts are seen in their channel.
const EARLY_MAX: usize = 20_000;
/// The most finished turns remembered in memory, the oldest forgotten first.
const CLOSED_MAX: usize = 100_000;
/// How often deadlines are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What the journal is told and asked.
pub enum JournalMsg {
    /// The gateway accepted a turn. It is recorded and offered; the receipt is settled once the record is durable.
    Accept(Box<Accepted>),
    /// The records of an earlier life were read.
    Loaded(Vec<(String, String)>),
    /// They could not be read. Without them open turns would be forgotten and answered ones answered again.
    Unreadable(String),
    /// A conversation found the answer. It is recorded and handed to the outbox.
    Answered(TurnId, Box<Answer>),
    /// The outbox posted an answer. The turn is closed.
    Delivered(TurnId, Delivery),
    /// The outbox will never be able to post this answer. The turn is closed.
    Undeliverable(TurnId, String),
    /// The trigger was deleted. The turn is closed without an answer.
    Cancel(TurnId),
    /// The turn is closed without an answer, for this reason: the person was told enough already.
    Dropped(TurnId, &'static str),
    /// Nobody was there for an offered turn: it is offered again with the next look at deadlines.
    Undelivered(TurnId),
    /// Commands: this person wishes to be forgotten, with all that was asked up to this moment. Their open turns go on, but
    /// nothing is kept of them. Answered by how many those are, once that is visible in the store.
    Forget(Person, Timestamp, Reply<usize>),
    /// An actor that failed runs anew or is gone: what it may have held is offered again.
    ActorRecovered(Recovered),
    /// Time to look at deadlines.
    Sweep,
    /// From now on nothing is offered; what comes is only recorded.
    Drain,
    /// How much is left to do.
    Left(Reply<Left>),
    /// A turn replies to the answer of this one, and wants to know when that one is closed; answered at once if it is not open.
    TellWhenClosed(TurnId, Reply<()>),
}

/// An actor that failed, after it was started again or given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// What it is.
    pub kind: ActorKind,
    /// Which one of its kind it is.
    pub scope: Scope,
}

/// A turn on its way into custody.
pub struct Accepted {
    /// The turn.
    pub turn: Turn,
    /// Its answer, when it needs no model.
    pub answer: Option<Answer>,
    /// Its place among all open turns.
    pub permit: OwnedSemaphorePermit,
    /// Settled when the turn is durably recorded.
    pub receipt: Receipt,
}

/// The behaviour and its arguments.
pub struct Journal {
    /// Where records are kept.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// What this process runs with.
    pub live: Live,
    /// Who lets turns through to those who find answers.
    pub rate_limiter: Handle<RateLimiterMsg>,
    /// Who posts them.
    pub outboxes: Outboxes,
    /// What may not be remembered any more.
    pub forgotten: Arc<Forgotten>,
    /// Where each step is noted.
    pub timeline: Arc<Timeline>,
    /// Where those who read along learn of each step.
    pub events: TurnEvents,
}

/// What the journal holds.
pub struct JournalState {
    open: HashMap<TurnId, Entry>,
    closed: BoundedSet<TurnId, CLOSED_MAX>,
    /// What came while the records were still being read; none afterwards.
    early: Option<Vec<JournalMsg>>,
    /// The store was failing when the records were read: there may be more.
    partial: bool,
    draining: bool,
}

impl Actor for Journal {
    type Msg = JournalMsg;
    type State = JournalState;

    fn start(&self, ctx: &mut ActorContext<JournalMsg>) -> Result<JournalState, Crash> {
        self.read_records(ctx);
        ctx.after(SWEEP_EVERY, JournalMsg::Sweep);
        Ok(JournalState {
            open: HashMap::new(),
            closed: BoundedSet::default(),
            early: Some(Vec::new()),
            partial: false,
            draining: false,
        })
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<JournalMsg>,
        message: JournalMsg,
        state: &mut JournalState,
    ) -> Result<(), Crash> {
        match &mut state.early {
            Some(early) if message.needs_records() => {
                if early.len() < EARLY_MAX {
                    early.push(message);
                } else {
                    tracing::warn!(
                        event = "turn.shed",
                        r#where = "journal",
                        "too much came before the records were read"
                    );
                    metrics::counter!("staffai_shed_total", "where" => "journal").increment(1);
                }
                Ok(())
            }
            Some(_) | None => self.apply(ctx, state, message),
        }
    }
}

impl JournalMsg {
    /// Whether it is about turns that may stand in records of an earlier life.
    const fn needs_records(&self) -> bool {
        match self {
            Self::Accept(_)
            | Self::Answered(..)
            | Self::Delivered(..)
            | Self::Undeliverable(..)
            | Self::Cancel(_)
            | Self::Dropped(..)
            | Self::Undelivered(_)
            | Self::Forget(..)
            | Self::Left(_)
            | Self::TellWhenClosed(..) => true,
            Self::Loaded(_) | Self::Unreadable(_) | Self::ActorRecovered(_) | Self::Sweep | Self::Drain => false,
        }
    }
}

impl Journal {
    fn apply(
        &self,
        ctx: &mut ActorContext<JournalMsg>,
        state: &mut JournalState,
        message: JournalMsg,
    ) -> Result<(), Crash> {
        match message {
            JournalMsg::Accept(accepted) => self.accept(ctx, state, *accepted),
            JournalMsg::Loaded(records) => {
                state.partial = self.store.status() != StoreStatus::Ready;
                self.load(state, records);
                for early in state.early.take().unwrap_or_default() {
                    self.apply(ctx, state, early)?;
                }
            }
            JournalMsg::Unreadable(reason) => return Err(format!("the records cannot be read: {reason}").into()),
            JournalMsg::Answered(id, answer) => self.answered(state, &id, *answer),
            JournalMsg::Delivered(id, delivery) => self.delivered(state, &id, &delivery),
            JournalMsg::Undeliverable(id, reason) => self.undeliverable(state, &id, &reason),
            JournalMsg::Cancel(id) => self.withdraw(state, &id, "cancelled", "trigger deleted"),
            JournalMsg::Dropped(id, reason) => drop(self.drop_turn(state, &id, "dropped", reason)),
            JournalMsg::Forget(person, cut, reply) => {
                let writes = memory::forget(state, &person, cut);
                let many = writes.len();
                drop(self.store.write(writes));
                let _ = reply.send(many);
            }
            JournalMsg::Undelivered(id) => {
                if let Some(entry) = state.open.get_mut(&id).filter(|entry| entry.answer.is_none()) {
                    entry.undelivered = true;
                    entry.offers = entry.offers.saturating_sub(1);
                }
            }
            JournalMsg::ActorRecovered(recovered) => self.offer_again(state, &recovered),
            JournalMsg::Sweep => {
                self.sweep(state);
                if state.partial && self.store.status() == StoreStatus::Ready {
                    state.partial = false;
                    self.read_records(ctx);
                }
                ctx.after(SWEEP_EVERY, JournalMsg::Sweep);
            }
            JournalMsg::Drain => state.draining = true,
            JournalMsg::Left(reply) => {
                let undelivered = state.open.values().filter(|entry| entry.answer.is_some()).count();
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
        Ok(())
    }

    fn accept(&self, ctx: &mut ActorContext<JournalMsg>, state: &mut JournalState, accepted: Accepted) {
        let Accepted { turn, answer, permit, receipt } = accepted;
        if state.open.contains_key(&turn.id) || state.closed.contains(&turn.id) {
            tracing::debug!(event = "gateway.dropped", reason = "seen before", turn = %turn.id, "message dropped");
            receipt.settle();
            return;
        }
        let trigger = turn.trigger.as_str();
        tracing::info!(event = "turn.accepted", turn = %turn.id, door = %turn.id.door, trigger, "turn accepted");
        self.taken(&turn, answer.as_ref());
        let id = turn.id.clone();
        let entry = Entry::new(turn, answer, permit);
        let durable = self.store.write(vec![record(&entry)]);
        ctx.background(async move {
            durable.await;
            receipt.settle();
        });
        state.open.insert(id.clone(), entry);
        self.offer(state, &id);
    }
}

#[cfg(test)]
mod tests;
