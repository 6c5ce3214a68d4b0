//! `llm_dispatcher`: hands out model permits, keeps a breaker for each model, knows the order of fallbacks.
//!
//! Supervised by: staffai (permanent).
//! Receives: requests for a permit and reports of calls, both from turns and from the presence scheduler.
//! Sends: answers to those requests only.
//! A restart loses: what the breakers and the counts of refusals had learned, and the requests that waited; they come again.
//! Permits live outside and survive.
//!
//! While permits are short, the first request of each person comes before the second of any, in whatever places they were asked.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::account::Account;
use crate::messages::llm_dispatcher::Summary;
use crate::messages::llm_dispatcher::{Lease, LlmDispatcherMsg, NoModel, Priority, Report};
use crate::observation::board::{Board, PartKind};
use crate::runtime::handle::Reply;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::running::Live;
use domain::breaker::{Breaker, Change};
use domain::completion::Usage;
use domain::fair_queue::FairQueue;
use domain::happening::{Completed, Happening, ModelCalled, ModelFailed};
use domain::ids::{Person, TurnId};
use domain::model::Row;
use domain::refusals::Refusals;
use ports::Subject;

/// The most permits that are kept for questions when something less urgent asks.
const KEPT_MAX: usize = 2;

/// How many of so many permits are kept for questions: few, and none where there are hardly any.
const fn kept(permits: usize) -> usize {
    let quarter = permits / 4;
    if quarter < KEPT_MAX { quarter } else { KEPT_MAX }
}

/// What its task tells it.
pub enum LlmDispatcherEvent {
    /// A permit came back while requests waited.
    Freed(OwnedSemaphorePermit),
}

/// The behaviour and its arguments.
pub struct LlmDispatcher {
    /// What this process runs with: the models are asked by row.
    pub live: Live,
    /// The permits; they outlive this actor.
    pub permits: Arc<Semaphore>,
    /// Where the status of each model is shown.
    pub board: Arc<Board>,
    /// Where what happens is told.
    pub account: Account,
}

/// What the dispatcher holds.
pub struct LlmDispatcherState {
    breakers: HashMap<String, Breaker<Option<TurnId>, Option<Person>>>,
    refusals: HashMap<String, Refusals<Option<TurnId>, Option<Person>>>,
    origin: Instant,
    /// Who waits for a permit; bounded by the open turns.
    waiting: FairQueue<Person, Waiting>,
    /// A task waits for the next permit to come back.
    looking: bool,
}

/// A turn that waits for a permit.
struct Waiting {
    row: Row,
    reply: Reply<Result<Lease, NoModel>>,
}

impl Actor for LlmDispatcher {
    type Msg = LlmDispatcherMsg;
    type Event = LlmDispatcherEvent;
    type State = LlmDispatcherState;

    fn start(&self, _me: &mut ActorContext<LlmDispatcher>) -> Result<LlmDispatcherState, Crash> {
        for row in self.live.now().models.rows() {
            self.board.up(PartKind::Model, &row.key);
        }
        Ok(LlmDispatcherState {
            breakers: HashMap::new(),
            refusals: HashMap::new(),
            origin: Instant::now(),
            waiting: FairQueue::default(),
            looking: false,
        })
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: LlmDispatcherMsg,
        state: &mut LlmDispatcherState,
    ) -> Result<(), Crash> {
        match message {
            LlmDispatcherMsg::Acquire { row, among, tried, priority, reply } => {
                match (self.choose(state, row.as_deref(), &among, &tried), priority) {
                    (Ok(row), Priority::Waits(person)) => state.waiting.push(person, Waiting { row, reply }),
                    (Ok(row), Priority::IfFree) => drop(reply.send(self.spare(state, row, 0))),
                    (Ok(row), Priority::Spare) => {
                        let kept = kept(self.live.now().settings.llm.concurrent);
                        drop(reply.send(self.spare(state, row, kept)));
                    }
                    // A turn that stopped waiting needs no answer.
                    (Err(none), _) => drop(reply.send(Err(none))),
                }
                self.hand_out(ctx, state, None);
            }
            LlmDispatcherMsg::Report(report) => self.report(state, &report),
        }
        Ok(())
    }

    /// A turn whose question is lost asks again, as long as its deadline allows.
    fn subject(message: &LlmDispatcherMsg) -> Option<Subject> {
        match message {
            LlmDispatcherMsg::Acquire { priority: Priority::Waits(person), .. } => Some(Subject::of(person)),
            LlmDispatcherMsg::Acquire { .. } | LlmDispatcherMsg::Report(_) => None,
        }
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: LlmDispatcherEvent,
        state: &mut LlmDispatcherState,
    ) -> Result<(), Crash> {
        match event {
            LlmDispatcherEvent::Freed(permit) => {
                state.looking = false;
                self.hand_out(ctx, state, Some(permit));
            }
        }
        Ok(())
    }
}

impl LlmDispatcher {
    /// A permit that no request waits for, while more than `kept` are free.
    fn spare(&self, state: &LlmDispatcherState, row: Row, kept: usize) -> Result<Lease, NoModel> {
        if !state.waiting.is_empty() || self.permits.available_permits() <= kept {
            return Err(NoModel::Busy);
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| NoModel::Busy)?;
        Ok(Lease { row, permit })
    }

    /// Gives permits to those who wait, as long as there are both.
    fn hand_out(
        &self,
        ctx: &mut ActorContext<LlmDispatcher>,
        state: &mut LlmDispatcherState,
        mut free: Option<OwnedSemaphorePermit>,
    ) {
        while !state.waiting.is_empty() {
            let permit = free.take().or_else(|| Arc::clone(&self.permits).try_acquire_owned().ok());
            let Some(permit) = permit else { return self.look(ctx, state) };
            let Some(Waiting { row, reply }) = state.waiting.pop() else { return };
            // Whoever stopped waiting gives it back.
            if let Err(Ok(unwanted)) = reply.send(Ok(Lease { row, permit })) {
                free = Some(unwanted.permit);
            }
        }
    }

    /// Waits for the next permit that comes back. Every holder gives it back by its own deadline.
    fn look(&self, ctx: &mut ActorContext<LlmDispatcher>, state: &mut LlmDispatcherState) {
        if std::mem::replace(&mut state.looking, true) {
            return;
        }
        let (permits, events) = (Arc::clone(&self.permits), ctx.events());
        ctx.background(async move {
            if let Ok(permit) = permits.acquire_owned().await {
                // A dispatcher that went down has nobody who waits.
                let _ = events.send(LlmDispatcherEvent::Freed(permit));
            }
        });
    }

    /// The first row of the chain (the one asked for, then its fallbacks) that may answer, was not tried and whose breaker lets it.
    fn choose(
        &self,
        state: &mut LlmDispatcherState,
        row: Option<&str>,
        among: &[String],
        tried: &[String],
    ) -> Result<Row, NoModel> {
        let running = self.live.now();
        let now = state.origin.elapsed();
        let mut none = NoModel::Exhausted;
        for candidate in running.candidates(row, among).filter(|candidate| !tried.contains(&candidate.key)) {
            let breaker = state.breakers.entry(candidate.key.clone()).or_default();
            if breaker.opening_for(running.settings.llm.rest).allow(now) {
                return Ok(candidate.clone());
            }
            let rest = breaker.rest(now);
            none = NoModel::Open(match none {
                NoModel::Open(shorter) => shorter.min(rest),
                NoModel::Exhausted | NoModel::Busy => rest,
            });
        }
        Err(none)
    }

    fn report(&self, state: &mut LlmDispatcherState, report: &Report) {
        self.tell(report);
        let Report { turn, person, row, result, .. } = report;
        let refusals = state.refusals.entry(row.clone()).or_default();
        let breaker = state.breakers.entry(row.clone()).or_default();
        breaker.opening_for(self.live.now().settings.llm.rest);
        let change = match result {
            Ok(_) => {
                if refusals.succeeded() {
                    self.account.tell(&Happening::RowAccepted(row));
                    self.board.up(PartKind::Model, row);
                }
                breaker.succeeded()
            }
            Err(error) => {
                let words = &error.safe_message;
                if refusals.failed(error.kind, words, turn.clone(), person.clone()) {
                    self.account.tell(&Happening::RowRefused(row, words));
                    self.board.down(PartKind::Model, row, words);
                }
                let about_the_model = error.kind.is_about_the_model() && report.streamed.is_none();
                let now = state.origin.elapsed();
                about_the_model.then(|| breaker.failed(turn.clone(), person.clone(), now)).flatten()
            }
        };
        match change {
            Some(Change::Opened) => {
                let reason = result.as_ref().err().map_or_else(String::new, ToString::to_string);
                self.account.tell(&Happening::BreakerOpened(row, &reason));
                self.board.down(PartKind::Model, row, &reason);
            }
            Some(Change::Closed) => {
                self.account.tell(&Happening::BreakerClosed(row));
                self.board.up(PartKind::Model, row);
            }
            None => {}
        }
    }

    /// Tells how a call went.
    fn tell(&self, report: &Report) {
        let Report { turn, row, tries, took, streamed, result, .. } = report;
        let result = match result {
            Ok(Summary { finish, calls, usage }) => Ok(Completed { finish, calls: *calls, usage: *usage }),
            Err(error) => Err(ModelFailed {
                kind: error.kind.as_str(),
                reason: &error.safe_message,
                quoted: error.quoted(),
                streamed: *streamed,
            }),
        };
        let call = ModelCalled { turn: turn.as_ref(), row, tries: *tries, took: *took, result, cost: None };
        let cost = call.usage().and_then(|usage| self.cost(row, usage));
        self.account.tell(&Happening::ModelCalled(ModelCalled { cost, ..call }));
    }

    /// Dollars, when the row has prices.
    fn cost(&self, row: &str, usage: Usage) -> Option<f64> {
        Some(self.live.now().price(row)?.dollars(usage))
    }
}

#[cfg(test)]
mod tests;
