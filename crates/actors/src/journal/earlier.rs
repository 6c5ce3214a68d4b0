//! Recovery at start: loads the stored records and takes up the open turns.

use std::sync::Arc;
use std::time::Duration;

use super::ending::last_resort_answer;
use super::entry::{JournalEntry, apology};
use super::{Journal, JournalEvent, JournalState};
use crate::messages::approvals::ApprovalsMsg;
use crate::runtime::supervisor::ActorContext;
use crate::services::settlement;
use domain::ending::Ending;
use domain::happening::{Happening, Resumed};
use domain::ids::TurnId;
use domain::notice;
use domain::planted::Defect;
use domain::turn::{ClosedTurn, Custody, Lasts, OpenTurn, Turn};
use domain::unquoted::unquoted;
use ports::Adopted;
use telemetry::events::{STORE_CORRUPT, TURN_NO_DOOR};

/// The time for the records to load before the journal serves without them.
const LOAD_TIMEOUT: Duration = Duration::from_secs(20);

impl Journal {
    /// Loads the records in a task that reports back.
    pub(super) fn read_records(&self, ctx: &mut ActorContext<Journal>) {
        let (turns, events) = (Arc::clone(&self.turns), ctx.events());
        ctx.task(
            async move {
                let mut adopting = turns.adopt();
                match tokio::time::timeout(LOAD_TIMEOUT, &mut adopting).await {
                    Ok(records) => JournalEvent::Loaded(records),
                    Err(_) => {
                        // An actor that ended needs no report.
                        let _ = events.send(JournalEvent::Slow);
                        JournalEvent::Loaded(adopting.await)
                    }
                }
            },
            JournalEvent::Unreadable,
        );
    }

    /// Takes up the open turns among the records; turns that are already in memory stay unchanged.
    pub(super) fn load(&self, state: &mut JournalState, records: Vec<Adopted>) {
        let mut resumed: Vec<TurnId> = Vec::new();
        let records = if Defect::NoAdoption.is_planted() { Vec::new() } else { records };
        for Adopted { key, id, record } in records {
            if id.as_ref().is_some_and(|id| state.knows(id)) {
                continue;
            }
            match record.map(|record| record.custody) {
                Ok(Custody::Open(OpenTurn { turn, .. })) if !self.outboxes.has(&turn.id.door) => {
                    tracing::error!(event = TURN_NO_DOOR, turn = %turn.id, door = %turn.id.door, "a stored turn waits for its door");
                }
                Ok(Custody::Open(OpenTurn { turn, answer, .. }))
                    if !turn.trigger.is_asked() || self.is_unread(&turn) =>
                {
                    self.abandon(state, turn, answer);
                }
                Ok(Custody::Open(OpenTurn { turn, answer: None, acted, parked: Some(parked), .. })) => {
                    resumed.extend(self.adopt_parked(state, JournalEntry::that_waits(turn, acted, parked)));
                }
                Ok(Custody::Open(OpenTurn { turn, answer, acted, refused, .. })) => {
                    let acted = acted && !Defect::RepeatedEffect.is_planted();
                    let how = Resumed::Earlier { answered: answer.is_some() };
                    self.observers.tell(&Happening::TurnResumed(&turn.id, how));
                    let id = turn.id.clone();
                    let late = self.clock.now().since(turn.at) > self.live.now().settings.catch_up.age;
                    if (acted || late) && answer.is_none() && self.in_flight.has(&id) {
                        // Only the journal restarted: the task still works on the turn and will report the answer.
                        self.report_custody(&turn, None, None);
                        state.open.insert(id, JournalEntry::of_earlier_life(turn, None, acted));
                        continue;
                    }
                    let answer = match answer {
                        None if acted || late => {
                            Some(apology(&turn, acted, notice::interrupted(turn.locale()), Ending::Interrupted))
                        }
                        known => known,
                    };
                    self.report_custody(&turn, answer.as_ref(), None);
                    if let Some(answer) = &answer {
                        settlement::settle_or_cancel(&self.rate_limiter, &turn, None, answer);
                    }
                    resumed.push(id.clone());
                    let mut entry = JournalEntry::of_earlier_life(turn, answer, acted);
                    entry.refused = refused;
                    self.rerecord_answer(&mut entry);
                    state.open.insert(id, entry);
                }
                Ok(Custody::Closed(ClosedTurn { posted, alone })) => {
                    if let Some(id) = id {
                        if alone {
                            state.alone.note(&id, &posted);
                        }
                        state.closed.insert(&id);
                    }
                }
                Err(error) => {
                    let error = unquoted(&error);
                    tracing::error!(
                        event = STORE_CORRUPT,
                        key,
                        error,
                        "a journal record cannot be read; it is skipped"
                    );
                }
            }
        }
        for id in resumed {
            self.offer(state, &id);
        }
    }

    /// Records an answer again if another process may own its turn; the answer is posted once the store accepts the
    /// record.
    fn rerecord_answer(&self, entry: &mut JournalEntry) {
        if self.turns.is_shared() && entry.answer().is_some() {
            self.record_answer(entry);
        }
    }

    /// True if the client of this turn read the stream and has disconnected.
    fn is_unread(&self, turn: &Turn) -> bool {
        turn.policy.lasts == Lasts::WhileRead && !self.events.has(&turn.place)
    }

    /// Takes up a turn that is parked, or continues after a decision. Returns its id if there is work to do now.
    fn adopt_parked(&self, state: &mut JournalState, entry: JournalEntry) -> Option<TurnId> {
        let id = entry.turn.id.clone();
        self.report_custody(&entry.turn, None, None);
        if (entry.acted || self.too_late(&entry).is_some()) && self.in_flight.has(&id) {
            // Only the journal restarted: the task still works on the turn and will report the answer.
            state.open.insert(id, entry);
            return None;
        }
        let late = entry.acted.then(|| last_resort_answer(&entry)).or_else(|| self.too_late(&entry));
        let waits = entry.waits_for().is_some();
        state.open.insert(id.clone(), entry);
        if let Some(answer) = late {
            self.answered(state, &id, answer);
            return None;
        }
        if let Some(waiting) = state.open.get(&id).and_then(JournalEntry::waits_for) {
            // If approvals has the gate, it ignores this message. If approvals refuses the message, it asks the
            // journal for all parked turns later.
            self.approvals.tell(ApprovalsMsg::Ask(Box::new(waiting)));
        }
        if !waits {
            self.observers.tell(&Happening::TurnResumed(&id, Resumed::Earlier { answered: false }));
        }
        // A parked turn continues when approvals, which asks for all parked turns, has the decision.
        (!waits).then_some(id)
    }
}
