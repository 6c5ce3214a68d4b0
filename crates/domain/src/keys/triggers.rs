//! Keys of the state of timers and webhooks.

use std::time::Duration;

use crate::ids::MessageId;
use crate::limits::Member;

/// The prefix of timer records.
pub const TIMER_PREFIX: &str = "staffai:timer:";

/// The TTL of a timer's record: longer than a year, so that a yearly timer is not treated as new.
pub const TIMER_TTL: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Returns the key of an accepted webhook request.
#[must_use]
pub fn delivered(fire: &MessageId) -> String {
    format!("staffai:hook:{}", fire.id)
}

/// Returns the limiter member whose entries are the claims of processes on one fire.
#[must_use]
pub fn claimed(fire: &MessageId) -> Member {
    Member::new(format!("trigger:claim-{}", fire.id))
}

/// Returns the limiter member whose entries are the turns of one timer or webhook in its budget.
#[must_use]
pub fn fired(kind: &str, name: &str) -> Member {
    Member::new(format!("trigger:{kind}-{name}"))
}

/// Returns the key of the time up to which a timer is fully processed.
#[must_use]
pub fn timer(name: &str) -> String {
    format!("{TIMER_PREFIX}{name}")
}
