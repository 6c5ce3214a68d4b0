//! The second pass of a forget request: a turn of another process on the same store can save data after the request.
//! This pass removes that data once no turn from before the request can be left. If the first pass did not end, this one
//! deletes the remaining kinds of data too, and is repeated until nothing is left.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::kept::{LOOK_MAX, few_at_once, whole};
use super::{CommandParts, erasing, responses};
use crate::services::conversation_records::ConversationRecords;
use crate::services::forgotten::{UNFINISHED_TTL, Wished, stored};
use domain::forgetting::Forgetting;
use domain::history::History;
use domain::ids::{Person, Place, Timestamp};
use domain::keys;
use ports::Write;

/// The interval of the checks for due requests.
pub(super) const CLEAN_EVERY: Duration = Duration::from_secs(30);
/// The maximum number of pending requests; the oldest of a single conversation is dropped first, because a member has many
/// conversations, and one request about all data.
const WAITING_MAX: usize = 10_000;

/// The pending requests, the next due first.
#[derive(Default)]
pub(super) struct Cleanings(VecDeque<(Instant, Wished)>);

impl Cleanings {
    /// Schedules the cleanup of this request; it replaces an earlier request of the same kind.
    pub fn add(&mut self, wished: Wished, due: Instant) {
        let covers = |known: &Wished| known.cut > wished.cut;
        let same = |known: &Wished| (&known.person, &known.place) == (&wished.person, &wished.place);
        if self.0.iter().any(|(_, known)| same(known) && covers(known)) {
            return;
        }
        self.0.retain(|(_, known)| !same(known));
        if self.0.len() >= WAITING_MAX {
            let first = self.0.iter().position(|(_, known)| known.place.is_some()).unwrap_or_default();
            self.0.remove(first);
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

/// Records a request in the store for other processes, after [`Forgotten::wish`]. Returns false if the record is not
/// durable. A stored request that covers more stays, because commands are repeated after a restart, in any order.
///
/// [`Forgotten::wish`]: crate::services::forgotten::Forgotten::wish
pub(super) async fn note(parts: &CommandParts, person: &Person, place: Option<&Place>, cut: Timestamp) -> bool {
    let (unfinished, noted) = (place.is_none(), parts.basics.clock.now());
    let forgotten = parts.facts.forgotten();
    if let Some(known) = stored(&*parts.basics.store, person, place, noted).await {
        forgotten.wish(person, place, known.cut);
    }
    // No other request is written between this and the write.
    let cut = forgotten.cut(person, place).unwrap_or(cut);
    let wished = Wished { person: person.clone(), place: place.cloned(), cut, noted, unfinished };
    let record = wished.record(&parts.basics.live.now());
    parts.basics.store.write(vec![record]).await
}

/// The writes that delete a conversation.
pub(super) fn of_conversation(person: &Person, place: &Place) -> [Write; 3] {
    let key = keys::history(person, place);
    let (summary, evicted) = (keys::conversations::summary(&key), keys::conversations::evicted(&key));
    [key, summary, evicted].map(|key| Write::Delete { key })
}

/// Returns the requests that this or another process recorded before the start. While the store cannot list all of them,
/// reads again every [`CLEAN_EVERY`].
pub(super) async fn noted(parts: &CommandParts) -> Vec<Wished> {
    loop {
        let (stored, complete) = parts.basics.store.scan(keys::FORGOTTEN_PREFIX, LOOK_MAX).await.into_parts();
        if complete || stored.len() >= LOOK_MAX {
            return stored.iter().filter_map(|(_, value)| serde_json::from_str(value).ok()).collect();
        }
        sleep(CLEAN_EVERY).await;
    }
}

/// Records that all data of a request was deleted once, unless a later request replaced it.
pub(super) async fn ended(parts: &CommandParts, person: &Person, cut: Timestamp) {
    let store = &parts.basics.store;
    let Some(wished) = Wished::of(&**store, person).await.filter(|wished| wished.cut == cut) else { return };
    let record = Wished { unfinished: false, ..wished }.record(&parts.basics.live.now());
    drop(store.write(vec![record]));
}

/// Deletes the data that was to be forgotten. Returns the request if it is not finished.
pub(super) async fn clean(parts: &CommandParts, wished: Wished) -> Option<Wished> {
    let Wished { person, place, cut, noted, unfinished } = &wished;
    if let Some(place) = place {
        let key = keys::history(person, place);
        records(parts).forget(&key, |kept| kept.forget_until(*cut)).await;
        return None;
    }
    let store = &parts.basics.store;
    let (histories, answers) = (keys::histories_of(person), keys::answers_of(person));
    let (summaries, quotes) = (keys::conversations::summaries_of(person), keys::quotes_of(person));
    let prefixes = [&histories, &summaries, &quotes, &answers].map(String::as_str);
    let (found, mut done) = whole(store.scan_many(&prefixes, LOOK_MAX, Some(person)).await);
    let [conversations, summarised, quoting, answered] = found.try_into().unwrap_or_default();
    let records = &records(parts);
    let cleaned = conversations.into_iter().map(|(key, stored)| async move {
        match History::parse(&stored) {
            Ok(_) => records.rewrite(&key, |history| history.forget_until(*cut)).await,
            // Its words cannot be told apart.
            Err(_) => store.write(vec![Write::Delete { key }]).await,
        }
    });
    let cleaned = few_at_once(cleaned).await;
    let [histories, summaries, quotes] = [&histories, &summaries, &quotes].map(String::as_str);
    let summarised = summarised.into_iter().map(|(key, _)| async move {
        let place = key.strip_prefix(summaries).unwrap_or_default();
        let history = format!("{histories}{place}");
        records.rewrite_summary(&history, |summary| summary.forget_until(*cut)).await
    });
    let summarised = few_at_once(summarised).await;
    let quoting = quoting.into_iter().map(|(index, _)| async move {
        let key = index.strip_prefix(quotes).unwrap_or_default();
        records.forget(key, |kept| kept.forget_asked_by(person, *cut)).await
    });
    let quoting = few_at_once(quoting).await;
    done &= [cleaned, summarised, quoting].concat().into_iter().all(|done| done);
    done &= records.forget_answers(person, answered, |exchange| exchange.asked_at <= *cut).await;
    done &= parts.facts.wipe(person, Some(*cut)).await;
    done &= responses::erase(parts, person, *cut).await;
    let stored = Wished::of(&**store, person).await.filter(|stored| stored.cut == *cut);
    if !stored.map_or(*unfinished, |stored| stored.unfinished) {
        return None;
    }
    done &= erasing::erase_rest(parts, person, *cut).await;
    if done {
        ended(parts, person, *cut).await;
    }
    let given_up = parts.basics.clock.now().since(*noted) > UNFINISHED_TTL;
    (!done && !given_up).then_some(wished)
}

/// The stored conversations.
pub(super) fn records(parts: &CommandParts) -> ConversationRecords<'_> {
    ConversationRecords::new(&*parts.basics.store, &parts.basics.live.now())
}
