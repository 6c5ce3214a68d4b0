//! The stored form of sessions and lines.

use serde::{Deserialize, Serialize};

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Its name for its owner.
    pub name: String,
    /// Its short number.
    pub number: u64,
    /// Its last use, in milliseconds since the Unix epoch.
    pub touched_at: u64,
    /// The number of its lines.
    #[serde(default)]
    pub lines: usize,
    /// The numbers of these lines, increasing; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<u64>,
    /// The preview length of tool calls, if one was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<usize>,
}

impl Record {
    /// True if the record names all lines.
    pub(super) const fn is_numbered(&self) -> bool {
        self.lines == 0 || !self.numbers.is_empty()
    }

    pub(super) fn to_json(&self) -> String {
        // Plain data with string keys always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// Its id.
    pub id: String,
    /// True for messages of the bot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ours: bool,
    /// Its text.
    pub text: String,
    /// Its time, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The id of the message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// The nonce of the post.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// True for an apology.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apology: bool,
}
