//! Targets of the fuzzer: frames of the gateway. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use serenity::model::id::UserId;

use crate::frame::read;
use crate::prefilter::Filter;

#[test]
fn gateway_frames() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop(read(&text, &Filter::new(UserId::new(1), &[], false)));
    });
}
