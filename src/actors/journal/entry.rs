//! Open turns: what is known of each, their order, and how they are written down.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::actors::handle::{Reply, Undelivered};
use crate::domain::ids::TurnId;
use crate::domain::keys;
use crate::domain::turn::{Answer, Custody, Turn};
use crate::ports::Write;

/// A turn that is not closed.
pub(super) struct Entry {
    pub turn: Turn,
    pub stage: Stage,
    /// When this life of the journal took it.
    pub taken: Instant,
    /// Something of the answer may be visible in the channel: an earlier life, an outbox that crashed, or a delivery that was
    /// handed out may have posted it. The next delivery looks first.
    pub visible: Visible,
    /// A tool that changes something may have run for it: it is not handed out a second time.
    pub acted: bool,
    /// The last hand-over was refused, because its receiver was down: it is repeated with the next sweep.
    pub hand_over: HandOver,
    /// Those that wait for its end. They are answered by being dropped with this entry, after everything about its end was
    /// written; bounded by the turns that reply to its answer.
    pub waiting: Vec<Reply<()>>,
    /// Its place among all open turns; those of earlier lives have none.
    _permit: Option<OwnedSemaphorePermit>,
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
    pub(super) fn new(turn: Turn, answer: Option<Answer>, permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: Some(permit), ..Self::taken(turn, answer) }
    }

    /// One that an earlier life accepted and may have answered.
    pub(super) fn of_earlier_life(turn: Turn, answer: Option<Answer>, acted: bool) -> Self {
        Self { visible: Visible::Perhaps, acted, ..Self::taken(turn, answer) }
    }

    fn taken(turn: Turn, answer: Option<Answer>) -> Self {
        let taken = Instant::now();
        let stage = match answer {
            Some(answer) => Stage::Answered { answer, since: taken },
            None => Stage::Open { offers: 0 },
        };
        Self {
            turn,
            stage,
            taken,
            visible: Visible::Nothing,
            acted: false,
            hand_over: HandOver::Taken,
            waiting: Vec::new(),
            _permit: None,
        }
    }

    /// Its answer, once it is known.
    pub(super) const fn answer(&self) -> Option<&Answer> {
        match &self.stage {
            Stage::Open { .. } => None,
            Stage::Answered { answer, .. } => Some(answer),
        }
    }

    /// How long its answer is known; how long the turn is, while there is none.
    pub(super) fn posting_for(&self) -> Duration {
        match self.stage {
            Stage::Open { .. } => self.taken.elapsed(),
            Stage::Answered { since, .. } => since.elapsed(),
        }
    }
}

/// In the order in which the questions were asked: lanes and places keep the order in which turns reach them.
pub(super) fn oldest_first<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<TurnId> {
    let mut turns: Vec<&Turn> = entries.map(|entry| &entry.turn).collect();
    turns.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
    turns.into_iter().map(|turn| turn.id.clone()).collect()
}

/// The record of an open turn.
pub(super) fn record(entry: &Entry) -> Write {
    let custody = Custody::Open { turn: entry.turn.clone(), answer: entry.answer().cloned(), acted: entry.acted };
    // Plain data with string keys always serialises.
    let value = serde_json::to_string(&custody).unwrap_or_default();
    Write::Put { key: keys::turn(&entry.turn.id), value, ttl: Some(keys::TURN_TTL) }
}
