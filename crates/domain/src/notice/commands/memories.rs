//! Notices about members' facts.

use super::{list, words};
use crate::fact::{Fact, NotKept, Remembered};
use crate::locale::Locale;

/// Lists facts in the given order, as many as fit into one message.
#[must_use]
pub fn memories(facts: &[Fact], sound: bool, locale: Locale) -> String {
    const ROOM: usize = 1_500;
    let words = words(locale);
    if !sound {
        return words.memory_away.to_owned();
    }
    if facts.is_empty() {
        return words.no_memories.to_owned();
    }
    let (mut lines, mut left) = (Vec::new(), ROOM);
    for fact in facts {
        // A backtick would end the code format.
        let text: String = fact.text.chars().map(|c| if c == '`' { '\'' } else { c }).collect();
        let line = format!("`{text}` ({})", fact.id);
        let Some(rest) = left.checked_sub(line.chars().count()) else { break };
        left = rest;
        lines.push(line);
    }
    let more = facts.len() - lines.len();
    if more > 0 {
        lines.push((words.memories_more)(more));
    }
    format!("{}\n\n{}", list(words.memories, &lines), words.memories_how)
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
