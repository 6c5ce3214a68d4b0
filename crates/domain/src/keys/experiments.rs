//! Keys of experiments: `staffai:experiment:{experiment}:{arm}:{count}`, the arm of each answer, and the votes of members.

use std::time::Duration;

use crate::experiment::Trial;
use crate::ids::{MessageId, Person};
use crate::key_part::{part, whole};

/// The prefix of the counters.
pub const PREFIX: &str = "staffai:experiment:";

/// The prefix of the arms of answers.
pub const TRIAL_PREFIX: &str = "staffai:trial:";

/// The prefix of the marks of votes.
pub const VOTE_PREFIX: &str = "staffai:vote:";

/// The TTL of a counter, from its last change: the figures of an experiment outlive it by this.
pub const COUNTER_TTL: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// The TTL of the arm of an answer and of the votes on it.
pub const TRIAL_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Returns the key of a counter of an arm. TTL: [`COUNTER_TTL`].
#[must_use]
pub fn counter(trial: &Trial, what: &str) -> String {
    format!("{PREFIX}{}:{}:{what}", part(&trial.experiment), part(&trial.arm))
}

/// Parses the key of a counter: its arm, and its name within the arm.
#[must_use]
pub fn parse(key: &str) -> Option<(Trial, &str)> {
    let parts: Vec<&str> = key.strip_prefix(PREFIX)?.split(':').collect();
    let [experiment, arm, what] = parts[..] else { return None };
    Some((Trial { experiment: whole(experiment), arm: whole(arm) }, what))
}

/// Returns the key of the arm of the answer in this message. TTL: [`TRIAL_TTL`].
#[must_use]
pub fn trial(message: &MessageId) -> String {
    format!("{TRIAL_PREFIX}{message}")
}

/// Returns the key of the mark that a person voted on the answer in this message. TTL: [`TRIAL_TTL`].
#[must_use]
pub fn vote(person: &Person, message: &MessageId) -> String {
    format!("{}{message}", votes_of(person))
}

/// Returns the prefix of the marks of one person's votes.
#[must_use]
pub fn votes_of(person: &Person) -> String {
    format!("{VOTE_PREFIX}{}:{}:", person.door, part(&person.id))
}
