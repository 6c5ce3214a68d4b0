//! `llm_dispatcher`: grants permits for model calls, runs a circuit breaker for each model, and selects fallbacks.
//!
//! Supervised by: staffai (permanent).
//! Receives: permit requests and call reports, both from turns and from the presence scheduler.
//! Sends: only replies to these requests.
//! A restart loses: the state of the breakers, the counts of refusals, and the queued requests, which are sent again.
//! Permits live outside the actor and survive.
//!
//! While permits are short, the queue is fair: the first request of each person precedes the second of any person,
//! across all places. Neither a person nor a slow row or provider can hold all permits (see `model_permits`).
//!
//! Each row has a breaker, because one model of a provider can fail alone. A failure to reach the provider's address
//! counts in the breakers of all its rows, so that they open together.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::messages::llm_dispatcher::Summary;
use crate::messages::llm_dispatcher::{Lease, LlmDispatcherMsg, NoModel, Priority, Report};
use crate::model_permits::{Callee, ModelPermits};
use crate::observation::board::{Board, PartKind};
use crate::observers::Observers;
use crate::runtime::handle::Reply;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::running::{Live, Running};
use domain::breaker::{Breaker, BreakerChange};
use domain::completion::Usage;
use domain::fair_queue::FairQueue;
use domain::happening::{Completed, Happening, ModelCalled, ModelFailed};
use domain::ids::{Person, TurnId};
use domain::model::Row;
use domain::refusals::Refusals;
use ports::Subject;

/// The maximum number of permits reserved for questions against less urgent requests.
const KEPT_MAX: usize = 2;

/// The number of permits reserved for questions, out of this many: few, and zero if there are hardly any.
const fn kept(permits: usize) -> usize {
    let quarter = permits / 4;
    if quarter < KEPT_MAX { quarter } else { KEPT_MAX }
}

/// Events from its task.
pub enum LlmDispatcherEvent {
    /// A permit was returned while requests were queued.
    Returned,
}

/// The behaviour and its arguments.
pub struct LlmDispatcher {
    /// The running configuration, with the models by row.
    pub live: Live,
    /// The permits; they outlive this actor.
    pub permits: ModelPermits,
    /// The board that shows the state of each model.
    pub board: Arc<Board>,
    /// The observers of events.
    pub observers: Observers,
}

/// The state of the dispatcher.
pub struct LlmDispatcherState {
    breakers: HashMap<String, Breaker<Option<TurnId>, Option<Person>>>,
    refusals: HashMap<String, Refusals<Option<TurnId>, Option<Person>>>,
    origin: Instant,
    /// The queue of permit requests; bounded by the open turns.
    waiting: FairQueue<Person, Waiting>,
    /// True if a task waits for the return of a permit.
    looking: bool,
}

/// A turn in the queue.
struct Waiting {
    person: Person,
    row: Row,
    provider: String,
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
                match (self.choose(state, (row.as_deref(), &among), &tried, priority.person()), priority) {
                    (Ok(row), Priority::Waits(person)) => {
                        let provider = self.live.now().models.provider(&row.key).to_owned();
                        state.waiting.push(person.clone(), Waiting { person, row, provider, reply });
                    }
                    (Ok(row), Priority::IfFree) => drop(reply.send(self.spare(state, row, 0))),
                    (Ok(row), Priority::Spare) => {
                        let kept = kept(self.live.now().settings.llm.concurrent);
                        drop(reply.send(self.spare(state, row, kept)));
                    }
                    // A turn that stopped waiting needs no reply.
                    (Err(none), _) => drop(reply.send(Err(none))),
                }
                self.hand_out(ctx, state);
            }
            LlmDispatcherMsg::Report(report) => self.report(state, &report),
        }
        Ok(())
    }

    /// A turn whose request was lost sends it again, as long as its deadline allows.
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
            LlmDispatcherEvent::Returned => {
                state.looking = false;
                self.hand_out(ctx, state);
            }
        }
        Ok(())
    }
}

impl LlmDispatcher {
    /// Returns a permit if no request is queued and more than `kept` permits are free.
    fn spare(&self, state: &LlmDispatcherState, row: Row, kept: usize) -> Result<Lease, NoModel> {
        if !state.waiting.is_empty() || self.permits.free() <= kept {
            return Err(NoModel::Busy);
        }
        let running = self.live.now();
        let provider = running.models.provider(&row.key).to_owned();
        let permit = self.permits.take(None, Rivals::of(&running).callee(&row, &provider)).ok_or(NoModel::Busy)?;
        Ok(Lease { row, permit })
    }

    /// Grants permits to queued requests until none is left for any of their persons.
    fn hand_out(&self, ctx: &mut ActorContext<LlmDispatcher>, state: &mut LlmDispatcherState) {
        let returned = self.permits.returned();
        // Requests whose callers stopped waiting are taken out.
        let rivals = Rivals::of(&self.live.now());
        let due = |person: &Person, waiting: &Waiting| {
            let callee = rivals.callee(&waiting.row, &waiting.provider);
            waiting.reply.is_closed() || self.permits.admits(person, callee)
        };
        while self.permits.free() > 0
            && let Some(Waiting { person, row, provider, reply }) = state.waiting.pop(due)
        {
            if reply.is_closed() {
                continue;
            }
            // A refused lease returns its permit.
            if let Some(permit) = self.permits.take(Some(&person), rivals.callee(&row, &provider)) {
                let _ = reply.send(Ok(Lease { row, permit }));
            }
        }
        if !state.waiting.is_empty() {
            look(ctx, state, returned);
        }
    }

    /// Returns the first row of the chain (the requested row, then its fallbacks) that may answer, was not tried, and
    /// whose breaker admits the call.
    fn choose(
        &self,
        state: &mut LlmDispatcherState,
        (row, among): (Option<&str>, &[String]),
        tried: &[String],
        person: Option<&Person>,
    ) -> Result<Row, NoModel> {
        let running = self.live.now();
        let (now, origin) = (state.origin.elapsed(), person.cloned());
        let mut none = NoModel::Exhausted;
        for candidate in running.candidates(row, among).filter(|candidate| !tried.contains(&candidate.key)) {
            let breaker = state.breakers.entry(candidate.key.clone()).or_default();
            if breaker.opening_for(running.settings.llm.rest).allow(&origin, now) {
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
        let now = state.origin.elapsed();
        match result {
            Ok(_) => {
                if refusals.succeeded() {
                    self.observers.tell(&Happening::RowAccepted(row));
                    self.board.up(PartKind::Model, row);
                }
                let breaker = state.breakers.entry(row.clone()).or_default();
                if breaker.succeeded(person.clone(), now) == Some(BreakerChange::Closed) {
                    self.observers.tell(&Happening::BreakerClosed(row));
                    self.board.up(PartKind::Model, row);
                }
            }
            Err(error) => {
                let words = &error.safe_message;
                if refusals.failed(error.kind, words, turn.clone(), person.clone()) {
                    self.observers.tell(&Happening::RowRefused(row, words));
                    self.board.down(PartKind::Model, row, words);
                }
                if !error.kind.is_about_the_model() || report.streamed.is_some() {
                    return;
                }
                let running = self.live.now();
                let provider = running.models.provider(row);
                let has_it = |other: &&str| *other != row && running.models.provider(other) == provider;
                let peers = running.models.rows().iter().map(|row| row.key.as_str()).filter(has_it);
                for row in std::iter::once(row.as_str()).chain(peers.filter(|_| error.unreached)) {
                    let breaker = state.breakers.entry(row.to_owned()).or_default();
                    let change =
                        breaker.opening_for(running.settings.llm.rest).failed(turn.clone(), person.clone(), now);
                    if change == Some(BreakerChange::Opened) {
                        let reason = error.to_string();
                        self.observers.tell(&Happening::BreakerOpened(row, &reason));
                        self.board.down(PartKind::Model, row, &reason);
                    }
                }
            }
        }
    }

    /// Reports the result of a call to the account.
    fn tell(&self, report: &Report) {
        let Report { turn, purpose, row, tries, took, streamed, result, .. } = report;
        let result = match result {
            Ok(Summary { finish, calls, usage }) => Ok(Completed { finish, calls: *calls, usage: *usage }),
            Err(error) => Err(ModelFailed {
                kind: error.kind.as_str(),
                reason: &error.safe_message,
                quoted: error.quoted(),
                streamed: *streamed,
            }),
        };
        let (turn, purpose) = (turn.as_ref(), *purpose);
        let call = ModelCalled { turn, purpose, row, tries: *tries, took: *took, result, cost: None };
        let cost = call.usage().and_then(|usage| self.cost(row, usage));
        self.observers.tell(&Happening::ModelCalled(ModelCalled { cost, ..call }));
    }

    /// The cost in dollars, if the row has prices.
    fn cost(&self, row: &str, usage: Usage) -> Option<f64> {
        Some(self.live.now().price(row)?.dollars(usage))
    }
}

/// The alternatives that the running configuration has to a row and to a provider.
#[derive(Clone, Copy)]
struct Rivals {
    rows: bool,
    providers: bool,
}

impl Rivals {
    fn of(running: &Running) -> Self {
        let (models, rows) = (&running.models, running.models.rows());
        let mut providers = rows.iter().map(|row| models.provider(&row.key));
        let first = providers.next();
        Self { rows: rows.len() > 1, providers: providers.any(|other| Some(other) != first) }
    }

    fn callee<'a>(self, row: &'a Row, provider: &'a String) -> Callee<'a> {
        Callee { row: self.rows.then_some(&row.key), provider: self.providers.then_some(provider) }
    }
}

/// Waits for the return of a permit. Every holder returns its permit by its own deadline.
fn look(ctx: &mut ActorContext<LlmDispatcher>, state: &mut LlmDispatcherState, mut returned: watch::Receiver<()>) {
    if std::mem::replace(&mut state.looking, true) {
        return;
    }
    let events = ctx.events();
    ctx.background(async move {
        // The permits outlive the dispatcher.
        let _ = returned.changed().await;
        // A dispatcher that went down has no queued requests.
        events.tell(LlmDispatcherEvent::Returned);
    });
}

#[cfg(test)]
mod tests;
