//! Ids of facts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex::hex;
use crate::ids::Place;

/// The id of a fact among those of its member: a hash of place and text, so the same text told twice in a place is
/// one fact.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct FactId(String);

/// The number of hexadecimal digits of a [`FactId`].
const ID_DIGITS: usize = 12;

/// The error for a text that is not a valid fact id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fact is named by {ID_DIGITS} hexadecimal digits")]
pub struct NoFactId;

impl FactId {
    pub(crate) fn of(place: &Place, text: &str) -> Self {
        let plain = text.to_lowercase();
        let plain = plain.trim_end_matches(['.', '!', ' ']);
        let mut digits = hex(&Sha256::digest(format!("{place}\n{plain}")));
        digits.truncate(ID_DIGITS);
        Self(digits)
    }
}

impl fmt::Display for FactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for FactId {
    type Err = NoFactId;

    fn from_str(text: &str) -> Result<Self, NoFactId> {
        let text = text.trim().trim_start_matches('[').trim_end_matches(']');
        let digits = text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if digits { Ok(Self(text.to_ascii_lowercase())) } else { Err(NoFactId) }
    }
}

impl TryFrom<String> for FactId {
    type Error = NoFactId;

    fn try_from(text: String) -> Result<Self, NoFactId> {
        text.parse()
    }
}

impl From<FactId> for String {
    fn from(id: FactId) -> Self {
        id.0
    }
}
