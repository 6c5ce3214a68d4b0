//! What an earlier life left: its records are read, and its open turns are taken up.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::offering::may_have_acted;
use super::{Journal, JournalEvent, JournalState};
use crate::messages::approvals::ApprovalsMsg;
use crate::rate_limiter;
use crate::runtime::supervisor::ActorContext;
use domain::ending::Ending;
use domain::ids::TurnId;
use domain::notice;
use domain::turn::{ClosedTurn, Custody, Lasts, OpenTurn, Turn};
use domain::unquoted::unquoted;
use ports::Adopted;

/// How long reading them may take; then the journal fails and its supervisor decides.
const LOAD_WITHIN: Duration = Duration::from_secs(60);

impl Journal {
    /// Reads the records in a task that reports back.
    pub(super) fn read_records(&self, ctx: &mut ActorContext<Journal>) {
        let turns = Arc::clone(&self.turns);
        ctx.task(
            async move {
                match tokio::time::timeout(LOAD_WITHIN, turns.adopt()).await {
                    Ok(records) => JournalEvent::Loaded(records),
                    Err(_) => JournalEvent::Unreadable("the store did not answer in time".to_owned()),
                }
            },
            JournalEvent::Unreadable,
        );
    }

    /// Takes up what an earlier life left open; what is known already stays as it is.
    pub(super) fn load(&self, state: &mut JournalState, records: Vec<Adopted>) {
        let mut resumed: Vec<TurnId> = Vec::new();
        for Adopted { key, id, record } in records {
            if id.as_ref().is_some_and(|id| state.open.contains_key(id) || state.closed.contains(id)) {
                continue;
            }
            match record.map(|record| record.custody) {
                Ok(Custody::Open(OpenTurn { turn, .. })) if !self.outboxes.has(&turn.id.door) => {
                    tracing::error!(event = "turn.no_door", turn = %turn.id, door = %turn.id.door, "a stored turn waits for its door");
                }
                Ok(Custody::Open(OpenTurn { turn, answer, .. }))
                    if !turn.trigger.is_asked() || self.is_unread(&turn) =>
                {
                    self.abandon(state, turn, answer);
                }
                Ok(Custody::Open(OpenTurn { turn, answer: None, acted, parked: Some(parked), .. })) => {
                    resumed.extend(self.take_up_waiting(state, Entry::that_waits(turn, acted, parked)));
                }
                Ok(Custody::Open(OpenTurn { turn, answer, acted, refused, .. })) => {
                    tracing::info!(event = "turn.resumed", turn = %turn.id, answered = answer.is_some(), "turn taken up again");
                    let id = turn.id.clone();
                    if acted && answer.is_none() && self.in_flight.has(&id) {
                        // Only this actor was started again: whoever works on it still does, and will tell the answer.
                        self.taken(&turn, None);
                        state.open.insert(id, Entry::of_earlier_life(turn, None, acted));
                        continue;
                    }
                    let late = self.clock.now().since(turn.at) > self.live.now().settings.catch_up.age;
                    let answer = match answer {
                        None if acted => Some(may_have_acted(&turn)),
                        None if late => Some(turn.apology(notice::interrupted(turn.locale()), Ending::Interrupted)),
                        known => known,
                    };
                    self.taken(&turn, answer.as_ref());
                    if let Some(answer) = &answer {
                        rate_limiter::close(&self.rate_limiter, &turn, None, answer);
                    }
                    resumed.push(id.clone());
                    let mut entry = Entry::of_earlier_life(turn, answer, acted);
                    entry.refused = refused;
                    self.take_over(&mut entry);
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
                        event = "store.corrupt",
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

    /// Writes an answer down anew, where another process may own its turn meanwhile: it is posted once that is accepted.
    fn take_over(&self, entry: &mut Entry) {
        if self.turns.is_shared() && entry.answer().is_some() {
            self.record_answer(entry);
        }
    }

    /// Whoever asked this read along, and does no more.
    fn is_unread(&self, turn: &Turn) -> bool {
        turn.policy.lasts == Lasts::WhileRead && !self.events.has(&turn.place)
    }

    /// Takes up a turn that waits for a decision, or goes on with one. Gives its id when there is something to do about it now.
    fn take_up_waiting(&self, state: &mut JournalState, entry: Entry) -> Option<TurnId> {
        let id = entry.turn.id.clone();
        self.taken(&entry.turn, None);
        if entry.acted && self.in_flight.has(&id) {
            // Only this actor was started again: whoever works on it still does, and will tell the answer.
            state.open.insert(id, entry);
            return None;
        }
        let late = if entry.acted { Some(may_have_acted(&entry.turn)) } else { self.too_late(&entry) };
        let waits = entry.waits_for().is_some();
        state.open.insert(id.clone(), entry);
        if let Some(answer) = late {
            self.answered(state, &id, answer);
            return None;
        }
        if let Some(waiting) = state.open.get(&id).and_then(Entry::waits_for) {
            // An approvals that knows it passes it over; one that is down asks for everything that waits when it is back.
            let _ = self.approvals.cast(ApprovalsMsg::Ask(Box::new(waiting)));
        }
        if !waits {
            tracing::info!(event = "turn.resumed", turn = %id, answered = false, "turn taken up again");
        }
        // What waits goes on when approvals, which asks for all of it, knows the decision.
        (!waits).then_some(id)
    }
}
