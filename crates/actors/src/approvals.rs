//! approvals: asks people for decisions about tool calls.
//!
//! Supervised by: tools (permanent).
//! Receives: pending gates and their withdrawals from the journal; decisions from the gateway; queries of commands and pages.
//! Sends: decisions to the journal; questions, and responses to approvers, to the outbox.
//! A restart loses: nothing. Pending gates are in the journal's records and are read from it at the start; standing
//! allowances are in the store. A click at that very moment must be repeated.
//!
//! This actor decides a gate by the rules of `domain/gate.rs`; the decision takes effect once the journal has recorded
//! it. The question's message uses the gate's id as its nonce, so asking again is idempotent. Responses to a click are
//! visible only to the member who clicked. The actor first defers the response; the platform accepts one deferral for
//! each click, so a click that arrives twice decides once.

mod clicks;
mod loading;
mod messages;
mod passing;
mod tasks;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use self::clicks::Clicked;
pub use self::tasks::Polled;
use self::tasks::Watch;
use crate::desk::Ways;
use crate::messages::approvals::{ApprovalsMsg, Waiting, Withdrawal};
use crate::messages::journal::{Decided, JournalMsg};
use crate::observation::audit::Audit;
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::{Handle, Reply};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::allowances::Allowances;
use crate::services::own_ranges::OwnRanges;
use crate::services::toolbox::Toolbox;
use domain::gate::allowance::{ALLOWANCES_MAX, Allowance};
use domain::gate::overview::GatesOverview;
use domain::gate::{ApprovalDecision, Case, Choice, Click, ClickRefusal, Gate, GateId, OPEN_MAX, TASKS_MAX};
use domain::happening::Happening;
use domain::ids::{Door, MessageId, Timestamp};
use domain::keys;
use domain::ownership::Range;
use ports::shares::Shares;
use ports::{Clock, Origin, Store, Write};

/// The interval at which expired gates are closed and unposted questions are retried.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The timeout of a request to the journal to record a decision or list the pending gates.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of concurrent click responses, shared by members; the platform reports further clicks as failed.
const CLICKS_MAX: usize = 64;
/// The maximum number of remembered clicks, for deduplication; the oldest is evicted first.
const SEEN_MAX: usize = 4_096;

/// Events from its timer and its tasks.
pub enum ApprovalsEvent {
    /// The pending gates and the allowances of an earlier process; `None` for those that could not be read completely.
    Loaded(Option<Vec<Waiting>>, Option<Vec<Allowance>>),
    /// The time to check for expired gates.
    Look,
    /// The question is posted, or the reason why not.
    Posted(GateId, Result<MessageId, RequestFailure>),
    /// The response to a click is deferred.
    Claimed(Box<Clicked>),
    /// The journal recorded a decision (true) or does not have the gate pending (false); `None` if it did not answer.
    Recorded(Box<Recorded>, Option<bool>),
    /// The task of a server was polled.
    Polled(GateId, Polled),
    /// Clicks on gates of this process that arrived at other processes.
    Passed(Vec<Click>),
    /// A click on a gate that this process lacks was passed on; the click, if no other process took it.
    Unclaimed(Option<Box<Clicked>>),
}

/// The reason why a question is not posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFailure {
    /// The failure is temporary: retry.
    Again,
    /// The question cannot be posted.
    Never,
}

/// A decision that the journal is recording.
pub struct Recorded {
    gate: GateId,
    decision: ApprovalDecision,
    /// The click that made the decision; `None` for an expiry.
    click: Option<Clicked>,
    /// The time of the decision.
    at: Timestamp,
}

/// The behaviour and its arguments.
pub struct Approvals {
    /// The store of standing allowances.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The journal, which owns the turns with pending gates.
    pub journal: Handle<JournalMsg>,
    /// The outboxes for questions and responses.
    pub ways: Ways,
    /// The tools, whose servers work on tasks.
    pub toolbox: Arc<Toolbox>,
    /// The standing allowances.
    pub allowances: Arc<Allowances>,
    /// The audit, which has today's questions and decisions.
    pub audit: Arc<Audit>,
    /// The ranges of turns that other processes took over. Their gates belong to the owner: this process neither edits
    /// their questions nor responds to clicks.
    pub fenced: watch::Receiver<Vec<Range>>,
    /// The ranges of this process: a click may arrive at the process of another range than its gate.
    pub ranges: OwnRanges,
}

/// The state of approvals.
pub struct ApprovalsState {
    open: HashMap<GateId, Open>,
    seen: BoundedSet<MessageId, SEEN_MAX>,
    /// The click responses in progress, shared by the members who clicked.
    clicks: Shares,
    /// True once the pending gates of an earlier process are loaded.
    loaded: bool,
    /// True once its allowances are loaded.
    allowed: bool,
    /// True while any of them is being loaded.
    loading: bool,
    /// The members' clicks on gates that are not loaded yet; decided after the load. At most [`CLICKS_MAX`].
    early: Vec<Clicked>,
    /// The withdrawals made before the allowances were loaded.
    withdrawn: Vec<Withdrawal>,
    /// The gates that were closed while their questions were being posted, with the decision to show. At most
    /// [`OPEN_MAX`].
    closed: HashMap<GateId, (Gate, ApprovalDecision)>,
}

impl ApprovalsState {
    /// True if the load in progress may bring this gate.
    fn awaits(&self, gate: &GateId) -> bool {
        self.loading && !self.loaded && !self.open.contains_key(gate)
    }
}

/// A pending gate.
struct Open {
    case: Case,
    asking: AskState,
    /// True while the journal records a decision.
    recording: bool,
    /// The polls of the task for which the turn waits.
    watch: Option<Watch>,
}

impl Open {
    /// Creates an undecided gate, with the message of the question if it is known.
    fn new(gate: Gate, posted: Option<MessageId>) -> Self {
        let asking = posted.map_or(AskState::Due, |message| AskState::Asked(Some(message)));
        let watch = gate.subject.task().map(|task| Watch::new(task.pause()));
        Self { case: Case::open(gate), asking, recording: false, watch }
    }
}

/// The state of the question.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AskState {
    /// To be posted.
    Due,
    /// Being posted.
    Sent,
    /// Posted as a message or sent to reading clients; the message, if there is one.
    Asked(Option<MessageId>),
}

impl Actor for Approvals {
    type Msg = ApprovalsMsg;
    type Event = ApprovalsEvent;
    type State = ApprovalsState;

    fn start(&self, ctx: &mut ActorContext<Approvals>) -> Result<ApprovalsState, Crash> {
        self.load(ctx);
        ctx.after(LOOK_EVERY, ApprovalsEvent::Look);
        Ok(ApprovalsState {
            open: HashMap::new(),
            seen: BoundedSet::default(),
            clicks: Shares::new(Arc::new(Semaphore::new(CLICKS_MAX))),
            loaded: false,
            loading: true,
            early: Vec::new(),
            withdrawn: Vec::new(),
            allowed: false,
            closed: HashMap::new(),
        })
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: ApprovalsMsg,
        state: &mut ApprovalsState,
    ) -> Result<(), Crash> {
        match message {
            ApprovalsMsg::Ask(waiting) => self.take(ctx, state, *waiting),
            ApprovalsMsg::Gone(waiting) => self.gone(ctx, state, *waiting),
            ApprovalsMsg::Moved(gate) => {
                state.open.remove(&gate);
                state.closed.remove(&gate);
                self.count(state);
            }
            ApprovalsMsg::List(reply) => {
                let mut gates: Vec<Gate> = state.open.values().map(|open| open.case.gate.clone()).collect();
                gates.sort_by(|one, other| (one.expires_at, &one.id).cmp(&(other.expires_at, &other.id)));
                // The caller may have stopped waiting.
                let _ = reply.send(gates);
            }
            ApprovalsMsg::Overview(reply) => {
                // The caller may have stopped waiting.
                let _ = reply.send(GatesOverview::of(state.open.values().map(|open| &open.case.gate)));
            }
            ApprovalsMsg::Withdraw(which, reply) => {
                self.withdraw(ctx, &which, reply);
                if !state.allowed && state.withdrawn.len() < ALLOWANCES_MAX {
                    state.withdrawn.push(which);
                }
            }
            ApprovalsMsg::Decide(click, reply) => self.claim(ctx, state, Clicked::new(*click, reply)),
        }
        Ok(())
    }

    /// A pending gate can be among the refused messages: the next check requests all of them from the journal.
    fn overflowed(&self, _ctx: &mut ActorContext<Self>, state: &mut ApprovalsState) {
        state.loaded = false;
    }

    fn origin(event: &ApprovalsEvent) -> Origin {
        match event {
            ApprovalsEvent::Claimed(..)
            | ApprovalsEvent::Recorded(..)
            | ApprovalsEvent::Posted(..)
            | ApprovalsEvent::Passed(..)
            | ApprovalsEvent::Unclaimed(..)
            | ApprovalsEvent::Polled(..) => Origin::Outside(None),
            ApprovalsEvent::Loaded(..) | ApprovalsEvent::Look => Origin::Own,
        }
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ApprovalsEvent,
        state: &mut ApprovalsState,
    ) -> Result<(), Crash> {
        match event {
            ApprovalsEvent::Loaded(waiting, allowances) => {
                state.loading = false;
                if let Some(allowances) = allowances {
                    self.adopt(state, allowances);
                }
                // Applies only the first load: a later one could reopen a gate that was closed since.
                if let Some(waiting) = waiting.filter(|_| !state.loaded) {
                    state.loaded = true;
                    for waiting in waiting {
                        self.take(ctx, state, waiting);
                    }
                    // Time has passed since the last poll of the process before.
                    state.open.values_mut().filter_map(|open| open.watch.as_mut()).for_each(Watch::hurry);
                    self.poll_due(ctx, state);
                }
                for clicked in std::mem::take(&mut state.early) {
                    self.decide(ctx, state, clicked);
                }
            }
            ApprovalsEvent::Look => {
                let missing = !state.loaded || !state.allowed;
                if missing && !std::mem::replace(&mut state.loading, true) {
                    self.load(ctx);
                }
                self.look(ctx, state);
                self.poll_due(ctx, state);
                self.read_passed(ctx, state);
                ctx.after(LOOK_EVERY, ApprovalsEvent::Look);
            }
            ApprovalsEvent::Posted(gate, result) => self.posted(ctx, state, &gate, result),
            ApprovalsEvent::Claimed(clicked) if state.awaits(&clicked.click.gate) => state.early.push(*clicked),
            ApprovalsEvent::Claimed(clicked) => self.decide(ctx, state, *clicked),
            ApprovalsEvent::Recorded(recorded, known) => self.recorded(ctx, state, *recorded, known),
            ApprovalsEvent::Passed(clicks) => {
                for click in clicks {
                    self.claim(ctx, state, Clicked::passed(click));
                }
            }
            ApprovalsEvent::Unclaimed(clicked) => {
                if let Some(clicked) = clicked {
                    self.claim(ctx, state, *clicked);
                }
            }
            ApprovalsEvent::Polled(gate, polled) => self.polled(ctx, state, &gate, polled),
        }
        Ok(())
    }
}

impl Approvals {
    /// Adds a pending gate of a turn. A known gate stays unchanged.
    fn take(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, waiting: Waiting) {
        let Waiting { gate, posted } = waiting;
        if state.open.contains_key(&gate.id) || state.open.len() >= (OPEN_MAX + TASKS_MAX) * 2 {
            return;
        }
        self.ways.observers.tell(&Happening::GateAsked { gate: &gate, again: posted.is_some() });
        let id = gate.id.clone();
        state.open.insert(id.clone(), Open::new(gate, posted));
        self.count(state);
        self.look_at(ctx, state, &id);
        self.poll_due(ctx, state);
    }

    /// Removes the gate of a turn that no longer needs it.
    fn gone(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, waiting: Waiting) {
        let Waiting { gate, posted } = waiting;
        self.cancel_task(ctx, &gate);
        let open = state.open.remove(&gate.id);
        self.count(state);
        let open = open.unwrap_or_else(|| Open::new(gate, posted.clone()));
        self.close(ctx, state, open, posted, ApprovalDecision::Withdrawn);
    }

    /// True if another process owns the turns of this door.
    fn is_fenced(&self, door: &Door) -> bool {
        self.fenced.borrow().iter().any(|range| range.door() == door)
    }

    /// Replaces a question by its outcome, now or once the question is posted.
    fn close(
        &self,
        ctx: &mut ActorContext<Approvals>,
        state: &mut ApprovalsState,
        open: Open,
        posted: Option<MessageId>,
        decision: ApprovalDecision,
    ) {
        let Open { case, asking, .. } = open;
        if self.is_fenced(&case.gate.place.door) {
            return;
        }
        match asking {
            AskState::Asked(message) => {
                let message = message.or(posted);
                if let Some(message) = message {
                    self.rewrite(ctx, &case.gate, &message, &decision);
                }
            }
            AskState::Sent if state.closed.len() < OPEN_MAX + TASKS_MAX => {
                state.closed.insert(case.gate.id.clone(), (case.gate, decision));
            }
            AskState::Sent | AskState::Due => {}
        }
    }

    fn look(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState) {
        let ids: Vec<GateId> = state.open.keys().cloned().collect();
        for id in ids {
            self.look_at(ctx, state, &id);
        }
    }

    /// Posts a due question, and closes an expired gate.
    fn look_at(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, id: &GateId) {
        let Some(open) = state.open.get_mut(id).filter(|open| !open.recording) else { return };
        if let Some(decision) = open.case.expire(self.clock.now()) {
            return self.record(ctx, open, decision, None);
        }
        if open.asking == AskState::Due && self.is_shown_now(&open.case.gate) {
            self.ask(ctx, open);
        }
    }

    /// Has the journal record a decision, which takes effect from then on.
    fn record(
        &self,
        ctx: &mut ActorContext<Approvals>,
        open: &mut Open,
        decision: ApprovalDecision,
        click: Option<Clicked>,
    ) {
        open.recording = true;
        let (turn, gate) = (open.case.gate.turn.clone(), open.case.gate.id.clone());
        let decided = Decided { turn, gate: gate.clone(), decision: decision.clone() };
        let journal = self.journal.clone();
        let at = self.clock.now();
        let recorded = Recorded { gate: gate.clone(), decision: decision.clone(), click, at };
        let spare = Recorded { gate, decision, click: None, at };
        ctx.task(
            async move {
                let ask = |reply| JournalMsg::Decided(Box::new(decided), reply);
                let known = journal.call(ask, RECORD_TIMEOUT).await.ok();
                ApprovalsEvent::Recorded(Box::new(recorded), known)
            },
            move |_| ApprovalsEvent::Recorded(Box::new(spare), None),
        );
    }

    /// Handles the journal's response to a decision.
    fn recorded(
        &self,
        ctx: &mut ActorContext<Approvals>,
        state: &mut ApprovalsState,
        recorded: Recorded,
        known: Option<bool>,
    ) {
        let Recorded { gate: id, decision, click, at } = recorded;
        let (Some(known), true) = (known, state.open.contains_key(&id)) else {
            // The gate stays open: the approver is asked to repeat the decision, and the next check handles an expiry.
            if let Some(open) = state.open.get_mut(&id) {
                (open.recording, open.case.decision) = (false, None);
            }
            let why = if known.is_none() { ClickRefusal::NotRecorded } else { ClickRefusal::Unknown };
            return click.into_iter().for_each(|clicked| self.refuse(ctx, clicked, why, None));
        };
        let Some(open) = state.open.remove(&id) else { return };
        self.count(state);
        if !known {
            // The turn ended meanwhile.
            self.close(ctx, state, open, None, ApprovalDecision::Withdrawn);
            return click.into_iter().for_each(|clicked| self.refuse(ctx, clicked, ClickRefusal::Unknown, None));
        }
        let gate = open.case.gate.clone();
        let choice = click.as_ref().map(|clicked| clicked.click.choice);
        self.ways.observers.tell(&Happening::GateDecided { gate: &gate, decision: &decision, choice, at });
        self.close(ctx, state, open, None, decision.clone());
        let Some(clicked) = click else { return };
        if clicked.click.choice == Choice::Hour {
            self.allow(&gate, Allowance::of(&gate, &clicked.click.by, self.clock.now()));
        }
        self.confirm(ctx, clicked, &gate, decision);
    }

    /// Adds an allowance, so that the same call runs without a question for a limited time.
    fn allow(&self, gate: &Gate, allowance: Allowance) {
        let at = self.clock.now();
        self.ways.observers.tell(&Happening::CallAllowed { gate, allowance: &allowance, at });
        let key = keys::allowance(&allowance.id);
        // Plain data with string keys always serializes.
        let value = serde_json::to_string(&allowance).unwrap_or_default();
        let gone = self.allowances.add(allowance, self.clock.now());
        let gone = gone.map(|gone| Write::Delete { key: keys::allowance(&gone.id) });
        let kept = Write::Put { key, value, ttl: Some(keys::ALLOWANCE_TTL) };
        drop(self.store.write(std::iter::once(kept).chain(gone).collect()));
    }

    /// Withdraws allowances: from here on these calls require approval again.
    fn withdraw(&self, ctx: &mut ActorContext<Approvals>, which: &Withdrawal, reply: Reply<usize>) {
        let gone = self.allowances.withdraw(|allowance| which.takes_back(allowance));
        for allowance in &gone {
            let (Withdrawal::One { by, .. } | Withdrawal::Of(by)) = which;
            let (at, forgotten) = (self.clock.now(), matches!(which, Withdrawal::Of(_)));
            self.ways.observers.tell(&Happening::AllowanceWithdrawn { allowance, by, forgotten, at });
        }
        let many = gone.len();
        let durable = self.store.commit(Self::forget(&gone));
        ctx.background(async move {
            durable.await;
            // The caller may have stopped waiting.
            let _ = reply.send(many);
        });
    }

    /// The writes that delete these allowances from the store.
    fn forget(gone: &[Allowance]) -> Vec<Write> {
        gone.iter().map(|gone| Write::Delete { key: keys::allowance(&gone.id) }).collect()
    }

    fn count(&self, state: &ApprovalsState) {
        self.ways.observers.tell(&Happening::GatesOpen(state.open.len()));
    }
}

#[cfg(test)]
mod tests;
