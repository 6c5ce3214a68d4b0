//! Keys of the last turns and samples of a program.

/// How all keys of a program's past begin: its last turns and samples.
pub const PAST_PREFIX: &str = "staffai:past:";

/// The record of the lives of one program.
#[must_use]
pub fn past_life(instance: &str) -> String {
    format!("{PAST_PREFIX}{instance}:life")
}

/// One chunk of its last turns.
#[must_use]
pub fn past_turns(instance: &str, slot: u64) -> String {
    format!("{PAST_PREFIX}{instance}:turns:{slot}")
}

/// One chunk of its last samples.
#[must_use]
pub fn past_samples(instance: &str, slot: u64) -> String {
    format!("{PAST_PREFIX}{instance}:samples:{slot}")
}
