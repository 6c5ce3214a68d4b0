//! Every key format of the store, in one file. Nobody else builds or takes apart a key.
//!
//! The history key is the one of the Python bot, so that its data stays readable. Everything else of ours begins with
//! `staffai:` and has a life or a bounded number. Keys are only ever parsed where a scan needs the id back.

pub mod ledger;

use std::fmt::Write as _;
use std::time::Duration;

use crate::domain::ids::{Door, MessageId, Person, Place, TurnId};

/// How all histories begin.
pub const HISTORY_PREFIX: &str = "discord_context:";

/// How all records begin that could not be read and were set aside.
pub const QUARANTINE_PREFIX: &str = "staffai:quarantine:";

/// The life of a record that was set aside, for a person to look at.
pub const QUARANTINE_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How all journalled turns begin.
pub const TURN_PREFIX: &str = "staffai:turn:";

/// How all gateway sessions begin.
pub const SESSION_PREFIX: &str = "staffai:session:";

/// How all watermarks begin.
pub const WATERMARK_PREFIX: &str = "staffai:watermark:";

/// How all marks of answered messages begin.
pub const ANSWERED_PREFIX: &str = "staffai:answered:";

/// The life of an unfinished turn from its last change: longer than any outage that a member would wait for.
pub const TURN_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a finished turn is remembered, so that a replayed message does not trigger again: longer than any catch-up.
pub const CLOSED_TURN_TTL: Duration = Duration::from_secs(60 * 60);

/// The life of a gateway session. Platforms forget a session minutes after its connection ended; an older one would only
/// cost a refused resume.
pub const SESSION_TTL: Duration = Duration::from_secs(60 * 60);

/// The life of a watermark, so that the ones of communities that we left vanish. Catch-up never looks back this far.
pub const WATERMARK_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The life of the exchange behind one of our messages when history itself never expires.
pub const ANSWERED_TTL: Duration = TURN_TTL;

/// When the interval ended that was reported last, in milliseconds since 1970. One key, without an end.
pub const REPORT_LAST: &str = "staffai:report:last";

/// How all marks of counted increments begin.
pub const APPLIED_PREFIX: &str = "staffai:applied:";

/// How long a server remembers what it counted last for one store: longer than an outage that a process would live through.
pub const APPLIED_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The key that is read to find out whether a backend answers again. It is never written.
pub const PROBE: &str = "staffai:probe";

/// What one person and we said in one place. It lives for the configured time after its last save.
///
/// On Discord the parts are the bare ids, as the Python bot wrote them; other doors qualify each with their name.
#[must_use]
pub fn history(person: &Person, place: &Place) -> String {
    format!("{HISTORY_PREFIX}{}:{}", legacy(&person.door, &person.id), legacy(&place.door, &place.id))
}

/// The journal entry of one turn. It lives for [`TURN_TTL`] after each change.
#[must_use]
pub fn turn(turn: &TurnId) -> String {
    format!("{TURN_PREFIX}{turn}")
}

/// The turn that a key found under [`TURN_PREFIX`] names; none when it names none.
#[must_use]
pub fn parse_turn(key: &str) -> Option<TurnId> {
    key.strip_prefix(TURN_PREFIX)?.parse().ok()
}

/// The session of one shard of a door, to be resumed after a restart. It lives for [`SESSION_TTL`] after each change.
#[must_use]
pub fn session(door: &Door, shard: u32) -> String {
    format!("{SESSION_PREFIX}{door}:{shard}")
}

/// Up to where the messages of one community were taken. It lives for [`WATERMARK_TTL`] after each change.
#[must_use]
pub fn watermark(door: &Door, guild: &str) -> String {
    format!("{WATERMARK_PREFIX}{door}:{guild}")
}

/// How all watermarks of one door begin.
#[must_use]
pub fn watermarks_of(door: &Door) -> String {
    format!("{WATERMARK_PREFIX}{door}:")
}

/// The exchange that one of our messages completed, so that a reply to it finds what was asked. It lives as long as history,
/// or for [`ANSWERED_TTL`] when history never expires.
#[must_use]
pub fn answered(message: &MessageId) -> String {
    format!("{ANSWERED_PREFIX}{message}")
}

/// Where a record is set aside that cannot be read. It lives for [`QUARANTINE_TTL`].
#[must_use]
pub fn quarantine(key: &str) -> String {
    format!("{QUARANTINE_PREFIX}{key}")
}

/// The number of the last batch of increments that a server counted for one store. It lives for [`APPLIED_TTL`].
#[must_use]
pub fn applied(writer: &str) -> String {
    format!("{APPLIED_PREFIX}{writer}")
}

/// The same for a single counter, on the server of a cluster that has that counter; none for a key that names its server
/// in a way of its own.
#[must_use]
pub fn applied_to(writer: &str, key: &str) -> Option<String> {
    (!key.contains(['{', '}'])).then(|| format!("{APPLIED_PREFIX}{writer}:{{{key}}}"))
}

/// Whether losing the key would break a promise. Histories may be dropped when memory runs short: we forget a little.
/// Unknown keys count as essential.
#[must_use]
pub fn essential(key: &str) -> bool {
    !key.starts_with(HISTORY_PREFIX)
}

/// An id as a part of a key of the Python bot: bare on Discord, else qualified by the door.
fn legacy(door: &Door, id: &str) -> String {
    if door.as_str() == "discord" { part(id) } else { format!("{door}:{}", part(id)) }
}

/// An id that is followed by another one. Where a door lets clients choose ids, a colon in one could make two people share
/// a key, so it is written as `%3A`. Ids without colons and percent signs stay as they are.
fn part(id: &str) -> String {
    let mut out = String::with_capacity(id.len());
    for c in id.chars() {
        match c {
            ':' | '%' => {
                let _ = write!(out, "%{:02X}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCORD: Door = Door::new("discord");
    const API: Door = Door::new("api");

    #[test]
    fn discord_histories_keep_the_key_of_the_python_bot() {
        assert_eq!(history(&Person::new(DISCORD, "7"), &Place::new(DISCORD, "42")), "discord_context:7:42");
    }

    #[test]
    fn other_doors_are_qualified_and_never_collide() {
        let of = |person: &str, place: &str| history(&Person::new(API, person), &Place::new(API, place));
        assert_eq!(of("ann", "s1"), "discord_context:api:ann:api:s1");
        assert_ne!(of("ann:api:x", "y"), of("ann", "x:api:y"));
        assert_ne!(of("a:b", "c"), of("a%3Ab", "c"));
    }

    #[test]
    fn our_own_keys() {
        let message = MessageId::new(DISCORD, "9");
        assert_eq!(turn(&TurnId::of(&message)), "staffai:turn:discord:9");
        assert_eq!(session(&DISCORD, 3), "staffai:session:discord:3");
        assert_eq!(watermark(&DISCORD, "5"), "staffai:watermark:discord:5");
        assert!(watermark(&DISCORD, "5").starts_with(&watermarks_of(&DISCORD)));
        assert_eq!(answered(&message), "staffai:answered:discord:9");
    }

    #[test]
    fn turn_keys_give_their_turn_back() {
        let id = TurnId::of(&MessageId::new(API, "a:b"));
        assert_eq!(parse_turn(&turn(&id)), Some(id));
        assert_eq!(parse_turn("staffai:turn:nonsense"), None);
        assert_eq!(parse_turn("staffai:answered:discord:9"), None);
    }

    #[test]
    fn only_histories_may_be_dropped() {
        assert!(!essential(&history(&Person::new(DISCORD, "7"), &Place::new(DISCORD, "42"))));
        assert!(essential(&session(&DISCORD, 0)));
        assert!(essential("something:else"));
    }
}
