//! Targets of the fuzzer: what tool servers send. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use serde_json::value::RawValue;

use crate::content;
use crate::frame::{Frame, Lines};
use crate::lenient::{mended, objects, unescaped};
use crate::listing::page;
use domain::tool::ResultLimits;
use domain::tool::ServerName;

/// Returns the lines of a stream that arrives in pieces of this many bytes.
fn lines(bytes: &[u8], piece: usize) -> Vec<String> {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    let mut each = |frame: Frame| found.push(format!("{frame:?}"));
    bytes.chunks(piece).for_each(|piece| lines.push_all(piece, &mut each));
    found
}

#[test]
fn framing() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        assert_eq!(lines(bytes, 4096), lines(bytes, 3));
    });
}

#[test]
fn messages() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop((objects(bytes), mended(bytes), unescaped(&text)));
    });
}

#[test]
fn results() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        if let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) {
            let limits = ResultLimits::default();
            drop((content::result(raw, limits), content::resource(raw, limits), content::prompt(raw, limits)));
            drop(page(&ServerName::new("s"), raw));
        }
    });
}
