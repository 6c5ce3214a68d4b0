//! Targets of the fuzzer: formulas. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use crate::latex::draw;

#[test]
fn formulas() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop(draw(&text));
    });
}
