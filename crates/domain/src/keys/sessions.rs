//! Keys of client sessions and their transcripts.

use crate::ids::{Person, Place};
use crate::key_part::part;

/// The prefix of session records.
pub const SESSIONS_PREFIX: &str = "staffai:talk:";

/// The session index. One key, without expiry, bounded by the number of sessions kept.
pub const INDEX: &str = "staffai:talks";

/// The prefix of transcript lines.
pub const LINES_PREFIX: &str = "staffai:said:";

/// Returns the key of a person's session. Its TTL is the configured time since the last activity.
#[must_use]
pub fn session(person: &Person, place: &Place) -> String {
    format!("{}{}", sessions_of(person), part(&place.id))
}

/// Returns the prefix of all sessions of one person.
#[must_use]
pub fn sessions_of(person: &Person) -> String {
    format!("{SESSIONS_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// Returns the key of a line of a session's transcript; lines are ordered by number. Its TTL is the configured time
/// since the line was written.
#[must_use]
pub fn line(person: &Person, place: &Place, number: u64) -> String {
    numbered(&lines_in(person, place), number)
}

/// Returns the key of the line with this number, for this prefix of a session's lines.
#[must_use]
pub fn numbered(lines: &str, number: u64) -> String {
    format!("{lines}{number:020}")
}

/// Returns the prefix of the lines of the session with this key; none if the key is not a session key.
#[must_use]
pub fn lines_behind(session: &str) -> Option<String> {
    session.strip_prefix(SESSIONS_PREFIX).map(|of| format!("{LINES_PREFIX}{of}:"))
}

/// Returns the id of the place of the session with this key.
#[must_use]
pub fn place_of(session: &str) -> &str {
    session.rsplit(':').next().unwrap_or_default()
}

/// Returns the prefix of the lines of one session.
#[must_use]
pub fn lines_in(person: &Person, place: &Place) -> String {
    format!("{}{}:", lines_of(person), part(&place.id))
}

/// Returns the prefix of the lines of all sessions of one person.
#[must_use]
pub fn lines_of(person: &Person) -> String {
    format!("{LINES_PREFIX}{}:{}:", person.door, part(&person.id))
}
