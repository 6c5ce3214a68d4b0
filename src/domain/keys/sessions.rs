//! Keys of sessions that clients speak in, and of what was said in them.

use super::part;
use crate::domain::ids::{Person, Place};

/// How all records of sessions begin.
pub const SESSIONS_PREFIX: &str = "staffai:talk:";

/// How all lines of transcripts begin.
pub const LINES_PREFIX: &str = "staffai:said:";

/// A session of a person. It lives as long as the setting says after something happened in it.
#[must_use]
pub fn session(person: &Person, place: &Place) -> String {
    format!("{}{}", sessions_of(person), part(&place.id))
}

/// How all sessions of one person begin.
#[must_use]
pub fn sessions_of(person: &Person) -> String {
    format!("{SESSIONS_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// A line of the transcript of a session; lines are in the order of their numbers. It lives as long as the setting says after it was
/// said.
#[must_use]
pub fn line(person: &Person, place: &Place, number: u64) -> String {
    format!("{}{number:020}", lines_in(person, place))
}

/// How all lines of one session begin.
#[must_use]
pub fn lines_in(person: &Person, place: &Place) -> String {
    format!("{}{}:", lines_of(person), part(&place.id))
}

/// How all lines of the sessions of one person begin.
#[must_use]
pub fn lines_of(person: &Person) -> String {
    format!("{LINES_PREFIX}{}:{}:", person.door, part(&person.id))
}
