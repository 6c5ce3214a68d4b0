//! The second pass of a forget request: a turn of another process on the same store can save data after the request.
//! This pass removes that data once no turn from before the request can be left.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::CommandParts;
use crate::services::conversation_records::ConversationRecords;
use crate::services::forgotten::Wished;
use domain::forgetting::Forgetting;
use domain::history::History;
use domain::ids::{Person, Place, Timestamp};
use domain::keys;
use ports::Write;

/// The interval of the checks for due requests.
pub(super) const CLEAN_EVERY: Duration = Duration::from_secs(30);
/// The maximum number of pending requests; the oldest is dropped first.
const WAITING_MAX: usize = 10_000;
/// The maximum number of records of one kind that are checked.
const LOOK_MAX: usize = 10_000;

/// The pending requests, the next due first.
#[derive(Default)]
pub(super) struct Cleanings(VecDeque<(Instant, Wished)>);

impl Cleanings {
    /// Schedules the cleanup of this request; it replaces an earlier request of the same kind.
    pub fn add(&mut self, wished: Wished, due: Instant) {
        self.0.retain(|(_, known)| (&known.person, &known.place) != (&wished.person, &wished.place));
        if self.0.len() >= WAITING_MAX {
            self.0.pop_front();
        }
        self.0.push_back((due, wished));
    }

    /// Removes and returns the due requests.
    pub fn due(&mut self) -> Vec<Wished> {
        let now = Instant::now();
        let due = self.0.iter().take_while(|(due, _)| *due <= now).count();
        self.0.drain(..due).map(|(_, wished)| wished).collect()
    }
}

/// Records a request in the store for other processes. Returns false if the record is not durable.
pub(super) async fn note(parts: &CommandParts, person: &Person, place: Option<&Place>, cut: Timestamp) -> bool {
    let wished = Wished { person: person.clone(), place: place.cloned(), cut, noted: parts.basics.clock.now() };
    let record = wished.record(&parts.basics.live.now());
    parts.basics.store.write(vec![record]).await
}

/// The writes that delete a conversation.
pub(super) fn of_conversation(person: &Person, place: &Place) -> [Write; 3] {
    let key = keys::history(person, place);
    let (summary, evicted) = (keys::conversations::summary(&key), keys::conversations::evicted(&key));
    [key, summary, evicted].map(|key| Write::Delete { key })
}

/// Returns the requests that this or another process recorded before the start.
pub(super) async fn noted(parts: &CommandParts) -> Vec<Wished> {
    let stored = parts.basics.store.scan(keys::FORGOTTEN_PREFIX, LOOK_MAX).await;
    stored.iter().filter_map(|(_, value)| serde_json::from_str(value).ok()).collect()
}

/// Deletes the data that was to be forgotten.
pub(super) async fn clean(parts: &CommandParts, wished: &Wished) {
    let Wished { person, place, cut, .. } = wished;
    match place {
        Some(place) => {
            let key = keys::history(person, place);
            records(parts).forget(&key, |kept| kept.forget_until(*cut)).await;
        }
        None => {
            for (key, _) in parts.basics.store.scan(&keys::histories_of(person), LOOK_MAX).await {
                rewrite(parts, &key, |history| history.forget_until(*cut)).await;
            }
            let summaries = keys::conversations::summaries_of(person);
            for (key, _) in parts.basics.store.scan(&summaries, LOOK_MAX).await {
                let place = key.strip_prefix(&summaries).unwrap_or_default();
                let history = format!("{}{place}", keys::histories_of(person));
                records(parts).rewrite_summary(&history, |summary| summary.forget_until(*cut)).await;
            }
            let quotes = keys::quotes_of(person);
            for (index, _) in parts.basics.store.scan(&quotes, LOOK_MAX).await {
                let key = index.strip_prefix(&quotes).unwrap_or_default();
                records(parts).forget(key, |kept| kept.forget_asked_by(person, *cut)).await;
            }
            records(parts).forget_answers(person, |exchange| exchange.asked_at <= *cut).await;
            parts.facts.wipe(person, Some(*cut)).await;
        }
    }
}

/// Changes a stored history if the change makes a difference.
pub(super) async fn rewrite(parts: &CommandParts, key: &str, change: impl FnOnce(&mut History)) -> bool {
    records(parts).rewrite(key, change).await
}

/// The stored conversations.
pub(super) fn records(parts: &CommandParts) -> ConversationRecords<'_> {
    ConversationRecords::new(&*parts.basics.store, &parts.basics.live.now())
}
