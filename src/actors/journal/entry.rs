//! Open turns: what is known of each, their order, and how they are written down.

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::actors::handle::Reply;
use crate::domain::ids::TurnId;
use crate::domain::keys;
use crate::domain::turn::{Answer, Custody, Turn};
use crate::ports::Write;

/// An open turn.
pub(super) struct Entry {
    pub turn: Turn,
    pub answer: Option<Answer>,
    pub taken: Instant,
    /// When its answer was known; until then, when it was taken.
    pub answered: Instant,
    pub offers: u32,
    /// Something may be in the channel already, from an earlier life or an outbox that crashed.
    pub maybe_posted: bool,
    /// The last offer found nobody.
    pub undelivered: bool,
    /// Who waits for its end; they are told by being dropped with this entry, after everything about its end was written.
    pub waiting: Vec<Reply<()>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Entry {
    /// One that was accepted now.
    pub(super) fn new(turn: Turn, answer: Option<Answer>, permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: Some(permit), ..Self::taken(turn, answer) }
    }

    /// One that an earlier life accepted and may have answered.
    pub(super) fn of_earlier_life(turn: Turn, answer: Option<Answer>) -> Self {
        Self { maybe_posted: true, ..Self::taken(turn, answer) }
    }

    fn taken(turn: Turn, answer: Option<Answer>) -> Self {
        let taken = Instant::now();
        Self {
            turn,
            answer,
            taken,
            answered: taken,
            offers: 0,
            maybe_posted: false,
            undelivered: false,
            waiting: Vec::new(),
            _permit: None,
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
    let custody = Custody::Open { turn: entry.turn.clone(), answer: entry.answer.clone() };
    // Plain data with string keys always serialises.
    let value = serde_json::to_string(&custody).unwrap_or_default();
    Write::Put { key: keys::turn(&entry.turn.id), value, ttl: Some(keys::TURN_TTL) }
}
