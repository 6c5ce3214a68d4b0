//! Completion of the names of resources: the Tab key completes a name that an answer in this conversation showed, such
//! as that of `!tools resources`. Nothing is requested while a person types.

use std::collections::BTreeSet;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use domain::tool::named_resource::all_named;

/// The most names that are kept; further ones are not completed.
const NAMES_MAX: usize = 1_000;

/// The names that were shown.
#[derive(Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// Adds the names in a text that was shown.
    pub(super) fn learn(&mut self, shown: &str) {
        for resource in all_named(shown) {
            if self.0.len() == NAMES_MAX {
                return;
            }
            self.0.insert(resource.to_string());
        }
    }

    /// Returns the start of the word at this position, and the names that begin like it.
    fn begun(&self, line: &str, pos: usize) -> (usize, Vec<String>) {
        let before = line.get(..pos).unwrap_or_default();
        let start = before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        let word = &before[start..];
        if !word.starts_with('@') {
            return (pos, Vec::new());
        }
        let begun = self.0.range(word.to_owned()..).take_while(|name| name.starts_with(word));
        (start, begun.cloned().collect())
    }
}

impl Completer for Names {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.begun(line, pos))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}

impl Validator for Names {}

impl Helper for Names {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_were_shown_are_completed_at_the_cursor() {
        let mut names = Names::default();
        names.learn("Name these: **docs**: `@docs:note://guide`, `@docs:note://map`; mail @mike: hello");
        assert_eq!(names.begun("see\u{a0}@docs:note://g and", 19), (5, vec!["@docs:note://guide".to_owned()]));
        assert_eq!(names.begun("@d", 2).1, ["@docs:note://guide", "@docs:note://map"]);
        for (line, pos) in [("@e", 2), ("docs", 4), ("", 0), ("@docs:note://map now", 20), ("@", 9)] {
            assert_eq!(names.begun(line, pos).1, Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn no_more_names_are_kept_than_the_bound() {
        let mut names = Names::default();
        names.learn(&(0..2 * NAMES_MAX).map(|number| format!("@d:n://{number} ")).collect::<String>());
        assert_eq!(names.0.len(), NAMES_MAX);
    }
}
