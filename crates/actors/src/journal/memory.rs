//! What the journal keeps for memory's sake, and how it lets go of it.

use std::sync::Arc;
use std::time::Duration;

use super::JournalState;
use super::entry::{Entry, Stage};
use crate::services::forgotten::Saving;
use domain::ids::{MessageId, Person, Timestamp, TurnId};
use domain::keys;
use domain::turn::{Answer, HistoryScope, Turn};
use ports::Write;

/// What lets a reply to these messages of ours find the exchange behind them, and its person find them all. Nothing when that
/// person wishes to be forgotten. Lives for `ttl`; zero stands for a bound of its own.
pub(super) fn index(entry: &Entry, saving: &Saving<'_>, posted: &[MessageId], ttl: Duration) -> Vec<Write> {
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

/// From here on nothing is kept of what this person asked up to `cut`, also when another life answers it. Gives the turns that are
/// concerned, whose records have to be written.
pub(super) fn forget(state: &mut JournalState, person: &Person, cut: Timestamp) -> Vec<TurnId> {
    let concerned = |entry: &&mut Entry| entry.turn.person == *person && entry.turn.at <= cut;
    let forgotten = state.open.values_mut().filter(concerned).map(|entry| {
        Arc::make_mut(&mut entry.turn).policy.history = HistoryScope::Forgotten;
        if let Stage::Answered { answer, .. } = &mut entry.stage {
            answer.exchange = None;
        }
        entry.turn.id.clone()
    });
    forgotten.collect()
}

/// An answer as it is kept for this turn.
pub(super) fn keep(turn: &Turn, answer: Answer) -> Answer {
    match turn.policy.history {
        // What was given has a place of its own, in which nothing is replied to.
        HistoryScope::Forgotten | HistoryScope::Given => Answer { exchange: None, ..answer },
        HistoryScope::PersonInPlace | HistoryScope::Nothing => answer,
    }
}
