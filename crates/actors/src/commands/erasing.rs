//! The rest of a forget request whose first pass did not end, because it took too long, the store failed or the process
//! ended: the kinds of data that the second pass of every request leaves alone. Newer data stays where it has a time.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::CommandParts;
use super::kept::{LOOK_MAX, delete, delete_lines, unlist, whole};
use crate::services::recorded;
use domain::ids::{Person, Timestamp};
use domain::keys;
use domain::ledger;
use ports::Row;

/// The time of a stored record.
#[derive(Deserialize)]
struct Dated {
    #[serde(alias = "touched_at")]
    at: Timestamp,
}

/// True if the record is not later than `cut`, or unreadable.
pub(super) fn is_old(record: &str, cut: Timestamp) -> bool {
    serde_json::from_str::<Dated>(record).map_or(true, |dated| dated.at <= cut)
}

/// Deletes audit lines, sessions, transcripts, unreadable conversations, marks of questions, preferences and counts.
/// Returns false if some may be left.
pub(super) async fn erase_rest(parts: &CommandParts, person: &Person, cut: Timestamp) -> bool {
    let store = &parts.basics.store;
    let marks = keys::conversations::asked_by(person);
    let prefixes = [
        keys::quarantine(&keys::histories_of(person)),
        keys::audit_of(person),
        keys::sessions::sessions_of(person),
        keys::conversations::evicted_of(person),
        keys::ledger::counted_of(person),
        marks.clone(),
        keys::experiments::votes_of(person),
        keys::RECORDED_PREFIX.to_owned(),
    ];
    let prefixes = prefixes.each_ref().map(String::as_str);
    let (found, complete) = whole(store.scan_many(&prefixes, LOOK_MAX, Some(person)).await);
    let [aside, audit, sessions, evicted, counted, asked, votes, questions] = found.try_into().unwrap_or_default();
    let old = |rows: Vec<Row>| rows.into_iter().filter(|(_, record)| is_old(record, cut)).map(|(key, _)| key);
    let sessions: Vec<String> = old(sessions).collect();
    let mut gone: Vec<String> =
        aside.into_iter().chain(evicted).chain(votes).map(|(key, _)| key).chain(old(audit)).collect();
    gone.extend(sessions.iter().cloned());
    gone.extend(old(recorded::of_person(person, questions)));
    for (index, _) in asked {
        let mark = index.strip_prefix(&marks).and_then(|message| message.parse().ok());
        let Some(mark) = mark.map(|message| keys::conversations::asked(&message)) else { continue };
        if store.get(&mark).await.is_none_or(|record| is_old(&record, cut)) {
            gone.extend([mark, index]);
        }
    }
    let mut communities = BTreeSet::from([None]);
    communities.extend(counted.iter().filter_map(|(key, _)| keys::ledger::community_of(key, person)).map(Some));
    let now = parts.basics.clock.now();
    gone.extend(communities.iter().flat_map(|guild| ledger::every_key(person, guild.as_deref(), now)));
    gone.extend(counted.into_iter().map(|(key, _)| key));
    let preferences = keys::preferences(person);
    if store.get(&preferences).await.is_some_and(|record| is_old(&record, cut)) {
        gone.push(preferences);
    }
    gone.extend(communities.iter().flatten().map(|guild| keys::restrictions::told(guild, person)));
    let durable =
        delete(parts, gone).await && unlist(parts, &sessions.iter().map(String::as_str).collect::<Vec<_>>()).await;
    delete_lines(parts, person, |line| is_old(line, cut)).await && durable && complete
}
