//! All key formats of the store. Only this module builds and parses keys.
//!
//! The history key is the one of the Python bot, so that its data stays readable. All other keys begin with `staffai:`
//! and have a TTL or a bounded number. Keys are parsed only after scans that need the id.

pub mod active;
pub mod conversations;
pub mod experiments;
pub mod facts;
pub mod ledger;
pub mod limits;
pub mod past;
pub mod programs;
pub mod restrictions;
pub mod sessions;
pub mod triggers;

use std::time::Duration;

use crate::ids::{Door, MessageId, Person, Place, Timestamp, TurnId};
use crate::key_part::{legacy, part};
use crate::ownership::Range;
use crate::planted::Defect;
use crate::server_name::ServerName;

/// The prefix of histories.
pub const HISTORY_PREFIX: &str = "discord_context:";

/// The prefix of records that were unreadable and are quarantined.
pub const QUARANTINE_PREFIX: &str = "staffai:quarantine:";

/// The TTL of a quarantined record, for inspection by an operator.
pub const QUARANTINE_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The prefix of journalled turns.
pub const TURN_PREFIX: &str = "staffai:turn:";

/// The prefix of the dialogues of suspended turns.
pub const PARKED_PREFIX: &str = "staffai:parked:";

/// The prefix of the newest fencing token of each range.
pub const TERM_PREFIX: &str = "staffai:term:";

/// The prefix of reports of processes that share a store.
pub const PROCESS_PREFIX: &str = "staffai:process:";

/// Returns the key of the report of a process.
#[must_use]
pub fn process(name: &str) -> String {
    format!("{PROCESS_PREFIX}{name}")
}

/// The record of the format of the stored data.
pub const FORMAT: &str = "staffai:format";

/// The prefix of clicks on their way to another process.
pub const CLICK_PREFIX: &str = "staffai:click:";

/// Returns the key of a click on a gate that another process may have open: see [`crate::gate::passed`].
#[must_use]
pub fn click(gate: impl std::fmt::Display) -> String {
    format!("{CLICK_PREFIX}{gate}")
}

/// The record of the lease: its holder, and a process that stands by.
pub const LEASE: &str = "staffai:lease";

/// The secret with which the processes on one store prove to each other that they pass requests on.
pub const FORWARDING: &str = "staffai:forwarding";

/// The record of the data directory whose process may start while the shared store does not answer.
pub const ALONE: &str = "staffai:alone";

/// The numbers of ranges of divisions whose terms have not been ended by another division.
pub const DIVISIONS: &str = "staffai:divisions";

/// The prefix of the marks of buckets in which a process identified a moment ago.
pub const IDENTIFY_PREFIX: &str = "staffai:identify:";

/// Returns the key of the mark of a bucket. TTL: the pause between two identifies.
#[must_use]
pub fn identify(bucket: u32) -> String {
    format!("{IDENTIFY_PREFIX}{bucket}")
}

/// The prefix of standing allowances.
pub const ALLOWANCE_PREFIX: &str = "staffai:allowance:";

/// The TTL of a standing allowance.
pub const ALLOWANCE_TTL: Duration = Duration::from_secs(3_600);

/// The prefix of lines of the tool audit. Their TTL is a setting.
pub const AUDIT_PREFIX: &str = "staffai:audit:";

/// The prefix of the daily counts of such lines.
const AUDIT_COUNT_PREFIX: &str = "staffai:audit_lines:";

/// The TTL of such a count: no line of a day is written much later than that.
pub const AUDIT_COUNT_TTL: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// The sections of prompts that were changed at run time. Bounded by the number of sections.
pub const PROMPT_EDITS: &str = "staffai:prompts";

/// The prefix of version lists of prompt sections. There is one list per section that was ever changed.
pub const PROMPT_PREFIX: &str = "staffai:prompt:";

/// The prefix of gateway sessions.
pub const SESSION_PREFIX: &str = "staffai:session:";

/// The prefix of watermarks.
pub const WATERMARK_PREFIX: &str = "staffai:watermark:";

/// The prefix of the marks of answered messages.
pub const ANSWERED_PREFIX: &str = "staffai:answered:";

/// The prefix of tool lists.
pub const TOOLS_PREFIX: &str = "staffai:tools:";

/// The TTL of a server's tool list, from the last time it was read.
pub const TOOLS_TTL: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// The prefix of erasure requests.
pub const FORGOTTEN_PREFIX: &str = "staffai:forgotten:";

/// The prefix of member preferences.
pub const PREFERENCES_PREFIX: &str = "staffai:preferences:";

/// The TTL of a member's preferences, from their last change.
pub const PREFERENCES_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The prefix of the index of the answers to each person.
const ANSWERS_OF_PREFIX: &str = "staffai:answers_of:";

/// The prefix of the index of histories that quote persons other than their owner.
const QUOTES_OF_PREFIX: &str = "staffai:quotes_of:";

/// The TTL of an unfinished turn, from its last change: longer than any outage after which an answer is still useful.
pub const TURN_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The TTL of a closed turn, which prevents a replayed message from triggering again: longer than any catch-up.
pub const CLOSED_TURN_TTL: Duration = Duration::from_secs(60 * 60);

/// The maximum age of a message that a catch-up answers. A closed turn is kept longer than its message can be read
/// back, with a margin for clock differences; so no setting makes a catch-up answer twice.
pub const CATCH_UP_AGE_MAX: Duration = Duration::from_secs(CLOSED_TURN_TTL.as_secs() - 5 * 60);

/// The TTL of a gateway session. Platforms discard a session minutes after its connection ends; resuming an older one
/// would only be refused.
pub const SESSION_TTL: Duration = Duration::from_secs(60 * 60);

/// The TTL of a watermark, so that watermarks of communities the bot left expire. Catch-up never reads back this far.
pub const WATERMARK_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The TTL of the exchange behind one of our messages if history never expires.
pub const ANSWERED_TTL: Duration = TURN_TTL;

/// The end of the last reported interval, in milliseconds since 1970. One key, without expiry.
pub const REPORT_LAST: &str = "staffai:report:last";

/// The record of failing tool servers and built-in tools. One key, without expiry.
pub const REPORT_TOOLS: &str = "staffai:report:tools";

/// The prefix of questions recorded for a replay.
pub const RECORDED_PREFIX: &str = "staffai:recorded:";

/// The TTL of a recorded question.
pub const RECORDED_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Returns the key of the recorded question in this slot.
#[must_use]
pub fn recorded(slot: usize) -> String {
    format!("{RECORDED_PREFIX}{slot}")
}

/// The prefix of the marks of applied increments.
pub const APPLIED_PREFIX: &str = "staffai:applied:";

/// The TTL of the last batch that a server applied for one store: longer than any outage that a process outlives.
pub const APPLIED_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Model rows changed at run time, if processes share a store. One key, without expiry; its writer bounds its size.
pub const MODEL_ROWS: &str = "staffai:model_rows";

/// Revoked keys of programs, if processes share a store. One key, without expiry; its writer bounds its size.
pub const REVOKED_KEYS: &str = "staffai:revoked_keys";

/// The accounts that are linked. One key, without expiry; its writer bounds its size.
pub const LINKS: &str = "staffai:links";

/// The codes to link accounts, as hashes. One key, without expiry; its writer bounds its size.
pub const LINK_CODES: &str = "staffai:link_codes";

/// The key of the probe that checks if a backend responds again. It is never written.
pub const PROBE: &str = "staffai:probe";

/// Returns the key of one person's history in one place. Its TTL is the configured time from the last save.
///
/// On Discord the parts are the bare ids, as the Python bot wrote them; other doors qualify each id with their name.
#[must_use]
pub fn history(person: &Person, place: &Place) -> String {
    if Defect::SharedHistory.is_planted() {
        return format!("{HISTORY_PREFIX}{}", legacy(&place.door, &place.id));
    }
    format!("{HISTORY_PREFIX}{}:{}", legacy(&person.door, &person.id), legacy(&place.door, &place.id))
}

/// Returns the prefix of all histories of one person; the place follows.
#[must_use]
pub fn histories_of(person: &Person) -> String {
    format!("{HISTORY_PREFIX}{}:", legacy(&person.door, &person.id))
}

/// Returns the key of a member's preferences. TTL: [`PREFERENCES_TTL`] from each change.
#[must_use]
pub fn preferences(person: &Person) -> String {
    format!("{PREFERENCES_PREFIX}{person}")
}

/// Returns the key of a person's erasure request, for all data or for the conversation in one place. It outlives any
/// turn that may hold the data.
#[must_use]
pub fn forgotten(person: &Person, place: Option<&Place>) -> String {
    let place = place.map(|place| format!(":{place}")).unwrap_or_default();
    format!("{FORGOTTEN_PREFIX}{person}{place}")
}

/// Returns the index key that marks this message of ours as an answer to this person. Its TTL is that of [`answered`].
#[must_use]
pub fn answer_of(person: &Person, message: &MessageId) -> String {
    format!("{}{message}", answers_of(person))
}

/// Returns the prefix of the index of our answers to this person.
#[must_use]
pub fn answers_of(person: &Person) -> String {
    format!("{ANSWERS_OF_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// Returns the index key that marks the history of this key as quoting this person, who is not its owner. Its TTL is
/// that of the history.
#[must_use]
pub fn quote_of(person: &Person, history: &str) -> String {
    format!("{}{history}", quotes_of(person))
}

/// Returns the prefix of the index of histories that quote this person.
#[must_use]
pub fn quotes_of(person: &Person) -> String {
    format!("{QUOTES_OF_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// Returns the key of one tool server's record: its last tool list, and the pins of its accepted tools.
#[must_use]
pub fn tools(server: &ServerName) -> String {
    format!("{TOOLS_PREFIX}{server}")
}

/// Returns the key of the journal record of one turn. TTL: [`TURN_TTL`] from each change.
#[must_use]
pub fn turn(turn: &TurnId) -> String {
    format!("{TURN_PREFIX}{turn}")
}

/// Returns the key of the dialogue of a suspended turn. TTL: [`TURN_TTL`], at most that of its turn.
#[must_use]
pub fn parked(turn: &TurnId) -> String {
    format!("{PARKED_PREFIX}{turn}")
}

/// Returns the key of the newest fencing token of a range. It has no expiry; there is one for each range that ever had
/// an owner.
#[must_use]
pub fn term(range: &Range) -> String {
    format!("{TERM_PREFIX}{range}")
}

/// Returns the key of a standing allowance by its id. TTL: [`ALLOWANCE_TTL`].
#[must_use]
pub fn allowance(id: &str) -> String {
    format!("{ALLOWANCE_PREFIX}{id}")
}

/// Returns the key of a line of the tool audit: the person, the time, and a suffix that distinguishes lines of the same
/// moment.
#[must_use]
pub fn audit(person: &Person, at: Timestamp, suffix: &str) -> String {
    format!("{}{:013}:{suffix}", audit_of(person), at.0)
}

/// Returns the prefix of all audit lines about one person.
#[must_use]
pub fn audit_of(person: &Person) -> String {
    format!("{AUDIT_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// Returns the key of the number of audit lines of a day, in days since 1970. TTL: [`AUDIT_COUNT_TTL`].
#[must_use]
pub fn audit_count(day: u64) -> String {
    format!("{AUDIT_COUNT_PREFIX}{day}")
}

/// Parses the turn from a key under [`TURN_PREFIX`]; `None` if the key is malformed.
#[must_use]
pub fn parse_turn(key: &str) -> Option<TurnId> {
    key.strip_prefix(TURN_PREFIX)?.parse().ok()
}

/// Returns the key of the session of one shard of a door, used to resume after a restart. TTL: [`SESSION_TTL`] from
/// each change.
#[must_use]
pub fn session(door: &Door, shard: u32) -> String {
    format!("{SESSION_PREFIX}{door}:{shard}")
}

/// Returns the key of one community's watermark: the position up to which its messages are accepted. TTL:
/// [`WATERMARK_TTL`] from each change.
#[must_use]
pub fn watermark(door: &Door, guild: &str) -> String {
    format!("{WATERMARK_PREFIX}{door}:{guild}")
}

/// Returns the key of the time at which a process first listened at this door: the start of catch-up for a community
/// without a watermark. TTL: [`WATERMARK_TTL`].
#[must_use]
pub fn first_listened(door: &Door) -> String {
    format!("{WATERMARK_PREFIX}{door}")
}

/// Returns the key of the exchange that one of our messages completed, so that a reply to it finds its question. Its
/// TTL is that of history, or [`ANSWERED_TTL`] if history never expires.
#[must_use]
pub fn answered(message: &MessageId) -> String {
    format!("{ANSWERED_PREFIX}{message}")
}

/// Returns the key of the versions of a prompt section.
#[must_use]
pub fn prompt_versions(section: &str) -> String {
    format!("{PROMPT_PREFIX}{section}")
}

/// Returns the key under which an unreadable record is quarantined. TTL: [`QUARANTINE_TTL`].
#[must_use]
pub fn quarantine(key: &str) -> String {
    format!("{QUARANTINE_PREFIX}{key}")
}

/// Returns the key of the number of the last batch of increments that a server applied for one store. TTL:
/// [`APPLIED_TTL`].
#[must_use]
pub fn applied(writer: &str) -> String {
    format!("{APPLIED_PREFIX}{writer}")
}

/// Returns the same key for increments under a term of this range.
#[must_use]
pub fn applied_under(writer: &str, range: &Range) -> String {
    format!("{APPLIED_PREFIX}{writer}/{range}")
}

/// Returns the same key for a single counter, placed on the cluster node of that counter; `None` for a key with a hash
/// tag of its own.
#[must_use]
pub fn applied_to(writer: &str, key: &str) -> Option<String> {
    (!key.contains(['{', '}'])).then(|| format!("{APPLIED_PREFIX}{writer}:{{{key}}}"))
}

/// True if the key is that of a history.
#[must_use]
pub fn is_history(key: &str) -> bool {
    key.starts_with(HISTORY_PREFIX)
}

/// True if the key is that of a member's preferences.
#[must_use]
pub fn is_preferences(key: &str) -> bool {
    key.starts_with(PREFERENCES_PREFIX)
}

/// The prefixes of text that may be evicted when memory runs short: histories and the records beside them, transcripts, and responses that programs
/// may continue from. Their number depends on members and programs alone, so nothing else may be evicted for them.
const EXPENDABLE: [&str; 6] = [
    HISTORY_PREFIX,
    conversations::SUMMARY_PREFIX,
    conversations::EVICTED_PREFIX,
    conversations::ASKED_PREFIX,
    sessions::LINES_PREFIX,
    programs::RESPONSE_PREFIX,
];

/// Returns the part of a key by which the keys of one holder are counted together: the key without its last part, so the
/// records of a member, of a key or of a session have one holder.
#[must_use]
pub fn holder(key: &str) -> &str {
    key.rsplit_once(':').map_or(key, |(holder, _)| holder)
}

/// True if losing the key would break a guarantee. Unknown keys count as essential.
#[must_use]
pub fn essential(key: &str) -> bool {
    !EXPENDABLE.iter().any(|prefix| key.starts_with(prefix))
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
    fn only_kept_text_may_be_dropped() {
        let (ann, talk) = (Person::new(API, "ann"), Place::new(API, "s1"));
        assert!(!essential(&sessions::line(&ann, &talk, 1)) && essential(&sessions::session(&ann, &talk)));
        assert!(!essential(&programs::response("key", "r1")) && essential(&programs::responses("key")));
        assert!(!essential(&history(&Person::new(DISCORD, "7"), &Place::new(DISCORD, "42"))));
        assert!(essential(&session(&DISCORD, 0)));
        assert!(essential("something:else"));
    }
}
