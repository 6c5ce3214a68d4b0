//! gateway: the single entry for events of all doors.
//!
//! Supervised by: staffai (permanent).
//! Receives: events of doors, each with a receipt.
//! Sends: accepted turns and cancellations to the journal, commands to commands, decisions to approvals, busy notices
//! to the outbox, messages of restricted members to the sweeper.
//! A restart loses: the list of recent turns; receipts dropped in the crash cause the redelivery of their events.

mod afterwards;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::afterwards::Afterwards;
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
use crate::observers::Observers;
use crate::outbox::Outboxes;
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::{Handle, Refused};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::acts::Acts;
use crate::services::busy::Busy;
use crate::services::facts::FactKeeper;
use crate::services::interjections::Interjections;
use crate::services::restricted::Restricted;
use crate::services::running::{Live, Running};
use domain::ending::Dropped;
use domain::fire::Fire;
use domain::happening::{Happening, WorkShed};
use domain::ids::{Person, Place, Timestamp, TurnId};
use domain::incoming::{AuthorKind, Incoming, Posted};
use domain::manners::Draw;
use domain::notice;
use domain::outgoing::Medium;
use domain::pairs::Pairs;
use domain::restriction::RestrictionRules;
use domain::shed::Shed;
use domain::triage::{self, Reason, TriageDecision, TriageRules};
use domain::turn::{Answer, Effort, Outcome, Turn};
use domain::turn_event::TurnUpdate;
use ports::shares::Shares;
use ports::vitals::Status;
use ports::{Clock, Store, Subject};
use telemetry::events::{GATEWAY_DIRECT_IGNORED, GATEWAY_DROPPED, GATEWAY_FORBIDDEN};

/// The shortest interval between two log lines about one place without the permission to answer.
const WARN_EVERY: Duration = Duration::from_secs(3_600);
/// The maximum number of such places remembered. Further places are not logged.
const WARNED_MAX: usize = 10_000;
/// The number of recent turns remembered, separately for accepted turns and shed turns.
const LATELY_MAX: usize = 4_096;
/// The maximum number of hints for a person in [`HINTS_WITHIN`]: no quota counts them, and each is a post.
const HINTS_MAX: u32 = 5;
/// The window in which hints are counted.
const HINTS_WITHIN: Duration = Duration::from_secs(60);
/// The shortest interval between two notices to a member of a community that is not served.
const NOT_SERVED_EVERY: Duration = Duration::from_secs(24 * 3_600);

/// The behaviour and its arguments.
pub struct Gateway {
    /// The running configuration of this process.
    pub live: Live,
    /// One permit for each open turn, shared by the persons who asked; the permits outlive this actor.
    pub permits: Shares,
    /// The journal, which takes custody of turns.
    pub journal: Handle<JournalMsg>,
    /// Sends restricted members a notice of the places where they are answered.
    pub sweeper: Handle<SweeperMsg>,
    /// Receives decisions about pending calls.
    pub approvals: Handle<ApprovalsMsg>,
    /// The outboxes, which post busy notices.
    pub outboxes: Outboxes,
    /// The members who recently received a busy notice.
    pub busy: Arc<Busy>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// The health of the components: interjections require a healthy bot.
    pub board: Arc<Board>,
    /// The store, for its health.
    pub store: Arc<dyn Store>,
    /// The record of interjections.
    pub interjections: Arc<Interjections>,
    /// The members restricted by a record.
    pub restricted: Arc<Restricted>,
    /// Runs commands.
    pub commands: Handle<CommandsMsg>,
    /// The calls of recent turns that change something.
    pub acts: Arc<Acts>,
    /// The facts learned from members.
    pub facts: Arc<FactKeeper>,
    /// Notifies subscribers of turns that were not accepted.
    pub events: TurnEvents,
    /// The observers of events.
    pub observers: Observers,
}

/// The state of the gateway.
#[derive(Default)]
pub struct GatewayState {
    /// The work in flight about earlier messages.
    afterwards: Afterwards,
    /// The recent answers to other bots.
    pairs: Pairs,
    /// The recent hints to persons.
    hints: Pairs,
    /// The members recently notified that their community is not served.
    not_served: Pairs,
    /// The time at which a missing permission to answer was last logged, by place.
    warned: HashMap<Place, Instant>,
    /// The time at which an unanswered direct message was last logged.
    told_of_direct: Option<Instant>,
    /// The last turns sent to the journal.
    accepted: BoundedSet<TurnId, LATELY_MAX>,
    /// The last turns shed because too many were open.
    shed: BoundedSet<TurnId, LATELY_MAX>,
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
            // If approvals refuses this, it drops the reply, which answers the caller.
            GatewayMsg::Decide(click, reply) => self.approvals.tell(ApprovalsMsg::Decide(click, Some(reply))),
            GatewayMsg::Received(incoming, us, receipt) => match *incoming {
                Incoming::Posted(posted) => self.triage(state, &posted, &us, receipt),
                Incoming::Deleted(deletion) => {
                    let turn = TurnId::of(&deletion.message);
                    self.forget_what_it_told(ctx, state, deletion);
                    if self.journal.cast(JournalMsg::Cancel(turn)).is_ok() {
                        receipt.settle();
                    }
                }
                Incoming::Interrupted(interruption) => self.interrupted(ctx, *interruption, &us, receipt),
                Incoming::Reacted(reaction) => {
                    self.interjections.record_engagement(&reaction.place);
                    self.voted(ctx, state, reaction);
                    receipt.settle();
                }
                // The member sees that a command got no answer, so a command is passed on but never recorded.
                Incoming::Command(command) if receipt.claim() => {
                    settle(&self.commands.cast(CommandsMsg::Run(command)), receipt);
                }
                Incoming::Command(_) => {}
                // The same holds for a dialogue, which its member opens again.
                Incoming::Dialogue(step) => settle(&self.commands.cast(CommandsMsg::Dialogue(step)), receipt),
                // The same holds for a decision: the member who pressed the button sees that nothing happened.
                Incoming::Decision(click) => settle(&self.approvals.cast(ApprovalsMsg::Decide(click, None)), receipt),
                Incoming::Fired(fire) => self.fired(*fire, receipt),
                Incoming::Typing(typing) => settle(&self.commands.cast(CommandsMsg::Suggest(typing)), receipt),
            },
        }
        Ok(())
    }

    /// Giving up an event drops it, which returns its receipt: the sender stops after some attempts.
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
    fn triage(&self, state: &mut GatewayState, posted: &Posted, us: &Person, receipt: Receipt) {
        let running = self.live.now();
        let Some(rules) = running.rules(&posted.place.door) else {
            // The dropped receipt tells the door that the event was not accepted.
            tracing::error!(event = GATEWAY_DROPPED, reason = Reason::UnknownDoor.as_str(), door = %posted.place.door, "no rules for this door");
            return;
        };
        let decision = triage::triage(posted, rules, us).with_links(|account| self.live.linked(account));
        match self.by_person(&running, rules, self.by_record(posted, rules, decision)) {
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
            // A message from before the restriction that is read back was answered then.
            TriageDecision::Restricted(_) if self.restricted.began_after(posted) => ignore(Reason::Restricted, receipt),
            TriageDecision::Restricted(turn) => {
                // If the sweeper refuses this, the receipt is dropped, and the message is redelivered.
                if self.sweeper.cast(SweeperMsg::Spoke(Arc::new(turn))).is_ok() {
                    receipt.settle();
                }
            }
            // A program expects an answer to each request.
            TriageDecision::RestrictedElsewhere(turn)
                if !(turn.policy.answers_each || turn.given.is_some() || self.may_hint(state, &turn)) =>
            {
                ignore(Reason::Restricted, receipt);
            }
            TriageDecision::RestrictedElsewhere(turn) => {
                let text = if self.restricted.holds_anywhere(&running, &turn.person) {
                    notice::restriction::in_community(turn.locale())
                } else {
                    notice::restriction::of_other_account(turn.locale())
                };
                self.admit_with(state, turn, text, receipt);
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

    /// Turns a fired trigger into a turn at the door of its target. It skips triage, because the operator configured
    /// it.
    fn fired(&self, fire: Fire, receipt: Receipt) {
        let running = self.live.now();
        let Some(rules) = running.rules(&fire.id.door).filter(|_| self.outboxes.has(&fire.id.door)) else {
            // The dropped receipt tells the sender that the event was not accepted.
            tracing::error!(event = GATEWAY_DROPPED, reason = Reason::UnknownDoor.as_str(), door = %fire.id.door, "no rules for this door");
            return;
        };
        let turn = fire.turn(&rules.policy);
        let Some(permit) = self.permits.take(Some(&turn.person)) else {
            // The dropped receipt causes redelivery for as long as the event is useful.
            self.observers.tell(&Happening::WorkShed(WorkShed::of(Shed::Gateway, &turn)));
            return;
        };
        // If the journal refuses this, the receipt is dropped, and the event is redelivered.
        self.journal.tell(JournalMsg::Accept(Box::new(Accepted {
            turn: Arc::new(turn),
            answer: None,
            permit,
            receipt,
        })));
    }

    /// Applies the restriction record: a restricted member who left and rejoined is still restricted, and gets the role
    /// again.
    fn by_record(&self, posted: &Posted, rules: &TriageRules, decision: TriageDecision) -> TriageDecision {
        let Some(restriction) = &rules.restriction else { return decision };
        let (TriageDecision::Turn(turn) | TriageDecision::Hint(turn) | TriageDecision::Interjection(turn, _)) =
            &decision
        else {
            return decision;
        };
        let exempt = turn.roles.iter().any(|role| *role == restriction.role || rules.super_roles.contains(role));
        if let Some(member) = self.restricted.stayed(posted).filter(|_| !exempt) {
            self.restricted.lift(&member);
            // If the sweeper refuses this, the member's next message reports it again.
            self.sweeper.tell(SweeperMsg::Lifted(member));
        }
        if restriction.by_record && !exempt && self.restricted.holds(posted) {
            return Self::confined(restriction, decision);
        }
        let Some(member) = self.restricted.came_back(posted).filter(|_| !exempt) else { return decision };
        // If the sweeper refuses this, the member's next message reports it again.
        self.sweeper.tell(SweeperMsg::CameBack(member));
        Self::confined(restriction, decision)
    }

    /// Applies the restrictions of a person in other places: a restriction of an account holds for linked accounts in
    /// their communities, and for all of them in direct conversations.
    fn by_person(&self, running: &Running, rules: &TriageRules, decision: TriageDecision) -> TriageDecision {
        let (TriageDecision::Turn(turn) | TriageDecision::Hint(turn) | TriageDecision::Interjection(turn, _)) =
            &decision
        else {
            return decision;
        };
        let exempt = turn.roles.iter().any(|role| rules.super_roles.contains(role));
        let own = turn.guild.is_none().then_some(&turn.person);
        let accounts = own.into_iter().chain(turn.linked.others(&turn.person)).filter(|_| !exempt);
        let confining: Vec<Person> =
            accounts.filter(|account| self.restricted.holds_anywhere(running, account)).cloned().collect();
        let answers = |turn: &Turn| {
            let rules = rules.restriction.as_ref();
            rules.is_some_and(|rules| rules.answers_in(&turn.place, turn.parent.as_ref()))
        };
        match decision {
            decision if confining.is_empty() => decision,
            TriageDecision::Interjection(..) => TriageDecision::Ignore(Reason::Restricted),
            TriageDecision::Turn(turn) | TriageDecision::Hint(turn) if !answers(&turn) => {
                for account in confining {
                    // If the sweeper refuses this, the next message repeats it.
                    self.sweeper.tell(SweeperMsg::Confines(account));
                }
                TriageDecision::RestrictedElsewhere(turn)
            }
            decision => decision,
        }
    }

    /// Returns the decision about a message of a restricted member.
    fn confined(restriction: &RestrictionRules, decision: TriageDecision) -> TriageDecision {
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

    /// Accepts a turn whose answer is a fixed text that needs no model.
    fn admit_with(&self, state: &mut GatewayState, turn: Turn, text: &str, receipt: Receipt) {
        let outgoing = turn.reply_with(text);
        let answer = Answer { outgoing, exchange: None, outcome: Outcome::Hinted, effort: Effort::default() };
        self.admit(state, turn, Some(answer), receipt);
    }

    /// True if the author may be answered: another bot only a limited number of times per window, people always.
    fn may_talk_with(&self, state: &mut GatewayState, posted: &Posted, turn: &Turn) -> bool {
        match posted.author.kind {
            AuthorKind::Bot | AuthorKind::Webhook => {
                let bots = &self.live.now().settings.bots;
                state.pairs.admit(&turn.person, &turn.id, self.clock.now(), bots.max_turns, bots.window)
            }
            AuthorKind::Member | AuthorKind::System | AuthorKind::Ourselves => true,
        }
    }

    /// True if a member who mentions the bot without text may get another hint in this window.
    fn may_hint(&self, state: &mut GatewayState, turn: &Turn) -> bool {
        state.hints.admit(&turn.person, &turn.id, self.clock.now(), HINTS_MAX, HINTS_WITHIN)
    }

    /// Submits an interjection if its limits allow it. A suppressed interjection is silent.
    fn join_in(&self, turn: Turn, draw: Draw, receipt: Receipt) {
        let running = self.live.now();
        let settings = &running.settings;
        if vitals::condition(&self.board, &*self.store, &running).0 != Status::Ready {
            return ignore(Reason::Unwell, receipt);
        }
        // The bot joins in by itself, at most as often as the limits of interjections allow.
        let Some(permit) = self.permits.take(None) else {
            return ignore(Reason::Unwell, receipt);
        };
        if let Err(silence) = self.interjections.join(&settings.interjection, &turn.place, turn.parent.as_ref(), draw) {
            return ignore(Reason::Unasked(silence), receipt);
        }
        // If the journal refuses this, the receipt is dropped, and the event is redelivered; by then it may be too
        // late, without harm.
        self.journal.tell(JournalMsg::Accept(Box::new(Accepted {
            turn: Arc::new(turn),
            answer: None,
            permit,
            receipt,
        })));
    }

    fn admit(&self, state: &mut GatewayState, turn: Turn, answer: Option<Answer>, receipt: Receipt) {
        // A message that a catch-up reads while the connection also delivers it arrives twice. Clients that wait for a
        // reply repeat a request under the same id instead.
        let copies = self.outboxes.medium(&turn.place.door) == Medium::Messages;
        if copies && state.shed.contains(&turn.id) {
            return ignore(Reason::Repeated, receipt);
        }
        let Some(permit) = self.permits.take(Some(&turn.person)) else {
            if copies && state.accepted.contains(&turn.id) {
                // The dropped receipt causes redelivery of the copy until the journal can compare it.
                return;
            }
            state.shed.insert(&turn.id);
            self.observers.tell(&Happening::WorkShed(WorkShed::of(Shed::Gateway, &turn)));
            let tells = (turn.policy.answers_each || self.busy.may_tell(&turn.person)) && {
                let text = notice::busy(turn.locale()).to_owned();
                let notify = OutboxMsg::Notify { about: turn.id.trigger(), place: turn.place.clone(), text };
                self.outboxes.of(&turn.id.door).cast(notify).is_ok()
            };
            if !tells {
                // A posted notice would end the turn for subscribers, so the end is published only without one.
                self.events.publish(&turn.place, &turn.id, || TurnUpdate::unanswered(Dropped::NotTaken));
            }
            receipt.settle();
            return;
        };
        state.accepted.insert(&turn.id);
        // If the journal refuses this, the receipt is dropped, and the event is redelivered.
        self.journal.tell(JournalMsg::Accept(Box::new(Accepted { turn: Arc::new(turn), answer, permit, receipt })));
    }
}

/// Settles an event once its receiver has it in its mailbox; otherwise the event is redelivered shortly.
fn settle<M>(cast: &Result<(), Refused<M>>, receipt: Receipt) {
    if cast.is_ok() {
        receipt.settle();
    }
}

impl GatewayState {
    /// True if a member of a community that is not served may get the notice now, at most once per interval.
    fn may_tell_not_served(&mut self, turn: &Turn, now: Timestamp) -> bool {
        self.not_served.admit(&turn.person, &turn.id, now, 1, NOT_SERVED_EVERY)
    }

    /// Logs that the bot lacks permissions in a place, at most once per interval.
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
            event = GATEWAY_FORBIDDEN, place = %place,
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
            event = GATEWAY_DIRECT_IGNORED,
            "a direct message was not answered; set discord.direct_messages to answer if the bot shall"
        );
    }
}

fn ignore(reason: Reason, receipt: Receipt) {
    tracing::debug!(event = GATEWAY_DROPPED, reason = reason.as_str(), "message dropped");
    receipt.settle();
}

#[cfg(test)]
mod tests;
