//! The reason why a payload cannot be read.

use serde_json::error::Category;

/// The reason: names the field, and no content of members.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) String);

impl Unreadable {
    /// Returns the reason for an id that does not have Slack's form.
    pub(super) fn id() -> Self {
        Self("an odd id".to_owned())
    }

    /// Returns the reason for a text beyond its bound.
    pub(super) fn length() -> Self {
        Self("the text is too long".to_owned())
    }
}

impl From<serde_json::Error> for Unreadable {
    /// Returns the words of a parser without its quotations, which may be content.
    fn from(error: serde_json::Error) -> Self {
        let words = error.to_string();
        Self(match error.classify() {
            Category::Data if words.starts_with("missing field") => {
                words.split('`').nth(1).map_or("a field is missing".to_owned(), |field| format!("{field} is missing"))
            }
            Category::Data => "a field has an unexpected type".to_owned(),
            Category::Io | Category::Syntax | Category::Eof => "it is not JSON".to_owned(),
        })
    }
}
