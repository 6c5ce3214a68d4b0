//! Ids of this door. Slack identifies a message by its channel and its timestamp (`ts`), which is unique there:
//!
//! | of | form | example |
//! |---|---|---|
//! | a message | `{channel}:{ts}` | `C024BE91L:1700000000.000100` |
//! | a thread | `{channel}:{thread_ts}` | `C024BE91L:1700000000.000100` |
//! | a channel | `{channel}` | `C024BE91L` |
//! | a person | the id of the user | `U024BE7LH` |
//!
//! Each id is qualified by the door, so no key of the store can be one of another platform.

use domain::ids::{MessageId, Person, Place, Timestamp};
use domain::rejection::Rejection;
use ports::PostError;

use super::DOOR;

/// The longest id of a channel or a user that is accepted, in bytes. Slack's have 9 to 11.
const ID_BYTES: usize = 32;

/// A channel and, for a thread, the timestamp of its first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At<'a> {
    pub(super) channel: &'a str,
    pub(super) thread: Option<&'a str>,
}

/// Returns the place of a thread.
pub(super) fn thread(channel: &str, thread_ts: &str) -> Place {
    Place::new(DOOR, format!("{channel}:{thread_ts}"))
}

/// Returns the place of a channel.
pub(super) fn channel(channel: &str) -> Place {
    Place::new(DOOR, channel)
}

/// Returns the id of a message.
pub(super) fn message(channel: &str, ts: &str) -> MessageId {
    MessageId::new(DOOR, format!("{channel}:{ts}"))
}

/// Returns the id of a user.
pub(super) fn person(user: &str) -> Person {
    Person::new(DOOR, user)
}

/// Reads a place.
///
/// # Errors
/// It is none of this door.
pub(super) fn at(place: &Place) -> Result<At<'_>, PostError> {
    let (channel, thread) = match place.id.split_once(':') {
        Some((channel, thread)) => (channel, Some(thread)),
        None => (place.id.as_str(), None),
    };
    let fits = place.door == DOOR && is_id(channel) && thread.is_none_or(|ts| moment(ts).is_some());
    if fits { Ok(At { channel, thread }) } else { Err(foreign("the place")) }
}

/// Reads the id of a message: its channel and its timestamp.
///
/// # Errors
/// It is none of this door.
pub(super) fn posted(message: &MessageId) -> Result<(&str, &str), PostError> {
    let parts = message.id.split_once(':').filter(|(channel, ts)| is_id(channel) && moment(ts).is_some());
    parts.filter(|_| message.door == DOOR).ok_or_else(|| foreign("the message"))
}

/// True if a text has the form of an id of a channel, a user or a workspace.
pub(super) fn is_id(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    begins && text.len() <= ID_BYTES && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// True if this is the id of a direct conversation with one member.
pub(super) fn is_direct(channel: &str) -> bool {
    channel.starts_with('D')
}

/// Returns the time of a message from its timestamp, `seconds.microseconds`; `None` for another form.
pub(super) fn moment(ts: &str) -> Option<Timestamp> {
    let (seconds, micros) = ts.split_once('.')?;
    let digits =
        |text: &str, most: usize| (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds, 12) || !digits(micros, 6) {
        return None;
    }
    let micros = format!("{micros:0<6}").parse::<u64>().ok()?;
    Some(Timestamp(seconds.parse::<u64>().ok()? * 1_000 + micros / 1_000))
}

/// Returns the error for a request of another door.
pub(super) fn foreign(what: &str) -> PostError {
    PostError::unsent(Rejection::Content, format!("{what} is not of this door"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::Door;

    #[test]
    fn ids_are_read_back_as_written() {
        let place = thread("C1", "1700000000.000100");
        assert_eq!(at(&place).unwrap(), At { channel: "C1", thread: Some("1700000000.000100") });
        assert_eq!(at(&channel("D1")).unwrap(), At { channel: "D1", thread: None });
        assert_eq!(posted(&message("C1", "1700000000.000100")).unwrap(), ("C1", "1700000000.000100"));
        assert_eq!(moment("1700000000.123456"), Some(Timestamp(1_700_000_000_123)));
        assert_eq!(moment("1700000000.5"), Some(Timestamp(1_700_000_000_500)));
    }

    #[test]
    fn ids_of_other_doors_and_odd_ones_are_refused() {
        assert!(at(&Place::new(Door::new("discord"), "1")).is_err());
        for odd in ["", "C 1", "40", "C1:x", "C1:", "C1:1.2.3", "C1:-1.0", "C1&x=1"] {
            assert!(at(&Place::new(DOOR, odd)).is_err(), "{odd}");
        }
        for odd in ["C1", "C1:1", ":1.0", "C1:99999999999999.0"] {
            assert!(posted(&MessageId::new(DOOR, odd)).is_err(), "{odd}");
        }
    }
}
