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

use self::entry::{Entry, record};
use super::bounded_set::BoundedSet;
use super::forgotten::Forgotten;
use super::handle::Handle;
use super::messages::journal::{Accepted, JournalMsg, Left, Recovered};
use super::messages::rate_limiter::RateLimiterMsg;
use super::outbox::Outboxes;
use super::running::Live;
use super::supervisor::{Actor, ActorContext, Crash};
use super::timeline::Timeline;
use super::turn_events::TurnEvents;
use crate::domain::ids::TurnId;
use crate::ports::{Clock, Store, StoreStatus};

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
    Loaded(Vec<(String, String)>),
    /// They could not be read. Without them open turns would be forgotten and answered ones answered again.
    Unreadable(String),
    /// Time to look at deadlines.
    Sweep,
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
    type Event = JournalEvent;
    type State = JournalState;

    fn start(&self, ctx: &mut ActorContext<Journal>) -> Result<JournalState, Crash> {
        self.read_records(ctx);
        ctx.after(SWEEP_EVERY, JournalEvent::Sweep);
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
        ctx: &mut ActorContext<Journal>,
        message: JournalMsg,
        state: &mut JournalState,
    ) -> Result<(), Crash> {
        match &mut state.early {
            Some(early) if needs_records(&message) => {
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
            Some(_) | None => {
                self.apply(ctx, state, message);
                Ok(())
            }
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
                state.partial = self.store.status() != StoreStatus::Ready;
                self.load(state, records);
                for early in state.early.take().unwrap_or_default() {
                    self.apply(ctx, state, early);
                }
            }
            JournalEvent::Unreadable(reason) => return Err(format!("the records cannot be read: {reason}").into()),
            JournalEvent::Sweep => {
                self.sweep(state);
                if state.partial && self.store.status() == StoreStatus::Ready {
                    state.partial = false;
                    self.read_records(ctx);
                }
                ctx.after(SWEEP_EVERY, JournalEvent::Sweep);
            }
        }
        Ok(())
    }
}

/// Whether a message is about turns that may stand in records of an earlier life.
const fn needs_records(message: &JournalMsg) -> bool {
    !matches!(message, JournalMsg::ActorRecovered(_) | JournalMsg::Drain)
}

impl Journal {
    fn apply(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, message: JournalMsg) {
        match message {
            JournalMsg::Accept(accepted) => self.accept(ctx, state, *accepted),
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
    }

    fn accept(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, accepted: Accepted) {
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
