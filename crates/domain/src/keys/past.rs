//! Keys of the recent turns and samples of a program.

/// The prefix of a program's past: its recent turns and samples.
pub const PAST_PREFIX: &str = "staffai:past:";

/// Returns the key of the record of one program's runs.
#[must_use]
pub fn past_life(instance: &str) -> String {
    format!("{PAST_PREFIX}{instance}:life")
}

/// Returns the key of one chunk of its recent turns.
#[must_use]
pub fn past_turns(instance: &str, slot: u64) -> String {
    format!("{PAST_PREFIX}{instance}:turns:{slot}")
}

/// Returns the key of one chunk of its recent samples.
#[must_use]
pub fn past_samples(instance: &str, slot: u64) -> String {
    format!("{PAST_PREFIX}{instance}:samples:{slot}")
}
