//! The record of a turn as the journal stores it: the state of the turn, its owner and the version of the record
//! format.
//!
//! Records stay readable one program version back and one forward: new versions add fields, never rename or remove
//! them, and ignore unknown ones. Version 1 had neither `version` nor `owner`.

use serde::{Deserialize, Serialize};

use crate::ids::Door;
use crate::ownership::{Portions, Term};
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

    /// True if a process with these portions of the work resumes this open turn of the door. Exactly one range has the
    /// turns of a community, for any earlier owner.
    #[must_use]
    pub fn is_within(&self, door: &Door, portions: Portions) -> bool {
        let guild = match &self.custody {
            Custody::Open(open) => open.turn.guild.as_deref(),
            Custody::Closed(_) => None,
        };
        let owner = self.owner.as_ref().map(|term| term.range.door());
        owner.is_none_or(|owner| owner == door) && portions.has_guild(guild)
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
    use std::sync::Arc;

    use super::*;
    use crate::ownership::{FencingToken, Range, Shards};
    use crate::turn::OpenTurn;

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

    /// Returns the record of an open turn of this community.
    fn open(guild: Option<u64>, owner: Option<Range>) -> Record {
        let turn = serde_json::json!({
            "id": "discord:1", "place": "discord:2", "parent": null, "guild": guild.map(|guild| guild.to_string()),
            "person": "discord:7", "name": "Ada", "trigger": "mention", "text": "hello", "quoted": null, "at": 1,
            "policy": crate::turn::Policy::default(),
        });
        let turn: Turn = serde_json::from_value(turn).unwrap();
        Record::new(owner.map(term), Custody::Open(OpenTurn::new(Arc::new(turn), None)))
    }

    #[test]
    fn a_record_is_taken_up_by_the_owner_of_its_community_alone() {
        let part = |number, of| Range::Shards(DOOR, Shards { first: number, last: number, of });
        let earlier = [None, Some(Range::Door(DOOR)), Some(part(1, 2)), Some(part(0, 4)), Some(part(1, 3))];
        for owner in earlier {
            for guild in [None, Some(0), Some(1 << 22), Some(2 << 22), Some((5 << 22) + 9)] {
                let record = open(guild, owner.clone());
                let taker = |number: &u32| record.is_within(&DOOR, Portions::none(3).with(*number));
                let expected = u32::try_from((guild.unwrap_or(0) >> 22) % 3).unwrap();
                assert_eq!((0..3).filter(taker).collect::<Vec<_>>(), [expected], "{owner:?} {guild:?}");
                assert!(record.is_within(&DOOR, Portions::WHOLE) && !record.is_within(&DOOR, Portions::none(3)));
            }
        }
        let other = open(None, Some(Range::Door(Door::new("terminal"))));
        assert!(!other.is_within(&DOOR, Portions::WHOLE));
    }
}
