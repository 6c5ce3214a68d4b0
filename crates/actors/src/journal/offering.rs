//! The lease of a turn: its holder, and the conditions for a new offer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ending::last_resort_answer;
use super::entry::{HandOver, JournalEntry, Stage, Visible, oldest_first};
use super::{Journal, JournalState, Recovered};
use crate::messages::conversations::{ConversationsMsg, OfferedTurn};
use crate::messages::outbox::{NONCE_TRUST, OutboxMsg, Rescue};
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::services::settlement;
use crate::tree::{HeldTurns, Scope};
use domain::delivery::RefusalRecord;
use domain::ending::{Dropped, Ending};
use domain::happening::{Happening, Resumed};
use domain::ids::TurnId;
use domain::notice::{self, Apology};
use domain::outgoing::{AnswerCost, Medium, Outgoing};
use domain::planted::Defect;
use domain::turn::{Outcome, Turn};

/// The most offers of a turn before it is answered with an apology. This stops a turn that crashes its conversation
/// every time.
pub(super) const OFFERS_MAX: u32 = 4;
/// The time after its own deadline at which an unfinished turn is answered with an apology.
const GRACE: Duration = Duration::from_secs(30);

/// The time before the deadline of a turn at which the member is told that the platform refuses the answer.
const RESCUE_BEFORE: Duration = Duration::from_secs(10);

impl Journal {
    /// Offers an open turn to the actor for its next step: the limiter, which leads to an answer, or the outbox, which
    /// posts it. An actor that already holds the turn ignores the offer.
    pub(super) fn offer(&self, state: &mut JournalState, id: &TurnId) {
        let Some(entry) = state.open.get_mut(id) else { return };
        let (turn, again) = (&entry.turn, entry.visible == Visible::Perhaps);
        match &mut entry.stage {
            // The decision triggers the offer.
            Stage::Parked => {}
            Stage::Open { .. } if !state.phase.offers() => {}
            Stage::Open { offers }
                if !turn.trigger.is_asked() && (again || *offers > 0) && entry.hand_over == HandOver::Taken =>
            {
                self.withdraw(state, id, Dropped::NotRepeated);
            }
            Stage::Open { offers } if entry.acted || *offers >= OFFERS_MAX => {
                let answer = last_resort_answer(entry);
                self.end_with(state, id, answer);
            }
            // The limiter admitted the turn before it was parked.
            Stage::Open { offers } if entry.parked.is_some() => {
                if let Some(parked) = entry.parked.as_deref() {
                    // If the limiter refuses this, it does not count this part.
                    self.rate_limiter.tell(RateLimiterMsg::GoesOn(settlement::part(turn, parked)));
                }
                entry.offered_again |= again || *offers > 0;
                let offered = OfferedTurn { turn: turn.clone(), again, resumed: entry.parked.clone() };
                let offer = ConversationsMsg::Offer(Box::new(offered));
                entry.hand_over = HandOver::of(&self.conversations.cast(offer));
                *offers += u32::from(entry.hand_over == HandOver::Taken);
            }
            // A neighbour that is down gets the turn when its supervisor reports the restart, or, before its first
            // start, at the next sweep.
            Stage::Open { offers } => {
                let again = again || *offers > 0;
                entry.offered_again |= again;
                let offered = OfferedTurn { turn: turn.clone(), again, resumed: None };
                entry.hand_over = HandOver::of(&self.rate_limiter.cast(RateLimiterMsg::Admit(Box::new(offered))));
                *offers += u32::from(entry.hand_over == HandOver::Taken);
            }
            Stage::Answered { .. } if !turn.trigger.is_asked() && again && entry.hand_over == HandOver::Taken => {
                self.withdraw(state, id, Dropped::NotRepeated);
            }
            Stage::Answered { answer, .. } => {
                let drafted = answer.effort.drafted;
                let refused = entry.refused.map(|refused| self.refused_before(refused));
                let begun = refused.map_or(entry.since, |(_, since)| since.min(entry.since));
                let rescue = turn.trigger.is_asked().then(|| self.rescue(turn, begun));
                let replies = self.outboxes.medium(&id.door) == Medium::Replies;
                let spent = || AnswerCost { model: answer.effort.model.clone(), tokens: answer.effort.usage.total() };
                let spent = replies.then(|| Arc::new(spent()));
                let (apology, private) = (!answer.outcome.answers(), matches!(answer.outcome, Outcome::Refused(_)));
                let outgoing = Outgoing { apology, spent, private, ..answer.outgoing.clone() };
                let drafted = drafted && !replies;
                entry.visible = Visible::Perhaps;
                let since = turn.at;
                // Only its text distinguishes a post that is not a reply, and two turns may share the text. None of it
                // was posted before the turn began.
                let remembered = NONCE_TRUST.saturating_sub(self.clock.now().since(since));
                let nonce_until = outgoing.reply_to.is_none().then(|| Instant::now() + remembered);
                let (person, turn) = (turn.person.clone(), id.clone());
                let looks = again && outgoing.reply_to.is_none();
                let others = if looks { state.alone.of_others(id).collect() } else { Vec::new() };
                let deliver = OutboxMsg::Deliver {
                    turn,
                    person,
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

    /// Returns the notice that replaces this turn's answer if the platform refuses it until shortly before the
    /// deadline of its work, which began at this time.
    fn rescue(&self, turn: &Turn, begun: Instant) -> Rescue {
        let deadline = self.live.now().settings.turn.deadline;
        let early = deadline.saturating_sub(RESCUE_BEFORE.min(deadline / 4));
        Rescue { at: begun + early, locale: turn.locale() }
    }

    /// Returns the recorded refusals, with their start on the clock of this process.
    fn refused_before(&self, RefusalRecord { many, since }: RefusalRecord) -> (u32, Instant) {
        let now = Instant::now();
        (many, now.checked_sub(self.clock.now().since(since)).unwrap_or(now))
    }

    /// Offers again the turns that the failed actor may have held: an outbox gets the answers of its door, the other
    /// actors the turns without an answer. An actor that still holds a turn ignores a second offer.
    pub(super) fn offer_again(&self, state: &mut JournalState, recovered: &Recovered) {
        if Defect::NoOfferAgain.is_planted() {
            return;
        }
        let concerns = |turn: &Turn| match &recovered.scope {
            Scope::One | Scope::Number(_) | Scope::Server(_) | Scope::Community(_) => true,
            Scope::Door(door) => turn.id.door == *door,
            Scope::Place(place) => turn.place == *place,
        };
        let answered = recovered.held == HeldTurns::Answered;
        if answered {
            // Drafts of unanswered turns may be visible in their channels, and the new outbox has no record of them.
            let drafted = state.open.values_mut().filter(|entry| concerns(&entry.turn));
            drafted.for_each(|entry| entry.visible = Visible::Perhaps);
        }
        // The limiter released an acting turn earlier: the conversation still works on it.
        let elsewhere = |entry: &JournalEntry| entry.acted && recovered.held == HeldTurns::Unadmitted;
        let waits = |entry: &JournalEntry| matches!(entry.stage, Stage::Parked);
        let concerned = |entry: &&JournalEntry| {
            entry.answer().is_some() == answered && concerns(&entry.turn) && !elsewhere(entry) && !waits(entry)
        };
        for id in oldest_first(state.open.values().filter(concerned)) {
            self.observers.tell(&Happening::TurnResumed(&id, Resumed::OfferedAgain));
            self.offer(state, &id);
        }
    }

    /// Offers every turn again that has no running task and no pending decision. An actor that holds a turn ignores
    /// the offer.
    pub(super) fn offer_idle(&self, state: &mut JournalState) {
        let idle = |entry: &&JournalEntry| !matches!(entry.stage, Stage::Parked) && !self.in_flight.has(&entry.turn.id);
        for id in oldest_first(state.open.values().filter(idle)) {
            self.observers.tell(&Happening::TurnResumed(&id, Resumed::OfferedAgain));
            self.offer(state, &id);
        }
    }

    /// Repeats refused offers. As a backstop, a turn that is unfinished after every bound is answered with an apology.
    pub(super) fn sweep(&self, state: &mut JournalState) {
        for id in oldest_first(state.open.values().filter(|entry| entry.hand_over == HandOver::Refused)) {
            self.offer(state, &id);
        }
        let turn = &self.live.now().settings.turn;
        let bound = turn.queue + turn.deadline + GRACE;
        // A turn whose model is writing is in flight and on time; `turn.longest` bounds it.
        let late = |entry: &&JournalEntry| {
            matches!(entry.stage, Stage::Open { .. })
                && entry.since.elapsed() > bound
                && !self.in_flight.is_in_time(&entry.turn.id)
        };
        for id in oldest_first(state.open.values().filter(late)) {
            let entry = &state.open[&id];
            let answer = entry.apology(notice::apology(Apology::TimedOut, entry.turn.locale()), Ending::Stalled);
            self.end_with(state, &id, answer);
        }
    }
}
