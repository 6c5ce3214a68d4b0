//! Parked turns: turns that are paused for a member's decision. They hold nothing but their record, and continue once.
//!
//! The record contains the pending decision; the same write stores the messages so far beside it. A decision is
//! recorded with the turn, and the turn is then offered directly to its lane, because the limiter admitted it earlier.
//! A parked turn counts as not acted, because the effects of its earlier calls are part of the stored messages. So if
//! the process ends between the decision and the call, the turn continues after the restart; if it ends after the call
//! was allowed to run, the turn is answered with an apology.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entry::{HandOver, JournalEntry, Stage, Visible, oldest_first, open_turn};
use super::{Journal, JournalEvent, JournalState};
use crate::messages::approvals::{ApprovalsMsg, Waiting};
use crate::messages::journal::{Decided, Parking};
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::runtime::handle::Reply;
use crate::runtime::supervisor::ActorContext;
use crate::services::settlement;
use domain::ending::Ending;
use domain::fair_share;
use domain::gate::{
    ApprovalDecision, Case, Gate, GateId, OPEN_MAX, OWN_MAX, OWN_TASKS_MAX, Parked, QUESTION_BYTES_MAX,
    SERVER_TASKS_MAX, Subject, TASKS_MAX,
};
use domain::happening::{Happening, Resumed};
use domain::ids::{MessageId, TurnId};
use domain::keys;
use domain::notice;
use domain::turn::{Answer, HistoryScope, Turn};
use ports::{Pace, Write, WriteOutcome};

/// The time after its expiry at which the journal itself closes a gate that approvals left undecided.
const OVERDUE: Duration = Duration::from_secs(60);

/// The result of parking a turn.
pub struct ParkedNow {
    turn: TurnId,
    gate: GateId,
    /// True if there is room for one more pending decision.
    asks: bool,
}

impl Journal {
    /// Records a turn as parked, and releases the resources it holds. If its member asked to be forgotten meanwhile, it
    /// ends instead, and its messages are not stored.
    pub(super) fn park(
        &self,
        ctx: &mut ActorContext<Journal>,
        state: &mut JournalState,
        id: &TurnId,
        parking: Parking,
    ) {
        let Parking { gate, dialogue, effort, acted } = parking;
        let is_open = |entry: &JournalEntry| matches!(entry.stage, Stage::Open { .. });
        let Some(turn) = state.open.get(id).filter(|entry| is_open(entry)).map(|entry| Arc::clone(&entry.turn)) else {
            return;
        };
        let has_room = state.has_room(&turn, &gate.subject);
        let Some(entry) = state.open.get_mut(id) else { return };
        self.observers.tell(&Happening::TurnParked(&gate));
        // The cost so far is final. If the limiter refuses this, its estimate remains and expires.
        let (counted, took) = settlement::counted(&entry.turn, entry.parked.as_deref(), &effort);
        self.rate_limiter.tell(RateLimiterMsg::Settle { turn: counted, effort: took });
        if effort.drafted {
            entry.visible = Visible::Perhaps;
        }
        let turn = id.clone();
        let gate_id = gate.id.clone();
        // The effects so far are part of the stored messages.
        entry.acted = false;
        entry.parked = Some(Box::new(Parked { case: Case::open(gate), posted: None, effort, acted }));
        entry.stage = Stage::Parked;
        entry.give_back_permit();
        if entry.turn.policy.history == HistoryScope::Forgotten {
            return self.drop_waiting(state, &turn);
        }
        let kept = self.turns.park(&open_turn(entry), dialogue);
        let (there, back) = ((turn.clone(), gate_id.clone()), (turn, gate_id));
        ctx.task(
            async move {
                // While the store fails, only memory holds the parked turn. If the process ends before the store
                // recovers, the turn restarts from the beginning and its gate is unknown: a call runs only behind a
                // durable record of its own.
                kept.await;
                JournalEvent::Parked(ParkedNow { turn: there.0, gate: there.1, asks: has_room })
            },
            move |_| JournalEvent::Parked(ParkedNow { turn: back.0, gate: back.1, asks: false }),
        );
    }

    /// Asks for the decision of a recorded turn. If there is no room for it, the turn continues immediately, and the
    /// model is told.
    pub(super) fn parked(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, parked: ParkedNow) {
        let ParkedNow { turn, gate, asks } = parked;
        if !asks {
            let decided = Decided { turn, gate, decision: ApprovalDecision::NotAsked };
            return self.decided(ctx, state, decided, None);
        }
        let waiting = state.open.get(&turn).and_then(JournalEntry::waits_for);
        if let Some(waiting) = waiting.filter(|waiting| waiting.gate.id == gate) {
            // If approvals refuses this, it asks the journal for all parked turns when it restarts or has room.
            self.approvals.tell(ApprovalsMsg::Ask(Box::new(waiting)));
        }
    }

    /// Records a decision, and offers the turn again.
    pub(super) fn decided(
        &self,
        ctx: &mut ActorContext<Journal>,
        state: &mut JournalState,
        decided: Decided,
        reply: Option<Reply<bool>>,
    ) {
        let Decided { turn: id, gate, decision } = decided;
        let waits = |entry: &&mut JournalEntry| entry.waits_for().is_some_and(|waiting| waiting.gate.id == gate);
        let Some(entry) = state.open.get_mut(&id).filter(waits) else {
            // The caller may have stopped waiting.
            let _ = reply.map(|reply| reply.send(false));
            return;
        };
        if let Some(parked) = &mut entry.parked {
            self.observers.tell(&Happening::TurnDecided(&parked.case.gate, &decision));
            parked.case.decision = Some(decision);
        }
        entry.stage = Stage::Open { offers: 0 };
        entry.since = Instant::now();
        entry.hand_over = HandOver::Taken;
        let kept = self.turns.update(&open_turn(entry), Pace::Now);
        self.observers.tell(&Happening::TurnResumed(&id, Resumed::Decided));
        ctx.background(async move {
            let decided = kept.await != WriteOutcome::Fenced;
            // The caller may have stopped waiting.
            let _ = reply.map(|reply| reply.send(decided));
        });
        self.offer(state, &id);
    }

    /// Records the message that shows the request.
    pub(super) fn asked(&self, state: &mut JournalState, id: &TurnId, gate: &GateId, message: MessageId) {
        let Some(entry) = state.open.get_mut(id) else { return };
        if let Some(parked) = entry.parked.as_mut().filter(|parked| parked.case.gate.id == *gate) {
            parked.posted = Some(message);
            drop(self.turns.update(&open_turn(entry), Pace::Gathered));
        }
    }

    /// Ends a turn of a forgotten member if it is parked: its task is cancelled, and its stored messages are deleted.
    pub(super) fn drop_waiting(&self, state: &mut JournalState, id: &TurnId) {
        let Some(entry) = state.open.get(id).filter(|entry| entry.waits_for().is_some()) else { return };
        let answer = entry.turn.apology(notice::gate::dropped(entry.turn.locale()), Ending::TakenBack);
        self.answered(state, id, answer);
    }

    /// Closes gates that expired long ago without a decision.
    pub(super) fn close_overdue(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState) {
        let now = self.clock.now();
        let overdue = |gate: &Gate| now.since(gate.expires_at) > OVERDUE;
        let waiting = state.open.values().filter_map(JournalEntry::waits_for).filter(|waiting| overdue(&waiting.gate));
        let ids: Vec<(TurnId, GateId)> = waiting.map(|waiting| (waiting.gate.turn, waiting.gate.id)).collect();
        for (turn, gate) in ids {
            self.decided(ctx, state, Decided { turn, gate, decision: ApprovalDecision::Expired }, None);
        }
    }

    /// Withdraws the request of an ended turn, and deletes its stored messages.
    pub(super) fn unpark(&self, entry: &JournalEntry, writes: &mut Vec<Write>) {
        // The record of an answered turn no longer tells that the turn was parked.
        if entry.parked.is_some() || entry.visible == Visible::Perhaps {
            writes.push(Write::Delete { key: keys::parked(&entry.turn.id) });
        }
        self.withdraw_request(entry);
    }

    /// Withdraws the pending request of this turn, if there is one.
    pub(super) fn withdraw_request(&self, entry: &JournalEntry) {
        if let Some(waiting) = entry.waits_for() {
            self.observers.tell(&Happening::TurnDecided(&waiting.gate, &ApprovalDecision::Withdrawn));
            // If approvals refuses this, it learns of the end from the journal's reply to a decision.
            self.approvals.tell(ApprovalsMsg::Gone(Box::new(waiting)));
        }
    }

    /// Returns the answer to a recovered turn that was parked, or about to continue, if it is now too old to continue.
    pub(super) fn too_late(&self, entry: &JournalEntry) -> Option<Answer> {
        let parked = entry.parked.as_ref()?;
        let late = self.clock.now().since(parked.case.gate.expires_at) > self.live.now().settings.catch_up.age;
        late.then(|| entry.apology(notice::interrupted(entry.turn.locale()), Ending::Interrupted))
    }
}

impl JournalState {
    /// Returns all pending decisions, the oldest turn first.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        let ids = oldest_first(self.open.values().filter(|entry| entry.is_parked()));
        ids.iter().filter_map(|id| self.open[id].waits_for()).collect()
    }

    /// True if there is room for a pending decision of this turn: its member has at most [`OWN_MAX`], its community has
    /// its share of [`OPEN_MAX`] by the rule of [`fair_share`], and all questions together have at most
    /// [`QUESTION_BYTES_MAX`]. Tasks have bounds of their own.
    fn has_room(&self, turn: &Turn, subject: &Subject) -> bool {
        let (mut all, mut own, mut shared, mut at_server, mut bytes) = (0_usize, 0, 0, 0, subject.size());
        let server = subject.task().map(|task| &task.server);
        for entry in self.open.values().filter(|entry| entry.is_parked()) {
            let Some(other) = entry.parked.as_ref().map(|parked| &parked.case.gate.subject) else { continue };
            if other.task().is_some() != server.is_some() {
                continue;
            }
            all += 1;
            own += usize::from(entry.turn.person == turn.person);
            shared += usize::from(entry.turn.sharer() == turn.sharer());
            at_server += usize::from(other.task().map(|task| &task.server) == server);
            bytes += other.size();
        }
        if server.is_none() {
            let left = OPEN_MAX.saturating_sub(all);
            return own < OWN_MAX && bytes <= QUESTION_BYTES_MAX && fair_share::admits(shared, left);
        }
        let left = TASKS_MAX.saturating_sub(all);
        own < OWN_TASKS_MAX && at_server < SERVER_TASKS_MAX && fair_share::admits(shared, left)
    }
}
