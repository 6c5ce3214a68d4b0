//! Every key format of the store, in this room. Nobody else builds or takes apart a key.
//!
//! The history key is the one of the Python bot, so that its data stays readable. Everything else of ours begins with
//! `staffai:` and has a life or a bounded number. Keys are only ever parsed where a scan needs the id back.

pub mod active;
pub mod facts;
pub mod ledger;
pub mod limits;
pub mod past;
pub mod programs;
pub mod restrictions;
pub mod sessions;
pub mod triggers;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use crate::ids::{Door, MessageId, Person, Place, Timestamp, TurnId};
use crate::ownership::Range;
use crate::server_name::ServerName;

/// How all histories begin.
pub const HISTORY_PREFIX: &str = "discord_context:";

/// How all records begin that could not be read and were set aside.
pub const QUARANTINE_PREFIX: &str = "staffai:quarantine:";

/// The life of a record that was set aside, for a person to look at.
pub const QUARANTINE_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How all journalled turns begin.
pub const TURN_PREFIX: &str = "staffai:turn:";

/// How all dialogues of turns that wait for a decision begin.
pub const PARKED_PREFIX: &str = "staffai:parked:";

/// The prefix of the newest fencing token of each range.
pub const TERM_PREFIX: &str = "staffai:term:";

/// How all standing allowances begin.
pub const ALLOWANCE_PREFIX: &str = "staffai:allowance:";

/// The life of a standing allowance.
pub const ALLOWANCE_TTL: Duration = Duration::from_secs(3_600);

/// How all lines of the audit of tools begin. They live as long as the setting says.
pub const AUDIT_PREFIX: &str = "staffai:audit:";

/// How all counts of such lines begin.
const AUDIT_COUNT_PREFIX: &str = "staffai:audit_lines:";

/// The life of such a count: no line of a day is written much later than that.
pub const AUDIT_COUNT_TTL: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// The sections of prompts that were changed at run time. It is bounded by the number of sections.
pub const PROMPT_EDITS: &str = "staffai:prompts";

/// How all lists of versions of a section begin. There is one for each section that was ever changed.
pub const PROMPT_PREFIX: &str = "staffai:prompt:";

/// How all gateway sessions begin.
pub const SESSION_PREFIX: &str = "staffai:session:";

/// How all watermarks begin.
pub const WATERMARK_PREFIX: &str = "staffai:watermark:";

/// How all marks of answered messages begin.
pub const ANSWERED_PREFIX: &str = "staffai:answered:";

/// How all lists of tools begin.
pub const TOOLS_PREFIX: &str = "staffai:tools:";

/// The life of a server's list of tools from when it was read last.
pub const TOOLS_TTL: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// How all wishes to be forgotten begin.
pub const FORGOTTEN_PREFIX: &str = "staffai:forgotten:";

/// How all choices of members begin.
pub const PREFERENCES_PREFIX: &str = "staffai:preferences:";

/// The life of a member's choices from their last change.
pub const PREFERENCES_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How the index begins of which answers are whose.
const ANSWERS_OF_PREFIX: &str = "staffai:answers_of:";

/// How the index begins of which histories hold whose words besides their owner's.
const QUOTES_OF_PREFIX: &str = "staffai:quotes_of:";

/// The life of an unfinished turn from its last change: longer than any outage that a member would wait for.
pub const TURN_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a finished turn is remembered, so that a replayed message does not trigger again: longer than any catch-up.
pub const CLOSED_TURN_TTL: Duration = Duration::from_secs(60 * 60);

/// The oldest message that a catch-up answers: a closed turn is remembered for longer than its message can be read back, with room for
/// clocks that differ, so that no setting makes a catch-up answer twice.
pub const CATCH_UP_AGE_MAX: Duration = Duration::from_secs(CLOSED_TURN_TTL.as_secs() - 5 * 60);

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

/// Model rows that were changed at run time, where processes share a store. One key, without an end, bounded by who writes it.
pub const MODEL_ROWS: &str = "staffai:model_rows";

/// Keys of programs that were revoked, where processes share a store. One key, without an end, bounded by who writes it.
pub const REVOKED_KEYS: &str = "staffai:revoked_keys";

/// The key that is read to find out whether a backend answers again. It is never written.
pub const PROBE: &str = "staffai:probe";

/// What one person and we said in one place. It lives for the configured time after its last save.
///
/// On Discord the parts are the bare ids, as the Python bot wrote them; other doors qualify each with their name.
#[must_use]
pub fn history(person: &Person, place: &Place) -> String {
    format!("{HISTORY_PREFIX}{}:{}", legacy(&person.door, &person.id), legacy(&place.door, &place.id))
}

/// How all histories of one person begin; what follows names the place.
#[must_use]
pub fn histories_of(person: &Person) -> String {
    format!("{HISTORY_PREFIX}{}:", legacy(&person.door, &person.id))
}

/// What a member chose for themselves. It lives for [`PREFERENCES_TTL`] after each change.
#[must_use]
pub fn preferences(person: &Person) -> String {
    format!("{PREFERENCES_PREFIX}{person}")
}

/// The wish of a person that everything about them, or the conversation in one place, be forgotten. It lives a little longer than
/// any turn that may hold what it is about.
#[must_use]
pub fn forgotten(person: &Person, place: Option<&Place>) -> String {
    let place = place.map(|place| format!(":{place}")).unwrap_or_default();
    format!("{FORGOTTEN_PREFIX}{person}{place}")
}

/// Says that this message of ours answered this person. It lives as long as [`answered`].
#[must_use]
pub fn answer_of(person: &Person, message: &MessageId) -> String {
    format!("{}{message}", answers_of(person))
}

/// How all of the index begins that says which messages of ours answered this person.
#[must_use]
pub fn answers_of(person: &Person) -> String {
    format!("{ANSWERS_OF_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// Says that the history of this key holds words of this person, who is not its owner. It lives as long as that history.
#[must_use]
pub fn quote_of(person: &Person, history: &str) -> String {
    format!("{}{history}", quotes_of(person))
}

/// How all of the index begins that says which histories hold words of this person.
#[must_use]
pub fn quotes_of(person: &Person) -> String {
    format!("{QUOTES_OF_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// What is remembered of one tool server: its last list, and what its tools were when they were accepted.
#[must_use]
pub fn tools(server: &ServerName) -> String {
    format!("{TOOLS_PREFIX}{server}")
}

/// The journal entry of one turn. It lives for [`TURN_TTL`] after each change.
#[must_use]
pub fn turn(turn: &TurnId) -> String {
    format!("{TURN_PREFIX}{turn}")
}

/// What was said so far in a turn that waits for a decision. It lives for [`TURN_TTL`], at most as long as its turn.
#[must_use]
pub fn parked(turn: &TurnId) -> String {
    format!("{PARKED_PREFIX}{turn}")
}

/// The newest fencing token of a range of turns. It has no end; there is one for each range that ever had an owner.
#[must_use]
pub fn term(range: &Range) -> String {
    format!("{TERM_PREFIX}{range}")
}

/// A standing allowance, by its id. It lives for [`ALLOWANCE_TTL`].
#[must_use]
pub fn allowance(id: &str) -> String {
    format!("{ALLOWANCE_PREFIX}{id}")
}

/// A line of the audit of tools: whose it is, when it was, and what tells it from others of that moment.
#[must_use]
pub fn audit(person: &Person, at: Timestamp, suffix: &str) -> String {
    format!("{}{:013}:{suffix}", audit_of(person), at.0)
}

/// How all such lines about one person begin.
#[must_use]
pub fn audit_of(person: &Person) -> String {
    format!("{AUDIT_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// How many such lines a day has, counted in days from 1970. It lives for [`AUDIT_COUNT_TTL`].
#[must_use]
pub fn audit_count(day: u64) -> String {
    format!("{AUDIT_COUNT_PREFIX}{day}")
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

/// When a process first listened at this door: where the messages begin of a community that has no watermark. It lives for
/// [`WATERMARK_TTL`].
#[must_use]
pub fn first_listened(door: &Door) -> String {
    format!("{WATERMARK_PREFIX}{door}")
}

/// The exchange that one of our messages completed, so that a reply to it finds what was asked. It lives as long as history,
/// or for [`ANSWERED_TTL`] when history never expires.
#[must_use]
pub fn answered(message: &MessageId) -> String {
    format!("{ANSWERED_PREFIX}{message}")
}

/// The versions of a section of prompts.
#[must_use]
pub fn prompt_versions(section: &str) -> String {
    format!("{PROMPT_PREFIX}{section}")
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

/// The same for increments that are counted under a term of this range.
#[must_use]
pub fn applied_under(writer: &str, range: &Range) -> String {
    format!("{APPLIED_PREFIX}{writer}/{range}")
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

/// The one door that keys of the Python bot do not name, because that bot knew no other. It belongs to their format, as their
/// prefixes do.
const UNNAMED_DOOR: Door = Door::new("discord");

/// An id as a part of a key of the Python bot: bare at the door that such keys do not name, else qualified by the door.
fn legacy(door: &Door, id: &str) -> String {
    if *door == UNNAMED_DOOR { part(id).into_owned() } else { format!("{door}:{}", part(id)) }
}

/// An id that is followed by another one. Where a door lets clients choose ids, a colon in one could make two people share
/// a key, so it is written as `%3A`. Ids without colons and percent signs stay as they are.
fn part(id: &str) -> Cow<'_, str> {
    if !id.contains([':', '%']) {
        return Cow::Borrowed(id);
    }
    let mut out = String::with_capacity(id.len());
    for c in id.chars() {
        match c {
            ':' | '%' => {
                let _ = write!(out, "%{:02X}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The id that [`part`] wrote.
fn whole(part: &str) -> String {
    part.replace("%3A", ":").replace("%25", "%")
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
        assert_eq!(answered(&message), "staffai:answered:discord:9");
    }

    #[test]
    fn what_is_kept_about_somebody_is_found_by_its_beginning() {
        let (ada, seven) = (Person::new(DISCORD, "7"), Person::new(DISCORD, "77"));
        let place = Place::new(DISCORD, "42");
        assert!(history(&ada, &place).starts_with(&histories_of(&ada)));
        assert!(!history(&seven, &place).starts_with(&histories_of(&ada)));
        let message = MessageId::new(DISCORD, "9");
        assert_eq!(answer_of(&ada, &message), "staffai:answers_of:discord:7:discord:9");
        assert_eq!(quote_of(&ada, "discord_context:8:42"), "staffai:quotes_of:discord:7:discord_context:8:42");
        assert_eq!(preferences(&ada), "staffai:preferences:discord:7");
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
