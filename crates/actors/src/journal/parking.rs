//! Turns that wait for the decision of a person: they hold nothing but their record, and go on once.
//!
//! The record says what a turn waits for; what was said so far stands beside it, in the same write. A decision is put on record with
//! the turn and hands it out again, straight to its lane: it was within the limits when it was asked. A turn that waits has not
//! acted: what its earlier calls did is part of what was said. So a life that ends between the decision and the call goes on, and
//! one that ends after the call was let to run apologises.

use std::time::Duration;

use tokio::time::Instant;

use super::entry::{Entry, HandOver, Stage, Visible, oldest_first, open_turn};
use super::offering::may_have_acted;
use super::{Journal, JournalEvent, JournalState};
use crate::messages::approvals::{ApprovalsMsg, Waiting};
use crate::messages::journal::{Decided, Parking};
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::rate_limiter;
use crate::runtime::handle::Reply;
use crate::runtime::supervisor::ActorContext;
use domain::ending::Ending;
use domain::gate::{Case, Decision, Gate, GateId, OPEN_MAX, OWN_MAX, Parked};
use domain::ids::{MessageId, Person, TurnId};
use domain::keys;
use domain::notice;
use domain::turn::Answer;
use domain::turn_event::TurnUpdate;
use ports::{Kept, Pace, Write};

/// How long after its end a gate that approvals left undecided is closed by the journal itself.
const OVERDUE: Duration = Duration::from_secs(60);

/// What became of parking a turn.
pub struct ParkedNow {
    turn: TurnId,
    gate: GateId,
    /// There is room for one more question.
    asks: bool,
}

impl Journal {
    /// Writes a turn down that waits, and gives back what it holds.
    pub(super) fn park(
        &self,
        ctx: &mut ActorContext<Journal>,
        state: &mut JournalState,
        id: &TurnId,
        parking: Parking,
    ) {
        let Parking { gate, dialogue, effort, acted } = parking;
        let has_room = state.has_room(&gate.requester);
        let Some(entry) = state.open.get_mut(id).filter(|entry| matches!(entry.stage, Stage::Open { .. })) else {
            return;
        };
        tracing::info!(
            event = "turn.parked", turn = %id, tool = gate.tool, args_sha256 = gate.hash.0,
            "a turn waits for a decision"
        );
        self.timeline.asked(id, "gate", &gate.tool);
        // What it took so far is known. A limiter that is down leaves the estimate, which ages out.
        let (counted, took) = rate_limiter::counted(&entry.turn, entry.parked.as_deref(), &effort);
        let _ = self.rate_limiter.cast(RateLimiterMsg::Settle { turn: counted, effort: took });
        if effort.drafted {
            entry.visible = Visible::Perhaps;
        }
        let turn = id.clone();
        let gate_id = gate.id.clone();
        // What was done for it is part of what was said.
        entry.acted = false;
        entry.parked = Some(Box::new(Parked { case: Case::open(gate), posted: None, effort, acted }));
        entry.stage = Stage::Parked;
        entry.give_back_permit();
        let kept = self.turns.park(&open_turn(entry), dialogue);
        let (there, back) = ((turn.clone(), gate_id.clone()), (turn, gate_id));
        ctx.task(
            async move {
                // While the store fails, memory holds it. A life that ends before that is mended begins the turn anew, and its gate
                // is unknown then: a call runs only behind a durable record of its own.
                kept.await;
                JournalEvent::Parked(ParkedNow { turn: there.0, gate: there.1, asks: has_room })
            },
            move |_| JournalEvent::Parked(ParkedNow { turn: back.0, gate: back.1, asks: false }),
        );
    }

    /// A turn that waits is written down. One that there is no room for goes on at once, and the model is told.
    pub(super) fn parked(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState, parked: ParkedNow) {
        let ParkedNow { turn, gate, asks } = parked;
        if !asks {
            let decided = Decided { turn, gate, decision: Decision::NotAsked };
            return self.decided(ctx, state, decided, None);
        }
        let waiting = state.open.get(&turn).and_then(Entry::waits_for);
        if let Some(waiting) = waiting.filter(|waiting| waiting.gate.id == gate) {
            // An approvals that is down asks for everything that waits when it is back.
            let _ = self.approvals.cast(ApprovalsMsg::Ask(Box::new(waiting)));
        }
    }

    /// Puts a decision on record, and hands the turn out again.
    pub(super) fn decided(
        &self,
        ctx: &mut ActorContext<Journal>,
        state: &mut JournalState,
        decided: Decided,
        reply: Option<Reply<bool>>,
    ) {
        let Decided { turn: id, gate, decision } = decided;
        let waits = |entry: &&mut Entry| entry.waits_for().is_some_and(|waiting| waiting.gate.id == gate);
        let Some(entry) = state.open.get_mut(&id).filter(waits) else {
            // Whoever asked may have stopped waiting.
            let _ = reply.map(|reply| reply.send(false));
            return;
        };
        if let Some(parked) = &mut entry.parked {
            self.tell(&parked.case.gate, &decision);
            let refused = (!matches!(decision, Decision::Approved { .. })).then(|| decision.as_str());
            self.timeline.returned(&id, &parked.case.gate.tool, refused);
            parked.case.decision = Some(decision);
        }
        entry.stage = Stage::Open { offers: 0 };
        entry.since = Instant::now();
        entry.hand_over = HandOver::Taken;
        let kept = self.turns.update(&open_turn(entry), Pace::Now);
        tracing::info!(event = "turn.resumed", turn = %id, "a turn goes on with a decision");
        ctx.background(async move {
            let decided = kept.await != Kept::Fenced;
            // Whoever asked may have stopped waiting.
            let _ = reply.map(|reply| reply.send(decided));
        });
        self.offer(state, &id);
    }

    /// The message that asks stands there.
    pub(super) fn asked(&self, state: &mut JournalState, id: &TurnId, gate: &GateId, message: MessageId) {
        let Some(entry) = state.open.get_mut(id) else { return };
        if let Some(parked) = entry.parked.as_mut().filter(|parked| parked.case.gate.id == *gate) {
            parked.posted = Some(message);
            drop(self.turns.update(&open_turn(entry), Pace::Gathered));
        }
    }

    /// The turns of this person that wait are over: what they wait with is wiped.
    pub(super) fn drop_waiting(&self, state: &mut JournalState, person: &Person, forgotten: &[TurnId]) {
        for id in forgotten {
            let Some(entry) = state.open.get(id).filter(|entry| entry.waits_for().is_some()) else { continue };
            if entry.turn.person == *person {
                let locale = entry.turn.locale();
                let answer = entry.turn.apology(notice::gate::dropped(locale), Ending::TakenBack);
                self.answered(state, id, answer);
            }
        }
    }

    /// Gates that are long over although nobody closed them.
    pub(super) fn close_overdue(&self, ctx: &mut ActorContext<Journal>, state: &mut JournalState) {
        let now = self.clock.now();
        let overdue = |gate: &Gate| now.since(gate.expires_at) > OVERDUE;
        let waiting = state.open.values().filter_map(Entry::waits_for).filter(|waiting| overdue(&waiting.gate));
        let ids: Vec<(TurnId, GateId)> = waiting.map(|waiting| (waiting.gate.turn, waiting.gate.id)).collect();
        for (turn, gate) in ids {
            self.decided(ctx, state, Decided { turn, gate, decision: Decision::Expired }, None);
        }
    }

    /// A turn is over: nobody is asked about it any more, and nothing is kept of what it waited with.
    pub(super) fn unpark(&self, entry: &Entry, writes: &mut Vec<Write>) {
        if entry.parked.is_some() {
            writes.push(Write::Delete { key: keys::parked(&entry.turn.id) });
        }
        self.gone(entry);
    }

    /// Nobody is asked any more what this turn waits for, if it does.
    pub(super) fn gone(&self, entry: &Entry) {
        if let Some(waiting) = entry.waits_for() {
            self.tell(&waiting.gate, &Decision::Withdrawn);
            // An approvals that is down does not find it when it is back; its message then answers that nothing is asked.
            let _ = self.approvals.cast(ApprovalsMsg::Gone(Box::new(waiting)));
        }
    }

    /// Those who read along hear a decision before what follows on it.
    fn tell(&self, gate: &Gate, decision: &Decision) {
        self.events.publish(&gate.place, &gate.turn, || TurnUpdate::Gate {
            id: gate.id.to_string(),
            question: notice::gate::question_in_words(gate),
            arguments: gate.arguments.clone(),
            expires_at: gate.expires_at,
            decision: Some(decision.told()),
        });
    }

    /// The answer to a turn that an earlier life left waiting, or about to go on, when that is not worth it any more.
    pub(super) fn too_late(&self, entry: &Entry) -> Option<Answer> {
        let parked = entry.parked.as_ref()?;
        let late = self.clock.now().since(parked.case.gate.expires_at) > self.live.now().settings.catch_up.age;
        let interrupted = || entry.turn.apology(notice::interrupted(entry.turn.locale()), Ending::Interrupted);
        late.then(|| if parked.acted { may_have_acted(&entry.turn) } else { interrupted() })
    }
}

impl JournalState {
    /// All decisions that are waited for, the oldest turn first.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        let ids = oldest_first(self.open.values().filter(|entry| entry.waits_for().is_some()));
        ids.iter().filter_map(|id| self.open[id].waits_for()).collect()
    }

    /// Whether one more question of this person finds room.
    fn has_room(&self, person: &Person) -> bool {
        let waiting = || self.open.values().filter(|entry| entry.waits_for().is_some());
        waiting().count() < OPEN_MAX && waiting().filter(|entry| entry.turn.person == *person).count() < OWN_MAX
    }
}
