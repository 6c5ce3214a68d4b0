//! The stored data of one person: search, export, deletion.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;

use super::{CommandParts, cleaning};
use crate::messages::approvals::{ApprovalsMsg, Withdrawal};
use crate::messages::journal::JournalMsg;
use domain::command::Command;
use domain::history::History;
use domain::ids::Person;
use domain::kept::{PersonData, StoredConversation, StoredSummary, Wiped};
use domain::keys;
use domain::ledger;
use domain::notice::commands as words;
use domain::outgoing::FILE_BYTES_MAX;
use domain::planted::Defect;
use domain::session_index::{self, SessionIndex};
use domain::summary::Summary;
use ports::{Replaced, Store, StoreStatus, Stored, Unreadable, Write, replace};

/// The maximum number of records of one kind that are read.
const LOOK_MAX: usize = 10_000;
/// The maximum bytes of transcripts in an export.
const LINES_SHOWN_BYTES: usize = 2 * 1024 * 1024;
/// The number of keys in one delete.
const DELETED_AT_ONCE: usize = 1_000;
/// The number of transcript lines without a session record in one search, and the maximum number of searches: as many
/// as the sessions of one person may keep.
const STRAY_AT_ONCE: usize = 100;
const STRAY_LOOKS: usize = 400;
/// The maximum time for the journal to release open turns.
const JOURNAL_WITHIN: Duration = Duration::from_secs(5);

/// True if the store returns all data and accepts writes.
pub(super) fn is_sound(parts: &CommandParts) -> bool {
    parts.basics.store.status() == StoreStatus::Ready
}

/// Deletes all stored data of the caller, and reports the deleted data. No turn in progress restores it.
pub(super) async fn forget(parts: &CommandParts, command: &Command) -> String {
    let person = &command.caller.person;
    parts.facts.forgotten().wish(person, None, command.at);
    // Hides the turns at once; their records are deleted below.
    drop(parts.vitals.forget(person));
    let noted = cleaning::note(parts, person, None, command.at).await;
    let ask = |reply| JournalMsg::Forget(person.clone(), command.at, reply);
    let in_flight = parts.journal.call(ask, JOURNAL_WITHIN).await;
    let allowed = |reply| ApprovalsMsg::Withdraw(Withdrawal::Of(person.clone()), reply);
    // If approvals is down, allowances that remain expire within an hour.
    let _ = parts.approvals.call(allowed, JOURNAL_WITHIN).await;
    let kept = find(parts, command).await;
    let mut writes: Vec<Write> = kept.keys().into_iter().map(|key| Write::Delete { key }).collect();
    // While the store fails, records that cannot be listed are deleted too if their keys are known.
    writes.extend(cleaning::of_conversation(person, &command.place));
    if Defect::KeptHistory.is_planted() {
        writes.clear();
    }
    writes.push(Write::Delete { key: keys::preferences(person) });
    let records = &cleaning::records(parts);
    let clean = |key| async move { records.forget(key, |kept| kept.forget_asked_by(person, command.at)).await };
    let cleaned = join_all(kept.quoting.iter().map(String::as_str).map(clean)).await;
    // The index of a record that still has their words is needed to remove them later.
    let done = kept.quoting.iter().zip(&cleaned).filter(|(_, done)| **done);
    writes.extend(done.map(|(key, _)| Write::Delete { key: keys::quote_of(person, key) }));
    let rewritten = !kept.unread && cleaned.into_iter().all(|done| done);
    let deleted = parts.basics.store.write(writes);
    parts.facts.forgotten().wish(person, None, command.at);
    // A turn that started meanwhile may have read the old data.
    parts.vitals.forget(person).await;
    let lines = forget_lines(parts, person, &kept.sessions).await;
    let facts = parts.facts.wipe(person, None).await;
    let durable = noted && rewritten && facts && lines && deleted.await;
    let sound = durable && is_sound(parts) && in_flight.is_ok();
    let wiped = Wiped { in_flight: in_flight.unwrap_or(0), ..kept.counts() };
    words::forgotten(&wiped, sound, command.caller.locale())
}

/// Returns the stored data of the caller, as a sentence and as a document.
pub(super) async fn export(parts: &CommandParts, command: &Command) -> (String, Vec<u8>) {
    let mut kept = find(parts, command).await;
    read_lines(parts, &command.caller.person, &mut kept).await;
    let document = kept.to_json(&command.caller.person, parts.basics.clock.now(), FILE_BYTES_MAX);
    (words::exported(&kept.counts(), is_sound(parts), command.caller.locale()), document.into_bytes())
}

/// Deletes the lines of transcripts in batches, and the sessions from their index. Returns false if the deletion of any
/// line is uncertain.
async fn forget_lines(parts: &CommandParts, person: &Person, sessions: &[(String, String)]) -> bool {
    let mut durable = true;
    for (session, record) in sessions {
        let lines = line_keys(parts, session, record).await;
        for lines in lines.chunks(DELETED_AT_ONCE) {
            durable &= delete(parts, lines.iter().cloned()).await;
        }
    }
    let of_theirs = keys::sessions::lines_of(person);
    let mut all = false;
    for _ in 0..STRAY_LOOKS {
        let stray = parts.basics.store.scan(&of_theirs, STRAY_AT_ONCE).await;
        if stray.is_empty() {
            all = true;
            break;
        }
        durable &= delete(parts, stray.into_iter().map(|(key, _)| key)).await;
    }
    let places = || sessions.iter().map(|(session, _)| keys::sessions::place_of(session));
    let unlisted = replace(&*parts.basics.store, keys::sessions::INDEX, |stored| {
        let mut index = SessionIndex::parse(stored?)?;
        index.remove(places()).then(|| index.to_json())
    });
    durable && all && (sessions.is_empty() || unlisted.await == Replaced::Done)
}

async fn delete(parts: &CommandParts, keys: impl Iterator<Item = String>) -> bool {
    parts.basics.store.write(keys.map(|key| Write::Delete { key }).collect()).await
}

/// The keys of the lines of a session.
async fn line_keys(parts: &CommandParts, session: &str, record: &str) -> Vec<String> {
    let Some(lines) = keys::sessions::lines_behind(session) else { return Vec::new() };
    match session_index::line_numbers(record) {
        Some(numbers) => numbers.into_iter().map(|number| keys::sessions::numbered(&lines, number)).collect(),
        None => parts.basics.store.scan(&lines, LOOK_MAX).await.into_iter().map(|(key, _)| key).collect(),
    }
}

/// Reads transcript lines in order, up to the limit of an export; then lines without a session record, if there is
/// room.
async fn read_lines(parts: &CommandParts, person: &Person, kept: &mut PersonData) {
    let mut bytes = 0;
    let mut named = BTreeSet::new();
    for (session, record) in &kept.sessions {
        for key in line_keys(parts, session, record).await {
            let line = if bytes < LINES_SHOWN_BYTES { parts.basics.store.get(&key).await } else { None };
            match line {
                Some(line) => {
                    bytes += line.len();
                    kept.lines.push(line);
                }
                None => kept.lines_left_out += usize::from(bytes >= LINES_SHOWN_BYTES),
            }
            named.insert(key);
        }
    }
    // A person without a session has few lines or none; these expire.
    if kept.sessions.is_empty() || bytes >= LINES_SHOWN_BYTES {
        return;
    }
    // The named lines are bounded by the export limit, so reading them again costs little.
    let all = parts.basics.store.scan(&keys::sessions::lines_of(person), named.len() + STRAY_AT_ONCE).await;
    for (_, line) in all.into_iter().filter(|(key, _)| !named.contains(key)) {
        if bytes < LINES_SHOWN_BYTES {
            bytes += line.len();
            kept.lines.push(line);
        } else {
            kept.lines_left_out += 1;
        }
    }
}

/// Returns the summaries of a person's conversations.
pub(super) async fn summaries(parts: &CommandParts, person: &Person) -> Vec<StoredSummary> {
    let prefix = keys::conversations::summaries_of(person);
    let stored = parts.basics.store.scan(&prefix, LOOK_MAX).await;
    let summary = |(key, stored): (String, String)| {
        let place = key.strip_prefix(&prefix).unwrap_or_default().to_owned();
        StoredSummary { key, place, summary: Summary::parse(Some(&stored)) }
    };
    stored.into_iter().map(summary).collect()
}

/// Finds the records of the answers to a person, and their index.
async fn find_answers(store: &dyn Store, person: &Person, kept: &mut PersonData) {
    let answers = keys::answers_of(person);
    for (index, _) in store.scan(&answers, LOOK_MAX).await {
        if let Some(message) = index.strip_prefix(&answers).and_then(|message| message.parse().ok()) {
            let key = keys::answered(&message);
            let stored = store.read(&key).await;
            if stored == Stored::Unreadable(Unreadable::NoAnswer) {
                kept.unread = true;
                continue;
            }
            match stored.value().and_then(|stored| serde_json::from_str(&stored).ok()) {
                Some(exchange) => kept.answers.push((key, exchange)),
                // A damaged record may have their words too.
                None => kept.silent.push(key),
            }
        }
        kept.indexes.push(index);
    }
}

async fn find(parts: &CommandParts, command: &Command) -> PersonData {
    let person = &command.caller.person;
    let store = &parts.basics.store;
    let histories = keys::histories_of(person);
    let mut kept = PersonData {
        conversations: store
            .scan(&histories, LOOK_MAX)
            .await
            .into_iter()
            .map(|(key, stored)| {
                let place = key.strip_prefix(&histories).unwrap_or_default().to_owned();
                StoredConversation { key, place, history: readable(&stored) }
            })
            .collect(),
        aside: store.scan(&keys::quarantine(&histories), LOOK_MAX).await,
        facts: parts.facts.stored(person).await,
        audit: store.scan(&keys::audit_of(person), LOOK_MAX).await,
        sessions: store.scan(&keys::sessions::sessions_of(person), LOOK_MAX).await,
        ..PersonData::default()
    };
    find_answers(&**store, person, &mut kept).await;
    kept.summaries = summaries(parts, person).await;
    let evicted = store.scan(&keys::conversations::evicted_of(person), LOOK_MAX).await;
    kept.beside.extend(evicted.into_iter().map(|(key, _)| key));
    let marks = keys::conversations::asked_by(person);
    for (index, _) in store.scan(&marks, LOOK_MAX).await {
        let message = index.strip_prefix(&marks).and_then(|message| message.parse().ok());
        kept.beside.extend(message.map(|message| keys::conversations::asked(&message)));
        kept.beside.push(index);
    }
    let quotes = keys::quotes_of(person);
    for (index, _) in store.scan(&quotes, LOOK_MAX).await {
        let key = index.strip_prefix(&quotes).unwrap_or_default().to_owned();
        kept.quoting.push(key.clone());
        let history = store.get(&key).await.and_then(|stored| readable(&stored));
        if let Some(history) = history.filter(|history| history.asked_by(person).next().is_some()) {
            kept.quotes.push((key, history));
        }
    }
    let preferences = keys::preferences(person);
    kept.preferences = store.get(&preferences).await.map(|stored| (preferences, stored));
    let mut communities = BTreeSet::from([None, command.guild.clone()]);
    for (index, _) in store.scan(&keys::ledger::counted_of(person), LOOK_MAX).await {
        communities.extend(keys::ledger::community_of(&index, person).map(Some));
    }
    for guild in communities {
        for key in ledger::every_key(person, guild.as_deref(), parts.basics.clock.now()) {
            match store.get(&key).await {
                Some(text) => kept.usage.push((key, text)),
                None => kept.silent.push(key),
            }
        }
        let Some(guild) = guild else { continue };
        kept.silent.push(keys::restrictions::told(&guild, person));
        if let Some(until) = store.get(&keys::restrictions::restricted_until(&guild, person)).await {
            kept.restricted_until.push((guild, until));
        }
    }
    kept
}

fn readable(stored: &str) -> Option<History> {
    History::parse(stored).ok().map(|parsed| parsed.history)
}
