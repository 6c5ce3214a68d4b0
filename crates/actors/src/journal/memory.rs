//! The data that the journal keeps for the memory of conversations, and its removal.

use std::sync::Arc;
use std::time::Duration;

use super::JournalState;
use super::entry::{JournalEntry, Stage};
use crate::services::forgotten::Saving;
use domain::ids::{MessageId, Person, Timestamp, TurnId};
use domain::keys;
use domain::turn::{Answer, HistoryScope, Turn};
use ports::Write;

/// Returns the index writes that map our messages to their exchange, and the member to their exchanges. Returns none
/// if the member asked to be forgotten. Entries expire after `ttl`; zero selects the default bound.
pub(super) fn index(entry: &JournalEntry, saving: &Saving<'_>, posted: &[MessageId], ttl: Duration) -> Vec<Write> {
    let Some(exchange) = entry.answer().and_then(|answer| answer.exchange.as_ref()) else { return Vec::new() };
    let unwanted = entry.turn.policy.history == HistoryScope::Forgotten || saving.covers(&entry.turn);
    let Some(value) = serde_json::to_string(exchange).ok().filter(|_| !unwanted) else { return Vec::new() };
    let ttl = Some(if ttl.is_zero() { keys::ANSWERED_TTL } else { ttl });
    let both = |message: &MessageId| {
        let whose = keys::answer_of(&exchange.person, message);
        let answered = Write::Put { key: keys::answered(message), value: value.clone(), ttl };
        [answered, Write::Put { key: whose, value: String::new(), ttl }]
    };
    posted.iter().flat_map(both).collect()
}

/// Keeps nothing that this member asked up to `cut`, also after a restart. Returns the affected turns, whose records
/// must be written.
pub(super) fn forget(state: &mut JournalState, person: &Person, cut: Timestamp) -> Vec<TurnId> {
    let concerned = |entry: &&mut JournalEntry| entry.turn.person == *person && entry.turn.at <= cut;
    let forgotten = state.open.values_mut().filter(concerned).map(|entry| {
        Arc::make_mut(&mut entry.turn).policy.history = HistoryScope::Forgotten;
        if let Stage::Answered { answer, .. } = &mut entry.stage {
            answer.exchange = None;
        }
        entry.turn.id.clone()
    });
    forgotten.collect()
}

/// Returns an answer in the form stored for this turn.
pub(super) fn keep(turn: &Turn, answer: Answer) -> Answer {
    match turn.policy.history {
        // A given history is stored separately, and nothing in it is replied to.
        HistoryScope::Forgotten | HistoryScope::Given => Answer { exchange: None, ..answer },
        HistoryScope::PersonInPlace | HistoryScope::Nothing => answer,
    }
}
