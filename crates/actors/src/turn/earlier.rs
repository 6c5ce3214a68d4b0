//! The exchanges before the history: their number and their summary. Reading and saving of the history are unaffected.

use super::parts::TurnParts;
use crate::messages::summaries::{Conversation, SummariesMsg};
use crate::services::conversation_records::AskedQuestion;
use crate::services::running::Running;
use domain::counter::Counter;
use domain::history::{History, HistoryEntry};
use domain::ids::Timestamp;
use domain::keys;
use domain::summary::{self, HistoryBounds, Summary};
use domain::turn::{HistoryScope, Turn};
use ports::Write;
use tokio::time::Instant;

/// True if exchanges of this conversation may be outside of its history. Short conversations cost no further read.
fn is_long(history: &History, bounds: HistoryBounds) -> bool {
    bounds.messages > 0 && history.entries().len() * 4 >= bounds.messages
}

/// True if the prompt of this conversation may need a note. Without summaries, exchanges leave a history only at its
/// bound, so conversations below it cost no further read.
fn may_need_note(running: &Running, history: &History) -> bool {
    const EXCHANGE: usize = 2;
    let bounds = running.history_bounds();
    let is_full = bounds.messages > 0 && history.entries().len() + EXCHANGE > bounds.messages;
    is_full || running.settings.summaries.row().is_some() && is_long(history, bounds)
}

/// Returns the note for the prompt about the exchanges that its history does not show. `most`: the maximum number of
/// messages that it shows; `referred`: those that it shows in any case.
pub(super) async fn note(
    parts: &TurnParts,
    running: &Running,
    turn: &Turn,
    history: &History,
    (most, referred): (usize, &[HistoryEntry]),
    now: Timestamp,
) -> Option<String> {
    let bounds = running.history_bounds();
    if turn.policy.history != HistoryScope::PersonInPlace || !may_need_note(running, history) {
        return None;
    }
    let (store, key) = (&parts.basics.store, keys::history(&turn.person, &turn.place));
    let stored = async {
        running.settings.summaries.row()?;
        store.get(&keys::conversations::summary(&key)).await
    };
    let counted = keys::conversations::evicted(&key);
    let (stored, evicted) = tokio::join!(stored, store.get(&counted));
    let mut summary = Summary::parse(stored.as_deref());
    summary.expire(bounds, now);
    let evicted = evicted.and_then(|text| text.parse::<usize>().ok()).unwrap_or(0) + history.evicted();
    let mut left_out = history.left_out(now, bounds.max_age, most);
    left_out.retain(|entry| !referred.contains(entry));
    summary::note(&summary, summary.unseen(history, &left_out, evicted))
}

/// Returns the writes beside a history that got the exchange of this turn, in the same atomic step.
pub(super) fn writes(running: &Running, turn: &Turn, history: &History, key: &str) -> impl Iterator<Item = Write> {
    let ttl = running.settings.history.ttl;
    let evicted = i64::try_from(history.evicted()).unwrap_or(i64::MAX);
    let evicted = (evicted > 0 && running.history_bounds().messages > 0).then(|| Write::Add {
        key: keys::conversations::evicted(key),
        by: Counter::from(evicted),
        ttl: (!ttl.is_zero()).then_some(ttl),
    });
    AskedQuestion::mark(turn, running).into_iter().chain(evicted)
}

/// Requests the summary of what this history will evict next.
pub(super) fn saved(parts: &TurnParts, running: &Running, turn: &Turn, history: &History) {
    if running.settings.summaries.row().is_some() && is_long(history, running.history_bounds()) {
        let conversation = Conversation { person: turn.person.clone(), place: turn.place.clone() };
        // The next turn of the conversation repeats a refused message.
        parts.neighbors.summaries.tell(SummariesMsg::Saved(conversation, Instant::now()));
    }
}
