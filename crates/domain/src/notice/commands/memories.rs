//! Notices about members' facts.

use super::words::Words;
use super::{list, words};
use crate::fact::{Fact, NotKept, Remembered};
use crate::kept::StoredSummary;
use crate::locale::Locale;

/// Lists facts in the given order, and the newest parts of summaries, as many as fit into one message.
#[must_use]
pub fn memories(facts: &[Fact], summaries: &[StoredSummary], sound: bool, locale: Locale) -> String {
    const ROOM: usize = 1_500;
    let words = words(locale);
    if !sound {
        return words.memory_away.to_owned();
    }
    let newest = summaries.iter().flat_map(|of| of.summary.parts().iter().rev().map(|part| (&of.place, &part.text)));
    let parts: Vec<String> = newest.map(|(place, text)| format!("{}: `{}`", mention(place), in_code(text))).collect();
    let facts: Vec<String> = facts.iter().map(|fact| format!("`{}` ({})", in_code(&fact.text), fact.id)).collect();
    // The sentences of two lists need room too.
    let room = if parts.is_empty() || facts.is_empty() { ROOM } else { ROOM / 5 * 2 };
    let listed = |headline, lines, how| format!("{}\n\n{how}", list(headline, &fitting(lines, room, words)));
    let facts = (!facts.is_empty()).then(|| listed(words.memories, facts, words.memories_how));
    let parts = (!parts.is_empty()).then(|| listed(words.summarised, parts, words.summarised_how));
    let shown: Vec<String> = facts.into_iter().chain(parts).collect();
    if shown.is_empty() { words.no_memories.to_owned() } else { shown.join("\n\n") }
}

/// Returns the first lines that fit into the room, in characters, and a line that counts the others.
fn fitting(mut lines: Vec<String>, room: usize, words: &Words) -> Vec<String> {
    let mut left = room;
    let fits = |line: &String| {
        let rest = left.checked_sub(line.chars().count());
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    let fit = lines.iter().map(fits).take_while(|fits| *fits).count();
    let more = lines.len() - fit;
    lines.truncate(fit);
    lines.extend((more > 0).then(|| (words.memories_more)(more)));
    lines
}

/// Returns the text for the code format, which a backtick or a line break would end.
fn in_code(text: &str) -> String {
    text.chars().map(|c| if c == '`' { '\'' } else { c }).collect::<String>().replace('\n', " ")
}

/// Returns a place as named in a key. Bare ids are those of the platform with channels.
fn mention(place: &str) -> String {
    if place.bytes().all(|byte| byte.is_ascii_digit()) { format!("<#{place}>") } else { place.to_owned() }
}

/// Says whether a fact was forgotten. `forgotten` is `None` if there was no such fact, otherwise true if the deletion
/// is durable.
#[must_use]
pub const fn fact_forgotten(forgotten: Option<bool>, sound: bool, locale: Locale) -> &'static str {
    match (forgotten, sound) {
        (Some(true), _) => words(locale).fact_forgotten,
        (None, true) => words(locale).no_such_fact,
        (Some(false), _) | (None, false) => words(locale).memory_away,
    }
}

/// Says whether a fact was stored.
#[must_use]
pub fn remembered(kept: &Result<Remembered, NotKept>, locale: Locale) -> String {
    let words = words(locale);
    let [new, known] = words.remembered;
    match kept {
        Ok(Remembered { before: false, .. }) => new.to_owned(),
        Ok(Remembered { before: true, .. }) => known.to_owned(),
        Err(NotKept::Off) => words.remember_off.to_owned(),
        Err(NotKept::Empty) => words.remember_what.to_owned(),
        Err(NotKept::TooLong(bytes)) => (words.remember_too_long)(*bytes),
        Err(NotKept::Full(count)) => (words.remember_full)(*count),
        Err(NotKept::NoRoom) => words.remember_no_room.to_owned(),
        Err(NotKept::Forgotten | NotKept::Deleted | NotKept::Away) => words.memory_away.to_owned(),
    }
}
