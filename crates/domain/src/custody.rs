//! The record of a turn as the journal stores it: the state of the turn, its owner and the version of the record
//! format.
//!
//! Records stay readable one program version back and one forward: new versions add fields, never rename or remove
//! them, and ignore unknown ones. Version 1 had neither `version` nor `owner`.

use serde::{Deserialize, Serialize};

use crate::ids::Door;
use crate::ownership::{Range, Term};
use crate::turn::{Custody, Lasts, Turn};

/// The version of the record format that this program writes.
pub const RECORD_VERSION: u32 = 2;

const fn first_version() -> u32 {
    1
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of the record format.
    #[serde(default = "first_version")]
    pub version: u32,
    /// The process that wrote the record last; `None` in version 1, and for turns without an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Term>,
    /// The state of the turn.
    #[serde(flatten)]
    pub custody: Custody,
}

impl Record {
    /// Builds a record of the current version.
    #[must_use]
    pub const fn new(owner: Option<Term>, custody: Custody) -> Self {
        Self { version: RECORD_VERSION, owner, custody }
    }

    /// True if a process that owns these ranges may resume this turn of the door: one of the ranges contains the
    /// owner's range. Any owner of turns of the door may resume a record without an owner.
    #[must_use]
    pub fn is_within(&self, door: &Door, owned: &[Range]) -> bool {
        match &self.owner {
            Some(owner) => owned.iter().any(|range| range.contains(&owner.range)),
            None => owned.iter().any(|range| range.door() == door),
        }
    }
}

/// True if the turn has one owner at a time. A turn that lives only as long as its reader's connection has none: that
/// connection belongs to one process, so no other process can answer the turn.
#[must_use]
pub fn has_owner(turn: &Turn) -> bool {
    turn.policy.lasts != Lasts::WhileRead
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::{FencingToken, Shards};
    use crate::turn::ClosedTurn;

    const DOOR: Door = Door::new("discord");

    fn term(range: Range) -> Term {
        Term { range, token: FencingToken(3) }
    }

    #[test]
    fn a_record_of_version_1_is_read_and_one_of_now_has_every_field_of_version_1() {
        let before = r#"{"state":"closed","posted":["discord:9"],"alone":true}"#;
        let read: Record = serde_json::from_str(before).unwrap();
        assert_eq!((read.version, &read.owner), (1, &None));
        let now = Record::new(Some(term(Range::Door(DOOR))), read.custody);
        let written = serde_json::to_string(&now).unwrap();
        let expected = r#"{"version":2,"owner":{"range":"discord","token":3},"state":"closed","posted":["discord:9"],"alone":true}"#;
        assert_eq!(written, expected);
        assert_eq!(serde_json::from_str::<Record>(&written).unwrap(), now);
        assert_eq!(
            serde_json::from_str::<Custody>(&written).unwrap(),
            now.custody,
            "version 1 passes the new fields over"
        );
    }

    #[test]
    fn a_record_is_taken_up_by_owners_of_its_range_alone() {
        let closed = || Custody::Closed(ClosedTurn { posted: Vec::new(), alone: false });
        let half = |first| Range::Shards(DOOR, Shards { first, last: first, of: 2 });
        let of = |owner| Record::new(owner, closed());
        assert!(
            of(Some(term(half(0)))).is_within(&DOOR, &[half(0)])
                && !of(Some(term(half(0)))).is_within(&DOOR, &[half(1)])
        );
        assert!(of(Some(term(half(0)))).is_within(&DOOR, &[Range::Door(DOOR)]));
        assert!(of(None).is_within(&DOOR, &[half(1)]) && !of(None).is_within(&DOOR, &[]));
        assert!(!of(Some(term(Range::Door(DOOR)))).is_within(&DOOR, &[Range::Door(Door::new("terminal"))]));
    }
}
