//! Patterns of tool names in rules: a name, a pattern with `*`, or a regular expression between slashes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::wildcard;

const EXPRESSION_BYTES: usize = 1_024;
const COMPILED_BYTES: usize = 256 * 1024;

/// The form that an expression must have.
const WANTED: &str = "a name, a pattern with `*`, or a regular expression of at most 1,024 bytes between slashes, such as `/fm__(get|list)_.*/`";

/// A pattern of tool names. Two patterns are equal if they are written alike.
#[derive(Clone)]
pub struct NamePattern {
    text: Arc<str>,
    /// Matches whole names, in time linear in their length.
    expression: Option<Regex>,
}

impl NamePattern {
    /// Builds a pattern in which only `*` has a meaning: any text.
    #[must_use]
    pub fn wildcard(text: &str) -> Self {
        Self { text: text.into(), expression: None }
    }

    /// True if the name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.expression {
            Some(expression) => expression.is_match(name),
            None => wildcard::matches(&self.text, name),
        }
    }

    /// True if it is a regular expression.
    #[must_use]
    pub const fn is_expression(&self) -> bool {
        self.expression.is_some()
    }

    /// Returns the pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for NamePattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(inside) = text.strip_prefix('/') else { return Ok(Self::wildcard(text)) };
        // No name has a slash, so an expression without its end would match nothing.
        let inside = inside.strip_suffix('/').filter(|inside| !inside.is_empty()).ok_or(WANTED)?;
        if inside.len() > EXPRESSION_BYTES {
            return Err(WANTED);
        }
        // The expression is valid alone, so that it cannot leave the group.
        let built = |expression: &str| {
            RegexBuilder::new(expression).size_limit(COMPILED_BYTES).dfa_size_limit(COMPILED_BYTES).build()
        };
        built(inside).map_err(|_| WANTED)?;
        let expression = built(&format!("^(?:{inside})$")).map_err(|_| WANTED)?;
        Ok(Self { text: text.into(), expression: Some(expression) })
    }
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.is_expression() == other.is_expression()
    }
}

impl Eq for NamePattern {}

impl Hash for NamePattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        pattern.parse::<NamePattern>().unwrap().matches(name)
    }

    #[test]
    fn an_expression_matches_whole_names() {
        for (pattern, name, expected) in [
            ("fm__*", "fm__get_page", true),
            ("/fm__(get|list)_.*/", "fm__get_page", true),
            ("/fm__(get|list)_.*/", "fm__delete_page", false),
            ("/get/", "fm__get_page", false),
            ("/a|b/", "ax", false),
            ("/a|b/", "b", true),
            ("/(?i)GET_.*/", "get_x", true),
            ("/[^_]+__\\d{1,3}/", "fm__42", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for wrong in
            ["/", "//", "/open", "/(/", "/a)(b/", "/(?=x)/", "/((a{99}){99}){99}/", &format!("/{}/", "a".repeat(2_000))]
        {
            assert_eq!(wrong.parse::<NamePattern>(), Err(WANTED), "{wrong}");
        }
    }

    #[test]
    fn an_expression_costs_in_proportion_to_the_name() {
        let pattern: NamePattern = "/(a*)*(a*)*b/".parse().unwrap();
        assert!(!pattern.matches(&"a".repeat(100_000)));
    }
}
