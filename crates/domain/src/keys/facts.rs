//! Keys of the facts that members told.

use std::time::Duration;

use super::part;
use crate::fact_id::FactId;
use crate::ids::{MessageId, Person};

/// How all facts begin.
const FACT_PREFIX: &str = "staffai:fact:";

/// How all lists begin of what facts a member has.
const FACTS_PREFIX: &str = "staffai:facts:";

/// How the index begins of which message told which facts.
const FACTS_BY_PREFIX: &str = "staffai:facts_by:";

/// How all counts of facts begin.
const FACTS_TOLD_PREFIX: &str = "staffai:facts_told:";

/// Facts are counted by when they were told, in steps of this length, so that those that are over drop out of the count.
pub const FACTS_TOLD_STEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// One fact of a member. It lives as long as the settings say after it was told last.
#[must_use]
pub fn fact(person: &Person, id: &FactId) -> String {
    format!("{}{id}", facts_of(person))
}

/// How all facts of one person begin.
#[must_use]
pub fn facts_of(person: &Person) -> String {
    format!("{FACT_PREFIX}{}:{}:", person.door, part(&person.id))
}

/// What facts a member has. It lives as long as the last of them.
#[must_use]
pub fn fact_index(person: &Person) -> String {
    format!("{FACTS_PREFIX}{}:{}", person.door, part(&person.id))
}

/// Whose facts a message told, and which. It lives as long as they do.
#[must_use]
pub fn facts_by(message: &MessageId) -> String {
    format!("{FACTS_BY_PREFIX}{message}")
}

/// How many facts of all members were told in one [`FACTS_TOLD_STEP`]. It lives that much longer than they do.
#[must_use]
pub fn facts_told(step: u64) -> String {
    format!("{FACTS_TOLD_PREFIX}{step}")
}
