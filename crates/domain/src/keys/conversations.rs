//! Keys of the records beside a history. They are derived from the key of the history, so their scope is the same.

use std::time::Duration;

use super::HISTORY_PREFIX;
use crate::ids::{MessageId, Person};

/// The prefix of summaries.
pub const SUMMARY_PREFIX: &str = "staffai:summary:";

/// The prefix of counts of evicted exchanges.
pub const EVICTED_PREFIX: &str = "staffai:evicted:";

/// The prefix of the marks of remembered questions.
pub const ASKED_PREFIX: &str = "staffai:asked:";

/// The prefix of the index of marks by person.
pub const ASKED_BY_PREFIX: &str = "staffai:asked_by:";

/// The maximum age of a message in a summary. The mark of a message is kept as long, so that its deletion finds the
/// summary.
pub const SUMMARY_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Returns the time for which text from a message may be used in summaries, by the maximum age of messages in prompts
/// (zero: any age).
#[must_use]
pub fn summary_life(message_max_age: Duration) -> Duration {
    if message_max_age.is_zero() { SUMMARY_AGE_MAX } else { message_max_age.min(SUMMARY_AGE_MAX) }
}

/// Returns the key of the summary beside the history of this key. Its TTL is at most that of the history.
#[must_use]
pub fn summary(history: &str) -> String {
    beside(SUMMARY_PREFIX, history)
}

/// Returns the prefix of all summaries of one person; the place follows.
#[must_use]
pub fn summaries_of(person: &Person) -> String {
    summary(&super::histories_of(person))
}

/// Returns the key of the number of exchanges that the bound evicted from the history of this key. Its TTL is that of
/// the history.
#[must_use]
pub fn evicted(history: &str) -> String {
    beside(EVICTED_PREFIX, history)
}

/// Returns the prefix of all such counts of one person; the place follows.
#[must_use]
pub fn evicted_of(person: &Person) -> String {
    evicted(&super::histories_of(person))
}

/// Returns the key of the mark that says in which conversation a message was remembered. TTL: [`summary_life`].
#[must_use]
pub fn asked(message: &MessageId) -> String {
    format!("{ASKED_PREFIX}{message}")
}

/// Returns the prefix of the index of a person's marks; the message follows. TTL: [`summary_life`].
#[must_use]
pub fn asked_by(person: &Person) -> String {
    format!("{ASKED_BY_PREFIX}{}:{}:", person.door, super::part(&person.id))
}

fn beside(prefix: &str, history: &str) -> String {
    format!("{prefix}{}", history.strip_prefix(HISTORY_PREFIX).unwrap_or(history))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Door, Place};
    use crate::keys;

    #[test]
    fn a_summary_has_the_scope_of_its_history() {
        let door = Door::new("discord");
        let (ada, other) = (Person::new(door.clone(), "7"), Person::new(door.clone(), "77"));
        let key = |person: &Person, place: &str| summary(&keys::history(person, &Place::new(door.clone(), place)));
        assert_eq!(key(&ada, "42"), "staffai:summary:7:42");
        assert!(
            key(&ada, "42").starts_with(&summaries_of(&ada)) && !key(&other, "42").starts_with(&summaries_of(&ada))
        );
        assert_ne!(key(&ada, "42"), key(&ada, "43"));
    }

    #[test]
    fn text_is_used_as_long_as_prompts_use_it_and_never_without_end() {
        assert_eq!(summary_life(Duration::from_secs(60)), Duration::from_secs(60));
        assert_eq!(summary_life(Duration::ZERO), SUMMARY_AGE_MAX);
        assert_eq!(summary_life(SUMMARY_AGE_MAX * 2), SUMMARY_AGE_MAX);
    }
}
