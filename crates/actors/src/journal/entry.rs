//! Open turns: the state of each, their order, and their records.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::messages::approvals::Waiting;
use crate::messages::clearance::Clearance;
use crate::runtime::handle::{Refused, Reply};
use domain::delivery::{BESIDE_AFTER, RefusalRecord};
use domain::ending::Ending;
use domain::gate::Parked;
use domain::ids::TurnId;
use domain::notice::{self, Apology};
use domain::turn::{Answer, OpenTurn, Turn};
use ports::shares::Share;

/// A turn that is not closed.
pub(super) struct JournalEntry {
    pub turn: Arc<Turn>,
    pub stage: Stage,
    /// The time at which this journal took the turn since its start.
    pub taken: Instant,
    /// The time at which its work began, or continued after a decision.
    pub since: Instant,
    /// The decision that it is parked for, or continues with.
    pub parked: Option<Box<Parked>>,
    /// The visibility of the answer. An earlier process, a crashed outbox or a pending delivery may have posted part
    /// of it; the next delivery then reads the channel first.
    pub visible: Visible,
    /// True if a tool with side effects may have run for it. Such a turn is not offered a second time.
    pub acted: bool,
    /// The platform's refusals of its answer so far.
    pub refused: Option<RefusalRecord>,
    /// Granted once the store has accepted the record of its answer, or of its recovery with an answer.
    pub clearance: Clearance,
    /// True if it was offered more than once, also by an earlier journal: two actors may hold it.
    pub offered_again: bool,
    /// The result of the last hand-over. If the receiver was down or full, the next sweep repeats it.
    pub hand_over: HandOver,
    /// The callers that wait for its end. Dropping this entry answers them, after all records of its end are written.
    /// The turns that reply to its answer bound their number.
    pub waiting: Vec<Reply<()>>,
    /// Its permit among all open turns. Recovered turns, and turns that were parked, have none.
    permit: Option<Share>,
}

/// The visibility of an answer in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visible {
    Nothing,
    Perhaps,
}

/// The result of handing a turn to the actor for its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandOver {
    Taken,
    Refused,
}

impl HandOver {
    pub(super) const fn of<M>(cast: &Result<(), Refused<M>>) -> Self {
        if cast.is_ok() { Self::Taken } else { Self::Refused }
    }
}

/// The stage of a turn.
#[expect(clippy::large_enum_variant, reason = "most of them end as answered ones, and there are few at a time")]
pub(super) enum Stage {
    /// The turn has no answer yet.
    Open {
        /// The number of offers.
        offers: u32,
    },
    /// The turn is parked for a member's decision, and holds no resources.
    Parked,
    /// The answer is recorded.
    Answered {
        /// The answer.
        answer: Answer,
        /// The time at which this journal received it.
        since: Instant,
    },
}

impl JournalEntry {
    /// Creates the entry of a turn accepted now.
    pub(super) fn new(turn: Arc<Turn>, answer: Option<Answer>, permit: Share) -> Self {
        Self { permit: Some(permit), ..Self::fresh(turn, answer) }
    }

    /// Creates the entry of a recovered turn, with its answer if there is one.
    pub(super) fn of_earlier_life(turn: Arc<Turn>, answer: Option<Answer>, acted: bool) -> Self {
        Self { visible: Visible::Perhaps, acted, ..Self::fresh(turn, answer) }
    }

    /// Creates the entry of a recovered turn that is parked, or was about to continue.
    pub(super) fn that_waits(turn: Arc<Turn>, acted: bool, parked: Box<Parked>) -> Self {
        let entry = Self::of_earlier_life(turn, None, acted);
        let stage = if parked.case.decision.is_none() { Stage::Parked } else { Stage::Open { offers: 0 } };
        Self { stage, parked: Some(parked), ..entry }
    }

    /// True if the turn is parked for a pending decision.
    pub(super) fn is_parked(&self) -> bool {
        self.parked.is_some() && matches!(self.stage, Stage::Parked)
    }

    /// Returns the pending decision of a parked turn.
    pub(super) fn waits_for(&self) -> Option<Waiting> {
        let parked = self.parked.as_ref().filter(|_| self.is_parked())?;
        Some(Waiting { gate: parked.case.gate.clone(), posted: parked.posted.clone() })
    }

    /// True if a tool with side effects may have run for it, now or before it was parked.
    pub(super) fn may_have_acted(&self) -> bool {
        self.acted || self.parked.as_ref().is_some_and(|parked| parked.acted)
    }

    /// Returns an apology without an answer: see [`apology`].
    pub(super) fn apology(&self, sentence: &str, why: Ending) -> Answer {
        apology(&self.turn, self.may_have_acted(), sentence, why)
    }

    /// Releases the permit while the turn is parked.
    pub(super) fn give_back_permit(&mut self) {
        self.permit = None;
    }

    fn fresh(turn: Arc<Turn>, answer: Option<Answer>) -> Self {
        let taken = Instant::now();
        let stage = match answer {
            Some(answer) => Stage::Answered { answer, since: taken },
            None => Stage::Open { offers: 0 },
        };
        Self {
            turn,
            stage,
            taken,
            since: taken,
            parked: None,
            visible: Visible::Nothing,
            acted: false,
            refused: None,
            clearance: Clearance::default(),
            offered_again: false,
            hand_over: HandOver::Taken,
            waiting: Vec::new(),
            permit: None,
        }
    }

    /// Returns its answer, if recorded.
    pub(super) const fn answer(&self) -> Option<&Answer> {
        match &self.stage {
            Stage::Open { .. } | Stage::Parked => None,
            Stage::Answered { answer, .. } => Some(answer),
        }
    }

    /// True if its answer is about to be posted. An answer that the platform keeps refusing remains for the next
    /// start.
    pub(super) fn is_undelivered(&self) -> bool {
        self.answer().is_some() && self.refused.is_none_or(|refused| refused.many < BESIDE_AFTER)
    }

    /// Returns the time at which its answer arrived, or, without an answer, the time at which the turn was taken.
    pub(super) const fn answered_at(&self) -> Instant {
        match self.stage {
            Stage::Open { .. } | Stage::Parked => self.taken,
            Stage::Answered { since, .. } => since,
        }
    }

    /// Returns the age of its answer, or, without an answer, the age of the turn.
    pub(super) fn posting_for(&self) -> Duration {
        self.answered_at().elapsed()
    }
}

/// Returns the apology for a turn without an answer: this sentence, or, if a tool with side effects may have run, that
/// the effects may have happened.
pub(super) fn apology(turn: &Turn, acted: bool, sentence: &str, why: Ending) -> Answer {
    if acted {
        return turn.apology(notice::apology(Apology::MayHaveActed, turn.locale()), Ending::MayHaveActed);
    }
    turn.apology(sentence, why)
}

/// Returns the ids in the order of the questions, because lanes and places keep the order in which turns arrive.
pub(super) fn oldest_first<'a>(entries: impl Iterator<Item = &'a JournalEntry>) -> Vec<TurnId> {
    let mut turns: Vec<&Turn> = entries.map(|entry| &*entry.turn).collect();
    turns.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
    turns.into_iter().map(|turn| turn.id.clone()).collect()
}

/// Returns the record of an open turn.
pub(super) fn open_turn(entry: &JournalEntry) -> OpenTurn {
    let answer = entry.answer().cloned();
    let parked = entry.parked.clone().filter(|_| answer.is_none());
    OpenTurn { turn: entry.turn.clone(), answer, acted: entry.acted, parked, refused: entry.refused }
}
