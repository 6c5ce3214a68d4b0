//! Targets of the fuzzer: configuration files. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{Sources, dotenv, load};

#[test]
fn configuration() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let files = [(PathBuf::from("staffai.toml"), text.into_owned())].into_iter().collect();
        drop(load(&Sources::from_maps(BTreeMap::new(), files)));
    });
}

#[test]
fn dotenv_files() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop(dotenv::parse(&text, &BTreeMap::new()));
    });
}
