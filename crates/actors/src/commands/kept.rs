//! The stored data of one person: search, export, deletion.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;

use super::responses::{self, Responses};
use super::{CommandParts, cleaning};
use crate::messages::approvals::{ApprovalsMsg, Withdrawal};
use crate::messages::journal::JournalMsg;
use crate::services::facts::FactKeeper;
use crate::services::recorded;
use domain::command::Command;
use domain::fact::{Fact, FactId, NotKept};
use domain::history::History;
use domain::ids::Person;
use domain::kept::{self, Erasure, PersonData, StoredConversation, StoredSummary, Wiped};
use domain::keys;
use domain::ledger;
use domain::notice::commands as words;
use domain::outgoing::FILE_BYTES_MAX;
use domain::planted::Defect;
use domain::session_index::{self, SessionIndex};
use domain::summary::Summary;
use ports::{Replaced, Row, Scanned, Store, StoreStatus, Stored, Unreadable, Write, replace};

/// The maximum number of records of one kind that are read.
pub(super) const LOOK_MAX: usize = 10_000;
/// The maximum bytes of transcripts in an export.
const LINES_SHOWN_BYTES: usize = 2 * 1024 * 1024;
/// The number of keys in one delete.
const DELETED_AT_ONCE: usize = 1_000;
/// The number of transcript lines without a session record in one search, and the maximum number of searches: as many
/// as the sessions of one person may keep.
const STRAY_AT_ONCE: usize = 1_000;
const STRAY_LOOKS: usize = 40;
/// The number of conversations of others that are cleaned at once.
const CLEANED_AT_ONCE: usize = 16;
/// The maximum time for the journal to release open turns.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(5);

/// True if the store returns all data and accepts writes.
pub(super) fn is_sound(parts: &CommandParts) -> bool {
    parts.basics.store.status() == StoreStatus::Ready
}

/// Returns the accounts of the caller of a command, the one that runs it first.
fn accounts(parts: &CommandParts, person: &Person) -> Vec<Person> {
    parts.basics.live.linked(person).from(person).cloned().collect()
}

/// Returns the facts of all accounts of a person, newest first.
pub(super) async fn facts(parts: &CommandParts, person: &Person) -> Vec<Fact> {
    let mut facts = Vec::new();
    for account in accounts(parts, person) {
        facts.extend(parts.facts.all(&account).await);
    }
    facts.sort_by_key(|fact| Reverse(fact.told));
    facts
}

/// Deletes a fact of one of the accounts of a person. `None` if there is no such fact, else true if the deletion is
/// durable.
///
/// # Errors
/// The store does not answer.
pub(super) async fn forget_fact(parts: &CommandParts, person: &Person, id: &FactId) -> Result<Option<bool>, NotKept> {
    for account in accounts(parts, person) {
        if let Some(durable) = parts.facts.forget_any(&account, id).await? {
            return Ok(Some(durable));
        }
    }
    Ok(None)
}

/// Deletes all stored data of the accounts of the caller, and reports the deleted data. No turn in progress restores it.
pub(super) async fn forget(parts: &CommandParts, command: &Command) -> String {
    let (mut wiped, mut erasure) = (Wiped::default(), Erasure::Done);
    for account in accounts(parts, &command.caller.person) {
        let (of_account, state) = forget_account(parts, command, &account).await;
        wiped = wiped + of_account;
        erasure = erasure.max(state);
    }
    words::forgotten(&wiped, erasure, command.caller.locale())
}

/// Deletes all stored data of one account. Returns what was deleted, and the state of the request.
async fn forget_account(parts: &CommandParts, command: &Command, person: &Person) -> (Wiped, Erasure) {
    parts.facts.forgotten().wish(person, None, command.at);
    // Hides the turns at once; their records are deleted below.
    drop(parts.vitals.forget(person));
    let noted = cleaning::note(parts, person, None, command.at).await;
    let ask = |reply| JournalMsg::Forget(person.clone(), command.at, reply);
    let in_flight = parts.journal.call(ask, JOURNAL_TIMEOUT).await;
    let allowed = |reply| ApprovalsMsg::Withdraw(Withdrawal::Of(person.clone()), reply);
    // If approvals is down, allowances that remain expire within an hour.
    let _ = parts.approvals.call(allowed, JOURNAL_TIMEOUT).await;
    let (kept, complete) = find(parts, command, person).await;
    let mut writes: Vec<Write> = kept.keys().into_iter().map(|key| Write::Delete { key }).collect();
    // While the store fails, records that cannot be listed are deleted too if their keys are known.
    writes.extend(cleaning::of_conversation(person, &command.place));
    if Defect::KeptHistory.is_planted() {
        writes.clear();
    }
    writes.push(Write::Delete { key: keys::preferences(person) });
    let records = &cleaning::records(parts);
    let clean =
        |key: String| async move { records.forget(&key, |kept| kept.forget_asked_by(person, command.at)).await };
    let cleaned = few_at_once(kept.quoting.iter().cloned().map(clean)).await;
    // The index of a record that still has their words is needed to remove them later.
    let done = kept.quoting.iter().zip(&cleaned).filter(|(_, done)| **done);
    writes.extend(done.map(|(key, _)| Write::Delete { key: keys::quote_of(person, key) }));
    let rewritten = !kept.unread && cleaned.into_iter().all(|done| done);
    let deleted = parts.basics.store.write(writes);
    parts.facts.forgotten().wish(person, None, command.at);
    // A turn that started meanwhile may have read the old data.
    parts.vitals.forget(person).await;
    let facts = parts.facts.wipe(person, None).await;
    let lines = forget_lines(parts, person, &kept.sessions).await;
    let durable = complete && rewritten && facts && lines && deleted.await;
    if durable {
        cleaning::ended(parts, person, command.at).await;
    }
    let erasure = match (noted && is_sound(parts) && in_flight.is_ok(), durable) {
        (true, true) => Erasure::Done,
        (true, false) => Erasure::GoesOn,
        (false, _) => Erasure::Unsure,
    };
    let wiped = Wiped { in_flight: in_flight.unwrap_or(0), ..kept.counts() };
    (wiped, erasure)
}

/// Returns the stored data of the accounts of the caller, as a sentence and as a document: that of the account, with
/// those of the others as `linked`.
pub(super) async fn export(parts: &CommandParts, command: &Command) -> (String, Vec<u8>) {
    let accounts = accounts(parts, &command.caller.person);
    let most = FILE_BYTES_MAX / accounts.len().max(1);
    let (mut counts, mut sound, mut documents) = (Wiped::default(), is_sound(parts), Vec::new());
    for account in &accounts {
        let (mut kept, complete) = find(parts, command, account).await;
        read_lines(parts, account, &mut kept).await;
        documents.push(kept.to_json(account, parts.basics.clock.now(), most));
        counts = counts + kept.counts();
        sound &= complete;
    }
    let document = kept::with_linked(documents);
    (words::exported(&counts, sound, command.caller.locale()), document.into_bytes())
}

/// Deletes the lines of transcripts in batches, and the sessions from their index. Returns false if the deletion of any
/// line is uncertain.
async fn forget_lines(parts: &CommandParts, person: &Person, sessions: &[(String, String)]) -> bool {
    let mut durable = true;
    for (session, record) in sessions {
        durable &= delete(parts, line_keys(parts, session, record).await).await;
    }
    let all = delete_lines(parts, person, |_| true).await;
    let sessions: Vec<&str> = sessions.iter().map(|(session, _)| session.as_str()).collect();
    durable && all && unlist(parts, &sessions).await
}

/// Deletes the lines of a person's transcripts that `goes` selects, in pages. Returns false if some may be left.
pub(super) async fn delete_lines(parts: &CommandParts, person: &Person, goes: impl Fn(&str) -> bool) -> bool {
    let prefix = keys::sessions::lines_of(person);
    for _ in 0..STRAY_LOOKS {
        let scanned = parts.basics.store.scan_many(&[&prefix], STRAY_AT_ONCE, Some(person)).await.only();
        let (lines, complete) = scanned.into_parts();
        let many = lines.len();
        let gone: Vec<String> = lines.into_iter().filter(|(_, line)| goes(line)).map(|(key, _)| key).collect();
        let none = gone.is_empty();
        if !delete(parts, gone).await || !complete {
            return false;
        }
        if many < STRAY_AT_ONCE {
            return true;
        }
        // A page of other lines hides those behind it.
        if none {
            return false;
        }
    }
    false
}

/// Returns what was found, and true if nothing is missing: not by the store, and not by the bound of one kind.
pub(super) fn whole(scanned: Scanned<Vec<Vec<Row>>>) -> (Vec<Vec<Row>>, bool) {
    let (found, complete) = scanned.into_parts();
    let all = complete && found.iter().all(|rows| rows.len() < LOOK_MAX);
    (found, all)
}

/// Awaits these calls, a few at once: their writes are stored together. Returns their results in order.
pub(super) async fn few_at_once<F: Future<Output = bool>>(calls: impl Iterator<Item = F>) -> Vec<bool> {
    let mut calls = calls.peekable();
    let mut done = Vec::new();
    while calls.peek().is_some() {
        done.extend(join_all(calls.by_ref().take(CLEANED_AT_ONCE)).await);
    }
    done
}

/// Removes sessions from their index.
pub(super) async fn unlist(parts: &CommandParts, sessions: &[&str]) -> bool {
    let places = || sessions.iter().map(|session| keys::sessions::place_of(session));
    let unlisted = replace(&*parts.basics.store, keys::sessions::INDEX, |stored| {
        let mut index = SessionIndex::parse(stored?)?;
        index.remove(places()).then(|| index.to_json())
    });
    sessions.is_empty() || unlisted.await == Replaced::Done
}

/// Deletes keys in batches.
pub(super) async fn delete(parts: &CommandParts, keys: Vec<String>) -> bool {
    let mut durable = true;
    for keys in keys.chunks(DELETED_AT_ONCE) {
        let writes = keys.iter().map(|key| Write::Delete { key: key.clone() }).collect();
        durable &= parts.basics.store.write(writes).await;
    }
    durable
}

/// The keys of the lines of a session.
async fn line_keys(parts: &CommandParts, session: &str, record: &str) -> Vec<String> {
    let Some(lines) = keys::sessions::lines_behind(session) else { return Vec::new() };
    match session_index::line_numbers(record) {
        Some(numbers) => numbers.into_iter().map(|number| keys::sessions::numbered(&lines, number)).collect(),
        None => parts.basics.store.scan(&lines, LOOK_MAX).await.part().into_iter().map(|(key, _)| key).collect(),
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
    let (theirs, most) = (keys::sessions::lines_of(person), named.len() + STRAY_AT_ONCE);
    let all = parts.basics.store.scan_many(&[&theirs], most, Some(person)).await.only();
    for (_, line) in all.part().into_iter().filter(|(key, _)| !named.contains(key)) {
        if bytes < LINES_SHOWN_BYTES {
            bytes += line.len();
            kept.lines.push(line);
        } else {
            kept.lines_left_out += 1;
        }
    }
}

/// Returns the summaries of the conversations of a person's accounts, and true if they are all.
pub(super) async fn summaries(parts: &CommandParts, person: &Person) -> (Vec<StoredSummary>, bool) {
    let (mut all, mut complete) = (Vec::new(), true);
    for account in accounts(parts, person) {
        let prefix = keys::conversations::summaries_of(&account);
        let scanned = parts.basics.store.scan_many(&[&prefix], LOOK_MAX, Some(&account)).await.only();
        let (rows, whole) = scanned.into_parts();
        all.extend(summaries_in(&prefix, rows));
        complete &= whole;
    }
    (all, complete)
}

/// Reads the records of the answers to a person, whose index has these rows.
async fn find_answers(store: &dyn Store, person: &Person, indexes: Vec<Row>, kept: &mut PersonData) {
    let answers = keys::answers_of(person);
    for (index, _) in indexes {
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

fn conversation_in(prefix: &str, (key, stored): Row) -> StoredConversation {
    let place = key.strip_prefix(prefix).unwrap_or_default().to_owned();
    StoredConversation { key, place, history: readable(&stored) }
}

fn summaries_in(prefix: &str, rows: Vec<Row>) -> Vec<StoredSummary> {
    let summary = |(key, stored): Row| {
        let place = key.strip_prefix(prefix).unwrap_or_default().to_owned();
        StoredSummary { key, place, summary: Summary::parse(Some(&stored)) }
    };
    rows.into_iter().map(summary).collect()
}

/// Finds the data of an account in one pass over the keys. Returns false if some may be missing.
async fn find(parts: &CommandParts, command: &Command, person: &Person) -> (PersonData, bool) {
    let store = &parts.basics.store;
    let (histories, answers) = (keys::histories_of(person), keys::answers_of(person));
    let (summaries, quotes) = (keys::conversations::summaries_of(person), keys::quotes_of(person));
    let marks = keys::conversations::asked_by(person);
    let prefixes = [
        histories.clone(),
        keys::quarantine(&histories),
        keys::facts::facts_of(person),
        keys::audit_of(person),
        keys::sessions::sessions_of(person),
        answers.clone(),
        summaries.clone(),
        keys::conversations::evicted_of(person),
        marks.clone(),
        quotes.clone(),
        keys::ledger::counted_of(person),
        keys::experiments::votes_of(person),
        keys::RECORDED_PREFIX.to_owned(),
    ];
    let prefixes = prefixes.each_ref().map(String::as_str);
    let (found, complete) = whole(store.scan_many(&prefixes, LOOK_MAX, Some(person)).await);
    let [
        conversations,
        aside,
        facts,
        audit,
        sessions,
        answered,
        summarised,
        evicted,
        asked,
        quoting,
        counted,
        votes,
        questions,
    ] = found.try_into().unwrap_or_default();
    let mut kept = PersonData {
        conversations: conversations.into_iter().map(|row| conversation_in(&histories, row)).collect(),
        summaries: summaries_in(&summaries, summarised),
        aside,
        facts: FactKeeper::stored(&facts),
        audit,
        recorded: recorded::of_person(person, questions),
        sessions,
        ..PersonData::default()
    };
    find_answers(&**store, person, answered, &mut kept).await;
    kept.beside.extend(evicted.into_iter().chain(votes).map(|(key, _)| key));
    for (index, _) in asked {
        let message = index.strip_prefix(&marks).and_then(|message| message.parse().ok());
        kept.beside.extend(message.map(|message| keys::conversations::asked(&message)));
        kept.beside.push(index);
    }
    for (index, _) in quoting {
        let key = index.strip_prefix(&quotes).unwrap_or_default().to_owned();
        kept.quoting.push(key.clone());
        let history = store.get(&key).await.and_then(|stored| readable(&stored));
        if let Some(history) = history.filter(|history| history.asked_by(person).next().is_some()) {
            kept.quotes.push((key, history));
        }
    }
    let preferences = keys::preferences(person);
    kept.preferences = store.get(&preferences).await.map(|stored| (preferences, stored));
    find_usage(parts, (person, command.guild.as_ref()), counted, &mut kept).await;
    let Responses { rows, lists, partial } = responses::of(parts, person).await;
    kept.responses = rows;
    kept.indexes.extend(lists);
    (kept, complete && !partial)
}

/// Reads the counts about a person in this community and each other; `counted` has the rows of the index of these.
async fn find_usage(
    parts: &CommandParts,
    (person, here): (&Person, Option<&String>),
    counted: Vec<Row>,
    kept: &mut PersonData,
) {
    let store = &parts.basics.store;
    let mut communities = BTreeSet::from([None, here.cloned()]);
    for (index, _) in counted {
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
}

fn readable(stored: &str) -> Option<History> {
    History::parse(stored).ok().map(|parsed| parsed.history)
}
