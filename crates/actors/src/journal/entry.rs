//! Open turns: what is known of each, their order, and how they are written down.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::messages::approvals::Waiting;
use crate::messages::clearance::Clearance;
use crate::runtime::handle::{Reply, Undelivered};
use domain::delivery::{BESIDE_AFTER, Refusals};
use domain::gate::Parked;
use domain::ids::TurnId;
use domain::turn::{Answer, OpenTurn, Turn};

/// A turn that is not closed.
pub(super) struct Entry {
    pub turn: Arc<Turn>,
    pub stage: Stage,
    /// When this life of the journal took it.
    pub taken: Instant,
    /// When its work began, or went on after a decision.
    pub since: Instant,
    /// What it waits for, or goes on with.
    pub parked: Option<Box<Parked>>,
    /// Something of the answer may be visible in the channel: an earlier life, an outbox that crashed, or a delivery that was
    /// handed out may have posted it. The next delivery looks first.
    pub visible: Visible,
    /// A tool that changes something may have run for it: it is not handed out a second time.
    pub acted: bool,
    /// What the platform refused of its answer so far.
    pub refused: Option<Refusals>,
    /// The record of its answer, or of taking it up with one, is accepted when this is given.
    pub clearance: Clearance,
    /// The last hand-over was refused, because its receiver was down: it is repeated with the next sweep.
    pub hand_over: HandOver,
    /// Those that wait for its end. They are answered by being dropped with this entry, after everything about its end was
    /// written; bounded by the turns that reply to its answer.
    pub waiting: Vec<Reply<()>>,
    /// Its place among all open turns; those of earlier lives, and those that waited for a decision, have none.
    permit: Option<OwnedSemaphorePermit>,
}

/// What of an answer can be seen in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visible {
    Nothing,
    Perhaps,
}

/// What became of handing a turn to the actor that has to do its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandOver {
    Taken,
    Refused,
}

impl HandOver {
    pub(super) const fn of<M>(cast: &Result<(), Undelivered<M>>) -> Self {
        if cast.is_ok() { Self::Taken } else { Self::Refused }
    }
}

/// How far a turn is.
#[expect(clippy::large_enum_variant, reason = "most of them end as answered ones, and there are few at a time")]
pub(super) enum Stage {
    /// It has no answer yet.
    Open {
        /// How often it was handed out.
        offers: u32,
    },
    /// It waits for the decision of a person, and holds nothing meanwhile.
    Parked,
    /// Its answer is known, and recorded.
    Answered {
        /// The answer.
        answer: Answer,
        /// When it became known to this life of the journal.
        since: Instant,
    },
}

impl Entry {
    /// One that was accepted now.
    pub(super) fn new(turn: Arc<Turn>, answer: Option<Answer>, permit: OwnedSemaphorePermit) -> Self {
        Self { permit: Some(permit), ..Self::taken(turn, answer) }
    }

    /// One that an earlier life accepted and may have answered.
    pub(super) fn of_earlier_life(turn: Arc<Turn>, answer: Option<Answer>, acted: bool) -> Self {
        Self { visible: Visible::Perhaps, acted, ..Self::taken(turn, answer) }
    }

    /// The same of one that waits for a decision, or was about to go on with one.
    pub(super) fn that_waits(turn: Arc<Turn>, acted: bool, parked: Box<Parked>) -> Self {
        let entry = Self::of_earlier_life(turn, None, acted);
        let stage = if parked.case.decision.is_none() { Stage::Parked } else { Stage::Open { offers: 0 } };
        Self { stage, parked: Some(parked), ..entry }
    }

    /// What it waits for.
    pub(super) fn waits_for(&self) -> Option<Waiting> {
        let parked = self.parked.as_ref().filter(|_| matches!(self.stage, Stage::Parked))?;
        Some(Waiting { gate: parked.case.gate.clone(), posted: parked.posted.clone() })
    }

    /// A tool that changes something may have run for it, now or before it waited.
    pub(super) fn may_have_acted(&self) -> bool {
        self.acted || self.parked.as_ref().is_some_and(|parked| parked.acted)
    }

    /// It takes no place among the open turns while it waits.
    pub(super) fn give_back_permit(&mut self) {
        self.permit = None;
    }

    fn taken(turn: Arc<Turn>, answer: Option<Answer>) -> Self {
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
            hand_over: HandOver::Taken,
            waiting: Vec::new(),
            permit: None,
        }
    }

    /// Its answer, once it is known.
    pub(super) const fn answer(&self) -> Option<&Answer> {
        match &self.stage {
            Stage::Open { .. } | Stage::Parked => None,
            Stage::Answered { answer, .. } => Some(answer),
        }
    }

    /// Its answer is known and about to be posted. One that the platform refuses again and again is left to the next life.
    pub(super) fn is_undelivered(&self) -> bool {
        self.answer().is_some() && self.refused.is_none_or(|refused| refused.many < BESIDE_AFTER)
    }

    /// When its answer became known; when it was taken, while there is none.
    pub(super) const fn answered_at(&self) -> Instant {
        match self.stage {
            Stage::Open { .. } | Stage::Parked => self.taken,
            Stage::Answered { since, .. } => since,
        }
    }

    /// How long its answer is known; how long the turn is, while there is none.
    pub(super) fn posting_for(&self) -> Duration {
        self.answered_at().elapsed()
    }
}

/// In the order in which the questions were asked: lanes and places keep the order in which turns reach them.
pub(super) fn oldest_first<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<TurnId> {
    let mut turns: Vec<&Turn> = entries.map(|entry| &*entry.turn).collect();
    turns.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
    turns.into_iter().map(|turn| turn.id.clone()).collect()
}

/// An open turn as it is recorded.
pub(super) fn open_turn(entry: &Entry) -> OpenTurn {
    let answer = entry.answer().cloned();
    let parked = entry.parked.clone().filter(|_| answer.is_none());
    OpenTurn { turn: entry.turn.clone(), answer, acted: entry.acted, parked, refused: entry.refused }
}
