//! `rate_limiter`: admits turns within the quotas of their members, and settles their real use.
//!
//! Supervised by: staffai (permanent).
//! Receives: open, resumed, ended and withdrawn turns from the journal; ended turns from conversations and turn tasks;
//! requests for the use of a member from commands and session routes.
//! Sends: admitted turns to conversations, refusals to the journal, breaches to the sweeper, reactions to the outbox.
//! A restart loses: the steps not done yet, at most the content of one window. The journal offers their turns again,
//! and the reservation of a turn is idempotent. If the end of a turn was lost, its reservation stays at the estimate
//! until it ages out. The learned estimates start over, and a member may get a second notice in the window.
//!
//! Every step is one operation of the limiter. A local limiter returns the result at once. Otherwise a task awaits it,
//! and further steps of the same member queue behind it, which keeps their order.

mod refusal;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use self::refusal::Notices;
use crate::messages::conversations::{ConversationsMsg, OfferedTurn};
use crate::messages::journal::JournalMsg;
use crate::messages::rate_limiter::{Asker, RateLimiterMsg};
use crate::messages::restriction_sweeper::SweeperMsg;
use crate::observers::Observers;
use crate::outbox::Outboxes;
use crate::runtime::handle::{Handle, Refused, Reply};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::running::{Live, Running};
use domain::attachment;
use domain::happening::Happening;
use domain::ids::{self, Timestamp, TurnId};
use domain::keys;
use domain::limits::account::Share;
use domain::limits::charge::spent;
use domain::limits::estimate::Learned;
use domain::limits::rules::Applied;
use domain::limits::{
    AccountStanding, AccountUse, Cost, Decision, LimitStep, Member, Request, Reservation, Standing, estimate_max,
};
use domain::turn::{Effort, HistoryScope, Turn};
use ports::{Clock, Limiter, Store, Subject};

/// The timeout of one step. The store has a shorter timeout of its own.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of queued requests about one member; further requests are dropped, which answers them. The
/// permits of open turns bound the number of turns.
const QUESTIONS_MAX: usize = 8;

/// The events from its tasks.
pub enum RateLimiterEvent {
    /// The store completed the current step of a member.
    Decided(Member, Decision),
    /// The store failed at the step, for this reason.
    StepFailed(Member, String),
}

/// The behaviour and its arguments.
pub struct RateLimiter {
    /// Performs each step.
    pub limiter: Arc<dyn Limiter>,
    /// Prefetches the data that an admitted turn needs next.
    pub store: Arc<dyn Store>,
    /// The wall clock, for times shown to people.
    pub clock: Arc<dyn Clock>,
    /// The running configuration: a reload changes limits at once.
    pub live: Live,
    /// Receives admitted turns.
    pub conversations: Handle<ConversationsMsg>,
    /// The journal, which has custody of the turns.
    pub journal: Handle<JournalMsg>,
    /// Receives confirmed breaches of requested turns. Breaches that rest on estimates are not reported.
    pub sweeper: Handle<SweeperMsg>,
    /// Shows a reaction to refused members who get no notice.
    pub outboxes: Outboxes,
    /// Records the use of the limits by turns.
    pub observers: Observers,
}

/// The state of the limiter.
#[derive(Default)]
pub struct RateLimiterState {
    lanes: HashMap<Member, MemberQueue>,
    learned: Learned,
    notices: Notices,
}

/// The steps of one member, in order.
#[derive(Default)]
struct MemberQueue {
    under_way: Option<Job>,
    waiting: VecDeque<Job>,
}

/// One step, with its purpose.
enum Job {
    Admit {
        offered: Box<OfferedTurn>,
        withdrawn: bool,
    },
    /// A part of a turn that was admitted before.
    Count(Arc<Turn>),
    Settle(Arc<Turn>, Effort),
    Cancel(Arc<Turn>),
    Usage(Applied, Vec<Share>, Reply<Standing>),
}

impl Actor for RateLimiter {
    type Msg = RateLimiterMsg;
    type Event = RateLimiterEvent;
    type State = RateLimiterState;

    fn start(&self, _me: &mut ActorContext<RateLimiter>) -> Result<RateLimiterState, Crash> {
        Ok(RateLimiterState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: RateLimiterMsg,
        state: &mut RateLimiterState,
    ) -> Result<(), Crash> {
        match message {
            RateLimiterMsg::Admit(offered) => {
                let member = member(&offered.turn);
                if !state.lanes.get(&member).is_some_and(|lane| lane.admits(&offered.turn.id)) {
                    self.enqueue(ctx, state, &member, Job::Admit { offered, withdrawn: false });
                }
            }
            RateLimiterMsg::GoesOn(turn) => self.enqueue(ctx, state, &member(&turn), Job::Count(turn)),
            RateLimiterMsg::Settle { turn, .. } if !counts(&turn) => {}
            RateLimiterMsg::Settle { turn, effort } => {
                if effort.model.is_some() {
                    let usage = effort.of_member();
                    state.learned.learn(&turn.person, &turn.place, usage.prompt, usage.completion);
                }
                self.enqueue(ctx, state, &member(&turn), Job::Settle(turn, effort));
            }
            RateLimiterMsg::Cancel(turn) => self.enqueue(ctx, state, &member(&turn), Job::Cancel(turn)),
            RateLimiterMsg::Withdraw(turn) => self.withdraw(state, &turn),
            RateLimiterMsg::Usage { asker, reply } => self.usage(ctx, state, &asker, reply),
        }
        Ok(())
    }

    fn subject(message: &RateLimiterMsg) -> Option<Subject> {
        match message {
            RateLimiterMsg::Admit(offered) => Some(Subject::of(&offered.turn.id)),
            RateLimiterMsg::GoesOn(_)
            | RateLimiterMsg::Settle { .. }
            | RateLimiterMsg::Cancel(_)
            | RateLimiterMsg::Withdraw(_)
            | RateLimiterMsg::Usage { .. } => None,
        }
    }

    fn give_up(&self, _ctx: &mut ActorContext<Self>, message: RateLimiterMsg, _state: &mut RateLimiterState) {
        if let RateLimiterMsg::Admit(offered) = message {
            // If the journal refuses this, it offers the turn again.
            self.journal.tell(offered.given_up());
        }
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: RateLimiterEvent,
        state: &mut RateLimiterState,
    ) -> Result<(), Crash> {
        match event {
            RateLimiterEvent::Decided(member, answer) => {
                if let Some(job) = state.lanes.get_mut(&member).and_then(|lane| lane.under_way.take()) {
                    self.decided(state, &member, job, answer);
                }
                self.next(ctx, state, &member);
            }
            RateLimiterEvent::StepFailed(member, reason) => {
                tracing::error!(reason, "a step about a limit was not done");
                if let Some(Job::Admit { offered, .. }) =
                    state.lanes.get_mut(&member).and_then(|lane| lane.under_way.take())
                {
                    self.undelivered(offered.turn.id.clone());
                }
                self.next(ctx, state, &member);
            }
        }
        Ok(())
    }
}

impl RateLimiter {
    fn enqueue(&self, ctx: &mut ActorContext<RateLimiter>, state: &mut RateLimiterState, member: &Member, job: Job) {
        state.lanes.entry(member.clone()).or_default().waiting.push_back(job);
        self.next(ctx, state, member);
    }

    /// Runs the steps of a lane in order, until a step is asynchronous or the lane is empty.
    fn next(&self, ctx: &mut ActorContext<RateLimiter>, state: &mut RateLimiterState, member: &Member) {
        loop {
            let Some(lane) = state.lanes.get_mut(member).filter(|lane| lane.under_way.is_none()) else { return };
            let Some(job) = lane.waiting.pop_front() else {
                state.lanes.remove(member);
                return;
            };
            if let Job::Admit { offered, .. } = &job {
                self.store.read_ahead(read_next(&self.live.now(), &offered.turn));
            }
            let mut step = self.limiter.step(self.request(state, member, &job));
            match (&mut step).now_or_never() {
                Some(answer) => self.decided(state, member, job, answer),
                None => {
                    if let Some(lane) = state.lanes.get_mut(member) {
                        lane.under_way = Some(job);
                    }
                    let (there, back) = (member.clone(), member.clone());
                    let decided = async move {
                        match tokio::time::timeout(STEP_TIMEOUT, step).await {
                            Ok(answer) => RateLimiterEvent::Decided(there, answer),
                            Err(_) => {
                                RateLimiterEvent::StepFailed(there, "the store did not answer in time".to_owned())
                            }
                        }
                    };
                    ctx.task(decided, move |panic| RateLimiterEvent::StepFailed(back, panic));
                    return;
                }
            }
        }
    }

    fn request(&self, state: &RateLimiterState, member: &Member, job: &Job) -> Request {
        let running = self.live.now();
        let (step, shares) = match job {
            Job::Admit { offered, .. } => {
                let turn = &offered.turn;
                let attached = attachment::estimate(turn.files(), running.settings.attachments.characters);
                let given = turn.given.as_ref().map_or(0, |given| given.tokens());
                let reservation = reservation(state, &running, turn);
                let reservation = Reservation { tokens: reservation.tokens + attached + given, ..reservation };
                self.observers.tell(&Happening::TurnReserved(&turn.id, &reservation));
                let shares = shares(&running, turn, &Amounts::expected(&running, turn, reservation.tokens));
                (LimitStep::Reserve(reservation), shares)
            }
            Job::Count(turn) => {
                let reservation = reservation(state, &running, turn);
                let tokens = reservation.tokens.min(estimate_max(reservation.limits.tokens));
                let shares = shares(&running, turn, &Amounts::expected(&running, turn, tokens));
                (LimitStep::Reserve(Reservation { tokens, exempt: true, ..reservation }), shares)
            }
            Job::Settle(turn, effort) => {
                let amounts = Amounts::taken(effort);
                (LimitStep::Settle(turn.id.clone(), amounts.tokens), shares(&running, turn, &amounts))
            }
            Job::Cancel(turn) => (LimitStep::Cancel(turn.id.clone()), shares(&running, turn, &Amounts::default())),
            Job::Usage(applied, shares, _) => (LimitStep::Read(applied.limits), shares.clone()),
        };
        Request { shares, ..Request::of_member(member.clone(), running.limits.window, step) }
    }

    /// Completes a step and notifies its requester.
    fn decided(&self, state: &mut RateLimiterState, member: &Member, job: Job, answer: Decision) {
        match (job, answer) {
            (Job::Admit { offered, withdrawn: true }, Decision::Admitted) => {
                // The turn is closed. If it was offered before, it may have reached a model, so its reservation is
                // kept.
                if let (false, Some(lane)) = (offered.again, state.lanes.get_mut(member)) {
                    lane.waiting.push_front(Job::Cancel(Arc::clone(&offered.turn)));
                }
            }
            (Job::Admit { offered, .. }, Decision::Admitted) => {
                if let (false, Some(lane)) = (counts(&offered.turn), state.lanes.get_mut(member)) {
                    lane.waiting.push_front(Job::Cancel(Arc::clone(&offered.turn)));
                }
                let offer = self.conversations.cast(ConversationsMsg::Offer(offered));
                if let Err(ConversationsMsg::Offer(back)) = offer.map_err(Refused::into_message) {
                    self.undelivered(back.turn.id.clone());
                }
            }
            (Job::Admit { withdrawn: true, .. }, _) => {}
            (Job::Admit { offered, .. }, Decision::Refused(refusal)) => {
                self.refuse(&mut state.notices, member, &offered.turn, refusal);
            }
            (Job::Usage(applied, shares, reply), Decision::Used(used)) => {
                let running = self.live.now();
                let now = self.clock.now();
                let limits = applied.limits;
                let at = |wait: Duration| Timestamp(now.0.saturating_add(ids::millis(wait)));
                let of_account = |(share, used): (&Share, &AccountUse)| AccountStanding {
                    scope: share.account.scope,
                    cost: share.account.cost,
                    used: (used.used, share.limit),
                    window: share.account.window,
                    frees_at: used.wait.map(at),
                };
                let standing = Standing {
                    messages: (used.messages, limits.messages),
                    tokens: (used.tokens, limits.tokens),
                    frees_at: used.wait.map(at),
                    window: running.limits.window,
                    exempt: applied.exempt,
                    accounts: shares.iter().zip(&used.accounts).map(of_account).collect(),
                };
                // The requester may have dropped the reply.
                let _ = reply.send(standing);
            }
            (Job::Admit { offered, .. }, Decision::Done | Decision::Used(_)) => {
                self.undelivered(offered.turn.id.clone());
            }
            (Job::Count(_) | Job::Settle(..) | Job::Cancel(_) | Job::Usage(..), _) => {}
        }
    }

    fn withdraw(&self, state: &mut RateLimiterState, turn: &Turn) {
        if let Some(lane) = state.lanes.get_mut(&member(turn)) {
            lane.waiting.retain(|job| !job.admits(&turn.id));
            if let Some(Job::Admit { offered, withdrawn }) = &mut lane.under_way {
                *withdrawn |= offered.turn.id == turn.id;
            }
        }
        // A router that is down has lost its conversations and their turns. If a full router refuses this, the journal
        // ignores the answer.
        self.conversations.tell(ConversationsMsg::Cancel(turn.place.clone(), turn.id.clone()));
    }

    fn usage(
        &self,
        ctx: &mut ActorContext<RateLimiter>,
        state: &mut RateLimiterState,
        asker: &Asker,
        reply: Reply<Standing>,
    ) {
        let running = self.live.now();
        let Asker { person, linked, guild, roles, place, parent } = asker;
        let applied = running.limits_in(person, place, parent.as_ref(), roles);
        let payer = running.payer(person, roles, guild.as_deref(), place, parent.as_ref());
        let shares = running.shares(payer, linked, applied.limits);
        let member = Member::of(person, guild.as_deref());
        let asked = |lane: &MemberQueue| lane.waiting.iter().filter(|job| matches!(job, Job::Usage(..))).count();
        if state.lanes.get(&member).is_none_or(|lane| asked(lane) < QUESTIONS_MAX) {
            self.enqueue(ctx, state, &member, Job::Usage(applied, shares, reply));
        }
    }

    /// Notifies the journal that the turn was not delivered. If the journal refuses this, it offers the turn again by
    /// itself.
    fn undelivered(&self, turn: TurnId) {
        self.journal.tell(JournalMsg::Undelivered(turn));
    }
}

impl MemberQueue {
    /// True if the turn is about to be admitted.
    fn admits(&self, turn: &TurnId) -> bool {
        self.under_way.iter().chain(&self.waiting).any(|job| job.admits(turn))
    }
}

impl Job {
    fn admits(&self, turn: &TurnId) -> bool {
        matches!(self, Self::Admit { offered, .. } if offered.turn.id == *turn)
    }
}

/// Returns the keys that a turn reads first after its admission.
fn read_next(running: &Running, turn: &Turn) -> Vec<String> {
    let asked = turn.trigger.is_asked();
    let history = asked && turn.policy.history == HistoryScope::PersonInPlace;
    // A row that cannot search for facts receives them in the prompt.
    let facts = history.then(|| keys::facts::fact_index(&turn.person));
    let history = history.then(|| keys::history(&turn.person, &turn.place));
    let chosen = running.reads_preferences(turn).then(|| keys::preferences(turn.linked.lead(&turn.person)));
    let edits = (!running.prompts.sections.is_empty()).then(|| keys::PROMPT_EDITS.to_owned());
    history.into_iter().chain(facts).chain(chosen).chain(edits).collect()
}

/// True if a turn counts in the limits. An interjection is the expense of the bot: it is compared with the limits of its
/// member, its reservation is cancelled at once, and its use is not settled.
fn counts(turn: &Turn) -> bool {
    turn.trigger.is_asked()
}

fn member(turn: &Turn) -> Member {
    Member::of(&turn.person, turn.guild.as_deref())
}

/// The amount of each cost that a turn uses; `None` if it is not known.
#[derive(Default)]
struct Amounts {
    tokens: Option<u64>,
    micros: Option<u64>,
}

impl Amounts {
    /// Returns the estimate for this number of tokens.
    fn expected(running: &Running, turn: &Turn, tokens: u64) -> Self {
        Self { tokens: Some(tokens), micros: Some(running.micros_of(turn.policy.model.as_deref(), tokens)) }
    }

    /// Returns the real use. Money is counted as a whole, including the tokens of tools.
    fn taken(effort: &Effort) -> Self {
        let tokens = spent(effort);
        Self { tokens, micros: tokens.map(|_| effort.micros) }
    }
}

/// Returns the accounts that a turn counts against, with its amounts.
fn shares(running: &Running, turn: &Turn, amounts: &Amounts) -> Vec<Share> {
    let payer = running.payer(&turn.person, &turn.roles, turn.guild.as_deref(), &turn.place, turn.parent.as_ref());
    let applied = running.limits_in(&turn.person, &turn.place, turn.parent.as_ref(), &turn.roles);
    let mut shares = running.shares(payer, &turn.linked, applied.limits);
    for share in &mut shares {
        share.amount = match share.account.cost {
            Cost::Messages | Cost::Calls => Some(1),
            Cost::Tokens => amounts.tokens,
            Cost::Dollars => amounts.micros,
        };
    }
    shares
}

/// Returns the estimated use of a turn under the limits of its member. Tools are paid by the bot: they are not
/// reserved.
fn reservation(state: &RateLimiterState, running: &Running, turn: &Turn) -> Reservation {
    let Applied { limits, exempt } = running.limits_in(&turn.person, &turn.place, turn.parent.as_ref(), &turn.roles);
    // A turn without an author has a budget of its own, checked before it became a turn.
    let exempt = exempt || (turn.trigger.is_asked() && !turn.trigger.has_message());
    let tokens = state.learned.estimate(&turn.person, &turn.place, running.fixed_prompt, &turn.text);
    let lease = running.settings.turn.lease();
    Reservation { turn: turn.id.clone(), tokens, lease, limits, exempt }
}

#[cfg(test)]
mod tests;
