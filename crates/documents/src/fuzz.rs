//! Targets of the fuzzer: documents of members. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

/// The most characters that are read.
const MOST: usize = 10_000;

#[test]
fn documents() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        drop(crate::read(bytes, MOST));
    });
}
