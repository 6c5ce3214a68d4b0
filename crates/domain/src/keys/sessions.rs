//! Keys of sessions that clients speak in, and of what was said in them.

use super::part;
use crate::ids::{Person, Place};

/// How all records of sessions begin.
pub const SESSIONS_PREFIX: &str = "staffai:talk:";

/// Which sessions there are. One key, without an end, bounded by how many sessions are kept.
pub const INDEX: &str = "staffai:talks";

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
    numbered(&lines_in(person, place), number)
}

/// The same behind what the lines of its session begin with.
#[must_use]
pub fn numbered(lines: &str, number: u64) -> String {
    format!("{lines}{number:020}")
}

/// How all lines of the session with this key begin; none where it is no key of a session.
#[must_use]
pub fn lines_behind(session: &str) -> Option<String> {
    session.strip_prefix(SESSIONS_PREFIX).map(|of| format!("{LINES_PREFIX}{of}:"))
}

/// The id of the place of the session with this key.
#[must_use]
pub fn place_of(session: &str) -> &str {
    session.rsplit(':').next().unwrap_or_default()
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
