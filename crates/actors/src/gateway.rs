//! gateway: the one way in for every door.
//!
//! Supervised by: staffai (permanent).
//! Receives: what happened at a door, each with a receipt.
//! Sends: accepted turns and cancellations to the journal, commands to commands, decisions to approvals, busy notices to the outbox, messages of restricted
//! members to the sweeper.
//! A restart loses: which turns came lately; receipts that die with it bring their events back.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::account::Account;
use crate::messages::approvals::ApprovalsMsg;
use crate::messages::commands::CommandsMsg;
use crate::messages::gateway::GatewayMsg;
use crate::messages::journal::{Accepted, JournalMsg};
use crate::messages::outbox::OutboxMsg;
use crate::messages::receipt::Receipt;
use crate::messages::restriction_sweeper::SweeperMsg;
use crate::observation::board::Board;
use crate::observation::turn_events::TurnEvents;
use crate::observation::vitals;
use crate::outbox::Outboxes;
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::{Handle, Undelivered};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::busy::Busy;
use crate::services::facts::FactKeeper;
use crate::services::interjections::Interjections;
use crate::services::restricted::Restricted;
use crate::services::running::Live;
use domain::ending::Dropped;
use domain::fire::Fire;
use domain::happening::{Happening, WorkShed};
use domain::ids::{MessageId, Person, Place, Timestamp, TurnId};
use domain::incoming::{AuthorKind, Incoming, Posted};
use domain::manners::Draw;
use domain::notice;
use domain::pairs::Pairs;
use domain::shed::Shed;
use domain::triage::{self, Reason, Rules, TriageDecision};
use domain::turn::{Answer, Effort, Outcome, Turn};
use domain::turn_event::TurnUpdate;
use ports::vitals::Status;
use ports::{Clock, Store, Subject};

/// The most deleted messages that are looked up at a time; of further ones the facts stay.
const DELETIONS_MAX: usize = 1_000;
/// At most one line about a place in which we may not answer in this time.
const WARN_EVERY: Duration = Duration::from_secs(3_600);
/// The most such places remembered. Beyond that there are no further lines.
const WARNED_MAX: usize = 10_000;
/// The turns that are remembered, of those that were accepted and of those that were turned away.
const LATELY_MAX: usize = 4_096;
/// How many hints a person gets in [`HINTS_WITHIN`]: no limit counts them, and each is a post.
const HINTS_MAX: u32 = 5;
/// The time in which they are counted.
const HINTS_WITHIN: Duration = Duration::from_secs(60);
/// How often a member of a community that is not served is told so.
const NOT_SERVED_EVERY: Duration = Duration::from_secs(24 * 3_600);

/// The behaviour and its arguments.
pub struct Gateway {
    /// What this process runs with.
    pub live: Live,
    /// One permit for each open turn; they outlive this actor.
    pub permits: Arc<Semaphore>,
    /// Who takes custody.
    pub journal: Handle<JournalMsg>,
    /// Who tells restricted members where they are answered.
    pub sweeper: Handle<SweeperMsg>,
    /// Who takes decisions about calls that wait.
    pub approvals: Handle<ApprovalsMsg>,
    /// Who says that we are busy.
    pub outboxes: Outboxes,
    /// Who was told so lately.
    pub busy: Arc<Busy>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// How the parts are: who is not well does not join in.
    pub board: Arc<Board>,
    /// The same of the store.
    pub store: Arc<dyn Store>,
    /// What is remembered of joining in.
    pub interjections: Arc<Interjections>,
    /// Who is restricted by a record.
    pub restricted: Arc<Restricted>,
    /// Who runs commands.
    pub commands: Handle<CommandsMsg>,
    /// What members told us to keep.
    pub facts: Arc<FactKeeper>,
    /// Where those who read along learn of turns that were not accepted.
    pub events: TurnEvents,
    /// Where what happens is told.
    pub account: Account,
}

/// What the gateway holds.
#[derive(Default)]
pub struct GatewayState {
    /// Looks at what deleted messages told, that are under way.
    deletions: Deletions,
    /// How often other bots were answered lately.
    pairs: Pairs,
    /// How often people got a hint lately.
    hints: Pairs,
    /// Who was told lately that their community is not served.
    not_served: Pairs,
    /// When the log last heard that we may not answer in a place.
    warned: HashMap<Place, Instant>,
    /// When the log was last told that direct messages are not answered.
    told_of_direct: Option<Instant>,
    /// The last turns that the journal was given.
    accepted: BoundedSet<TurnId, LATELY_MAX>,
    /// The last turns that were turned away because too many were open.
    shed: BoundedSet<TurnId, LATELY_MAX>,
}

/// One permit for each look at what a deleted message told.
struct Deletions(Arc<Semaphore>);

impl Default for Deletions {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(DELETIONS_MAX)))
    }
}

impl Actor for Gateway {
    type Msg = GatewayMsg;
    type Event = Infallible;
    type State = GatewayState;

    fn start(&self, _me: &mut ActorContext<Gateway>) -> Result<GatewayState, Crash> {
        Ok(GatewayState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: GatewayMsg,
        state: &mut GatewayState,
    ) -> Result<(), Crash> {
        match message {
            // An approvals that is down drops the reply, which answers it.
            GatewayMsg::Decide(click, reply) => drop(self.approvals.cast(ApprovalsMsg::Decide(click, Some(reply)))),
            GatewayMsg::Received(incoming, us, receipt) => match *incoming {
                Incoming::Posted(posted) => self.triage(state, &posted, &us, receipt),
                Incoming::Deleted(message) => {
                    self.forget_what_it_told(ctx, state, message.clone());
                    if self.journal.cast(JournalMsg::Cancel(TurnId::of(&message))).is_ok() {
                        receipt.settle();
                    }
                }
                Incoming::Reacted(place) => {
                    self.interjections.record_engagement(&place);
                    receipt.settle();
                }
                // Who runs a command sees that it was not answered, so it is handed on but never kept.
                Incoming::Command(command) => settle(&self.commands.cast(CommandsMsg::Run(command)), receipt),
                // So is a decision: whoever pressed a button sees that nothing came of it.
                Incoming::Decision(click) => settle(&self.approvals.cast(ApprovalsMsg::Decide(click, None)), receipt),
                Incoming::Fired(fire) => self.fired(*fire, receipt),
                Incoming::Typing(typing) => settle(&self.commands.cast(CommandsMsg::Suggest(typing)), receipt),
            },
        }
        Ok(())
    }

    /// Given up, it is dropped, which returns the receipt: who handed the event on stops after some tries.
    fn subject(message: &GatewayMsg) -> Option<Subject> {
        match message {
            GatewayMsg::Received(incoming, ..) => incoming.subject().map(Subject::of),
            GatewayMsg::Decide(..) => None,
        }
    }

    async fn event(
        &self,
        _ctx: &mut ActorContext<Self>,
        event: Infallible,
        _state: &mut GatewayState,
    ) -> Result<(), Crash> {
        match event {}
    }
}

impl Gateway {
    /// What a message told is forgotten with it.
    fn forget_what_it_told(&self, ctx: &mut ActorContext<Self>, state: &GatewayState, message: MessageId) {
        let Ok(room) = Arc::clone(&state.deletions.0).try_acquire_owned() else {
            tracing::debug!(event = "gateway.dropped", reason = "too many deletions", "deletion dropped");
            return;
        };
        let facts = Arc::clone(&self.facts);
        ctx.background(async move {
            facts.deleted(&message).await;
            drop(room);
        });
    }

    fn triage(&self, state: &mut GatewayState, posted: &Posted, us: &Person, receipt: Receipt) {
        let running = self.live.now();
        let Some(rules) = running.rules(&posted.place.door) else {
            // The dropped receipt tells the door that it was not taken.
            tracing::error!(event = "gateway.dropped", reason = Reason::UnknownDoor.as_str(), door = %posted.place.door, "no rules for this door");
            return;
        };
        match self.by_record(posted, rules, triage::triage(posted, rules, us)) {
            TriageDecision::Ignore(reason) => {
                match reason {
                    Reason::NoPermission => state.warn_of(&posted.place),
                    Reason::DirectMessage => state.tell_of_direct(),
                    _ => {}
                }
                ignore(reason, receipt);
            }
            TriageDecision::Turn(turn) | TriageDecision::Hint(turn) if !self.may_talk_with(state, posted, &turn) => {
                ignore(Reason::PairWindow, receipt);
            }
            TriageDecision::Hint(turn) if !self.may_hint(state, &turn) => ignore(Reason::HintedEnough, receipt),
            TriageDecision::NotServed(turn) if !state.may_tell_not_served(&turn, self.clock.now()) => {
                ignore(Reason::NotServed, receipt);
            }
            TriageDecision::NotServed(turn) => {
                let text = notice::not_served(turn.locale());
                self.admit_with(state, turn, text, receipt);
            }
            TriageDecision::Restricted(turn) => {
                // A sweeper that is down drops the receipt, and the message comes back.
                if self.sweeper.cast(SweeperMsg::Spoke(Arc::new(turn))).is_ok() {
                    receipt.settle();
                }
            }
            TriageDecision::Interjection(turn, draw) => self.join_in(turn, draw, receipt),
            TriageDecision::Turn(turn) => {
                self.interjections.record_engagement(&turn.place);
                self.admit(state, turn, None, receipt);
            }
            TriageDecision::Hint(turn) => {
                self.interjections.record_engagement(&turn.place);
                let text = notice::hint(turn.locale());
                self.admit_with(state, turn, text, receipt);
            }
        }
    }

    /// What fired becomes a turn at the door of its target; the operator asked for it, so triage has no say.
    fn fired(&self, fire: Fire, receipt: Receipt) {
        let running = self.live.now();
        let Some(rules) = running.rules(&fire.id.door).filter(|_| self.outboxes.has(&fire.id.door)) else {
            // The dropped receipt tells who fired that it was not taken.
            tracing::error!(event = "gateway.dropped", reason = Reason::UnknownDoor.as_str(), door = %fire.id.door, "no rules for this door");
            return;
        };
        let turn = fire.turn(&rules.policy);
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            // The dropped receipt brings it back while it is worth it.
            self.account.tell(&Happening::WorkShed(WorkShed::of(Shed::Gateway, &turn)));
            return;
        };
        // A journal that is down drops the receipt, and the event comes back.
        let _ = self.journal.cast(JournalMsg::Accept(Box::new(Accepted {
            turn: Arc::new(turn),
            answer: None,
            permit,
            receipt,
        })));
    }

    /// A restricted member who left and came back is still restricted, and is given the role again.
    fn by_record(&self, posted: &Posted, rules: &Rules, decision: TriageDecision) -> TriageDecision {
        let Some(restriction) = &rules.restriction else { return decision };
        let (TriageDecision::Turn(turn) | TriageDecision::Hint(turn) | TriageDecision::Interjection(turn, _)) =
            &decision
        else {
            return decision;
        };
        let exempt = turn.roles.iter().any(|role| *role == restriction.role || rules.super_roles.contains(role));
        if let Some(member) = self.restricted.stayed(posted).filter(|_| !exempt) {
            // A sweeper that is down hears of it with their next message.
            let _ = self.sweeper.cast(SweeperMsg::Lifted(member));
        }
        let Some(member) = self.restricted.came_back(posted).filter(|_| !exempt) else { return decision };
        // A sweeper that is down hears of it with their next message.
        let _ = self.sweeper.cast(SweeperMsg::CameBack(member));
        match decision {
            TriageDecision::Turn(turn) | TriageDecision::Hint(turn)
                if !restriction.answers_in(&turn.place, turn.parent.as_ref()) =>
            {
                TriageDecision::Restricted(turn)
            }
            TriageDecision::Interjection(..) => TriageDecision::Ignore(Reason::Restricted),
            decision => decision,
        }
    }

    /// Accepts a turn whose answer is a sentence that needs no model.
    fn admit_with(&self, state: &mut GatewayState, turn: Turn, text: &str, receipt: Receipt) {
        let outgoing = turn.reply_with(text);
        let answer = Answer { outgoing, exchange: None, outcome: Outcome::Hinted, effort: Effort::default() };
        self.admit(state, turn, Some(answer), receipt);
    }

    /// Another bot is answered so often in a while; people always.
    fn may_talk_with(&self, state: &mut GatewayState, posted: &Posted, turn: &Turn) -> bool {
        match posted.author.kind {
            AuthorKind::Bot | AuthorKind::Webhook => {
                let bots = &self.live.now().settings.bots;
                state.pairs.admit(&turn.person, &turn.id, self.clock.now(), bots.max_turns, bots.window)
            }
            AuthorKind::Member | AuthorKind::System | AuthorKind::Ourselves => true,
        }
    }

    /// Whoever mentions us again and again without a word is told only so often what to do.
    fn may_hint(&self, state: &mut GatewayState, turn: &Turn) -> bool {
        state.hints.admit(&turn.person, &turn.id, self.clock.now(), HINTS_MAX, HINTS_WITHIN)
    }

    /// Joins in, where manners allow it. Whatever speaks against it, nobody hears of it.
    fn join_in(&self, turn: Turn, draw: Draw, receipt: Receipt) {
        let running = self.live.now();
        let settings = &running.settings;
        if vitals::condition(&self.board, &*self.store, &running).0 != Status::Ready {
            return ignore(Reason::Unwell, receipt);
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            return ignore(Reason::Unwell, receipt);
        };
        if let Err(silence) = self.interjections.join(&settings.interjection, &turn.place, turn.parent.as_ref(), draw) {
            return ignore(Reason::Unasked(silence), receipt);
        }
        // A journal that is down drops the receipt, and the event comes back; by then it may be too late, which does no harm.
        let _ = self.journal.cast(JournalMsg::Accept(Box::new(Accepted {
            turn: Arc::new(turn),
            answer: None,
            permit,
            receipt,
        })));
    }

    fn admit(&self, state: &mut GatewayState, turn: Turn, answer: Option<Answer>, receipt: Receipt) {
        // A message that is read back while it also arrives over the connection comes twice. Clients that read along ask again under the
        // same id instead.
        let copies = !self.events.streams(&turn.place.door);
        if copies && state.shed.contains(&turn.id) {
            return ignore(Reason::Repeated, receipt);
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            if copies && state.accepted.contains(&turn.id) {
                // The dropped receipt brings the copy back until the journal can compare it.
                return;
            }
            state.shed.insert(&turn.id);
            self.account.tell(&Happening::WorkShed(WorkShed::of(Shed::Gateway, &turn)));
            let tells = (turn.policy.answers_each || self.busy.may_tell(&turn.person)) && {
                let text = notice::busy(turn.locale()).to_owned();
                let notify = OutboxMsg::Notify { about: turn.id.trigger(), place: turn.place.clone(), text };
                self.outboxes.of(&turn.id.door).cast(notify).is_ok()
            };
            if !tells {
                // The notice would end it for those who read along.
                self.events.publish(&turn.place, &turn.id, || TurnUpdate::unanswered(Dropped::NotTaken));
            }
            receipt.settle();
            return;
        };
        state.accepted.insert(&turn.id);
        // A journal that is down drops the receipt, and the event comes back.
        let _ =
            self.journal.cast(JournalMsg::Accept(Box::new(Accepted { turn: Arc::new(turn), answer, permit, receipt })));
    }
}

/// An event is taken when its receiver lives; otherwise it comes back in a moment.
fn settle<M>(cast: &Result<(), Undelivered<M>>, receipt: Receipt) {
    if cast.is_ok() {
        receipt.settle();
    }
}

impl GatewayState {
    /// Whether a member of a community that is not served is told so now: once in a while.
    fn may_tell_not_served(&mut self, turn: &Turn, now: Timestamp) -> bool {
        self.not_served.admit(&turn.person, &turn.id, now, 1, NOT_SERVED_EVERY)
    }

    /// Says once in a while that we lack permissions in a place.
    fn warn_of(&mut self, place: &Place) {
        if self.warned.len() >= WARNED_MAX {
            self.warned.retain(|_, at| at.elapsed() < WARN_EVERY);
        }
        let known = self.warned.get(place).is_some_and(|at| at.elapsed() < WARN_EVERY);
        if known || self.warned.len() >= WARNED_MAX {
            return;
        }
        self.warned.insert(place.clone(), Instant::now());
        tracing::warn!(
            event = "gateway.forbidden", place = %place,
            "we were addressed where we may not answer; give the bot View Channel and Send Messages (in threads: Send Messages in Threads) there"
        );
    }
}

impl GatewayState {
    /// Logs that a direct message was not answered, at most once in [`WARN_EVERY`].
    fn tell_of_direct(&mut self) {
        if self.told_of_direct.is_some_and(|at| at.elapsed() < WARN_EVERY) {
            return;
        }
        self.told_of_direct = Some(Instant::now());
        tracing::info!(
            event = "gateway.direct_ignored",
            "a direct message was not answered; set discord.direct_messages to answer if the bot shall"
        );
    }
}

fn ignore(reason: Reason, receipt: Receipt) {
    tracing::debug!(event = "gateway.dropped", reason = reason.as_str(), "message dropped");
    receipt.settle();
}

#[cfg(test)]
mod tests;
