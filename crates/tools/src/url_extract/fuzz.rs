//! Targets of the fuzzer: pages of the web. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use reqwest::Url;

use super::readable::readable;

#[test]
fn web_pages() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop(readable(&text, &Url::parse("https://example.org/a/b").unwrap()));
    });
}
