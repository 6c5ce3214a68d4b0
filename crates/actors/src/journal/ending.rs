//! How turns end: answered and posted, or without an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entry::{Entry, Stage, Visible, open_turn};
use super::offering::may_have_acted;
use super::{Journal, JournalState, memory, report};
use crate::messages::clearance;
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::{Delivery, OutboxMsg};
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::rate_limiter;
use domain::delivery::{Form, Refusals};
use domain::ending::{Dropped, Ending, Unposted};
use domain::ids::{self, MessageId, Timestamp, TurnId};
use domain::ledger;
use domain::limits::charge::{charge, spent};
use domain::notice::{self, Apology};
use domain::turn::{Answer, ClosedTurn, Effort, Outcome, Turn};
use domain::turn_event::TurnUpdate;
use ports::{Pace, Write};

/// Why this turn ends in silence although its answer is known: nobody waits for what nobody asked for, so its failure is not told.
fn silent(turn: &Turn, answer: &Answer) -> Option<Dropped> {
    match answer.outcome {
        Outcome::Apologised(why) if !turn.trigger.is_asked() => Some(Dropped::Silent(why)),
        Outcome::Refused(limit) if !turn.trigger.is_asked() => Some(Dropped::OverLimit(limit)),
        Outcome::Apologised(_) | Outcome::Refused(_) | Outcome::Replied | Outcome::Hinted => None,
    }
}

/// The answer to a turn that nothing better can be done for.
pub(super) fn gave_up(entry: &Entry) -> Answer {
    if entry.may_have_acted() {
        return may_have_acted(&entry.turn);
    }
    entry.turn.apology(notice::apology(Apology::Internal, entry.turn.locale()), Ending::OffersExhausted)
}

impl Journal {
    /// The answer is known: it is written down and handed to the outbox. A second one is passed over.
    pub(super) fn answered(&self, state: &mut JournalState, id: &TurnId, mut answer: Answer) {
        let Some(entry) = state.open.get_mut(id) else { return };
        if entry.answer().is_some() {
            return;
        }
        self.gone(entry);
        if let Some(parked) = entry.parked.as_ref().filter(|_| answer.effort == Effort::default()) {
            // Whoever answers for it does not know what it took before it waited.
            answer.effort = parked.effort.clone();
        }
        // What it took is known, and the person may ask again as soon as they see the answer.
        rate_limiter::close(&self.rate_limiter, &entry.turn, entry.parked.as_deref(), &answer);
        self.timeline.charged(id, charge(&answer.outcome, &answer.effort), spent(&answer.effort));
        let answer = memory::keep(&entry.turn, answer);
        let unwanted = silent(&entry.turn, &answer);
        let is_empty =
            entry.turn.given.is_some() && answer.outcome == Outcome::Replied && answer.outgoing.parts.is_empty();
        if unwanted.is_none() {
            self.timeline.answered(id, &answer.effort);
            report::publish_answer(&self.events, &entry.turn, &answer);
        }
        entry.stage = Stage::Answered { answer, since: Instant::now() };
        if let Some(why) = unwanted {
            return self.withdraw(state, id, why);
        }
        if is_empty {
            // Whoever reads along was told of it, and there is nothing to post.
            let (posted, first_visible) = (Vec::new(), Instant::now());
            return self.delivered(state, id, &Delivery { posted, first_visible, doubled: false, form: Form::Whole });
        }
        self.record_answer(entry);
        self.offer(state, id);
    }

    /// Writes the answer of a turn down. It is posted once the record is accepted, where another process may own the turn.
    pub(super) fn record_answer(&self, entry: &mut Entry) {
        let kept = clearance::shared(self.turns.answered(&open_turn(entry)));
        entry.clearance = self.clearance(&entry.turn, kept);
    }

    /// The platform refuses the answer, and the outbox goes on: so often, for so long. It is written down when that doubled.
    pub(super) fn refused(&self, state: &mut JournalState, id: &TurnId, many: u32, since: Duration) {
        let Some(entry) = state.open.get_mut(id).filter(|entry| entry.answer().is_some()) else { return };
        let since = Timestamp(self.clock.now().0.saturating_sub(ids::millis(since)));
        let known = entry.refused.get_or_insert(Refusals { many: 0, since });
        if many >= known.many.saturating_mul(2) {
            known.many = many;
            drop(self.turns.update(&open_turn(entry), Pace::Gathered));
        }
    }

    /// The answer was posted, or what the platform took in its place.
    pub(super) fn delivered(&self, state: &mut JournalState, id: &TurnId, delivery: &Delivery) {
        let Some(mut entry) = state.open.remove(id) else { return };
        if !delivery.form.answers()
            && let Some(answer) = entry.answer().filter(|answer| answer.outcome.answers())
        {
            let apology = notice::apology(Apology::PostRefused, entry.turn.locale());
            let answer = Answer { effort: answer.effort.clone(), ..entry.turn.apology(apology, Ending::PostRefused) };
            report::publish_answer(&self.events, &entry.turn, &answer);
            entry.stage = Stage::Answered { answer, since: entry.answered_at() };
        }
        if delivery.doubled {
            metrics::counter!("staffai_turns_doubled_total").increment(1);
        }
        if let Some(answer) = entry.answer() {
            report::replied(&entry, answer, delivery);
            self.timeline.posted(id, &answer.outcome, delivery.first_visible);
        } else {
            self.timeline.posted(id, &Outcome::Replied, delivery.first_visible);
        }
        let saving = self.forgotten.saving();
        let ttl = self.live.now().settings.history.ttl;
        let writes = memory::index(&entry, &saving, &delivery.posted, ttl);
        self.close(state, &entry, delivery.posted.clone(), writes, None);
    }

    /// The answer will never be posted. One that no outbox bears gives way to an apology.
    pub(super) fn undeliverable(&self, state: &mut JournalState, id: &TurnId, reason: &Unposted) {
        if let Some(entry) = state.open.get_mut(id)
            && *reason == Unposted::Poison
            && entry.turn.trigger.is_asked()
            && let Some(Answer { outcome: Outcome::Replied, effort, .. }) = entry.answer()
        {
            let answer = Answer { effort: effort.clone(), ..gave_up(entry) };
            report::publish_answer(&self.events, &entry.turn, &answer);
            entry.stage = Stage::Answered { answer, since: Instant::now() };
            self.record_answer(entry);
            return self.offer(state, id);
        }
        let Some(entry) = state.open.remove(id) else { return };
        tracing::error!(
            event = "turn.failed", turn = %id, door = %id.door, place = %entry.turn.place, member = %entry.turn.person,
            trigger = entry.turn.trigger.as_str(), outcome = "failed",
            ms = ids::millis(entry.taken.elapsed()), post_ms = ids::millis(entry.posting_for()), %reason,
            "the answer could not be posted"
        );
        if entry.turn.trigger.is_asked() {
            metrics::counter!("staffai_turns_lost_total").increment(1);
        }
        report::count(&entry, "failed");
        self.timeline.closed(id, "failed", &reason.to_string());
        self.close(state, &entry, Vec::new(), Vec::new(), None);
    }

    /// Handling this message failed the journal again and again. Its turn ends, in the simplest way that is left.
    pub(super) fn give_up_on(&self, state: &mut JournalState, message: JournalMsg) {
        match message {
            JournalMsg::Answered(id, _) => {
                let Some(entry) = state.open.get(&id) else { return };
                let answer = gave_up(entry);
                self.answered(state, &id, answer);
            }
            JournalMsg::Delivered(id, Delivery { posted, .. }) => {
                if let Some(entry) = state.open.remove(&id) {
                    self.timeline.closed(&id, "failed", "its end failed the journal");
                    self.close(state, &entry, posted, Vec::new(), None);
                }
            }
            JournalMsg::Undeliverable(id, _) | JournalMsg::Dropped(id, _) => {
                if let Some(entry) = state.open.remove(&id) {
                    self.timeline.closed(&id, "failed", "its end failed the journal");
                    self.close(state, &entry, Vec::new(), Vec::new(), None);
                }
            }
            // The dropped receipt returns the event to where it came from, and the rest comes once.
            _ => {}
        }
    }

    /// Closes a turn; those who read along are told why it has no answer. What the turn used is counted in the same write that closes
    /// it, so that neither is ever there without the other.
    pub(super) fn close(
        &self,
        state: &mut JournalState,
        entry: &Entry,
        posted: Vec<MessageId>,
        mut writes: Vec<Write>,
        unanswered: Option<Dropped>,
    ) {
        let id = &entry.turn.id;
        state.closed.insert(id);
        self.unpark(entry, &mut writes);
        self.events.publish(&entry.turn.place, id, || TurnUpdate::Done { unanswered });
        let waited =
            entry.parked.as_ref().filter(|_| matches!(entry.stage, Stage::Parked)).map(|parked| &parked.effort);
        if let Some(effort) = entry.answer().map(|answer| &answer.effort).or(waited) {
            let used = ledger::writes(&entry.turn, effort, self.clock.now());
            writes.extend(used.into_iter().map(Write::from));
        }
        let alone = !posted.is_empty() && entry.answer().is_some_and(|answer| answer.outgoing.reply_to.is_none());
        if alone {
            state.alone.note(id, &posted);
        }
        drop(self.turns.close(&entry.turn, ClosedTurn { posted, alone }, writes));
    }

    /// Ends a turn without an answer, and tells those who may hold it.
    pub(super) fn withdraw(&self, state: &mut JournalState, id: &TurnId, why: Dropped) {
        let Some(Entry { turn, visible, parked, .. }) = self.drop_turn(state, id, why) else { return };
        let shown = visible == Visible::Perhaps || parked.is_some();
        let (place, perhaps) = (turn.place.clone(), shown && turn.trigger.has_message());
        // Whoever is down holds nothing of it any more.
        let _ = self.outboxes.of(&id.door).cast(OutboxMsg::Withdraw { place, turn: id.clone(), perhaps });
        let _ = self.rate_limiter.cast(RateLimiterMsg::Withdraw(turn));
    }

    /// Ends what an earlier life began and nobody asked for: it might have been said already. What it took is counted, and nothing
    /// of its words is kept.
    pub(super) fn abandon(&self, state: &mut JournalState, turn: Arc<Turn>, answer: Option<Answer>) {
        if let Some(answer) = &answer {
            rate_limiter::close(&self.rate_limiter, &turn, None, answer);
        }
        let entry = Entry::of_earlier_life(turn, answer, false);
        self.close(state, &entry, Vec::new(), Vec::new(), Some(Dropped::NotRepeated));
    }

    /// Ends a turn without an answer.
    pub(super) fn drop_turn(&self, state: &mut JournalState, id: &TurnId, why: Dropped) -> Option<Entry> {
        let entry = state.open.remove(id)?;
        report::refused(&entry, why.outcome(), why.as_str());
        self.timeline.closed(id, why.outcome(), why.as_str());
        self.close(state, &entry, Vec::new(), Vec::new(), Some(why));
        Some(entry)
    }
}
