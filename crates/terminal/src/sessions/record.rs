//! Sessions and lines as they are stored.

use serde::{Deserialize, Serialize};

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// By which its owner calls it.
    pub name: String,
    /// Short for its name.
    pub number: u64,
    /// When something happened in it last, in milliseconds since the Unix epoch.
    pub touched_at: u64,
    /// How many lines are kept of it.
    #[serde(default)]
    pub lines: usize,
    /// The numbers of these lines, rising; none in what versions before wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<u64>,
    /// How many characters of calls of tools are shown; none where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<usize>,
}

impl Record {
    /// The lines of it can be found by the record alone.
    pub(super) const fn is_numbered(&self) -> bool {
        self.lines == 0 || !self.numbers.is_empty()
    }

    pub(super) fn to_json(&self) -> String {
        // Plain data with string keys always serialises.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// Its id.
    pub id: String,
    /// It is one of ours.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ours: bool,
    /// What was said.
    pub text: String,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The id of the message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// What it was posted under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// It says that there is no answer, or no better one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apology: bool,
}
