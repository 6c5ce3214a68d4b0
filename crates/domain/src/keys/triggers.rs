//! Keys of what timers and webhooks leave behind.

use std::time::Duration;

use crate::ids::MessageId;
use crate::limits::Member;

/// How all records of timers begin.
pub const TIMER_PREFIX: &str = "staffai:timer:";

/// The life of what is known of a timer: longer than any year, so that a yearly one is not taken for a new one.
pub const TIMER_TTL: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// A request of a webhook that was taken.
#[must_use]
pub fn delivered(fire: &MessageId) -> String {
    format!("staffai:hook:{}", fire.id)
}

/// Whose entries stand for the processes that took one fire upon themselves.
#[must_use]
pub fn claimed(fire: &MessageId) -> Member {
    Member::new(format!("trigger:claim-{}", fire.id))
}

/// Whose entries stand for the turns of one timer or webhook within its budget.
#[must_use]
pub fn fired(kind: &str, name: &str) -> Member {
    Member::new(format!("trigger:{kind}-{name}"))
}

/// Up to when everything about a timer is dealt with.
#[must_use]
pub fn timer(name: &str) -> String {
    format!("{TIMER_PREFIX}{name}")
}
