//! Ownership of turns: the ranges of turns that a process owns, and the fencing token of its writes.
//!
//! A store issues a new token with each change of owner and remembers the newest token of each range. It refuses a
//! write under an older token, so a process that was replaced without noticing it can no longer change a turn.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::ids::Door;

/// A range of turns with one owner at a time. A process owns at most one range of each door.
///
/// Tokens of two ranges are not comparable, even if the ranges overlap. A store that splits a door into shards must
/// first end the term of the whole door.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Range {
    /// All turns of a door.
    Door(Door),
    /// The turns that arrive through some of a door's connections.
    Shards(Door, Shards),
}

/// A contiguous group of a door's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shards {
    /// The number of the first connection.
    pub first: u32,
    /// The number of the last connection; not below the first.
    pub last: u32,
    /// The total number of connections of the door; above the last.
    pub of: u32,
}

impl Range {
    /// Returns the door of its turns.
    #[must_use]
    pub const fn door(&self) -> &Door {
        match self {
            Self::Door(door) | Self::Shards(door, _) => door,
        }
    }

    /// True if it contains each turn of the other range. Shards of a door with another number of connections are not
    /// comparable.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.door() == other.door()
            && match (self, other) {
                (Self::Door(_), _) => true,
                (Self::Shards(..), Self::Door(_)) => false,
                (Self::Shards(_, mine), Self::Shards(_, other)) => {
                    mine.of == other.of && mine.first <= other.first && other.last <= mine.last
                }
            }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Door(door) => door.fmt(f),
            Self::Shards(door, Shards { first, last, of }) => write!(f, "{door}/{first}-{last}/{of}"),
        }
    }
}

/// The error for a text that is not a range. A range is a door such as `discord`, or some of its shards such as
/// `discord/0-3/16`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no range of turns")]
pub struct BadRange(String);

impl FromStr for Range {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let bad = || BadRange(text.to_owned());
        let mut parts = text.split('/');
        let door = parts.next().and_then(Door::named).ok_or_else(bad)?;
        let Some(numbers) = parts.next() else { return Ok(Self::Door(door)) };
        let read = |number: &str| number.parse::<u32>().map_err(|_| bad());
        let (first, last) = numbers.split_once('-').ok_or_else(bad)?;
        let shards = Shards { first: read(first)?, last: read(last)?, of: read(parts.next().ok_or_else(bad)?)? };
        let valid = parts.next().is_none() && shards.first <= shards.last && shards.last < shards.of;
        if valid { Ok(Self::Shards(door, shards)) } else { Err(bad()) }
    }
}

impl Serialize for Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The fencing token of a range: each owner has a higher number than the owner before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// The token of a process that wrote before it had acquired one, because its store was unavailable.
    pub const NONE: Self = Self(0);

    /// Returns the token of the next owner.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Parses the newest token of a range as stored. A missing or damaged value counts as [`Self::NONE`].
    #[must_use]
    pub fn stored(text: Option<&str>) -> Self {
        text.and_then(|text| text.parse().ok()).map_or(Self::NONE, Self)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The ownership of one range by one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// The range of turns.
    pub range: Range,
    /// The fencing token of this ownership.
    pub token: FencingToken,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOOR: Door = Door::new("discord");

    fn shards(first: u32, last: u32, of: u32) -> Range {
        Range::Shards(DOOR, Shards { first, last, of })
    }

    #[test]
    fn a_range_is_read_from_its_text() {
        for range in [Range::Door(DOOR), shards(0, 3, 16), shards(7, 7, 8)] {
            assert_eq!(range.to_string().parse(), Ok(range.clone()), "{range}");
            let json = serde_json::to_string(&range).unwrap();
            assert_eq!(serde_json::from_str::<Range>(&json).unwrap(), range);
        }
        assert_eq!(shards(0, 3, 16).to_string(), "discord/0-3/16");
        for text in ["", "discord/", "discord/1", "discord/2-1/4", "discord/0-4/4", "discord/0-1/2/3", "discord/0-x/2"]
        {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_door_contains_its_shards_and_shards_contain_their_parts() {
        let (door, other) = (Range::Door(DOOR), Range::Door(Door::new("terminal")));
        assert!(door.contains(&door) && door.contains(&shards(0, 3, 16)) && !door.contains(&other));
        assert!(shards(0, 3, 16).contains(&shards(1, 2, 16)) && shards(1, 2, 16).contains(&shards(1, 2, 16)));
        assert!(!shards(0, 3, 16).contains(&shards(3, 4, 16)) && !shards(0, 3, 16).contains(&shards(1, 2, 8)));
        assert!(!shards(0, 3, 16).contains(&door));
    }

    #[test]
    fn tokens_rise_and_a_damaged_one_is_none() {
        assert_eq!(FencingToken::stored(Some("41")).next(), FencingToken(42));
        assert_eq!(
            (FencingToken::stored(None), FencingToken::stored(Some("x"))),
            (FencingToken::NONE, FencingToken::NONE)
        );
        assert!(FencingToken(9) < FencingToken(10));
    }
}
