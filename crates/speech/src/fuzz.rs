//! Targets of the fuzzer: answers that are spoken. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use crate::Sentences;

#[test]
fn sentences() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let mut sentences = Sentences::new();
        let mut parts = sentences.push(&text);
        parts.extend(sentences.flush());
        let display: String = parts.iter().map(|part| part.display.as_str()).collect();
        assert_eq!(display, text, "the displayed parts are the answer");
    });
}
