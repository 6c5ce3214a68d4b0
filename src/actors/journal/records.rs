//! Open turns in their order, and as they are written down.

use super::Entry;
use crate::domain::ids::TurnId;
use crate::domain::keys;
use crate::domain::turn::{Custody, Turn};
use crate::ports::Write;

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
