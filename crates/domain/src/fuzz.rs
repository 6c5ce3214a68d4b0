//! Targets of the fuzzer: answers, long texts, schemas of tools and stored conversations. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use std::sync::LazyLock;

use serde_json::Value;

use crate::history::History;
use crate::reply::{Schema, salvage};
use crate::split::split;
use crate::summary::Summary;
use crate::tool::schema::convert;

static REPLIES: LazyLock<Schema> = LazyLock::new(|| {
    let document = serde_json::from_str(include_str!("../../../response_schema.json")).unwrap();
    Schema::compile(&document).unwrap()
});

#[test]
fn partial_json() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let whole = salvage::spoken(&text);
        drop((REPLIES.read(&text), salvage::plain_text(&text), whole));
    });
}

#[test]
fn splitter() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        for piece in split(&text, 40) {
            assert!(piece.chars().count() <= 40, "{piece:?}");
        }
    });
}

#[test]
fn tool_schemas() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        if let Ok(schema) = serde_json::from_slice::<Value>(bytes) {
            drop(convert(&schema));
        }
    });
}

#[test]
fn stored_records() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop((History::parse(&text), Summary::parse(Some(&text))));
    });
}
