//! `rate_limiter`: admits turns within the limits of their members, and settles what they took.
//!
//! Supervised by: staffai (permanent).
//! Receives: open turns, those that go on after a decision, ended ones and withdrawn ones from the journal; ended ones from
//! conversations; questions of commands.
//! Sends: admitted turns to conversations, refusals to the journal, breaches to the sweeper, reactions to the outbox.
//! A restart loses: what it had not done yet, which is no more than what a window holds. Turns are offered again by the journal,
//! and a reservation that is there already stays the only one; one whose end was lost stays at its estimate until it has aged
//! out. What was learned about estimates begins anew, and a member may hear a second notice within the window.
//!
//! Every step is one operation of the limiter. Where it asks no server, its answer is there at once; else a task waits
//! for it, and further steps about the same member wait behind it, so that they keep their order.

mod refusal;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use self::refusal::Notices;
use crate::account::Account;
use crate::messages::conversations::{ConversationsMsg, Offered};
use crate::messages::journal::JournalMsg;
use crate::messages::rate_limiter::{Asker, RateLimiterMsg};
use crate::messages::restriction_sweeper::SweeperMsg;
use crate::outbox::Outboxes;
use crate::runtime::handle::{Handle, Reply, Undelivered};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::running::{Live, Running};
use domain::attachment;
use domain::gate::Parked;
use domain::happening::Happening;
use domain::ids::{self, Timestamp, TurnId};
use domain::keys;
use domain::limits::charge::{Charge, charge, spent};
use domain::limits::estimate::Learned;
use domain::limits::rules::Applied;
use domain::limits::{Decision, Member, Request, Reservation, Standing, Step, estimate_max};
use domain::turn::{self, Effort, HistoryScope, Turn};
use ports::{Clock, Limiter, Store, Subject};

/// How long one step may take. The store bounds itself more tightly.
const STEP_WITHIN: Duration = Duration::from_secs(10);
/// The most questions about one member that wait; further ones are dropped, which answers them. Turns are bounded by the
/// permits of open turns.
const QUESTIONS_MAX: usize = 8;

/// What its tasks tell it.
pub enum RateLimiterEvent {
    /// The store has done the step about a member that was under way.
    Decided(Member, Decision),
    /// It has not: for this reason.
    Unruled(Member, String),
}

/// The behaviour and its arguments.
pub struct RateLimiter {
    /// Does each step.
    pub limiter: Arc<dyn Limiter>,
    /// Begins to read what an admitted turn needs next.
    pub store: Arc<dyn Store>,
    /// Wall-clock time, for what people read.
    pub clock: Arc<dyn Clock>,
    /// What this process runs with: a reload changes limits at once.
    pub live: Live,
    /// Who answers.
    pub conversations: Handle<ConversationsMsg>,
    /// Who has custody.
    pub journal: Handle<JournalMsg>,
    /// Told of real breaches: not of those by estimates alone, and of turns that somebody asked for only.
    pub sweeper: Handle<SweeperMsg>,
    /// Where refused members are shown that they were read, when there is no notice for them.
    pub outboxes: Outboxes,
    /// Where it is written down what turns take of the limits.
    pub account: Account,
}

/// What the limiter holds.
#[derive(Default)]
pub struct RateLimiterState {
    lanes: HashMap<Member, MemberQueue>,
    learned: Learned,
    notices: Notices,
}

/// The steps about one member, in order.
#[derive(Default)]
struct MemberQueue {
    under_way: Option<Job>,
    waiting: VecDeque<Job>,
}

/// One step, and what it is for.
enum Job {
    Admit {
        offered: Box<Offered>,
        withdrawn: bool,
    },
    /// A part of a turn that was let through before.
    Count(Arc<Turn>),
    Settle(TurnId, Option<u64>),
    Cancel(TurnId),
    Usage(Applied, Reply<Standing>),
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
            RateLimiterMsg::Settle { turn, effort } => {
                if effort.model.is_some() {
                    let usage = effort.of_member();
                    state.learned.learn(&turn.person, &turn.place, usage.prompt, usage.completion);
                }
                self.enqueue(ctx, state, &member(&turn), Job::Settle(turn.id.clone(), spent(&effort)));
            }
            RateLimiterMsg::Cancel(turn) => self.enqueue(ctx, state, &member(&turn), Job::Cancel(turn.id.clone())),
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
            // A journal that is down offers the turn again.
            let _ = self.journal.cast(offered.given_up());
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
            RateLimiterEvent::Unruled(member, reason) => {
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

    /// Begins the steps of a lane, one after the other, until one has to be waited for or none is left.
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
                        match tokio::time::timeout(STEP_WITHIN, step).await {
                            Ok(answer) => RateLimiterEvent::Decided(there, answer),
                            Err(_) => RateLimiterEvent::Unruled(there, "the store did not answer in time".to_owned()),
                        }
                    };
                    ctx.task(decided, move |panic| RateLimiterEvent::Unruled(back, panic));
                    return;
                }
            }
        }
    }

    fn request(&self, state: &RateLimiterState, member: &Member, job: &Job) -> Request {
        let running = self.live.now();
        let step = match job {
            Job::Admit { offered, .. } => {
                let turn = &offered.turn;
                let attached = attachment::estimate(&turn.attachments);
                let given = turn.given.as_ref().map_or(0, |given| given.tokens());
                let reservation = reservation(state, &running, turn);
                let reservation = Reservation { tokens: reservation.tokens + attached + given, ..reservation };
                self.account.tell(&Happening::TurnReserved(&turn.id, &reservation));
                Step::Reserve(reservation)
            }
            Job::Count(turn) => {
                let reservation = reservation(state, &running, turn);
                let tokens = reservation.tokens.min(estimate_max(reservation.limits.tokens));
                Step::Reserve(Reservation { tokens, exempt: true, ..reservation })
            }
            Job::Settle(turn, tokens) => Step::Settle(turn.clone(), *tokens),
            Job::Cancel(turn) => Step::Cancel(turn.clone()),
            Job::Usage(applied, _) => Step::Read(applied.limits),
        };
        Request { member: member.clone(), window: running.limits.window, step }
    }

    /// A step is done: whoever waits for it hears of it.
    fn decided(&self, state: &mut RateLimiterState, member: &Member, job: Job, answer: Decision) {
        match (job, answer) {
            (Job::Admit { offered, withdrawn: true }, Decision::Admitted) => {
                // Nobody knows the turn any more. One that was offered before may have reached a model then.
                if let (false, Some(lane)) = (offered.again, state.lanes.get_mut(member)) {
                    lane.waiting.push_front(Job::Cancel(offered.turn.id.clone()));
                }
            }
            (Job::Admit { offered, .. }, Decision::Admitted) => {
                let offer = self.conversations.cast(ConversationsMsg::Offer(offered));
                if let Err(Undelivered(ConversationsMsg::Offer(back))) = offer {
                    self.undelivered(back.turn.id.clone());
                }
            }
            (Job::Admit { withdrawn: true, .. }, _) => {}
            (Job::Admit { offered, .. }, Decision::Refused(refusal)) => {
                self.refuse(&mut state.notices, member, &offered.turn, refusal);
            }
            (Job::Usage(applied, reply), Decision::Used(used)) => {
                let running = self.live.now();
                let now = self.clock.now();
                let limits = applied.limits;
                let standing = Standing {
                    messages: (used.messages, limits.messages),
                    tokens: (used.tokens, limits.tokens),
                    frees_at: used.wait.map(|wait| Timestamp(now.0.saturating_add(ids::millis(wait)))),
                    window: running.limits.window,
                    exempt: applied.exempt,
                };
                // Whoever asked may have stopped waiting.
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
        // A router that is down has lost its conversations, and they their turns.
        let _ = self.conversations.cast(ConversationsMsg::Cancel(turn.place.clone(), turn.id.clone()));
    }

    fn usage(
        &self,
        ctx: &mut ActorContext<RateLimiter>,
        state: &mut RateLimiterState,
        asker: &Asker,
        reply: Reply<Standing>,
    ) {
        let applied = self.live.now().limits_in(&asker.person, &asker.place, asker.parent.as_ref(), &asker.roles);
        let member = keys::limits::limited(&asker.person, asker.guild.as_deref());
        let asked = |lane: &MemberQueue| lane.waiting.iter().filter(|job| matches!(job, Job::Usage(..))).count();
        if state.lanes.get(&member).is_none_or(|lane| asked(lane) < QUESTIONS_MAX) {
            self.enqueue(ctx, state, &member, Job::Usage(applied, reply));
        }
    }

    /// Nobody took the turn. A journal that is down offers it again by itself.
    fn undelivered(&self, turn: TurnId) {
        let _ = self.journal.cast(JournalMsg::Undelivered(turn));
    }
}

impl MemberQueue {
    /// The turn is about to be admitted.
    fn admits(&self, turn: &TurnId) -> bool {
        self.under_way.iter().chain(&self.waiting).any(|job| job.admits(turn))
    }
}

impl Job {
    fn admits(&self, turn: &TurnId) -> bool {
        matches!(self, Self::Admit { offered, .. } if offered.turn.id == *turn)
    }
}

/// What of a turn the window of its member counts now, under which name, and what it took of all of this: the part that follows on a
/// decision by itself.
#[must_use]
pub fn counted(turn: &Arc<Turn>, goes_on: Option<&Parked>, effort: &Effort) -> (Arc<Turn>, Effort) {
    match goes_on.filter(|parked| parked.case.decision.is_some()) {
        Some(parked) => (part(turn, parked), effort.since(&parked.effort)),
        None => (Arc::clone(turn), effort.clone()),
    }
}

/// The part of a turn that follows on a decision, as the window counts it.
#[must_use]
pub fn part(turn: &Turn, parked: &Parked) -> Arc<Turn> {
    Arc::new(Turn { id: parked.part(), ..turn.clone() })
}

/// The answer to a turn is known: what it took is settled, or taken back. A limiter that is down leaves the estimate, which
/// ages out.
pub fn close(limiter: &Handle<RateLimiterMsg>, turn: &Arc<Turn>, goes_on: Option<&Parked>, answer: &turn::Answer) {
    let (turn, effort) = counted(turn, goes_on, &answer.effort);
    let _ = match charge(&answer.outcome, &effort) {
        Charge::Settle => limiter.cast(RateLimiterMsg::Settle { turn, effort }),
        Charge::Cancel => limiter.cast(RateLimiterMsg::Cancel(turn)),
        Charge::Nothing => Ok(()),
    };
}

/// The keys that a turn reads first when it is let through.
fn read_next(running: &Running, turn: &Turn) -> Vec<String> {
    let asked = turn.trigger.is_asked();
    let history = asked && turn.policy.history == HistoryScope::PersonInPlace;
    let chooses = asked && turn.policy.model.is_none() && !running.choices().is_empty();
    // A row that cannot look for facts is told them.
    let facts = history.then(|| keys::facts::fact_index(&turn.person));
    let history = history.then(|| keys::history(&turn.person, &turn.place));
    let chosen = chooses.then(|| keys::preferences(&turn.person));
    let edits = (!running.prompts.sections.is_empty()).then(|| keys::PROMPT_EDITS.to_owned());
    history.into_iter().chain(facts).chain(chosen).chain(edits).collect()
}

fn member(turn: &Turn) -> Member {
    keys::limits::limited(&turn.person, turn.guild.as_deref())
}

/// What a turn is expected to take, within the limits of its member. Tools are the bot's expense: they are not reserved.
fn reservation(state: &RateLimiterState, running: &Running, turn: &Turn) -> Reservation {
    let Applied { limits, exempt } = running.limits_in(&turn.person, &turn.place, turn.parent.as_ref(), &turn.roles);
    // What has no author has a budget of its own, which was asked before it became a turn.
    let exempt = exempt || (turn.trigger.is_asked() && !turn.trigger.has_message());
    let tokens = state.learned.estimate(&turn.person, &turn.place, running.fixed_prompt, &turn.text);
    let lease = running.settings.turn.lease();
    Reservation { turn: turn.id.clone(), tokens, lease, limits, exempt }
}

#[cfg(test)]
mod tests;
