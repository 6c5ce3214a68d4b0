//! The lease of a turn: who is handed it, and when it is handed out again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ending::gave_up;
use super::entry::{Entry, HandOver, Stage, Visible, oldest_first};
use super::{Journal, JournalState, Recovered};
use crate::messages::conversations::{ConversationsMsg, Offered};
use crate::messages::outbox::{NONCE_TRUST, OutboxMsg, Rescue};
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::rate_limiter;
use crate::tree::{ActorKind, Scope};
use domain::delivery::Refusals;
use domain::ending::{Dropped, Ending};
use domain::happening::{Happening, Resumed};
use domain::ids::TurnId;
use domain::notice::{self, Apology};
use domain::outgoing::{Outgoing, Spent};
use domain::turn::{Answer, Turn};

/// How often a turn is offered before it is answered with an apology: a turn that crashes its conversation must not do
/// so for ever.
pub(super) const OFFERS_MAX: u32 = 4;
/// How long after its own deadline a turn that nobody finished is answered with an apology.
const GRACE: Duration = Duration::from_secs(30);

/// How long before the deadline of a turn its member is told that the platform does not take the answer.
const RESCUE_BEFORE: Duration = Duration::from_secs(10);

/// The answer to a turn that was cut off after a tool that changes something may have run for it.
pub(super) fn may_have_acted(turn: &Turn) -> Answer {
    turn.apology(notice::apology(Apology::MayHaveActed, turn.locale()), Ending::MayHaveActed)
}

impl Journal {
    /// Hands a turn that is not closed to the actor that has to do the next step: the limiter finds its answer, the outbox posts
    /// it. What that actor got already it passes over.
    pub(super) fn offer(&self, state: &mut JournalState, id: &TurnId) {
        let Some(entry) = state.open.get_mut(id) else { return };
        let (turn, again) = (&entry.turn, entry.visible == Visible::Perhaps);
        match &mut entry.stage {
            // Its decision hands it out.
            Stage::Parked => {}
            Stage::Open { .. } if !state.phase.offers() => {}
            Stage::Open { offers }
                if !turn.trigger.is_asked() && (again || *offers > 0) && entry.hand_over == HandOver::Taken =>
            {
                self.withdraw(state, id, Dropped::NotRepeated);
            }
            Stage::Open { .. } if entry.acted => {
                let answer = may_have_acted(turn);
                self.answered(state, id, answer);
            }
            Stage::Open { offers: OFFERS_MAX.. } => {
                let answer = gave_up(entry);
                self.answered(state, id, answer);
            }
            // It was let through when it was asked.
            Stage::Open { offers } if entry.parked.is_some() => {
                if let Some(parked) = entry.parked.as_deref() {
                    // A limiter that refuses this counts nothing of this part.
                    self.rate_limiter.tell(RateLimiterMsg::GoesOn(rate_limiter::part(turn, parked)));
                }
                let offered = Offered { turn: turn.clone(), again, resumed: entry.parked.clone() };
                let offer = ConversationsMsg::Offer(Box::new(offered));
                entry.hand_over = HandOver::of(&self.conversations.cast(offer));
                *offers += u32::from(entry.hand_over == HandOver::Taken);
            }
            // A neighbour that is down gets the turn when its supervisor reports it back, or, if it has yet to start for the
            // first time, with the next sweep.
            Stage::Open { offers } => {
                let offered = Offered { turn: turn.clone(), again: again || *offers > 0, resumed: None };
                entry.hand_over = HandOver::of(&self.rate_limiter.cast(RateLimiterMsg::Admit(Box::new(offered))));
                *offers += u32::from(entry.hand_over == HandOver::Taken);
            }
            Stage::Answered { .. } if !turn.trigger.is_asked() && again && entry.hand_over == HandOver::Taken => {
                self.withdraw(state, id, Dropped::NotRepeated);
            }
            Stage::Answered { answer, .. } => {
                let drafted = answer.effort.drafted;
                let rescue = turn.trigger.is_asked().then(|| self.rescue(turn));
                let streams = self.events.streams(&id.door);
                let spent = || Spent { model: answer.effort.model.clone(), tokens: answer.effort.usage.total() };
                let spent = streams.then(|| Arc::new(spent()));
                let outgoing = Outgoing { apology: !answer.outcome.answers(), spent, ..answer.outgoing.clone() };
                // Readers of events are shown drafts there, and never in the channel.
                let drafted = drafted && !streams;
                entry.visible = Visible::Perhaps;
                let since = turn.at;
                // What replies to nothing is told from others in the channel by its words alone, which two turns may share. Nothing of
                // it was posted before the turn began.
                let remembered = NONCE_TRUST.saturating_sub(self.clock.now().since(since));
                let nonce_until = outgoing.reply_to.is_none().then(|| Instant::now() + remembered);
                let refused = entry.refused.map(|refused| self.refused_before(refused));
                let turn = id.clone();
                let looks = again && outgoing.reply_to.is_none();
                let others = if looks { state.alone.of_others(id).collect() } else { Vec::new() };
                let deliver = OutboxMsg::Deliver {
                    turn,
                    outgoing,
                    since,
                    check: again,
                    others,
                    nonce_until,
                    drafted,
                    refused,
                    rescue,
                    clearance: entry.clearance.clone(),
                };
                entry.hand_over = HandOver::of(&self.outboxes.of(&id.door).cast(deliver));
            }
        }
    }

    /// What is told of this turn in place of its answer, in good time before its deadline.
    fn rescue(&self, turn: &Turn) -> Rescue {
        let deadline = self.live.now().settings.turn.deadline;
        let early = deadline.saturating_sub(RESCUE_BEFORE.min(deadline / 4));
        let left = early.saturating_sub(self.clock.now().since(turn.at));
        Rescue { at: Instant::now() + left, locale: turn.locale() }
    }

    /// The refusals that its record tells of, on the clock of this process.
    fn refused_before(&self, Refusals { many, since }: Refusals) -> (u32, Instant) {
        let now = Instant::now();
        (many, now.checked_sub(self.clock.now().since(since)).unwrap_or(now))
    }

    /// What the failed actor may have held is offered again: to an outbox the answers of its door, to those who find answers
    /// the turns that have none. An actor that still holds a turn ignores a second offer.
    pub(super) fn offer_again(&self, state: &mut JournalState, recovered: &Recovered) {
        let concerns = |turn: &Turn| match &recovered.scope {
            Scope::One | Scope::Number(_) | Scope::Server(_) => true,
            Scope::Door(door) => turn.id.door == *door,
            Scope::Place(place) => turn.place == *place,
        };
        let answered = match recovered.kind {
            ActorKind::Outbox => true,
            ActorKind::RateLimiter | ActorKind::Conversations | ActorKind::Conversation => false,
            ActorKind::Root
            | ActorKind::Ops
            | ActorKind::Listener
            | ActorKind::Journal
            | ActorKind::RestrictionSweeper
            | ActorKind::Tools
            | ActorKind::ToolCache
            | ActorKind::Approvals
            | ActorKind::Providers
            | ActorKind::Mcp
            | ActorKind::LlmDispatcher
            | ActorKind::PresenceScheduler
            | ActorKind::Commands
            | ActorKind::Reporter
            | ActorKind::Timers
            | ActorKind::ConfigWatcher
            | ActorKind::Gateway
            | ActorKind::Source
            | ActorKind::Discord
            | ActorKind::IdentifyQueue
            | ActorKind::Shard => return,
        };
        if answered {
            // Drafts of turns without an answer may stand in their channels, and the new outbox does not know of them.
            let drafted = state.open.values_mut().filter(|entry| concerns(&entry.turn));
            drafted.for_each(|entry| entry.visible = Visible::Perhaps);
        }
        // The limiter let a turn that acts go long ago: whoever works on it still does.
        let elsewhere = |entry: &Entry| entry.acted && recovered.kind == ActorKind::RateLimiter;
        let waits = |entry: &Entry| matches!(entry.stage, Stage::Parked);
        let concerned = |entry: &&Entry| {
            entry.answer().is_some() == answered && concerns(&entry.turn) && !elsewhere(entry) && !waits(entry)
        };
        for id in oldest_first(state.open.values().filter(concerned)) {
            self.account.tell(&Happening::TurnResumed(&id, Resumed::OfferedAgain));
            self.offer(state, &id);
        }
    }

    /// Offers every turn again on which no task works and which waits for no decision. An actor that holds a turn ignores that.
    pub(super) fn offer_idle(&self, state: &mut JournalState) {
        let idle = |entry: &&Entry| !matches!(entry.stage, Stage::Parked) && !self.in_flight.has(&entry.turn.id);
        for id in oldest_first(state.open.values().filter(idle)) {
            self.account.tell(&Happening::TurnResumed(&id, Resumed::OfferedAgain));
            self.offer(state, &id);
        }
    }

    /// Offers again what nobody was there for. The backstop: a turn that nobody finished within every bound is answered with an apology.
    pub(super) fn sweep(&self, state: &mut JournalState) {
        for id in oldest_first(state.open.values().filter(|entry| entry.hand_over == HandOver::Refused)) {
            self.offer(state, &id);
        }
        let turn = &self.live.now().settings.turn;
        let bound = turn.queue + turn.deadline + GRACE;
        // A turn whose model writes is in flight and in time, which `turn.longest` bounds.
        let late = |entry: &&Entry| {
            matches!(entry.stage, Stage::Open { .. })
                && entry.since.elapsed() > bound
                && !self.in_flight.is_in_time(&entry.turn.id)
        };
        for id in oldest_first(state.open.values().filter(late)) {
            let entry = &state.open[&id];
            let turn = &entry.turn;
            let answer = if entry.may_have_acted() {
                may_have_acted(turn)
            } else {
                turn.apology(notice::apology(Apology::TimedOut, turn.locale()), Ending::Stalled)
            };
            self.answered(state, &id, answer);
        }
    }
}
