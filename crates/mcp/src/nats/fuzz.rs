//! Targets of the fuzzer: messages of providers over NATS. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use super::wire::{ANNOUNCE, HEARTBEAT, WITHDRAW, heard};

/// The subjects that are read.
const SUBJECTS: [&str; 3] = [ANNOUNCE, HEARTBEAT, WITHDRAW];

#[test]
fn nats_messages() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        for subject in SUBJECTS {
            drop(heard(subject, bytes));
        }
    });
}
