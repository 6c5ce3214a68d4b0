//! The ends of turns: answered and posted, or without an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entry::{JournalEntry, Stage, Visible, open_turn};
use super::{Journal, JournalState, memory};
use crate::messages::clearance;
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::{Delivery, OutboxMsg};
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::services::experiments;
use crate::services::settlement;
use domain::arm_figures;
use domain::delivery::{Form, RefusalRecord};
use domain::ending::{Dropped, Ending, Unposted};
use domain::happening::{Happening, TurnPosted};
use domain::ids::{self, MessageId, Timestamp, TurnId};
use domain::ledger;
use domain::limits::charge::{charge, spent};
use domain::notice::{self, Apology};
use domain::planted::Defect;
use domain::turn::{Answer, ClosedTurn, Effort, Outcome, Turn};
use ports::{Pace, Write};

/// Returns the reason if this turn ends silently although it has an answer. The failure of an unrequested turn is not
/// reported.
fn silent(turn: &Turn, answer: &Answer) -> Option<Dropped> {
    match answer.outcome {
        Outcome::Apologised(why) if Defect::NoApology.is_planted() => Some(Dropped::Silent(why)),
        Outcome::Apologised(why) if !turn.trigger.is_asked() => Some(Dropped::Silent(why)),
        Outcome::Refused(limit) if !turn.trigger.is_asked() => Some(Dropped::OverLimit(limit)),
        Outcome::Apologised(_) | Outcome::Refused(_) | Outcome::Replied | Outcome::Hinted => None,
    }
}

/// Returns the last-resort answer to a turn: an apology.
pub(super) fn last_resort_answer(entry: &JournalEntry) -> Answer {
    entry.apology(notice::apology(Apology::Internal, entry.turn.locale()), Ending::OffersExhausted)
}

impl Journal {
    /// Reports that the journal owns a turn from now on, with its answer if there is one. `decided` is the time that
    /// a new turn took from its door to the journal.
    pub(super) fn report_custody(&self, turn: &Turn, answer: Option<&Answer>, decided: Option<Duration>) {
        self.observers.tell(&Happening::TurnTaken { turn, decided });
        if let Some(answer) = answer {
            self.observers.tell(&Happening::TurnAnswered(turn, answer));
        }
    }

    /// Records an answer and hands it to the outbox. A second answer is ignored.
    pub(super) fn answered(&self, state: &mut JournalState, id: &TurnId, mut answer: Answer) {
        let Some(entry) = state.open.get_mut(id) else { return };
        if entry.answer().is_some() {
            return;
        }
        self.withdraw_request(entry);
        if let Some(parked) = entry.parked.as_ref().filter(|_| answer.effort == Effort::default()) {
            // The sender of the answer lacks the effort spent before the turn was parked.
            answer.effort = parked.effort.clone();
        }
        // The cost is final, and the member may ask again as soon as the answer is visible.
        settlement::settle_or_cancel(&self.rate_limiter, &entry.turn, entry.parked.as_deref(), &answer);
        let charged = charge(&answer.outcome, &answer.effort);
        self.observers.tell(&Happening::TurnCharged(id, charged, spent(&answer.effort)));
        let answer = memory::keep(&entry.turn, answer);
        let unwanted = silent(&entry.turn, &answer);
        let is_empty =
            entry.turn.given.is_some() && answer.outcome == Outcome::Replied && answer.outgoing.parts.is_empty();
        if unwanted.is_none() {
            self.observers.tell(&Happening::TurnAnswered(&entry.turn, &answer));
        }
        entry.stage = Stage::Answered { answer, since: Instant::now() };
        if let Some(why) = unwanted {
            return self.withdraw(state, id, why);
        }
        if is_empty {
            // The client received the answer as events, and there is nothing to post.
            let (posted, first_visible) = (Vec::new(), Instant::now());
            return self.delivered(state, id, &Delivery { posted, first_visible, doubled: false, form: Form::Whole });
        }
        self.record_answer(entry);
        if Defect::EarlyClose.is_planted() {
            let closed = ClosedTurn { posted: Vec::new(), alone: false };
            drop(self.turns.close(&entry.turn, closed, Vec::new()));
        }
        self.offer(state, id);
    }

    /// Ends a turn with an answer of the journal itself. The work on the turn is cancelled: its drafts would otherwise
    /// replace this answer once the outbox restarts.
    pub(super) fn end_with(&self, state: &mut JournalState, id: &TurnId, answer: Answer) {
        if let Some(entry) = state.open.get(id).filter(|entry| entry.answer().is_none()) {
            // A limiter that is down holds nothing of the turn. If a full one refuses this, the work goes on to its
            // deadline, and the journal ignores its answer.
            self.rate_limiter.tell(RateLimiterMsg::Withdraw(Arc::clone(&entry.turn)));
        }
        self.answered(state, id, answer);
    }

    /// Records the answer of a turn. If another process may own the turn, the answer is posted after the store accepts
    /// the record.
    pub(super) fn record_answer(&self, entry: &mut JournalEntry) {
        let kept = clearance::shared(self.turns.answered(&open_turn(entry)));
        entry.clearance = self.clearance(&entry.turn, kept);
    }

    /// Stores the number of refusals of an answer and their duration, while the outbox retries. A record is written
    /// when the number has doubled.
    pub(super) fn refused(&self, state: &mut JournalState, id: &TurnId, many: u32, since: Duration) {
        let Some(entry) = state.open.get_mut(id).filter(|entry| entry.answer().is_some()) else { return };
        let since = Timestamp(self.clock.now().0.saturating_sub(ids::millis(since)));
        let known = entry.refused.get_or_insert(RefusalRecord { many: 0, since });
        if many >= known.many.saturating_mul(2) {
            known.many = many;
            drop(self.turns.update(&open_turn(entry), Pace::Gathered));
        }
    }

    /// Closes a turn whose answer, or its substitute, was posted.
    pub(super) fn delivered(&self, state: &mut JournalState, id: &TurnId, delivery: &Delivery) {
        let Some(mut entry) = state.open.remove(id) else { return };
        if !delivery.form.answers()
            && let Some(answer) = entry.answer().filter(|answer| answer.outcome.answers())
        {
            let apology = notice::apology(Apology::PostRefused, entry.turn.locale());
            let answer = Answer { effort: answer.effort.clone(), ..entry.turn.apology(apology, Ending::PostRefused) };
            self.observers.tell(&Happening::TurnAnswered(&entry.turn, &answer));
            entry.stage = Stage::Answered { answer, since: entry.answered_at() };
        }
        self.observers.tell(&Happening::TurnPosted(TurnPosted {
            turn: &entry.turn,
            answer: entry.answer(),
            doubled: delivery.doubled,
            took: entry.taken.elapsed(),
            visible_for: delivery.first_visible.elapsed(),
            posting: entry.posting_for(),
            parts: delivery.posted.len(),
        }));
        let saving = self.forgotten.saving();
        let ttl = self.live.now().settings.history.ttl;
        let writes = memory::index(&entry, &saving, &delivery.posted, ttl);
        self.close(state, &entry, delivery.posted.clone(), writes, None);
    }

    /// Ends a turn whose answer will never be posted. An answer that crashes the outbox is replaced by an apology.
    pub(super) fn undeliverable(&self, state: &mut JournalState, id: &TurnId, reason: &Unposted) {
        if let Some(entry) = state.open.get_mut(id)
            && *reason == Unposted::Poison
            && entry.turn.trigger.is_asked()
            && let Some(Answer { outcome: Outcome::Replied, effort, .. }) = entry.answer()
        {
            let answer = Answer { effort: effort.clone(), ..last_resort_answer(entry) };
            self.observers.tell(&Happening::TurnAnswered(&entry.turn, &answer));
            entry.stage = Stage::Answered { answer, since: Instant::now() };
            self.record_answer(entry);
            return self.offer(state, id);
        }
        let Some(entry) = state.open.remove(id) else { return };
        let (took, posting) = (entry.taken.elapsed(), entry.posting_for());
        self.observers.tell(&Happening::TurnUndeliverable { turn: &entry.turn, reason, took, posting });
        self.close(state, &entry, Vec::new(), Vec::new(), None);
    }

    /// Ends the turn of a message whose handling crashed the journal repeatedly, in the simplest possible way.
    pub(super) fn give_up_on(&self, state: &mut JournalState, message: JournalMsg) {
        match message {
            JournalMsg::Answered(id, _) => {
                let Some(entry) = state.open.get(&id) else { return };
                let answer = last_resort_answer(entry);
                self.answered(state, &id, answer);
            }
            JournalMsg::Delivered(id, Delivery { posted, .. }) => {
                if let Some(entry) = state.open.remove(&id) {
                    self.observers.tell(&Happening::TurnGivenUp(&id));
                    self.close(state, &entry, posted, Vec::new(), None);
                }
            }
            JournalMsg::Undeliverable(id, _) | JournalMsg::Dropped(id, _) => {
                if let Some(entry) = state.open.remove(&id) {
                    self.observers.tell(&Happening::TurnGivenUp(&id));
                    self.close(state, &entry, Vec::new(), Vec::new(), None);
                }
            }
            // The dropped receipt returns the event to its source; the other messages are not repeated.
            _ => {}
        }
    }

    /// Closes a turn and reports the reason to clients if it has no answer. The usage of the turn is counted in the
    /// same atomic write.
    pub(super) fn close(
        &self,
        state: &mut JournalState,
        entry: &JournalEntry,
        posted: Vec<MessageId>,
        mut writes: Vec<Write>,
        unanswered: Option<Dropped>,
    ) {
        let id = &entry.turn.id;
        state.closed.insert(id);
        if entry.offered_again {
            // The turn may still wait in a lane, and the drafts of its second work would replace the answer once the
            // outbox restarts. A limiter that is down holds nothing of the turn; a full one may let the second work run.
            self.rate_limiter.tell(RateLimiterMsg::Withdraw(Arc::clone(&entry.turn)));
        }
        self.unpark(entry, &mut writes);
        self.observers.tell(&Happening::TurnClosed(&entry.turn, unanswered));
        // The work that continued the turn, if it is cancelled, counts only its own part.
        let before = entry.parked.as_ref().map(|parked| &parked.effort);
        if let Some(effort) = entry.answer().map(|answer| &answer.effort).or(before) {
            let used = ledger::writes(&entry.turn, effort, self.clock.now());
            writes.extend(used.into_iter().map(Write::from));
        }
        if let Some(answer) = entry.answer() {
            let counted = arm_figures::counted(&answer.effort, &answer.outcome);
            writes.extend(counted.into_iter().map(Write::from));
            writes.extend(experiments::index(&answer.effort, &posted));
        }
        let alone = !posted.is_empty() && entry.answer().is_some_and(|answer| answer.outgoing.reply_to.is_none());
        if alone {
            state.alone.note(id, &posted);
        }
        drop(self.turns.close(&entry.turn, ClosedTurn { posted, alone }, writes));
    }

    /// Ends a turn without an answer, and notifies the actors that may hold it.
    pub(super) fn withdraw(&self, state: &mut JournalState, id: &TurnId, why: Dropped) {
        let Some(JournalEntry { turn, visible, parked, .. }) = self.drop_turn(state, id, why) else { return };
        let shown = visible == Visible::Perhaps || parked.is_some();
        let (place, perhaps) = (turn.place.clone(), shown && turn.trigger.has_message());
        // A limiter or outbox that is down holds nothing of the turn. If a full outbox refuses this, the platform
        // rejects the reply to the deleted message, and the outbox drops the answer.
        self.outboxes.of(&id.door).tell(OutboxMsg::Withdraw { place, turn: id.clone(), perhaps });
        self.rate_limiter.tell(RateLimiterMsg::Withdraw(turn));
    }

    /// Ends a recovered turn that was not requested, because its answer may be posted already. Its usage is counted,
    /// and none of its text is kept.
    pub(super) fn abandon(&self, state: &mut JournalState, turn: Arc<Turn>, answer: Option<Answer>) {
        if let Some(answer) = &answer {
            settlement::settle_or_cancel(&self.rate_limiter, &turn, None, answer);
        }
        let entry = JournalEntry::of_earlier_life(turn, answer, false);
        self.close(state, &entry, Vec::new(), Vec::new(), Some(Dropped::NotRepeated));
    }

    /// Ends a turn without an answer.
    pub(super) fn drop_turn(&self, state: &mut JournalState, id: &TurnId, why: Dropped) -> Option<JournalEntry> {
        let entry = state.open.remove(id)?;
        self.observers.tell(&Happening::TurnDropped { turn: &entry.turn, why, took: entry.taken.elapsed() });
        self.close(state, &entry, Vec::new(), Vec::new(), Some(why));
        Some(entry)
    }
}
