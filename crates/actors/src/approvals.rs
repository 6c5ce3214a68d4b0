//! approvals: asks people about calls of tools that wait for a decision.
//!
//! Supervised by: tools (permanent).
//! Receives: what turns wait for, and that they wait no more, from the journal; decisions from the gateway; questions of commands.
//! Sends: decisions to the journal; questions, and words to those who decide, to the outbox.
//! A restart loses: nothing. What is waited for is in the journal's records, and is asked there at the start; standing allowances are
//! in the store. Whoever pressed a button just then presses it again.
//!
//! A gate is decided here, by the law of `domain/gate.rs`, and counts once the journal has it on record. The message that asks has the
//! gate's id as its nonce, so asking again posts nothing twice. A click is answered to whoever clicked alone: first that an answer
//! comes, which the platform takes once, so a click that arrives twice decides once.

mod clicks;
mod messages;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use self::clicks::Clicked;
use crate::desk::Ways;
use crate::messages::approvals::{ApprovalsMsg, Waiting, Withdrawal};
use crate::messages::journal::{Decided, JournalMsg};
use crate::observation::audit::Audit;
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::{Handle, Reply};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::allowances::Allowances;
use domain::gate::allowance::{ALLOWANCES_MAX, Allowance};
use domain::gate::{Case, Choice, Decision, Gate, GateId, OPEN_MAX, Refusal};
use domain::happening::Happening;
use domain::ids::{MessageId, Timestamp};
use domain::keys;
use ports::{Clock, Origin, Store, Write};

/// How often ends are looked at, and what was not asked yet is asked again.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the journal may take to put a decision on record, or to tell what is waited for.
const RECORDED_WITHIN: Duration = Duration::from_secs(10);
/// The most clicks that are answered at once; whoever clicks beyond that is told by the platform that nothing came.
const CLICKS_MAX: usize = 64;
/// Clicks remembered, so that none is taken twice; the oldest are forgotten first.
const SEEN_MAX: usize = 4_096;

/// What its timer and its tasks tell it.
pub enum ApprovalsEvent {
    /// What is waited for, and what is allowed, as an earlier life left it; none when it could not be read.
    Loaded(Option<Vec<Waiting>>, Vec<Allowance>),
    /// Time to look at ends.
    Look,
    /// The message that asks stands there, or why it does not.
    Posted(GateId, Result<MessageId, Unasked>),
    /// Somebody who decides was told that an answer comes; none when they could not be.
    Claimed(Option<Box<Clicked>>),
    /// The journal has a decision on record, or does not wait for it; none when it gave no answer.
    Recorded(Box<Recorded>, Option<bool>),
    /// Somebody was answered.
    Answered,
}

/// Why a message that asks does not stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unasked {
    /// It is worth another try.
    Again,
    /// It cannot be posted.
    Never,
}

/// A decision on its way to its record.
pub struct Recorded {
    gate: GateId,
    decision: Decision,
    /// Who made it; none for the clock.
    click: Option<Clicked>,
    /// When it was made.
    at: Timestamp,
}

/// The behaviour and its arguments.
pub struct Approvals {
    /// Where standing allowances are kept.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Who has custody of the turns that wait.
    pub journal: Handle<JournalMsg>,
    /// What carries questions and answers.
    pub ways: Ways,
    /// Which calls run without a question for a while.
    pub allowances: Arc<Allowances>,
    /// Where questions and decisions were noted today.
    pub audit: Arc<Audit>,
}

/// What approvals holds.
pub struct ApprovalsState {
    open: HashMap<GateId, Open>,
    seen: BoundedSet<MessageId, SEEN_MAX>,
    /// Clicks that are being answered.
    clicks: usize,
    /// What an earlier life left is known.
    loaded: bool,
    /// It is being read.
    loading: bool,
    /// What was taken back before it was known.
    withdrawn: Vec<Withdrawal>,
    /// Gates that were closed while their questions were on their way: what stands there in the end. At most [`OPEN_MAX`].
    closed: HashMap<GateId, (Gate, Decision)>,
}

/// A gate that is not closed.
struct Open {
    case: Case,
    asking: AskState,
    /// A decision is on its way to its record.
    recording: bool,
}

impl Open {
    /// One that nobody decided yet; the message that asks, where it is known.
    fn new(gate: Gate, posted: Option<MessageId>) -> Self {
        let asking = posted.map_or(AskState::Due, |message| AskState::Asked(Some(message)));
        Self { case: Case::open(gate), asking, recording: false }
    }
}

/// How far the question is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AskState {
    /// It is to be posted.
    Due,
    /// It is on its way.
    Sent,
    /// Those who read along have it; where there is a message, it is this.
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
            clicks: 0,
            loaded: false,
            loading: true,
            withdrawn: Vec::new(),
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
            ApprovalsMsg::List(reply) => {
                let mut gates: Vec<Gate> = state.open.values().map(|open| open.case.gate.clone()).collect();
                gates.sort_by(|one, other| (one.expires_at, &one.id).cmp(&(other.expires_at, &other.id)));
                // Whoever asked may have stopped waiting.
                let _ = reply.send(gates);
            }
            ApprovalsMsg::Withdraw(which, reply) => {
                self.withdraw(ctx, &which, reply);
                if !state.loaded && state.withdrawn.len() < ALLOWANCES_MAX {
                    state.withdrawn.push(which);
                }
            }
            ApprovalsMsg::Decide(click, reply) => self.claim(ctx, state, Clicked { click: *click, reply }),
        }
        Ok(())
    }

    fn origin(event: &ApprovalsEvent) -> Origin {
        match event {
            ApprovalsEvent::Claimed(..)
            | ApprovalsEvent::Recorded(..)
            | ApprovalsEvent::Posted(..)
            | ApprovalsEvent::Answered => Origin::Outside(None),
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
                let now = self.clock.now();
                let is_gone = |known: &Allowance| state.withdrawn.iter().any(|which| which.takes_back(known));
                let (gone, held): (Vec<_>, Vec<_>) = allowances.into_iter().partition(is_gone);
                for allowance in held {
                    self.allowances.add(allowance, now);
                }
                drop(self.store.write(Self::forget(&gone)));
                state.loading = false;
                state.loaded = waiting.is_some();
                if state.loaded {
                    state.withdrawn.clear();
                }
                for waiting in waiting.into_iter().flatten() {
                    self.take(ctx, state, waiting);
                }
            }
            ApprovalsEvent::Look => {
                if !state.loaded && !std::mem::replace(&mut state.loading, true) {
                    self.load(ctx);
                }
                self.look(ctx, state);
                ctx.after(LOOK_EVERY, ApprovalsEvent::Look);
            }
            ApprovalsEvent::Posted(gate, result) => self.posted(ctx, state, &gate, result),
            ApprovalsEvent::Claimed(Some(clicked)) => self.decide(ctx, state, *clicked),
            ApprovalsEvent::Recorded(recorded, known) => self.recorded(ctx, state, *recorded, known),
            ApprovalsEvent::Claimed(None) | ApprovalsEvent::Answered => state.clicks = state.clicks.saturating_sub(1),
        }
        Ok(())
    }
}

impl Approvals {
    /// Reads what an earlier life left.
    fn load(&self, ctx: &mut ActorContext<Approvals>) {
        let (journal, store, audit) = (self.journal.clone(), Arc::clone(&self.store), Arc::clone(&self.audit));
        ctx.task(
            async move {
                let _ = tokio::time::timeout(RECORDED_WITHIN, audit.load()).await;
                let scan = store.scan(keys::ALLOWANCE_PREFIX, ALLOWANCES_MAX);
                let stored = tokio::time::timeout(RECORDED_WITHIN, scan).await.unwrap_or_default();
                let allowances = stored.iter().filter_map(|(_, text)| serde_json::from_str(text).ok()).collect();
                let waiting = journal.call(JournalMsg::Waiting, RECORDED_WITHIN).await.ok();
                ApprovalsEvent::Loaded(waiting, allowances)
            },
            |_| ApprovalsEvent::Loaded(None, Vec::new()),
        );
    }

    /// A turn waits for this. What is known already stays as it is.
    fn take(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, waiting: Waiting) {
        let Waiting { gate, posted } = waiting;
        if state.open.contains_key(&gate.id) || state.open.len() >= OPEN_MAX * 2 {
            return;
        }
        self.ways.account.tell(&Happening::GateAsked { gate: &gate, again: posted.is_some() });
        let id = gate.id.clone();
        state.open.insert(id.clone(), Open::new(gate, posted));
        self.count(state);
        self.look_at(ctx, state, &id);
    }

    /// A turn waits no more.
    fn gone(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, waiting: Waiting) {
        let Waiting { gate, posted } = waiting;
        let open = state.open.remove(&gate.id);
        self.count(state);
        let open = open.unwrap_or_else(|| Open::new(gate, posted.clone()));
        self.close(ctx, state, open, posted, Decision::Withdrawn);
    }

    /// Shows in the place of a question what became of it, now or once it stands there.
    fn close(
        &self,
        ctx: &mut ActorContext<Approvals>,
        state: &mut ApprovalsState,
        open: Open,
        posted: Option<MessageId>,
        decision: Decision,
    ) {
        let Open { case, asking, .. } = open;
        match asking {
            AskState::Asked(message) => {
                let message = message.or(posted);
                if let Some(message) = message {
                    self.rewrite(ctx, &case.gate, &message, &decision);
                }
            }
            AskState::Sent if state.closed.len() < OPEN_MAX => {
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

    /// Asks what is to be asked, and closes what nobody decided in time.
    fn look_at(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, id: &GateId) {
        let Some(open) = state.open.get_mut(id).filter(|open| !open.recording) else { return };
        if let Some(decision) = open.case.expire(self.clock.now()) {
            return self.record(ctx, open, decision, None);
        }
        if open.asking == AskState::Due {
            self.ask(ctx, open);
        }
    }

    /// Puts a decision on record; it counts from then on.
    fn record(&self, ctx: &mut ActorContext<Approvals>, open: &mut Open, decision: Decision, click: Option<Clicked>) {
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
                let known = journal.call(ask, RECORDED_WITHIN).await.ok();
                ApprovalsEvent::Recorded(Box::new(recorded), known)
            },
            move |_| ApprovalsEvent::Recorded(Box::new(spare), None),
        );
    }

    /// A decision is on record, or is none.
    fn recorded(
        &self,
        ctx: &mut ActorContext<Approvals>,
        state: &mut ApprovalsState,
        recorded: Recorded,
        known: Option<bool>,
    ) {
        let Recorded { gate: id, decision, click, at } = recorded;
        let (Some(known), true) = (known, state.open.contains_key(&id)) else {
            // It is as open as before: whoever decided is told to do it again, and the clock looks again.
            if let Some(open) = state.open.get_mut(&id) {
                (open.recording, open.case.decision) = (false, None);
            }
            let why = if known.is_none() { Refusal::NotRecorded } else { Refusal::Unknown };
            return click.into_iter().for_each(|clicked| self.refuse(ctx, clicked, why, None));
        };
        let Some(open) = state.open.remove(&id) else { return };
        self.count(state);
        if !known {
            // The turn ended meanwhile.
            self.close(ctx, state, open, None, Decision::Withdrawn);
            return click.into_iter().for_each(|clicked| self.refuse(ctx, clicked, Refusal::Unknown, None));
        }
        let gate = open.case.gate.clone();
        let choice = click.as_ref().map(|clicked| clicked.click.choice);
        self.ways.account.tell(&Happening::GateDecided { gate: &gate, decision: &decision, choice, at });
        self.close(ctx, state, open, None, decision.clone());
        let Some(clicked) = click else { return };
        if clicked.click.choice == Choice::Hour {
            self.allow(&gate, Allowance::of(&gate, &clicked.click.by, self.clock.now()));
        }
        self.confirm(ctx, clicked, decision);
    }

    /// The same call runs for a while without a question.
    fn allow(&self, gate: &Gate, allowance: Allowance) {
        let at = self.clock.now();
        self.ways.account.tell(&Happening::CallAllowed { gate, allowance: &allowance, at });
        let key = keys::allowance(&allowance.id);
        // Plain data with string keys always serialises.
        let value = serde_json::to_string(&allowance).unwrap_or_default();
        let gone = self.allowances.add(allowance, self.clock.now());
        let gone = gone.map(|gone| Write::Delete { key: keys::allowance(&gone.id) });
        let kept = Write::Put { key, value, ttl: Some(keys::ALLOWANCE_TTL) };
        drop(self.store.write(std::iter::once(kept).chain(gone).collect()));
    }

    /// Takes allowances back: from here on the calls need a yes again.
    fn withdraw(&self, ctx: &mut ActorContext<Approvals>, which: &Withdrawal, reply: Reply<usize>) {
        let gone = self.allowances.withdraw(|allowance| which.takes_back(allowance));
        for allowance in &gone {
            let (Withdrawal::One { by, .. } | Withdrawal::Of(by)) = which;
            let (at, forgotten) = (self.clock.now(), matches!(which, Withdrawal::Of(_)));
            self.ways.account.tell(&Happening::AllowanceWithdrawn { allowance, by, forgotten, at });
        }
        let many = gone.len();
        let durable = self.store.commit(Self::forget(&gone));
        ctx.background(async move {
            durable.await;
            // Whoever asked may have stopped waiting.
            let _ = reply.send(many);
        });
    }

    /// No later life reads these any more.
    fn forget(gone: &[Allowance]) -> Vec<Write> {
        gone.iter().map(|gone| Write::Delete { key: keys::allowance(&gone.id) }).collect()
    }

    fn count(&self, state: &ApprovalsState) {
        self.ways.account.tell(&Happening::GatesOpen(state.open.len()));
    }
}

#[cfg(test)]
mod tests;
