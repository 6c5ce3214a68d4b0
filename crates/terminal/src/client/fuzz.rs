//! Targets of the fuzzer: markup of answers in a terminal. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use super::markdown::Markdown;

#[test]
fn markdown() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let mut markdown = Markdown::default();
        markdown.feed(&text);
        markdown.finish();
    });
}
