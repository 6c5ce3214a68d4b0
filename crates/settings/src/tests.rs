//! The configuration as a whole: sources in, settings or mistakes out.

mod bad;
mod complete;
mod example;
mod layering;
mod rows;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::problem::Problem;
use super::sources::Sources;
use super::{Loaded, Settings, load};

fn sources(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Sources {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let environment: BTreeMap<String, String> = variables.iter().map(owned).collect();
    let files = files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
    Sources::from_maps(environment, files)
}

fn good(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Loaded {
    load(&sources(variables, files)).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn settings(variables: &[(&str, &str)]) -> Settings {
    good(variables, &[]).settings
}

/// Returns the printed mistakes, one per line.
fn bad(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Vec<String> {
    printed(&sources(variables, files))
}

fn printed(sources: &Sources) -> Vec<String> {
    let problems = load(sources).expect_err("these sources should be refused");
    problems.iter().map(Problem::to_string).collect()
}
