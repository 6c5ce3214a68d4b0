//! Keys of the facts learned from members.

use std::time::Duration;

use crate::fact_id::FactId;
use crate::ids::{MessageId, Person};
use crate::key_part::part;

const FACT_PREFIX: &str = "staffai:fact:";

/// The prefix of fact lists of members.
const FACTS_PREFIX: &str = "staffai:facts:";

/// The prefix of the index from messages to the facts learned from them.
const FACTS_BY_PREFIX: &str = "staffai:facts_by:";

const FACTS_TOLD_PREFIX: &str = "staffai:facts_told:";

/// The length of one counting step. Facts are counted by the time at which they were learned, so that expired facts
/// drop out of the count.
pub const FACTS_TOLD_STEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Returns the key of one fact of a member. Its TTL is the configured time since it was last learned.
#[must_use]
pub fn fact(person: &Person, id: &FactId) -> String {
    format!("{}{id}", facts_of(person))
}

/// Returns the prefix of all facts of one person.
#[must_use]
pub fn facts_of(person: &Person) -> String {
    format!("{FACT_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// Returns the key of the fact list of a member. Its TTL is that of the last fact.
#[must_use]
pub fn fact_index(person: &Person) -> String {
    format!("{FACTS_PREFIX}{}:{}", person.door, part(&person.id))
}

/// Returns the index key of the facts learned from a message, with their owners. Its TTL is that of the facts.
#[must_use]
pub fn facts_by(message: &MessageId) -> String {
    format!("{FACTS_BY_PREFIX}{message}")
}

/// Returns the key of the number of facts of all members learned in one [`FACTS_TOLD_STEP`]. Its TTL is that of the
/// facts plus one step.
#[must_use]
pub fn facts_told(step: u64) -> String {
    format!("{FACTS_TOLD_PREFIX}{step}")
}
